"""Quantising and evaluating: part of the Python side; `npuforge.api` offers all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from npuforge.errors import UsageError
from npuforge.explore.price import TargetPrice
from npuforge.graph import Graph, short_name
from npuforge.quantize import (
    USUAL,
    AuditFinding,
    Bounds,
    EndType,
    EngineName,
    Granularity,
    Grouping,
    Precision,
    RangeMethod,
    Reference,
    Remedies,
    Scheme,
    Search,
    Sensitivity,
    Session,
    Survey,
    ToolName,
    ZeroPoints,
    audit,
    calibrate,
    prepared,
    quantize,
    quantize_with,
    search,
    sensitivities,
    survey,
)
from npuforge.report.quantization import QuantizedFile, check_outputs, write_quantized
from npuforge.targets import load_target
from npuforge.tasks import Dataset, Preprocessing, load_preprocessing, open_dataset

PathLike = str | os.PathLike[str]
Tick = Callable[[str, int, int], None]
Choice = TypeVar("Choice", bound=StrEnum)


def choice(kind: type[Choice], option: str, name: str) -> Choice:
    """A member of an enumeration by name.

    Raises:
        UsageError: there is none with this name.
    """
    try:
        return kind(name)
    except ValueError:
        raise UsageError("QNT-009", option=option, name=name, known=", ".join(kind)) from None


AUTO = "auto"
"""The range method that is no method: whichever does best."""


def _method(name: str) -> RangeMethod:
    if name == AUTO:
        return Scheme().method
    try:
        return RangeMethod(name)
    except ValueError:
        known = ", ".join((AUTO, *RangeMethod))
        raise UsageError("QNT-009", option="--method", name=name, known=known) from None


def quantize_model(
    model: PathLike,
    output: PathLike | None = None,
    *,
    data: Sequence[PathLike],
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    method: str = "auto",
    percentile: float = 99.99,
    weights: str = "channel",
    zero_points: str = "free",
    activations: str = "int8",
    inputs: str = "int8",
    outputs: str = "int8",
    equalise: bool = False,
    round_weights: bool = False,
    correct_bias: bool | None = None,
    int4: Sequence[str] = (),
    samples: int = 200,
    engine: str = "own",
    state: PathLike | None = None,
    measured_on: int = 32,
    tool: str = "npuforge",
    fix_shape: Sequence[str] = (),
    force: bool = False,
    tick: Tick | None = None,
) -> tuple[Session, QuantizedFile | None]:
    """Make an integer network of a float one, from calibration data.

    Args:
        model: float TFLite or ONNX file.
        output: file to write, ending in .tflite or .onnx; None only reports.
        data: folders of pictures or recordings, such files, .npy, .npz or .csv.
        preprocess: TOML declaration of the preprocessing of pictures.
        image_range: instead of a declaration: what black and white are, 0..1, -1..1 or 0..255.
        method: how ranges are chosen, see `RangeMethod`; "auto": the method, and of a small network
            the remedies too where none is asked for, that do best on calibration samples kept
            apart, see `choose`.
        percentile: for the method of that name.
        weights: a scale a "channel" or a "tensor".
        zero_points: "free", or "npu": -128 or 0 where convolutions read.
        activations: "int8", or "int16" for 16x8.
        inputs, outputs: element types at the ends: "int8", "uint8" or "float".
        equalise: balance channels across pairs of layers first.
        round_weights: round weights for the least error of each layer's output.
        correct_bias: change biases so that the layers' means stay; None: where npuforge quantises.
        int4: convolutions and dense layers whose weights get 4 bits, by name; "all": every one.
        samples: at most so many samples, spread over all of the data.
        engine: who runs the float network: "own" or "onnxruntime".
        state: file from which an interrupted calibration goes on.
        measured_on: samples on which the result is compared with the float network.
        tool: who quantises: "npuforge", or for comparison "ai-edge-quantizer" or "onnxruntime",
            where they are installed; they choose the types at the ends.
        fix_shape: see `run_model`.
        force: replace existing files.
        tick: told what is being done, how much of it is done, and of how much.

    Raises:
        NpuforgeError: the model, the data or the output cannot be used.
    """
    scheme = Scheme(
        method=_method(method),
        percentile=percentile,
        weights=choice(Granularity, "--weights", weights),
        zero_points=choice(ZeroPoints, "--zero-points", zero_points),
        inputs=choice(EndType, "--inputs", inputs),
        outputs=choice(EndType, "--outputs", outputs),
        base=choice(Precision, "--activations", activations),
    )
    chosen = choice(EngineName, "--engine", engine)
    by = choice(ToolName, "--tool", tool)
    if not 0 < percentile <= 100:
        raise UsageError("QNT-010", value=percentile)
    path = None if output is None else Path(output)
    if path is not None:
        check_outputs(path, replace=force)
    graph, found = float_data(model, data, preprocess, image_range, fix_shape)
    if int4:
        scheme = replace(scheme, int4=_narrow(prepared(graph), int4))
    asked = equalise or round_weights or correct_bias is not None
    remedies = Remedies(
        equalise, round_weights, USUAL.correct if correct_bias is None else correct_bias
    )
    calibration = found.spread(samples)
    if by is not ToolName.OWN:
        if equalise or round_weights or correct_bias:
            what = "--equalise, --round, --correct-bias"
            raise UsageError("QNT-012", tool=by, what=what, known="--method")
        if method == AUTO:
            scheme = replace(scheme, method=RangeMethod.MINMAX)
        made = quantize_with(by, graph, calibration, scheme, measured_on=measured_on, tick=tick)
    else:
        made = quantize(
            graph,
            calibration,
            scheme,
            engine=chosen,
            state=None if state is None else Path(state),
            measured_on=measured_on,
            remedies=remedies if asked or method != AUTO else None,
            choose=method == AUTO,
            tick=tick,
        )
    return made, None if path is None else write_quantized(made, found, path)


_NARROW = ("conv2d", "fully_connected")
"""Operators whose weights may have 4 bits; TFLite knows no depthwise ones."""


def _narrow(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    """Nodes whose weights get 4 bits."""
    known = {node.name: short_name(node.name) for node in graph.nodes if node.op in _NARROW}
    if "all" in names:
        return frozenset(known)
    chosen = {node for node, short in known.items() if node in names or short in names}
    for name in names:
        if name not in chosen and name not in {known[node] for node in chosen}:
            raise UsageError("QNT-013", name=name, known=", ".join(known.values()))
    return frozenset(chosen)


def float_data(
    model: PathLike,
    data: Sequence[PathLike],
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    fix_shape: Sequence[str] = (),
) -> tuple[Graph, Dataset]:
    """A network and samples of its inputs; see `quantize_model`."""
    from npuforge import api

    graph = api.load_graph(model, None, fix_shape)
    return graph, samples_of(graph, data, preprocess, image_range)


def samples_of(
    graph: Graph,
    data: Sequence[PathLike],
    preprocess: PathLike | None,
    image_range: str | None,
) -> Dataset:
    """Samples of a network's inputs; see `quantize_model`."""
    from npuforge import api

    pre = Preprocessing()
    if preprocess is not None:
        pre = load_preprocessing(Path(preprocess))
    elif image_range is not None:
        span = api.parse_image_range(image_range)
        assert span is not None
        pre = Preprocessing.of_range(span)
    return open_dataset([Path(item) for item in data], graph, pre)


def audit_data(
    model: PathLike,
    *,
    data: Sequence[PathLike],
    validate: Sequence[PathLike] = (),
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    samples: int = 200,
    engine: str = "own",
    fix_shape: Sequence[str] = (),
    tick: Tick | None = None,
) -> tuple[tuple[AuditFinding, ...], Survey, Survey | None]:
    """Judge calibration samples: how many, repeated, of one class, scaled or ordered otherwise.

    Args:
        model: float TFLite, ONNX or Keras file.
        data: calibration samples; see `quantize_model`.
        validate: other samples, as the network will see them; without them scale, colour order,
            drift and ranges cannot be judged.
        preprocess, image_range, fix_shape: see `quantize_model`; of both sets.
        samples: at most so many of each.
        engine: who runs the float network.
        tick: see `quantize_model`.

    Raises:
        NpuforgeError: the model or the data cannot be used.
    """
    say = tick or (lambda what, done, total: None)
    chosen = choice(EngineName, "--engine", engine)
    graph, found = float_data(model, data, preprocess, image_range, fix_shape)
    ready = prepared(graph)

    def looked(what: str, chosen_data: Dataset) -> Survey:
        return survey(
            ready,
            chosen_data.spread(samples),
            engine=chosen,
            tick=lambda done, total: say(what, done, total),
        )

    own = looked("looking at samples", found)
    reference = None
    if validate:
        others = open_dataset([Path(item) for item in validate], graph, found.pre)
        reference = looked("looking at other samples", others)
    return audit(own, reference), own, reference


def tune_model(
    model: PathLike,
    output: PathLike | None = None,
    *,
    data: Sequence[PathLike],
    validate: Sequence[PathLike] = (),
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    max_drop: float = 0.01,
    max_ms: float | None = None,
    target: str = "stm32n6570-dk",
    clock: str = "nominal",
    inputs: str = "int8",
    outputs: str = "int8",
    samples: int = 200,
    validated_on: int = 500,
    engine: str = "own",
    thorough: bool = False,
    fix_shape: Sequence[str] = (),
    force: bool = False,
    tick: Tick | None = None,
) -> tuple[Search, QuantizedFile | None]:
    """Search for a quantisation that loses little and costs little on a board.

    Args:
        model: float TFLite, ONNX or Keras file.
        output: file to write, ending in .tflite or .onnx; None only reports.
        data: calibration samples; see `quantize_model`.
        validate: samples that quality is measured on, with labels if it is to be accuracy;
            default: the calibration samples.
        preprocess, image_range: see `quantize_model`.
        max_drop: most that the quality may fall below the float network's, 0..1.
        max_ms: most milliseconds of one inference on the target.
        target: board whose time and memory count.
        clock: its operating point.
        inputs, outputs: element types at the ends: "int8", "uint8" or "float".
        samples: at most so many calibration samples.
        validated_on: at most so many samples that quality is measured on.
        engine: who runs the float network while it is observed.
        thorough: go on with what costs nothing on the target when the bounds hold already.
        fix_shape: see `run_model`.
        force: replace existing files.
        tick: see `quantize_model`.

    Raises:
        NpuforgeError: the model, the data or the output cannot be used, or a bound is none.
    """
    from npuforge import api

    if not 0 <= max_drop < 1 or (max_ms is not None and not max_ms > 0):
        raise UsageError("QNT-011", drop=max_drop, ms=max_ms)
    ends = choice(EndType, "--inputs", inputs), choice(EndType, "--outputs", outputs)
    chosen = choice(EngineName, "--engine", engine)
    board = load_target(target)
    point = board.operating_points[api.check_clock(board, clock)]
    if max_ms is not None and not board.has_neural_art:
        raise UsageError("CST-006", target=board.name)
    path = None if output is None else Path(output)
    if path is not None:
        check_outputs(path, replace=force)
    graph, found = float_data(model, data, preprocess, image_range, fix_shape)
    judged = None
    if validate:
        judged = open_dataset([Path(item) for item in validate], graph, found.pre)
        judged = judged.spread(validated_on)
    made = search(
        graph,
        found.spread(samples),
        Bounds(max_drop, max_ms),
        Scheme(inputs=ends[0], outputs=ends[1]),
        validation=judged,
        pricing=TargetPrice(board, point),
        thorough=thorough,
        engine=chosen,
        tick=tick,
    )
    return made, None if path is None else write_quantized(made.session, found, path)


def layer_sensitivity(
    model: PathLike,
    *,
    data: Sequence[PathLike],
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    method: str = "mse",
    activations: str = "int8",
    group: str = "layer",
    samples: int = 64,
    measured_on: int = 32,
    fix_shape: Sequence[str] = (),
    tick: Tick | None = None,
) -> tuple[Sensitivity, ...]:
    """How much each layer alone loses in integers, the most harmful first.

    Args:
        model: float TFLite, ONNX or Keras file.
        data: calibration samples, with labels if accuracy is to count.
        preprocess, image_range, method: see `quantize_model`.
        activations: what layers are tried in: "int8" or "int16".
        group: what is tried at once: "layer", "block" or "operator".
        samples: at most so many calibration samples.
        measured_on: at most so many samples that quality is measured on.
        fix_shape: see `run_model`.
        tick: see `quantize_model`.

    Raises:
        NpuforgeError: the model or the data cannot be used.
    """
    say = tick or (lambda what, done, total: None)
    scheme = Scheme(
        method=choice(RangeMethod, "--method", method),
        base=choice(Precision, "--activations", activations),
    )
    grouping = choice(Grouping, "--group", group)
    graph, found = float_data(model, data, preprocess, image_range, fix_shape)
    ready = prepared(graph)
    seen = calibrate(
        ready,
        found.spread(samples),
        tick=lambda done, total: say("calibrating", done, total),
    )
    return sensitivities(
        Reference.of(ready, found.spread(measured_on)),
        seen.ranges(ready, scheme),
        scheme,
        grouping=grouping,
        tick=lambda done, total: say("ranking layers", done, total),
    )

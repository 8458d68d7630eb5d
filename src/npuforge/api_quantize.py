"""Quantising and evaluating: part of the Python side; `npuforge.api` offers all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from npuforge.errors import UsageError
from npuforge.graph import Graph
from npuforge.quantize import (
    EndType,
    EngineName,
    Granularity,
    Precision,
    RangeMethod,
    Remedies,
    Scheme,
    Session,
    ZeroPoints,
    quantize,
)
from npuforge.report.quantization import QuantizedFile, check_outputs, write_quantized
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


def quantize_model(
    model: PathLike,
    output: PathLike | None = None,
    *,
    data: Sequence[PathLike],
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    method: str = "mse",
    percentile: float = 99.99,
    weights: str = "channel",
    zero_points: str = "free",
    activations: str = "int8",
    inputs: str = "int8",
    outputs: str = "int8",
    equalise: bool = False,
    round_weights: bool = False,
    correct_bias: bool = False,
    samples: int = 200,
    engine: str = "own",
    state: PathLike | None = None,
    measured_on: int = 32,
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
        method: how ranges are chosen, see `RangeMethod`.
        percentile: for the method of that name.
        weights: a scale a "channel" or a "tensor".
        zero_points: "free", or "npu": -128 or 0 where convolutions read.
        activations: "int8", or "int16" for 16x8.
        inputs, outputs: element types at the ends: "int8", "uint8" or "float".
        equalise: balance channels across pairs of layers first.
        round_weights: round weights for the least error of each layer's output.
        correct_bias: change biases so that the layers' means stay.
        samples: at most so many samples, spread over all of the data.
        engine: who runs the float network: "own" or "onnxruntime".
        state: file from which an interrupted calibration goes on.
        measured_on: samples on which the result is compared with the float network.
        fix_shape: see `run_model`.
        force: replace existing files.
        tick: told what is being done, how much of it is done, and of how much.

    Raises:
        NpuforgeError: the model, the data or the output cannot be used.
    """
    scheme = Scheme(
        method=choice(RangeMethod, "--method", method),
        percentile=percentile,
        weights=choice(Granularity, "--weights", weights),
        zero_points=choice(ZeroPoints, "--zero-points", zero_points),
        inputs=choice(EndType, "--inputs", inputs),
        outputs=choice(EndType, "--outputs", outputs),
        base=choice(Precision, "--activations", activations),
    )
    chosen = choice(EngineName, "--engine", engine)
    if not 0 < percentile <= 100:
        raise UsageError("QNT-010", value=percentile)
    path = None if output is None else Path(output)
    if path is not None:
        check_outputs(path, replace=force)
    graph, found = float_data(model, data, preprocess, image_range, fix_shape)
    made = quantize(
        graph,
        found.spread(samples),
        scheme,
        engine=chosen,
        state=None if state is None else Path(state),
        measured_on=measured_on,
        remedies=Remedies(equalise, round_weights, correct_bias),
        tick=tick,
    )
    return made, None if path is None else write_quantized(made, found, path)


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
    pre = Preprocessing()
    if preprocess is not None:
        pre = load_preprocessing(Path(preprocess))
    elif image_range is not None:
        span = api.parse_image_range(image_range)
        assert span is not None
        pre = Preprocessing.of_range(span)
    return graph, open_dataset([Path(item) for item in data], graph, pre)

"""Optimising and linting: part of the Python side; `npuforge.api` offers all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from npuforge.errors import UsageError
from npuforge.explore.judge import TargetJudge
from npuforge.graph import Graph
from npuforge.lint import LintFinding, lint_file
from npuforge.passes import Optimization, calibrated_inputs, optimize
from npuforge.report.optimization import Written, check_outputs, choose_passes, write_optimized
from npuforge.targets import load_target
from npuforge.tasks import load_samples

PathLike = str | os.PathLike[str]
Tick = Callable[[str], None]


def optimize_model(
    model: PathLike,
    output: PathLike | None = None,
    *,
    target: str = "stm32n6570-dk",
    clock: str = "nominal",
    passes: Sequence[str] = (),
    skip: Sequence[str] = (),
    cut: bool = False,
    data: Sequence[PathLike] = (),
    random_samples: int | None = None,
    image_range: str | None = None,
    limit: float = 0.05,
    insist: bool = False,
    contract: str | None = None,
    fix_shape: Sequence[str] = (),
    force: bool = False,
    tick: Tick | None = None,
) -> tuple[Optimization, Written | None]:
    """Rewrite a model so that more of it runs on the NPU, each rewrite measured on data.

    Args:
        model: TFLite or ONNX file.
        output: file to write, ending in .tflite or .onnx; None only reports.
        target: board, whose placement and time say what pays.
        clock: its operating point.
        passes: only these passes; all that keep inputs and outputs when empty.
        skip: none of these passes.
        cut: also move conversions and CPU work at the network's ends into the application.
        data: input files everything is measured on too; see `run_model`.
        random_samples: number of random samples over the quantised ranges; 4, or 2 beside data.
        image_range, contract, fix_shape: see `run_model`.
        limit: largest relative difference of the outputs that bounded passes may add up to.
        insist: apply passes whether they pay or not.
        force: replace existing files.
        tick: called with the name of each pass as it begins.

    Raises:
        NpuforgeError: the model, the data or the output cannot be used.
    """
    from npuforge import api

    board = load_target(target)
    judge = TargetJudge(board, board.operating_points[api.check_clock(board, clock)])
    choice = choose_passes(passes, skip, cut)
    path = None if output is None else Path(output)
    if path is not None:
        check_outputs(path, replace=force)
    graph = api.load_graph(model, contract, fix_shape)
    count = (2 if data else 4) if random_samples is None else random_samples
    samples = calibrated_inputs(graph, count, api.SEED)
    if data:
        span = api.parse_image_range(image_range)
        given = load_samples([Path(item) for item in data], graph, image_range=span)
        samples += [dict(sample) for sample in given.samples]
    if not samples:
        raise UsageError("VAL-002")
    made = optimize(graph, *choice, samples, judge, limit=limit, insist=insist, tick=tick)
    return made, None if path is None else write_optimized(made, samples, path, judge)


def lint_model(
    model: PathLike,
    data: Sequence[PathLike] = (),
    *,
    image_range: str | None = None,
    fix_shape: Sequence[str] = (),
    graph: Graph | None = None,
) -> tuple[LintFinding, ...]:
    """What in a model will make trouble on Neural-ART, errors first.

    A model that npuforge cannot read is looked at as far as its file goes.

    Args:
        model: TFLite or ONNX file.
        data: inputs on which ranges and accumulators are measured; see `run_model`.
        image_range, fix_shape: see `run_model`.
        graph: the model as it was read already.
    """
    from npuforge import api

    paths = [Path(item) for item in data]
    span, shapes = api.parse_image_range(image_range), api.parse_shapes(fix_shape)
    return lint_file(Path(model), paths, shapes=shapes, image_range=span, graph=graph)

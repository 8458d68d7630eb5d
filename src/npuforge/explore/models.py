"""Several networks on one board: one row a file, so that a backbone is chosen by what fits."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from os import PathLike

from npuforge.errors import NpuforgeError
from npuforge.explore.boards import BoardResult, board_result
from npuforge.graph import macs
from npuforge.importers import Shapes, load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import Target


@dataclass(frozen=True)
class ModelResult:
    """A network on the board.

    Attributes:
        path: model file.
        why: why the file cannot be read, "" when it can; all that follows is then empty.
        nodes: of the graph.
        macs: multiply-accumulates of one inference.
        board: fit, memory, shares and time; None when the file cannot be read.
        epochs: predicted hardware, hybrid and software epochs; None without Neural-ART.
        worst: rule of the costliest fallback, "" when nothing leaves the NPU.
    """

    path: str
    why: str
    nodes: int
    macs: int
    board: BoardResult | None
    epochs: tuple[int, int, int] | None
    worst: str


def compare_models(
    paths: Iterable[str | PathLike[str]],
    target: Target,
    *,
    shapes: Shapes | None = None,
    cpu: Collection[str] = (),
    integer_io: bool = False,
) -> tuple[ModelResult, ...]:
    """One row a model file, in the order given; a file that cannot be read is a row that says why.

    Args:
        paths: TFLite or ONNX files.
        target: the board.
        shapes: what takes the place of free dimensions; see `load_model`.
        cpu: operators forced to the CPU in every network; see `map_to_npu`.
        integer_io: see `map_to_npu`.
    """
    return tuple(_one(str(path), target, shapes, cpu, integer_io) for path in paths)


def _one(
    path: str, target: Target, shapes: Shapes | None, cpu: Collection[str], integer_io: bool
) -> ModelResult:
    try:
        graph = load_model(path, shapes)
        npu, epochs, worst = None, None, ""
        if target.has_neural_art:
            npu = map_to_npu(graph, cpu=cpu, integer_io=integer_io)
            epochs = (npu.hardware_epochs, npu.hybrid_epochs, npu.software_epochs)
            worst = npu.fallbacks[0].rule if npu.fallbacks else ""
        board = board_result(graph, target, npu)
    except NpuforgeError as error:
        return ModelResult(path, str(error), 0, 0, None, None, "")
    work = sum(macs(graph, node) for node in graph.nodes)
    return ModelResult(path, "", len(graph.nodes), work, board, epochs, worst)

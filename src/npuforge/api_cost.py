"""Time and energy on the Python side: one function a verb of the cost and explore rooms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from npuforge.api import PathLike, npu_mapping
from npuforge.artefacts.epoch_times import MeasuredKind, read_epoch_times
from npuforge.artefacts.log_text import read_log
from npuforge.artefacts.tool_log import read_tool_log
from npuforge.cost import (
    DEFAULT_RELEASE,
    NpuCost,
    activation_limits,
    compiler_rules,
    epoch_works,
    load_calibration,
    place_activations,
    read_calibration,
)
from npuforge.cost.calibrate import Fit, Observation
from npuforge.cost.calibrate import fit as fit_constants
from npuforge.cost.energy import Level, NetworkEnergy, network_energy
from npuforge.cost.explain import Explanation, PrefetchPlan, prefetch_plan, why_slower
from npuforge.cost.measured import Comparison, compare_measured
from npuforge.cost.neural_art import cost_of_works
from npuforge.cost.points import operating_point
from npuforge.errors import UsageError, ValidationError
from npuforge.explore.resolution import parse_size
from npuforge.explore.search import Exploration, explore
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint, Target, load_target


@dataclass(frozen=True)
class ModelCost:
    """Everything the cost room says of a model.

    Attributes:
        graph: the network.
        target: the board.
        cost: time of each epoch.
        board: energy as a USB meter sees it above an idle board.
        core: energy of the core's supply.
        why: distance to the best possible.
        prefetch: weights ranked by what RAM would save.
        at_points: the same network at the target's operating points.
    """

    graph: Graph
    target: Target
    cost: NpuCost
    board: NetworkEnergy
    core: NetworkEnergy
    why: Explanation
    prefetch: PrefetchPlan
    at_points: tuple[NpuCost, ...]

    def point_energies(self) -> tuple[tuple[NpuCost, float], ...]:
        """The network at each operating point, with the core's microjoules."""
        return tuple((cost, network_energy(cost, Level.CORE).total.uj) for cost in self.at_points)


def parse_measurement(text: str) -> tuple[Path, Path | float]:
    """Model and report, or milliseconds, from MODEL=REPORT or MODEL=12.3.

    Raises:
        UsageError: neither.
    """
    model, mark, source = text.rpartition("=")
    if not mark or not model or not source:
        raise UsageError("CST-007", text=text)
    try:
        ms = float(source)
    except ValueError:
        return Path(model), Path(source)
    if not 0 < ms < 1e7:
        raise UsageError("CST-007", text=text)
    return Path(model), ms


def model_cost(
    model: PathLike,
    target: str,
    *,
    clock: str = "nominal",
    compiler: str = DEFAULT_RELEASE,
    controller: bool = True,
    calibration: PathLike | None = None,
    integer_io: bool = False,
    cpu: Sequence[str] = (),
) -> ModelCost:
    """Time, energy and bottlenecks of a model on Neural-ART, and what would make it faster.

    Args:
        model: TFLite or ONNX file.
        target: a board with a Neural-ART.
        clock: see `npuforge.cost.points.operating_point`.
        compiler: release of ST Edge AI Core.
        controller: the epoch controller runs hardware epochs.
        calibration: a file that `calibrate` wrote; default: the one that comes with npuforge.
        integer_io: network inputs and outputs stay integers.
        cpu: nodes or operators forced to the CPU.

    Raises:
        NpuforgeError: the model cannot be read, the target has no Neural-ART, a bad option.
    """
    board = load_target(target)
    point = operating_point(board, clock)
    graph = load_model(Path(model))
    npu = npu_mapping(graph, board, cpu=cpu, integer_io=integer_io)
    if npu is None:
        raise UsageError("CST-006", target=board.name)
    constants = read_calibration(Path(calibration)) if calibration else load_calibration()
    works = epoch_works(graph, npu.placements, compiler_rules(compiler))
    near, internal = activation_limits(board)
    where = place_activations(graph, works, near, internal)
    cost = cost_of_works(works, where, point, constants, compiler, controller)
    others = tuple(board.operating_points.values())
    room = max(0, internal - min(where.peak, internal))
    return ModelCost(
        graph, board, cost, network_energy(cost, Level.BOARD), network_energy(cost, Level.CORE),
        why_slower(graph, npu.placements, cost, others), prefetch_plan(cost, room),
        tuple(
            cost_of_works(works, where, other, constants, compiler, controller)
            for other in others
        ),
    )  # fmt: skip


def measured_against(cost: NpuCost, log: PathLike) -> Comparison:
    """A board's report or per-epoch log beside the estimate.

    Raises:
        ValidationError: the log holds no epoch times.
    """
    return compare_measured(cost, read_epoch_times(read_log(Path(log))))


def calibrate(
    pairs: Sequence[tuple[PathLike, PathLike | float]],
    target: str,
    *,
    clock: str = "nominal",
    compiler: str | None = None,
    controller: bool = True,
    integer_io: bool = False,
) -> Fit:
    """Fit the constants of the cost model to a user's own measured reports.

    Args:
        pairs: model file, and its report or its time in milliseconds.
        target: the board they ran on.
        clock: the clocks they ran at; clocks that a report states win.
        compiler: release; default: what the report states, else the newest known.
        controller: the epoch controller was used.
        integer_io: network inputs and outputs stayed integers.

    Raises:
        NpuforgeError: a model or report that cannot be read, or that states no time.
    """
    board = load_target(target)
    start = load_calibration()
    observations = []
    for model, source in pairs:
        ms, release, point, blocks = _measured_time(source, operating_point(board, clock))
        release = compiler or release or DEFAULT_RELEASE
        graph = load_model(Path(model))
        placements = map_to_npu(graph, integer_io=integer_io).placements
        works = epoch_works(graph, placements, compiler_rules(release))
        where = place_activations(graph, works, *activation_limits(board))
        observations.append(
            Observation(
                *(Path(model).name, Path(model).stem, works, where, point, release),
                controller=controller if blocks is None else blocks,
                ms=ms,
            )
        )
    if not observations:
        raise UsageError("CST-007")
    return fit_constants(observations, start)


def _measured_time(
    source: PathLike | float, point: OperatingPoint
) -> tuple[float, str, OperatingPoint, bool | None]:
    """Milliseconds, release, clocks and use of the epoch controller, as far as a source says."""
    if isinstance(source, int | float):
        return float(source), "", point, None
    log = read_log(Path(source))
    facts, epochs = read_tool_log(log), read_epoch_times(log)
    ms = facts.duration_ms or sum(epoch.ms for epoch in epochs)
    if not ms:
        raise ValidationError("CST-003")
    stated = facts.clocks
    point = replace(
        point,
        cpu_mhz=float(stated.get("mcu_freq") or point.cpu_mhz),
        npu_mhz=float(stated.get("npu_freq") or point.npu_mhz),
    )
    kinds = {epoch.kind for epoch in epochs}
    blocks = MeasuredKind.CONTROLLER in kinds if epochs else None
    return ms, facts.version, point, blocks


def explore_model(
    model: PathLike,
    target: str,
    *,
    clocks: Sequence[str] = (),
    compiler: str = DEFAULT_RELEASE,
    max_ms: float | None = None,
    max_ram: int | None = None,
    sizes: Sequence[str] = (),
) -> Exploration:
    """The Pareto front of time, energy and memory over clocks, backend, placement and prefetch.

    Args:
        model: TFLite or ONNX file.
        target: board with a Neural-ART.
        clocks: operating points; default: all of the board.
        compiler: release of ST Edge AI Core.
        max_ms: leave out what is slower.
        max_ram: leave out what takes more bytes of on-chip RAM.
        sizes: image sizes to try, such as "192" or "256x320" (rows x columns), each with a front
            of its own; default: the network's.

    Raises:
        NpuforgeError: the model cannot be read, the target has no Neural-ART, a bad option, or the
            network cannot take images of a size.
    """
    board = load_target(target)
    if not board.has_neural_art:
        raise UsageError("CST-006", target=board.name)
    points = tuple(operating_point(board, clock) for clock in clocks)
    return explore(
        load_model(Path(model)), board, points=points, release=compiler, max_ms=max_ms,
        max_ram=max_ram, sizes=[parse_size(size) for size in sizes],
    )  # fmt: skip

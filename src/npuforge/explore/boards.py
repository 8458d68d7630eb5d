"""One network on several boards: whether it fits, what its NPU takes, how long it may take."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from npuforge.cost import npu_cost
from npuforge.errors import NpuforgeError
from npuforge.graph import Graph
from npuforge.lowering import lower
from npuforge.mapping import NpuMapping, map_graph, map_to_npu
from npuforge.memory import plan_memory, verify_plan
from npuforge.targets import Target, Use, load_target, target_names


@dataclass(frozen=True)
class BoardResult:
    """A network on one board.

    Attributes:
        target: name of the board.
        title: its title.
        npu: accelerator beside the CPU, "" when there is none.
        fits: whether the plan holds; the plan is that of the `cpu` backend.
        why: what did not fit, "" when it does.
        weight_bytes: constants; None when it does not fit.
        activation_bytes: peak of activations; None when it does not fit.
        external_bytes: part of the activations that lies outside of the chip.
        internal_size: activation memory on the chip, bytes.
        node_share: nodes on the NPU, 0 to 1; None where we have no rules for it.
        mac_share: multiply-accumulates on the NPU; None likewise.
        ms: estimated milliseconds at the nominal operating point; None likewise.
    """

    target: str
    title: str
    npu: str
    fits: bool
    why: str
    weight_bytes: int | None
    activation_bytes: int | None
    external_bytes: int
    internal_size: int
    node_share: float | None
    mac_share: float | None
    ms: float | None


def compare_targets(
    graph: Graph,
    targets: Iterable[Target] | None = None,
    *,
    cpu: Collection[str] = (),
    integer_io: bool = False,
) -> tuple[BoardResult, ...]:
    """`compare_boards`, by default over all boards that come with npuforge.

    Raises:
        UsageError: a name in `cpu` fits no node and no operator of the graph.
    """
    boards = map(load_target, target_names()) if targets is None else targets
    return compare_boards(graph, boards, cpu=cpu, integer_io=integer_io)


def compare_boards(
    graph: Graph, targets: Iterable[Target], *, cpu: Collection[str] = (), integer_io: bool = False
) -> tuple[BoardResult, ...]:
    """The network on every board: those it fits first, then by time, then by memory.

    Args:
        graph: the network.
        targets: the boards.
        cpu: nodes and operators forced to the CPU; see `map_to_npu`.
        integer_io: see `map_to_npu`.
    """
    boards = tuple(targets)
    npu = None
    if any(board.has_neural_art for board in boards):
        npu = map_to_npu(graph, cpu=cpu, integer_io=integer_io)
    results = [board_result(graph, target, npu) for target in boards]
    inf = float("inf")
    results.sort(
        key=lambda r: (
            not r.fits,
            r.external_bytes > 0,
            inf if r.ms is None else r.ms,
            -r.internal_size,
            r.target,
        )
    )
    return tuple(results)


def board_result(graph: Graph, target: Target, npu: NpuMapping | None) -> BoardResult:
    """The network on one board.

    Args:
        graph: the network.
        target: the board.
        npu: the network's placement on Neural-ART; may be None for a board without one.
    """
    why, weights, activations, external = "", None, None, 0
    try:
        schedule = lower(graph, map_graph(graph, target), target)
        plan = plan_memory(schedule, target)
        verify_plan(schedule, plan, target)
        weights, activations = int(plan.image.size), plan.activation_bytes
        outside = {pool.name for pool in target.pools if pool.external}
        external = sum(region.used for region in plan.regions if region.name in outside)
    except NpuforgeError as error:
        why = str(error)
    share = work = ms = None
    if npu is not None and target.has_neural_art:
        share, work = npu.node_share, npu.mac_share
        ms = npu_cost(graph, npu.placements, target.operating_points["nominal"]).ms
    return BoardResult(
        target.name,
        target.title,
        target.accelerators[1] if target.has_npu else "",
        not why,
        why,
        weights,
        activations,
        external,
        sum(pool.size for pool in target.pools_for(Use.ACTIVATIONS) if not pool.external),
        share,
        work,
        ms,
    )

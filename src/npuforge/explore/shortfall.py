"""What to do when a network does not fit: remedies, each planned, each with its effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from npuforge.cost import (
    DEFAULT_RELEASE,
    activation_limits,
    compiler_rules,
    epoch_works,
    load_calibration,
    place_activations,
)
from npuforge.cost.neural_art import cost_of_works
from npuforge.errors import PlanError, UsageError
from npuforge.explore.fit import limited, on_chip, tiling_ms
from npuforge.explore.order import best_order
from npuforge.explore.resolution import at_resolution, image_size
from npuforge.explore.system import load_models
from npuforge.explore.tiling import FEW, tile_into, tile_least
from npuforge.graph import Graph
from npuforge.lowering import BufferKind, Schedule, lower
from npuforge.mapping import map_graph, map_to_npu
from npuforge.memory.layout import layout_system, remaining
from npuforge.memory.plan import plan_memory
from npuforge.memory.shortfall import (
    Shortfall,
    buffers_alive,
    by_step,
    bytes_needed,
    find_shortfall,
)
from npuforge.memory.system import SystemDescription
from npuforge.targets import Target, Use, load_target
from npuforge.vocab import DType

SIDES = (0.875, 0.75, 0.625, 0.5, 0.375, 0.25)
"""Factors of the input's sides that are tried."""


@dataclass(frozen=True)
class Remedy:
    """A change and what it does.

    Attributes:
        kind: "in place", "order", "pool", "tiling", "integers", "resolution" or "spill"; of two
            together "order + tiling", "resolution + tiling" or "integers + resolution".
        detail: what exactly, in words or names.
        planned: bytes of activations on the chip after it, as planned.
        fits: whether that is on the chip altogether.
        outside: bytes of activations in memory outside of the chip.
        ms: predicted milliseconds of one inference after it; None where there is no estimate.
        before_ms: the same if all of it were on the chip.
        added_ms: predicted milliseconds that it adds to an inference; None without an estimate.
    """

    kind: str
    detail: str
    planned: int
    fits: bool
    outside: int = 0
    ms: float | None = None
    before_ms: float | None = None
    added_ms: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """A network that does not fit the memory on the chip, and its remedies, best first.

    Attributes:
        network: its name.
        shortfall: what is missing, where, and what cannot be there together.
        remedies: best first.
        epoch: number of the predicted NPU epoch with the node of the peak, from 0; None without
            an NPU, or where the node is part of none.
    """

    network: str
    shortfall: Shortfall
    remedies: tuple[Remedy, ...]
    epoch: int | None = None

    def helps(self, *kinds: str) -> bool:
        """Whether a remedy of one of these kinds is enough."""
        return any(r.kind in kinds and r.fits for r in self.remedies)


def diagnose(name: str, graph: Graph, schedule: Schedule, target: Target) -> Diagnosis | None:
    """Why a network does not fit on the chip and what helps; None when it fits.

    Remedies: element-wise operators in place of an input that ends there; another order of the
    steps; memory of the system opened to activations; steps in stripes of rows; activations as int8
    where they are float; a smaller input, with all maps in proportion; the fewest bytes of buffers
    in memory outside of the chip, with the time that costs. Every one is planned. Where stripes
    alone are not enough, what is enough together: another order in stripes, a larger input in
    stripes than without, a larger input as int8. What keeps the network comes first, then by
    predicted time.

    Args:
        name: of the network.
        graph: the network.
        schedule: the same, lowered for the target.
        target: the board, or what is left of it.
    """
    inside = on_chip(target)
    capacity = sum(pool.size for pool in inside.pools_for(Use.ACTIVATIONS))
    if _planned(schedule, inside) is not None:
        return None
    found = [*_in_place(schedule, inside), *_order(schedule, inside), *_pool(schedule, inside)]
    found += [*_tiling(schedule, inside), *_integers(schedule, inside)]
    smaller = _resolution(graph, schedule, target, inside)
    found += [remedy for _, remedy in smaller]
    if not any(r.fits and r.kind in ("order", "tiling") for r in found):
        alone = max((side for side, _ in smaller), default=0.0)
        found += _together(graph, schedule, target, inside, alone)
    found += _spill(graph, schedule, target, inside, capacity)
    ranked = sorted(found, key=_rank)
    short = find_shortfall(schedule, capacity)
    return Diagnosis(name, short, tuple(ranked), _epoch(graph, target, short.node))


def _epoch(graph: Graph, target: Target, node: str) -> int | None:
    if not target.has_neural_art:
        return None
    epochs = map_to_npu(graph).epochs
    holds = (n for n, epoch in enumerate(epochs) if any(op.node == node for op in epoch.operations))
    return next(holds, None)


def diagnose_system(description: SystemDescription) -> tuple[Diagnosis, ...]:
    """The networks of a description that do not fit on the chip beside everything else.

    Raises:
        NpuforgeError: a file cannot be read, or even the rest of the system does not fit.
    """
    target = load_target(description.target)
    rest = layout_system(replace(description, models=()), target, [])
    left = remaining(target, rest.free)
    models = load_models(description, target)
    kept = []
    for model, entry in zip(models, description.models, strict=True):
        board = limited(left, entry.activations) if entry.activations else left
        found = diagnose(model.name, model.graph, model.schedule, board)
        if found is not None and not (
            found.helps("order") or (entry.tiling and found.helps("tiling", "order + tiling"))
        ):
            kept.append(found)
    return tuple(kept)


def _rank(remedy: Remedy) -> tuple[bool, bool, bool, bool, float, int]:
    """Changes of nothing but memory come before those that change the network, what stays on the
    chip before what leaves it; among them the predicted time counts, then bytes."""
    changes = any(kind in remedy.kind for kind in ("integers", "resolution"))
    added = remedy.added_ms
    return (not remedy.fits, remedy.outside > 0, changes, added is None, added or 0.0,
            remedy.planned)  # fmt: skip


def _planned(schedule: Schedule, target: Target) -> int | None:
    try:
        return plan_memory(schedule, target).activation_bytes
    except PlanError:
        return None


def _tried(kind: str, detail: str, schedule: Schedule, inside: Target) -> Remedy:
    planned = _planned(schedule, inside)
    need = bytes_needed(schedule)
    return Remedy(kind, detail, planned if planned is not None else need, planned is not None)


ELEMENT_WISE = frozenset(
    ("add", "sub", "mul", "div", "relu", "relu6", "relu_n1_to_1", "leaky_relu", "prelu", "logistic",
     "tanh", "hard_swish", "elu", "abs", "neg", "minimum", "maximum", "exp", "sqrt",
     "rsqrt", "quantize", "gelu")
)  # fmt: skip


def _in_place(schedule: Schedule, inside: Target) -> Iterator[Remedy]:
    """The output of an element-wise operator takes the buffer of an input that ends there."""
    home: dict[str, str] = {}
    lives = schedule.lifetimes
    for index, step in enumerate(schedule.steps):
        if step.op.lower() not in ELEMENT_WISE:
            continue
        outs = [op.buffer for op in step.operands if op.writes]
        ins = [op.buffer for op in step.operands if not op.writes and op.buffer in lives]
        for out in outs:
            same = [
                name
                for name in ins
                if lives[name].last == index
                and lives[out].first == index
                and schedule.buffers[name].nbytes == schedule.buffers[out].nbytes
                and schedule.buffers[name].kind is BufferKind.ACTIVATION
                and schedule.buffers[out].kind is BufferKind.ACTIVATION
            ]
            if same:
                home[out] = home.get(same[0], same[0])
    if not home:
        return
    steps = tuple(
        replace(
            step,
            operands=tuple(replace(op, buffer=home.get(op.buffer, op.buffer))
                           for op in step.operands),
        )
        for step in schedule.steps
    )  # fmt: skip
    buffers = {name: b for name, b in schedule.buffers.items() if name not in home}
    tensors = {
        name: replace(place, buffer=home.get(place.buffer, place.buffer))
        for name, place in schedule.tensors.items()
    }
    changed = replace(schedule, steps=steps, buffers=buffers, tensors=tensors)
    if bytes_needed(changed) < bytes_needed(schedule):
        made = _tried("in place", f"{len(home)} buffers", changed, inside)
        yield replace(made, added_ms=0.0)


def _order(schedule: Schedule, inside: Target) -> Iterator[Remedy]:
    """The order of the steps that needs the fewest bytes."""
    found = best_order(schedule)
    if found.after < found.before:
        known = "proved the least" if found.proved else f"no order below {found.bound}"
        detail = f"steps in another order, {known}"
        yield replace(_tried("order", detail, found.schedule, inside), added_ms=0.0)


def _pool(schedule: Schedule, inside: Target) -> Iterator[Remedy]:
    """The smallest memory of the system on the chip that is enough when activations may use it."""
    offered = [p for p in inside.pools_for(Use.SYSTEM) if not p.external and p.writable and p.size]
    for pool in sorted(offered, key=attrgetter("size", "name")):
        opened = replace(pool, use=Use.ACTIVATIONS)
        pools = tuple(opened if p is pool else p for p in inside.pools)
        detail = f"{pool.name}: {pool.size} bytes opened to activations"
        remedy = _tried("pool", detail, schedule, replace(inside, pools=pools))
        if remedy.fits:
            yield remedy
            return


def _tiling(schedule: Schedule, inside: Target) -> Iterator[Remedy]:
    """Runs of steps in stripes of rows, as few as are enough; else what takes the least."""
    made = tile_into(schedule, inside)
    tiling = made[0] if made is not None else tile_least(schedule, searches=FEW)
    if tiling is None:
        return
    share = tiling.recomputed / schedule.macs if schedule.macs else 0.0
    detail = (
        f"{len(tiling.stripes)} runs in stripes, {tiling.added_steps} more calls, "
        f"{share:.0%} of MACs recomputed"
    )
    planned = made[1].activation_bytes if made is not None else tiling.after
    point = inside.operating_points.get("nominal")
    added = None if point is None else tiling_ms(tiling, point)
    yield Remedy("tiling", detail, planned, made is not None, added_ms=added)


def _integers(schedule: Schedule, inside: Target) -> Iterator[Remedy]:
    floats = {n for n, b in schedule.buffers.items() if b.dtype is DType.FLOAT32 and b.data is None}
    if floats:
        changed = _resized(schedule, dict.fromkeys(floats, 0.25))
        if bytes_needed(changed) < bytes_needed(schedule):
            yield _tried("integers", f"{len(floats)} float32 buffers as int8", changed, inside)


def _resized(schedule: Schedule, factors: dict[str, float]) -> Schedule:
    return replace(
        schedule,
        buffers={
            name: replace(buffer, nbytes=max(1, round(buffer.nbytes * factors[name])))
            if name in factors
            else buffer
            for name, buffer in schedule.buffers.items()
        },
    )


def _resolution(
    graph: Graph, schedule: Schedule, target: Target, inside: Target, integers: bool = False
) -> list[tuple[float, Remedy]]:
    """The largest input that fits, with its part of a side; maps with two sides shrink with the
    square."""
    floats = {n for n, b in schedule.buffers.items() if b.dtype is DType.FLOAT32 and b.data is None}
    maps = {
        buffer.name
        for buffer in schedule.activations
        if len(buffer.shape) == 4 and min(buffer.shape[1:3]) > 1
    }
    if not maps or (integers and not floats):
        return []
    for side in SIDES:
        factors = {
            name: (side * side if name in maps else 1.0)
            * (0.25 if integers and name in floats else 1.0)
            for name in (maps | floats if integers else maps)
        }
        detail = f"{side:g} of each side of the input"
        kind = "integers + resolution" if integers else "resolution"
        remedy = _tried(kind, detail, _resized(schedule, factors), inside)
        if remedy.fits:
            if not integers:
                remedy = _timed(remedy, graph, _smaller(graph, side), target)
            return [(side, remedy)]
    return []


def _smaller(graph: Graph, side: float) -> Graph | None:
    """The network for a smaller input; None where it cannot follow."""
    sides = image_size(graph)
    if sides is None:
        return None
    try:
        return at_resolution(graph, *(max(1, round(n * side)) for n in sides))
    except UsageError:
        return None


def _timed(remedy: Remedy, graph: Graph, other: Graph | None, target: Target) -> Remedy:
    """A remedy with the predicted time of the network that it leaves, everything on the chip.

    Stripes run on the CPU: where they are part of it only what is added has a meaning.
    """
    if other is None or not target.has_neural_art:
        return remedy
    after, before = _times(other, target)[1], _times(graph, target)[1]
    if remedy.added_ms is not None:
        return replace(remedy, added_ms=remedy.added_ms + after - before)
    return replace(remedy, ms=after, before_ms=before, added_ms=after - before)


def _together(
    graph: Graph, schedule: Schedule, target: Target, inside: Target, alone: float
) -> Iterator[Remedy]:
    """Pairs of remedies, each with their effect together, where stripes alone are not enough; an
    input only where it is larger than what is enough alone."""
    ordering = best_order(schedule)
    if ordering.after < ordering.before:
        for made in _tiling(ordering.schedule, inside):
            if made.fits:
                yield replace(made, kind="order + tiling", detail=f"another order, {made.detail}")
    for side in (side for side in SIDES if side > alone):
        smaller = _smaller(graph, side)
        if smaller is None:
            continue
        lowered = lower(smaller, map_graph(smaller, target), target)
        found = next((r for r in _tiling(lowered, inside) if r.fits), None)
        if found is not None:
            detail = f"{side:g} of each side of the input, {found.detail}"
            joint = replace(found, kind="resolution + tiling", detail=detail)
            yield _timed(joint, graph, smaller, target)
            break
    for side, both in _resolution(graph, schedule, target, inside, integers=True):
        if side > alone:
            yield both


def _spill(
    graph: Graph, schedule: Schedule, target: Target, inside: Target, capacity: int
) -> Iterator[Remedy]:
    """Buffers of the peak leave the chip until the rest is planned.

    The smallest that is enough goes; where none is, the largest.
    """
    outside = [p for p in target.pools_for(Use.ACTIVATIONS) if p.external]
    if not outside:
        return
    kept = dict(schedule.buffers)
    sizes = {buffer.name: buffer for buffer in buffers_alive(schedule)}
    gone: list[str] = []
    while True:
        rest = replace(schedule, buffers=kept)
        planned = _planned(rest, inside)
        if planned is not None:
            break
        alive = [buffer for buffer in sizes.values() if buffer.name in kept]
        if not alive:
            return
        per_step = by_step(alive, len(schedule.steps))
        peak = max(per_step.values(), key=lambda buffers: sum(b.nbytes for b in buffers))
        excess = sum(b.nbytes for b in peak) - capacity
        enough = [b for b in peak if b.nbytes >= excess > 0]
        key = attrgetter("nbytes", "name")
        worst = min(enough, key=key) if enough else max(peak, key=key)
        gone.append(worst.name)
        del kept[worst.name]
    bytes_out = sum(sizes[name].nbytes for name in gone)
    with_spill = without = None
    if target.has_neural_art:
        with_spill, without = _times(graph, target)
    yield Remedy(
        "spill", f"{', '.join(gone)} to {outside[0].name}", planned,
        sum(p.size for p in outside) >= bytes_out, bytes_out, with_spill, without,
        None if with_spill is None or without is None else with_spill - without,
    )  # fmt: skip


def _times(graph: Graph, target: Target) -> tuple[float, float]:
    """Milliseconds with what must spill outside, and if all fitted, at the nominal point."""
    placements = map_to_npu(graph).placements
    works = epoch_works(graph, placements, compiler_rules(DEFAULT_RELEASE))
    point, constants = target.operating_points["nominal"], load_calibration()
    near, internal = activation_limits(target)

    def ms(*limits: int) -> float:
        where = place_activations(graph, works, *limits)
        return cost_of_works(works, where, point, constants, DEFAULT_RELEASE, True).ms

    return ms(near, internal), ms(1 << 40, 1 << 40)

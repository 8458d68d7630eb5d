"""A plan for a schedule, and what had to be changed about the schedule to get it.

What fits stays as it is. What does not, or takes more than was asked for, gets another order of its
steps where that is enough, as that costs nothing; then it is computed in stripes; memory outside of
the chip comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuforge.cost import copy_ms
from npuforge.errors import PlanError
from npuforge.explore.order import Ordering, best_order
from npuforge.explore.tiling import FEW, Tiling, tile_into, tile_least
from npuforge.lowering import Schedule
from npuforge.memory.plan import Plan, plan_memory
from npuforge.memory.shortfall import bytes_needed
from npuforge.targets import OperatingPoint, Target, Use


@dataclass(frozen=True, eq=False)
class Fitted:
    """A schedule with its plan.

    Attributes:
        schedule: what runs; the numbers are those of the schedule that was given.
        plan: its addresses.
        tiling: what is computed in stripes; None when everything is computed as a whole.
        ordering: the other order of the steps; None when it is that of the network.
        need: bytes of activations alive at once before any change.
    """

    schedule: Schedule
    plan: Plan
    tiling: Tiling | None
    ordering: Ordering | None
    need: int


def on_chip(target: Target) -> Target:
    """A target without activation memory outside of the chip."""
    kept = tuple(p for p in target.pools if not (p.external and p.use is Use.ACTIVATIONS))
    return replace(target, pools=kept)


def limited(target: Target, limit: int) -> Target:
    """A target whose activation memory on the chip is cut to a limit, the slowest part first.

    Memory of the system is left out: it is no way around a limit.
    """
    room = limit
    sizes: dict[str, int] = {}
    inside = [p for p in target.pools_for(Use.ACTIVATIONS) if not p.external]
    for pool in sorted(inside, key=lambda p: (p.clocks_per_byte, p.base)):
        sizes[pool.name] = min(pool.size, room)
        room -= sizes[pool.name]
    pools = (replace(p, size=sizes.get(p.name, p.size)) for p in target.pools)
    kept = (pool for pool in pools if pool.size and pool.use is not Use.SYSTEM)
    return replace(target, pools=tuple(kept))


def fit_schedule(
    schedule: Schedule, target: Target, limit: int | None = None, *, tiling: bool = True
) -> Fitted:
    """Plan a schedule; change it where it does not fit on the chip or takes more than the limit.

    Args:
        schedule: the network.
        target: the board, or what is left of it.
        limit: bytes of activations at most; None for what the chip has.
        tiling: whether steps may be computed in stripes.

    Raises:
        PlanError: it does not fit, or not into the limit.
    """
    refused: PlanError | None = None
    whole: Plan | None = None
    try:
        whole = plan_memory(schedule, target)
    except PlanError as error:
        refused = error
    need = bytes_needed(schedule)
    if whole is not None and on_the_chip(whole, target) and _within(whole, limit):
        return Fitted(schedule, whole, None, None, need)
    if refused is not None and refused.code == "MEM-002":
        raise refused
    inside = on_chip(target)
    capacity = sum(pool.size for pool in inside.pools_for(Use.ACTIVATIONS))
    ordering = best_order(schedule)
    if ordering.after <= min(capacity, limit or capacity):
        made = planned_within(ordering.schedule, inside, limit)
        if made is not None:
            return Fitted(ordering.schedule, made, None, ordering, need)
    if tiling:
        for other in (None, ordering) if ordering.after < ordering.before else (None,):
            found = tile_into(schedule if other is None else other.schedule, inside, limit)
            if found is not None:
                return Fitted(found[0].schedule, found[1], found[0], other, need)
    if refused is not None and limit is None:
        raise refused
    if limit is not None:
        least = tile_least(schedule, searches=FEW) if tiling else None
        raise PlanError(
            "MEM-021", limit=limit, need=ordering.after if least is None else least.after
        )
    assert whole is not None
    return Fitted(schedule, whole, None, None, need)


def planned_within(schedule: Schedule, target: Target, limit: int | None = None) -> Plan | None:
    """The plan of a schedule; None when it does not fit the target, or takes more than a limit."""
    try:
        plan = plan_memory(schedule, target)
    except PlanError:
        return None
    return plan if _within(plan, limit) else None


def on_the_chip(plan: Plan, target: Target) -> bool:
    """Whether a plan has no activations outside of the chip."""
    outside = [p for p in target.pools_for(Use.ACTIVATIONS) if p.external]
    return not any(pool.base <= r.base < pool.end for pool in outside for r in plan.regions)


def _within(plan: Plan, limit: int | None) -> bool:
    return limit is None or plan.activation_bytes <= limit


def tiling_ms(tiling: Tiling, point: OperatingPoint) -> float:
    """Milliseconds that stripes add to one inference on the CPU, as predicted.

    Every row is computed once, so that only calls and moved rows come to the time.
    """
    return copy_ms(tiling.added_steps, tiling.moved, point)

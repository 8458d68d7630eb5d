"""A plan for a schedule, and what had to be changed about the schedule to get it.

What fits stays as it is. What does not, or takes more than was asked for, is computed in stripes
where that is enough; memory outside of the chip comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuforge.cost import copy_ms
from npuforge.errors import PlanError
from npuforge.explore.tiling import Tiling, tile_into, tile_least
from npuforge.lowering import Schedule
from npuforge.memory.plan import Plan, plan_memory
from npuforge.targets import OperatingPoint, Target, Use


@dataclass(frozen=True, eq=False)
class Fitted:
    """A schedule with its plan.

    Attributes:
        schedule: what runs; the numbers are those of the schedule that was given.
        plan: its addresses.
        tiling: what is computed in stripes; None when everything is computed as a whole.
        need: bytes of activations alive at once before any change.
    """

    schedule: Schedule
    plan: Plan
    tiling: Tiling | None
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
    """Plan a schedule; tile it where it does not fit on the chip or takes more than the limit.

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
    if whole is not None and on_the_chip(whole, target) and _within(whole, limit):
        return Fitted(schedule, whole, None, whole.lower_bound)
    weights_refused = refused is not None and refused.code == "MEM-002"
    made = None
    if tiling and not weights_refused:
        made = tile_into(schedule, on_chip(target), limit)
    if made is not None:
        return Fitted(made[0].schedule, made[1], made[0], made[0].before)
    if refused is not None:
        raise refused
    assert whole is not None
    if limit is not None:
        least = tile_least(schedule) if tiling else None
        known = whole.lower_bound if least is None else least.after
        raise PlanError("MEM-021", limit=limit, need=known)
    return Fitted(schedule, whole, None, whole.lower_bound)


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

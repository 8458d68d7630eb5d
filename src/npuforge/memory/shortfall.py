"""Why a network does not fit: missing bytes, the step of the peak, tensors that cannot coexist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npuforge.artefacts.minimalloc import BufferRow
from npuforge.lowering import Schedule
from npuforge.memory.plan import Plan
from npuforge.memory.spans import lower_bound, spans_of


@dataclass(frozen=True)
class Alive:
    """A buffer of the conflict: its bytes, rounded to its alignment, and its lifetime in steps."""

    name: str
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Shortfall:
    """A network against a memory that is too small for it.

    Attributes:
        capacity: bytes there are.
        need: bytes alive at once at the peak; no plan takes less.
        step: the step of the peak.
        node: the node it belongs to.
        together: the smallest set of buffers that are alive at one step and exceed the memory;
            empty when the buffers of every step fit and only their addresses do not.
        at: the step at which they are alive together.
    """

    capacity: int
    need: int
    step: int
    node: str
    together: tuple[Alive, ...]
    at: int

    @property
    def missing(self) -> int:
        """Bytes that are missing at least."""
        return max(self.need - self.capacity, 0)


def buffers_alive(schedule: Schedule) -> tuple[Alive, ...]:
    """All writable buffers of a schedule with their padded sizes."""
    return tuple(Alive(s.name, s.size, s.first, s.last) for s in spans_of(schedule))


def bytes_needed(schedule: Schedule) -> int:
    """Most bytes alive at once; no plan takes less."""
    return lower_bound(spans_of(schedule), len(schedule.steps))[0]


def minimalloc_rows(schedule: Schedule, plan: Plan | None = None) -> tuple[BufferRow, ...]:
    """Lifetimes and padded sizes in the terms of MiniMalloc's files, times from 0.

    Args:
        schedule: the network.
        plan: gives offsets, counted from the lowest region; None leaves them out.
    """
    base = min((region.base for region in plan.regions), default=0) if plan else 0
    return tuple(
        BufferRow(
            buffer.name, buffer.first + 1, buffer.last + 2, buffer.nbytes,
            plan.address(buffer.name) - base if plan else None,
        )
        for buffer in buffers_alive(schedule)
    )  # fmt: skip


def find_shortfall(schedule: Schedule, capacity: int) -> Shortfall:
    """The shortfall of a schedule; `missing` is 0 when the buffers of every step fit.

    Args:
        schedule: the network.
        capacity: bytes of the memory that activations may use.
    """
    alive = buffers_alive(schedule)
    per_step = by_step(alive, len(schedule.steps))
    step = max(per_step, key=lambda s: (sum(b.nbytes for b in per_step[s]), -s), default=0)
    need = sum(buffer.nbytes for buffer in per_step.get(step, ()))
    together, at = smallest_conflict(per_step, capacity)
    last = len(schedule.steps) - 1
    node = schedule.steps[min(max(step, 0), last)].node if last >= 0 else ""
    return Shortfall(capacity, need, step, node, together, at)


def smallest_conflict(
    per_step: Mapping[int, Sequence[Alive]], capacity: int
) -> tuple[tuple[Alive, ...], int]:
    """Fewest buffers of one step whose sum exceeds a capacity, and the step.

    Largest first is exact for the number: no other choice of as many buffers has a larger sum.
    Of sets of equal number the one that exceeds most is given.
    """
    best: tuple[Alive, ...] = ()
    where = 0
    for step, buffers in sorted(per_step.items()):
        chosen: list[Alive] = []
        total = 0
        for buffer in sorted(buffers, key=lambda b: (-b.nbytes, b.name)):
            chosen.append(buffer)
            total += buffer.nbytes
            if total > capacity:
                break
        else:
            continue
        key = (-len(chosen), total)
        if not best or key > (-len(best), sum(b.nbytes for b in best)):
            best, where = tuple(chosen), step
    return best, where


def by_step(alive: Sequence[Alive], steps: int) -> dict[int, list[Alive]]:
    """The buffers alive at each step; what lives before the first one is at step -1."""
    found: dict[int, list[Alive]] = {step: [] for step in range(-1, steps + 1)}
    for buffer in alive:
        for step in range(buffer.first, buffer.last + 1):
            found[step].append(buffer)
    return found

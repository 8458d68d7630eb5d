"""Which runs of steps are computed in stripes, so that a network takes only so many bytes.

A chain of windowed operators needs its large tensors only row by row. What a run in stripes takes
is known before anything is placed: the windows of rows, and every buffer that is alive beside them.
Of the ways to stay within a number of bytes the one with the fewest additional steps is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.errors import PlanError
from npuforge.lowering import BufferKind, Schedule
from npuforge.lowering.rows import pitch
from npuforge.lowering.stripes import Run, Stripes
from npuforge.lowering.tile import moved_bytes, row_steps, tile
from npuforge.memory.plan import Plan, plan_memory
from npuforge.memory.shortfall import bytes_needed
from npuforge.memory.spans import live_bytes, spans_of
from npuforge.targets import Target, Use, pool_groups

MOST_STEPS = 65_000
"""Steps that a tiled schedule may have at most."""
ENDS = 4
"""Ends that are kept for each first step of a run, those with the fewest additional steps."""
NEAR = 24
"""Steps between a run's ends and the steps that take too much, at most."""
SEARCHES = 12
"""Halvings of the open range when the least bytes are searched."""
FEW = 6
"""Halvings where the least is only to be told."""


@dataclass(frozen=True, eq=False)
class Tiling:
    """A network whose large tensors exist row by row.

    Attributes:
        schedule: the network, with some of its steps in stripes; the numbers are the same.
        whole: the network without.
        stripes: the runs of its steps that are.
        before: bytes alive at once without it.
        after: with it.
        moved: bytes of rows that one inference moves inside of their windows.
        added_steps: kernel calls that come to those of the untiled network.
        recomputed: multiply-accumulates that are done more than once; rolling windows need none.
    """

    schedule: Schedule
    whole: Schedule
    stripes: tuple[Stripes, ...]
    before: int
    after: int
    moved: int
    added_steps: int
    recomputed: int


class Tiler:
    """The ways to tile one schedule; what one number of bytes needed is kept for the next."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.rows = row_steps(schedule)
        self._known: dict[tuple[int, int, int], Stripes] = {}
        self._runs: dict[tuple[int, int], Run] = {}
        spans, count = spans_of(schedule), len(schedule.steps)
        self.live = live_bytes(spans, count)[1 : count + 1]
        """Bytes alive at each step of the untiled schedule."""
        self._first = np.array([span.first for span in spans], np.int64)
        self._last = np.array([span.last for span in spans], np.int64)
        self._size = np.array([span.size for span in spans], np.int64)
        writers: dict[str, list[int]] = {}
        for index, step in enumerate(schedule.steps):
            for operand in step.operands:
                if operand.writes:
                    writers.setdefault(operand.buffer, []).append(index)
        cuttable = [
            schedule.buffers[span.name].kind is BufferKind.ACTIVATION
            and all(self.rows[w] is not None for w in writers.get(span.name, ()))
            for span in spans
        ]
        self._inner = np.array(cuttable, bool)
        kept = self._rows_kept()
        self._kept = np.array([kept.get(span.name, 0) for span in spans], np.int64)

    def _rows_kept(self) -> dict[str, int]:
        """Bytes that the window of each buffer takes at least, where rows outlive their stripe."""
        kept: dict[str, int] = {}
        for row in self.rows:
            for read in row.reads if row is not None else ():
                middle = row.rows // 2 if row is not None else 0
                if read.high[middle] > read.low[middle]:
                    rows = read.high[middle + 1] - read.low[middle]
                    nbytes = rows * pitch(self.schedule.buffers[read.buffer])
                    kept[read.buffer] = max(kept.get(read.buffer, 0), nbytes)
        return kept

    def segments(self) -> Iterator[tuple[int, int]]:
        """Longest runs of neighbouring steps that can be cut, first and end step."""
        start: int | None = None
        for index, row in enumerate([*self.rows, None]):
            if row is not None and start is None:
                start = index
            elif row is None and start is not None:
                if index - start > 1:
                    yield start, index
                start = None

    def within(self, capacity: int) -> tuple[Stripes, ...] | None:
        """Runs in stripes after which no more than `capacity` bytes are alive at once.

        Of all ways that the search sees, the one with the fewest additional steps; None when it
        finds none.
        """
        count = len(self.schedule.steps)
        over = np.concatenate(([0], np.cumsum(self.live > capacity)))
        limit = self._limits(np.flatnonzero(self.live > capacity).tolist())
        cost: list[float] = [0.0, *[np.inf] * count]
        came: list[tuple[int, Stripes | None]] = [(-1, None)] * (count + 1)
        for start in range(count):
            if cost[start] == np.inf:
                continue
            if self.live[start] <= capacity and cost[start] < cost[start + 1]:
                cost[start + 1], came[start + 1] = cost[start], (start, None)
            for end, stripes in self._ends(start, limit.get(start, start), over, capacity):
                added = cost[start] + _calls(stripes) - (end - start)
                if added < cost[end]:
                    cost[end], came[end] = added, (start, stripes)
        if cost[count] == np.inf or cost[count] + count > MOST_STEPS:
            return None
        chosen = []
        at = count
        while at > 0:
            at, found = came[at]
            if found is not None:
                chosen.append(found)
        return tuple(reversed(chosen))

    def _limits(self, over: list[int]) -> dict[int, int]:
        """For first steps of runs the last end that is tried: near the steps that take too much."""
        limit: dict[int, int] = {}
        for first, end in self.segments():
            inside = [step for step in over if first <= step < end]
            if not inside:
                continue
            for step, following in zip(
                reversed(inside), reversed([*inside[1:], None]), strict=True
            ):
                far = following is None or following - step > NEAR
                reach = min(end, step + 1 + NEAR) if far else limit[step + 1]
                before = [o for o in inside if o < step]
                low = max(before[-1] + 1 if before else first, step - NEAR)
                limit.update(dict.fromkeys(range(low, step + 2), reach))
        return limit

    def _ends(
        self, start: int, limit: int, over: npt.NDArray[np.int64], capacity: int
    ) -> list[tuple[int, Stripes]]:
        """Runs from a step on that stay within the capacity and tile something that does not."""
        if limit - start < 2 or over[limit] == over[start]:
            return []
        found: list[tuple[int, Stripes]] = []
        for end in range(start + 2, limit + 1):
            if over[end] == over[start] or self._at_least(start, end) > capacity:
                continue
            stripes = self._coarsest(start, end, capacity)
            if stripes is not None:
                found.append((end, stripes))
        return sorted(found, key=lambda item: _calls(item[1]) - (item[0] - start))[:ENDS]

    def _beside(self, start: int, end: int) -> tuple[int, npt.NDArray[np.bool_]]:
        """Bytes of buffers alive beside a run, and which buffers live only inside of it."""
        inside = self._inner & (self._first >= start) & (self._last < end)
        beside = (self._first < end) & (self._last >= start) & ~inside
        return int(self._size[beside].sum()), inside

    def _at_least(self, start: int, end: int) -> int:
        beside, inside = self._beside(start, end)
        return beside + int(self._kept[inside].sum())

    def _run(self, start: int, end: int) -> Run:
        if (start, end) not in self._runs:
            members = [row for row in self.rows[start:end] if row is not None]
            self._runs[start, end] = Run(self.schedule, members)
        return self._runs[start, end]

    def _coarsest(self, start: int, end: int, capacity: int) -> Stripes | None:
        """A run in as few stripes as stay within the capacity."""
        beside, _ = self._beside(start, end)
        for lines in reversed(self._lines(start, end)):
            key = (start, end, lines)
            if key not in self._known:
                self._known[key] = self._run(start, end).stripes(lines)
            if beside + self._known[key].rolling_bytes <= capacity:
                return self._known[key]
        return None

    def _lines(self, start: int, end: int) -> list[int]:
        """Rows a stripe that are tried, ascending: multiples of what makes one row at the end."""
        first, last = self.rows[start], self.rows[end - 1]
        assert first is not None
        assert last is not None
        unit = max(round(first.rows / last.rows), 1)
        most = -(-first.rows // 2)
        lines = {min(unit * n, most) for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)}
        return sorted(lines | {1, min(2, most)})


def _calls(stripes: Stripes) -> int:
    """Kernel calls of a run in stripes at most."""
    return len(stripes.ends) * (stripes.end - stripes.first)


def tile_within(schedule: Schedule, capacity: int, tiler: Tiler | None = None) -> Tiling | None:
    """The schedule with at most `capacity` bytes alive at once, with few additional steps.

    Args:
        schedule: the network.
        capacity: bytes; padded sizes of all writable buffers alive at a step count.
        tiler: of the schedule, if there is one.

    Returns:
        None when the search finds no such tiling.
    """
    tiler = tiler or Tiler(schedule)
    chosen = tiler.within(capacity)
    if chosen is None:
        return None
    tiled = tile(schedule, chosen, tiler.rows)
    return Tiling(
        tiled,
        schedule,
        chosen,
        bytes_needed(schedule),
        bytes_needed(tiled),
        moved_bytes(tiled),
        len(tiled.steps) - len(schedule.steps),
        tiled.macs - schedule.macs,
    )


def tile_least(
    schedule: Schedule, tiler: Tiler | None = None, searches: int = SEARCHES
) -> Tiling | None:
    """The tiling with the fewest bytes alive at once that the search finds.

    Args:
        schedule: the network.
        tiler: of the schedule, if there is one.
        searches: halvings of the open range at most; fewer end sooner and a little higher.

    Returns:
        None when no tiling saves anything.
    """
    tiler = tiler or Tiler(schedule)
    low, high = 0, bytes_needed(schedule)
    whole = [int(n) for n, row in zip(tiler.live, tiler.rows, strict=True) if row is None]
    low = max(whole, default=0) - 1
    best: Tiling | None = None
    for _ in range(searches):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        found = tile_within(schedule, middle, tiler)
        if found is None or found.after >= high:
            low = middle
        else:
            best, high = found, found.after
    return best


def tile_into(
    schedule: Schedule, target: Target, limit: int | None = None
) -> tuple[Tiling, Plan] | None:
    """A tiling whose plan lies in the target's activation memory, and the plan.

    The bytes alive must fit, and then their addresses: where these leave gaps, less is asked for.
    Where memories do not touch, no buffer may exceed the largest of them: in the end so little is
    asked for that everything lies there.

    Args:
        schedule: the network.
        target: the board.
        limit: bytes that the plan may take at most; None for all there are.

    Returns:
        None when the search finds none.
    """
    tiler = Tiler(schedule)
    capacity = sum(pool.size for pool in target.pools_for(Use.ACTIVATIONS))
    if limit is not None:
        capacity = min(capacity, limit)
    groups = pool_groups(target, same_speed=False)
    largest = min(capacity, max((sum(p.size for p in group) for group in groups), default=0))
    asked = {int(capacity * part) for part in (1.0, 0.98, 0.95, 0.9, 0.8, 0.65)}
    asked |= {int(largest * part) for part in (1.0, 0.98, 0.95, 0.9, 0.8)}
    for nbytes in sorted(asked, reverse=True):
        found = tile_within(schedule, nbytes, tiler)
        if found is None:
            return None
        try:
            plan = plan_memory(found.schedule, target)
        except PlanError:
            continue
        if plan.activation_bytes <= capacity:
            return found, plan
    return None

"""The order of steps that needs the fewest bytes at once, with what no order goes below.

What is alive after a set of finished steps does not depend on the order in which they came. So
the question "is there an order within so many bytes" is a search over sets, each met once, the
deepest first. Two exchanges leave most of them out: a step that fits, ends a buffer and leaves no
more alive than before is taken at once; a step that ends nothing is put off until one that waits
for it follows. Both only move steps to where they need no more. An answer "no" for one byte less
than a known order proves that order; where the search ends early, "no" for fewer bytes is a bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from npuforge.explore.cut import FREE, Cut
from npuforge.lowering import Schedule
from npuforge.lowering.order import reorder, waits_for
from npuforge.memory.shortfall import bytes_needed
from npuforge.memory.spans import aligned

MOST_SETS = 60_000
"""Sets of finished steps that the exact search opens."""
BEAM = 64
"""Sets that the heuristic keeps after each step."""


@dataclass(frozen=True, eq=False)
class Ordering:
    """A schedule whose steps follow each other so that few bytes are needed at once.

    Attributes:
        schedule: the network; the numbers are the same.
        order: numbers of the steps in the schedule that was given.
        before: bytes alive at once in that order.
        after: in this order.
        bound: bytes alive at once that no order goes below.
        sets: sets of finished steps that were opened.
    """

    schedule: Schedule
    order: tuple[int, ...]
    before: int
    after: int
    bound: int
    sets: int

    @property
    def proved(self) -> bool:
        """Whether no order needs less."""
        return self.after <= self.bound


@dataclass(frozen=True)
class _Buffer:
    """A buffer and the steps that touch it, as a set of bits."""

    size: int
    users: int
    before: bool
    """Alive from the beginning."""
    after: bool
    """Alive to the end."""


@dataclass(frozen=True)
class _Place:
    """How far an order has come.

    Attributes:
        done: finished steps.
        ready: steps that wait for nothing else.
        alive: bytes alive behind the finished ones.
        peak: most bytes so far.
        next_ones: steps that may come next. A step that ends nothing is put off as long as
            possible, as that costs nothing: what comes next has waited for it, or ends nothing
            either and has a higher number. -1 allows all.
    """

    done: int
    ready: int
    alive: int
    peak: int
    next_ones: int = -1


@dataclass(frozen=True)
class Bound:
    """Bytes that every order needs.

    Attributes:
        nbytes: of them.
        step: the step that needs them; None when it is the beginning or the end.
        finished: the steps, as bits, behind which it needs no more than that.
    """

    nbytes: int
    step: int | None
    finished: int


class Orders:
    """The orders of one schedule: steps and sets of steps as bits of integers."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.count = len(schedule.steps)
        self.everything = (1 << self.count) - 1
        waits = waits_for(schedule)
        self._waits = [sum(1 << n for n in found) for found in waits]
        self._releases: list[list[int]] = [[] for _ in waits]
        for index, found in enumerate(waits):
            for n in found:
                self._releases[n].append(index)
        self._buffers = self._read_buffers()
        self._touched: list[list[_Buffer]] = [
            [b for b in self._buffers if b.users >> n & 1] for n in range(self.count)
        ]

    def _read_buffers(self) -> list[_Buffer]:
        schedule = self.schedule
        users: dict[str, int] = {}
        for index, step in enumerate(schedule.steps):
            for operand in step.operands:
                users[operand.buffer] = users.get(operand.buffer, 0) | 1 << index
        lives = schedule.lifetimes
        return [
            _Buffer(
                aligned(b.nbytes, b.alignment), users.get(b.name, 0),
                lives[b.name].first < 0, lives[b.name].last >= self.count,
            )
            for b in schedule.activations
        ]  # fmt: skip

    def start(self) -> _Place:
        """Nothing is done."""
        alive = sum(b.size for b in self._buffers if b.before)
        ready = sum(1 << n for n in range(self.count) if not self._waits[n])
        return _Place(0, ready, alive, alive)

    def needs(self, place: _Place, step: int) -> tuple[int, int, bool]:
        """Bytes alive during a step and after it, and whether anything ends with it."""
        during = after = place.alive
        rest = self.everything & ~(place.done | 1 << step)
        ends = False
        for buffer in self._touched[step]:
            if not buffer.before and not buffer.users & place.done:
                during += buffer.size
                after += buffer.size
            if not buffer.after and not buffer.users & rest:
                after -= buffer.size
                ends = True
        return during, after, ends

    def take(self, place: _Place, step: int) -> _Place:
        """The place after a step."""
        during, alive, ends = self.needs(place, step)
        done = place.done | 1 << step
        ready = place.ready & ~(1 << step)
        for n in self._releases[step]:
            if not self._waits[n] & ~done:
                ready |= 1 << n
        next_ones = -1
        if not ends:
            next_ones = sum(1 << n for n in self._releases[step])
            for n in _bits(place.ready >> step + 1):
                other = n + step + 1
                if not self.needs(place, other)[2]:
                    next_ones |= 1 << other
            next_ones = -1 if next_ones & ready == ready else next_ones & ready
        return _Place(done, ready, alive, max(place.peak, during), next_ones)

    def forced(self, place: _Place, goal: int) -> tuple[_Place, list[int]] | None:
        """Take steps as long as one fits under the peak, ends a buffer and leaves no more alive.

        Returns:
            None when such a step is none of those that may come next.
        """
        taken: list[int] = []
        while True:
            for step in _bits(place.ready & goal):
                during, after, ends = self.needs(place, step)
                if ends and during <= place.peak and after <= place.alive:
                    break
            else:
                return place, taken
            if not place.next_ones >> step & 1:
                return None
            place = self.take(place, step)
            taken.append(step)

    def bound(self, order: Sequence[int]) -> Bound:
        """Bytes that every order needs at its worst step; at most those of a known order.

        For each step the fewest bytes that any set of finished steps leaves alive beside it: a
        smallest cut, as a buffer counts when steps on both sides touch it.

        Args:
            order: the known one; steps that need little in it are not looked at.
        """
        before, behind = self._closures()
        place, needed = self.start(), [0] * self.count
        ends = sum(b.size for b in self._buffers if b.after)
        worst = Bound(max(place.alive, ends), None, 0)
        for step in order:
            needed[step] = self.needs(place, step)[0]
            place = self.take(place, step)
        for step in sorted(range(self.count), key=lambda n: -needed[n]):
            if needed[step] <= worst.nbytes:
                break
            found = self._beside(step, before[step], behind[step], needed[step])
            if found.nbytes > worst.nbytes:
                worst = found
        return worst

    def _closures(self) -> tuple[list[int], list[int]]:
        """For each step all that come before it in every order, and all behind it."""
        before = [0] * self.count
        behind = [0] * self.count
        for n in range(self.count):
            for m in _bits(self._waits[n]):
                before[n] |= before[m] | 1 << m
        for n in reversed(range(self.count)):
            for m in _bits(self._waits[n]):
                behind[m] |= behind[n] | 1 << n
        return before, behind

    def _beside(self, step: int, before: int, behind: int, most: int) -> Bound:
        """Fewest bytes alive during a step, with itself, over all sets of finished steps."""
        own = sum(b.size for b in self._touched[step])
        others = [b for b in self._buffers if not b.users >> step & 1]
        # source, sink, steps, two nodes a buffer; the source's side is finished
        cut = Cut(2 + self.count + 2 * len(others))
        for n in range(self.count):
            if before >> n & 1:
                cut.add(0, 2 + n, FREE)
            elif behind >> n & 1:
                cut.add(2 + n, 1, FREE)
            elif n != step:
                for m in _bits(self._waits[n] & ~before):
                    cut.add(2 + n, 2 + m, FREE)
        at = 2 + self.count
        for buffer in others:
            cut.add(at, at + 1, buffer.size)
            if buffer.before:
                cut.add(0, at, FREE)
            if buffer.after:
                cut.add(at + 1, 1, FREE)
            for n in _bits(buffer.users):
                cut.add(2 + n, at, FREE)
                cut.add(at + 1, 2 + n, FREE)
            at += 2
        nbytes = own + cut.smallest(most - own)
        side = cut.side()
        finished = sum(1 << n for n in range(self.count) if side[2 + n] and n != step)
        return Bound(nbytes, step, finished)

    def greedy(self, width: int) -> tuple[int, list[int]]:
        """Peak and order of a beam search; with width 1 what leaves the least comes next."""
        beam: list[tuple[_Place, tuple[int, ...]]] = [(self.start(), ())]
        for _ in range(self.count):
            best: dict[int, tuple[_Place, tuple[int, ...]]] = {}
            for place, path in beam:
                for step in _bits(place.ready):
                    after = self.take(place, step)
                    known = best.get(after.done)
                    if known is None or after.peak < known[0].peak:
                        best[after.done] = (after, (*path, step))
            ranked = sorted(best.values(), key=lambda item: (item[0].peak, item[0].alive))
            beam = ranked[:width]
        place, path = beam[0]
        return place.peak, list(path)

    def within(
        self, capacity: int, limit: int, begin: _Place | None = None, goal: int = -1
    ) -> tuple[list[int] | None, int, bool]:
        """An order that never needs more than a capacity.

        Args:
            capacity: bytes.
            limit: sets of finished steps that are opened at most.
            begin: where it begins; None for the beginning.
            goal: the steps that are finished at its end, as bits; -1 for all.

        Returns:
            The order, None when there is none or the limit was reached; sets that were opened;
            whether the search came to an end.
        """
        start = begin or self.start()
        goal = self.everything if goal < 0 else goal
        if start.alive > capacity:
            return None, 0, True
        entered = self.forced(replace(start, peak=capacity, next_ones=-1), goal)
        assert entered is not None
        first, taken = entered
        key = (first.done, first.next_ones)
        came: dict[tuple[int, int], tuple[tuple[int, int], list[int]]] = {
            key: ((start.done, 0), taken)
        }
        # the deepest first, and of these the one that leaves the least alive
        heap = [(-first.done.bit_count(), first.alive, *key, first)]
        opened = 0
        while heap:
            *_, place = heapq.heappop(heap)
            key = (place.done, place.next_ones)
            if place.done == goal:
                return self._path(came, key, start.done), opened, True
            if opened >= limit:
                return None, opened, False
            opened += 1
            for step in _bits(place.ready & place.next_ones & goal):
                if self.needs(place, step)[0] > capacity:
                    continue
                entered = self.forced(self.take(place, step), goal)
                if entered is None:
                    continue
                after, taken = entered
                at = (after.done, after.next_ones)
                if at in came or (after.done, -1) in came:
                    continue
                came[at] = (key, [step, *taken])
                heapq.heappush(heap, (-after.done.bit_count(), after.alive, *at, after))
        return None, opened, True

    def around(self, worst: Bound, limit: int) -> tuple[list[int] | None, int]:
        """An order that needs no more than a bound, and the sets that were opened.

        The step of the bound divides the order: first what is finished at its best, then the step,
        then the rest. Each part alone is much smaller than the whole.
        """
        first, opened, _ = self.within(worst.nbytes, limit, None, worst.finished)
        if first is None or worst.step is None:
            return None, opened
        place = self.start()
        for step in (*first, worst.step):
            place = self.take(place, step)
        rest, more, _ = self.within(worst.nbytes, limit, place)
        return (None if rest is None else [*first, worst.step, *rest]), opened + more

    def peak(self, order: Sequence[int]) -> int:
        """Most bytes alive at once in an order."""
        place = self.start()
        for step in order:
            place = self.take(place, step)
        return place.peak

    @staticmethod
    def _path(
        came: dict[tuple[int, int], tuple[tuple[int, int], list[int]]],
        at: tuple[int, int],
        first: int,
    ) -> list[int]:
        order: list[int] = []
        while at[0] != first:
            at, taken = came[at]
            order = taken + order
        return order


def _bits(value: int) -> Iterator[int]:
    while value:
        low = value & -value
        yield low.bit_length() - 1
        value ^= low


def best_order(schedule: Schedule, limit: int = MOST_SETS) -> Ordering:
    """The order with the fewest bytes alive at once that is found, and what no order goes below.

    Exact where the searches end within their limit; else the best of the order that was given, the
    greedy one, a beam search and what was met, with the bound that was proved by then.

    Args:
        schedule: the network.
        limit: sets of finished steps that the exact search opens; counted, so that the result is
            the same on every machine.
    """
    orders = Orders(schedule)
    before = bytes_needed(schedule)
    best: Sequence[int] = range(orders.count)
    worst = orders.bound(best)
    after, bound, opened = before, worst.nbytes, 0
    if after > bound:
        divided, opened = orders.around(worst, limit // 8)
        if divided is not None:
            best, after = divided, orders.peak(divided)
    for width in (1, BEAM):
        if after > bound:
            peak, found = orders.greedy(width)
            if peak < after:
                after, best = peak, found
    # one byte less than the best that is known; where that stays open, halfway to the bound
    asked = after - 1
    while bound <= asked < after and opened < limit:
        share = limit // 4 if asked < after - 1 else limit // 2
        better, more, ended = orders.within(asked, min(limit - opened, share))
        opened += more
        if better is not None:
            best, after = better, orders.peak(better)
            asked = after - 1
        elif ended:
            bound = asked + 1
            asked = (bound + after) // 2 if bound < after else after
        else:
            asked = (bound + asked) // 2 if asked > bound else after
    order = tuple(best)
    same = order == tuple(range(orders.count))
    return Ordering(
        schedule if same else reorder(schedule, order), order, before, after, bound, opened
    )

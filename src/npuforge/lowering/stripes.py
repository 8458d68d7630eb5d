"""How a run of steps is computed stripe by stripe: what each stripe makes, and which rows stay.

A stripe brings a few more rows of the run's first step; every other step then makes the rows it
can, or those that are asked of it. Rows that a later stripe reads again stay where they are, so
that nothing is computed twice. What must be kept is known before anything is placed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from npuforge.lowering.rows import RowStep, pitch
from npuforge.lowering.schedule import Buffer, BufferKind, Schedule


@dataclass(frozen=True)
class Rolling:
    """A buffer of which only a window of rows exists.

    Attributes:
        rows: rows of the window.
        fresh: whether no row outlives its stripe, so that each stripe may have memory of its own.
        first: first step of the run that uses it, counted from the run's first.
        last: last one.
        nbytes: of the window, a multiple of the buffer's alignment.
    """

    rows: int
    fresh: bool
    first: int
    last: int
    nbytes: int


@dataclass(frozen=True, eq=False)
class Stripes:
    """A run of steps in stripes.

    Attributes:
        first: first step of the run in the schedule.
        end: first step behind it.
        lines: rows of the first step's result a stripe.
        ends: for each stripe the end of the result rows of every step.
        rolling: buffers that become windows, by name.
    """

    first: int
    end: int
    lines: int
    ends: tuple[tuple[int, ...], ...]
    rolling: dict[str, Rolling]

    @cached_property
    def rolling_bytes(self) -> int:
        """Bytes of all windows that exist at once."""
        kept = sum(r.nbytes for r in self.rolling.values() if not r.fresh)
        passing = [r for r in self.rolling.values() if r.fresh]
        at_once = (
            sum(r.nbytes for r in passing if r.first <= at <= r.last)
            for at in range(self.end - self.first)
        )
        return kept + max(at_once, default=0)


class Run:
    """Neighbouring steps that can all be cut to rows, and the buffers that live among them only."""

    def __init__(self, schedule: Schedule, steps: Sequence[RowStep]) -> None:
        self.steps = tuple(steps)
        self.first = steps[0].index
        self.end = steps[-1].index + 1
        self._readers: dict[str, list[tuple[int, int]]] = {}
        self._writers: dict[str, list[int]] = {}
        for number, step in enumerate(steps):
            self._writers.setdefault(step.result, []).append(number)
            for which, read in enumerate(step.reads):
                self._readers.setdefault(read.buffer, []).append((number, which))
        lives = schedule.lifetimes
        self.inner: dict[str, Buffer] = {
            name: schedule.buffers[name]
            for name in self._writers
            if schedule.buffers[name].kind is BufferKind.ACTIVATION
            and lives[name].first >= self.first
            and lives[name].last < self.end
        }
        self._depends = self._dependent()

    def _dependent(self) -> list[bool]:
        """Whether a step waits for rows of the first one."""
        found: list[bool] = []
        for number, step in enumerate(self.steps):
            waits = number == 0 or any(
                found[writer]
                for read in step.reads
                for writer in self._writers.get(read.buffer, ())
                if writer < number
            )
            found.append(waits)
        return found

    def stripes(self, lines: int) -> Stripes:
        """The run in stripes of `lines` result rows of its first step."""
        steps, total = self.steps, self.steps[0].rows
        count = -(-total // lines)
        done = [0] * len(steps)
        ends: list[tuple[int, ...]] = []
        rows = dict.fromkeys(self.inner, 0)
        fresh = dict.fromkeys(self.inner, True)
        for stripe in range(count):
            last = stripe == count - 1
            target = self._targets(min(total, lines * (stripe + 1)), (stripe + 1) / count, last)
            target = [max(new, old) for new, old in zip(target, done, strict=True)]
            for name in self.inner:
                start, made = self.kept(name, done)
                end = max(target[w] for w in self._writers[name])
                rows[name] = max(rows[name], end - start)
                if start < made:
                    fresh[name] = False
            ends.append(tuple(target))
            done = target
        rolling = {
            name: self._window(name, buffer, rows[name], fresh[name])
            for name, buffer in self.inner.items()
        }
        return Stripes(self.first, self.end, lines, tuple(ends), rolling)

    def kept(self, name: str, done: Sequence[int]) -> tuple[int, int]:
        """First row of a buffer that is still to be read or finished, and the end of its rows."""
        made = [done[w] for w in self._writers[name]]
        start = min(made)
        for number, which in self._readers.get(name, ()):
            start = min(start, self.steps[number].reads[which].low[done[number]])
        return start, max(made)

    def _window(self, name: str, buffer: Buffer, rows: int, fresh: bool) -> Rolling:
        users = [*self._writers[name], *(n for n, _ in self._readers.get(name, ()))]
        nbytes = -(-rows * pitch(buffer) // buffer.alignment) * buffer.alignment
        return Rolling(rows, fresh, min(users), max(users), nbytes)

    def _targets(self, lines: int, part: float, last: bool) -> list[int]:
        """The end of every step's rows after a stripe."""
        steps = self.steps
        if last:
            return [step.rows for step in steps]
        target = [0] * len(steps)
        target[0] = lines
        for number in range(1, len(steps)):
            if not self._depends[number]:
                continue
            step, most = steps[number], steps[number].rows
            for read in step.reads:
                waits = [target[w] for w in self._writers.get(read.buffer, ()) if self._depends[w]]
                if waits:
                    most = min(most, bisect_right(read.high, min(waits)) - 1)
            target[number] = most
        for number in reversed(range(len(steps))):
            if self._depends[number]:
                continue
            readers = self._readers.get(steps[number].result, ())
            asked = [steps[n].reads[which].high[target[n]] for n, which in readers]
            if not asked:
                asked = [int(steps[number].rows * part)]
            target[number] = min(max(asked), steps[number].rows)
        return target

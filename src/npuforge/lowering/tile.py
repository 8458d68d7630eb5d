"""Tiling: Schedule -> Schedule, runs of steps in stripes with windows of rows between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from npuforge.lowering.rows import Held, RowStep, pitch, row_step
from npuforge.lowering.schedule import (
    Buffer,
    RowPiece,
    Schedule,
    Step,
    StepOperand,
    TensorPlace,
)
from npuforge.lowering.stripes import Run, Stripes
from npuforge.numerics import View


def row_steps(schedule: Schedule) -> tuple[RowStep | None, ...]:
    """Every step of a schedule seen row by row; None where it can only be computed as a whole."""
    return tuple(row_step(schedule, index) for index in range(len(schedule.steps)))


def tile(
    schedule: Schedule, chosen: Iterable[Stripes], rows: Sequence[RowStep | None] | None = None
) -> Schedule:
    """A schedule whose chosen runs are computed in stripes.

    The numbers that leave it are the same: every result row is computed once, by the same
    kernel from the same rows. Tensors of which only a window exists are no longer in `tensors`
    but in `pieces`.

    Args:
        schedule: the network, every step whole.
        chosen: runs that do not overlap.
        rows: what `row_steps` says of the schedule, if known.
    """
    known = row_steps(schedule) if rows is None else rows
    made = _Tiling(schedule)
    at = 0
    for stripes in sorted(chosen, key=lambda s: s.first):
        made.whole(at, stripes.first)
        members = [row for row in known[stripes.first : stripes.end] if row is not None]
        made.striped(Run(schedule, members), stripes)
        at = stripes.end
    made.whole(at, len(schedule.steps))
    return made.schedule()


class _Tiling:
    def __init__(self, schedule: Schedule) -> None:
        self._old = schedule
        self._steps: list[Step] = []
        self._buffers: dict[str, Buffer] = dict(schedule.buffers)
        self._last: dict[int, int] = {-1: -1}
        self._pieces: dict[str, list[RowPiece]] = {}

    def whole(self, first: int, end: int) -> None:
        for index in range(first, end):
            self._last[index] = len(self._steps)
            self._steps.append(self._old.steps[index])

    def striped(self, run: Run, stripes: Stripes) -> None:
        done: Sequence[int] = [0] * len(run.steps)
        base = dict.fromkeys(run.inner, 0)
        for name, window in stripes.rolling.items():
            del self._buffers[name]
            if not window.fresh:
                self._add(run.inner[name], f"{name}/rows", window.rows)
        for number, ends in enumerate(stripes.ends):
            held: dict[str, Held] = {}
            for name, window in stripes.rolling.items():
                start, made = run.kept(name, done)
                end = max(ends[n] for n, s in enumerate(run.steps) if s.result == name)
                if window.fresh:
                    base[name] = start
                    if end > start:
                        self._add(run.inner[name], f"{name}/rows {number}", window.rows)
                    held[name] = Held(f"{name}/rows {number}", start)
                    continue
                if end > base[name] + window.rows:
                    self._slide(run, name, start - base[name], made - start)
                    base[name] = start
                held[name] = Held(f"{name}/rows", base[name])
            for step, first, end in zip(run.steps, done, ends, strict=True):
                if end > first:
                    self._last[step.index] = len(self._steps)
                    home = held.get(step.result)
                    if home is not None:
                        self._piece(run.inner[step.result], home, first, end)
                    self._steps.append(step.cut(first, end, held))
            done = ends

    def _piece(self, whole: Buffer, home: Held, first: int, end: int) -> None:
        size = pitch(whole)
        at = ((first - home.base) * size, first * size, (end - first) * size)
        piece = RowPiece(len(self._steps), home.buffer, *at)
        self._pieces.setdefault(whole.name, []).append(piece)

    def _add(self, whole: Buffer, name: str, rows: int) -> None:
        shape = (1, rows, *whole.shape[2:])
        self._buffers[name] = replace(whole, name=name, nbytes=rows * pitch(whole), shape=shape)

    def _slide(self, run: Run, name: str, by: int, rows: int) -> None:
        """Move the rows that stay to the beginning of their window, row after row."""
        if not rows:
            return
        size = pitch(run.inner[name])
        view = View.strided((1, rows, 1, size), (0, size, 0, 1), 1)
        buffer = f"{name}/rows"
        operands = (
            StepOperand(buffer, replace(view, offset=by * size), False),
            StepOperand(buffer, view, True),
        )
        writer = next(step.step for step in run.steps if step.result == name)
        self._steps.append(Step(writer.node, "rows", "cpu_m55", "copy", operands, {"element": 1}))

    def schedule(self) -> Schedule:
        """The new schedule; constants first come first, as before."""
        old = self._old
        tensors = {
            name: TensorPlace(place.buffer, place.offset, place.nbytes, self._last[place.step])
            for name, place in old.tensors.items()
            if place.buffer in self._buffers
        }
        pieces = {
            name: tuple(self._pieces[place.buffer])
            for name, place in old.tensors.items()
            if place.buffer in self._pieces
        }
        return replace(
            old, steps=tuple(self._steps), buffers=self._buffers, tensors=tensors, pieces=pieces
        )


def moved_bytes(schedule: Schedule) -> int:
    """Bytes that a tiled schedule moves inside of its windows."""
    return sum(s.operands[1].view.extent for s in schedule.steps if s.op == "rows")

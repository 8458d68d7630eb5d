"""Which steps of a schedule wait for which, and the schedule in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npuforge.lowering.schedule import BufferKind, Schedule, StepOperand
from npuforge.numerics import View


def waits_for(schedule: Schedule) -> tuple[frozenset[int], ...]:
    """For each step the earlier steps that have to be done before it.

    A step waits for those that wrote what it reads, and for those that read or wrote what it
    overwrites; parts of one buffer that do not overlap, as those of a concatenation, may be written
    in any order.
    """
    found: list[set[int]] = [set() for _ in schedule.steps]
    writers: dict[str, list[tuple[int, StepOperand]]] = {}
    readers: dict[str, list[int]] = {}
    for index, step in enumerate(schedule.steps):
        for operand in step.operands:
            kind = schedule.buffers[operand.buffer].kind
            if kind is BufferKind.CONSTANT:
                continue
            written = writers.setdefault(operand.buffer, [])
            read = readers.setdefault(operand.buffer, [])
            if operand.writes:
                found[index].update(read)
                found[index].update(n for n, op in written if not apart(op.view, operand.view))
            else:
                found[index].update(n for n, _ in written)
        for operand in step.operands:
            if operand.buffer in writers:
                if operand.writes:
                    writers[operand.buffer].append((index, operand))
                else:
                    readers[operand.buffer].append(index)
    return tuple(frozenset(n for n in waits if n != i) for i, waits in enumerate(found))


def apart(one: View, other: View) -> bool:
    """Whether two views of one buffer certainly share no byte."""
    a, b = sorted((one, other), key=lambda view: view.offset)
    if a.offset + a.extent <= b.offset:
        return True
    # the same rows and columns, other channels of each
    same = (a.n, a.h, a.w, a.sn, a.sh, a.sw) == (b.n, b.h, b.w, b.sn, b.sh, b.sw)
    if not same or a.sc != a.element or b.sc != b.element:
        return False
    pitch = min((s for size, s in ((a.w, a.sw), (a.h, a.sh), (a.n, a.sn)) if size > 1), default=0)
    between = b.offset - a.offset
    return a.c * a.element <= between and between + b.c * b.element <= pitch


def reorder(schedule: Schedule, order: Sequence[int]) -> Schedule:
    """The same steps in another order; the numbers are the same.

    Args:
        schedule: the network.
        order: the numbers of its steps as they are to follow each other.

    Raises:
        ValueError: the order leaves out a step, or a step comes before one that it waits for.
    """
    count = len(schedule.steps)
    if sorted(order) != list(range(count)):
        raise ValueError("every step has to appear once")
    at = {step: place for place, step in enumerate(order)}
    if any(at[n] > at[i] for i, waits in enumerate(waits_for(schedule)) for n in waits):
        raise ValueError("a step comes before one that it waits for")
    # a tensor is complete after the last of the steps that write its buffer
    complete: dict[str, int] = {}
    for index, step in enumerate(schedule.steps):
        for operand in step.operands:
            if operand.writes:
                complete[operand.buffer] = max(complete.get(operand.buffer, -1), at[index])
    tensors = {
        name: replace(place, step=complete[place.buffer] if place.step >= 0 else -1)
        for name, place in schedule.tensors.items()
    }
    return replace(schedule, steps=tuple(schedule.steps[i] for i in order), tensors=tensors)

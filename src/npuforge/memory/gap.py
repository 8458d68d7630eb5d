"""From the peak a network's tensors suggest to the bytes its plan takes, term by term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuforge.lowering import BufferKind, Schedule
from npuforge.memory.plan import Plan, aligned

Term = tuple[str, int]


@dataclass(frozen=True)
class PeakBreakdown:
    """What lies between the two numbers.

    Attributes:
        tensors: most bytes of network tensors alive at one step: what tools report.
        step: the step at which that is.
        terms: what is added, in order; a negative packing term is memory that buffers share.
        planned: bytes of the plan; the sum of all of them.
    """

    tensors: int
    step: int
    terms: tuple[Term, ...]
    planned: int


def peak_breakdown(schedule: Schedule, plan: Plan) -> PeakBreakdown:
    """Itemise the difference between live tensors and planned bytes.

    Terms: ``scratch`` and ``state`` are what the peak rises by when kernels' work space and state
    variables count too, ``alignment`` what rounding sizes adds, ``packing`` what no address avoids.
    """
    network = {BufferKind.INPUT, BufferKind.OUTPUT, BufferKind.ACTIVATION}
    steps = (
        ("tensors", network, False),
        ("scratch", network | {BufferKind.SCRATCH}, False),
        ("state", set(BufferKind), False),
        ("alignment", set(BufferKind), True),
    )
    values: list[int] = []
    first = 0
    for _, kinds, padded in steps:
        value, at = _peak(schedule, kinds, padded)
        first = at if not values else first
        values.append(value)
    terms = [(steps[i][0], values[i] - values[i - 1]) for i in range(1, len(steps))]
    terms.append(("packing", plan.activation_bytes - values[-1]))
    return PeakBreakdown(values[0], first, tuple(terms), plan.activation_bytes)


def _peak(schedule: Schedule, kinds: set[BufferKind], padded: bool) -> tuple[int, int]:
    change = np.zeros(len(schedule.steps) + 3, np.int64)
    for buffer in schedule.activations:
        if buffer.kind in kinds:
            life = schedule.lifetimes[buffer.name]
            size = aligned(buffer.nbytes, buffer.alignment) if padded else buffer.nbytes
            change[life.first + 1] += size
            change[life.last + 2] -= size
    live = np.cumsum(change)
    peak = int(np.argmax(live))
    return int(live[peak]), max(peak - 1, 0)

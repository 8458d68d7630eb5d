"""From the peak a network's tensors suggest to the bytes its plan takes, term by term."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuforge.lowering import BufferKind, Schedule
from npuforge.memory.plan import Plan
from npuforge.memory.spans import lower_bound, spans_of

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
    spans = [span for span in spans_of(schedule) if schedule.buffers[span.name].kind in kinds]
    if not padded:
        spans = [replace(span, size=schedule.buffers[span.name].nbytes) for span in spans]
    return lower_bound(spans, len(schedule.steps))

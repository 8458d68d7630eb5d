"""A pipeline of three stages, and how many buffers it needs between them.

Capture, inference and post-processing run at the same time on different items. Item n enters at
n times the period, each stage begins when the one before it has ended, and no stage takes longer
than the period, so no item ever waits. A buffer that is held from the beginning of one stage to the
end of another is then held for the sum of their durations, and that many periods overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Stage(StrEnum):
    """The stages in order."""

    CAPTURE = "capture"
    INFER = "infer"
    POST = "post"


@dataclass(frozen=True)
class Pipeline:
    """Durations of the stages and the time from one item to the next, in milliseconds."""

    capture_ms: float
    infer_ms: float
    post_ms: float
    period_ms: float

    def duration(self, stage: Stage) -> float:
        """Milliseconds that a stage takes."""
        return {
            Stage.CAPTURE: self.capture_ms,
            Stage.INFER: self.infer_ms,
            Stage.POST: self.post_ms,
        }[stage]

    @property
    def latency_ms(self) -> float:
        """From the beginning of a capture to the end of its post-processing."""
        return self.capture_ms + self.infer_ms + self.post_ms

    def buffers(self, first: Stage, last: Stage) -> int:
        """Buffers needed for something held from the start of one stage to the end of another.

        The number of items that hold one at the same time: held time over period, rounded up. Times
        are compared as the decimal numbers they were written as.
        """
        stages = list(Stage)
        used = stages[stages.index(first) : stages.index(last) + 1]
        held = sum((Fraction(repr(self.duration(stage))) for stage in used), Fraction(0))
        return -(-held // Fraction(repr(self.period_ms)))

"""Work counted from the schedule: multiply-accumulates and bytes, no time.

Bytes are those of the views a kernel is given, each counted once however often the kernel reads
them; constants are counted apart because they usually come from a slower memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from npuforge.lowering import BufferKind, Schedule


@dataclass(frozen=True)
class StepWork:
    """Work of one step.

    Attributes:
        node: graph node.
        op: its operator.
        kernel: runtime kernel.
        macs: multiply-accumulates.
        read_bytes: activation bytes read.
        written_bytes: activation bytes written.
        constant_bytes: bytes of weights, bias and tables read.
    """

    node: str
    op: str
    kernel: str
    macs: int
    read_bytes: int
    written_bytes: int
    constant_bytes: int


@dataclass(frozen=True)
class Cost:
    """Work of a whole inference, step by step."""

    steps: tuple[StepWork, ...]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(step.macs for step in self.steps)


def count_work(schedule: Schedule) -> Cost:
    """Count the work of every step of a schedule."""
    entries = []
    for step in schedule.steps:
        read = written = constant = 0
        for operand in step.operands:
            view = operand.view
            held = view.n * (view.y1 - view.y0) * (view.x1 - view.x0) * view.c * view.element
            if operand.writes:
                written += held
            elif schedule.buffers[operand.buffer].kind is BufferKind.CONSTANT:
                constant += held
            else:
                read += held
        entries.append(
            StepWork(step.node, step.op, step.kernel, step.macs, read, written, constant)
        )
    return Cost(tuple(entries))

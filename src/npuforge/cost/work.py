"""Work counted from the schedule: multiply-accumulates and bytes, no time.

Bytes are those of the views a kernel is given, each counted once however often the kernel reads
them; constants are counted apart because they usually come from a slower memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from npuforge.cost.constants import load_calibration
from npuforge.lowering import BufferKind, Schedule
from npuforge.targets import OperatingPoint


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


def copy_ms(calls: int, moved_bytes: int, point: OperatingPoint) -> float:
    """Milliseconds of kernel calls that compute nothing new, and of bytes that the CPU moves.

    Clocks of a call are those of the cheapest call that was measured on a Cortex-M55 (`slice` in
    the calibration file), clocks of a byte those of `concat`.

    Args:
        calls: kernel calls.
        moved_bytes: bytes that are copied.
        point: gives the CPU's clock.
    """
    calibration = load_calibration()
    clocks = calls * calibration.kernel("slice").base
    clocks += moved_bytes * calibration.kernel("concat").element
    return clocks / point.cpu_mhz / 1e3

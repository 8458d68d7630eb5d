"""An independent check of a memory plan. It shares no code with the planner."""

from __future__ import annotations

from npuforge.errors import PlanError
from npuforge.lowering import BufferKind, Schedule
from npuforge.memory.plan import Plan
from npuforge.targets import Target, Use


def verify_plan(schedule: Schedule, plan: Plan, target: Target) -> None:
    """Check every address of a plan.

    Raises:
        PlanError: a buffer has no address, is misaligned, leaves its memory, is out of reach,
            or overlaps another one that is in use at the same time.
    """
    for buffer in schedule.buffers.values():
        if buffer.name not in plan.places:
            raise PlanError("MEM-010", tensor=buffer.name)
        start = plan.address(buffer.name)
        constant = buffer.kind is BufferKind.CONSTANT
        # what the target asks for counts, whatever the schedule says
        asked = (constant and target.weight_alignment) or (not constant and target.buffer_alignment)
        alignment = max(buffer.alignment, asked or 1)
        if start % alignment:
            raise PlanError(
                "MEM-011", tensor=buffer.name, address=f"{start:#x}", alignment=alignment
            )
        _check_memory(buffer.name, start, start + buffer.nbytes, constant, target)
        if constant:
            stored = plan.image[plan.places[buffer.name].offset :][: buffer.nbytes]
            if buffer.data is None or stored.tobytes() != buffer.data.tobytes():
                raise PlanError("MEM-012", tensor=buffer.name)
    _check_operands(schedule)
    _check_overlaps(schedule, plan, target)


def _check_memory(name: str, start: int, end: int, constant: bool, target: Target) -> None:
    """Every byte lies in pools of the right use that the CPU reaches."""
    use = Use.WEIGHTS if constant else Use.ACTIVATIONS
    at = start
    while at < end:
        home = [p for p in target.pools if p.base <= at < p.end and p.use is use]
        if not home or "cpu" not in home[0].reach:
            raise PlanError("MEM-013", tensor=name, address=f"{at:#x}", use=use)
        at = home[0].end


def _check_operands(schedule: Schedule) -> None:
    """No operand leaves its buffer, and nothing is read before it is written."""
    written = {schedule.tensors[name].buffer for name in schedule.inputs} | set(schedule.states)
    for step in schedule.steps:
        for operand in step.operands:
            buffer = schedule.buffers[operand.buffer]
            low, high = operand.view.offset, operand.view.offset + operand.view.extent
            if low < 0 or high > buffer.nbytes:
                raise PlanError(
                    "MEM-014",
                    node=step.node,
                    tensor=buffer.name,
                    low=low,
                    high=high,
                    size=buffer.nbytes,
                )
            if buffer.kind is BufferKind.CONSTANT and operand.writes:
                raise PlanError("MEM-015", node=step.node, tensor=buffer.name)
            known = buffer.kind is BufferKind.CONSTANT or operand.buffer in written
            if not operand.writes and not known:
                raise PlanError("MEM-016", node=step.node, tensor=buffer.name)
        written.update(op.buffer for op in step.operands if op.writes)


def _check_overlaps(schedule: Schedule, plan: Plan, target: Target) -> None:
    """At each step the buffers in use do not share a byte, nor a cache line that someone writes
    back or drops for one of them; inputs and outputs live as long as the target says."""
    line = 1 if target.coherent_dma or not target.has_npu else target.cache_line
    last_use: dict[str, int] = {}
    first_use: dict[str, int] = {}
    for index, step in enumerate(schedule.steps):
        for operand in step.operands:
            first_use.setdefault(operand.buffer, index)
            last_use[operand.buffer] = index
    for name in schedule.inputs:
        first_use[schedule.tensors[name].buffer] = -1
        if target.keep_inputs:
            last_use[schedule.tensors[name].buffer] = len(schedule.steps)
    for name in schedule.states:
        first_use[name], last_use[name] = -1, len(schedule.steps)
    for name in schedule.outputs:
        last_use[schedule.tensors[name].buffer] = len(schedule.steps)
        if target.reserve_outputs:
            first_use[schedule.tensors[name].buffer] = -1
    active = [b for b in schedule.buffers.values() if b.kind is not BufferKind.CONSTANT]
    events = sorted(active, key=lambda b: plan.address(b.name))
    for i, low in enumerate(events):
        end = plan.address(low.name) + low.nbytes
        for high in events[i + 1 :]:
            start = plan.address(high.name)
            if start // line * line >= end:
                break
            apart = last_use.get(low.name, -1) < first_use.get(high.name, -1) or last_use.get(
                high.name, -1
            ) < first_use.get(low.name, -1)
            if not apart and high.nbytes:
                if start >= end:
                    raise PlanError("MEM-019", a=low.name, b=high.name, line=line)
                raise PlanError("MEM-017", a=low.name, b=high.name)

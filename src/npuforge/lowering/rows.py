"""Row by row: which rows of its inputs a step reads for rows of its result, and the step cut.

A step can be cut when its kernel honours views and no result row depends on more than a window of
input rows: convolutions, pools, element-wise operators, tables, padding, resizing, copies along
channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from npuforge.lowering.schedule import Buffer, BufferKind, Schedule, Step, StepOperand
from npuforge.numerics import View

Rows = tuple[int, int]


@dataclass(frozen=True)
class RowReads:
    """The rows of a buffer that one operand reads.

    Attributes:
        operand: number of the operand.
        buffer: what it reads.
        low: of result row o on, the first row that is still read; one entry more than result rows.
        high: of the result rows before o, the end of the rows that are read.
    """

    operand: int
    buffer: str
    low: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """Where a buffer's rows are kept: another buffer, whose first row is row `base`."""

    buffer: str
    base: int


Cut = Callable[[int, int, Mapping[str, Held]], Step]


@dataclass(frozen=True, eq=False)
class RowStep:
    """A step that can be computed in runs of result rows.

    Attributes:
        index: of the step in its schedule.
        step: the whole step.
        result: buffer it writes.
        rows: rows of that buffer.
        reads: the buffers it reads, constants apart.
        cut: the step for result rows first..end-1 with buffers kept as said; those not named are
            where they are.
    """

    index: int
    step: Step
    result: str
    rows: int
    reads: tuple[RowReads, ...]
    cut: Cut


def row_step(schedule: Schedule, index: int) -> RowStep | None:
    """A step seen row by row; None when it can only be computed as a whole."""
    step = schedule.steps[index]
    outs = [n for n, op in enumerate(step.operands) if op.writes]
    if step.accelerator != "cpu_m55" or len(outs) != 1:
        return None
    result = schedule.buffers[step.operands[outs[0]].buffer]
    if not _by_rows(result):
        return None
    for maker in (_windowed, _listed, _counted, _elementwise):
        made = maker(schedule, index, outs[0], result)
        if made is not None:
            return made
    return None


def pitch(buffer: Buffer) -> int:
    """Bytes of one row of a buffer of rank 4."""
    return buffer.nbytes // buffer.shape[1]


def _by_rows(buffer: Buffer) -> bool:
    shape = buffer.shape
    return (
        len(shape) == 4
        and shape[0] == 1
        and min(shape) > 0
        and buffer.kind not in (BufferKind.CONSTANT, BufferKind.SCRATCH, BufferKind.STATE)
        and buffer.nbytes % shape[1] == 0
    )


def _whole(view: View, buffer: Buffer) -> bool:
    """Whether a view is all of a buffer in its own rows and columns."""
    return (
        view.offset == 0
        and (view.n, view.h, view.w, view.c) == buffer.shape
        and (view.y0, view.y1, view.x0, view.x1) == (0, view.h, 0, view.w)
        and view.sh == pitch(buffer)
    )


def _only_source(schedule: Schedule, step: Step, out: int, result: Buffer) -> Buffer | None:
    """The first operand's buffer when it and the result are whole and the rest are constants."""
    source = schedule.buffers[step.operands[0].buffer]
    if not (
        _by_rows(source)
        and _whole(step.operands[0].view, source)
        and _whole(step.operands[out].view, result)
    ):
        return None
    rest = (schedule.buffers[operand.buffer].kind for operand in step.operands[1:out])
    return source if all(kind is BufferKind.CONSTANT for kind in rest) else None


def _linear(
    rows: int, source: int, stride: int, top: int, reach: int
) -> tuple[list[int], list[int]]:
    """`low` and `high` of a window of `reach` rows that begins `top` rows above row o * stride."""
    low = [min(max(o * stride - top, 0), source - 1) for o in range(rows)]
    high = [max(min((o - 1) * stride - top + reach, source), 1) for o in range(1, rows + 1)]
    return [*low, source], [0, *np.maximum.accumulate(high).tolist()]


def _step_macs(step: Step, first: int, end: int, rows: int) -> int:
    return step.macs * end // rows - step.macs * first // rows


def _moved(
    operand: StepOperand, view: View, held: Mapping[str, Held], row: int, size: int
) -> StepOperand:
    """An operand that begins at `row` of a buffer, wherever that buffer's rows are kept."""
    home = held.get(operand.buffer, Held(operand.buffer, 0))
    offset = operand.view.offset + (row - home.base) * size
    return StepOperand(home.buffer, replace(view, offset=offset), operand.writes)


# --- windows ------------------------------------------------------------------------------------

_WINDOWS = ("conv2d_", "depthwise_conv2d_", "average_pool2d_", "max_pool2d_")


def _windowed(schedule: Schedule, index: int, out: int, result: Buffer) -> RowStep | None:
    """Convolutions, pools and padding: the cut step is a whole one on smaller tensors."""
    step = schedule.steps[index]
    pads = step.kernel == "pad" and not step.params["pad_n"]
    if not pads and (not step.kernel.startswith(_WINDOWS) or step.kernel == "conv2d_hybrid"):
        return None
    source = _only_source(schedule, step, out, result)
    if source is None:
        return None
    x, y = step.operands[0].view, step.operands[out].view
    stride, reach = 1, 1
    if not pads:
        stride = int(step.params["stride_h"])
        reach = (int(step.params["kernel_h"]) - 1) * int(step.params["dilation_h"]) + 1
    top, rows = int(step.params["pad_top"]), result.shape[1]
    low, high = _linear(rows, source.shape[1], stride, top, reach)
    sizes = pitch(source), pitch(result)

    def cut(first: int, end: int, held: Mapping[str, Held]) -> Step:
        a, b = low[first], high[end]
        b = max(b, a + 1)
        operands = list(step.operands)
        operands[0] = _moved(operands[0], replace(x, h=b - a, y1=b - a), held, a, sizes[0])
        lines = end - first
        operands[out] = _moved(operands[out], replace(y, h=lines, y1=lines), held, first, sizes[1])
        params = dict(step.params) | {"pad_top": top + a - first * stride}
        work = _step_macs(step, first, end, rows)
        return replace(step, operands=tuple(operands), params=params, macs=work)

    reads = (RowReads(0, source.name, tuple(low), tuple(high)),)
    return RowStep(index, step, result.name, rows, reads, cut)


# --- source rows from a table or a division ------------------------------------------------------


def _listed(schedule: Schedule, index: int, out: int, result: Buffer) -> RowStep | None:
    """Resizing and transposed convolutions: the views keep the whole tensor's row numbers."""
    step = schedule.steps[index]
    resize = step.kernel.startswith("resize_")
    if not resize and not step.kernel.startswith("transpose_conv2d_"):
        return None
    source = _only_source(schedule, step, out, result)
    if source is None:
        return None
    x, y = step.operands[0].view, step.operands[out].view
    rows, depth = result.shape[1], source.shape[1]
    if resize:
        data = schedule.buffers[step.operands[1].buffer].data
        assert data is not None
        table = np.frombuffer(data.tobytes(), np.int32).reshape(rows, -1)
        used = table[:, : 1 if step.kernel == "resize_nearest" else 2]
        first_row, last_row = used.min(axis=1), used.max(axis=1)
    else:
        at = np.arange(rows) + int(step.params["pad_top"])
        stride = int(step.params["stride_h"])
        first_row = -(-(at - int(step.params["kernel_h"]) + 1) // stride)
        last_row = at // stride
    first_row = np.clip(first_row, 0, depth - 1)
    last_row = np.clip(last_row, 0, depth - 1)
    first_row = np.minimum(first_row, last_row)
    low = [*np.minimum.accumulate(first_row[::-1])[::-1].tolist(), depth]
    high = [0, *(np.maximum.accumulate(last_row) + 1).tolist()]
    sizes = pitch(source), pitch(result)

    def cut(first: int, end: int, held: Mapping[str, Held]) -> Step:
        a, b = low[first], max(high[end], low[first] + 1)
        operands = list(step.operands)
        operands[0] = _moved(operands[0], replace(x, y0=a, y1=b), held, a, sizes[0])
        operands[out] = _moved(operands[out], replace(y, y0=first, y1=end), held, first, sizes[1])
        work = _step_macs(step, first, end, rows)
        return replace(step, operands=tuple(operands), macs=work)

    reads = (RowReads(0, source.name, tuple(low), tuple(high)),)
    return RowStep(index, step, result.name, rows, reads, cut)


# --- element by element --------------------------------------------------------------------------

_COUNTED = ("lut_8", "lut_16", "sigmoid_s16", "unary_f32", "quantize_f32_", "dequantize_",
            "change_scale", "cast")  # fmt: skip
_ELEMENTWISE = ("add_", "squared_difference_", "mul_", "extreme_", "prelu_s8", "binary_", "compare",
                "select", "copy")  # fmt: skip


def _counted(schedule: Schedule, index: int, out: int, result: Buffer) -> RowStep | None:
    """Kernels that are given a number of elements instead of views."""
    step = schedule.steps[index]
    if not step.kernel.startswith(_COUNTED):
        return None
    source, rows = schedule.buffers[step.operands[0].buffer], result.shape[1]
    x, y = step.operands[0].view, step.operands[out].view
    if not _by_rows(source) or source.shape[1] != rows:
        return None
    lines = int(step.params.get("rows", 1))
    count = int(step.params["count"])
    elements = lines * count // rows
    if lines * count % rows or (lines > 1 and lines % rows):
        return None
    sizes = pitch(source), pitch(result)
    if lines > 1:
        steps = int(step.params["x_row"]), int(step.params["y_row"])
        if tuple(s * lines // rows for s in steps) != sizes:
            return None
    elif (elements * x.element, elements * y.element) != sizes or x.offset or y.offset:
        return None

    def cut(first: int, end: int, held: Mapping[str, Held]) -> Step:
        n = end - first
        params = dict(step.params)
        operands = list(step.operands)
        if lines > 1:
            params["rows"] = n * lines // rows
        else:
            params["count"] = n * elements
            if "x_row" in params:
                params["x_row"] = params["y_row"] = n * elements
        for number, size in ((0, sizes[0]), (out, sizes[1])):
            view = step.operands[number].view
            if lines > 1 and view.h == 1:
                view = replace(view, w=view.w * n // rows, x1=view.w * n // rows)
            else:
                view = View.dense((n * elements,), view.element)
            operands[number] = _moved(step.operands[number], view, held, first, size)
        return replace(step, operands=tuple(operands), params=params)

    if lines > 1 and not (x.h == y.h == 1 and x.w == y.w == lines):
        return None
    reads = (RowReads(0, source.name, tuple(range(rows + 1)), tuple(range(rows + 1))),)
    return RowStep(index, step, result.name, rows, reads, cut)


def _elementwise(schedule: Schedule, index: int, out: int, result: Buffer) -> RowStep | None:
    """Kernels that walk views of one shape: the shape is split where the result's rows begin."""
    step = schedule.steps[index]
    if not step.kernel.startswith(_ELEMENTWISE):
        return None
    rows = result.shape[1]
    views = [_split_rows(op.view, rows) for op in step.operands]
    if any(view is None for view in views):
        return None
    found = [view for view in views if view is not None]
    if found[out].sh != pitch(result) or found[out].offset >= found[out].sh:
        return None
    sizes: list[int] = []
    reads = []
    for number, (operand, view) in enumerate(zip(step.operands, found, strict=True)):
        buffer = schedule.buffers[operand.buffer]
        if number == out or buffer.kind is BufferKind.CONSTANT:
            sizes.append(view.sh)
            continue
        if view.sh == 0:
            # every row reads the same: all of it has to be there
            if not _by_rows(buffer):
                return None
            depth = buffer.shape[1]
            reads.append(RowReads(number, buffer.name, (*[0] * rows, depth), (0, *[depth] * rows)))
            sizes.append(0)
            continue
        if not _by_rows(buffer) or view.sh % pitch(buffer):
            return None
        begin, inner = divmod(view.offset, pitch(buffer))
        if inner + (view.extent - (rows - 1) * view.sh) > pitch(buffer):
            return None
        low, high = _linear(rows, buffer.shape[1], view.sh // pitch(buffer), -begin, 1)
        reads.append(RowReads(number, buffer.name, tuple(low), tuple(high)))
        sizes.append(view.sh)

    def cut(first: int, end: int, held: Mapping[str, Held]) -> Step:
        n = end - first
        operands = []
        for operand, view, size in zip(step.operands, found, sizes, strict=True):
            home = held.get(operand.buffer, Held(operand.buffer, 0))
            base = home.base * (pitch(schedule.buffers[operand.buffer]) if home.base else 0)
            short = replace(view, h=n, y1=n, offset=view.offset + first * size - base)
            operands.append(StepOperand(home.buffer, short, operand.writes))
        work = _step_macs(step, first, end, rows)
        return replace(step, operands=tuple(operands), macs=work)

    return RowStep(index, step, result.name, rows, tuple(reads), cut)


def _split_rows(view: View, rows: int) -> View | None:
    """The same elements in the same order as (1, rows, w, c); None when rows do not split them."""
    if (view.y0, view.x0) != (0, 0) or (view.y1, view.x1) != (view.h, view.w):
        return None
    axes = [(view.n, view.sn), (view.h, view.sh), (view.w, view.sw), (view.c, view.sc)]
    while len(axes) > 1 and axes[0][0] == 1:
        axes.pop(0)
    size, stride = axes.pop(0)
    if size % rows:
        return None
    rest = [(size // rows, stride), *axes]
    if rest[0][0] == 1:
        rest.pop(0)
    rest = [(1, 0)] * (2 - len(rest)) + rest
    if len(rest) > 2:
        return None
    (w, sw), (c, sc) = rest
    row = stride * (size // rows)
    assert math.prod((rows, w, c)) == math.prod((view.n, view.h, view.w, view.c))
    return replace(view, n=1, h=rows, w=w, c=c, sn=0, sh=row, sw=sw, sc=sc, y1=rows, x1=w)

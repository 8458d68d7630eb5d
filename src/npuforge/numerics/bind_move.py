"""Binders of data movement: pad, concat, split, transpose, slice, gather, tile, state."""

from __future__ import annotations

import math

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import (
    AxisAttrs,
    ConcatAttrs,
    DetectionAttrs,
    Graph,
    Node,
    PadAttrs,
    PadMode,
    Shape,
    SliceAttrs,
    SplitAttrs,
    StateAttrs,
    Tensor,
    TileAttrs,
    TransposeAttrs,
)
from npuforge.numerics.call import Arg, KernelCall, ScratchArg, View, const, reads, writes
from npuforge.numerics.tables import requantize_table
from npuforge.numerics.types import refuse_type
from npuforge.vocab import Activation, Contract, DType

MAX_GATHERED_AXES = 8


def bind_pad(graph: Graph, node: Node) -> list[KernelCall]:
    """Constant padding of up to four axes."""
    attrs = node.attrs
    assert isinstance(attrs, PadAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if attrs.mode is not PadMode.CONSTANT:
        return bind_mirror_pad(graph, node, attrs)
    if len(x.shape) > 4:
        raise UnsupportedError("NUM-011", node=node.name, mode=attrs.mode, rank=len(x.shape))
    lead = 4 - len(x.shape)
    before = (0,) * lead + attrs.before
    element = y.dtype.nbytes
    value = attrs.value
    if y.dtype.is_float:
        value = int(np.float32(attrs.value).view(np.int32))
    params = {
        "element": element,
        "value": int(value),
        "pad_n": before[0],
        "pad_top": before[1],
        "pad_left": before[2],
        "pad_front": before[3],
    }
    x_view = View.dense((1,) * lead + x.shape, element)
    y_view = View.dense((1,) * lead + y.shape, element)
    return [KernelCall("pad", (reads(x, x_view), writes(y, y_view)), params)]


def bind_mirror_pad(graph: Graph, node: Node, attrs: PadAttrs) -> list[KernelCall]:
    """Reflected or symmetric padding of rows and columns: a lookup of the source position."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if len(x.shape) != 4 or attrs.before[0] or attrs.after[0] or attrs.before[3] or attrs.after[3]:
        raise UnsupportedError("NUM-011", node=node.name, mode=attrs.mode, rank=len(x.shape))
    skip = 1 if attrs.mode is PadMode.REFLECT else 0
    tables = []
    for axis in (1, 2):
        n = x.shape[axis]
        at = np.arange(-attrs.before[axis], n + attrs.after[axis])
        at = np.where(at < 0, -at - 1 + skip, at)
        tables.append(np.where(at >= n, 2 * n - 1 - skip - at, at))
    args = (
        reads(x),
        const("rows", tables[0], np.int32),
        const("columns", tables[1], np.int32),
        writes(y),
    )
    return [KernelCall("resize_nearest", args, {"element": y.dtype.nbytes})]


def bind_concat(graph: Graph, node: Node) -> list[KernelCall]:
    """Concatenation: one strided copy an input."""
    attrs = node.attrs
    assert isinstance(attrs, ConcatAttrs)
    y = graph.tensor(node.outputs[0])
    if attrs.activation is not Activation.NONE:
        raise UnsupportedError("NUM-012", node=node.name, op=node.op)
    element = y.dtype.nbytes
    row = math.prod(y.shape[attrs.axis :])
    outer = math.prod(y.shape[: attrs.axis])
    calls = []
    offset = 0
    for name in node.inputs:
        x = graph.tensor(name)
        part = math.prod(x.shape[attrs.axis :])
        source = View.strided((1, 1, outer, part), (0, 0, part, 1), element)
        target = View.strided((1, 1, outer, part), (0, 0, row, 1), element, offset * element)
        raw = node.contract is Contract.EXACT
        if raw or y.quantization is None or y.quantization.same_as(x.quantization):
            args: tuple[Arg, ...] = (reads(x, source), writes(y, target))
            calls.append(KernelCall("copy", args, {"element": element}))
        else:
            table = requantize_table(node, x, y)
            args = (reads(x, source), const("table", table, np.uint8), writes(y, target))
            params = {"rows": outer, "count": part, "x_row": part, "y_row": row}
            calls.append(KernelCall("lut_8", args, params))
        offset += part
    return calls


def _strides(shape: Shape) -> list[int]:
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return steps


def merged_axes(shape: Shape, strides: list[int]) -> list[tuple[int, int]]:
    """(size, stride) of each axis with ones dropped and neighbours merged where they run on."""
    merged: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    return merged


def bind_transpose(graph: Graph, node: Node) -> list[KernelCall]:
    """Permutation of axes."""
    attrs = node.attrs
    assert isinstance(attrs, TransposeAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    source = _strides(x.shape)
    axes = merged_axes(y.shape, [source[axis] for axis in attrs.perm])
    return [_gathering_copy(node, x, y, axes)]


def _gathering_copy(node: Node, x: Tensor, y: Tensor, axes: list[tuple[int, int]]) -> KernelCall:
    """A dense result read from anywhere: (size, stride) of up to eight axes."""
    if len(axes) > MAX_GATHERED_AXES:
        raise UnsupportedError("NUM-013", node=node.name, perm=[n for n, _ in axes])
    axes = [(1, 0)] * (MAX_GATHERED_AXES - len(axes)) + axes
    params = {"element": y.dtype.nbytes}
    for i, (n, s) in enumerate(axes):
        params[f"d{i}"] = n
        params[f"s{i}"] = s
    x_view = View.dense((x.size,), x.dtype.nbytes)
    y_view = View.dense((y.size,), y.dtype.nbytes)
    return KernelCall("transpose", (reads(x, x_view), writes(y, y_view)), params)


def bind_slice(graph: Graph, node: Node) -> list[KernelCall]:
    """Strided slice: one strided copy of up to four axes."""
    attrs = node.attrs
    assert isinstance(attrs, SliceAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    element = y.dtype.nbytes
    source = _strides(x.shape)
    offset = sum(b * s for b, s in zip(attrs.begin, source, strict=True))
    strides = [step * s for step, s in zip(attrs.step, source, strict=True)]
    axes = merged_axes(y.shape, strides)
    if len(axes) > 4:
        raise UnsupportedError("NUM-013", node=node.name, perm=attrs.count)
    axes = [(1, 0)] * (4 - len(axes)) + axes
    shape = tuple(n for n, _ in axes)
    x_view = View.strided(shape, tuple(s for _, s in axes), element, offset * element)
    y_view = View.strided(shape, tuple(_strides(shape)), element)
    return [KernelCall("copy", (reads(x, x_view), writes(y, y_view)), {"element": element})]


def bind_split(graph: Graph, node: Node) -> list[KernelCall]:
    """Pieces along one axis: one strided copy an output."""
    attrs = node.attrs
    assert isinstance(attrs, SplitAttrs)
    x = graph.tensor(node.inputs[0])
    element = x.dtype.nbytes
    outer = math.prod(x.shape[: attrs.axis])
    row = math.prod(x.shape[attrs.axis :])
    calls = []
    offset = 0
    for name in node.outputs:
        y = graph.tensor(name)
        part = math.prod(y.shape[attrs.axis :])
        source = View.strided((1, 1, outer, part), (0, 0, row, 1), element, offset * element)
        target = View.strided((1, 1, outer, part), (0, 0, part, 1), element)
        args = (reads(x, source), writes(y, target))
        calls.append(KernelCall("copy", args, {"element": element}))
        offset += part
    return calls


def bind_gather(graph: Graph, node: Node) -> list[KernelCall]:
    """Elements picked along one axis."""
    attrs = node.attrs
    assert isinstance(attrs, AxisAttrs)
    x, index = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    if index.dtype not in (DType.INT32, DType.INT64):
        raise refuse_type(node, index)
    params: dict[str, int | float] = {
        "outer": math.prod(x.shape[: attrs.axis]),
        "axis": x.shape[attrs.axis],
        "inner": math.prod(x.shape[attrs.axis + 1 :]) * x.dtype.nbytes,
        "count": index.size,
        "wide": int(index.dtype is DType.INT64),
    }
    return [KernelCall("gather", (reads(x), reads(index), writes(y)), params)]


def bind_tile(graph: Graph, node: Node) -> list[KernelCall]:
    """Repeated axes: one copy that reads with strides of zero."""
    attrs = node.attrs
    assert isinstance(attrs, TileAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    shape: list[int] = []
    strides: list[int] = []
    for n, repeat, step in zip(x.shape, attrs.repeats, _strides(x.shape), strict=True):
        shape += [repeat, n]
        strides += [0, step]
    return [_repeating_copy(node, x, y, tuple(shape), strides)]


def bind_broadcast_to(graph: Graph, node: Node) -> list[KernelCall]:
    """One shape stretched to another."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    padded = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    steps = _strides(padded)
    strides = [0 if n == 1 else s for n, s in zip(padded, steps, strict=True)]
    return [_repeating_copy(node, x, y, y.shape, strides)]


def _repeating_copy(
    node: Node, x: Tensor, y: Tensor, shape: Shape, strides: list[int]
) -> KernelCall:
    element = y.dtype.nbytes
    axes = merged_axes(shape, strides)
    if len(axes) > 4:
        return _gathering_copy(node, x, y, axes)
    axes = [(1, 0)] * (4 - len(axes)) + axes
    four = tuple(n for n, _ in axes)
    source = View.strided(four, tuple(s for _, s in axes), element)
    target = View.strided(four, tuple(_strides(four)), element)
    return KernelCall("copy", (reads(x, source), writes(y, target)), {"element": element})


def bind_read_variable(graph: Graph, node: Node) -> list[KernelCall]:
    """The value of a state variable."""
    assert isinstance(node.attrs, StateAttrs)
    return [_whole_copy(graph.tensors[node.attrs.variable], graph.tensor(node.outputs[0]))]


def bind_assign_variable(graph: Graph, node: Node) -> list[KernelCall]:
    """A new value for a state variable."""
    assert isinstance(node.attrs, StateAttrs)
    return [_whole_copy(graph.tensor(node.inputs[0]), graph.tensors[node.attrs.variable])]


def _whole_copy(x: Tensor, y: Tensor) -> KernelCall:
    flat = View.dense((x.size,), x.dtype.nbytes)
    return KernelCall("copy", (reads(x, flat), writes(y, flat)), {"element": x.dtype.nbytes})


def bind_detection(graph: Graph, node: Node) -> list[KernelCall]:
    """SSD post-processing on float tensors."""
    attrs = node.attrs
    assert isinstance(attrs, DetectionAttrs)
    boxes, scores, anchors = (graph.tensor(name) for name in node.inputs[:3])
    for tensor in (boxes, scores, anchors):
        if tensor.dtype is not DType.FLOAT32:
            raise refuse_type(node, tensor)
    count = boxes.shape[1]
    rows = max(count, attrs.max_detections)
    scratch = rows * (16 + 4 * 5) + max(rows, attrs.classes) * 4
    params: dict[str, int | float] = {
        "boxes": count,
        "box_width": boxes.shape[2],
        "anchor_width": anchors.shape[1],
        "scores": scores.shape[2],
        "classes": attrs.classes,
        "max_detections": attrs.max_detections,
        "max_classes_per_detection": attrs.max_classes_per_detection,
        "regular": int(attrs.regular),
        "detections_per_class": attrs.detections_per_class,
        "score_threshold": attrs.score_threshold,
        "iou_threshold": attrs.iou_threshold,
        "scale_y": attrs.scales[0],
        "scale_x": attrs.scales[1],
        "scale_h": attrs.scales[2],
        "scale_w": attrs.scales[3],
    }
    outputs = tuple(writes(graph.tensor(name)) for name in node.outputs)
    args = (reads(boxes), reads(scores), reads(anchors), *outputs, ScratchArg(scratch))
    return [KernelCall("detection_postprocess", args, params)]

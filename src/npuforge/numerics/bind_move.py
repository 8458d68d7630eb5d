"""Binders of data movement: pad, concat, transpose, slice, resize."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from npuforge.errors import UnsupportedError
from npuforge.graph import (
    ConcatAttrs,
    CoordinateMode,
    Graph,
    NearestMode,
    Node,
    PadAttrs,
    PadMode,
    ResizeAttrs,
    ResizeMode,
    Shape,
    SliceAttrs,
    TransposeAttrs,
)
from npuforge.numerics.bind_linear import require_int8
from npuforge.numerics.call import Arg, KernelCall, View, const, reads, writes
from npuforge.numerics.tables import requantize_table
from npuforge.vocab import Activation

MAX_TRANSPOSE_RANK = 6


def bind_pad(graph: Graph, node: Node) -> list[KernelCall]:
    """Constant padding of up to four axes."""
    attrs = node.attrs
    assert isinstance(attrs, PadAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if attrs.mode is not PadMode.CONSTANT or len(x.shape) > 4:
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


def bind_concat(graph: Graph, node: Node) -> list[KernelCall]:
    """Concatenation: one strided copy an input."""
    attrs = node.attrs
    assert isinstance(attrs, ConcatAttrs)
    y = graph.tensor(node.outputs[0])
    if attrs.activation is not Activation.NONE:
        raise UnsupportedError("NUM-012", node=node.name, activation=attrs.activation)
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
        if y.quantization is None or y.quantization.same_as(x.quantization):
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
    if len(axes) > MAX_TRANSPOSE_RANK:
        raise UnsupportedError("NUM-013", node=node.name, perm=attrs.perm)
    axes = [(1, 0)] * (MAX_TRANSPOSE_RANK - len(axes)) + axes
    params = {"element": y.dtype.nbytes}
    for i, (n, s) in enumerate(axes):
        params[f"d{i}"] = n
        params[f"s{i}"] = s
    flat = View.dense((x.size,), x.dtype.nbytes)
    return [KernelCall("transpose", (reads(x, flat), writes(y, flat)), params)]


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


def source_coordinates(
    attrs: ResizeAttrs, axis: int, source: int, target: int
) -> npt.NDArray[np.float32]:
    """Input coordinate of each output position along rows (axis 0) or columns (axis 1)."""
    out = np.arange(target, dtype=np.float32)
    stated = attrs.scale[axis] if attrs.scale is not None else target / source
    scale = np.float32(stated)
    if attrs.coordinates is CoordinateMode.ALIGN_CORNERS:
        step = np.float32((source - 1) / (target - 1)) if target > 1 else np.float32(0)
        return out * step
    if attrs.coordinates is CoordinateMode.ASYMMETRIC:
        return out / scale
    if attrs.coordinates is CoordinateMode.PYTORCH_HALF_PIXEL and target == 1:
        return np.zeros(1, np.float32)
    half = np.float32(0.5)
    return (out + half) / scale - half


def nearest_index(attrs: ResizeAttrs, axis: int, source: int, target: int) -> npt.NDArray[np.int32]:
    """Input row or column that each output position copies."""
    at = source_coordinates(attrs, axis, source, target)
    if attrs.nearest is NearestMode.FLOOR:
        index = np.floor(at)
    elif attrs.nearest is NearestMode.CEIL:
        index = np.ceil(at)
    elif attrs.nearest is NearestMode.ROUND_PREFER_FLOOR:
        index = np.ceil(at - np.float32(0.5))
    else:
        index = np.floor(at + np.float32(0.5))
    return np.clip(index, 0, source - 1).astype(np.int32)


_LERP = np.dtype([("first", np.int32), ("second", np.int32), ("weight", np.float32)])


def lerp_table(attrs: ResizeAttrs, axis: int, source: int, target: int) -> npt.NDArray[np.uint8]:
    """Two source positions and the weight of the second for each output position, as bytes."""
    at = np.clip(source_coordinates(attrs, axis, source, target), 0, source - 1)
    first = np.floor(at).astype(np.int32)
    table = np.empty(target, _LERP)
    table["first"] = first
    table["second"] = np.minimum(first + 1, source - 1)
    table["weight"] = at - first.astype(np.float32)
    return table.view(np.uint8)


def bind_resize(graph: Graph, node: Node) -> list[KernelCall]:
    """Nearest-neighbour and bilinear resize."""
    attrs = node.attrs
    assert isinstance(attrs, ResizeAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    sides = [(axis, x.shape[axis + 1], y.shape[axis + 1]) for axis in (0, 1)]
    if attrs.mode is ResizeMode.NEAREST:
        if x.quantization is not None and not x.quantization.same_as(y.quantization):
            raise UnsupportedError("NUM-006", node=node.name, op=node.op, a=x.name, b=y.name)
        rows, columns = (nearest_index(attrs, *side) for side in sides)
        args = (
            reads(x),
            const("rows", rows, np.int32),
            const("columns", columns, np.int32),
            writes(y),
        )
        return [KernelCall("resize_nearest", args, {"element": y.dtype.nbytes})]
    require_int8(node, x, y)
    tables = [lerp_table(attrs, *side) for side in sides]
    ratio = x.quant.s / y.quant.s
    params = {
        "scale": float(ratio),
        "offset": float(np.float32(y.quant.z) - ratio * np.float32(x.quant.z)),
    }
    args = (
        reads(x),
        const("rows", tables[0], np.uint8),
        const("columns", tables[1], np.uint8),
        writes(y),
    )
    return [KernelCall("resize_bilinear_s8", args, params)]

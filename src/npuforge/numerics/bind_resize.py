"""Binders of resize: tables of source positions, made once, read by every pixel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuforge.graph import CoordinateMode, Graph, NearestMode, Node, ResizeAttrs, ResizeMode, Tensor
from npuforge.numerics.call import KernelCall, const, reads, writes
from npuforge.numerics.types import is_qlinear, require_same_scale, require_types
from npuforge.vocab import Contract, DType


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
    if attrs.coordinates is CoordinateMode.HALF_PIXEL_NEAREST:
        return (out + np.float32(0.5)) * np.float32(source / target)
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


_LERP_FIXED = np.dtype([("first", np.int32), ("second", np.int32), ("weight", np.int32)])


def fixed_lerp_table(
    coordinates: CoordinateMode, source: int, target: int
) -> npt.NDArray[np.uint8]:
    """Two source positions and the weight of the second in 1/1024, as TensorFlow Lite rounds."""
    scale = ((1 << 10) * source + target // 2) // target
    if coordinates is CoordinateMode.ALIGN_CORNERS and target > 1:
        scale = ((1 << 10) * (source - 1) + (target - 1) // 2) // (target - 1)
    at = np.arange(target, dtype=np.int64) * scale
    if coordinates is CoordinateMode.HALF_PIXEL:
        at += scale // 2 - (1 << 9)
    table = np.empty(target, _LERP_FIXED)
    # positions before the first one are cut towards zero by C's division
    first = np.maximum(np.where(at >= 0, at >> 10, -((-at) >> 10)), 0)
    above = at + (1 << 10) - 1
    second = np.where(above >= 0, above >> 10, -((-above) >> 10))
    table["first"] = first
    table["second"] = np.clip(second, 0, source - 1)
    table["weight"] = at - (first << 10)
    return table.view(np.uint8)


def lite_lerp_table(coordinates: CoordinateMode, source: int, target: int) -> npt.NDArray[np.uint8]:
    """Source positions and weight of TensorFlow Lite's float kernel."""
    scale = np.float32(source) / np.float32(target)
    if coordinates is CoordinateMode.ALIGN_CORNERS and target > 1:
        scale = np.float32(source - 1) / np.float32(target - 1)
    at = np.arange(target, dtype=np.float32) * scale
    if coordinates is CoordinateMode.HALF_PIXEL:
        half = np.float32(0.5)
        at = (np.arange(target, dtype=np.float32) + half) * scale - half
    table = np.empty(target, _LERP)
    first = np.maximum(np.floor(at), 0).astype(np.int32)
    table["first"] = first
    table["second"] = np.clip(np.ceil(at), 0, source - 1).astype(np.int32)
    table["weight"] = at - first.astype(np.float32)
    return table.view(np.uint8)


def bind_resize(graph: Graph, node: Node) -> list[KernelCall]:
    """Nearest-neighbour and bilinear resize."""
    attrs = node.attrs
    assert isinstance(attrs, ResizeAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    sides = [(axis, x.shape[axis + 1], y.shape[axis + 1]) for axis in (0, 1)]
    if attrs.mode is ResizeMode.NEAREST:
        require_same_scale(node, x, y)
        rows, columns = (nearest_index(attrs, *side) for side in sides)
        args = (
            reads(x),
            const("rows", rows, np.int32),
            const("columns", columns, np.int32),
            writes(y),
        )
        return [KernelCall("resize_nearest", args, {"element": y.dtype.nbytes})]
    return [_bilinear(node, attrs, x, y, sides)]


def _bilinear(
    node: Node, attrs: ResizeAttrs, x: Tensor, y: Tensor, sides: list[tuple[int, int, int]]
) -> KernelCall:
    # a file that states its scale comes from ONNX; the two formats place and round differently
    lite = attrs.scale is None
    params: dict[str, int | float]
    if x.dtype is DType.FLOAT32:
        tables = [
            lite_lerp_table(attrs.coordinates, source, target)
            if lite
            else lerp_table(attrs, axis, source, target)
            for axis, source, target in sides
        ]
        kernel, params = "resize_bilinear_f32", {"four_products": int(lite)}
    elif node.contract in (Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO):
        require_types(node, (DType.INT8, DType.UINT8), x, y)
        require_same_scale(node, x, y)
        params = {"channels": x.shape[3]}
        if x.dtype is DType.UINT8:
            # TensorFlow Lite's kernel for the older type works in single precision
            tables = [lite_lerp_table(attrs.coordinates, s, t) for _, s, t in sides]
            kernel = "resize_bilinear_u8"
        else:
            tables = [fixed_lerp_table(attrs.coordinates, s, t) for _, s, t in sides]
            kernel = "resize_bilinear_8_fixed"
    else:
        assert is_qlinear(node)
        require_types(node, (DType.INT8,), x, y)
        tables = [lerp_table(attrs, *side) for side in sides]
        ratio = x.quant.s / y.quant.s
        offset = np.float32(y.quant.z) - ratio * np.float32(x.quant.z)
        kernel, params = "resize_bilinear_s8", {"scale": float(ratio), "offset": float(offset)}
    args = (
        reads(x),
        const("rows", tables[0], np.uint8),
        const("columns", tables[1], np.uint8),
        writes(y),
    )
    return KernelCall(kernel, args, params)

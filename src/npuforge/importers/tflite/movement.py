"""Handlers of TFLite operators that move data or compute shapes.

Whatever depends on constants only is computed while reading, so that shapes become constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npuforge.graph import (
    AxisAttrs,
    ConcatAttrs,
    Node,
    PadAttrs,
    PadMode,
    ReshapeAttrs,
    SliceAttrs,
    SplitAttrs,
    Tensor,
    TileAttrs,
    TransposeAttrs,
)
from npuforge.importers.tflite.context import Context, Handler, normal_axes
from npuforge.importers.tflite.file import RawOperator, read_options
from npuforge.importers.tflite.types import operator_name
from npuforge.vocab import DType


def _reshaped(ctx: Context, op: RawOperator, x: Tensor, y: Tensor) -> tuple[int, ...]:
    """The shape that RESHAPE, SQUEEZE or EXPAND_DIMS makes, from what the operator says."""
    import tflite

    kind = operator_name(op.code)
    rank = len(x.shape)
    if kind == "EXPAND_DIMS":
        axis = normal_axes(ctx, op, ctx.integers(op, 1)[:1], rank + 1)[0]
        return (*x.shape[:axis], 1, *x.shape[axis:])
    if kind == "SQUEEZE":
        squeezed = read_options(tflite.SqueezeOptions, op)
        named = [squeezed.SqueezeDims(i) for i in range(squeezed.SqueezeDimsLength())]
        axes = normal_axes(ctx, op, named, rank) or [i for i, n in enumerate(x.shape) if n == 1]
        return tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if len(op.inputs) > 1 and op.inputs[1] >= 0:
        shape = ctx.integers(op, 1)
    elif op.options is not None:
        options = read_options(tflite.ReshapeOptions, op)
        shape = [options.NewShape(i) for i in range(options.NewShapeLength())]
    else:
        shape = list(y.shape)
    if shape.count(-1) == 1:
        known = math.prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = x.size // known if known else 0
    return tuple(shape)


def _reshape(ctx: Context, op: RawOperator) -> None:
    x, y = ctx.first(op), ctx.output(op)
    if y.name in ctx.open:
        y = ctx.settle(y, _reshaped(ctx, op, x, y))
    if x.data is not None:
        ctx.fold(op, x.data)
        return
    ctx.add(op, "reshape", ReshapeAttrs(y.shape), [x.name], moves=True)


def _transpose(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    perm = normal_axes(ctx, op, ctx.integers(op, 1), len(x.shape))
    ctx.add(op, "transpose", TransposeAttrs(tuple(perm)), [x.name], moves=True)


def _pads(ctx: Context, op: RawOperator, x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pads = ctx.integers(op, 1)
    if len(pads) != 2 * len(x.shape):
        raise ctx.damaged(op, f"{len(pads)} paddings for rank {len(x.shape)}")
    return tuple(pads[0::2]), tuple(pads[1::2])


def _pad(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    before, after = _pads(ctx, op, x)
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        value = float(ctx.constant(op, 2).reshape(-1)[0])
    else:
        value = float(x.quant.z) if x.quantization is not None else 0.0
    ctx.add(op, "pad", PadAttrs(before, after, value=value), [x.name], moves=True)


def _mirror_pad(ctx: Context, op: RawOperator) -> None:
    import tflite

    x = ctx.first(op)
    before, after = _pads(ctx, op, x)
    symmetric = read_options(tflite.MirrorPadOptions, op).Mode() == 1
    mode = PadMode.SYMMETRIC if symmetric else PadMode.REFLECT
    ctx.add(op, "pad", PadAttrs(before, after, mode), [x.name], moves=True)


def _concatenation(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.ConcatenationOptions, op)
    x = ctx.first(op)
    if options.FusedActivationFunction() != 0:
        raise ctx.refuse(op, "fused activation")
    axis = normal_axes(ctx, op, [options.Axis()], len(x.shape))[0]
    # unsigned inputs are brought to the output's scale, signed ones are copied as they are
    moves = x.dtype is not DType.UINT8
    ctx.add(op, "concat", ConcatAttrs(axis), moves=moves)


def _shape(ctx: Context, op: RawOperator) -> None:
    x, y = ctx.first(op), ctx.output(op)
    ctx.fold(op, np.array(x.shape, np.int64 if y.dtype is DType.INT64 else np.int32))


def _rank(ctx: Context, op: RawOperator) -> None:
    ctx.fold(op, np.array(len(ctx.first(op).shape), np.int32))


def _fill(ctx: Context, op: RawOperator) -> None:
    dims, value = ctx.integers(op, 0), ctx.constant(op, 1)
    y = ctx.settle(ctx.output(op), tuple(dims))
    if tuple(dims) != y.shape or value.size != 1:
        raise ctx.damaged(op, f"fill of {dims} for shape {y.shape}")
    ctx.fold(op, np.full(y.shape, value.reshape(-1)[0]))


def _zeros_like(ctx: Context, op: RawOperator) -> None:
    y = ctx.settle(ctx.output(op), ctx.first(op).shape)
    zero = y.quant.z if y.quantization is not None else 0
    ctx.fold(op, np.full(y.shape, zero, np.dtype(str(y.dtype))))


def _range(ctx: Context, op: RawOperator) -> None:
    start, limit, step = (ctx.constant(op, i).reshape(-1)[0] for i in range(3))
    ctx.fold(op, np.arange(start, limit, step))


def _pack(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.PackOptions, op)
    parts = [tensor for tensor in ctx.inputs(op, 1) if tensor is not None]
    if len({part.shape for part in parts}) != 1:
        raise ctx.damaged(op, f"parts of shapes {[part.shape for part in parts]}")
    axis = normal_axes(ctx, op, [options.Axis()], len(parts[0].shape) + 1)[0]
    if all(part.data is not None for part in parts):
        ctx.fold(op, np.stack([part.array for part in parts], axis))
        return
    shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
    names: list[str | None] = []
    for i, part in enumerate(parts):
        row = ctx.intermediate(op, f"part_{i}", part, shape)
        ctx.move("reshape", ReshapeAttrs(shape), part, row)
        names.append(row.name)
    ctx.add(op, "concat", ConcatAttrs(axis), names, moves=True)


def _split_into(ctx: Context, op: RawOperator, x: Tensor, axis: int, sizes: list[int]) -> None:
    if len(sizes) != len(op.outputs):
        raise ctx.damaged(op, f"{len(sizes)} pieces for {len(op.outputs)} outputs")
    ctx.add(op, "split", SplitAttrs(axis, tuple(sizes)), [x.name], moves=True)


def _split(ctx: Context, op: RawOperator) -> None:
    x = ctx.inputs(op, 2)[1]
    assert x is not None
    axis = normal_axes(ctx, op, ctx.integers(op, 0), len(x.shape))[0]
    count = len(op.outputs)
    if not count or x.shape[axis] % count:
        raise ctx.damaged(op, f"axis of {x.shape[axis]} in {count} pieces")
    _split_into(ctx, op, x, axis, [x.shape[axis] // count] * count)


def _split_v(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    sizes = ctx.integers(op, 1)
    axis = normal_axes(ctx, op, ctx.integers(op, 2), len(x.shape))[0]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(n for n in sizes if n != -1)
    _split_into(ctx, op, x, axis, sizes)


def _unpack(ctx: Context, op: RawOperator) -> None:
    import tflite

    x = ctx.first(op)
    options = read_options(tflite.UnpackOptions, op)
    axis = normal_axes(ctx, op, [options.Axis()], len(x.shape))[0]
    if x.shape[axis] != len(op.outputs):
        raise ctx.damaged(op, f"axis of {x.shape[axis]} for {len(op.outputs)} outputs")
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    rows = [ctx.intermediate(op, f"row_{i}", x, shape) for i in range(len(op.outputs))]
    names = tuple(row.name for row in rows)
    sizes = (1,) * len(rows)
    ctx.nodes.append(Node(names[0], "split", (x.name,), names, SplitAttrs(axis, sizes)))
    for i, row in enumerate(rows):
        y = ctx.settle(ctx.output(op, i), (*x.shape[:axis], *x.shape[axis + 1 :]))
        ctx.move("reshape", ReshapeAttrs(y.shape), row, y)


def _gather(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.GatherOptions, op)
    x, index = ctx.inputs(op, 2)[:2]
    assert x is not None
    assert index is not None
    if options.BatchDims() != 0:
        raise ctx.refuse(op, f"batch_dims {options.BatchDims()}")
    axis = normal_axes(ctx, op, [options.Axis()], len(x.shape))[0]
    if index.data is not None and (index.data.min(initial=0) < 0 or (
        index.data.max(initial=0) >= x.shape[axis]
    )):  # fmt: skip
        raise ctx.damaged(op, f"index outside of an axis of {x.shape[axis]}")
    ctx.add(op, "gather", AxisAttrs(axis), [x.name, index.name], moves=True)


def _tile(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    repeats = ctx.integers(op, 1)
    ctx.add(op, "tile", TileAttrs(tuple(repeats)), [x.name], moves=True)


def _broadcast_to(ctx: Context, op: RawOperator) -> None:
    attrs = ReshapeAttrs(tuple(ctx.integers(op, 1)))
    ctx.add(op, "broadcast_to", attrs, [ctx.first(op).name], moves=True)


def _blocks(ctx: Context, op: RawOperator, block: int, inverse: bool) -> None:
    """Channels to pixels (inverse False) or back, block-major."""
    x, y = ctx.first(op), ctx.output(op)
    if len(x.shape) != 4 or len(y.shape) != 4 or block < 1:
        raise ctx.damaged(op, f"block {block} of shape {x.shape}")
    if y.name in ctx.open:
        n, h, w, c = x.shape
        deep, wide = (n, h // block, w // block, c * block**2), (n, h * block, w * block)
        y = ctx.settle(y, deep if inverse else (*wide, c // block**2))
    image = x if inverse else y
    n, h, w, c = image.shape
    if h % block or w % block:
        raise ctx.damaged(op, f"blocks of {block} in {h} x {w}")
    split = (n, h // block, block, w // block, block, c)
    packed = (n, h // block, w // block, block, block, c)
    perm = TransposeAttrs((0, 1, 3, 2, 4, 5))
    apart = ctx.intermediate(op, "blocks", x, split if inverse else packed)
    ctx.move("reshape", ReshapeAttrs(apart.shape), x, apart)
    moved = ctx.intermediate(op, "moved", x, packed if inverse else split)
    ctx.move("transpose", perm, apart, moved)
    ctx.move("reshape", ReshapeAttrs(y.shape), moved, y)


def _depth_to_space(ctx: Context, op: RawOperator) -> None:
    import tflite

    _blocks(ctx, op, read_options(tflite.DepthToSpaceOptions, op).BlockSize(), False)


def _space_to_depth(ctx: Context, op: RawOperator) -> None:
    import tflite

    _blocks(ctx, op, read_options(tflite.SpaceToDepthOptions, op).BlockSize(), True)


def _space_to_batch(ctx: Context, op: RawOperator) -> None:
    x, y = ctx.first(op), ctx.output(op)
    block, pads = ctx.integers(op, 1), ctx.integers(op, 2)
    rank = len(block)
    if rank not in (1, 2) or len(pads) != 2 * rank or len(x.shape) < rank + 1 or min(block) < 1:
        raise ctx.refuse(op, f"block {block} of shape {x.shape}")
    tail = len(x.shape) - 1 - rank
    before = (0, *pads[0::2], *(0,) * tail)
    after = (0, *pads[1::2], *(0,) * tail)
    shape = tuple(n + b + a for n, b, a in zip(x.shape, before, after, strict=True))
    zero = float(x.quant.z) if x.quantization is not None else 0.0
    padded = ctx.intermediate(op, "padded", x, shape)
    ctx.move("pad", PadAttrs(before, after, value=zero), x, padded)
    split = [shape[0]]
    for n, b in zip(shape[1 : rank + 1], block, strict=True):
        if n % b:
            raise ctx.damaged(op, f"blocks of {b} in {n}")
        split += [n // b, b]
    split += shape[rank + 1 :]
    inner = [2 * i + 2 for i in range(rank)]
    outer = [2 * i + 1 for i in range(rank)]
    perm = (*inner, 0, *outer, *range(2 * rank + 1, len(split)))
    batch = shape[0] * math.prod(block)
    y = ctx.settle(y, (batch, *(split[axis] for axis in outer), *shape[rank + 1 :]))
    _reorder(ctx, op, padded, tuple(split), perm, y)


def _batch_to_space(ctx: Context, op: RawOperator) -> None:
    x, y = ctx.first(op), ctx.output(op)
    block, crops = ctx.integers(op, 1), ctx.integers(op, 2)
    rank = len(block)
    if rank not in (1, 2) or len(crops) != 2 * rank or len(x.shape) < rank + 1 or min(block) < 1:
        raise ctx.refuse(op, f"block {block} of shape {x.shape}")
    if x.shape[0] % math.prod(block):
        raise ctx.damaged(op, f"batch of {x.shape[0]} for block {block}")
    batch = x.shape[0] // math.prod(block)
    split = (*block, batch, *x.shape[1:])
    perm = [rank]
    for i in range(rank):
        perm += [rank + 1 + i, i]
    perm += range(2 * rank + 1, len(split))
    spatial = tuple(n * b for n, b in zip(x.shape[1 : rank + 1], block, strict=True))
    whole = ctx.intermediate(op, "whole", x, (batch, *spatial, *x.shape[rank + 1 :]))
    _reorder(ctx, op, x, split, tuple(perm), whole)
    cropped = tuple(n - b - a for n, b, a in zip(spatial, crops[0::2], crops[1::2], strict=True))
    y = ctx.settle(y, (batch, *cropped, *x.shape[rank + 1 :]))
    begin = (0, *crops[0::2], *(0,) * (len(x.shape) - 1 - rank))
    ctx.move("slice", SliceAttrs(begin, (1,) * len(begin), y.shape), whole, y)


def _reorder(
    ctx: Context,
    op: RawOperator,
    x: Tensor,
    split: tuple[int, ...],
    perm: tuple[int, ...],
    y: Tensor,
) -> None:
    """Reshape to `split`, permute, reshape to the result."""
    apart = ctx.intermediate(op, "blocks", x, split)
    ctx.move("reshape", ReshapeAttrs(split), x, apart)
    moved = ctx.intermediate(op, "moved", x, tuple(split[axis] for axis in perm))
    ctx.move("transpose", TransposeAttrs(perm), apart, moved)
    ctx.move("reshape", ReshapeAttrs(y.shape), moved, y)


def slice_range(begin: int, end: int, step: int, size: int, free: tuple[bool, bool]) -> range:
    """The positions a Python-style slice takes; `free` says which bounds are left open."""
    bounds = slice(None if free[0] else begin, None if free[1] else end, step)
    return range(size)[bounds]


def _sliced(
    ctx: Context, op: RawOperator, x: Tensor, ranges: list[range], dropped: Sequence[int] = ()
) -> None:
    """The positions of each axis; `dropped` axes are those that the result does not have."""
    kept = tuple(len(r) for axis, r in enumerate(ranges) if axis not in dropped)
    y = ctx.settle(ctx.output(op), kept)
    if x.data is not None:
        ctx.fold(op, x.data[np.ix_(*ranges)])
        return
    attrs = SliceAttrs(
        tuple(r.start if len(r) else 0 for r in ranges),
        tuple(r.step for r in ranges),
        tuple(len(r) for r in ranges),
    )
    if math.prod(attrs.count) != y.size:
        raise ctx.damaged(op, f"slice of {attrs.count} for shape {y.shape}")
    if attrs.count == y.shape:
        ctx.add(op, "slice", attrs, [x.name], moves=True)
        return
    whole = ctx.intermediate(op, "slice", x, attrs.count)
    ctx.move("slice", attrs, x, whole)
    ctx.move("reshape", ReshapeAttrs(y.shape), whole, y)


def _slice(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    begin, size = ctx.integers(op, 1), ctx.integers(op, 2)
    if not len(begin) == len(size) == len(x.shape):
        raise ctx.damaged(op, f"begin {begin}, size {size} for rank {len(x.shape)}")
    ranges = [
        range(b, n if s == -1 else b + s) for b, s, n in zip(begin, size, x.shape, strict=True)
    ]
    if any(r.start < 0 or r.stop > n for r, n in zip(ranges, x.shape, strict=True)):
        raise ctx.damaged(op, f"begin {begin}, size {size} for shape {x.shape}")
    _sliced(ctx, op, x, ranges)


def _strided_slice(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.StridedSliceOptions, op)
    x = ctx.first(op)
    begin, end, step = (ctx.integers(op, i) for i in (1, 2, 3))
    if options.EllipsisMask() or options.NewAxisMask():
        raise ctx.refuse(op, "ellipsis or new-axis mask")
    if not len(begin) == len(end) == len(step) <= len(x.shape) or 0 in step:
        raise ctx.damaged(op, f"begin {begin}, end {end}, strides {step}")
    ranges, dropped = [range(n) for n in x.shape], []
    for axis, (b, e, s) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            at = normal_axes(ctx, op, [b], x.shape[axis])[0]
            ranges[axis] = range(at, at + 1)
            dropped.append(axis)
        else:
            free = (bool(options.BeginMask() & bit), bool(options.EndMask() & bit))
            ranges[axis] = slice_range(b, e, s, x.shape[axis], free)
    _sliced(ctx, op, x, ranges, dropped)


MOVEMENT: dict[str, Handler] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "EXPAND_DIMS": _reshape,
    "FILL": _fill,
    "GATHER": _gather,
    "MIRROR_PAD": _mirror_pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RANGE": _range,
    "RANK": _rank,
    "RESHAPE": _reshape,
    "SHAPE": _shape,
    "SLICE": _slice,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
    "ZEROS_LIKE": _zeros_like,
}

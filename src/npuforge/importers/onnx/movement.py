"""Handlers of ONNX operators that move data, change shapes or resample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuforge.graph import (
    AxisAttrs,
    ConcatAttrs,
    CoordinateMode,
    NearestMode,
    NoAttrs,
    PadAttrs,
    PadMode,
    ReshapeAttrs,
    ResizeAttrs,
    ResizeMode,
    Shape,
    SliceAttrs,
    SplitAttrs,
    Tensor,
    TileAttrs,
    TransposeAttrs,
)
from npuforge.graph.shapes import broadcast
from npuforge.importers.onnx.importer import Constant, Importer, Value
from npuforge.importers.onnx.layout import (
    CHANNELS_LAST,
    Layout,
    identity,
    keeps_order,
    our_axis,
    our_shape,
    permutation,
    transposed,
)
from npuforge.importers.onnx.reading import Handler, integer, integer_target, ints, settle, text
from npuforge.importers.onnx.records import RawNode
from npuforge.vocab import Contract, DType


def _moved(importer: Importer, node: RawNode, target_shape: Sequence[int]) -> None:
    """Same elements in ONNX's order under another shape."""
    value = importer.input_value(node, 0)
    tensor = importer.tensor_of(value)
    order = identity(len(value.layout))
    source = value
    if not keeps_order(tensor.shape, permutation(value.layout, order)):
        source = importer.in_layout(value, order)
    like = importer.tensor_of(source)
    attrs = ReshapeAttrs(tuple(int(n) for n in target_shape))
    importer.emit(node, "reshape", [source.name], attrs, identity(len(target_shape)), like=like)
    _keep_real(importer, node, value)


def _viewed(importer: Importer, node: RawNode, value: Value, shape: Shape, layout: Layout) -> None:
    """The same bytes under another shape of ours and its layout."""
    like = importer.tensor_of(value)
    importer.emit(node, "reshape", [value.name], ReshapeAttrs(shape), layout, like=like)
    _keep_real(importer, node, value)


def _keep_real(importer: Importer, node: RawNode, source: Value) -> None:
    """Moving data does not change whether ONNX sees real numbers."""
    for name in node.outputs:
        result = importer.values[name]
        importer.values[name] = Value(result.name, result.layout, source.real)


def _reshape(importer: Importer, node: RawNode) -> None:
    wanted = [int(n) for n in importer.constant(node, 1, "shape").reshape(-1)]
    shape = importer.shape_of(node.inputs[0])
    if not integer(node, "allowzero", 0):
        wanted = [shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    if -1 in wanted:
        rest = int(np.prod([n for n in wanted if n != -1], dtype=np.int64))
        total = int(np.prod(shape, dtype=np.int64))
        if rest == 0 or total % rest or wanted.count(-1) > 1:
            raise importer.refuse(node, f"shape {wanted} for {total} elements")
        wanted[wanted.index(-1)] = total // rest
    _moved(importer, node, wanted)


def _flatten(importer: Importer, node: RawNode) -> None:
    shape = importer.shape_of(node.inputs[0])
    axis = integer(node, "axis", 1) % (len(shape) + 1)
    _moved(importer, node, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))


def _axes(importer: Importer, node: RawNode, rank: int) -> list[int]:
    given = importer.optional_constant(node, 1)
    axes = ints(node, "axes", ()) if given is None else tuple(int(a) for a in given.reshape(-1))
    return sorted(axis % rank for axis in axes)


def _squeeze(importer: Importer, node: RawNode) -> None:
    shape = importer.shape_of(node.inputs[0])
    axes = _axes(importer, node, len(shape)) or [i for i, n in enumerate(shape) if n == 1]
    if any(shape[axis] != 1 for axis in axes):
        raise importer.refuse(node, f"axes {axes} of shape {shape}")
    value = importer.input_value(node, 0)
    kept = [i for i, axis in enumerate(value.layout) if axis not in axes]
    order = [value.layout[i] for i in kept]
    sizes = importer.tensor_of(value).shape
    layout = tuple(sorted(order).index(axis) for axis in order)
    _viewed(importer, node, value, tuple(sizes[i] for i in kept), layout)


def _unsqueeze(importer: Importer, node: RawNode) -> None:
    shape = list(importer.shape_of(node.inputs[0]))
    given = importer.optional_constant(node, 1)
    count = len(ints(node, "axes", ())) if given is None else given.size
    axes = _axes(importer, node, len(shape) + count)
    if len(set(axes)) != count:
        raise importer.refuse(node, f"axes {axes} for {count} new ones")
    old = [axis for axis in range(len(shape) + count) if axis not in axes]
    value = importer.input_value(node, 0)
    layout = [old[axis] for axis in value.layout]
    for axis in reversed(axes):  # beside the axis that ONNX has it beside
        layout.insert(layout.index(axis + 1) if axis + 1 in layout else len(layout), axis)
    sizes = iter(importer.tensor_of(value).shape)
    ours = tuple(1 if axis in axes else next(sizes) for axis in layout)
    _viewed(importer, node, value, ours, tuple(layout))


def _transpose(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    rank = len(value.layout)
    perm = ints(node, "perm", tuple(reversed(range(rank))))
    if sorted(perm) != list(range(rank)):
        raise importer.refuse(node, f"permutation {perm}")
    importer.values[node.outputs[0]] = Value(value.name, transposed(value.layout, perm), value.real)


def _concat(importer: Importer, node: RawNode) -> None:
    known = [importer.values[n].layout for n in node.inputs if n in importer.values]
    if not known:
        raise importer.refuse(node, "no part is computed while the network runs")
    layout = known[0]
    values = [
        importer.constant_value(name, layout)
        if name in importer.constants
        else importer.values[name]
        for name in node.inputs
    ]
    target = integer_target(importer, node, values)
    rank = len(layout)
    axis = our_axis(integer(node, "axis", 0) % rank, layout)
    parts = [importer.in_layout(settle(importer, value, target), layout) for value in values]
    contract = Contract.ONNX_QLINEAR if target is not None else Contract.EXACT
    like = importer.tensor_of(parts[0])
    importer.emit(
        node,
        "concat",
        [part.name for part in parts],
        ConcatAttrs(axis),
        layout,
        target=target,
        like=like,
        contract=contract,
    )


def _pad(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    tensor = importer.tensor_of(value)
    rank = len(value.layout)
    pads = [int(n) for n in importer.constant(node, 1, "pads").reshape(-1)]
    if len(pads) != 2 * rank or len(node.inputs) > 3:
        raise importer.refuse(node, f"{len(pads)} paddings for rank {rank}")
    mode = text(node, "mode", "constant")
    if mode not in ("constant", "reflect"):
        raise importer.refuse(node, f"mode {mode}")
    fill = 0.0
    if len(node.inputs) > 2 and node.inputs[2]:
        constant = importer.constants.get(node.inputs[2])
        if constant is None:
            raise importer.refuse(node, "the padding value is computed while the network runs")
        fill = float(constant.array.reshape(-1)[0])
        if constant.quantization is not None:
            fill = (fill - constant.quantization.z) * float(constant.quantization.s)
    if value.real:
        low, high = tensor.dtype.limits
        stored = np.rint(np.float32(fill) / tensor.quant.s) + tensor.quant.z
        fill = float(np.clip(stored, low, high))
    attrs = PadAttrs(
        tuple(pads[axis] for axis in value.layout),
        tuple(pads[axis + rank] for axis in value.layout),
        PadMode(mode),
        fill,
    )
    importer.emit(node, "pad", [value.name], attrs, value.layout, like=tensor)
    _keep_real(importer, node, value)


_COORDINATES = {
    "half_pixel": CoordinateMode.HALF_PIXEL,
    "pytorch_half_pixel": CoordinateMode.PYTORCH_HALF_PIXEL,
    "align_corners": CoordinateMode.ALIGN_CORNERS,
    "asymmetric": CoordinateMode.ASYMMETRIC,
}
_NEAREST = {
    "floor": NearestMode.FLOOR,
    "ceil": NearestMode.CEIL,
    "round_prefer_floor": NearestMode.ROUND_PREFER_FLOOR,
    "round_prefer_ceil": NearestMode.ROUND_PREFER_CEIL,
}


def _resize(importer: Importer, node: RawNode) -> None:
    x = importer.in_layout(importer.input_value(node, 0), CHANNELS_LAST)
    tensor = importer.tensor_of(x)
    shape = importer.shape_of(node.inputs[0])
    scales = importer.optional_constant(node, 2)
    sizes = importer.optional_constant(node, 3)
    if sizes is not None and sizes.size:
        wanted = [int(n) for n in sizes.reshape(-1)]
        ratios = [w / n for w, n in zip(wanted, shape, strict=True)]
    elif scales is not None and scales.size:
        ratios = [float(s) for s in scales.reshape(-1)]
        wanted = [int(np.floor(n * s)) for n, s in zip(shape, ratios, strict=True)]
    else:
        raise importer.refuse(node, "neither sizes nor scales")
    mode = {"nearest": ResizeMode.NEAREST, "linear": ResizeMode.BILINEAR}.get(
        text(node, "mode", "nearest")
    )
    coordinates = _COORDINATES.get(text(node, "coordinate_transformation_mode", "half_pixel"))
    if mode is None or coordinates is None or wanted[:2] != list(shape[:2]):
        raise importer.refuse(node, f"mode {node.attrs.get('mode')} to {wanted}")
    attrs = ResizeAttrs(
        (wanted[2], wanted[3]),
        mode,
        coordinates,
        _NEAREST[text(node, "nearest_mode", "round_prefer_floor")],
        (ratios[2], ratios[3]),
    )
    if mode is ResizeMode.NEAREST:
        importer.emit(node, "resize", [x.name], attrs, CHANNELS_LAST, like=tensor)
        _keep_real(importer, node, x)
        return
    target = integer_target(importer, node, [x])
    x = settle(importer, x, target)
    importer.emit(
        node, "resize", [x.name], attrs, CHANNELS_LAST, target=target, contract=Contract.FLOAT32
    )


def _shape(importer: Importer, node: RawNode) -> None:
    shape = np.array(importer.shape_of(node.inputs[0]), np.int64)
    importer.constants[node.outputs[0]] = Constant(shape)


def _split(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    shape = importer.shape_of(node.inputs[0])
    axis = integer(node, "axis", 0) % len(shape)
    given = importer.optional_constant(node, 1)
    sizes = ints(node, "split", ()) if given is None else tuple(int(n) for n in given.reshape(-1))
    if not sizes:
        # equal pieces, the last one takes what is left
        count = len(node.outputs)
        piece = -(-shape[axis] // count)
        sizes = (*(piece,) * (count - 1), shape[axis] - piece * (count - 1))
    if len(sizes) != len(node.outputs) or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise importer.refuse(node, f"pieces {sizes} of an axis of {shape[axis]}")
    attrs = SplitAttrs(our_axis(axis, value.layout), sizes)
    like = importer.tensor_of(value)
    importer.emit_moved(node, "split", [value.name], attrs, value.layout, like)
    _keep_real(importer, node, value)


_END = 1 << 31


def _slice(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    shape = importer.shape_of(node.inputs[0])
    rank = len(shape)
    if importer.model.opset < 10:
        starts, ends = ints(node, "starts", ()), ints(node, "ends", ())
        axes, steps = ints(node, "axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = (
            tuple(int(n) for n in importer.constant(node, i, what).reshape(-1))
            for i, what in ((1, "starts"), (2, "ends"))
        )
        axes, steps = (
            tuple(int(n) for n in (default if found is None else found.reshape(-1)))
            for default, found in (
                (range(len(starts)), importer.optional_constant(node, 3)),
                ((1,) * len(starts), importer.optional_constant(node, 4)),
            )
        )
    begin, step, count = [0] * rank, [1] * rank, list(shape)
    for start, end, raw_axis, stride in zip(starts, ends, axes, steps, strict=True):
        axis = raw_axis % rank
        chosen = range(*slice(start, end if abs(end) < _END else None, stride).indices(shape[axis]))
        begin[axis], step[axis], count[axis] = chosen.start, stride, len(chosen)
    if min(count, default=1) < 1:
        raise importer.refuse(node, "an empty slice")
    ours = (our_shape(tuple(numbers), value.layout) for numbers in (begin, step, count))
    like = importer.tensor_of(value)
    importer.emit(node, "slice", [value.name], SliceAttrs(*ours), value.layout, like=like)
    _keep_real(importer, node, value)


def _tile(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    repeats = tuple(int(n) for n in importer.constant(node, 1, "repeats").reshape(-1))
    attrs = TileAttrs(our_shape(repeats, value.layout))
    like = importer.tensor_of(value)
    importer.emit(node, "tile", [value.name], attrs, value.layout, like=like)
    _keep_real(importer, node, value)


def _expand(importer: Importer, node: RawNode) -> None:
    value = importer.in_order(importer.input_value(node, 0))
    wanted = tuple(int(n) for n in importer.constant(node, 1, "shape").reshape(-1))
    shape = broadcast(importer.tensor_of(value).shape, wanted)
    attrs = ReshapeAttrs(shape)
    like = importer.tensor_of(value)
    layout = identity(len(shape))
    importer.emit(node, "broadcast_to", [value.name], attrs, layout, like=like)
    _keep_real(importer, node, value)


def _gather(importer: Importer, node: RawNode) -> None:
    value = importer.in_order(importer.input_value(node, 0))
    like = importer.tensor_of(value)
    axis = integer(node, "axis", 0) % len(like.shape)
    raw = importer.constant(node, 1, "index").astype(np.int64)
    index = np.where(raw < 0, raw + like.shape[axis], raw)
    if index.min(initial=0) < 0 or index.max(initial=0) >= like.shape[axis]:
        raise importer.refuse(node, f"index outside of an axis of {like.shape[axis]}")
    name = importer.add_constant(f"{node.inputs[1]}/index", index.astype(np.int32), None)
    layout = identity(len(like.shape) - 1 + index.ndim)
    importer.emit(node, "gather", [value.name, name], AxisAttrs(axis), layout, like=like)
    _keep_real(importer, node, value)


def _depth_to_space(importer: Importer, node: RawNode) -> None:
    """Channels to pixels: channels are (block, block, depth) in DCR mode, else depth first."""
    x = importer.in_layout(importer.input_value(node, 0), CHANNELS_LAST)
    tensor = importer.tensor_of(x)
    n, h, w, c = tensor.shape
    b = integer(node, "blocksize", 1)
    depth = c // (b * b)
    if text(node, "mode", "DCR") == "DCR":
        inner, perm = (n, h, w, b, b, depth), (0, 1, 3, 2, 4, 5)
    else:
        inner, perm = (n, h, w, depth, b, b), (0, 1, 4, 2, 5, 3)
    _rearranged(importer, node, x, inner, perm, (n, h * b, w * b, depth))


def _space_to_depth(importer: Importer, node: RawNode) -> None:
    x = importer.in_layout(importer.input_value(node, 0), CHANNELS_LAST)
    n, h, w, c = importer.tensor_of(x).shape
    b = integer(node, "blocksize", 1)
    inner, perm = (n, h // b, b, w // b, b, c), (0, 1, 3, 2, 4, 5)
    _rearranged(importer, node, x, inner, perm, (n, h // b, w // b, b * b * c))


def _rearranged(
    importer: Importer,
    node: RawNode,
    x: Value,
    inner: tuple[int, ...],
    perm: tuple[int, ...],
    shape: tuple[int, ...],
) -> None:
    """A change of blocks: axes split, moved and joined again."""
    like = importer.tensor_of(x)
    split = importer.step(node, "split_axes", "reshape", [x.name], ReshapeAttrs(inner), like)
    moved = importer.step(node, "moved", "transpose", [split], TransposeAttrs(perm), like)
    importer.emit(node, "reshape", [moved], ReshapeAttrs(shape), CHANNELS_LAST, like=like)
    _keep_real(importer, node, x)


def _cast(importer: Importer, node: RawNode) -> None:
    to = importer.dtype_of(np.empty(0, _element_type(node)), node.outputs[0])
    value = importer.input_value(node, 0)
    if value.real or importer.tensor_of(value).dtype is to:
        if to is not DType.FLOAT32 and value.real:
            raise importer.refuse(node, f"cast of quantised numbers to {to}")
        importer.values[node.outputs[0]] = value
        return
    like = Tensor("", (), to)
    importer.emit(node, "cast", [value.name], NoAttrs(), value.layout, like=like)


def _element_type(node: RawNode) -> np.dtype[np.generic]:
    import onnx

    dtype: np.dtype[np.generic] = onnx.helper.tensor_dtype_to_np_dtype(integer(node, "to", 1))
    return dtype


def _arg_extreme(op: str) -> Handler:
    def handle(importer: Importer, node: RawNode) -> None:
        value = importer.input_value(node, 0)
        rank = len(value.layout)
        axis = integer(node, "axis", 0) % rank
        if integer(node, "select_last_index", 0):
            raise importer.refuse(node, "select_last_index")
        layout = (*(a for a in value.layout if a != axis), axis)
        x = importer.in_layout(value, layout)
        like = Tensor("", (), DType.INT64)
        kept = tuple(a - (a > axis) for a in layout[:-1])
        if not integer(node, "keepdims", 1):
            importer.emit(node, op, [x.name], AxisAttrs(rank - 1), kept, like=like)
            return
        shape = importer.tensor_of(x).shape
        flat = importer.step(node, "index", op, [x.name], AxisAttrs(rank - 1), like)
        attrs = ReshapeAttrs((*shape[:-1], 1))
        importer.emit(node, "reshape", [flat], attrs, layout, like=like)

    return handle


HANDLERS: dict[str, Handler] = {
    "ArgMax": _arg_extreme("arg_max"),
    "ArgMin": _arg_extreme("arg_min"),
    "Cast": _cast,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""Handlers of this module, by ONNX operator."""

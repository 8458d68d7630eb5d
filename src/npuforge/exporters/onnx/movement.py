"""Handlers that turn nodes which move data or change types into ONNX operators."""

from __future__ import annotations

import numpy as np

from npuforge.exporters.onnx.emitter import (
    CHANNELS_LAST,
    Emitter,
    Handler,
    identity,
    to_onnx,
)
from npuforge.graph import (
    AxisAttrs,
    ConcatAttrs,
    CoordinateMode,
    NearestMode,
    Node,
    PadAttrs,
    PadMode,
    ReshapeAttrs,
    ResizeAttrs,
    ResizeMode,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)
from npuforge.numerics import nearest_index
from npuforge.vocab import Activation, Contract

_FRONT = -(1 << 40)
"""An end that lies in front of every first element."""


def _reshape(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, ReshapeAttrs)
    x = emitter.tensor(node.inputs[0])
    shape = node.attrs.shape
    if not x.is_constant and len(x.shape) == len(shape) == 4:
        # moving axes of one only is a change of order, as the importer writes it
        for perm in (CHANNELS_LAST, (0, 3, 1, 2)):
            moved = [axis for axis in perm if x.shape[axis] != 1]
            layout = tuple(emitter.layout(x.name)[axis] for axis in perm)
            fits = tuple(x.shape[axis] for axis in perm) == shape and moved == sorted(moved)
            if fits and shape != x.shape and layout in (identity(4), CHANNELS_LAST):
                emitter.alias(node, layout)
                return
    layout = emitter.layout(x.name)
    order = [axis for _, axis in sorted(zip(layout, range(len(layout)), strict=True))]
    moving = [axis for axis in order if x.shape[axis] != 1]
    if moving != sorted(moving):
        layout = identity(len(x.shape))
    source = emitter.real(x.name, layout)
    target = emitter.constant(f"{node.name}/shape", np.array(shape, np.int64))
    emitter.apply(node, "Reshape", [source, target], identity(len(shape)))


def _transpose(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, TransposeAttrs)
    x = emitter.tensor(node.inputs[0])
    layout = tuple(emitter.layout(x.name)[axis] for axis in node.attrs.perm)
    if x.is_constant:
        source = emitter.real(x.name, identity(len(x.shape)))
        emitter.apply(
            node, "Transpose", [source], identity(len(layout)), perm=list(node.attrs.perm)
        )
        return
    emitter.alias(node, layout)


def _pad(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, PadAttrs)
    x = emitter.tensor(node.inputs[0])
    if attrs.mode is PadMode.SYMMETRIC:
        raise emitter.refuse(node, "symmetric padding")
    layout = emitter.layout(x.name)
    pads = [*to_onnx(attrs.before, layout), *to_onnx(attrs.after, layout)]
    inputs = [emitter.real(x.name, layout), emitter.constant(f"{node.name}/pads", pads)]
    if attrs.mode is PadMode.CONSTANT:
        value, kind = attrs.value, str(x.dtype)
        if x.quantization is not None:
            value, kind = (attrs.value - x.quant.z) * float(x.quant.s), "float32"
        inputs.append(emitter.constant(f"{node.name}/value", value, kind))
    emitter.apply(node, "Pad", inputs, layout, mode=str(attrs.mode))


def _concat(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, ConcatAttrs)
    y = emitter.tensor(node.outputs[0])
    parts = [emitter.tensor(name) for name in node.inputs]
    if node.contract is Contract.EXACT and y.quantization is not None:
        other = [part.name for part in parts if not y.quantization.same_as(part.quantization)]
        if other:
            raise emitter.refuse(node, f"bytes of {other[0]}, which has another scale, are copied")
    layout = next(
        (emitter.layout(part.name) for part in parts if not part.is_constant),
        identity(len(y.shape)),
    )
    inputs = [emitter.real(part.name, layout) for part in parts]
    emitter.apply(node, "Concat", inputs, layout, attrs.activation, axis=layout[attrs.axis])


def _split(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, SplitAttrs)
    layout = emitter.layout(node.inputs[0])
    sizes = emitter.constant(f"{node.name}/sizes", attrs.sizes)
    made = [emitter.result(node, layout, i) for i in range(len(node.outputs))]
    source = emitter.real(node.inputs[0], layout)
    emitter.add("Split", [source, sizes], made, axis=layout[attrs.axis])
    for index, name in enumerate(made):
        emitter.finish(node, name, layout, index)


def _slice(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, SliceAttrs)
    layout = emitter.layout(node.inputs[0])
    ends = [
        first + count * step
        for first, step, count in zip(attrs.begin, attrs.step, attrs.count, strict=True)
    ]
    lists = {
        "starts": attrs.begin,
        "ends": [end if end >= 0 else _FRONT for end in ends],
        "axes": layout,
        "steps": attrs.step,
    }
    inputs = [emitter.real(node.inputs[0], layout)]
    inputs += [emitter.constant(f"{node.name}/{key}", value) for key, value in lists.items()]
    emitter.apply(node, "Slice", inputs, layout)


def _gather(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, AxisAttrs)
    x, index = emitter.tensor(node.inputs[0]), emitter.tensor(node.inputs[1])
    y = emitter.tensor(node.outputs[0])
    inputs = [
        emitter.real(x.name, identity(len(x.shape))),
        emitter.stored(index.name, identity(len(index.shape))),
    ]
    emitter.apply(node, "Gather", inputs, identity(len(y.shape)), axis=node.attrs.axis)


def _tile(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, TileAttrs)
    layout = emitter.layout(node.inputs[0])
    repeats = emitter.constant(f"{node.name}/repeats", to_onnx(node.attrs.repeats, layout))
    emitter.apply(node, "Tile", [emitter.real(node.inputs[0], layout), repeats], layout)


def _broadcast_to(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, ReshapeAttrs)
    x = emitter.tensor(node.inputs[0])
    shape = emitter.constant(f"{node.name}/shape", node.attrs.shape)
    inputs = [emitter.real(x.name, identity(len(x.shape))), shape]
    emitter.apply(node, "Expand", inputs, identity(len(node.attrs.shape)))


def _cast(emitter: Emitter, node: Node) -> None:
    from onnx import helper

    x, y = emitter.tensor(node.inputs[0]), emitter.tensor(node.outputs[0])
    if x.quantization is not None or y.quantization is not None:
        raise emitter.refuse(node, "stored numbers of a quantised tensor are cast")
    layout = emitter.layout(x.name)
    to = helper.np_dtype_to_tensor_dtype(np.dtype("bool" if y.dtype == "bool" else str(y.dtype)))
    emitter.apply(node, "Cast", [emitter.real(x.name, layout)], layout, to=to)


_MODES = {
    CoordinateMode.ASYMMETRIC: "asymmetric",
    CoordinateMode.HALF_PIXEL: "half_pixel",
    CoordinateMode.PYTORCH_HALF_PIXEL: "pytorch_half_pixel",
    CoordinateMode.ALIGN_CORNERS: "align_corners",
}


def _resize(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, ResizeAttrs)
    x, y = emitter.tensor(node.inputs[0]), emitter.tensor(node.outputs[0])
    coordinates, nearest = attrs.coordinates, attrs.nearest
    if coordinates is CoordinateMode.HALF_PIXEL_NEAREST:
        # floor(c + 1/2) of the coordinate that is half a pixel lower
        coordinates, nearest = CoordinateMode.HALF_PIXEL, NearestMode.ROUND_PREFER_CEIL
    ratios = tuple(float(y.shape[a] / x.shape[a]) for a in (1, 2))
    written = ResizeAttrs(
        attrs.size, attrs.mode, coordinates, nearest, attrs.scale or (ratios[0], ratios[1])
    )
    is_nearest = attrs.mode is ResizeMode.NEAREST
    if is_nearest:
        for axis in (0, 1):
            sides = (axis, x.shape[axis + 1], y.shape[axis + 1])
            if not np.array_equal(nearest_index(attrs, *sides), nearest_index(written, *sides)):
                raise emitter.refuse(node, f"coordinates {attrs.coordinates}", "EXP-008")
    inputs = [emitter.real(x.name, CHANNELS_LAST), ""]
    if attrs.scale is None or attrs.scale == ratios:
        sizes = emitter.constant(f"{node.name}/sizes", [y.shape[0], y.shape[3], *attrs.size])
        inputs += ["", sizes]
    else:
        inputs.append(emitter.constant(f"{node.name}/scales", [1, 1, *attrs.scale], "float32"))
    emitter.apply(
        node,
        "Resize",
        inputs,
        CHANNELS_LAST,
        Activation.NONE,
        mode="nearest" if is_nearest else "linear",
        coordinate_transformation_mode=_MODES[coordinates],
        nearest_mode=str(nearest),
    )


MOVEMENT: dict[str, Handler] = {
    "broadcast_to": _broadcast_to,
    "cast": _cast,
    "concat": _concat,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "resize": _resize,
    "slice": _slice,
    "split": _split,
    "tile": _tile,
    "transpose": _transpose,
}
"""Handlers of this module, by our operator."""

"""One handler a TFLite operator: options and constant inputs become attributes.

Operators on shapes of static tensors (SHAPE, STRIDED_SLICE, PACK on constants) are computed here,
so that what they feed becomes constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuforge.errors import NpuforgeError
from npuforge.graph import (
    Array,
    Attrs,
    ConcatAttrs,
    ConvAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    NoAttrs,
    Node,
    PadAttrs,
    PoolAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    SliceAttrs,
    SoftmaxAttrs,
    Tensor,
    TransposeAttrs,
)
from npuforge.importers.tflite.file import RawOperator, read_options
from npuforge.vocab import Activation, Contract


class Context:
    """What a handler may use of the importer."""

    tensors: dict[str, Tensor]
    nodes: list[Node]

    def name_of(self, index: int) -> str | None:
        """Name of a tensor by its number; None for an absent optional one."""
        raise NotImplementedError

    def refuse(self, op: RawOperator, reason: str) -> NpuforgeError:
        """The error for an operator that is sound but not taken."""
        raise NotImplementedError

    def damaged(self, op: RawOperator, reason: str) -> NpuforgeError:
        """The error for an operator that contradicts itself."""
        raise NotImplementedError

    def inputs(self, op: RawOperator, least: int) -> list[Tensor | None]:
        """The tensors an operator reads; at least `least` of them are there."""
        names = [self.name_of(i) for i in op.inputs]
        if len(names) < least or None in names[:least]:
            raise self.damaged(op, f"{len(names)} inputs")
        return [None if name is None else self.tensors[name] for name in names]

    def first(self, op: RawOperator) -> Tensor:
        """The operator's first input."""
        tensor = self.inputs(op, 1)[0]
        assert tensor is not None
        return tensor

    def output(self, op: RawOperator, index: int = 0) -> Tensor:
        """One of the operator's outputs."""
        name = self.name_of(op.outputs[index]) if len(op.outputs) > index else None
        if name is None:
            raise self.damaged(op, "no output")
        return self.tensors[name]

    def constant(self, op: RawOperator, index: int) -> Array:
        """The data of an input that must be known before the network runs."""
        tensor = self.inputs(op, index + 1)[index]
        assert tensor is not None
        if tensor.data is None:
            raise self.refuse(op, f"{tensor.name} is computed while the network runs")
        return tensor.data

    def integers(self, op: RawOperator, index: int) -> list[int]:
        """An input of whole numbers that must be known before the network runs."""
        data = self.constant(op, index)
        if data.dtype.kind not in "iu":
            raise self.damaged(op, f"input {index} is not of integers")
        return [int(v) for v in data.reshape(-1)]

    def fold(self, op: RawOperator, value: Array) -> None:
        """Make the output a constant instead of adding a node."""
        tensor = self.output(op)
        if value.size != tensor.size:
            raise self.damaged(op, f"result of {value.size} values for shape {tensor.shape}")
        data = np.array(value.reshape(tensor.shape), order="C")
        self.tensors[tensor.name] = Tensor(
            tensor.name, tensor.shape, tensor.dtype, tensor.quantization, data
        )

    def add(
        self,
        op: RawOperator,
        kind: str,
        attrs: Attrs,
        inputs: Sequence[str | None] | None = None,
        *,
        moves: bool = False,
    ) -> None:
        """Append a node with all of the operator's outputs; `moves` marks pure data movement."""
        names = [self.name_of(i) for i in op.inputs] if inputs is None else list(inputs)
        while names and names[-1] is None:
            names.pop()
        outputs = [name for name in (self.name_of(i) for i in op.outputs) if name is not None]
        if not outputs:
            raise self.damaged(op, "no output")
        contract = Contract.EXACT
        if not moves:
            tensors = [self.tensors[n] for n in (*names[:1], *outputs[:1]) if n is not None]
            is_float = all(t.dtype.is_float for t in tensors)
            contract = Contract.FLOAT32 if is_float else Contract.TFLITE_REFERENCE
        node = Node(outputs[0], kind, tuple(names), tuple(outputs), attrs, contract)
        self.nodes.append(node)


Handler = Callable[[Context, RawOperator], None]

# ActivationFunctionType of the TFLite schema
_ACTIVATIONS = {
    0: Activation.NONE,
    1: Activation.RELU,
    2: Activation.RELU_N1_TO_1,
    3: Activation.RELU6,
}


def _activation(ctx: Context, op: RawOperator, options: Any) -> Activation:
    number = options.FusedActivationFunction()
    if number not in _ACTIVATIONS:
        raise ctx.refuse(op, f"fused activation {number}")
    return _ACTIVATIONS[number]


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and behind that makes ceil(size / stride) outputs; the odd one goes behind."""
    span = (kernel - 1) * dilation + 1
    count = -(-size // stride)
    total = max((count - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def _window(
    ctx: Context,
    op: RawOperator,
    options: Any,
    size: tuple[int, int],
    kernel: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    stride = (options.StrideH(), options.StrideW())
    if min(*stride, *dilation, *kernel) < 1:
        raise ctx.damaged(op, f"stride {stride}, dilation {dilation}, kernel {kernel}")
    if options.Padding() != 0:  # VALID
        return stride, (0, 0, 0, 0)
    rows = same_padding(size[0], kernel[0], stride[0], dilation[0])
    columns = same_padding(size[1], kernel[1], stride[1], dilation[1])
    return stride, (*rows, *columns)


def _image(ctx: Context, op: RawOperator, tensor: Tensor | None) -> tuple[int, int, int, int]:
    if tensor is None or len(tensor.shape) != 4:
        raise ctx.damaged(op, "input or weights are not of rank 4")
    n, h, w, c = tensor.shape
    return n, h, w, c


def _conv2d(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.Conv2DOptions, op)
    x, w = ctx.inputs(op, 2)[:2]
    _, height, width, channels = _image(ctx, op, x)
    _, kernel_h, kernel_w, depth = _image(ctx, op, w)
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    stride, padding = _window(ctx, op, options, (height, width), (kernel_h, kernel_w), dilation)
    groups = channels // depth if depth else 1
    attrs = ConvAttrs(stride, dilation, padding, _activation(ctx, op, options), groups)
    ctx.add(op, "conv2d", attrs)


def _depthwise_conv2d(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.DepthwiseConv2DOptions, op)
    x, w = ctx.inputs(op, 2)[:2]
    _, height, width, _ = _image(ctx, op, x)
    _, kernel_h, kernel_w, _ = _image(ctx, op, w)
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    stride, padding = _window(ctx, op, options, (height, width), (kernel_h, kernel_w), dilation)
    attrs = ConvAttrs(stride, dilation, padding, _activation(ctx, op, options))
    ctx.add(op, "depthwise_conv2d", attrs)


def _fully_connected(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.FullyConnectedOptions, op)
    if options.WeightsFormat() != 0:
        raise ctx.refuse(op, "shuffled weights")
    attrs = FullyConnectedAttrs(_activation(ctx, op, options), bool(options.KeepNumDims()))
    ctx.add(op, "fully_connected", attrs)


def _pool(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(tflite.Pool2DOptions, op)
        _, height, width, _ = _image(ctx, op, ctx.first(op))
        kernel = (options.FilterHeight(), options.FilterWidth())
        stride, padding = _window(ctx, op, options, (height, width), kernel)
        ctx.add(op, kind, PoolAttrs(kernel, stride, padding, _activation(ctx, op, options)))

    return handle


def _binary(kind: str, table: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(getattr(tflite, table), op)
        ctx.add(op, kind, ElementwiseAttrs(_activation(ctx, op, options)))

    return handle


def _unary(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        ctx.add(op, kind, NoAttrs(), [ctx.first(op).name])

    return handle


def normal_axes(ctx: Context, op: RawOperator, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front; refuses those that do not exist."""
    if any(not -rank <= axis < rank for axis in axes):
        raise ctx.damaged(op, f"axes {list(axes)} for rank {rank}")
    return [axis % rank for axis in axes]


def _reduce(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(tflite.ReducerOptions, op)
        x = ctx.first(op)
        axes = normal_axes(ctx, op, ctx.integers(op, 1), len(x.shape))
        attrs = ReduceAttrs(tuple(sorted(set(axes))), bool(options.KeepDims()))
        ctx.add(op, kind, attrs, [x.name])

    return handle


def _softmax(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.SoftmaxOptions, op)
    x = ctx.first(op)
    attrs = SoftmaxAttrs(max(len(x.shape) - 1, 0), float(options.Beta()))
    ctx.add(op, "softmax", attrs, [x.name])


def _reshape(ctx: Context, op: RawOperator) -> None:
    x, y = ctx.first(op), ctx.output(op)
    if x.data is not None:
        ctx.fold(op, x.data)
        return
    ctx.add(op, "reshape", ReshapeAttrs(y.shape), [x.name], moves=True)


def _transpose(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    perm = normal_axes(ctx, op, ctx.integers(op, 1), len(x.shape))
    ctx.add(op, "transpose", TransposeAttrs(tuple(perm)), [x.name], moves=True)


def _pad(ctx: Context, op: RawOperator) -> None:
    x = ctx.first(op)
    pads = ctx.integers(op, 1)
    if len(pads) != 2 * len(x.shape):
        raise ctx.damaged(op, f"{len(pads)} paddings for rank {len(x.shape)}")
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        value = float(ctx.constant(op, 2).reshape(-1)[0])
    else:
        value = float(x.quant.z) if x.quantization is not None else 0.0
    attrs = PadAttrs(tuple(pads[0::2]), tuple(pads[1::2]), value=value)
    ctx.add(op, "pad", attrs, [x.name], moves=True)


def _concatenation(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.ConcatenationOptions, op)
    x = ctx.first(op)
    axis = normal_axes(ctx, op, [options.Axis()], len(x.shape))[0]
    ctx.add(op, "concat", ConcatAttrs(axis, _activation(ctx, op, options)), moves=True)


def _shape(ctx: Context, op: RawOperator) -> None:
    x, y = ctx.first(op), ctx.output(op)
    ctx.fold(op, np.array(x.shape, np.int64 if y.dtype == "int64" else np.int32))


def _pack(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.PackOptions, op)
    parts = [tensor for tensor in ctx.inputs(op, 1) if tensor is not None]
    if any(part.data is None for part in parts):
        raise ctx.refuse(op, "stacks tensors that are computed while the network runs")
    axis = normal_axes(ctx, op, [options.Axis()], len(parts[0].shape) + 1)[0]
    if len({part.shape for part in parts}) != 1:
        raise ctx.damaged(op, f"parts of shapes {[part.shape for part in parts]}")
    ctx.fold(op, np.stack([part.array for part in parts], axis))


def slice_extent(begin: int, end: int, step: int, size: int, free: tuple[bool, bool]) -> range:
    """The positions a Python-style slice takes; `free` says which bounds are left open."""
    bounds = slice(None if free[0] else begin, None if free[1] else end, step)
    return range(size)[bounds]


def _strided_slice(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.StridedSliceOptions, op)
    x, y = ctx.first(op), ctx.output(op)
    begin, end, step = (ctx.integers(op, i) for i in (1, 2, 3))
    if options.EllipsisMask() or options.NewAxisMask():
        raise ctx.refuse(op, "ellipsis or new-axis mask")
    if not len(begin) == len(end) == len(step) <= len(x.shape) or 0 in step:
        raise ctx.damaged(op, f"begin {begin}, end {end}, strides {step}")
    ranges = [range(n) for n in x.shape]
    for axis, (b, e, s) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            at = normal_axes(ctx, op, [b], x.shape[axis])[0]
            ranges[axis] = range(at, at + 1)
        else:
            free = (bool(options.BeginMask() & bit), bool(options.EndMask() & bit))
            ranges[axis] = slice_extent(b, e, s, x.shape[axis], free)
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
    whole = Tensor(f"{y.name}/slice", attrs.count, x.dtype, x.quantization)
    ctx.tensors[whole.name] = whole
    ctx.nodes.append(Node(whole.name, "slice", (x.name,), (whole.name,), attrs))
    ctx.add(op, "reshape", ReshapeAttrs(y.shape), [whole.name], moves=True)


HANDLERS: dict[str, Handler] = {
    "ADD": _binary("add", "AddOptions"),
    "AVERAGE_POOL_2D": _pool("average_pool2d"),
    "CONCATENATION": _concatenation,
    "CONV_2D": _conv2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv2d,
    "DEQUANTIZE": _unary("dequantize"),
    "FULLY_CONNECTED": _fully_connected,
    "LOGISTIC": _unary("logistic"),
    "MAX_POOL_2D": _pool("max_pool2d"),
    "MEAN": _reduce("mean"),
    "MUL": _binary("mul", "MulOptions"),
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "QUANTIZE": _unary("quantize"),
    "RELU": _unary("relu"),
    "RELU6": _unary("relu6"),
    "RELU_N1_TO_1": _unary("relu_n1_to_1"),
    "RESHAPE": _reshape,
    "SHAPE": _shape,
    "SOFTMAX": _softmax,
    "STRIDED_SLICE": _strided_slice,
    "TRANSPOSE": _transpose,
}

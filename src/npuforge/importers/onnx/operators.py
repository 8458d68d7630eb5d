"""Handlers of ONNX operators that compute: layers, elementwise, pooling, reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuforge.graph import (
    Array,
    Attrs,
    ConvAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    GeluAttrs,
    HardSigmoidAttrs,
    LeakyReluAttrs,
    MatMulAttrs,
    NoAttrs,
    PoolAttrs,
    Quantization,
    ReduceAttrs,
    ReshapeAttrs,
    SoftmaxAttrs,
    Tensor,
    TransposeConvAttrs,
)
from npuforge.graph.shapes import window_count
from npuforge.importers.onnx import movement
from npuforge.importers.onnx.importer import UNSIGNED_ZERO, Constant, Importer, Target, Value
from npuforge.importers.onnx.layout import CHANNELS_LAST, Layout, identity, our_axis
from npuforge.importers.onnx.reading import (
    Handler,
    contract_of,
    integer,
    integer_target,
    ints,
    settle,
    text,
)
from npuforge.importers.onnx.records import RawNode
from npuforge.vocab import Activation, Contract, DType

# --- quantise and dequantise ---


def _quantize(importer: Importer, node: RawNode) -> None:
    found = importer.quantization_of(node)
    if found is None:
        raise importer.refuse(node, "scale or zero point is computed while the network runs")
    quant, dtype = found
    name = node.inputs[0]
    if name in importer.constants:
        importer.constants[node.outputs[0]] = _quantize_constant(
            importer.constants[name], quant, dtype
        )
        return
    value = importer.values[name]
    tensor = importer.tensor_of(value)
    if value.real and tensor.dtype is dtype and quant.same_as(tensor.quantization):
        importer.values[node.outputs[0]] = Value(value.name, value.layout)
        return
    if quant.axis is not None:
        raise importer.refuse(node, "activations quantised per channel")
    result = importer.emit(
        node,
        "quantize",
        [tensor.name],
        NoAttrs(),
        value.layout,
        target=Target(node.outputs[0], dtype, quant),
        contract=Contract.ONNX_QLINEAR,
    )
    importer.values[node.outputs[0]] = Value(result.name, result.layout)


def _quantize_constant(constant: Constant, quant: Quantization, dtype: DType) -> Constant:
    array = constant.array
    shape = quant.broadcast(array.ndim)
    scale, zero = quant.scale.reshape(shape), quant.zero_point.reshape(shape)
    low, high = dtype.limits
    stored = np.clip(np.rint(array.astype(np.float32) / scale) + zero, low, high)
    return Constant(stored.astype(str(dtype)), quant)


def _signed(array: Array) -> Array:
    """Stored numbers on the signed scale."""
    if array.dtype != np.uint8:
        return array
    return (array.astype(np.int16) - UNSIGNED_ZERO).astype(np.int8)


def _dequantize(importer: Importer, node: RawNode) -> None:
    found = importer.quantization_of(node)
    if found is None:
        raise importer.refuse(node, "scale or zero point is computed while the network runs")
    quant, dtype = found
    name = node.inputs[0]
    if name in importer.constants:
        stored = _signed(importer.constants[name].array)
        importer.constants[node.outputs[0]] = Constant(stored, quant)
        return
    value = importer.values[name]
    tensor = importer.tensor_of(value)
    if tensor.dtype is DType.UINT8 and tensor.quantization is None:
        value = _signed_input(importer, node, value, quant)
        tensor = importer.tensor_of(value)
    if tensor.quantization is None and not value.real:
        # a network input that is already quantised
        importer.tensors[tensor.name] = Tensor(
            tensor.name, tensor.shape, tensor.dtype, quant, tensor.data
        )
    elif tensor.dtype is not dtype or not quant.same_as(tensor.quantization):
        raise importer.refuse(node, f"{tensor.name} was quantised with another scale")
    importer.values[node.outputs[0]] = Value(value.name, value.layout, real=True)


def _signed_input(importer: Importer, node: RawNode, value: Value, quant: Quantization) -> Value:
    """A network input of uint8 brought to int8; the file's own type stays at the interface."""
    tensor = importer.tensor_of(value)
    unsigned = Quantization(quant.scale, quant.zero_point + UNSIGNED_ZERO)
    importer.tensors[tensor.name] = Tensor(tensor.name, tensor.shape, tensor.dtype, unsigned)
    like = Tensor("", tensor.shape, DType.INT8, quant)
    name = importer.step(node, "signed", "quantize", [tensor.name], NoAttrs(), like)
    importer.values[tensor.name] = Value(name, value.layout)
    return importer.values[tensor.name]


# --- linear operators ---


def window_padding(
    node: RawNode, size: tuple[int, int], kernel: tuple[int, int], ceil: bool = False
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
    """Stride, dilation and explicit padding (top, bottom, left, right) of a window operator."""
    strides = ints(node, "strides", (1, 1))
    dilations = ints(node, "dilations", (1, 1))
    if len(strides) != 2 or len(dilations) != 2 or min(*strides, *dilations, *kernel) < 1:
        raise ValueError(f"strides {strides}, dilations {dilations}, kernel {kernel}")
    auto = text(node, "auto_pad", "NOTSET")
    begin, end = [0, 0], [0, 0]
    for axis in (0, 1):
        span = (kernel[axis] - 1) * dilations[axis] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-size[axis] // strides[axis])
            total = max((count - 1) * strides[axis] + span - size[axis], 0)
            half = total // 2
            begin[axis] = half if auto == "SAME_UPPER" else total - half
            end[axis] = total - begin[axis]
        elif auto == "NOTSET":
            pads = ints(node, "pads", (0, 0, 0, 0))
            begin[axis], end[axis] = pads[axis], pads[axis + 2]
        if ceil:
            over = (size[axis] + begin[axis] + end[axis] - span) % strides[axis]
            extra = strides[axis] - over if over else 0
            # a window that would start in the padding behind is dropped
            count = window_count(
                size[axis],
                kernel[axis],
                strides[axis],
                dilations[axis],
                begin[axis],
                end[axis] + extra,
            )
            if (count - 1) * strides[axis] < size[axis] + begin[axis]:
                end[axis] += extra
    padding = (begin[0], end[0], begin[1], end[1])
    return (strides[0], strides[1]), (dilations[0], dilations[1]), padding


def _with_axis(quant: Quantization | None, axis: int) -> Quantization | None:
    if quant is None or quant.axis is None:
        return quant
    return Quantization(quant.scale, quant.zero_point, axis)


@dataclass(frozen=True, eq=False)
class _Layer:
    """Constant operands of a layer, with the arithmetic they allow.

    Attributes:
        weights: in ONNX's layout; integers only when the whole layer can work on integers.
        bias: integers or floats like the weights; None when there is none.
        target: what the result is quantised to when the layer works on integers.
    """

    weights: Constant
    bias: Constant | None
    target: Target | None

    def add_bias(self, importer: Importer, node: RawNode) -> list[str]:
        """Names of the bias tensor: one or none."""
        if self.bias is None:
            return []
        name = f"{node.inputs[2]}/bias"
        quant = _with_axis(self.bias.quantization, 0)
        return [importer.add_constant(name, self.bias.array.reshape(-1), quant)]


def _layer(importer: Importer, node: RawNode, x: Value, axis: int) -> _Layer:
    """Weights and bias of a layer; `axis` is the weights' axis of output channels.

    Integer kernels take int8 weights around zero, per tensor or per output channel, with an int32
    bias. Everything else is what ONNX Runtime computes in floats between a dequantise and a
    quantise, and so does npuforge.
    """
    weights = _constant_operand(importer, node, 1)
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = _constant_operand(importer, node, 2)
    quant = weights.quantization
    target = integer_target(importer, node, [x], activations=True)
    around_zero = (
        quant is not None
        and weights.array.dtype == np.int8
        and quant.axis in (None, axis)
        and not np.any(quant.zero_point)
    )
    bias_fits = bias is None or (bias.quantization is not None and bias.array.dtype == np.int32)
    if target is not None and around_zero and bias_fits:
        return _Layer(weights, bias, target)
    return _Layer(_real(weights), None if bias is None else _real(bias), None)


def _constant_operand(importer: Importer, node: RawNode, index: int) -> Constant:
    name = node.inputs[index]
    if name not in importer.constants:
        raise importer.refuse(node, f"weights {name} are computed while the network runs")
    return importer.constants[name]


def _real(constant: Constant) -> Constant:
    """A constant as the floats it stands for."""
    quant = constant.quantization
    return constant if quant is None else Constant(quant.real_single(constant.array))


def _activation(target: Target | None) -> Activation:
    return target.activation if target is not None else Activation.NONE


def _image(importer: Importer, node: RawNode) -> Value:
    """The first input as an image with its channels last."""
    value = importer.input_value(node, 0)
    if len(value.layout) != len(CHANNELS_LAST):
        raise importer.refuse(
            node, f"a window over {len(value.layout) - 2} axes; images and sequences are taken"
        )
    return importer.in_layout(value, CHANNELS_LAST)


def _conv(importer: Importer, node: RawNode) -> None:
    x = _image(importer, node)
    layer = _layer(importer, node, x, 0)
    weights = layer.weights
    if weights.array.ndim != 4:
        raise importer.refuse(node, f"convolution of rank {weights.array.ndim}")
    contract = contract_of(x, layer.target)
    x = settle(importer, x, layer.target)
    shape = importer.tensor_of(x).shape
    groups = integer(node, "group", 1)
    _, depth, kernel_h, kernel_w = weights.array.shape
    size, kernel = (shape[1], shape[2]), (kernel_h, kernel_w)
    stride, dilation, padding = window_padding(node, size, kernel)
    depthwise = depth == 1 and groups == shape[3] and groups > 1
    order = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
    quant = _with_axis(weights.quantization, 3 if depthwise else 0)
    w = importer.add_constant(f"{node.inputs[1]}/nhwc", weights.array.transpose(order), quant)
    attrs = ConvAttrs(
        stride, dilation, padding, _activation(layer.target), 1 if depthwise else groups
    )
    inputs = [x.name, w, *layer.add_bias(importer, node)]
    op = "depthwise_conv2d" if depthwise else "conv2d"
    importer.emit(node, op, inputs, attrs, CHANNELS_LAST, target=layer.target, contract=contract)


def _conv_transpose(importer: Importer, node: RawNode) -> None:
    x = _image(importer, node)
    layer = _layer(importer, node, x, 1)
    weights = layer.weights
    dilation = ints(node, "dilations", (1, 1))
    if weights.array.ndim != 4 or integer(node, "group", 1) != 1 or max(dilation) > 1:
        raise importer.refuse(node, "only two image axes, one group and no dilation are taken")
    if text(node, "auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attrs:
        raise importer.refuse(node, "padding must be stated")
    # ONNX Runtime has no integer kernel for this operator
    x = importer.as_float(x)
    weights = _real(weights)
    stride, pads = ints(node, "strides", (1, 1)), ints(node, "pads", (0, 0, 0, 0))
    extra = ints(node, "output_padding", (0, 0))
    attrs = TransposeConvAttrs(
        (stride[0], stride[1]), (pads[0], pads[2], pads[1], pads[3]), (extra[0], extra[1])
    )
    w = importer.add_constant(f"{node.inputs[1]}/nhwc", weights.array.transpose(1, 2, 3, 0), None)
    inputs = [x.name, w]
    if layer.bias is not None:
        bias = _real(layer.bias).array.reshape(-1)
        inputs.append(importer.add_constant(f"{node.inputs[2]}/bias", bias, None))
    contract = Contract.FLOAT32
    importer.emit(node, "transpose_conv2d", inputs, attrs, CHANNELS_LAST, contract=contract)


def _gemm(importer: Importer, node: RawNode) -> None:
    if (
        integer(node, "transA", 0)
        or node.attrs.get("alpha", 1.0) != 1.0
        or node.attrs.get("beta", 1.0) != 1.0
    ):
        raise importer.refuse(node, "transA, alpha or beta")
    _fully_connected(importer, node, by_rows=bool(integer(node, "transB", 0)))


def _matmul(importer: Importer, node: RawNode) -> None:
    weights = importer.constants.get(node.inputs[1])
    if weights is not None and weights.array.ndim == 2 and node.inputs[0] in importer.values:
        _fully_connected(importer, node, by_rows=False)
        return
    operands = [importer.input_value(node, i) for i in (0, 1)]
    target = integer_target(importer, node, operands)
    contract = contract_of(operands[0], target)
    names, swapped = [], []
    for value in operands:
        settled = settle(importer, value, target)
        rank = len(settled.layout)
        other = (*range(rank - 2), rank - 1, rank - 2)
        # a transpose in front of the product costs nothing
        swapped.append(settled.layout == other)
        wanted = other if swapped[-1] else identity(rank)
        names.append(importer.in_layout(settled, wanted).name)
    attrs = MatMulAttrs(swapped[0], swapped[1])
    rank = max(len(value.layout) for value in operands)
    importer.emit(node, "matmul", names, attrs, identity(rank), target=target, contract=contract)


def _fully_connected(importer: Importer, node: RawNode, by_rows: bool) -> None:
    x = importer.input_value(node, 0)
    layer = _layer(importer, node, x, 0 if by_rows else 1)
    contract = contract_of(x, layer.target)
    x = importer.in_order(settle(importer, x, layer.target))
    array = layer.weights.array
    matrix = array if by_rows else array.T
    quant = _with_axis(layer.weights.quantization, 0)
    w = importer.add_constant(f"{node.inputs[1]}/rows", matrix, quant)
    rank = len(x.layout)
    attrs = FullyConnectedAttrs(_activation(layer.target), keep_dims=rank != 2)
    inputs = [x.name, w, *layer.add_bias(importer, node)]
    importer.emit(
        node,
        "fully_connected",
        inputs,
        attrs,
        identity(rank),
        target=layer.target,
        contract=contract,
    )


def _batch_normalization(importer: Importer, node: RawNode) -> None:
    """With constant statistics: a factor and an offset a channel."""
    value = importer.as_float(importer.input_value(node, 0))
    gain, offset, mean, variance = (
        _real(_constant_operand(importer, node, i)).array.astype(np.float32) for i in range(1, 5)
    )
    epsilon = np.float32(node.attrs.get("epsilon", 1e-5))  # type: ignore[arg-type]
    factor = gain / np.sqrt(variance + epsilon)
    shape = [1] * len(value.layout)
    shape[our_axis(1, value.layout)] = factor.size
    name = node.outputs[0]
    f = importer.add_constant(f"{name}/factor", factor.reshape(shape), None)
    o = importer.add_constant(f"{name}/offset", (offset - mean * factor).reshape(shape), None)
    attrs, like = ElementwiseAttrs(), importer.tensor_of(value)
    scaled = importer.step(
        node, "scaled", "mul", [value.name, f], attrs, like, contract=Contract.FLOAT32
    )
    importer.emit(node, "add", [scaled, o], attrs, value.layout, contract=Contract.FLOAT32)


# --- elementwise operators ---


def _binary(op: str) -> Handler:
    def handle(importer: Importer, node: RawNode) -> None:
        rank = max(len(importer.shape_of(name)) for name in node.inputs[:2])
        layouts = [
            importer.values[name].layout
            for name in node.inputs[:2]
            if name in importer.values and len(importer.values[name].layout) == rank
        ]
        layout = layouts[0] if layouts else identity(rank)
        operands = [_operand(importer, node, i, layout) for i in (0, 1)]
        target = None
        if op in _QUANTISED_BINARY:
            fused = op in ("add", "mul")
            target = integer_target(importer, node, operands, activations=fused)
        contract = contract_of(operands[0], target)
        operands = [settle(importer, value, target) for value in operands]
        like = importer.tensor_of(operands[0])
        attrs = ElementwiseAttrs(_activation(target))
        names = [value.name for value in operands]
        kept = like if target is None and not like.dtype.is_float else None
        importer.emit(node, op, names, attrs, layout, target=target, like=kept, contract=contract)

    return handle


def _fold_left(op: str) -> Handler:
    """Min and Max take any number of operands."""
    pair = _binary(op)

    def handle(importer: Importer, node: RawNode) -> None:
        if len(node.inputs) != 2:
            raise importer.refuse(node, f"{len(node.inputs)} operands")
        pair(importer, node)

    return handle


def _logical(op: str) -> Handler:
    """Comparisons, logic and selection: real numbers or truth values, nothing quantised."""

    def handle(importer: Importer, node: RawNode) -> None:
        rank = max(len(importer.shape_of(name)) for name in node.inputs)
        layouts = [
            importer.values[name].layout
            for name in node.inputs
            if name in importer.values and len(importer.values[name].layout) == rank
        ]
        layout = layouts[0] if layouts else identity(rank)
        operands = [
            importer.as_float(_operand(importer, node, i, layout)) for i in range(len(node.inputs))
        ]
        like = Tensor("", (), DType.BOOL)
        if op == "select":
            like = importer.tensor_of(operands[1])
        names = [value.name for value in operands]
        contract = Contract.FLOAT32
        importer.emit(node, op, names, NoAttrs(), layout, like=like, contract=contract)

    return handle


_QUANTISED_BINARY = frozenset({"add", "sub", "mul", "div", "minimum", "maximum"})


def _operand(importer: Importer, node: RawNode, index: int, layout: Layout) -> Value:
    name = node.inputs[index]
    if name in importer.constants:
        return importer.constant_value(name, layout)
    value = importer.values[name]
    rank = len(value.layout)
    if rank == len(layout):
        return importer.in_layout(value, layout)
    # axes of one in front, then the common order
    source = importer.in_order(value)
    like = importer.tensor_of(source)
    shape = (1,) * (len(layout) - rank) + like.shape
    attrs = ReshapeAttrs(shape)
    name = importer.step(node, f"operand_{index}", "reshape", [source.name], attrs, like)
    return importer.in_layout(Value(name, identity(len(layout)), value.real), layout)


def _unary(op: str) -> Handler:
    return lambda importer, node: _apply(importer, node, op, NoAttrs())


def _apply(importer: Importer, node: RawNode, op: str, attrs: Attrs) -> None:
    value = importer.input_value(node, 0)
    target = integer_target(importer, node, [value])
    contract = contract_of(value, target)
    x = settle(importer, value, target)
    importer.emit(node, op, [x.name], attrs, x.layout, target=target, contract=contract)


def _leaky_relu(importer: Importer, node: RawNode) -> None:
    alpha = float(node.attrs.get("alpha", 0.01))  # type: ignore[arg-type]
    _apply(importer, node, "leaky_relu", LeakyReluAttrs(alpha))


def _gelu(importer: Importer, node: RawNode) -> None:
    _apply(importer, node, "gelu", GeluAttrs(text(node, "approximate", "none") == "tanh"))


def _hard_sigmoid(importer: Importer, node: RawNode) -> None:
    alpha = float(node.attrs.get("alpha", 0.2))  # type: ignore[arg-type]
    beta = float(node.attrs.get("beta", 0.5))  # type: ignore[arg-type]
    if abs(beta - 0.5) > 1e-6:
        raise importer.refuse(node, f"beta {beta}")
    _apply(importer, node, "hard_sigmoid", HardSigmoidAttrs(alpha))


def _prelu(importer: Importer, node: RawNode) -> None:
    value = importer.as_float(importer.input_value(node, 0))
    slope = _real(_constant_operand(importer, node, 1)).array
    padded = slope.reshape((1,) * (len(value.layout) - slope.ndim) + slope.shape)
    alpha = np.ascontiguousarray(padded.transpose(value.layout))
    name = importer.add_constant(f"{node.inputs[1]}/slope", alpha, None)
    contract = Contract.FLOAT32
    importer.emit(node, "prelu", [value.name, name], NoAttrs(), value.layout, contract=contract)


def _clip(importer: Importer, node: RawNode) -> None:
    activation = importer.activation_of(node)
    if activation is not None:
        _unary(activation.value)(importer, node)
        return
    bounds = importer.clip_bounds(node)
    if bounds is None:
        raise importer.refuse(node, "its limits are computed while the network runs")
    value = importer.as_float(importer.input_value(node, 0))
    last, contract = value.name, Contract.FLOAT32
    rank = len(value.layout)
    steps = [
        (op, bound)
        for op, bound in zip(("maximum", "minimum"), bounds, strict=True)
        if bound is not None
    ]
    if not steps:
        importer.values[node.outputs[0]] = value
        return
    names = []
    for op, bound in steps:
        limit = np.full((1,) * rank, bound, np.float32)
        names.append((op, importer.add_constant(f"{node.outputs[0]}/{op}", limit, None)))
    like, attrs = importer.tensor_of(value), ElementwiseAttrs()
    for op, limit_name in names[:-1]:
        last = importer.step(node, "clipped", op, [last, limit_name], attrs, like, contract)
    op, limit_name = names[-1]
    importer.emit(node, op, [last, limit_name], attrs, value.layout, contract=contract)


def _identity(importer: Importer, node: RawNode) -> None:
    name = node.inputs[0]
    if name in importer.constants:
        importer.constants[node.outputs[0]] = importer.constants[name]
    else:
        importer.values[node.outputs[0]] = importer.values[name]


# --- pooling and reduction ---


def _max_pool(importer: Importer, node: RawNode) -> None:
    _pool(importer, node, "max_pool2d")


def _average_pool(importer: Importer, node: RawNode) -> None:
    _pool(importer, node, "average_pool2d")


def _pool(importer: Importer, node: RawNode, op: str) -> None:
    x = _image(importer, node)
    tensor = importer.tensor_of(x)
    kernel = ints(node, "kernel_shape", ())
    if len(kernel) != 2 or len(node.outputs) != 1:
        raise importer.refuse(node, f"kernel {kernel} with {len(node.outputs)} outputs")
    window = (kernel[0], kernel[1])
    stride, dilation, padding = window_padding(
        node, (tensor.shape[1], tensor.shape[2]), window, ceil=bool(integer(node, "ceil_mode", 0))
    )
    if dilation != (1, 1):
        raise importer.refuse(node, f"dilation {dilation}")
    counted = bool(integer(node, "count_include_pad", 0))
    attrs = PoolAttrs(window, stride, padding, count_padding=counted)
    if op == "max_pool2d":
        importer.emit(
            node, op, [x.name], attrs, CHANNELS_LAST, like=tensor, contract=Contract.EXACT
        )
        return
    target = integer_target(importer, node, [x])
    contract = contract_of(x, target)
    x = settle(importer, x, target)
    importer.emit(node, op, [x.name], attrs, CHANNELS_LAST, target=target, contract=contract)


def _reduced(
    importer: Importer, node: RawNode, op: str, axes: Sequence[int], keep: bool, exact: bool
) -> None:
    value = importer.input_value(node, 0)
    rank = len(value.layout)
    onnx_axes = {axis % rank for axis in axes}
    ours = tuple(sorted(our_axis(axis, value.layout) for axis in onnx_axes))
    neighbours = ours == tuple(range(ours[0], ours[-1] + 1))
    averaged = op == "mean" and neighbours
    target = integer_target(importer, node, [value]) if averaged else None
    contract = contract_of(value, target) if exact else Contract.FLOAT32
    x = settle(importer, value, target)
    like = None
    if op in ("reduce_max", "reduce_min") and value.real:
        # picking a number is the same before and after dequantising
        x, contract, like = value, Contract.EXACT, importer.tensor_of(value)
    layout = x.layout
    if not keep:
        kept = [axis for axis in x.layout if axis not in onnx_axes]
        layout = tuple(sorted(kept).index(axis) for axis in kept)
    attrs = ReduceAttrs(ours, keep)
    importer.emit(node, op, [x.name], attrs, layout, target=target, like=like, contract=contract)


def _global_average_pool(importer: Importer, node: RawNode) -> None:
    rank = len(importer.shape_of(node.inputs[0]))
    _reduced(importer, node, "mean", range(2, rank), keep=True, exact=True)


def _global_max_pool(importer: Importer, node: RawNode) -> None:
    rank = len(importer.shape_of(node.inputs[0]))
    _reduced(importer, node, "reduce_max", range(2, rank), keep=True, exact=False)


def _reduce(op: str) -> Handler:
    def handle(importer: Importer, node: RawNode) -> None:
        axes = importer.optional_constant(node, 1)
        listed = ints(node, "axes", ()) if axes is None else tuple(int(a) for a in axes.reshape(-1))
        if not listed and integer(node, "noop_with_empty_axes", 0):
            _identity(importer, node)
            return
        rank = len(importer.shape_of(node.inputs[0]))
        keep = bool(integer(node, "keepdims", 1))
        # ONNX Runtime has no integer kernels for reductions
        _reduced(importer, node, op, listed or range(rank), keep, exact=False)

    return handle


def _softmax(op: str) -> Handler:
    def handle(importer: Importer, node: RawNode) -> None:
        value = importer.input_value(node, 0)
        target = integer_target(importer, node, [value]) if op == "softmax" else None
        rank = len(value.layout)
        axis = integer(node, "axis", -1 if importer.model.opset >= 13 else 1) % rank
        behind = importer.shape_of(node.inputs[0])[axis + 1 :]
        if importer.model.opset < 13 and any(n != 1 for n in behind):
            raise importer.refuse(node, f"softmax over several axes, {axis} and all behind")
        layout = (*(a for a in value.layout if a != axis), axis)
        contract = contract_of(value, target)
        x = importer.in_layout(settle(importer, value, target), layout)
        attrs = SoftmaxAttrs(rank - 1)
        importer.emit(node, op, [x.name], attrs, layout, target=target, contract=contract)

    return handle


HANDLERS: dict[str, Handler] = {
    "Abs": _unary("abs"),
    "Add": _binary("add"),
    "And": _logical("logical_and"),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Ceil": _unary("ceil"),
    "Clip": _clip,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Cos": _unary("cos"),
    "DequantizeLinear": _dequantize,
    "Div": _binary("div"),
    "Dropout": _identity,
    "Elu": _unary("elu"),
    "Equal": _logical("equal"),
    "Erf": _unary("erf"),
    "Exp": _unary("exp"),
    "Floor": _unary("floor"),
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
    "Greater": _logical("greater"),
    "GreaterOrEqual": _logical("greater_equal"),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary("hard_swish"),
    "Identity": _identity,
    "LeakyRelu": _leaky_relu,
    "Less": _logical("less"),
    "LessOrEqual": _logical("less_equal"),
    "Log": _unary("log"),
    "LogSoftmax": _softmax("log_softmax"),
    "MatMul": _matmul,
    "Max": _fold_left("maximum"),
    "MaxPool": _max_pool,
    "Min": _fold_left("minimum"),
    "Mul": _binary("mul"),
    "Neg": _unary("neg"),
    "Not": _logical("logical_not"),
    "Or": _logical("logical_or"),
    "PRelu": _prelu,
    "Pow": _binary("power"),
    "QuantizeLinear": _quantize,
    "Reciprocal": _unary("reciprocal"),
    "ReduceMax": _reduce("reduce_max"),
    "ReduceMean": _reduce("mean"),
    "ReduceMin": _reduce("reduce_min"),
    "ReduceProd": _reduce("reduce_prod"),
    "ReduceSum": _reduce("sum"),
    "Relu": _unary("relu"),
    "Round": _unary("round"),
    "Sigmoid": _unary("logistic"),
    "Sign": _unary("sign"),
    "Sin": _unary("sin"),
    "Softmax": _softmax("softmax"),
    "Softplus": _unary("softplus"),
    "Sqrt": _unary("sqrt"),
    "Sub": _binary("sub"),
    "Tanh": _unary("tanh"),
    "Where": _logical("select"),
    **movement.HANDLERS,
}
"""Every ONNX operator that is read."""

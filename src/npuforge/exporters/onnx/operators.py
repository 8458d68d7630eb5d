"""Handlers that turn nodes which compute into ONNX operators."""

from __future__ import annotations

import numpy as np

from npuforge.exporters.onnx.emitter import (
    CHANNELS_LAST,
    Emitter,
    Handler,
    Layout,
    identity,
)
from npuforge.exporters.onnx.movement import MOVEMENT
from npuforge.graph import (
    ConvAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    GeluAttrs,
    HardSigmoidAttrs,
    LeakyReluAttrs,
    MatMulAttrs,
    Node,
    PoolAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
    Tensor,
    TransposeConvAttrs,
)
from npuforge.graph.attrs import AxisAttrs, Pads
from npuforge.vocab import Activation, Contract, DType


def _pads(padding: Pads) -> list[int]:
    top, bottom, left, right = padding
    return [top, left, bottom, right]


def _weights(emitter: Emitter, node: Node, order: tuple[int, ...], channel: int) -> str:
    """Constant weights in ONNX's order; `channel` is their axis of output channels there."""
    w = emitter.tensor(node.inputs[1])
    x = emitter.tensor(node.inputs[0])
    if w.quantization is not None and x.quantization is None:
        raise emitter.refuse(node, "int8 weights under a float input (hybrid)", "EXP-011")
    if w.data is None:
        raise emitter.refuse(node, f"{w.name} is computed while the network runs")
    data = w.data.transpose(order)
    dtype = "int8" if w.dtype is DType.INT4 else str(w.dtype)
    name = emitter.constant(f"{w.name}/data", data, dtype)
    if w.quantization is None:
        return name
    axis = None if w.quant.axis is None else channel
    return emitter.dequantize(name, w.dtype, w.quant, axis)


def _bias(emitter: Emitter, node: Node) -> list[str]:
    name = node.inputs[2] if len(node.inputs) > 2 else None
    if name is None:
        return []
    bias = emitter.tensor(name)
    if bias.data is None:
        raise emitter.refuse(node, f"{bias.name} is computed while the network runs")
    stored = emitter.constant(f"{name}/data", bias.data.reshape(-1), str(bias.dtype))
    if bias.dtype.is_float:
        return [stored]
    if bias.dtype is not DType.INT32 or bias.quantization is None:
        raise emitter.refuse(node, f"bias {bias.name} is {bias.dtype}", "EXP-004")
    axis = None if bias.quant.axis is None else 0
    return [emitter.dequantize(stored, bias.dtype, bias.quant, axis)]


def _convolution(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, ConvAttrs)
    x, w = emitter.tensor(node.inputs[0]), emitter.tensor(node.inputs[1])
    depthwise = node.op == "depthwise_conv2d"
    order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
    source = emitter.real(x.name, CHANNELS_LAST)
    inputs = [source, _weights(emitter, node, order, 0), *_bias(emitter, node)]
    emitter.apply(
        node,
        "Conv",
        inputs,
        CHANNELS_LAST,
        attrs.activation,
        kernel_shape=list(w.shape[1:3]),
        strides=list(attrs.stride),
        dilations=list(attrs.dilation),
        pads=_pads(attrs.padding),
        group=x.shape[3] if depthwise else attrs.groups,
    )


def _transpose_conv(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, TransposeConvAttrs)
    w = emitter.tensor(node.inputs[1])
    source = emitter.real(node.inputs[0], CHANNELS_LAST)
    inputs = [source, _weights(emitter, node, (3, 0, 1, 2), 1), *_bias(emitter, node)]
    emitter.apply(
        node,
        "ConvTranspose",
        inputs,
        CHANNELS_LAST,
        attrs.activation,
        kernel_shape=list(w.shape[1:3]),
        strides=list(attrs.stride),
        pads=_pads(attrs.padding),
        output_padding=list(attrs.output_padding),
    )


def _fully_connected(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, FullyConnectedAttrs)
    x, w = emitter.tensor(node.inputs[0]), emitter.tensor(node.inputs[1])
    y = emitter.tensor(node.outputs[0])
    rank = len(x.shape)
    source = emitter.real(x.name, identity(rank))
    has_bias = len(node.inputs) > 2 and node.inputs[2] is not None
    plain = attrs.activation is Activation.NONE
    if rank != 2 and attrs.keep_dims and not has_bias and plain and w.is_constant:
        weights = _weights(emitter, node, (1, 0), 1)
        emitter.apply(node, "MatMul", [source, weights], identity(rank))
        return
    if rank != 2:
        source = _flat(emitter, node, x, source, w.shape[1])
    if w.data is None and not has_bias and len(y.shape) == 2:
        inputs = [source, emitter.real(w.name, (1, 0))]
        emitter.apply(node, "MatMul", inputs, identity(2), attrs.activation)
        return
    if w.data is None:
        weights = emitter.real(w.name, identity(2))
    else:
        weights = _weights(emitter, node, (0, 1), 0)
    inputs = [source, weights, *_bias(emitter, node)]
    if len(y.shape) == 2:
        emitter.apply(node, "Gemm", inputs, identity(2), attrs.activation, transB=1)
        return
    made = emitter.step(node, "rows", "Gemm", inputs, transB=1)
    if not plain:
        linear, made = made, emitter.names.fresh(f"{node.name}/activated")
        emitter.activate(attrs.activation, linear, made)
    if y.quantization is not None:
        made = _requantized(emitter, node, made, y)
    shape = emitter.constant(f"{node.name}/shape", y.shape)
    emitter.apply(node, "Reshape", [made, shape], identity(len(y.shape)))


def _flat(emitter: Emitter, node: Node, x: Tensor, source: str, depth: int) -> str:
    """The input as rows of weights' depth, quantised again so that integer kernels stay."""
    shape = emitter.constant(f"{node.name}/rows_shape", (x.size // depth, depth))
    flat = emitter.step(node, "flat", "Reshape", [source, shape])
    return flat if x.quantization is None else _requantized(emitter, node, flat, x)


def _requantized(emitter: Emitter, node: Node, real: str, like: Tensor) -> str:
    """Real numbers brought to a tensor's grid and back, between two steps of a node."""
    stored = emitter.names.fresh(f"{real}/stored")
    emitter.add("QuantizeLinear", [real, *emitter.grid(real, like.dtype, like.quant)], [stored])
    return emitter.dequantize(stored, like.dtype, like.quant, None)


def _matmul(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, MatMulAttrs)
    names = []
    for name, swapped in zip(node.inputs, (attrs.transpose_a, attrs.transpose_b), strict=True):
        rank = len(emitter.tensor(name).shape)
        order = identity(rank)
        if swapped:
            order = (*range(rank - 2), rank - 1, rank - 2)
        names.append(emitter.real(name, order))
    y = emitter.tensor(node.outputs[0])
    emitter.apply(node, "MatMul", names, identity(len(y.shape)))


# --- elementwise ---


def _common_layout(emitter: Emitter, node: Node) -> Layout:
    """The order that the first computed operand of full rank has already."""
    rank = len(emitter.tensor(node.outputs[0]).shape)
    for name in node.inputs:
        tensor = emitter.tensor(name)
        if not tensor.is_constant and len(tensor.shape) == rank:
            return emitter.layout(name)
    return identity(rank)


def _operands(emitter: Emitter, node: Node, layout: Layout) -> list[str]:
    names = []
    for index, name in enumerate(node.inputs):
        tensor = emitter.tensor(name)
        if tensor.is_constant or len(tensor.shape) == len(layout):
            names.append(emitter.real(name, layout))
            continue
        # axes of one in front, then the common order
        own = emitter.real(name, identity(len(tensor.shape)))
        shape = (1,) * (len(layout) - len(tensor.shape)) + tensor.shape
        target = emitter.constant(f"{node.name}/shape_{index}", shape)
        made = emitter.step(node, f"operand_{index}", "Reshape", [own, target])
        if tensor.quantization is not None:
            made = _requantized(emitter, node, made, tensor)
        if layout != identity(len(layout)):
            perm = [layout.index(axis) for axis in range(len(layout))]
            made = emitter.step(node, f"moved_{index}", "Transpose", [made], perm=perm)
            emitter.transposes += 1
        names.append(made)
    return names


def _binary(op: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        layout = _common_layout(emitter, node)
        activation = attrs.activation if isinstance(attrs, ElementwiseAttrs) else Activation.NONE
        emitter.apply(node, op, _operands(emitter, node, layout), layout, activation)

    return handle


def _not_equal(emitter: Emitter, node: Node) -> None:
    layout = _common_layout(emitter, node)
    equal = emitter.step(node, "equal", "Equal", _operands(emitter, node, layout))
    emitter.apply(node, "Not", [equal], layout)


def _squared_difference(emitter: Emitter, node: Node) -> None:
    layout = _common_layout(emitter, node)
    difference = emitter.step(node, "difference", "Sub", _operands(emitter, node, layout))
    emitter.apply(node, "Mul", [difference, difference], layout)


def _floor_div(emitter: Emitter, node: Node) -> None:
    layout = _common_layout(emitter, node)
    operands = _operands(emitter, node, layout)
    if emitter.tensor(node.outputs[0]).dtype is not DType.FLOAT32:
        raise emitter.refuse(node, "floor division of integers")
    ratio = emitter.step(node, "ratio", "Div", operands)
    emitter.apply(node, "Floor", [ratio], layout)


def _unary(op: str, **attrs: object) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        layout = emitter.layout(node.inputs[0])
        emitter.apply(node, op, [emitter.real(node.inputs[0], layout)], layout, **attrs)  # type: ignore[arg-type]

    return handle


def _activation(activation: Activation) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        layout = emitter.layout(node.inputs[0])
        made = emitter.result(node, layout)
        emitter.activate(activation, emitter.real(node.inputs[0], layout), made)
        emitter.finish(node, made, layout)

    return handle


def _with_alpha(op: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        assert isinstance(node.attrs, LeakyReluAttrs | HardSigmoidAttrs)
        beta = {"beta": 0.5} if op == "HardSigmoid" else {}
        _unary(op, alpha=node.attrs.alpha, **beta)(emitter, node)

    return handle


def _gelu(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, GeluAttrs)
    approximate = "tanh" if node.attrs.approximate else "none"
    _unary("Gelu", approximate=approximate)(emitter, node)


def _rsqrt(emitter: Emitter, node: Node) -> None:
    layout = emitter.layout(node.inputs[0])
    root = emitter.step(node, "root", "Sqrt", [emitter.real(node.inputs[0], layout)])
    emitter.apply(node, "Reciprocal", [root], layout)


def _square(emitter: Emitter, node: Node) -> None:
    layout = emitter.layout(node.inputs[0])
    real = emitter.real(node.inputs[0], layout)
    emitter.apply(node, "Mul", [real, real], layout)


def _l2_normalization(emitter: Emitter, node: Node) -> None:
    x = emitter.tensor(node.inputs[0])
    if x.quantization is not None:
        raise emitter.refuse(node, "fixed-point normalisation")
    layout = emitter.layout(x.name)
    real = emitter.real(x.name, layout)
    axes = [layout[-1]]
    norm = _reduced(emitter, node, "ReduceL2", real, axes, keep=1)
    # a vector of zeros stays one
    least = emitter.constant("least_norm", np.float32(1e-6), "float32")
    bounded = emitter.step(node, "bounded", "Max", [norm, least])
    emitter.apply(node, "Div", [real, bounded], layout)


def _quantize(emitter: Emitter, node: Node) -> None:
    layout = emitter.layout(node.inputs[0])
    emitter.finish(node, emitter.real(node.inputs[0], layout), layout)


def _dequantize(emitter: Emitter, node: Node) -> None:
    x = emitter.tensor(node.inputs[0])
    layout = emitter.layout(x.name)
    if x.quantization is None:
        emitter.apply(node, "Cast", [emitter.real(x.name, layout)], layout, to=1)
        return
    if x.dtype not in (DType.INT8, DType.UINT8):
        raise emitter.refuse(node, f"{x.name} is {x.dtype}", "EXP-004")
    stored = emitter.stored(x.name, layout)
    made = emitter.result(node, layout)
    emitter.dequantize(stored, x.dtype, x.quant, None, made)
    emitter.finish(node, made, layout)


# --- pooling and reduction ---


def _pool(op: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, PoolAttrs)
        counted = int(attrs.count_padding) if op == "AveragePool" else None
        emitter.apply(
            node,
            op,
            [emitter.real(node.inputs[0], CHANNELS_LAST)],
            CHANNELS_LAST,
            attrs.activation,
            kernel_shape=list(attrs.kernel),
            strides=list(attrs.stride),
            pads=_pads(attrs.padding),
            count_include_pad=counted,
        )

    return handle


def _reduced(emitter: Emitter, node: Node, op: str, source: str, axes: list[int], keep: int) -> str:
    """Append a reduction as a step; from opset 18 on (sums: 13) the axes are an input."""
    if op == "ReduceSum" or emitter.opset >= 18:
        listed = emitter.constant(f"{node.name}/axes", axes)
        return emitter.step(node, "reduced", op, [source, listed], keepdims=keep)
    return emitter.step(node, "reduced", op, [source], axes=axes, keepdims=keep)


def _reduce(op: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, ReduceAttrs)
        if not attrs.axes:
            raise emitter.refuse(node, "no axes", "EXP-009")
        x = emitter.tensor(node.inputs[0])
        layout = emitter.layout(x.name)
        real = emitter.real(x.name, layout)
        spatial = attrs.axes == (1, 2) and len(x.shape) == 4 and attrs.keep_dims
        if op == "ReduceMean" and spatial and node.contract is Contract.ONNX_QLINEAR:
            source = emitter.real(x.name, CHANNELS_LAST)
            emitter.apply(node, "GlobalAveragePool", [source], CHANNELS_LAST)
            return
        axes = sorted(layout[axis] for axis in attrs.axes)
        kept = [axis for i, axis in enumerate(layout) if i not in attrs.axes]
        result = layout if attrs.keep_dims else tuple(sorted(kept).index(axis) for axis in kept)
        if op == "ReduceSum" or emitter.opset >= 18:
            listed = emitter.constant(f"{node.name}/axes", axes)
            emitter.apply(node, op, [real, listed], result, keepdims=int(attrs.keep_dims))
        else:
            emitter.apply(node, op, [real], result, axes=axes, keepdims=int(attrs.keep_dims))

    return handle


def _softmax(op: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, SoftmaxAttrs)
        if attrs.beta != 1.0:
            raise emitter.refuse(node, f"beta {attrs.beta}")
        layout = emitter.layout(node.inputs[0])
        source = emitter.real(node.inputs[0], layout)
        emitter.apply(node, op, [source], layout, axis=layout[attrs.axis])

    return handle


def _arg_extreme(op: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        assert isinstance(node.attrs, AxisAttrs)
        layout = emitter.layout(node.inputs[0])
        axis = layout[node.attrs.axis]
        kept = tuple(a - (a > axis) for a in layout if a != axis)
        source = emitter.real(node.inputs[0], layout)
        if emitter.tensor(node.outputs[0]).dtype is DType.INT64:
            emitter.apply(node, op, [source], kept, axis=axis, keepdims=0)
            return
        index = emitter.step(node, "index", op, [source], axis=axis, keepdims=0)
        emitter.apply(node, "Cast", [index], kept, to=6)

    return handle


HANDLERS: dict[str, Handler] = {
    **MOVEMENT,
    "abs": _unary("Abs"),
    "add": _binary("Add"),
    "arg_max": _arg_extreme("ArgMax"),
    "arg_min": _arg_extreme("ArgMin"),
    "average_pool2d": _pool("AveragePool"),
    "ceil": _unary("Ceil"),
    "conv2d": _convolution,
    "cos": _unary("Cos"),
    "depthwise_conv2d": _convolution,
    "dequantize": _dequantize,
    "div": _binary("Div"),
    "elu": _unary("Elu"),
    "equal": _binary("Equal"),
    "erf": _unary("Erf"),
    "exp": _unary("Exp"),
    "floor": _unary("Floor"),
    "floor_div": _floor_div,
    "fully_connected": _fully_connected,
    "gelu": _gelu,
    "greater": _binary("Greater"),
    "greater_equal": _binary("GreaterOrEqual"),
    "hard_sigmoid": _with_alpha("HardSigmoid"),
    "hard_swish": _unary("HardSwish"),
    "l2_normalization": _l2_normalization,
    "leaky_relu": _with_alpha("LeakyRelu"),
    "less": _binary("Less"),
    "less_equal": _binary("LessOrEqual"),
    "log": _unary("Log"),
    "log_softmax": _softmax("LogSoftmax"),
    "logical_and": _binary("And"),
    "logical_not": _unary("Not"),
    "logical_or": _binary("Or"),
    "logistic": _unary("Sigmoid"),
    "matmul": _matmul,
    "max_pool2d": _pool("MaxPool"),
    "maximum": _binary("Max"),
    "mean": _reduce("ReduceMean"),
    "minimum": _binary("Min"),
    "mul": _binary("Mul"),
    "neg": _unary("Neg"),
    "not_equal": _not_equal,
    "power": _binary("Pow"),
    "prelu": _binary("PRelu"),
    "quantize": _quantize,
    "reciprocal": _unary("Reciprocal"),
    "reduce_max": _reduce("ReduceMax"),
    "reduce_min": _reduce("ReduceMin"),
    "reduce_prod": _reduce("ReduceProd"),
    "relu": _activation(Activation.RELU),
    "relu6": _activation(Activation.RELU6),
    "relu_n1_to_1": _activation(Activation.RELU_N1_TO_1),
    "round": _unary("Round"),
    "rsqrt": _rsqrt,
    "select": _binary("Where"),
    "sign": _unary("Sign"),
    "sin": _unary("Sin"),
    "softmax": _softmax("Softmax"),
    "softplus": _unary("Softplus"),
    "sqrt": _unary("Sqrt"),
    "square": _square,
    "squared_difference": _squared_difference,
    "sub": _binary("Sub"),
    "sum": _reduce("ReduceSum"),
    "tanh": _unary("Tanh"),
    "transpose_conv2d": _transpose_conv,
}
"""Handlers by our operator; what is missing here has no ONNX operator."""

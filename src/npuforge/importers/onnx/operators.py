"""One handler an ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuforge.graph import (
    ConcatAttrs,
    ConvAttrs,
    CoordinateMode,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    NearestMode,
    NoAttrs,
    PadAttrs,
    PadMode,
    PoolAttrs,
    Quantization,
    ReduceAttrs,
    ReshapeAttrs,
    ResizeAttrs,
    ResizeMode,
    SoftmaxAttrs,
    Tensor,
)
from npuforge.graph.shapes import window_count
from npuforge.importers.onnx.file import RawNode
from npuforge.importers.onnx.importer import Constant, Importer, Target, Value
from npuforge.importers.onnx.layout import (
    CHANNELS_LAST,
    Layout,
    identity,
    keeps_order,
    our_axis,
    permutation,
    transposed,
)
from npuforge.vocab import Activation, Contract, DType

Handler = Callable[[Importer, RawNode], None]


def ints(node: RawNode, key: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list attribute of whole numbers."""
    value = node.attrs.get(key, tuple(default))
    if not isinstance(value, tuple):
        raise TypeError(f"attribute {key} is no list")
    return tuple(int(v) for v in value)


def integer(node: RawNode, key: str, default: int) -> int:
    """A whole-number attribute."""
    value = node.attrs.get(key, default)
    if not isinstance(value, int):
        raise TypeError(f"attribute {key} is no integer")
    return value


def text(node: RawNode, key: str, default: str) -> str:
    """A text attribute."""
    return str(node.attrs.get(key, default))


def contract_of(value: Value, target: Target | None) -> Contract:
    """QLinear arithmetic where quantised numbers go in and come out, float elsewhere."""
    return Contract.ONNX_QLINEAR if value.real and target is not None else Contract.FLOAT32


def settle(importer: Importer, value: Value, target: Target | None) -> Value:
    """The value as the arithmetic needs it: quantised when the result is, else real floats."""
    return value if value.real and target is not None else importer.as_float(value)


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


def _channel(values: np.ndarray, axis: int | None, rank: int) -> np.ndarray:
    if axis is None:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def _quantize_constant(constant: Constant, quant: Quantization, dtype: DType) -> Constant:
    array = constant.array
    scale = _channel(quant.scale, quant.axis, array.ndim)
    zero = _channel(quant.zero_point, quant.axis, array.ndim)
    low, high = dtype.limits
    stored = np.clip(np.rint(array.astype(np.float32) / scale) + zero, low, high)
    return Constant(stored.astype(str(dtype)), quant)


def _dequantize(importer: Importer, node: RawNode) -> None:
    found = importer.quantization_of(node)
    if found is None:
        raise importer.refuse(node, "scale or zero point is computed while the network runs")
    quant, dtype = found
    name = node.inputs[0]
    if name in importer.constants:
        importer.constants[node.outputs[0]] = Constant(importer.constants[name].array, quant)
        return
    value = importer.values[name]
    tensor = importer.tensor_of(value)
    if tensor.quantization is None and not value.real:
        # a network input that is already quantised
        importer.tensors[tensor.name] = Tensor(
            tensor.name, tensor.shape, tensor.dtype, quant, tensor.data
        )
    elif tensor.dtype is not dtype or not quant.same_as(tensor.quantization):
        raise importer.refuse(node, f"{tensor.name} was quantised with another scale")
    importer.values[node.outputs[0]] = Value(value.name, value.layout, real=True)


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


def _weights(importer: Importer, node: RawNode, index: int) -> tuple[str, Constant]:
    name = node.inputs[index]
    if name not in importer.constants:
        raise importer.refuse(node, f"weights {name} are computed while the network runs")
    return name, importer.constants[name]


def _add_constant(
    importer: Importer, name: str, array: np.ndarray, quant: Quantization | None
) -> str:
    """A constant tensor made of another one."""
    name = importer.fresh(name)
    data = np.ascontiguousarray(array)
    dtype = importer.dtype_of(data, name)
    importer.tensors[name] = Tensor(name, data.shape, dtype, quant, data)
    return name


def _with_axis(quant: Quantization | None, axis: int) -> Quantization | None:
    if quant is None or quant.axis is None:
        return quant
    return Quantization(quant.scale, quant.zero_point, axis)


def _bias(importer: Importer, node: RawNode, index: int, integer_bias: bool) -> str | None:
    if len(node.inputs) <= index or not node.inputs[index]:
        return None
    constant = _weights(importer, node, index)[1]
    quantised = constant.quantization is not None
    if quantised != integer_bias:
        raise importer.refuse(node, "bias and weights are not quantised alike")
    return _add_constant(
        importer,
        f"{node.inputs[index]}/bias",
        constant.array.reshape(-1),
        _with_axis(constant.quantization, 0),
    )


def _conv(importer: Importer, node: RawNode) -> None:
    name, weights = _weights(importer, node, 1)
    if weights.array.ndim != 4:
        raise importer.refuse(node, f"convolution of rank {weights.array.ndim}")
    target = importer.target(node.outputs[0], activations=True)
    quantised = weights.quantization is not None
    x = importer.in_layout(importer.input_value(node, 0), CHANNELS_LAST)
    if not (quantised and x.real):
        target = None
    x = settle(importer, x, target)
    if target is None and quantised:
        raise importer.refuse(node, "quantised weights without a quantised input and output")
    shape = importer.tensor_of(x).shape
    groups = integer(node, "group", 1)
    _, depth, kernel_h, kernel_w = weights.array.shape
    size, kernel = (shape[1], shape[2]), (kernel_h, kernel_w)
    stride, dilation, padding = window_padding(node, size, kernel)
    depthwise = depth == 1 and groups == shape[3] and groups > 1
    order = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
    quant = _with_axis(weights.quantization, 3 if depthwise else 0)
    w = _add_constant(importer, f"{name}/nhwc", weights.array.transpose(order), quant)
    activation = target.activation if target is not None else Activation.NONE
    attrs = ConvAttrs(stride, dilation, padding, activation, 1 if depthwise else groups)
    bias = _bias(importer, node, 2, quantised)
    inputs = [x.name, w] if bias is None else [x.name, w, bias]
    op = "depthwise_conv2d" if depthwise else "conv2d"
    importer.emit(
        node, op, inputs, attrs, CHANNELS_LAST, target=target, contract=contract_of(x, target)
    )


def _gemm(importer: Importer, node: RawNode) -> None:
    if (
        integer(node, "transA", 0)
        or node.attrs.get("alpha", 1.0) != 1.0
        or node.attrs.get("beta", 1.0) != 1.0
    ):
        raise importer.refuse(node, "transA, alpha or beta")
    name, weights = _weights(importer, node, 1)
    by_rows = bool(integer(node, "transB", 0))
    _matrix_product(importer, node, name, weights, by_rows, bias=2)


def _matrix_product(
    importer: Importer, node: RawNode, name: str, weights: Constant, by_rows: bool, bias: int
) -> None:
    target = importer.target(node.outputs[0], activations=True)
    value = importer.input_value(node, 0)
    quantised = weights.quantization is not None
    if not (quantised and value.real):
        target = None
    if target is None and quantised:
        raise importer.refuse(node, "quantised weights without a quantised input and output")
    x = importer.ordered(settle(importer, value, target))
    matrix = weights.array if by_rows else weights.array.T
    w = _add_constant(importer, f"{name}/rows", matrix, _with_axis(weights.quantization, 0))
    activation = target.activation if target is not None else Activation.NONE
    attrs = FullyConnectedAttrs(activation, keep_dims=len(x.shape) != 2)
    offset = _bias(importer, node, bias, quantised)
    inputs = [x.name, w] if offset is None else [x.name, w, offset]
    importer.emit(
        node,
        "fully_connected",
        inputs,
        attrs,
        identity(len(x.shape)),
        target=target,
        contract=contract_of(value, target),
    )


# --- elementwise operators ---


def _binary(op: str) -> Handler:
    def handle(importer: Importer, node: RawNode) -> None:
        target = importer.target(node.outputs[0], activations=True)
        rank = max(len(importer.shape_of(name)) for name in node.inputs[:2])
        layouts = [
            importer.values[name].layout
            for name in node.inputs[:2]
            if name in importer.values and len(importer.values[name].layout) == rank
        ]
        layout = layouts[0] if layouts else identity(rank)
        operands = [_operand(importer, node, i, layout) for i in (0, 1)]
        if not all(value.real for value in operands):
            target = None
        operands = [settle(importer, value, target) for value in operands]
        activation = target.activation if target is not None else Activation.NONE
        importer.emit(
            node,
            op,
            [value.name for value in operands],
            ElementwiseAttrs(activation),
            layout,
            target=target,
            contract=contract_of(operands[0], target),
        )

    return handle


def _operand(importer: Importer, node: RawNode, index: int, layout: Layout) -> Value:
    name = node.inputs[index]
    if name in importer.constants:
        return importer.constant_value(name, layout)
    value = importer.values[name]
    if len(value.layout) == len(layout):
        return importer.in_layout(value, layout)
    if layout != identity(len(layout)):
        raise importer.refuse(node, "broadcast of operands of different rank")
    return importer.in_layout(value, identity(len(value.layout)))


def _unary(op: str) -> Handler:
    def handle(importer: Importer, node: RawNode) -> None:
        target = importer.target(node.outputs[0])
        value = importer.input_value(node, 0)
        contract = contract_of(value, target)
        x = settle(importer, value, target)
        importer.emit(node, op, [x.name], NoAttrs(), x.layout, target=target, contract=contract)

    return handle


def _clip(importer: Importer, node: RawNode) -> None:
    activation = importer.activation_of(node)
    if activation is None:
        raise importer.refuse(node, "only clips to 0..6, -1..1 and 0.. are taken")
    _unary(activation.value)(importer, node)


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
    x = importer.in_layout(importer.input_value(node, 0), CHANNELS_LAST)
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
    target = importer.target(node.outputs[0])
    contract = contract_of(x, target)
    x = settle(importer, x, target)
    importer.emit(node, op, [x.name], attrs, CHANNELS_LAST, target=target, contract=contract)


def _mean(importer: Importer, node: RawNode, axes: Sequence[int], keep: bool, exact: bool) -> None:
    value = importer.input_value(node, 0)
    target = importer.target(node.outputs[0])
    contract = contract_of(value, target) if exact else Contract.FLOAT32
    x = settle(importer, value, target)
    rank = len(x.layout)
    onnx_axes = {axis % rank for axis in axes}
    ours = tuple(sorted(our_axis(axis, x.layout) for axis in onnx_axes))
    layout = x.layout
    if not keep:
        kept = [axis for axis in x.layout if axis not in onnx_axes]
        layout = tuple(sorted(kept).index(axis) for axis in kept)
    importer.emit(
        node, "mean", [x.name], ReduceAttrs(ours, keep), layout, target=target, contract=contract
    )


def _global_average_pool(importer: Importer, node: RawNode) -> None:
    rank = len(importer.shape_of(node.inputs[0]))
    _mean(importer, node, range(2, rank), keep=True, exact=True)


def _reduce_mean(importer: Importer, node: RawNode) -> None:
    axes = importer.optional_constant(node, 1)
    listed = ints(node, "axes", ()) if axes is None else tuple(int(a) for a in axes.reshape(-1))
    rank = len(importer.shape_of(node.inputs[0]))
    # ONNX Runtime has no integer kernel for this operator
    _mean(importer, node, listed or range(rank), bool(integer(node, "keepdims", 1)), exact=False)


def _softmax(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    target = importer.target(node.outputs[0])
    rank = len(value.layout)
    axis = integer(node, "axis", -1 if importer.model.opset >= 13 else 1) % rank
    layout = (*(a for a in value.layout if a != axis), axis)
    contract = contract_of(value, target)
    x = importer.in_layout(settle(importer, value, target), layout)
    attrs = SoftmaxAttrs(rank - 1)
    importer.emit(node, "softmax", [x.name], attrs, layout, target=target, contract=contract)


# --- data movement ---


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


def _keep_real(importer: Importer, node: RawNode, source: Value) -> None:
    """Moving data does not change whether ONNX sees real numbers."""
    result = importer.values[node.outputs[0]]
    importer.values[node.outputs[0]] = Value(result.name, result.layout, source.real)


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
    _moved(importer, node, [n for i, n in enumerate(shape) if i not in axes])


def _unsqueeze(importer: Importer, node: RawNode) -> None:
    shape = list(importer.shape_of(node.inputs[0]))
    given = importer.optional_constant(node, 1)
    count = len(ints(node, "axes", ())) if given is None else given.size
    for axis in _axes(importer, node, len(shape) + count):
        shape.insert(axis, 1)
    _moved(importer, node, shape)


def _transpose(importer: Importer, node: RawNode) -> None:
    value = importer.input_value(node, 0)
    rank = len(value.layout)
    perm = ints(node, "perm", tuple(reversed(range(rank))))
    if sorted(perm) != list(range(rank)):
        raise importer.refuse(node, f"permutation {perm}")
    importer.values[node.outputs[0]] = Value(value.name, transposed(value.layout, perm), value.real)


def _concat(importer: Importer, node: RawNode) -> None:
    target = importer.target(node.outputs[0])
    values = [importer.input_value(node, i) for i in range(len(node.inputs))]
    layout = next(
        (importer.values[n].layout for n in node.inputs if n in importer.values), values[0].layout
    )
    rank = len(layout)
    axis = our_axis(integer(node, "axis", 0) % rank, layout)
    if not all(value.real for value in values):
        target = None
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
    target = importer.target(node.outputs[0])
    x = settle(importer, x, target)
    importer.emit(
        node, "resize", [x.name], attrs, CHANNELS_LAST, target=target, contract=Contract.FLOAT32
    )


def _shape(importer: Importer, node: RawNode) -> None:
    shape = np.array(importer.shape_of(node.inputs[0]), np.int64)
    importer.constants[node.outputs[0]] = Constant(shape)


HANDLERS: dict[str, Handler] = {
    "Add": _binary("add"),
    "AveragePool": _average_pool,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "DequantizeLinear": _dequantize,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "Identity": _identity,
    "MaxPool": _max_pool,
    "Mul": _binary("mul"),
    "Pad": _pad,
    "QuantizeLinear": _quantize,
    "ReduceMean": _reduce_mean,
    "Relu": _unary("relu"),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Sigmoid": _unary("logistic"),
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

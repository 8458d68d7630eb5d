"""Binders of convolutions, fully connected layers and matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from npuforge.graph import (
    ConvAttrs,
    FullyConnectedAttrs,
    Graph,
    MatMulAttrs,
    Node,
    Shape,
    Tensor,
    TransposeConvAttrs,
)
from npuforge.numerics.call import (
    Arg,
    ConstArg,
    KernelCall,
    ScratchArg,
    View,
    const,
    reads,
    writes,
)
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.types import (
    FLOAT_RANGE,
    SUFFIX,
    is_qlinear,
    refuse_type,
    require_constant,
    require_types,
)
from npuforge.vocab import Activation, Contract, DType

Params = dict[str, int | float]
_QUANTISED = (DType.INT8, DType.UINT8, DType.INT16)


def bind_conv2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Convolution: weights OHWI, per-tensor or per-channel scales."""
    return [_convolution(graph, node, "conv2d")]


def bind_depthwise_conv2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Depthwise convolution: weights 1HWC."""
    return [_convolution(graph, node, "depthwise_conv2d")]


def _convolution(graph: Graph, node: Node, kernel: str) -> KernelCall:
    attrs = node.attrs
    assert isinstance(attrs, ConvAttrs)
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    require_constant(node, w)
    window: Params = {
        "kernel_h": w.shape[1],
        "kernel_w": w.shape[2],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "dilation_h": attrs.dilation[0],
        "dilation_w": attrs.dilation[1],
        "pad_top": attrs.padding[0],
        "pad_left": attrs.padding[2],
        "groups": attrs.groups,
    }
    if x.dtype is DType.FLOAT32:
        if w.dtype is DType.INT8:
            return _hybrid_convolution(graph, node, window, attrs.activation, x, w, y)
        return _float_layer(graph, node, f"{kernel}_f32", window, attrs.activation, x, w, y)
    return _quantized_layer(graph, node, kernel, window, attrs.activation, x, w, y)


def _float_layer(
    graph: Graph,
    node: Node,
    kernel: str,
    params: Params,
    activation: Activation,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    view: View | None = None,
) -> KernelCall:
    require_types(node, (DType.FLOAT32,), x, w, y)
    low, high = FLOAT_RANGE[activation]
    channels = y.shape[-1]
    args = (
        reads(x),
        _weights(w),
        _bias(graph, node, channels, DType.FLOAT32),
        writes(y, view),
    )
    return KernelCall(kernel, args, params | {"low": low, "high": high})


def _weights(w: Tensor) -> Arg:
    """Weights as an operand: a constant, or a tensor that the network computes."""
    return ConstArg("weights", w.data) if w.data is not None else reads(w)


def _quantized_layer(
    graph: Graph,
    node: Node,
    kernel: str,
    params: Params,
    activation: Activation,
    x: Tensor,
    w: Tensor,
    y: Tensor,
) -> KernelCall:
    require_types(node, _QUANTISED, x, y)
    weight_types = (DType.UINT8,) if x.dtype is DType.UINT8 else (DType.INT8, DType.INT4)
    require_types(node, weight_types, w)
    if x.dtype is not y.dtype:
        raise refuse_type(node, y)
    low, high = activation_range(y, activation)
    params = params | {"act_min": low, "act_max": high}
    if x.dtype is not DType.INT16:
        params |= {"in_offset": -x.quant.z, "out_offset": y.quant.z}
    channels = y.shape[-1]
    name = f"{kernel}_{SUFFIX[x.dtype]}"
    if x.dtype is DType.UINT8:
        params["weight_offset"] = -w.quant.z
        scaling: tuple[ConstArg, ...] = _fixed_scaling(_tensor_factor(x, w, y), channels)
    else:
        name, scaling = _scaling(node, name, x, w, y, channels)
    bias_type = DType.INT64 if x.dtype is DType.INT16 else DType.INT32
    pad = x.quant.z
    args = (
        reads(x, View.dense(x.shape, x.dtype.nbytes, pad=pad)),
        const("weights", w.array, np.uint8 if w.dtype is DType.UINT8 else np.int8),
        _bias(graph, node, channels, bias_type),
        *scaling,
        writes(y),
    )
    return KernelCall(name, args, params)


def _hybrid_convolution(
    graph: Graph,
    node: Node,
    window: Params,
    activation: Activation,
    x: Tensor,
    w: Tensor,
    y: Tensor,
) -> KernelCall:
    """Float activations, int8 weights: the input image is quantised on the fly."""
    require_types(node, (DType.FLOAT32,), x, y)
    low, high = FLOAT_RANGE[activation]
    channels = y.shape[3]
    depthwise = int(node.op == "depthwise_conv2d")
    args: tuple[Arg, ...] = (
        reads(x),
        const("weights", w.array, np.int8),
        const("scale", np.broadcast_to(w.quant.scale, channels), np.float32),
        _bias(graph, node, channels, DType.FLOAT32),
        writes(y),
        ScratchArg(x.size // x.shape[0]),
    )
    # TensorFlow Lite gives the image a zero point only when the weights have a scale a channel
    asymmetric = int(bool(depthwise) or w.quant.is_per_channel)
    params = window | {
        "low": low,
        "high": high,
        "depthwise": depthwise,
        "asymmetric": asymmetric,
    }
    return KernelCall("conv2d_hybrid", args, params)


_BIAS_TYPES: Mapping[DType, type[np.generic]] = {
    DType.INT32: np.int32,
    DType.INT64: np.int64,
    DType.FLOAT32: np.float32,
}


def _bias(graph: Graph, node: Node, channels: int, dtype: DType) -> ConstArg:
    """The bias as a kernel takes it; zeros where the node has none."""
    kind = _BIAS_TYPES[dtype]
    name = node.inputs[2] if len(node.inputs) > 2 else None
    if name is None:
        return const("bias", np.zeros(channels), kind)
    bias = graph.tensors[name]
    require_constant(node, bias)
    if bias.dtype is not dtype and not (dtype is DType.INT64 and bias.dtype is DType.INT32):
        raise refuse_type(node, bias)
    return const("bias", bias.array.reshape(-1), kind)


def _scaling(
    node: Node, kernel: str, x: Tensor, w: Tensor, y: Tensor, channels: int
) -> tuple[str, tuple[ConstArg, ...]]:
    """The kernel variant of the node's contract and its rescaling constants."""
    if is_qlinear(node):
        # single precision, in the order ONNX Runtime multiplies
        scales = x.quant.s * w.quant.scale / y.quant.s
        return kernel + "_f32scale", (
            const("scale", np.broadcast_to(scales, channels), np.float32),
        )
    return kernel, _fixed_scaling(effective_scales(x, w, y), channels)


def _fixed_scaling(factors: npt.NDArray[np.float64], channels: int) -> tuple[ConstArg, ConstArg]:
    pairs = [quantize_multiplier(float(f)) for f in factors]
    multipliers = np.broadcast_to([m for m, _ in pairs], channels)
    shifts = np.broadcast_to([s for _, s in pairs], channels)
    return const("multiplier", multipliers, np.int32), const("shift", shifts, np.int32)


def effective_scales(x: Tensor, w: Tensor, y: Tensor) -> npt.NDArray[np.float64]:
    """Input scale times weight scale over output scale in double, one a channel.

    TensorFlow Lite widens the scales to double before it multiplies when it treats weights per
    channel (convolutions always do).
    """
    product = np.float64(x.quant.s) * w.quant.scale.astype(np.float64)
    return product / np.float64(y.quant.s)


def _tensor_factor(x: Tensor, w: Tensor, y: Tensor) -> npt.NDArray[np.float64]:
    """The factor of a layer treated per tensor: the two scales multiply in single precision."""
    return np.array([np.float64(x.quant.s * w.quant.s) / np.float64(y.quant.s)])


def bind_fully_connected(graph: Graph, node: Node) -> list[KernelCall]:
    """Fully connected layer: weights [outputs, depth]."""
    attrs = node.attrs
    assert isinstance(attrs, FullyConnectedAttrs)
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    outputs, depth = w.shape
    rows = x.size // depth
    view = View.strided((1, 1, rows, outputs), (0, 0, outputs, 1), y.dtype.nbytes)
    params: Params = {"rows": rows, "depth": depth}
    if x.dtype is DType.FLOAT32:
        low, high = FLOAT_RANGE[attrs.activation]
        params |= {"low": low, "high": high}
        if w.dtype is DType.INT8:
            require_constant(node, w)
            asymmetric = int(attrs.asymmetric_inputs)
            args: tuple[Arg, ...] = (
                reads(x),
                const("weights", w.array, np.int8),
                const("scale", np.broadcast_to(w.quant.scale, outputs), np.float32),
                _bias(graph, node, outputs, DType.FLOAT32),
                writes(y, view),
                ScratchArg(depth),
            )
            return [KernelCall("fully_connected_hybrid", args, params | {"asymmetric": asymmetric})]
        del params["low"], params["high"]
        kernel = "fully_connected_f32"
        return [_float_layer(graph, node, kernel, params, attrs.activation, x, w, y, view)]
    require_types(node, _QUANTISED, x, y)
    if x.dtype is not y.dtype:
        raise refuse_type(node, y)
    low_q, high_q = activation_range(y, attrs.activation)
    params |= {"act_min": low_q, "act_max": high_q}
    if x.dtype is not DType.INT16:
        offset = 0 if w.quant.is_per_channel else -w.quant.z
        params |= {"in_offset": -x.quant.z, "weight_offset": offset, "out_offset": y.quant.z}
    kernel, scaling = _fully_connected_scaling(node, x, w, y)
    bias_type = DType.INT64 if x.dtype is DType.INT16 else DType.INT32
    args = (
        reads(x),
        _weights(w),
        _bias(graph, node, outputs, bias_type),
        *scaling,
        writes(y, view),
    )
    return [KernelCall(kernel, args, params)]


def _fully_connected_scaling(
    node: Node, x: Tensor, w: Tensor, y: Tensor
) -> tuple[str, tuple[ConstArg, ...]]:
    channels = w.shape[0]
    kernel = f"fully_connected_{SUFFIX[x.dtype]}"
    per_tensor = not w.quant.is_per_channel
    if is_qlinear(node):
        return _scaling(node, kernel, x, w, y, channels)
    if node.contract is Contract.TFLITE_REFERENCE:
        scales = np.broadcast_to(effective_scales(x, w, y), channels)
        return f"{kernel}_f64scale", (const("scale", scales, np.float64),)
    if per_tensor:
        return kernel, _fixed_scaling(_tensor_factor(x, w, y), channels)
    return kernel, _fixed_scaling(effective_scales(x, w, y), channels)


def bind_matmul(graph: Graph, node: Node) -> list[KernelCall]:
    """Product of computed matrices over up to two broadcast leading axes."""
    attrs = node.attrs
    assert isinstance(attrs, MatMulAttrs)
    a, b = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    lead = y.shape[:-2]
    call = _product(node, a, b, y, a.shape, b.shape, lead, attrs.transpose_a, attrs.transpose_b)
    return [call]


def _product(
    node: Node,
    a: Tensor,
    b: Tensor,
    y: Tensor,
    a_shape: Shape,
    b_shape: Shape,
    lead: Shape,
    transpose_a: bool,
    transpose_b: bool,
) -> KernelCall:
    element = y.dtype.nbytes
    rows, depth = (a_shape[-1], a_shape[-2]) if transpose_a else (a_shape[-2], a_shape[-1])
    columns = b_shape[-2] if transpose_b else b_shape[-1]
    outer, inner = _leading(lead)
    view_a = _rows_view(a_shape, lead, (rows, depth), transpose_a, element)
    # the columns of b are the rows that are walked
    view_b = _rows_view(b_shape, lead, (columns, depth), not transpose_b, element)
    strides = (inner * rows * columns, rows * columns, columns, 1)
    view_y = View.strided((outer, inner, rows, columns), strides, element)
    args = (reads(a, view_a), reads(b, view_b), writes(y, view_y))
    if y.dtype is DType.FLOAT32:
        require_types(node, (DType.FLOAT32,), a, b, y)
        return KernelCall("matmul_f32", args, {"depth": depth})
    require_types(node, (DType.INT8, DType.INT16), a, b, y)
    if not a.dtype is b.dtype is y.dtype or (is_qlinear(node) and y.dtype is DType.INT16):
        raise refuse_type(node, b if a.dtype is y.dtype else a)
    params: Params = {"depth": depth}
    if y.dtype is DType.INT8:
        params |= {"a_offset": -a.quant.z, "b_offset": -b.quant.z, "out_offset": y.quant.z}
    if is_qlinear(node):
        params["scale"] = float(a.quant.s * b.quant.s / y.quant.s)
        return KernelCall("matmul_s8_f32scale", args, params)
    factor = float(_tensor_factor(a, b, y)[0])
    params["multiplier"], params["shift"] = quantize_multiplier(factor)
    return KernelCall("matmul_s8" if y.dtype is DType.INT8 else "matmul_s16", args, params)


def _leading(lead: Shape) -> tuple[int, int]:
    """Leading axes as two: all but the last, and the last."""
    return (math.prod(lead[:-1]), lead[-1]) if lead else (1, 1)


def _rows_view(
    shape: Shape, lead: Shape, rows: tuple[int, int], swapped: bool, element: int
) -> View:
    """A matrix operand as rows of its depth, broadcast over the leading axes of the result."""
    own = shape[:-2]
    padded = (1,) * (len(lead) - len(own)) + own
    outer, inner = _leading(lead)
    size = shape[-1] * shape[-2]
    inner_stride = size if padded and padded[-1] > 1 else 0
    own_outer = math.prod(padded[:-1])
    own_inner = padded[-1] if padded else 1
    # all leading axes but the last broadcast together or not at all
    outer_stride = own_inner * size if own_outer > 1 else 0
    step_row, step_depth = (1, shape[-1]) if swapped else (shape[-1], 1)
    strides = (outer_stride, inner_stride, step_row, step_depth)
    return View.strided((outer, inner, *rows), strides, element)


def bind_transpose_conv2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Transposed convolution: weights OHWI."""
    attrs = node.attrs
    assert isinstance(attrs, TransposeConvAttrs)
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    require_constant(node, w)
    window: Params = {
        "kernel_h": w.shape[1],
        "kernel_w": w.shape[2],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "pad_top": attrs.padding[0],
        "pad_left": attrs.padding[2],
    }
    if x.dtype is DType.FLOAT32:
        kernel = "transpose_conv2d_f32"
        return [_float_layer(graph, node, kernel, window, attrs.activation, x, w, y)]
    return [_quantized_layer(graph, node, "transpose_conv2d", window, attrs.activation, x, w, y)]

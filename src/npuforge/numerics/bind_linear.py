"""Binders of convolution, depthwise convolution and fully connected nodes on int8."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuforge.errors import UnsupportedError
from npuforge.graph import ConvAttrs, FullyConnectedAttrs, Graph, Node, Tensor
from npuforge.numerics.call import ConstArg, KernelCall, View, const, reads, writes
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.ranges import activation_range
from npuforge.vocab import Contract, DType


def bind_conv2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Convolution: weights OHWI, per-tensor or per-channel scales."""
    return [_convolution(graph, node, "conv2d_s8")]


def bind_depthwise_conv2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Depthwise convolution: weights 1HWC."""
    return [_convolution(graph, node, "depthwise_conv2d_s8")]


def require_int8(node: Node, *tensors: Tensor) -> None:
    """Refuse anything but quantised int8.

    Raises:
        UnsupportedError: a tensor has another type or no quantisation.
    """
    for tensor in tensors:
        if tensor.dtype is not DType.INT8:
            raise UnsupportedError(
                "NUM-001", node=node.name, op=node.op, tensor=tensor.name, dtype=tensor.dtype
            )
        if tensor.quantization is None:
            raise UnsupportedError("NUM-002", node=node.name, op=node.op, tensor=tensor.name)


def _convolution(graph: Graph, node: Node, kernel: str) -> KernelCall:
    attrs = node.attrs
    assert isinstance(attrs, ConvAttrs)
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    require_int8(node, x, w, y)
    _require_constant(node, w)
    channels = y.shape[3]
    low, high = activation_range(y, attrs.activation)
    params = {
        "kernel_h": w.shape[1],
        "kernel_w": w.shape[2],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "dilation_h": attrs.dilation[0],
        "dilation_w": attrs.dilation[1],
        "pad_top": attrs.padding[0],
        "pad_left": attrs.padding[2],
        "in_offset": -x.quant.z,
        "out_offset": y.quant.z,
        "act_min": low,
        "act_max": high,
        "groups": attrs.groups,
    }
    kernel, scaling = _scaling(node, kernel, x, w, y, channels)
    view = View.dense(x.shape, 1, pad=x.quant.z)
    return KernelCall(
        kernel,
        (
            reads(x, view),
            const("weights", w.array, np.int8),
            _bias(graph, node, channels),
            *scaling,
            writes(y),
        ),
        params,
    )


def _require_constant(node: Node, tensor: Tensor) -> None:
    if not tensor.is_constant:
        raise UnsupportedError("NUM-003", node=node.name, op=node.op, tensor=tensor.name)


def _bias(graph: Graph, node: Node, channels: int) -> ConstArg:
    name = node.inputs[2] if len(node.inputs) > 2 else None
    if name is None:
        return const("bias", np.zeros(channels), np.int32)
    bias = graph.tensors[name]
    _require_constant(node, bias)
    if bias.dtype is not DType.INT32:
        raise UnsupportedError(
            "NUM-001", node=node.name, op=node.op, tensor=bias.name, dtype=bias.dtype
        )
    return const("bias", bias.array.reshape(-1), np.int32)


def _scaling(
    node: Node, kernel: str, x: Tensor, w: Tensor, y: Tensor, channels: int
) -> tuple[str, tuple[ConstArg, ...]]:
    """The kernel variant of the node's contract and its rescaling constants."""
    if node.contract is Contract.ONNX_QLINEAR:
        # single precision, in the order ONNX Runtime multiplies
        scales = x.quant.s * w.quant.scale / y.quant.s
        return kernel + "_f32scale", (
            const("scale", np.broadcast_to(scales, channels), np.float32),
        )
    factors = effective_scales(x, w, y)
    pairs = [quantize_multiplier(float(f)) for f in np.broadcast_to(factors, channels)]
    return kernel, (
        const("multiplier", [m for m, _ in pairs], np.int32),
        const("shift", [s for _, s in pairs], np.int32),
    )


def effective_scales(x: Tensor, w: Tensor, y: Tensor) -> npt.NDArray[np.float64]:
    """Input scale times weight scale over output scale in double, one a channel.

    TensorFlow Lite widens the scales to double before it multiplies when it treats weights per
    channel (convolutions always do).
    """
    product = np.float64(x.quant.s) * w.quant.scale.astype(np.float64)
    return product / np.float64(y.quant.s)


def bind_fully_connected(graph: Graph, node: Node) -> list[KernelCall]:
    """Fully connected layer: weights [outputs, depth]."""
    attrs = node.attrs
    assert isinstance(attrs, FullyConnectedAttrs)
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    require_int8(node, x, w, y)
    _require_constant(node, w)
    outputs, depth = w.shape
    low, high = activation_range(y, attrs.activation)
    params = {
        "rows": x.size // depth,
        "depth": depth,
        "in_offset": -x.quant.z,
        "weight_offset": 0 if w.quant.is_per_channel else -w.quant.z,
        "out_offset": y.quant.z,
        "act_min": low,
        "act_max": high,
    }
    kernel, scaling = _fully_connected_scaling(node, x, w, y)
    output = View.strided((1, 1, x.size // depth, outputs), (0, 0, outputs, 1), 1)
    call = KernelCall(
        kernel,
        (
            reads(x),
            const("weights", w.array, np.int8),
            _bias(graph, node, outputs),
            *scaling,
            writes(y, output),
        ),
        params,
    )
    return [call]


def _fully_connected_scaling(
    node: Node, x: Tensor, w: Tensor, y: Tensor
) -> tuple[str, tuple[ConstArg, ...]]:
    channels = w.shape[0]
    if node.contract is Contract.TFLITE_REFERENCE:
        scales = np.broadcast_to(effective_scales(x, w, y), channels)
        return "fully_connected_s8_f64scale", (const("scale", scales, np.float64),)
    if node.contract is Contract.TFLITE_MICRO and not w.quant.is_per_channel:
        # tflite-micro multiplies the two scales in single precision here
        factor = float(np.float64(x.quant.s * w.quant.s) / np.float64(y.quant.s))
        multiplier, shift = quantize_multiplier(factor)
        return "fully_connected_s8", (
            const("multiplier", np.full(channels, multiplier), np.int32),
            const("shift", np.full(channels, shift), np.int32),
        )
    return _scaling(node, "fully_connected_s8", x, w, y, channels)

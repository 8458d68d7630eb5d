"""Binders of pooling, mean and softmax nodes on int8."""

from __future__ import annotations

import math

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import Graph, Node, PoolAttrs, ReduceAttrs, SoftmaxAttrs
from npuforge.numerics.bind_linear import require_int8
from npuforge.numerics.call import KernelCall, View, const, reads, writes
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.tables import softmax_exp_table
from npuforge.vocab import Contract


def _pool(graph: Graph, node: Node, kernel: str) -> list[KernelCall]:
    attrs = node.attrs
    assert isinstance(attrs, PoolAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    require_int8(node, x, y)
    if not x.quant.same_as(y.quantization):
        raise UnsupportedError("NUM-006", node=node.name, op=node.op, a=x.name, b=y.name)
    if attrs.count_padding and any(attrs.padding):
        raise UnsupportedError("NUM-007", node=node.name, op=node.op)
    low, high = activation_range(y, attrs.activation)
    params = {
        "kernel_h": attrs.kernel[0],
        "kernel_w": attrs.kernel[1],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "dilation_h": 1,
        "dilation_w": 1,
        "pad_top": attrs.padding[0],
        "pad_left": attrs.padding[2],
        "act_min": low,
        "act_max": high,
    }
    return [KernelCall(kernel, (reads(x), writes(y)), params)]


def bind_average_pool2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Average pooling; padded elements are not counted."""
    return _pool(graph, node, "average_pool2d_s8")


def bind_max_pool2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Max pooling."""
    return _pool(graph, node, "max_pool2d_s8")


def bind_mean(graph: Graph, node: Node) -> list[KernelCall]:
    """Mean over neighbouring axes."""
    attrs = node.attrs
    assert isinstance(attrs, ReduceAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    require_int8(node, x, y)
    axes = [a for a in attrs.axes if x.shape[a] != 1] or list(attrs.axes[:1])
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        raise UnsupportedError("NUM-008", node=node.name, op=node.op, axes=attrs.axes)
    outer = math.prod(x.shape[: axes[0]])
    reduced = math.prod(x.shape[axes[0] : axes[-1] + 1])
    inner = math.prod(x.shape[axes[-1] + 1 :])
    params: dict[str, int | float] = {
        "outer": outer,
        "reduced": reduced,
        "inner": inner,
        "in_zero": x.quant.z,
        "out_zero": y.quant.z,
    }
    if node.contract is Contract.ONNX_QLINEAR:
        kernel = "mean_s8_f32scale"
        params["scale"] = float(x.quant.s / (y.quant.s * np.float32(reduced)))
    else:
        kernel = "mean_s8"
        real = float(x.quant.s) / float(y.quant.s)
        params["multiplier"], params["shift"] = mean_multiplier(real, reduced)
    return [KernelCall(kernel, (reads(x), writes(y)), params)]


def mean_multiplier(real: float, count: int) -> tuple[int, int]:
    """The multiplier of a mean: the factor of a sum with 1 / count folded in.

    TensorFlow Lite divides the multiplier by the count after a shift that keeps its precision.
    """
    multiplier, shift = quantize_multiplier(real)
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


def bind_softmax(graph: Graph, node: Node) -> list[KernelCall]:
    """Softmax over the last axis."""
    attrs = node.attrs
    assert isinstance(attrs, SoftmaxAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    require_int8(node, x, y)
    if attrs.axis != len(x.shape) - 1:
        raise UnsupportedError("NUM-009", node=node.name, op=node.op, axis=attrs.axis)
    if y.quant.s != np.float32(1 / 256) or y.quant.z != -128:
        raise UnsupportedError(
            "NUM-010", node=node.name, tensor=y.name, scale=y.quant.s, zero=y.quant.z
        )
    depth = x.shape[-1]
    table, diff_min = softmax_exp_table(x, attrs.beta)
    params = {"rows": x.size // depth, "depth": depth, "diff_min": diff_min}
    args = (reads(x, View.dense((x.size,), 1)), const("exp_table", table, np.int32), writes(y))
    return [KernelCall("softmax_s8", args, params)]

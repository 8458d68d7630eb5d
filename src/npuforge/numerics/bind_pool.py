"""Binders of pooling, reductions, softmax, normalisation and positions of extremes."""

from __future__ import annotations

import math

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import AxisAttrs, Graph, Node, PoolAttrs, ReduceAttrs, SoftmaxAttrs, Tensor
from npuforge.numerics.call import Arg, KernelCall, View, const, reads, writes
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.tables import qlinear_exp_table, softmax_exp_table, softmax_tables_16
from npuforge.numerics.types import (
    DTYPE_NUMBER,
    FLOAT_RANGE,
    REDUCE_OPS,
    SUFFIX,
    is_qlinear,
    refuse_type,
    require_same_scale,
    require_types,
)
from npuforge.vocab import Activation, DType

Params = dict[str, int | float]
_QUANTISED = (DType.INT8, DType.UINT8, DType.INT16)


def _window(attrs: PoolAttrs) -> Params:
    return {
        "kernel_h": attrs.kernel[0],
        "kernel_w": attrs.kernel[1],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "dilation_h": 1,
        "dilation_w": 1,
        "pad_top": attrs.padding[0],
        "pad_left": attrs.padding[2],
    }


def bind_average_pool2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Average pooling."""
    attrs = node.attrs
    assert isinstance(attrs, PoolAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    padded = attrs.count_padding and any(attrs.padding)
    args = (reads(x), writes(y))
    params = _window(attrs)
    if x.dtype is DType.FLOAT32:
        low, high = FLOAT_RANGE[attrs.activation]
        params |= {"low": low, "high": high, "count_padding": int(padded)}
        return [KernelCall("average_pool2d_f32", args, params)]
    require_types(node, _QUANTISED, x, y)
    if is_qlinear(node):
        require_types(node, (DType.INT8,), x, y)
        if attrs.activation is not Activation.NONE:
            raise UnsupportedError("NUM-012", node=node.name, op=node.op)
        params |= {
            "in_zero": x.quant.z,
            "out_zero": y.quant.z,
            "in_scale": float(x.quant.s),
            "out_scale": float(y.quant.s),
            "count_padding": int(padded),
        }
        return [KernelCall("average_pool2d_s8_f32scale", args, params)]
    require_same_scale(node, x, y)
    if padded:
        raise UnsupportedError("NUM-007", node=node.name, op=node.op)
    return [_integer_pool(f"average_pool2d_{SUFFIX[x.dtype]}", attrs, args, y)]


def bind_max_pool2d(graph: Graph, node: Node) -> list[KernelCall]:
    """Max pooling."""
    attrs = node.attrs
    assert isinstance(attrs, PoolAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    args = (reads(x), writes(y))
    if x.dtype is DType.FLOAT32:
        low, high = FLOAT_RANGE[attrs.activation]
        params = _window(attrs) | {"low": low, "high": high}
        return [KernelCall("max_pool2d_f32", args, params)]
    require_types(node, _QUANTISED, x, y)
    require_same_scale(node, x, y)
    return [_integer_pool(f"max_pool2d_{SUFFIX[x.dtype]}", attrs, args, y)]


def _integer_pool(kernel: str, attrs: PoolAttrs, args: tuple[Arg, ...], y: Tensor) -> KernelCall:
    low, high = activation_range(y, attrs.activation)
    return KernelCall(kernel, args, _window(attrs) | {"act_min": low, "act_max": high})


def bind_reduce(graph: Graph, node: Node) -> list[KernelCall]:
    """Mean, sum, product, maximum and minimum over any axes."""
    attrs = node.attrs
    assert isinstance(attrs, ReduceAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if x.dtype is DType.INT8 and node.op == "mean":
        simple = _mean_of_neighbours(node, attrs, x, y)
        if simple is not None:
            return [simple]
    params = _axes(node, attrs, x)
    args = (reads(x), writes(y))
    if x.dtype is DType.FLOAT32:
        return [KernelCall("reduce_f32", args, params)]
    if x.dtype is DType.INT32 and x.quantization is None:
        return [KernelCall("reduce_s32", args, params)]
    require_types(node, _QUANTISED, x, y)
    if node.op in ("reduce_max", "reduce_min"):
        require_same_scale(node, x, y)
        multiplier, shift = 0, 0
    elif is_qlinear(node) or node.op == "reduce_prod":
        raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)
    else:
        real = float(x.quant.s) / float(y.quant.s)
        count = x.size // max(y.size, 1)
        mean = node.op == "mean"
        multiplier, shift = mean_multiplier(real, count) if mean else quantize_multiplier(real)
    params |= {
        "in_zero": x.quant.z,
        "out_zero": y.quant.z,
        "multiplier": multiplier,
        "shift": shift,
    }
    if x.dtype is DType.INT16:
        return [KernelCall("reduce_s16", args, params)]
    params["is_unsigned"] = int(x.dtype is DType.UINT8)
    return [KernelCall("reduce_8", args, params)]


def _mean_of_neighbours(node: Node, attrs: ReduceAttrs, x: Tensor, y: Tensor) -> KernelCall | None:
    """The usual mean, over neighbouring axes; None when the axes are no neighbours."""
    require_types(node, (DType.INT8,), x, y)
    axes = [a for a in attrs.axes if x.shape[a] != 1] or list(attrs.axes[:1])
    if not axes or any(x.shape[a] != 1 and a not in axes for a in range(axes[0], axes[-1] + 1)):
        return None
    reduced = math.prod(x.shape[axes[0] : axes[-1] + 1])
    params: Params = {
        "outer": math.prod(x.shape[: axes[0]]),
        "reduced": reduced,
        "inner": math.prod(x.shape[axes[-1] + 1 :]),
        "in_zero": x.quant.z,
        "out_zero": y.quant.z,
    }
    if is_qlinear(node):
        params["scale"] = float(x.quant.s / (y.quant.s * np.float32(reduced)))
        return KernelCall("mean_s8_f32scale", (reads(x), writes(y)), params)
    real = float(x.quant.s) / float(y.quant.s)
    params["multiplier"], params["shift"] = mean_multiplier(real, reduced)
    return KernelCall("mean_s8", (reads(x), writes(y)), params)


def mean_multiplier(real: float, count: int) -> tuple[int, int]:
    """The multiplier of a mean: the factor of a sum with 1 / count folded in.

    TensorFlow Lite divides the multiplier by the count after a shift that keeps its precision.
    """
    multiplier, shift = quantize_multiplier(real)
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


def _axes(node: Node, attrs: ReduceAttrs, x: Tensor) -> Params:
    """Up to three kept and three reduced groups of axes with their strides in elements."""
    groups: list[tuple[bool, int]] = []
    for axis, n in enumerate(x.shape):
        if n == 1:
            continue
        reduced = axis in attrs.axes
        if groups and groups[-1][0] == reduced:
            groups[-1] = (reduced, groups[-1][1] * n)
        else:
            groups.append((reduced, n))
    strides = []
    step = 1
    for _, n in reversed(groups):
        strides.append(step)
        step *= n
    strides.reverse()
    params: Params = {"kind": REDUCE_OPS.index(node.op)}
    for letter, wanted in (("k", False), ("r", True)):
        chosen = [
            (n, s) for (reduced, n), s in zip(groups, strides, strict=True) if reduced is wanted
        ]
        if len(chosen) > 3:
            raise UnsupportedError("NUM-008", node=node.name, op=node.op, axes=attrs.axes)
        chosen = [(1, 0)] * (3 - len(chosen)) + chosen
        for i, (n, s) in enumerate(chosen):
            params[f"{letter}{i}"] = n
            params[f"{letter}s{i}"] = s
    return params


def bind_softmax(graph: Graph, node: Node) -> list[KernelCall]:
    """Softmax and log-softmax over the last axis."""
    attrs = node.attrs
    assert isinstance(attrs, SoftmaxAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if attrs.axis != len(x.shape) - 1:
        raise UnsupportedError("NUM-009", node=node.name, op=node.op, axis=attrs.axis)
    depth = x.shape[-1]
    params: Params = {"rows": x.size // max(depth, 1), "depth": depth}
    flat = View.dense((x.size,), x.dtype.nbytes)
    if x.dtype is DType.FLOAT32:
        params |= {"beta": attrs.beta, "logarithm": int(node.op == "log_softmax")}
        return [KernelCall("softmax_f32", (reads(x, flat), writes(y, flat)), params)]
    if node.op == "log_softmax":
        raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)
    require_types(node, _QUANTISED, x, y)
    if x.dtype is DType.INT16:
        return [_softmax_16(attrs, x, y, params)]
    if is_qlinear(node):
        require_types(node, (DType.INT8,), x, y)
        table = qlinear_exp_table(x, depth)
        args: tuple[Arg, ...] = (
            reads(x, flat),
            const("exp_table", table, np.float32),
            writes(y, flat),
        )
        steps = np.floor(np.float32(1) / y.quant.s)
        params |= {"out_zero": y.quant.z, "out_steps": float(steps)}
        return [KernelCall("softmax_s8_f32", args, params)]
    zero = 0 if y.dtype is DType.UINT8 else -128
    if y.quant.s != np.float32(1 / 256) or y.quant.z != zero or x.dtype is not y.dtype:
        raise UnsupportedError(
            "NUM-010", node=node.name, tensor=y.name, scale=y.quant.s, zero=y.quant.z
        )
    exp_table, params["diff_min"] = softmax_exp_table(x, attrs.beta)
    args = (reads(x, flat), const("exp_table", exp_table, np.int32), writes(y, flat))
    return [KernelCall(f"softmax_{SUFFIX[x.dtype]}", args, params)]


def _softmax_16(attrs: SoftmaxAttrs, x: Tensor, y: Tensor, params: Params) -> KernelCall:
    # differences are scaled so that -65535 stands for -10
    factor = float(x.quant.s * np.float32(attrs.beta)) / (10.0 / 65535.0)
    params["multiplier"], params["shift"] = quantize_multiplier(factor)
    exp, reciprocal = softmax_tables_16()
    args = (
        reads(x),
        const("exp", exp, np.int16),
        const("reciprocal", reciprocal, np.int16),
        writes(y),
    )
    return KernelCall("softmax_s16", args, params)


def bind_l2_normalization(graph: Graph, node: Node) -> list[KernelCall]:
    """x / |x| along the last axis."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    depth = x.shape[-1]
    params: Params = {"rows": x.size // max(depth, 1), "depth": depth}
    if x.dtype is DType.FLOAT32:
        return [KernelCall("l2_normalization_f32", (reads(x), writes(y)), params)]
    require_types(node, (DType.INT8,), x, y)
    if y.quant.s != np.float32(1 / 128) or y.quant.z != 0:
        raise UnsupportedError(
            "NUM-017", node=node.name, tensor=y.name, scale=y.quant.s, zero=y.quant.z
        )
    params["in_zero"] = x.quant.z
    return [KernelCall("l2_normalization_s8", (reads(x), writes(y)), params)]


def bind_arg_extreme(graph: Graph, node: Node) -> list[KernelCall]:
    """Position of the largest or smallest value along an axis; the first of equal ones."""
    attrs = node.attrs
    assert isinstance(attrs, AxisAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if x.dtype not in (*_QUANTISED, DType.INT32, DType.FLOAT32):
        raise refuse_type(node, x)
    if y.dtype not in (DType.INT32, DType.INT64):
        raise refuse_type(node, y)
    params: Params = {
        "outer": math.prod(x.shape[: attrs.axis]),
        "axis": x.shape[attrs.axis],
        "inner": math.prod(x.shape[attrs.axis + 1 :]),
        "dtype": DTYPE_NUMBER[x.dtype],
        "largest": int(node.op == "arg_max"),
        "wide": int(y.dtype is DType.INT64),
    }
    return [KernelCall("arg_extreme", (reads(x), writes(y)), params)]

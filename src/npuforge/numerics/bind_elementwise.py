"""Binders of elementwise nodes: binary operators, tables, quantise and dequantise."""

from __future__ import annotations

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import ElementwiseAttrs, Graph, Node, Shape, Tensor
from npuforge.numerics.bind_linear import require_int8
from npuforge.numerics.call import KernelCall, View, const, reads, writes
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.tables import unary_table
from npuforge.vocab import Contract, DType


def broadcast_views(a: Shape, b: Shape, out: Shape, element: int) -> tuple[View, View, View] | None:
    """Views of two operands and the result that walk the result once.

    Neighbouring axes that both operands treat alike are merged.

    Returns:
        Views of a, b and the result, or None when more than four axes remain.
    """
    rank = len(out)
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    groups: list[tuple[int, bool, bool]] = []
    for n, m, k in zip(out, left, right, strict=True):
        if n == 1:
            continue
        kind = (m == n, k == n)
        if groups and groups[-1][1:] == kind:
            groups[-1] = (groups[-1][0] * n, *kind)
        else:
            groups.append((n, *kind))
    if len(groups) > 4:
        return None
    groups = [(1, True, True)] * (4 - len(groups)) + groups
    shape = (groups[0][0], groups[1][0], groups[2][0], groups[3][0])
    views = []
    for which in (0, 1, 2):
        strides = [0, 0, 0, 0]
        step = 1
        for axis in (3, 2, 1, 0):
            n, *present = groups[axis]
            if which == 2 or present[which]:
                strides[axis] = step
                step *= n
        views.append(View.strided(shape, tuple(strides), element))
    return views[0], views[1], views[2]


def _operands(graph: Graph, node: Node) -> tuple[Tensor, Tensor, Tensor, tuple[View, View, View]]:
    a, b = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    views = broadcast_views(a.shape, b.shape, y.shape, y.dtype.nbytes)
    if views is None:
        raise UnsupportedError("NUM-004", node=node.name, op=node.op, a=a.shape, b=b.shape)
    return a, b, y, views


def bind_add(graph: Graph, node: Node) -> list[KernelCall]:
    """Addition on int8, with broadcasting."""
    attrs = node.attrs
    assert isinstance(attrs, ElementwiseAttrs)
    a, b, y, views = _operands(graph, node)
    require_int8(node, a, b, y)
    low, high = activation_range(y, attrs.activation)
    params: dict[str, int | float]
    if node.contract is Contract.ONNX_QLINEAR:
        ratio_a, ratio_b = a.quant.s / y.quant.s, b.quant.s / y.quant.s
        fixed = np.float32(y.quant.z) - (
            ratio_a * np.float32(a.quant.z) + ratio_b * np.float32(b.quant.z)
        )
        kernel = "add_s8_f32scale"
        params = {"a_scale": float(ratio_a), "b_scale": float(ratio_b), "offset": float(fixed)}
    else:
        kernel = "add_s8"
        params = _add_params(a, b, y)
    params |= {"act_min": low, "act_max": high}
    args = (reads(a, views[0]), reads(b, views[1]), writes(y, views[2]))
    return [KernelCall(kernel, args, params)]


def _add_params(a: Tensor, b: Tensor, y: Tensor) -> dict[str, int | float]:
    left_shift = 20  # headroom TensorFlow Lite gives int8 sums
    twice_max = float(np.float32(2) * max(a.quant.s, b.quant.s))
    factors = {
        "a": float(a.quant.s) / twice_max,
        "b": float(b.quant.s) / twice_max,
        "out": twice_max / float(np.float32(1 << left_shift) * y.quant.s),
    }
    params: dict[str, int | float] = {
        "left_shift": left_shift,
        "a_offset": -a.quant.z,
        "b_offset": -b.quant.z,
        "out_offset": y.quant.z,
    }
    for name, factor in factors.items():
        params[f"{name}_multiplier"], params[f"{name}_shift"] = quantize_multiplier(factor)
    return params


def bind_mul(graph: Graph, node: Node) -> list[KernelCall]:
    """Multiplication on int8, with broadcasting."""
    attrs = node.attrs
    assert isinstance(attrs, ElementwiseAttrs)
    a, b, y, views = _operands(graph, node)
    require_int8(node, a, b, y)
    low, high = activation_range(y, attrs.activation)
    factor = float(np.float64(a.quant.s * b.quant.s) / np.float64(y.quant.s))
    multiplier, shift = quantize_multiplier(factor)
    params = {
        "a_offset": -a.quant.z,
        "b_offset": -b.quant.z,
        "out_offset": y.quant.z,
        "out_multiplier": multiplier,
        "out_shift": shift,
        "act_min": low,
        "act_max": high,
    }
    args = (reads(a, views[0]), reads(b, views[1]), writes(y, views[2]))
    return [KernelCall("mul_s8", args, params)]


def bind_table(graph: Graph, node: Node) -> list[KernelCall]:
    """Any unary operator on 8-bit elements, through a table of 256 results."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    table = unary_table(node, x, y)
    args = (reads(x), const("table", table, np.uint8), writes(y))
    params = {"rows": 1, "count": x.size, "x_row": x.size, "y_row": x.size}
    return [KernelCall("lut_8", args, params)]


def bind_quantize(graph: Graph, node: Node) -> list[KernelCall]:
    """float32 -> int8, or a change of scale between 8-bit types."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if x.dtype in (DType.INT8, DType.UINT8):
        return bind_table(graph, node)
    require_int8(node, y)
    if x.dtype is not DType.FLOAT32:
        raise UnsupportedError("NUM-001", node=node.name, op=node.op, tensor=x.name, dtype=x.dtype)
    params = {
        "count": x.size,
        "out_zero": y.quant.z,
        "scale": float(y.quant.s),
        "half_even": int(node.contract is Contract.ONNX_QLINEAR),
    }
    return [KernelCall("quantize_f32_s8", (reads(x), writes(y)), params)]


def bind_dequantize(graph: Graph, node: Node) -> list[KernelCall]:
    """int8 -> float32."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    require_int8(node, x)
    params = {"count": x.size, "in_zero": x.quant.z, "scale": float(x.quant.s)}
    return [KernelCall("dequantize_s8_f32", (reads(x), writes(y)), params)]

"""Binders of binary elementwise nodes: arithmetic, comparison, selection."""

from __future__ import annotations

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import ElementwiseAttrs, Graph, Node, Shape, Tensor
from npuforge.numerics.call import KernelCall, View, reads, writes
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.types import (
    BINARY_OPS,
    COMPARE_OPS,
    DTYPE_NUMBER,
    FLOAT_RANGE,
    SUFFIX,
    is_qlinear,
    refuse_type,
    require_types,
)
from npuforge.vocab import Activation, DType

Params = dict[str, int | float]
_QUANTISED = (DType.INT8, DType.UINT8, DType.INT16)


def broadcast_views(shapes: list[Shape], out: Shape, elements: list[int]) -> list[View] | None:
    """Views of several operands and the result that walk the result once.

    Neighbouring axes that all operands treat alike are merged.

    Args:
        shapes: of the operands.
        out: shape of the result.
        elements: bytes of an element of each operand, and of the result.

    Returns:
        Views of the operands and the result, or None when more than four axes remain.
    """
    rank = len(out)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    groups: list[tuple[int, tuple[bool, ...]]] = []
    for axis, n in enumerate(out):
        if n == 1:
            continue
        present = tuple(shape[axis] == n for shape in padded)
        if groups and groups[-1][1] == present:
            groups[-1] = (groups[-1][0] * n, present)
        else:
            groups.append((n, present))
    if len(groups) > 4:
        return None
    everything = (True,) * len(shapes)
    groups = [(1, everything)] * (4 - len(groups)) + groups
    shape4 = tuple(n for n, _ in groups)
    views = []
    for which, element in enumerate(elements):
        strides = [0, 0, 0, 0]
        step = 1
        for axis in (3, 2, 1, 0):
            n, present = groups[axis]
            if which == len(shapes) or present[which]:
                strides[axis] = step
                step *= n
        views.append(View.strided(shape4, tuple(strides), element))
    return views


def _operands(graph: Graph, node: Node) -> tuple[list[Tensor], Tensor, list[View]]:
    tensors = [graph.tensor(name) for name in node.inputs]
    y = graph.tensor(node.outputs[0])
    elements = [t.dtype.nbytes for t in (*tensors, y)]
    views = broadcast_views([t.shape for t in tensors], y.shape, elements)
    if views is None:
        a, b = tensors[0].shape, tensors[1].shape
        raise UnsupportedError("NUM-004", node=node.name, op=node.op, a=a, b=b)
    return tensors, y, views


def _call(
    kernel: str, tensors: list[Tensor], y: Tensor, views: list[View], params: Params
) -> list[KernelCall]:
    sources = [reads(t, view) for t, view in zip(tensors, views[:-1], strict=True)]
    return [KernelCall(kernel, (*sources, writes(y, views[-1])), params)]


def bind_binary(graph: Graph, node: Node) -> list[KernelCall]:
    """Arithmetic of two operands with broadcasting."""
    tensors, y, views = _operands(graph, node)
    a, b = tensors
    activation = Activation.NONE
    if isinstance(node.attrs, ElementwiseAttrs):
        activation = node.attrs.activation
    if y.dtype is DType.FLOAT32:
        require_types(node, (DType.FLOAT32,), a, b, y)
        low, high = FLOAT_RANGE[activation]
        params: Params = {"op": BINARY_OPS.index(node.op), "low": low, "high": high}
        return _call("binary_f32", tensors, y, views, params)
    if y.dtype in (DType.INT32, DType.INT64) and y.quantization is None:
        for tensor in tensors:
            if tensor.dtype is not y.dtype:
                raise refuse_type(node, tensor)
        kernel = "binary_s32" if y.dtype is DType.INT32 else "binary_s64"
        return _call(kernel, tensors, y, views, {"op": BINARY_OPS.index(node.op)})
    require_types(node, _QUANTISED, a, b, y)
    if not a.dtype is b.dtype is y.dtype:
        raise refuse_type(node, b if a.dtype is y.dtype else a)
    kernel, params = _quantized(node, activation, a, b, y)
    return _call(kernel, tensors, y, views, params)


def _quantized(
    node: Node, activation: Activation, a: Tensor, b: Tensor, y: Tensor
) -> tuple[str, Params]:
    """Kernel and parameters of arithmetic on quantised tensors of one type."""
    suffix = SUFFIX[y.dtype]
    if node.op in ("minimum", "maximum") and not is_qlinear(node):
        return f"extreme_{suffix}", {"largest": int(node.op == "maximum")}
    low, high = activation_range(y, activation)
    limits: Params = {"act_min": low, "act_max": high}
    if is_qlinear(node):
        return _qlinear(node, a, b, y, limits)
    if node.op in ("add", "sub"):
        return f"add_{suffix}", sum_params(a, b, y, node.op == "sub") | limits
    if node.op == "mul":
        return f"mul_{suffix}", _product_params(a, b, y) | limits
    if node.op == "squared_difference" and y.dtype in (DType.INT8, DType.INT16):
        return f"squared_difference_{suffix}", _difference_params(a, b, y) | limits
    if node.op == "prelu" and y.dtype is DType.INT8:
        return "prelu_s8", _prelu_params(a, b, y)
    raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)


def _qlinear(node: Node, a: Tensor, b: Tensor, y: Tensor, limits: Params) -> tuple[str, Params]:
    """Single-precision rescaling, half to even; what has no such kernel is computed as floats."""
    if y.dtype is not DType.INT8:
        raise refuse_type(node, y)
    if node.op == "add":
        ratio_a, ratio_b = a.quant.s / y.quant.s, b.quant.s / y.quant.s
        fixed = np.float32(y.quant.z) - (
            ratio_a * np.float32(a.quant.z) + ratio_b * np.float32(b.quant.z)
        )
        scales = {"a_scale": float(ratio_a), "b_scale": float(ratio_b), "offset": float(fixed)}
        return "add_s8_f32scale", scales | limits
    if node.op == "mul":
        params: Params = {
            "a_offset": -a.quant.z,
            "b_offset": -b.quant.z,
            "out_offset": y.quant.z,
            "scale": float(a.quant.s * b.quant.s / y.quant.s),
        }
        return "mul_s8_f32scale", params | limits
    params = {
        "op": BINARY_OPS.index(node.op),
        "a_zero": a.quant.z,
        "b_zero": b.quant.z,
        "out_zero": y.quant.z,
        "a_scale": float(a.quant.s),
        "b_scale": float(b.quant.s),
        "out_scale": float(y.quant.s),
    }
    if (limits["act_min"], limits["act_max"]) != y.dtype.limits:
        raise UnsupportedError("NUM-012", node=node.name, op=node.op)
    return "binary_s8_float", params


def sum_params(a: Tensor, b: Tensor, y: Tensor, subtract: bool) -> Params:
    """Parameters of a quantised sum: both operands on twice the larger scale, then the output's.

    The headroom (left shift) is the one TensorFlow Lite gives to each type.
    """
    left_shift = 15 if y.dtype is DType.INT16 else 20
    twice_max = float(np.float32(2) * max(a.quant.s, b.quant.s))
    factors = {
        "a": float(a.quant.s) / twice_max,
        "b": float(b.quant.s) / twice_max,
        "out": twice_max / float(np.float32(1 << left_shift) * y.quant.s),
    }
    return _offsets(a, b, y, left_shift, -1 if subtract else 1) | _multipliers(factors)


def _offsets(a: Tensor, b: Tensor, y: Tensor, left_shift: int, sign: int) -> Params:
    return {
        "left_shift": left_shift,
        "a_offset": -a.quant.z,
        "b_offset": -b.quant.z,
        "b_sign": sign,
        "out_offset": y.quant.z,
    }


def _multipliers(factors: dict[str, float]) -> Params:
    params: Params = {}
    for name, factor in factors.items():
        params[f"{name}_multiplier"], params[f"{name}_shift"] = quantize_multiplier(factor)
    return params


def _difference_params(a: Tensor, b: Tensor, y: Tensor) -> Params:
    # the square of 255 << 7 fits a word; int16 is tflite-micro's alone, LiteRT refuses it
    left_shift = 7 if y.dtype is DType.INT8 else 0
    twice_max = float(np.float32(2) * max(a.quant.s, b.quant.s))
    factors = {
        "a": float(a.quant.s) / twice_max,
        "b": float(b.quant.s) / twice_max,
        "out": twice_max * twice_max / float(np.float32(1 << (2 * left_shift)) * y.quant.s),
    }
    return _offsets(a, b, y, left_shift, -1) | _multipliers(factors)


def _product_params(a: Tensor, b: Tensor, y: Tensor) -> Params:
    # all in single precision, as TensorFlow Lite computes it
    multiplier, shift = quantize_multiplier(float(a.quant.s * b.quant.s / y.quant.s))
    return {
        "a_offset": -a.quant.z,
        "b_offset": -b.quant.z,
        "out_offset": y.quant.z,
        "out_multiplier": multiplier,
        "out_shift": shift,
    }


def _prelu_params(x: Tensor, alpha: Tensor, y: Tensor) -> Params:
    multiplier, shift = quantize_multiplier(float(x.quant.s / y.quant.s))
    factor = float(x.quant.s * alpha.quant.s / y.quant.s)
    alpha_multiplier, alpha_shift = quantize_multiplier(factor)
    return {
        "in_offset": -x.quant.z,
        "alpha_offset": -alpha.quant.z,
        "out_offset": y.quant.z,
        "multiplier": multiplier,
        "shift": shift,
        "alpha_multiplier": alpha_multiplier,
        "alpha_shift": alpha_shift,
    }


def bind_compare(graph: Graph, node: Node) -> list[KernelCall]:
    """Comparison of stored values; quantised operands must share their scale."""
    tensors, y, views = _operands(graph, node)
    a, b = tensors
    if a.dtype is not b.dtype or y.dtype is not DType.BOOL or a.dtype is DType.FLOAT16:
        raise refuse_type(node, b)
    if a.quantization is not None and not a.quantization.same_as(b.quantization):
        raise UnsupportedError("NUM-006", node=node.name, op=node.op, a=a.name, b=b.name)
    params: Params = {"op": COMPARE_OPS.index(node.op), "dtype": DTYPE_NUMBER[a.dtype]}
    return _call("compare", tensors, y, views, params)


def bind_select(graph: Graph, node: Node) -> list[KernelCall]:
    """condition ? a : b, with broadcasting."""
    tensors, y, views = _operands(graph, node)
    for tensor in tensors[1:]:
        if tensor.dtype is not y.dtype:
            raise refuse_type(node, tensor)
        if y.quantization is not None and not y.quantization.same_as(tensor.quantization):
            raise UnsupportedError("NUM-006", node=node.name, op=node.op, a=tensor.name, b=y.name)
    return _call("select", tensors, y, views, {"element": y.dtype.nbytes})

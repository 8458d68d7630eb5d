"""Binders of unary nodes: tables on 8 and 16 bits, floats, changes of type."""

from __future__ import annotations

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import GeluAttrs, Graph, HardSigmoidAttrs, LeakyReluAttrs, Node, Tensor
from npuforge.numerics.call import Arg, KernelCall, const, reads, writes
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.numerics.tables import sigmoid_table_16, table_16, unary_table
from npuforge.numerics.types import DTYPE_NUMBER, SUFFIX, UNARY_OPS, refuse_type, require_types
from npuforge.vocab import Contract, DType

Params = dict[str, int | float]


def bind_unary(graph: Graph, node: Node) -> list[KernelCall]:
    """Any unary operator: a table on 8-bit elements, interpolation on 16 bits, libm on floats."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if x.dtype is DType.FLOAT32:
        require_types(node, (DType.FLOAT32,), y)
        return [_float_unary(node, x, y)]
    if x.dtype is DType.INT16:
        return [_table_16(node, x, y)]
    if node.op == "logical_not":
        return _logical_not(node, x, y)
    return bind_table(graph, node)


def _float_unary(node: Node, x: Tensor, y: Tensor) -> KernelCall:
    op, alpha = node.op, 0.0
    if isinstance(node.attrs, LeakyReluAttrs | HardSigmoidAttrs):
        alpha = node.attrs.alpha
    elif isinstance(node.attrs, GeluAttrs) and node.attrs.approximate:
        op = "gelu_tanh"
    params: Params = {"op": UNARY_OPS.index(op), "count": x.size, "alpha": alpha}
    return KernelCall("unary_f32", (reads(x), writes(y)), params)


def bind_table(graph: Graph, node: Node) -> list[KernelCall]:
    """A unary operator on 8-bit elements, through a table of 256 results."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    args = (reads(x), const("table", unary_table(node, x, y), np.uint8), writes(y))
    params: Params = {"rows": 1, "count": x.size, "x_row": x.size, "y_row": x.size}
    return [KernelCall("lut_8", args, params)]


def _logical_not(node: Node, x: Tensor, y: Tensor) -> list[KernelCall]:
    if x.dtype is not DType.BOOL or y.dtype is not DType.BOOL:
        raise refuse_type(node, x)
    table = np.zeros(256, np.uint8)
    table[0] = 1
    params: Params = {"rows": 1, "count": x.size, "x_row": x.size, "y_row": x.size}
    return [KernelCall("lut_8", (reads(x), const("table", table, np.uint8), writes(y)), params)]


def _table_16(node: Node, x: Tensor, y: Tensor) -> KernelCall:
    require_types(node, (DType.INT16,), x, y)
    if node.op in ("logistic", "tanh"):
        multiplier, shift = _sigmoid_scaling(node, x)
        args: tuple[Arg, ...] = (
            reads(x),
            const("sigmoid", sigmoid_table_16(), np.uint16),
            writes(y),
        )
        params: Params = {
            "count": x.size,
            "multiplier": multiplier,
            "shift": shift,
            "tanh": int(node.op == "tanh"),
        }
        return KernelCall("sigmoid_s16", args, params)
    if node.op in ("relu", "relu6", "relu_n1_to_1", "quantize"):
        return _change_scale(x, y)
    args = (reads(x), const("table", table_16(node, x, y), np.int16), writes(y))
    return KernelCall("lut_16", args, {"count": x.size})


def _sigmoid_scaling(node: Node, x: Tensor) -> tuple[int, int]:
    """Factor and shift that take an int16 input to the table's 1/(3 * 4096) steps."""
    scale = float(x.quant.s)
    exponent = round(float(np.log2(scale)))
    power_of_two = abs(scale - 2.0**exponent) < 1e-9 * scale
    integer_bits = 3
    left = 15 - integer_bits + exponent
    if node.op == "tanh" and power_of_two and left in (0, 1):
        return 3 << left, 0
    if node.op == "logistic" and power_of_two and left == 0:
        return 3, 0
    factor = scale * 4096.0 * 3.0
    shift = 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        shift += 1
        factor *= 2.0
    return int(factor), shift


def _change_scale(x: Tensor, y: Tensor) -> KernelCall:
    multiplier, shift = quantize_multiplier(float(x.quant.s) / float(y.quant.s))
    params: Params = {
        "count": x.size,
        "from": DTYPE_NUMBER[x.dtype],
        "to": DTYPE_NUMBER[y.dtype],
        "in_zero": x.quant.z,
        "out_zero": y.quant.z,
        "multiplier": multiplier,
        "shift": shift,
    }
    return KernelCall("change_scale", (reads(x), writes(y)), params)


def bind_quantize(graph: Graph, node: Node) -> list[KernelCall]:
    """float32 -> a quantised type, or a change of scale between quantised types."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    eight_bit = (DType.INT8, DType.UINT8)
    if x.dtype in eight_bit and y.dtype in eight_bit:
        return bind_table(graph, node)
    if x.dtype is not DType.FLOAT32:
        types = (*eight_bit, DType.INT16, DType.INT32)
        require_types(node, types, x, y)
        return [_change_scale(x, y)]
    require_types(node, (*eight_bit, DType.INT16), y)
    params: Params = {
        "count": x.size,
        "out_zero": y.quant.z,
        "scale": float(y.quant.s),
        "half_even": int(node.contract is Contract.ONNX_QLINEAR),
    }
    return [KernelCall(f"quantize_f32_{SUFFIX[y.dtype]}", (reads(x), writes(y)), params)]


def bind_dequantize(graph: Graph, node: Node) -> list[KernelCall]:
    """A quantised type, or float16, -> float32."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if x.dtype is DType.FLOAT16:
        return bind_cast(graph, node)
    require_types(node, (DType.INT8, DType.UINT8, DType.INT16), x)
    params: Params = {"count": x.size, "in_zero": x.quant.z, "scale": float(x.quant.s)}
    return [KernelCall(f"dequantize_{SUFFIX[x.dtype]}_f32", (reads(x), writes(y)), params)]


def bind_cast(graph: Graph, node: Node) -> list[KernelCall]:
    """A change of element type; stored values are kept, floats are cut towards zero."""
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if y.dtype is DType.FLOAT16:
        raise UnsupportedError("NUM-001", node=node.name, op=node.op, tensor=y.name, dtype=y.dtype)
    params: Params = {
        "count": x.size,
        "from": DTYPE_NUMBER[x.dtype],
        "to": DTYPE_NUMBER[y.dtype],
    }
    return [KernelCall("cast", (reads(x), writes(y)), params)]

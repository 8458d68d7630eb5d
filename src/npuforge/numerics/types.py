"""Checks and numbers that binders share."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from npuforge.errors import UnsupportedError
from npuforge.graph import Node, Tensor
from npuforge.vocab import Activation, Contract, DType

DTYPE_NUMBER: Mapping[DType, int] = {
    DType.INT4: 0,
    DType.INT8: 0,
    DType.UINT8: 1,
    DType.INT16: 2,
    DType.INT32: 3,
    DType.INT64: 4,
    DType.FLOAT16: 5,
    DType.FLOAT32: 6,
    DType.BOOL: 7,
}
"""Element types as ``nf_dtype`` numbers them."""

SUFFIX: Mapping[DType, str] = {
    DType.INT8: "s8",
    DType.UINT8: "u8",
    DType.INT16: "s16",
    DType.FLOAT32: "f32",
}
"""How kernel names call element types."""

BINARY_OPS = (
    *("add", "sub", "mul", "div", "minimum", "maximum", "squared_difference"),
    *("floor_div", "floor_mod", "power", "prelu"),
)
COMPARE_OPS = (
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or"),
)
UNARY_OPS = (
    *("relu", "relu6", "relu_n1_to_1", "logistic", "tanh", "hard_swish", "hard_sigmoid", "elu"),
    *("exp", "log", "sqrt", "rsqrt", "square", "abs", "neg", "round", "floor", "ceil", "sign"),
    *("sin", "cos", "erf", "softplus", "reciprocal", "logical_not", "leaky_relu", "gelu"),
    "gelu_tanh",
)
REDUCE_OPS = ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod")

FLOAT_MAX = 3.4028234663852886e38
"""Largest finite float32, used where a range has no bound."""

FLOAT_RANGE: Mapping[Activation, tuple[float, float]] = {
    Activation.NONE: (-FLOAT_MAX, FLOAT_MAX),
    Activation.RELU: (0.0, FLOAT_MAX),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}
"""Output range of a fused activation on floats."""


def refuse_type(node: Node, tensor: Tensor) -> UnsupportedError:
    """The error for a tensor whose element type has no kernel at this place."""
    return UnsupportedError(
        "NUM-001", node=node.name, op=node.op, tensor=tensor.name, dtype=tensor.dtype
    )


def require_types(node: Node, dtypes: Collection[DType], *tensors: Tensor) -> None:
    """Refuse tensors of other types, and integer ones without quantisation.

    Raises:
        UnsupportedError: a tensor has another type or no quantisation.
    """
    for tensor in tensors:
        if tensor.dtype not in dtypes:
            raise refuse_type(node, tensor)
        if tensor.quantization is None and tensor.dtype is not DType.FLOAT32:
            raise UnsupportedError("NUM-002", node=node.name, op=node.op, tensor=tensor.name)


def is_int8(*tensors: Tensor) -> bool:
    """Whether all are int8 with one scale for the whole tensor."""
    return all(
        t.dtype is DType.INT8 and t.quantization is not None and t.quantization.axis is None
        for t in tensors
    )


def require_int8(node: Node, *tensors: Tensor) -> None:
    """Refuse anything but quantised int8."""
    require_types(node, (DType.INT8,), *tensors)


def require_constant(node: Node, tensor: Tensor) -> None:
    """Refuse a tensor that is computed while the network runs."""
    if not tensor.is_constant:
        raise UnsupportedError("NUM-003", node=node.name, op=node.op, tensor=tensor.name)


def require_same_scale(node: Node, a: Tensor, b: Tensor) -> None:
    """Refuse quantised tensors with different scales."""
    if a.quantization is not None and not a.quantization.same_as(b.quantization):
        raise UnsupportedError("NUM-006", node=node.name, op=node.op, a=a.name, b=b.name)


def is_qlinear(node: Node) -> bool:
    """Whether a node on quantised tensors rescales in single precision, half to even.

    That is the rule of onnx_qlinear, and of float32 nodes between quantised tensors.
    """
    return node.contract in (Contract.ONNX_QLINEAR, Contract.FLOAT32)

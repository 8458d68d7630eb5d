"""Tables of unary operators on 8-bit elements: one result for each of the 256 stored bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from npuforge.errors import UnsupportedError
from npuforge.graph import Node, Tensor
from npuforge.numerics.fixedpoint import (
    exp_on_negative,
    logistic,
    quantize_multiplier,
    requantize,
    rounding_shift,
)
from npuforge.numerics.ranges import activation_range
from npuforge.vocab import Activation, Contract, DType

Int = npt.NDArray[np.int64]


def stored_values(dtype: DType) -> Int:
    """The value of each stored byte 0..255 of an 8-bit type."""
    bytes_ = np.arange(256, dtype=np.int64)
    return (
        bytes_ if dtype is DType.UINT8 else bytes_.astype(np.uint8).view(np.int8).astype(np.int64)
    )


def unary_table(node: Node, x: Tensor, y: Tensor) -> npt.NDArray[np.uint8]:
    """The 256 output bytes of a unary node, indexed by the stored input byte.

    Raises:
        UnsupportedError: no table exists for the operator, its types or its contract.
    """
    for tensor in (x, y):
        if tensor.dtype not in (DType.INT8, DType.UINT8):
            raise UnsupportedError(
                "NUM-001", node=node.name, op=node.op, tensor=tensor.name, dtype=tensor.dtype
            )
        if tensor.quantization is None:
            raise UnsupportedError("NUM-002", node=node.name, op=node.op, tensor=tensor.name)
    maker = _MAKERS.get((node.op, _table_contract(node.contract)))
    if maker is None:
        raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)
    low, high = y.dtype.limits
    values = np.clip(maker(node, stored_values(x.dtype), x, y), low, high)
    return (values & 0xFF).astype(np.uint8)


def requantize_table(node: Node, x: Tensor, y: Tensor) -> npt.NDArray[np.uint8]:
    """The table that moves 8-bit values of a node's input to the scale of its output.

    Raises:
        UnsupportedError: a type or contract without such a table.
    """
    return unary_table(replace(node, op="quantize"), x, y)


def _table_contract(contract: Contract) -> Contract:
    return Contract.TFLITE_REFERENCE if contract is Contract.TFLITE_MICRO else contract


def _rescale(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """Requantisation: the input's real value on the output's grid."""
    multiplier, shift = quantize_multiplier(float(x.quant.s) / float(y.quant.s))
    return requantize(q - x.quant.z, multiplier, shift) + y.quant.z


def _relu(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    multiplier, shift = quantize_multiplier(float(x.quant.s / y.quant.s))
    low, high = activation_range(y, Activation(node.op))
    result: Int = np.clip(requantize(q - x.quant.z, multiplier, shift) + y.quant.z, low, high)
    return result


def _logistic(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """Fixed-point logistic on a Q4.27 argument, as the reference kernel computes it."""
    integer_bits = 4
    multiplier, shift = quantize_multiplier(float(x.quant.s) * (1 << (31 - integer_bits)))
    radius = ((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / (1 << shift)
    centred = q - x.quant.z
    inside = np.clip(centred, -int(radius) + 1, int(radius) - 1)
    value = logistic(requantize(inside, multiplier, shift), integer_bits)
    result = np.minimum(rounding_shift(value, 23), 255)
    result = np.where(centred <= -int(radius), 0, np.where(centred >= int(radius), 255, result))
    return result - 128


def _float_function(
    function: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]],
) -> Callable[[Node, Int, Tensor, Tensor], Int]:
    """Dequantise, apply in single precision, quantise half to even."""

    def make(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
        real = x.quant.s * (q - x.quant.z).astype(np.float32)
        scaled = function(real) / y.quant.s
        rounded: Int = np.rint(np.clip(scaled, -1e6, 1e6)).astype(np.int64)
        return rounded + y.quant.z

    return make


def _sigmoid(v: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return (np.float32(1) / (np.float32(1) + np.exp(-v))).astype(np.float32)


def _same(v: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return v


_T, _O = Contract.TFLITE_REFERENCE, Contract.ONNX_QLINEAR
_MAKERS: dict[tuple[str, Contract], Callable[[Node, Int, Tensor, Tensor], Int]] = {
    ("quantize", _T): _rescale,
    ("relu", _T): _relu,
    ("relu6", _T): _relu,
    ("relu_n1_to_1", _T): _relu,
    ("logistic", _T): _logistic,
    ("quantize", _O): _float_function(_same),
    ("relu", _O): _float_function(lambda v: np.maximum(v, np.float32(0))),
    ("relu6", _O): _float_function(lambda v: np.clip(v, np.float32(0), np.float32(6))),
    ("logistic", _O): _float_function(_sigmoid),
}


def softmax_exp_table(x: Tensor, beta: float) -> tuple[npt.NDArray[np.int32], int]:
    """exp of minus the stored difference to the maximum (Q0.31), and the smallest one used.

    TensorFlow Lite scales differences into Q5.26; what falls below its range counts as zero.
    """
    integer_bits = 5
    factor = min(float(beta) * float(x.quant.s) * (1 << (31 - integer_bits)), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(factor)
    radius = ((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / (1 << shift)
    diff_min = -int(np.floor(radius))
    differences = -np.arange(256, dtype=np.int64)
    usable = np.maximum(differences, diff_min)
    table = exp_on_negative(requantize(usable, multiplier, shift), integer_bits)
    return table.astype(np.int32), diff_min

"""Tables of unary operators: one result for each stored byte, or 513 points on 16 bits.

Made once, when a network is built. Functions are evaluated in double precision and rounded to
single, which is what a correctly rounded single-precision library gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from npuforge.errors import UnsupportedError
from npuforge.graph import GeluAttrs, HardSigmoidAttrs, LeakyReluAttrs, Node, Tensor
from npuforge.numerics.fixedpoint import (
    doubling_high_mul,
    exp_on_negative,
    inverse_square_root,
    logistic,
    quantize_multiplier,
    requantize,
    round_half_away,
    rounding_shift,
)
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.types import refuse_type
from npuforge.vocab import Activation, Contract, DType

Int = npt.NDArray[np.int64]
Real = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]


def stored_values(dtype: DType) -> Int:
    """The value of each stored byte 0..255 of an 8-bit type."""
    bytes_ = np.arange(256, dtype=np.int64)
    if dtype is DType.UINT8:
        return bytes_
    return bytes_.astype(np.uint8).view(np.int8).astype(np.int64)


def unary_table(node: Node, x: Tensor, y: Tensor) -> npt.NDArray[np.uint8]:
    """The 256 output bytes of a unary node, indexed by the stored input byte.

    Raises:
        UnsupportedError: no table exists for the operator, its types or its contract.
    """
    for tensor in (x, y):
        if tensor.dtype not in (DType.INT8, DType.UINT8):
            raise refuse_type(node, tensor)
        if tensor.quantization is None:
            raise UnsupportedError("NUM-002", node=node.name, op=node.op, tensor=tensor.name)
    maker = _maker(node)
    low, high = y.dtype.limits
    values = np.clip(maker(node, stored_values(x.dtype), x, y), low, high)
    return (values & 0xFF).astype(np.uint8)


def requantize_table(node: Node, x: Tensor, y: Tensor) -> npt.NDArray[np.uint8]:
    """The table that moves 8-bit values of a concatenation's input to the scale of its output.

    Raises:
        UnsupportedError: a type or contract without such a table.
    """
    lite = node.contract in (Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO)
    if lite and x.dtype is DType.UINT8:
        return _joined(x, y)
    return unary_table(replace(node, op="quantize"), x, y)


def _joined(x: Tensor, y: Tensor) -> npt.NDArray[np.uint8]:
    """As TensorFlow Lite joins uint8 parts of other scales: in single precision, half away."""
    scale = x.quant.s * (np.float32(1) / y.quant.s)
    bias = np.float32(-x.quant.z) * scale
    real = (np.arange(256, dtype=np.float32) * scale + bias).astype(np.float64)
    rounded = np.where(real >= 0, np.floor(real + 0.5), np.ceil(real - 0.5))
    joined: npt.NDArray[np.uint8] = np.clip(rounded + y.quant.z, 0, 255).astype(np.uint8)
    return joined


Maker = Callable[[Node, Int, Tensor, Tensor], Int]


def _maker(node: Node) -> Maker:
    fixed = node.contract in (Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO)
    if fixed and node.op in _FIXED:
        return _FIXED[node.op]
    if node.contract is Contract.TFLITE_MICRO and node.op in _FIXED_MICRO:
        return _FIXED_MICRO[node.op]
    if node.op in FUNCTIONS:
        return _lite_function if fixed else _qlinear_function
    raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)


# --- fixed-point rules of TensorFlow Lite's reference kernels ---


def _rescale(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """Requantisation: the input's real value on the output's grid."""
    multiplier, shift = quantize_multiplier(float(x.quant.s) / float(y.quant.s))
    return requantize(q - x.quant.z, multiplier, shift) + y.quant.z


def _relu(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    multiplier, shift = quantize_multiplier(float(x.quant.s / y.quant.s))
    low, high = activation_range(y, Activation(node.op))
    result: Int = np.clip(requantize(q - x.quant.z, multiplier, shift) + y.quant.z, low, high)
    return result


def _leaky_relu(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    assert isinstance(node.attrs, LeakyReluAttrs)
    alpha = np.float32(node.attrs.alpha)
    slope = quantize_multiplier(abs(float(x.quant.s * alpha / y.quant.s)))
    identity = quantize_multiplier(float(x.quant.s / y.quant.s))
    centred = q - x.quant.z
    below = requantize(centred, *slope) * (-1 if alpha < 0 else 1)
    return np.where(centred >= 0, requantize(centred, *identity), below) + y.quant.z


def _input_radius(integer_bits: int, shift: int) -> int:
    """Largest centred input that the fixed-point argument can hold."""
    return math.floor(((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / 2.0**shift)


def _fixed_logistic(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """Logistic on a Q4.27 argument, as tflite-micro computes it."""
    integer_bits = 4
    multiplier, shift = quantize_multiplier(float(x.quant.s) * (1 << (31 - integer_bits)))
    radius = _input_radius(integer_bits, shift)
    centred = q - x.quant.z
    inside = np.clip(centred, -radius + 1, radius - 1)
    value = logistic(requantize(inside, multiplier, shift), integer_bits)
    result = np.minimum(rounding_shift(value, 23), 255)
    result = np.where(centred <= -radius, 0, np.where(centred >= radius, 255, result))
    return result - 128


def _fixed_tanh(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """tanh on a Q4.27 argument through the logistic of twice the argument, for tflite-micro."""
    integer_bits = 4
    multiplier, shift = quantize_multiplier(float(x.quant.s) * (1 << (31 - integer_bits)))
    radius = _input_radius(integer_bits, shift)
    centred = q - x.quant.z
    inside = np.clip(centred, -radius + 1, radius - 1)
    argument = requantize(inside, multiplier, shift)
    # tanh(|a|) = (1 - e) / (1 + e) with e = exp(-2|a|), evaluated as 2 / (1 + e) - 1
    half = _one_minus_over_one_plus(exp_on_negative(-np.abs(argument), integer_bits + 1))
    value = np.where(argument == 0, 0, np.where(argument > 0, half, -half))
    result = np.clip(rounding_shift(value, 24), -128, 127)
    return np.where(centred <= -radius, -128, np.where(centred >= radius, 127, result))


def _one_minus_over_one_plus(a: Int) -> Int:
    """(1 - a) / (1 + a) in Q0.31 for a in [0, 1]: Newton-Raphson for 1 / (1 + a), then 2x - 1."""
    half_denominator = (a + (1 << 31)) >> 1
    v = 1515870810 + doubling_high_mul(half_denominator, -1010580540)
    for _ in range(3):
        error = (1 << 29) - doubling_high_mul(half_denominator, v)
        v = v + np.clip(doubling_high_mul(v, error) << 2, -(1 << 31), (1 << 31) - 1)
    result: Int = np.clip((v - (1 << 29)) << 2, -(1 << 31), (1 << 31) - 1)
    return result


def _sat16(v: Int) -> Int:
    result: Int = np.clip(v, -(1 << 15), (1 << 15) - 1)
    return result


def _high_mul_16(a: Int, b: int) -> Int:
    """Doubling high multiply of 16-bit numbers with rounding, half away from zero."""
    product = a * b
    nudge = np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    total = product + nudge
    return _sat16(np.where(total >= 0, total >> 15, -((-total) >> 15)))


def _multiplier_16(factor: float) -> tuple[int, int]:
    multiplier, shift = quantize_multiplier(factor)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift


def _hard_swish(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """x * relu6(x + 3) / 6 in 16-bit fixed point."""
    hires_scale = np.float32(1 / 128) * x.quant.s
    out_multiplier, out_shift = _multiplier_16(float(np.float32(hires_scale / y.quant.s)))
    relu_scale = np.float32(3) / np.float32(32768)
    relu_multiplier, relu_shift = _multiplier_16(float(np.float32(hires_scale / relu_scale)))
    if out_shift > 0:
        raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)
    hires = (q - x.quant.z) << 7
    preshift = _high_mul_16(hires, out_multiplier)
    relu = hires
    if relu_shift > 0:
        relu = _sat16(relu << (relu_shift - 1))
    relu = _high_mul_16(relu, relu_multiplier)
    if relu_shift > 0:
        relu = _sat16(relu << 1)
    if relu_shift < 0:
        relu = rounding_shift(relu, -relu_shift)
    relu = (relu + (1 << 15)) >> 1
    product = relu * preshift
    high = np.where(product >= 0, product >> 15, -((-product) >> 15))  # towards zero
    return rounding_shift(_sat16(high), -out_shift) + y.quant.z


def _abs(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    multiplier, shift = quantize_multiplier(float(x.quant.s / y.quant.s))
    return requantize(np.abs(q - x.quant.z), multiplier, shift) + y.quant.z


def _rsqrt(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """1 / sqrt of the stored difference with 20 bits behind the point, then the two scales."""
    kept = 20
    scale = 1.0 / float(np.sqrt(x.quant.s) * y.quant.s)
    multiplier, shift = quantize_multiplier(scale)
    result = np.full(q.shape, y.dtype.limits[1], np.int64)
    for i, value in enumerate(q - x.quant.z):
        if value > 0:
            root, exponent = inverse_square_root(int(value))
            data = requantize(np.array(1), root, exponent + kept)
            result[i] = int(requantize(data, multiplier, shift - kept)) + y.quant.z
    return result


_FIXED: dict[str, Maker] = {
    "abs": _abs,
    "rsqrt": _rsqrt,
    "quantize": _rescale,
    "relu": _relu,
    "relu6": _relu,
    "relu_n1_to_1": _relu,
    "leaky_relu": _leaky_relu,
    "hard_swish": _hard_swish,
}
_FIXED_MICRO: dict[str, Maker] = {"logistic": _fixed_logistic, "tanh": _fixed_tanh}


# --- functions of the dequantised value ---


def _erf(v: Double) -> Double:
    result: Double = np.vectorize(math.erf, otypes=[np.float64])(v)
    return result


def _gelu(node: Node, v: Double) -> Double:
    if isinstance(node.attrs, GeluAttrs) and node.attrs.approximate:
        inner = math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
        return np.asarray(0.5 * v * (1 + np.tanh(inner)))
    return np.asarray(0.5 * v * (1 + _erf(v / math.sqrt(2))))


def _leaky(node: Node, v: Double) -> Double:
    assert isinstance(node.attrs, LeakyReluAttrs)
    return np.where(v > 0, v, v * np.float64(np.float32(node.attrs.alpha)))


def _hard_sigmoid(node: Node, v: Double) -> Double:
    assert isinstance(node.attrs, HardSigmoidAttrs)
    return np.clip(np.float64(np.float32(node.attrs.alpha)) * v + 0.5, 0, 1)


FUNCTIONS: dict[str, Callable[[Node, Double], Double]] = {
    "quantize": lambda n, v: v,
    "relu": lambda n, v: np.maximum(v, 0),
    "relu6": lambda n, v: np.clip(v, 0, 6),
    "relu_n1_to_1": lambda n, v: np.clip(v, -1, 1),
    "logistic": lambda n, v: 1 / (1 + np.exp(-v)),
    "tanh": lambda n, v: np.tanh(v),
    "hard_swish": lambda n, v: v * np.clip(v + 3, 0, 6) / 6,
    "hard_sigmoid": _hard_sigmoid,
    "elu": lambda n, v: np.where(v < 0, np.expm1(np.minimum(v, 0)), v),
    "exp": lambda n, v: np.exp(v),
    "log": lambda n, v: np.log(v),
    "sqrt": lambda n, v: np.sqrt(v),
    "rsqrt": lambda n, v: 1 / np.sqrt(v),
    "square": lambda n, v: v * v,
    "abs": lambda n, v: np.abs(v),
    "neg": lambda n, v: -v,
    "round": lambda n, v: np.rint(v),
    "floor": lambda n, v: np.floor(v),
    "ceil": lambda n, v: np.ceil(v),
    "sign": lambda n, v: np.sign(v),
    "sin": lambda n, v: np.sin(v),
    "cos": lambda n, v: np.cos(v),
    "erf": lambda n, v: _erf(v),
    "softplus": lambda n, v: np.logaddexp(0, v),
    "reciprocal": lambda n, v: 1 / v,
    "leaky_relu": _leaky,
    "gelu": _gelu,
}


def _function_values(node: Node, q: Int, x: Tensor) -> Real:
    real = (x.quant.s * (q - x.quant.z).astype(np.float32)).astype(np.float64)
    with np.errstate(all="ignore"):
        return FUNCTIONS[node.op](node, real).astype(np.float32)


def _limited(values: Real) -> Real:
    """Infinite and undefined results saturate."""
    return np.nan_to_num(np.clip(values, -1e6, 1e6), nan=0.0).astype(np.float32)


def _lite_function(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """As TensorFlow Lite fills its tables: times the inverse scale, ties away from zero."""
    inverse = np.float32(1) / y.quant.s
    scaled = _limited(_function_values(node, q, x) * inverse).astype(np.float64)
    rounded = np.where(scaled >= 0, np.floor(scaled + 0.5), np.ceil(scaled - 0.5))
    return rounded.astype(np.int64) + y.quant.z


def nearest_table(node: Node, x: Tensor, y: Tensor) -> Int:
    """The nearest stored output of each stored input byte, whatever contract the node is under."""
    low, high = y.dtype.limits
    return np.clip(_lite_function(node, stored_values(x.dtype), x, y), low, high)


def _qlinear_function(node: Node, q: Int, x: Tensor, y: Tensor) -> Int:
    """As ONNX quantises: divided by the scale, ties to even."""
    with np.errstate(over="ignore"):
        scaled = _limited(_function_values(node, q, x) / y.quant.s)
    return np.rint(scaled).astype(np.int64) + y.quant.z


# --- softmax ---


def softmax_exp_table(x: Tensor, beta: float) -> tuple[npt.NDArray[np.int32], int]:
    """exp of minus the stored difference to the maximum (Q0.31), and the smallest one used.

    TensorFlow Lite scales differences into Q5.26; what falls below its range counts as zero.
    """
    integer_bits = 5
    factor = min(float(beta) * float(x.quant.s) * (1 << (31 - integer_bits)), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(factor)
    diff_min = -_input_radius(integer_bits, shift)
    usable = np.maximum(-np.arange(256, dtype=np.int64), diff_min)
    table = exp_on_negative(requantize(usable, multiplier, shift), integer_bits)
    return table.astype(np.int32), diff_min


def qlinear_exp_table(x: Tensor, depth: int) -> Real:
    """exp of minus i steps, raised so that a row's sum just stays below the largest float.

    The constants are ONNX Runtime's: five natural logarithms are kept in reserve.
    """
    # the logarithm is taken in single precision
    largest = np.log(np.finfo(np.float32).max / np.float32(depth))
    raised = max(0.0, float(largest) - 5.0) / float(x.quant.s)
    steps = -np.arange(256, dtype=np.float64) + raised
    return np.exp(steps * float(x.quant.s)).astype(np.float32)


# --- 16-bit tables ---


def sampled_table_16(
    function: Callable[[Double], Double],
    in_range: tuple[float, float],
    out_range: tuple[float, float],
) -> npt.NDArray[np.int16]:
    """513 samples of a function, moved by half the error at each section's middle.

    Args:
        function: vectorised, on real numbers.
        in_range: real numbers of the smallest and largest stored input.
        out_range: real numbers of the smallest and largest stored output.
    """
    low, high = in_range
    step = (high - low) / 512
    inverse = 65536.0 / (out_range[1] - out_range[0])
    at: Double = low + np.arange(512, dtype=np.float64) * step
    value, middle, following = function(at), function(at + step / 2), function(at + step)
    half_away = np.vectorize(round_half_away, otypes=[np.float64])
    sample = half_away(value * inverse)
    interpolated = half_away((following * inverse + half_away(value * inverse)) / 2)
    bias = half_away((interpolated - half_away(middle * inverse)) / 2)
    table = np.empty(513)
    table[:512] = np.clip(sample - bias, -32768, 32767)
    last = float(function(np.array([high]))[0])
    table[512] = np.clip(round_half_away(last * inverse), -32768, 32767)
    return table.astype(np.int16)


def table_16(node: Node, x: Tensor, y: Tensor) -> npt.NDArray[np.int16]:
    """513 points of a unary operator between int16 tensors.

    Raises:
        UnsupportedError: the operator has no such table.
    """
    if node.op not in FUNCTIONS:
        raise UnsupportedError("NUM-005", node=node.name, op=node.op, contract=node.contract)

    def function(v: Double) -> Double:
        with np.errstate(all="ignore"):
            values = FUNCTIONS[node.op](node, v)
        return np.nan_to_num(np.clip(values, -1e9, 1e9), nan=0.0)

    ranges = [
        (float(t.quant.s) * (-32768 - t.quant.z), float(t.quant.s) * (32767 - t.quant.z))
        for t in (x, y)
    ]
    return sampled_table_16(function, ranges[0], ranges[1])


def softmax_tables_16() -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """exp over [-10, 0] and 1 / (1 + x) over [0, 1], for int16 softmax."""
    exp = sampled_table_16(
        np.exp, (10.0 / 65535 * (-32768 - 32767), 0.0), (2.0 / 65535 * -32768, 2.0 / 65535 * 32767)
    )
    reciprocal = sampled_table_16(
        lambda v: 1.0 / (1.0 + v), (0.0, 1.0), (2.0 / 65535 * -32768, 2.0 / 65535 * 32767)
    )
    return exp, reciprocal


# entries of TensorFlow Lite's table that lie one above the rounded value; read off its kernel's
# results at the table's own points
_SIGMOID_RAISED = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40),
    *(41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)


def sigmoid_table_16() -> npt.NDArray[np.uint16]:
    """sigmoid over [0, 10.7] in 256 steps of 1/24, as unsigned 16-bit fractions."""
    x = np.arange(256) / 24.0
    values = np.minimum(np.floor(65536.0 / (1.0 + np.exp(-x)) + 0.5), 65535)
    values[list(_SIGMOID_RAISED)] += 1  # the last entry becomes 65535
    return values.astype(np.uint16)

"""Fixed-point arithmetic of the tflite_reference contract, vectorised over numpy arrays.

These functions make tables and constants at build time; the kernels (``runtime/src/arith.h``) apply
the same rules to data. Rules: TensorFlow Lite's reference kernels (double-rounding form) and the
gemmlowp fixed-point functions they call. Values are int64 arrays that hold int32 numbers.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

INT32_MAX = (1 << 31) - 1
INT32_MIN = -(1 << 31)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Split a positive factor into a Q0.31 multiplier in [0.5, 1) and a power of two.

    Args:
        real: the factor, as a double.

    Returns:
        (multiplier, shift): real = multiplier * 2**(shift - 31). Factors below 2**-31 become 0;
        factors of 2**30 and more saturate.
    """
    if real == 0.0:
        return 0, 0
    if math.isinf(real):
        return INT32_MAX, 30
    mantissa, shift = math.frexp(real)
    fixed = round_half_away(mantissa * (1 << 31))
    if fixed == 1 << 31:
        fixed //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    if shift > 30:
        return INT32_MAX, 30
    return fixed, shift


def round_half_away(value: float) -> int:
    """Nearest integer, ties away from zero (C's round)."""
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)


def doubling_high_mul(a: Int, b: Int | int) -> Int:
    """(2 a b) >> 32 with rounding half away from zero and saturation; int32 operands."""
    a = np.asarray(a, np.int64)
    b = np.asarray(b, np.int64)
    product = a * b
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    total = product + nudge
    high = np.where(total >= 0, total >> 31, -((-total) >> 31))
    both_min = (a == INT32_MIN) & (b == INT32_MIN)
    return np.where(both_min, INT32_MAX, high).astype(np.int64)


def rounding_shift(value: Int, exponent: int) -> Int:
    """value / 2**exponent, ties away from zero."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (value < 0)
    return (value >> exponent) + ((value & mask) > threshold)


def requantize(value: Int, multiplier: int, shift: int) -> Int:
    """value * multiplier * 2**(shift - 31), rounded twice; the left shift wraps to int32."""
    shifted = _wrap32(np.asarray(value, np.int64) << max(shift, 0))
    return rounding_shift(doubling_high_mul(shifted, multiplier), max(-shift, 0))


def _wrap32(value: Int) -> Int:
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def shift_left_saturated(value: Int, exponent: int) -> Int:
    """value * 2**exponent, saturated to int32."""
    result: Int = np.clip(value << exponent, INT32_MIN, INT32_MAX)
    return result


# exp(-2**k) in Q0.31 for k = -2 .. 4, the steps of the barrel shifter
_EXP_STEPS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
_EXP_MINUS_EIGHTH = 1895147668  # exp(-1/8) in Q0.31
_ONE_THIRD = 715827883  # 1/3 in Q0.31


def exp_on_negative(a: Int, integer_bits: int) -> Int:
    """exp(a) in Q0.31 for a <= 0 in Q(integer_bits).(31 - integer_bits).

    The fourth-order polynomial around -1/8 on the last quarter, times one constant for each set bit
    of the rest.
    """
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    part = (a & (quarter - 1)) - quarter
    result = _exp_on_last_quarter(shift_left_saturated(part, integer_bits))
    rest = part - a
    for exponent, factor in _EXP_STEPS:
        if integer_bits > exponent:
            bit = 1 << (fraction_bits + exponent)
            result = np.where(rest & bit, doubling_high_mul(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def _exp_on_last_quarter(a: Int) -> Int:
    x = a + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4 = doubling_high_mul(x2, x2)
    inner = doubling_high_mul(rounding_shift(x4, 2) + x3, _ONE_THIRD) + x2
    series = x + rounding_shift(inner, 1)
    return _EXP_MINUS_EIGHTH + doubling_high_mul(series, _EXP_MINUS_EIGHTH)


def one_over_one_plus(a: Int) -> Int:
    """1 / (1 + a) in Q0.31 for a in [0, 1] in Q0.31: three Newton-Raphson steps in Q2.29."""
    half_denominator = (a + INT32_MAX + 1) >> 1
    x = 1515870810 + doubling_high_mul(half_denominator, -1010580540)  # 48/17 - 32/17 d
    for _ in range(3):
        error = (1 << 29) - doubling_high_mul(half_denominator, x)
        x = x + shift_left_saturated(doubling_high_mul(x, error), 2)
    return shift_left_saturated(x, 1)


def logistic(a: Int, integer_bits: int) -> Int:
    """1 / (1 + exp(-a)) in Q0.31 for a in Q(integer_bits).(31 - integer_bits)."""
    positive = one_over_one_plus(exp_on_negative(-np.abs(a), integer_bits))
    result = np.where(a > 0, positive, INT32_MAX - positive)
    return np.where(a == 0, 1 << 30, result)


def inverse_square_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as a Q0.31 multiplier and a power of two, for value >= 1.

    Newton-Raphson on x (3/2 - v/2 x^2) in Q3.28, as ``runtime/src/reduce.c`` does it.
    """
    if value <= 1:
        return INT32_MAX, 0
    right = 11
    while value >= 1 << 29:
        value //= 4
        right += 1
    pairs = (31 - value.bit_length()) // 2 - 1
    right -= pairs
    half = rounding_shift(np.array((value << (2 * pairs)) >> 1), 1)
    x = np.array(1 << 28)
    for _ in range(5):
        cube = shift_left_saturated(doubling_high_mul(doubling_high_mul(x, x), x), 6)
        step = doubling_high_mul(x, 3 << 27) - doubling_high_mul(half, cube)
        x = shift_left_saturated(step, 3)
    multiplier = int(doubling_high_mul(x, 1518500250))  # sqrt(1/2)
    if right < 0:
        return multiplier << -right, 0
    return multiplier, -right

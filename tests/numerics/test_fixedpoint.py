"""Fixed-point functions against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.numerics import fixedpoint as fp

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


def half_away(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2)) if value >= 0 else math.ceil(value - Fraction(1, 2))


def trunc_after_nudge(a: int, b: int) -> int:
    """The doubling high multiply as its definition says it, in integers."""
    product = a * b
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    total = product + nudge
    return total // (1 << 31) if total >= 0 else -((-total) // (1 << 31))


@given(INT32, INT32)
@settings(max_examples=300, derandomize=True)
def test_doubling_high_mul(a: int, b: int) -> None:
    got = int(fp.doubling_high_mul(np.array([a]), b)[0])
    if a == b == -(1 << 31):
        assert got == (1 << 31) - 1
    else:
        assert got == trunc_after_nudge(a, b)
        assert abs(Fraction(a * b, 1 << 31) - got) <= Fraction(1, 2) + Fraction(1, 1 << 31)


@given(INT32, st.integers(0, 31))
@settings(max_examples=300, derandomize=True)
def test_rounding_shift(value: int, exponent: int) -> None:
    got = int(fp.rounding_shift(np.array([value]), exponent)[0])
    assert got == half_away(Fraction(value, 1 << exponent))


@given(st.floats(1e-9, 1e6, allow_nan=False))
@settings(max_examples=300, derandomize=True)
def test_quantize_multiplier(real: float) -> None:
    multiplier, shift = fp.quantize_multiplier(real)
    if multiplier == 0:
        assert real < 2.0**-31
        return
    assert (1 << 30) <= multiplier < (1 << 31)
    value = Fraction(multiplier) * Fraction(2) ** (shift - 31)
    assert abs(value - Fraction(real)) <= Fraction(real) / (1 << 31)


def test_extreme_multipliers() -> None:
    assert fp.quantize_multiplier(0.0) == (0, 0)
    assert fp.quantize_multiplier(2.0**-40) == (0, 0)
    assert fp.quantize_multiplier(2.0**40) == ((1 << 31) - 1, 30)
    assert fp.quantize_multiplier(1.0) == (1 << 30, 1)


def test_exponential_is_close_to_the_function() -> None:
    raw = -np.arange(0, 1 << 31, 99991, dtype=np.int64)
    got = fp.exp_on_negative(raw, 5) / 2.0**31
    want = np.exp(raw / 2.0**26)
    assert np.max(np.abs(got - want)) < 2e-6


def test_logistic_is_close_to_the_function() -> None:
    raw = np.arange(-(1 << 30), 1 << 30, 99991, dtype=np.int64)
    got = fp.logistic(raw, 4) / 2.0**31
    want = 1 / (1 + np.exp(-raw / 2.0**27))
    assert np.max(np.abs(got - want)) < 1e-6

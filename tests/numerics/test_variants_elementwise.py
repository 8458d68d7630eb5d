"""Sums, products, tables, means, pools of every kernel variant: bytes of the portable kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.numerics.test_runtime import conv_cases
from tests.numerics.variants import both

from npuforge.numerics import View

SHAPES = st.tuples(
    st.integers(1, 2), st.integers(1, 4), st.integers(1, 5), st.sampled_from((1, 3, 8, 16, 17, 40))
)
ZEROS = st.integers(-128, 127)
SHIFTS = st.integers(-12, 0)
MULTIPLIERS = st.one_of(st.just(0), st.just(1 << 30), st.integers(1 << 30, (1 << 31) - 1))


def view_of(shape: tuple[int, ...], full: tuple[int, ...]) -> View:
    """A dense tensor broadcast to `full`."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(0 if size == 1 else step)
        step *= size
    return View.strided(full, (strides[3], strides[2], strides[1], strides[0]), 1)


@st.composite
def operand_pairs(draw: st.DrawFn) -> tuple[list[tuple[np.ndarray, View]], View]:
    """Two int8 tensors, one perhaps broadcast along any axes, and an output, perhaps with gaps."""
    full = draw(SHAPES)
    kept = draw(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()))
    small = tuple(n if k else 1 for n, k in zip(full, kept, strict=True))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    extremes = draw(st.booleans())

    def values(shape: tuple[int, ...]) -> np.ndarray:
        if extremes:
            return rng.choice(np.array([-128, -127, 0, 127], np.int8), shape)
        return rng.integers(-128, 128, shape).astype(np.int8)

    h, w, c = full[1:]
    gap = draw(st.integers(0, 3))
    row = w * (c + gap)
    y = View.strided(full, (h * row, row, c + gap, 1), 1)
    if draw(st.booleans()) and h > 1:  # the lower rows only
        y = replace(y, y0=1, offset=0)
    inputs = [(values(full), view_of(full, full)), (values(small), view_of(small, full))]
    if draw(st.booleans()):
        inputs.reverse()
    return inputs, y


def clamp(draw_low: int, draw_high: int) -> dict[str, int | float]:
    low, high = sorted((draw_low, draw_high))
    return {"act_min": low, "act_max": high}


@given(
    operand_pairs(), st.tuples(ZEROS, ZEROS, ZEROS), st.tuples(SHIFTS, SHIFTS, st.integers(-30, 0)),
    st.tuples(MULTIPLIERS, MULTIPLIERS, MULTIPLIERS), st.sampled_from((1, -1)),
    st.integers(15, 20), ZEROS, ZEROS,
)  # fmt: skip
@settings(max_examples=150, derandomize=True, deadline=None)
def test_add(
    pair: tuple[list[tuple[np.ndarray, View]], View], zeros: tuple[int, int, int],
    shifts: tuple[int, int, int], multipliers: tuple[int, int, int], sign: int, left: int,
    low: int, high: int,
) -> None:  # fmt: skip
    inputs, y = pair
    params: dict[str, int | float] = {
        "a_offset": -zeros[0], "a_multiplier": multipliers[0], "a_shift": shifts[0],
        "b_offset": -zeros[1], "b_multiplier": multipliers[1], "b_shift": shifts[1],
        "b_sign": sign, "left_shift": left, "out_offset": zeros[2],
        "out_multiplier": multipliers[2], "out_shift": shifts[2], **clamp(low, high),
    }  # fmt: skip
    both("add_s8", inputs, [], y, params)
    both("add_s8", inputs, [], y, {**params, "out_shift": 1}, expect_variant=False)


@given(
    operand_pairs(), st.tuples(ZEROS, ZEROS, ZEROS), MULTIPLIERS, st.integers(-30, 0), ZEROS, ZEROS
)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_mul(
    pair: tuple[list[tuple[np.ndarray, View]], View], zeros: tuple[int, int, int],
    multiplier: int, shift: int, low: int, high: int,
) -> None:  # fmt: skip
    inputs, y = pair
    params: dict[str, int | float] = {
        "a_offset": -zeros[0], "b_offset": -zeros[1], "out_offset": zeros[2],
        "out_multiplier": multiplier, "out_shift": shift, **clamp(low, high),
    }  # fmt: skip
    both("mul_s8", inputs, [], y, params)


def test_all_pairs_of_bytes() -> None:
    """Every two stored bytes, with scales that make ties (powers of two) and others."""
    a, b = (g.astype(np.int8) for g in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    shape = (1, 256, 16, 16)
    y = View.dense(shape, 1)
    inputs = [(a.reshape(shape), y), (b.reshape(shape), y)]
    for shift in range(-10, 1):
        for multiplier in (1 << 30, (1 << 31) - 1, 1518500249):
            ends: dict[str, int | float] = {"out_offset": 3, "act_min": -128, "act_max": 127}
            both("mul_s8", inputs, [], y, {"a_offset": 128, "b_offset": -127, **ends,
                  "out_multiplier": multiplier, "out_shift": shift})  # fmt: skip
            both("add_s8", inputs, [], y, {"a_offset": 1, "a_multiplier": 1 << 30, "a_shift": 0,
                  "b_offset": -7, "b_multiplier": multiplier, "b_shift": shift, "b_sign": 1,
                  "left_shift": 20, **ends, "out_multiplier": multiplier,
                  "out_shift": shift - 15})  # fmt: skip


@given(
    st.integers(1, 3), st.integers(1, 70), st.integers(8, 70), ZEROS, ZEROS, MULTIPLIERS,
    st.integers(-31, 3), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=150, derandomize=True, deadline=None)
def test_mean(
    outer: int, reduced: int, inner: int, in_zero: int, out_zero: int, multiplier: int, shift: int,
    extremes: bool, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    shape = (outer, reduced, inner)
    x = rng.choice(np.array([-128, 127], np.int8), shape) if extremes else rng.integers(
        -128, 128, shape).astype(np.int8)  # fmt: skip
    params: dict[str, int | float] = {
        "outer": outer, "reduced": reduced, "inner": inner, "in_zero": in_zero,
        "out_zero": out_zero, "multiplier": multiplier, "shift": shift,
    }  # fmt: skip
    both("mean_s8", [(x, View.dense(x.shape, 1))], [], View.dense((outer * inner,), 1), params)


@given(conv_cases(), st.integers(1, 40), st.integers(0, 3), ZEROS, ZEROS)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_max_pool(case: dict[str, int], c: int, gap: int, low: int, high: int) -> None:
    rng = np.random.default_rng(case["seed"])
    h, w, kh, kw = case["h"], case["w"], case["kh"], case["kw"]
    rows = (h + case["top"] + case["bottom"] - (kh - 1) * case["dh"] - 1) // case["sh"] + 1
    columns = (w + case["left"] + case["right"] - (kw - 1) * case["dw"] - 1) // case["sw"] + 1
    params: dict[str, int | float] = {
        "kernel_h": kh, "kernel_w": kw, "stride_h": case["sh"], "stride_w": case["sw"],
        "dilation_h": case["dh"], "dilation_w": case["dw"], "pad_top": case["top"],
        "pad_left": case["left"], **clamp(low, high),
    }  # fmt: skip
    x = rng.integers(-128, 128, (2, h, w, c + gap)).astype(np.int8)
    x_view = View.strided((2, h, w, c), (h * w * (c + gap), w * (c + gap), c + gap, 1), 1)
    both("max_pool2d_s8", [(x, x_view)], [], View.dense((2, rows, columns, c), 1), params)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 1000])
def test_tables(count: int) -> None:
    """Every byte by a table of random bytes, in rows with gaps that stay as they were."""
    rng = np.random.default_rng(count)
    rows, gap = 3, 5
    x = rng.integers(0, 256, (rows, count + gap)).astype(np.uint8)
    x[:, : min(count, 256)] = np.arange(min(count, 256))
    table = rng.integers(0, 256, 256).astype(np.uint8)
    params: dict[str, int | float] = {
        "rows": rows, "count": count, "x_row": count + gap, "y_row": count + 1
    }  # fmt: skip
    both("lut_8", [(x, View.dense(x.shape, 1))], [table], View.dense((rows, count + 1), 1), params)

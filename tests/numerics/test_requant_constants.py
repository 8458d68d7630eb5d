"""Requantisation constants: those of a compiled program, and bounds that hold for any layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuforge.numerics.neural_art import ConvConstants, Form, conv_constants, sum_constants


@dataclass(frozen=True)
class Layer:
    """What a model file says of a layer, and what a compiled program has for it."""

    in_scale: float
    weight_scale: tuple[float, ...]
    out_scale: float
    sums: tuple[int, ...]
    bias: tuple[int, ...]
    shifts: tuple[int, int, int, int]
    gain: tuple[int, ...]
    offset: tuple[int, ...]


FIRST = Layer(
    0.007843137718737125,
    (0.005071457475423813, 0.0074461232870817184, 0.010908341966569424, 0.0009477958083152771,
     0.003318885574117303, 0.0030756955966353416, 0.0018565139034762979, 0.008207377977669239),
    0.0235294122248888,
    (409, 45, 28, 905, 973, 89, -540, 15),
    (28500, 302, 11811, 127221, 37771, 49854, 30398, 13081),
    (3, 14, 21760, 20),
    (10677, 15677, 22966, 1995, 6988, 6475, 3909, 17280),
    (-83698543, -133431741, -89185431, -92072126, -90402059, -80623004, -114492507, -96692437),
)  # fmt: skip
DEPTHWISE = Layer(
    0.0235294122248888,
    (0.003405327443033457, 0.013012002222239971, 0.0013732488732784986, 0.0094215152785182,
     0.0019189168233424425, 0.012864925898611546, 0.015355433337390423, 0.01496963482350111),
    0.0235294122248888,
    (169, 15, -565, 79, -373, 81, 68, -8),
    (-3584, -240, 12547, 451, 6451, 413, -806, 479),
    (3, 12, 21760, 20),
    (5377, 20546, 2168, 14877, 3030, 20314, 24247, 23638),
    (-147015278, -137492306, -116150603, -129762221, -121237477, -128646419, -147195407,
     -126698961),
)  # fmt: skip


def constants(layer: Layer, form: Form) -> ConvConstants:
    scale = np.array(layer.weight_scale, np.float32)
    return conv_constants(
        in_scale=np.float32(layer.in_scale),
        weight_scale=scale,
        out_scale=np.float32(layer.out_scale),
        out_zero=-128,
        weight_sums=np.array(layer.sums),
        bias=np.array(layer.bias),
        bias_scale=np.float32(layer.in_scale) * scale,
        form=form,
    )


@pytest.mark.parametrize("layer", [FIRST, DEPTHWISE], ids=["dense", "depthwise"])
def test_constants_of_a_compiled_network(layer: Layer) -> None:
    c = constants(layer, Form.TWO_STAGE)
    assert (c.outshift, c.gain_shift, c.global_gain, c.global_shift) == layer.shifts
    assert c.gain.tolist() == list(layer.gain)
    assert c.offset.tolist() == list(layer.offset)


@pytest.mark.parametrize("layer", [FIRST, DEPTHWISE], ids=["dense", "depthwise"])
def test_cutting_at_once_would_give_other_offsets(layer: Layer) -> None:
    """One channel of each lies just under a whole unit: that tells the rules apart."""
    scale = np.float32(layer.in_scale) * np.array(layer.weight_scale, np.float32)
    bias = (np.array(layer.bias, np.float32) * scale).astype(np.float64)
    cut = np.floor((bias / float(np.float32(layer.out_scale)) - 128) * 2.0**20)
    assert np.count_nonzero(cut != layer.offset) == 1
    assert np.max(np.abs(cut - layer.offset)) == 1


@given(
    seed=st.integers(0, 2**32 - 1),
    channels=st.integers(1, 40),
    zero=st.integers(-128, 127),
    form=st.sampled_from(list(Form)),
)
def test_constants_fit_their_fields(seed: int, channels: int, zero: int, form: Form) -> None:
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.uniform(-9, -3, channels)).astype(np.float32)
    in_scale, out_scale = np.exp(rng.uniform(-6, 0, 2)).astype(np.float32)
    sums = rng.integers(-20000, 20000, channels)
    bias = rng.integers(-30000, 30000, channels)
    product = (in_scale * scale).astype(np.float32)
    c = conv_constants(
        in_scale=in_scale, weight_scale=scale, out_scale=out_scale, out_zero=zero,
        weight_sums=sums, bias=bias, bias_scale=product, form=form,
    )  # fmt: skip
    assert 0 <= c.gain.min() <= 32767 < 2 * (c.gain.max() + 1) or c.gain_shift == 30
    assert c.global_gain <= 32767
    # one unit more than the sum of all weights needs bits 7 below
    assert int(np.abs(sums).max()) >> c.outshift < 128
    factor = c.gain * 2.0**-c.gain_shift * c.global_gain
    if form is Form.TWO_STAGE:
        factor = factor * 2.0**-c.global_shift
    exact = product.astype(np.float64) * 2.0**c.outshift / float(out_scale)
    assert np.all(np.abs(factor - exact) <= exact.max() * 2.0**-13)
    real = (bias * product.astype(np.float64)) / float(out_scale) + zero
    unit = 2.0**-c.global_shift
    assert np.all(np.abs(c.offset * unit - real) <= 1.01 * unit + np.abs(real - zero) * 2.0**-22)


def test_small_constant_of_an_addition_is_cut_not_rounded() -> None:
    """A compiled network has -1 here; the exact constant is -0.29."""
    c = sum_constants(
        *(float(np.float32(0.05783332)), -128, float(np.float32(0.023529412)), -128),
        *(float(np.float32(0.08136274)), -128),
    )
    assert (c.a, c.ax, c.b, c.by, c.shift) == (23292, 0, 18952, 1, 15)
    assert (c.c, c.cs) == (-1, 0)

"""Requantisation constants of Neural-ART, computed from the model alone.

The rules were derived by experiment from public compiler output. Against the programs of four
networks (`benchmarks/requant_constants.py`) OUTSHIFT, R1, A2 and R2 of all 329 layers, every offset
and all gains are equal, but for two dead channels whose gain the compiler stores as 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.numerics.fixedpoint import round_half_away
from npuforge.numerics.neural_art.choices import Form

COEFFICIENTS = 512
"""Entries of an arithmetic unit's coefficient memory; more channels are streamed."""
GAIN_MAX = 32767

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConvConstants:
    """Constants of one convolution.

    Attributes:
        outshift: bits dropped from the exact sum on its way to 16 bit.
        gain: A, one a channel, at most 32767.
        gain_shift: R1, or R in the merged form.
        global_gain: A2; 1 in the merged form, which has no second stage.
        global_shift: R2; equal to R in the merged form.
        offset: BC, 32 bit, one a channel, in units of 2^-R2 of an output step.
        form: stages.
    """

    outshift: int
    gain: Ints
    gain_shift: int
    global_gain: int
    global_shift: int
    offset: Ints
    form: Form


@dataclass(frozen=True)
class SumConstants:
    """Constants of an addition: ((a*x >> ax) + (b*y >> by) + (c << cs)) / 2^shift, rounded."""

    a: int
    ax: int
    b: int
    by: int
    c: int
    cs: int
    shift: int


@dataclass(frozen=True)
class ProductConstants:
    """Constants of a product of two operands.

    Attributes:
        zero: zero point of the second operand, taken off in the product's own 16-bit stage.
        rescale: of that stage's result and the second operand to the output.
    """

    zero: int
    rescale: SumConstants


@dataclass(frozen=True)
class ScaleConstants:
    """Constants of a change of scale: (gain * x + offset) / 2^shift, rounded."""

    gain: int
    offset: int
    shift: int


@dataclass(frozen=True)
class AverageConstants:
    """Constants of a global average and its requantisation.

    Attributes:
        multiplier: MULVAL, 16384..32767.
        outshift: OUTSHIFT; leaves the average times 256.
        gain: A, applied with AX = 8.
        offset: BC.
        shift: R.
    """

    multiplier: int
    outshift: int
    gain: int
    offset: int
    shift: int


def largest_shift(value: float, limit: int = GAIN_MAX) -> int:
    """Largest R with round(value * 2^R) <= limit, at most 30; value must be positive."""
    shift = 30
    while shift > -30 and math.floor(math.ldexp(value, shift) + 0.5) > limit:
        shift -= 1
    return shift


def conv_constants(
    *,
    in_scale: np.float32,
    weight_scale: npt.NDArray[np.float32],
    out_scale: np.float32,
    out_zero: int,
    weight_sums: Ints,
    bias: Ints,
    bias_scale: npt.NDArray[np.float32],
    form: Form,
) -> ConvConstants:
    """Constants of a convolution.

    Args:
        in_scale: of the input tensor.
        weight_scale: one, or one an output channel.
        out_scale: of the output tensor.
        out_zero: zero point of the output.
        weight_sums: sum of all stored weights of each output channel.
        bias: stored int32 bias of each output channel.
        bias_scale: one, or one a channel.
        form: requantisation stages of the compiler version.
    """
    channels = weight_sums.size
    # the product is rounded to single precision by the compiler
    scale = np.broadcast_to((in_scale * weight_scale).astype(np.float64), (channels,))
    # and so is the bias
    real_bias = (bias.astype(np.float32) * bias_scale.astype(np.float32)).astype(np.float64)
    out = float(out_scale)
    outshift = max(0, int(np.abs(weight_sums).max()).bit_length() - 7)
    if form is Form.MERGED and channels <= COEFFICIENTS:
        ratio = scale * 2.0**outshift / out
        shift = largest_shift(float(ratio.max()))
        offset = _offset(real_bias / out + out_zero, shift)
        return ConvConstants(outshift, _rounded(ratio, shift), shift, 1, shift, offset, form)
    top = math.ceil(math.log2(128 * out)) + 2
    largest = float(np.abs(real_bias).max())
    if largest > 0:
        top = max(top, math.ceil(math.log2(largest)))
    step = 2.0 ** (top - 15)
    ratio = scale * 2.0**outshift / step
    shift = largest_shift(float(ratio.max()))
    gain2 = step / out
    shift2 = largest_shift(gain2)
    a2 = math.floor(math.ldexp(gain2, shift2) + 0.5)
    if channels > COEFFICIENTS:
        offset = a2 * _rounded(real_bias / step, 0) + out_zero * 2**shift2
    else:
        offset = _offset(real_bias / out + out_zero, shift2)
    gain = _rounded(ratio, shift)
    return ConvConstants(outshift, gain, shift, a2, shift2, offset, Form.TWO_STAGE)


def _offset(values: Reals, shift: int) -> Ints:
    """BC in units of 2^-shift: first rounded to the finest grid on which 32 bits hold the largest
    channel, then cut to the unit. Equal in all 27 857 channels of four compiled networks.
    """
    scaled = values * 2.0**shift
    largest = float(np.abs(scaled).max())
    spare = max(0, 31 - math.ceil(math.log2(largest))) if largest > 0 else 0
    return np.floor(np.floor(scaled * 2.0**spare + 0.5) / 2.0**spare).astype(np.int64)


def _rounded(values: Reals, shift: int) -> Ints:
    return np.floor(values * 2.0**shift + 0.5).astype(np.int64)


def sum_constants(
    x_scale: float, x_zero: int, y_scale: float, y_zero: int, out_scale: float, out_zero: int
) -> SumConstants:
    """Constants of an addition; for a subtraction negate `y_scale`."""
    rx, ry = x_scale / out_scale, y_scale / out_scale
    return _affine(rx, ry, out_zero - rx * x_zero - ry * y_zero)


def _affine(rx: float, ry: float, offset: float) -> SumConstants:
    """Constants of rx * x + ry * y + offset.

    Each factor is normalised to 16384..32767 by its own shift.
    """
    shift = largest_shift(max(abs(rx), abs(ry)))
    ax, by = (max(0, largest_shift(abs(r)) - shift) if r else 0 for r in (rx, ry))
    a, b = (round_half_away(math.ldexp(r, shift + own)) for r, own in ((rx, ax), (ry, by)))
    exact = math.ldexp(offset, shift)
    cs = 0
    while abs(math.floor(math.ldexp(exact, -cs) + 0.5)) > GAIN_MAX:
        cs += 1
    c = math.floor(math.ldexp(exact, -cs) + 0.5)
    if cs == 0 and exact:
        # held with the most bits that fit 16, then cut to the unit
        spare = largest_shift(abs(exact))
        c = math.floor(math.ldexp(math.floor(math.ldexp(exact, spare) + 0.5), -spare))
    return SumConstants(a, ax, b, by, c, cs, shift)


def product_constants(
    x_scale: float, x_zero: int, y_scale: float, y_zero: int, out_scale: float, out_zero: int
) -> ProductConstants:
    """Constants of an elementwise product, as seen in squeeze-and-excite blocks."""
    ratio = x_scale * y_scale / out_scale
    offset = out_zero + ratio * x_zero * y_zero
    return ProductConstants(y_zero, _affine(ratio, -x_zero * ratio, offset))


def scale_constants(
    in_scale: float, in_zero: int, out_scale: float, out_zero: int
) -> ScaleConstants:
    """Constants of a change of scale and zero point; equal in all of a compiled concatenation."""
    ratio = in_scale / out_scale
    shift = largest_shift(ratio)
    gain = math.floor(math.ldexp(ratio, shift) + 0.5)
    offset = _offset(np.array([out_zero - ratio * in_zero]), shift)
    return ScaleConstants(gain, int(offset[0]), shift)


def average_constants(
    count: int, in_scale: float, in_zero: int, out_scale: float, out_zero: int
) -> AverageConstants:
    """Constants of a global average over `count` elements."""
    multiplier, total = average_multiplier(count)
    c = scale_constants(in_scale, in_zero, out_scale, out_zero)
    return AverageConstants(multiplier, total - 8, c.gain, c.offset, c.shift)


def average_multiplier(count: int) -> tuple[int, int]:
    """(MULVAL, shift) with MULVAL = round(2^shift / count) in 16384..32767."""
    shift = 14
    while round(2**shift / count) < 16384:
        shift += 1
    return round(2**shift / count), shift

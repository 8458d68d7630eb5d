"""Arithmetic of the Neural-ART's units on integer arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuforge.numerics.neural_art.choices import ConvChoice, Form, bounds, parts
from npuforge.numerics.neural_art.requant import (
    AverageConstants,
    ConvConstants,
    ProductConstants,
    ScaleConstants,
    SumConstants,
)

Ints = npt.NDArray[np.int64]
Pair = tuple[int, int]


def rounded_shift(values: Ints, shift: int) -> Ints:
    """values / 2^shift rounded half away from zero; a negative shift multiplies.

    >>> rounded_shift(np.array([3, -3, 5, -5, 6]), 1).tolist()
    [2, -2, 3, -3, 3]
    >>> rounded_shift(np.array([-427112 * 16384]), 18).tolist()
    [-26695]
    """
    if shift <= 0:
        return values << -shift
    return (values + (1 << (shift - 1)) - (values < 0)) >> shift


def saturated(values: Ints, bits: int) -> Ints:
    """Limited to a signed number of `bits` bits.

    >>> saturated(np.array([40000, -40000, 5]), 16).tolist()
    [32767, -32768, 5]
    """
    top = (1 << (bits - 1)) - 1
    return np.minimum(np.maximum(values, -top - 1), top)


def exact_sums(x: Ints, w: Ints, stride: Pair, dilation: Pair, out: Pair, depthwise: bool) -> Ints:
    """Exact convolution sums of an already padded map.

    Args:
        x: rows, columns, channels; zero point subtracted.
        w: outputs, kernel rows, kernel columns, channels; depthwise: kernel rows, columns,
            outputs.
        stride: rows, columns.
        dilation: rows, columns.
        out: rows and columns of the result.
        depthwise: whether each channel has kernels of its own.
    """
    taps = w.shape[:2] if depthwise else w.shape[1:3]
    views = []
    for i in range(taps[0]):
        for j in range(taps[1]):
            top, left = i * dilation[0], j * dilation[1]
            rows = slice(top, top + (out[0] - 1) * stride[0] + 1, stride[0])
            columns = slice(left, left + (out[1] - 1) * stride[1] + 1, stride[1])
            views.append(x[rows, columns])
    if depthwise:
        repeat = w.shape[2] // x.shape[2]
        total = np.zeros((*out, w.shape[2]), np.int64)
        for view, tap in zip(views, w.reshape(-1, w.shape[2]), strict=True):
            total += (np.repeat(view, repeat, axis=2) if repeat > 1 else view) * tap
        return total
    columns_matrix = np.concatenate(views, axis=2).reshape(out[0] * out[1], -1)
    depth = columns_matrix.shape[1]
    # products of 9 and 8 bits: below 2^24 single precision adds without error
    real = np.float32 if depth * 255 * 128 < 1 << 24 else np.float64
    product = columns_matrix.astype(real) @ w.reshape(w.shape[0], -1).T.astype(real)
    sums: Ints = product.astype(np.int64).reshape(*out, w.shape[0])
    return sums


def accumulated(
    x: Ints,
    w: Ints,
    stride: Pair,
    dilation: Pair,
    out: Pair,
    depthwise: bool,
    outshift: int,
    choice: ConvChoice,
) -> Ints:
    """The 16-bit sum after all parts of the kernel, all passes and all links of the chain."""
    result: Ints | None = None
    limits = (0, x.shape[2]) if depthwise else bounds(x.shape[2], choice)
    links = 1 if depthwise else choice.chain
    for row, height, column, width in parts(choice):
        rows, columns = slice(row, row + height), slice(column, column + width)
        part = w[rows, columns] if depthwise else w[:, rows, columns]
        source = x[row * dilation[0] :, column * dilation[1] :]
        held = np.zeros((*out, w.shape[2] if depthwise else w.shape[0]), np.int64)
        for link in range(len(limits) - 1):
            if link and link % links == 0:
                held <<= outshift
            channels = slice(limits[link], limits[link + 1])
            taps = part if depthwise else part[..., channels]
            held += exact_sums(source[..., channels], taps, stride, dilation, out, depthwise)
            if (link + 1) % links:
                held = saturated(held, 24)
            else:
                held = saturated(rounded_shift(held, outshift), 16)
        result = held if result is None else saturated(result + held, 16)
    assert result is not None
    return result


def requantised(y1: Ints, constants: ConvConstants) -> tuple[Ints, Ints]:
    """(16-bit intermediate, output before the 8-bit limit) of a convolution's 16-bit sum."""
    if constants.form is Form.MERGED:
        total = y1 * constants.gain + constants.offset
        return y1, rounded_shift(total, constants.gain_shift)
    unlimited = rounded_shift(y1 * constants.gain, constants.gain_shift)
    y2 = saturated(unlimited, 16)
    total = y2 * constants.global_gain + constants.offset
    return unlimited, rounded_shift(total, constants.global_shift)


def added(x: Ints, y: Ints, c: SumConstants) -> Ints:
    """Two operands of an arithmetic unit scaled and added, not yet limited."""
    return rounded_shift((c.a * x >> c.ax) + (c.b * y >> c.by) + (c.c << c.cs), c.shift)


def multiplied(x: Ints, y: Ints, c: ProductConstants) -> Ints:
    """Requantised product of two stored operands, not yet limited.

    The product of the stored values, less the second zero point times the first operand, is held
    in 16 bit; an addition takes off the rest of the zero points and rescales.

    >>> c = product_constants(1.0, -128, 1.0, -128, 256.0, -128)
    >>> multiplied(np.array([127, 0, -128]), np.array([127, 0, 5]), c).tolist()
    [126, -64, -128]
    """
    return added(saturated(x * y - c.zero * x, 16), y, c.rescale)


def rescaled(x: Ints, c: ScaleConstants) -> Ints:
    """One stored operand on another scale, not yet limited."""
    return rounded_shift(x * c.gain + c.offset, c.shift)


def averaged(sums: Ints, c: AverageConstants) -> Ints:
    """Requantised global average of sums of stored values, not yet limited."""
    mean = saturated(rounded_shift(sums * c.multiplier, c.outshift), 16)
    return rounded_shift((c.gain * mean >> 8) + c.offset, c.shift)

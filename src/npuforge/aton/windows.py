"""CPU operators that look at windows of a picture: convolution and pooling.

They follow their real-valued definition, rounded once (evidence grade B-).
"""

from __future__ import annotations

import numpy as np

from npuforge.aton.bench import Bench, Reals
from npuforge.aton.moves import refuse
from npuforge.aton.options import listed, option


def _padded(bench: Bench, x: Reals, fill: float) -> Reals:
    """One image with its padding: top, left, bottom, right."""
    top, left, bottom, right = listed(bench.work, "pads", 4, 0)
    if len(x) != 1 or min(top, left, bottom, right) < 0:
        raise refuse(bench.epoch, bench.work, "several images or negative padding")
    return np.pad(x[0], ((top, bottom), (left, right), (0, 0)), constant_values=fill)


def _windows(bench: Bench, x: Reals, high: int, wide: int) -> list[Reals]:
    """For every tap, row by row, the inputs it meets, shape (rows, columns, channels)."""
    down, across = listed(bench.work, "strides", 2, 1)
    apart, beside = listed(bench.work, "dilations", 2, 1)
    made = bench.operand("output").shape[1:3]
    if min(down, across, apart, beside) < 1:
        raise refuse(bench.epoch, bench.work, "a stride or dilation of 0")
    rows = (x.shape[0] - apart * (high - 1) - 1) // down + 1
    columns = (x.shape[1] - beside * (wide - 1) - 1) // across + 1
    if (rows, columns) != made:
        reason = f"windows of {high}x{wide} make {rows}x{columns}, not {made[0]}x{made[1]}"
        raise refuse(bench.epoch, bench.work, reason)
    taps = []
    for top in range(0, apart * high, apart):
        for left in range(0, beside * wide, beside):
            bottom, right = top + (rows - 1) * down + 1, left + (columns - 1) * across + 1
            taps.append(x[top:bottom:down, left:right:across])
    return taps


def convolve(bench: Bench) -> None:
    """Convolution: exact integer sums with one rounding to output steps, or float32."""
    integer = "is" in bench.work.operands
    x, weights = bench.read("input", real=not integer), bench.read("weights", real=not integer)
    if integer:
        x = x - bench.whole("izp")[0]
        zero = bench.whole("wzp")
        weights = weights - (zero.reshape(-1, 1, 1, 1) if zero.size == len(weights) else zero[0])
    groups = int(option(bench.work, "ngroup", 1))
    x = _padded(bench, x, 0.0)
    made, high, wide, deep = weights.shape
    if groups < 1 or x.shape[2] != deep * groups or made % groups:
        raise refuse(bench.epoch, bench.work, f"{x.shape} with kernels {weights.shape}")
    taps = _windows(bench, x, high, wide)
    each = made // groups
    kernels = weights.reshape(groups, each, high * wide, deep)
    total = np.zeros((*taps[0].shape[:2], groups, each))
    for n, part in enumerate(taps):
        spans = part.reshape(*part.shape[:2], groups, deep)
        total += np.einsum("yxgd,ged->yxge", spans, kernels[:, :, n], optimize=True)
    total = total.reshape(*taps[0].shape[:2], made)
    if "bias" in bench.work.operands:
        total = total + (bench.whole("bias", 4) if integer else bench.real("bias"))
    if integer:
        real = total * (bench.real("is")[0] * bench.real("ws"))
        bench.write("output", bench.quantised(real, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", total, real=True)


def pool(bench: Bench) -> None:
    """Maximum, or average over what lies inside the image; float32."""
    kind = str(bench.work.options.get("general.type", ""))
    high, wide = listed(bench.work, "k_shape", 2, 0)
    largest = kind == "LL_SW_MAXPOOL"
    if "is" in bench.work.operands or not high or not wide or not (largest or "AVG" in kind):
        raise refuse(bench.epoch, bench.work, kind)
    x = bench.read("input", real=True)
    parts = np.stack(_windows(bench, _padded(bench, x, -np.inf if largest else 0.0), high, wide))
    if largest:
        bench.write("output", parts.max(axis=0), real=True)
        return
    outside = float(option(bench.work, "count_include_pad", 0) > 0)
    shares = np.stack(_windows(bench, _padded(bench, np.ones_like(x), outside), high, wide))
    bench.write("output", parts.sum(axis=0) / shares.sum(axis=0), real=True)

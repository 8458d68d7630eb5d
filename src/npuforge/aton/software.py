"""CPU and hybrid epochs on a memory image.

Data movers are exact (see `npuforge.aton.movers`). The arithmetic of ST's closed CPU library
is not established: softmax, resize, (de)quantisation and small convolutions follow their
real-valued definition, rounded once, within one step of the reference (evidence grade B-).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuforge.aton.bench import Bench, Reals, refuse
from npuforge.aton.compiled import Work
from npuforge.aton.movers import MOVERS
from npuforge.aton.streams import Memory
from npuforge.graph import CoordinateMode
from npuforge.numerics.neural_art.pointwise import interpolated, resize_coordinates


def _dequantise(bench: Bench) -> None:
    steps = bench.read("input", real=False) - bench.whole("izp")[0]
    scale = np.float32(bench.real("is")[0])
    bench.write("output", steps.astype(np.float32) * scale, real=True)


def _quantise(bench: Bench) -> None:
    values = bench.read("input", real=True)
    bench.write("output", bench.quantised(values, "output", "os", "ozp"), real=False)


def _softmax(bench: Bench) -> None:
    integer = "is" in bench.work.operands
    axis = {1: 3, 2: 1, 3: 2}.get(int(float(bench.option("axis", 3))), 2)
    values = bench.read("input", real=not integer)
    if integer:
        values = (values - bench.whole("izp")[0]) * bench.real("is")[0]
    grown = np.exp(values - values.max(axis=axis, keepdims=True))
    shares = grown / grown.sum(axis=axis, keepdims=True)
    if integer:
        bench.write("output", bench.quantised(shares, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", shares, real=True)


_COORDINATES = {
    "HALF_PIXEL": CoordinateMode.HALF_PIXEL,
    "ALIGN_CORNERS": CoordinateMode.ALIGN_CORNERS,
    "ASYMMETRIC": CoordinateMode.ASYMMETRIC,
    "PYTORCH_HALF_PIXEL": CoordinateMode.PYTORCH_HALF_PIXEL,
}


def _along(bench: Bench, x: Reals, axis: int, made: int) -> Reals:
    """One axis resized."""
    size = x.shape[axis]
    named = str(bench.work.options.get("coord_transf_mode", "HALF_PIXEL"))
    if named not in _COORDINATES:
        raise refuse(bench.epoch, bench.work, f"coordinates {named}")
    place = resize_coordinates(_COORDINATES[named], size, made)
    mode = str(bench.work.options.get("mode", "RESIZE_LINEAR"))
    if mode.endswith("NEAREST"):
        kind = str(bench.work.options.get("nearest_mode", "FLOOR"))
        rules: dict[str, Callable[[Reals], Reals]] = {
            "FLOOR": np.floor,
            "CEIL": np.ceil,
            "ROUND_PREFER_FLOOR": lambda v: np.ceil(v - 0.5),
            "ROUND_PREFER_CEIL": lambda v: np.floor(v + 0.5),
        }
        if kind not in rules:
            raise refuse(bench.epoch, bench.work, f"nearest mode {kind}")
        nearest = np.clip(rules[kind](place), 0, size - 1).astype(np.int64)
        return np.take(x, nearest, axis=axis)
    if not mode.endswith("LINEAR"):
        raise refuse(bench.epoch, bench.work, f"mode {mode}")
    return interpolated(x, axis, place)


def _resize(bench: Bench) -> None:
    integer = "is" in bench.work.operands
    x = bench.read("input", real=not integer)
    if integer:
        x = (x - bench.whole("izp")[0]) * bench.real("is")[0]
    wanted = bench.operand("output").shape
    x = _along(bench, _along(bench, x, 1, wanted[1]), 2, wanted[2])
    if integer:
        bench.write("output", bench.quantised(x, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", x, real=True)


def _windows(
    bench: Bench, x: Reals, high: int, wide: int
) -> tuple[list[list[Reals]], tuple[int, int]]:
    """For every tap the inputs it meets, shape (rows, columns, channels); zeros around."""
    down, across = bench.numbers("strides", 2, 1)
    reach_down, reach_across = bench.numbers("dilations", 2, 1)
    rows = (x.shape[0] - reach_down * (high - 1) - 1) // down + 1
    columns = (x.shape[1] - reach_across * (wide - 1) - 1) // across + 1
    if rows < 1 or columns < 1:
        raise refuse(bench.epoch, bench.work, f"{high}x{wide} on {x.shape}")
    taps = []
    for i in range(high):
        line = []
        for j in range(wide):
            top, left = i * reach_down, j * reach_across
            bottom, right = top + (rows - 1) * down + 1, left + (columns - 1) * across + 1
            line.append(x[top:bottom:down, left:right:across])
        taps.append(line)
    return taps, (rows, columns)


def _padded(bench: Bench, x: Reals, fill: float) -> Reals:
    """One image with its padding: top, left, bottom, right."""
    if len(x) != 1:
        raise refuse(bench.epoch, bench.work, f"{len(x)} images")
    top, left, bottom, right = bench.numbers("pads", 4, 0)
    if min(top, left, bottom, right) < 0:
        raise refuse(bench.epoch, bench.work, "negative padding")
    return np.pad(x[0], ((top, bottom), (left, right), (0, 0)), constant_values=fill)


def _convolve(bench: Bench) -> None:
    """Convolution: exact integer sums with one rounding to output steps, or float32."""
    integer = "is" in bench.work.operands
    x = bench.read("input", real=not integer)
    weights = bench.read("weights", real=not integer)
    if integer:
        x = x - bench.whole("izp")[0]
        zero = bench.whole("wzp")
        weights = weights - (zero.reshape(-1, 1, 1, 1) if zero.size == len(weights) else zero[0])
    groups = int(bench.option("ngroup", 1))
    x = _padded(bench, x, 0.0)
    made, high, wide, deep = weights.shape
    if groups < 1 or x.shape[2] != deep * groups or made % groups:
        raise refuse(bench.epoch, bench.work, f"{x.shape} with kernels {weights.shape}")
    taps, (rows, columns) = _windows(bench, x, high, wide)
    total = np.zeros((rows, columns, made))
    each = made // groups
    for i, line in enumerate(taps):
        for j, part in enumerate(line):
            for g in range(groups):
                kernel = weights[g * each : (g + 1) * each, i, j]
                span = part[:, :, g * deep : (g + 1) * deep]
                total[:, :, g * each : (g + 1) * each] += span @ kernel.T
    if "bias" in bench.work.operands:
        total += bench.whole("bias", 4) if integer else bench.real("bias")
    if integer:
        real = total * (bench.real("is")[0] * bench.real("ws"))
        bench.write("output", bench.quantised(real, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", total, real=True)


def _pool(bench: Bench) -> None:
    """Maximum, or average over what is inside the image; float32."""
    kind = str(bench.work.options.get("general.type", ""))
    high, wide = bench.numbers("k_shape", 2, 0)
    x = bench.read("input", real=True)
    largest = kind == "LL_SW_MAXPOOL"
    if "is" in bench.work.operands or not high or not wide or not (largest or "AV" in kind):
        raise refuse(bench.epoch, bench.work, kind)
    taps, _ = _windows(bench, _padded(bench, x, -np.inf if largest else 0.0), high, wide)
    stacked = np.stack([part for line in taps for part in line])
    if largest:
        bench.write("output", stacked.max(axis=0), real=True)
        return
    ones = _padded(bench, np.ones_like(x), float(bench.option("count_include_pad", 0) > 0))
    shares, _ = _windows(bench, ones, high, wide)
    count = np.stack([part for line in shares for part in line]).sum(axis=0)
    bench.write("output", stacked.sum(axis=0) / count, real=True)


_PAIRS: dict[str, Callable[[Reals, Reals], Reals]] = {
    "LL_SW_ARITHADD": np.add,
    "LL_SW_ARITHSUB": np.subtract,
    "LL_SW_ARITHMUL": np.multiply,
    "LL_SW_ARITHDIV": np.divide,
    "LL_SW_ARITHMIN": np.minimum,
    "LL_SW_ARITHMAX": np.maximum,
}


def _pairwise(bench: Bench) -> None:
    """Arithmetic of two tensors with broadcasting, float32 or integer with one rounding."""
    kind = str(bench.work.options.get("general.type", ""))
    if kind not in _PAIRS:
        raise refuse(bench.epoch, bench.work, kind)
    integer = "is" in bench.work.operands
    first, second = bench.read("input", real=not integer), bench.read("operand", real=not integer)
    if integer:
        first = (first - bench.whole("izp")[0]) * bench.real("is")[0]
        second = (second - bench.whole("operand_zp")[0]) * bench.real("operand_s")[0]
    try:
        made = _PAIRS[kind](first, second)
    except ValueError as error:
        raise refuse(bench.epoch, bench.work, str(error)) from None
    if integer:
        bench.write("output", bench.quantised(made, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", made, real=True)


def _normalise(bench: Bench) -> None:
    """Batch normalisation with its own mean and variance, float32."""
    x = bench.read("input", real=True)
    scale, bias, mean, spread = (bench.real(name) for name in ("scale", "bias", "mean", "var"))
    if any(part.size != x.shape[3] for part in (scale, bias, mean, spread)):
        raise refuse(bench.epoch, bench.work, f"{scale.size} factors for {x.shape[3]} channels")
    epsilon = bench.option("epsilon", 1e-5)
    bench.write("output", (x - mean) / np.sqrt(spread + epsilon) * scale + bias, real=True)


def _slope(bench: Bench) -> None:
    """PReLU: a slope a channel for what is negative, float32."""
    x = bench.read("input", real=True)
    slope = bench.real("operand")
    if slope.size not in (1, x.shape[3], x.shape[3] + 1):
        raise refuse(bench.epoch, bench.work, f"{slope.size} slopes for {x.shape[3]} channels")
    slope = slope[: x.shape[3]] if slope.size > 1 else slope
    bench.write("output", np.where(x > 0, x, slope * x), real=True)


_CURVES: dict[str, Callable[[Reals, float, float], Reals]] = {
    "LL_SW_HARDSIGMOID": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LL_SW_HARDSWISH": lambda x, a, b: x * np.clip(x / 6 + 0.5, 0, 1),
    "LL_SW_SIGMOID": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "LL_SW_TANH": lambda x, a, b: np.tanh(x),
    "LL_SW_RELU": lambda x, a, b: np.maximum(x, 0),
    "LL_SW_LEAKYRELU": lambda x, a, b: np.where(x > 0, x, a * x),
    "LL_SW_EXP": lambda x, a, b: np.exp(x),
    "LL_SW_SQRT": lambda x, a, b: np.sqrt(x),
    "LL_SW_ABS": lambda x, a, b: np.abs(x),
    "LL_SW_RECIPROCAL": lambda x, a, b: 1 / x,
    "LL_SW_NEG": lambda x, a, b: -x,
    "LL_SW_LOG": lambda x, a, b: np.log(x),
    "LL_SW_SIN": lambda x, a, b: np.sin(x),
    "LL_SW_COS": lambda x, a, b: np.cos(x),
    "LL_SW_SIGN": lambda x, a, b: np.sign(x),
    "LL_SW_ROUND": lambda x, a, b: np.rint(x),
    "LL_SW_FLOOR": lambda x, a, b: np.floor(x),
    "LL_SW_CEIL": lambda x, a, b: np.ceil(x),
    "LL_SW_SWISH": lambda x, a, b: x / (1 + np.exp(-x)),
}


def _curve(bench: Bench) -> None:
    kind = str(bench.work.options.get("type", bench.work.options.get("general.type", "")))
    if kind not in _CURVES or "is" in bench.work.operands:
        raise refuse(bench.epoch, bench.work, kind)
    x = bench.read("input", real=True)
    made = _CURVES[kind](x, bench.option("alpha", 0.0), bench.option("beta", 0.0))
    bench.write("output", made, real=True)


_KERNELS: dict[str, Callable[[Bench], None]] = {
    "DequantizeLinear": _dequantise,
    "QuantizeLinear": _quantise,
    "Softmax": _softmax,
    "Resize": _resize,
    "Conv": _convolve,
    "PRelu": _slope,
    **MOVERS,
}
_BY_FUNCTION: dict[str, Callable[[Bench], None]] = {
    "ll_sw_forward_activ": _curve,
    "ll_sw_forward_pool": _pool,
    "ll_sw_forward_arith": _pairwise,
    "ll_sw_forward_eltwise_integer": _pairwise,
    "ll_sw_forward_bn": _normalise,
}
"""Operators whose name varies, by the library's function."""


def run_work(work: Work, memory: Memory, epoch: int, *, check: bool = True) -> None:
    """Compute one CPU or hybrid operator on the memory.

    Raises:
        ModelError: ATN-013 an operator that is not modelled, ATN-011 a read of bytes nothing wrote,
            ATN-008 an address outside memory.
    """
    function = str(work.options.get("function", ""))
    kernel = _KERNELS.get(work.kind) or _BY_FUNCTION.get(function)
    if kernel is None:
        raise refuse(epoch, work, "unknown operator")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kernel(Bench(memory, epoch, work, check))

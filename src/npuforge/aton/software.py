"""CPU and hybrid epochs on a memory image.

Data movers (concat, depth to space, transpose) are exact. The arithmetic of ST's closed CPU library
is not established: softmax, resize, (de)quantisation and small convolutions follow their
real-valued definition, rounded once, within one step of the reference (evidence grade B-).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from npuforge.aton.bench import Bench, Reals
from npuforge.aton.compiled import Work
from npuforge.aton.moves import MOVERS, moves_of, refuse
from npuforge.aton.options import option
from npuforge.aton.streams import Memory
from npuforge.aton.windows import convolve, pool
from npuforge.graph import CoordinateMode
from npuforge.numerics.neural_art.pointwise import Taps, interpolated, resize_coordinates, taps

Kernel = TypeVar("Kernel")


def _dequantise(bench: Bench) -> None:
    steps = bench.read("input", real=False) - bench.whole("izp")[0]
    scale = np.float32(bench.real("is")[0])
    bench.write("output", steps.astype(np.float32) * scale, real=True)


def _quantise(bench: Bench) -> None:
    values = bench.read("input", real=True)
    bench.write("output", bench.quantised(values, "output", "os", "ozp"), real=False)


def _softmax(bench: Bench) -> None:
    integer = "is" in bench.work.operands
    axis = softmax_axis(bench.work)
    values = bench.read("input", real=not integer)
    if integer:
        values = (values - bench.whole("izp")[0]) * bench.real("is")[0]
    grown = np.exp(values - values.max(axis=axis, keepdims=True))
    shares = grown / grown.sum(axis=axis, keepdims=True)
    if integer:
        bench.write("output", bench.quantised(shares, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", shares, real=True)


def softmax_axis(work: Work) -> int:
    """Axis of (batch, height, width, channels) a softmax sums over."""
    return {1: 3, 2: 1, 3: 2}.get(int(option(work, "axis", 3)), 2)


_COORDINATES = {
    "HALF_PIXEL": CoordinateMode.HALF_PIXEL,
    "ALIGN_CORNERS": CoordinateMode.ALIGN_CORNERS,
    "ASYMMETRIC": CoordinateMode.ASYMMETRIC,
    "PYTORCH_HALF_PIXEL": CoordinateMode.PYTORCH_HALF_PIXEL,
}
_NEAREST: dict[str, Callable[[Reals], Reals]] = {
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND_PREFER_FLOOR": lambda v: np.ceil(v - 0.5),
    "ROUND_PREFER_CEIL": lambda v: np.floor(v + 0.5),
}


def resize_taps(epoch: int, work: Work, size: int, made: int) -> Taps:
    """For each output position of one axis the two input positions and the second one's part.

    Args:
        epoch: for errors.
        work: the resize.
        size: input positions.
        made: output positions.

    Raises:
        ModelError: ATN-013 a mode that is not modelled.
    """
    named = str(work.options.get("coord_transf_mode", "HALF_PIXEL"))
    if named not in _COORDINATES:
        raise refuse(epoch, work, f"coordinates {named}")
    place = resize_coordinates(_COORDINATES[named], size, made)
    mode = str(work.options.get("mode", "RESIZE_LINEAR"))
    if mode.endswith("NEAREST"):
        kind = str(work.options.get("nearest_mode", "FLOOR"))
        if kind not in _NEAREST:
            raise refuse(epoch, work, f"nearest mode {kind}")
        place = _NEAREST[kind](place)
    elif not mode.endswith("LINEAR"):
        raise refuse(epoch, work, f"mode {mode}")
    return taps(size, place)


def _resize(bench: Bench) -> None:
    integer = "is" in bench.work.operands
    x = bench.read("input", real=not integer)
    if integer:
        x = (x - bench.whole("izp")[0]) * bench.real("is")[0]
    wanted = bench.operand("output").shape
    for axis in (1, 2):
        found = resize_taps(bench.epoch, bench.work, x.shape[axis], wanted[axis])
        x = interpolated(x, axis, found)
    if integer:
        bench.write("output", bench.quantised(x, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", x, real=True)


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


def curve_of(work: Work) -> str:
    """Name of the function an operator applies to each value."""
    return str(work.options.get("type", work.options.get("general.type", "")))


def _curve(bench: Bench) -> None:
    kind = curve_of(bench.work)
    if kind not in _CURVES or "is" in bench.work.operands:
        raise refuse(bench.epoch, bench.work, kind)
    x = bench.read("input", real=True)
    made = _CURVES[kind](x, option(bench.work, "alpha", 0.0), option(bench.work, "beta", 0.0))
    bench.write("output", made, real=True)


_PAIRS: dict[str, Callable[[Reals, Reals], Reals]] = {
    "LL_SW_ARITHADD": np.add,
    "LL_SW_ARITHSUB": np.subtract,
    "LL_SW_ARITHMUL": np.multiply,
    "LL_SW_ARITHDIV": np.divide,
    "LL_SW_ARITHMIN": np.minimum,
    "LL_SW_ARITHMAX": np.maximum,
}


def _pairwise(bench: Bench) -> None:
    """Two tensors, the smaller one repeated; float32, or integer with one rounding."""
    kind = curve_of(bench.work)
    if kind not in _PAIRS:
        raise refuse(bench.epoch, bench.work, kind)
    integer = "is" in bench.work.operands
    if integer:
        first = bench.dequantised("input", "is", "izp")
        second = bench.dequantised("operand", "operand_s", "operand_zp")
    else:
        first, second = bench.read("input", real=True), bench.read("operand", real=True)
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
    count = scale.size
    axes = [axis for axis in (3, 2, 1) if x.shape[axis] == count]
    if not axes or any(part.size != count for part in (bias, mean, spread)):
        raise refuse(bench.epoch, bench.work, f"{count} factors for {x.shape}")
    shape = [count if axis == axes[0] else 1 for axis in range(4)]
    scale, bias, mean, spread = (part.reshape(shape) for part in (scale, bias, mean, spread))
    epsilon = option(bench.work, "epsilon", 1e-5)
    bench.write("output", (x - mean) / np.sqrt(spread + epsilon) * scale + bias, real=True)


def _slope(bench: Bench) -> None:
    """PReLU: a slope a channel for what is negative, float32."""
    x, slope = bench.read("input", real=True), bench.real("operand")
    channels = x.shape[3]
    # compilers state one slope more than there are channels
    if slope.size not in (1, channels, channels + 1):
        raise refuse(bench.epoch, bench.work, f"{slope.size} slopes for {channels} channels")
    slope = slope[:channels] if slope.size > 1 else slope
    bench.write("output", np.where(x > 0, x, slope * x), real=True)


def _cast(bench: Bench) -> None:
    """Float32 to fixed point and back, as the runtime's own source does it.

    With bits behind the point the number is rounded, halves away from zero; with a step above one
    it is cut towards zero.
    """
    work = bench.work
    if len(work.inputs) != 1 or len(work.outputs) != 1 or work.inputs[0].scales:
        raise refuse(bench.epoch, work, "other than one buffer of plain numbers")
    source, target = work.inputs[0], work.outputs[0]
    kinds = []
    for end in (source, target):
        if end.real != (end.bits == 32) or end.bits not in (8, 16, 32) or end.scales:
            raise refuse(bench.epoch, work, f"{end.name}: {end.bits} bits")
        kinds.append(np.dtype("<f4" if end.real else f"<i{end.bits // 8}"))
    if source.size * target.bits != target.size * source.bits or source.real == target.real:
        raise refuse(bench.epoch, work, f"{source.size} bytes to {target.size}")
    bench.checked(source.address, source.size)
    data = np.frombuffer(bench.memory.peek(source.address, source.size), kinds[0])
    if target.real:
        made = data.astype(np.float32) / np.float32(2.0**source.fraction)
    else:
        scaled = data * np.float32(2.0**target.fraction)
        if target.fraction >= 0:
            scaled = scaled + np.where(data > 0, np.float32(0.5), np.float32(-0.5))
        limits = np.iinfo(kinds[1])
        made = np.clip(np.trunc(scaled), limits.min, limits.max)
    bench.memory.load(target.address, made.astype(kinds[1]).tobytes())


def _move(bench: Bench) -> None:
    for move in moves_of(bench.epoch, bench.work):
        bench.checked(move.source, move.source_reach)
        kind = np.dtype(f"<u{move.size}")
        ends = (
            bench.strided(move.source, move.source_reach, kind, move.dims, move.source_strides),
            bench.strided(move.target, move.target_reach, kind, move.dims, move.target_strides),
        )
        ends[1][...] = ends[0].copy()
        bench.memory.mark(move.target, move.target_reach)


def kernel_of(epoch: int, work: Work, kernels: Mapping[str, Kernel]) -> Kernel:
    """The entry for an operator by its kind, or by the library's function that carries it out.

    Raises:
        ModelError: ATN-013 an operator that is not modelled.
    """
    found = kernels.get(work.kind) or kernels.get(str(work.options.get("function", "")))
    if found is None:
        raise refuse(epoch, work, "unknown operator")
    return found


_KERNELS: dict[str, Callable[[Bench], None]] = {
    "DequantizeLinear": _dequantise,
    "QuantizeLinear": _quantise,
    "Softmax": _softmax,
    "Resize": _resize,
    "Conv": convolve,
    "HardSigmoid": _curve,
    "PRelu": _slope,
    "Cast": _cast,
    "ll_sw_forward_activ": _curve,
    "ll_sw_forward_pool": pool,
    "ll_sw_forward_arith": _pairwise,
    "ll_sw_forward_eltwise_integer": _pairwise,
    "ll_sw_forward_bn": _normalise,
    **dict.fromkeys(MOVERS, _move),
}


def run_work(work: Work, memory: Memory, epoch: int, *, check: bool = True) -> None:
    """Compute one CPU or hybrid operator on the memory.

    Raises:
        ModelError: ATN-013 an operator that is not modelled, ATN-011 a read of bytes nothing wrote,
            ATN-008 an address outside memory.
    """
    kernel = kernel_of(epoch, work, _KERNELS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kernel(Bench(memory, epoch, work, check))

"""CPU and hybrid epochs on a memory image.

Data movers (concat, depth to space, transpose) are exact. The arithmetic of ST's closed CPU library
is not established: softmax, resize, (de)quantisation and small convolutions follow their
real-valued definition, rounded once, within one step of the reference (evidence grade B-).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npuforge.aton.compiled import Operand, Work
from npuforge.aton.moves import MOVERS, extent_of, moves_of, operand_of, refuse
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError
from npuforge.graph import CoordinateMode
from npuforge.numerics.neural_art.pointwise import Taps, interpolated, resize_coordinates, taps

Reals = NDArray[np.float64]
Kernel = TypeVar("Kernel")


class _Bench:
    """Memory access of one operator."""

    def __init__(self, memory: Memory, epoch: int, work: Work, check: bool) -> None:
        self.memory, self.epoch, self.work, self.check = memory, epoch, work, check

    def operand(self, role: str) -> Operand:
        return operand_of(self.epoch, self.work, role)

    def span(self, item: Operand, size: int) -> int:
        return extent_of(self.epoch, self.work, item, size)

    def view(self, item: Operand, kind: np.dtype[np.generic]) -> NDArray[np.generic]:
        """Elements of an operand as they lie in memory, writable."""
        span = self.span(item, kind.itemsize)
        return self.strided(item.address, span, kind, item.shape, item.strides)

    def strided(
        self,
        address: int,
        span: int,
        kind: np.dtype[np.generic],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> NDArray[np.generic]:
        """Bytes of memory as a strided array, writable."""
        base, data = self.memory.region(self.epoch, self.work.node, address, address + span - 1)
        flat = data[address - base : address - base + span]
        return as_strided(flat[: kind.itemsize].view(kind), shape, strides)

    def kind_of(self, item: Operand, real: bool) -> np.dtype[np.generic]:
        if real:
            return np.dtype("<f4")
        return np.dtype(np.int8 if item.signed else np.uint8)

    def read(self, role: str, *, real: bool) -> Reals:
        """Values of an operand, shape (batch, height, width, channels)."""
        item = self.operand(role)
        kind = self.kind_of(item, real)
        self.checked(item.address, self.span(item, kind.itemsize))
        return np.array(self.view(item, kind), np.float64)

    def checked(self, address: int, size: int) -> None:
        missing = self.memory.first_unwritten(address, size) if self.check else None
        if missing is not None:
            raise ModelError("ATN-011", epoch=self.epoch, unit=self.work.node, address=hex(missing))

    def write(self, role: str, values: NDArray[np.generic], *, real: bool) -> None:
        item = self.operand(role)
        kind = self.kind_of(item, real)
        view = self.view(item, kind)
        if values.size != view.size:
            raise refuse(self.epoch, self.work, f"{values.size} values for {view.shape}")
        view[...] = values.reshape(view.shape).astype(kind)
        self.memory.mark(item.address, self.span(item, kind.itemsize))

    def real(self, role: str) -> Reals:
        """A vector of float32 parameters."""
        item = self.operand(role)
        data = self.memory.peek(item.address, 4 * max(1, item.count))
        return np.frombuffer(data, "<f4").astype(np.float64)

    def whole(self, role: str, size: int = 1) -> Reals:
        """A vector of integer parameters of so many bytes."""
        item = self.operand(role)
        kind = f"<i{size}" if item.signed or size > 1 else "<u1"
        data = self.memory.peek(item.address, size * max(1, item.count))
        return np.frombuffer(data, kind).astype(np.float64)

    def quantised(self, values: Reals, role: str, scale: str, zero: str) -> NDArray[np.float64]:
        """Real values to steps of the output, halves to even, limits of its type."""
        signed = self.operand(role).signed
        low, high = (-128, 127) if signed else (0, 255)
        steps = np.rint(values / self.real(scale)[0]) + self.whole(zero)[0]
        kept: Reals = np.clip(steps, low, high)
        return kept


def _dequantise(bench: _Bench) -> None:
    steps = bench.read("input", real=False) - bench.whole("izp")[0]
    scale = np.float32(bench.real("is")[0])
    bench.write("output", steps.astype(np.float32) * scale, real=True)


def _quantise(bench: _Bench) -> None:
    values = bench.read("input", real=True)
    bench.write("output", bench.quantised(values, "output", "os", "ozp"), real=False)


def _softmax(bench: _Bench) -> None:
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


def option(work: Work, name: str, default: float) -> float:
    """A number among the options of an operator."""
    value = work.options.get(name, default)
    return float(value) if isinstance(value, int | float) else default


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


def _resize(bench: _Bench) -> None:
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


def listed(work: Work, name: str, count: int, default: int) -> tuple[int, ...]:
    """A list among the options of an operator; all `default` where it has none of that length."""
    value = work.options.get(name)
    if isinstance(value, tuple) and len(value) == count:
        return value
    return (default,) * count


def _convolve(bench: _Bench) -> None:
    """Integer convolution: exact sums, one rounding to output steps."""
    if "is" not in bench.work.operands:
        raise refuse(bench.epoch, bench.work, "float convolution")
    x = bench.read("input", real=False) - bench.whole("izp")[0]
    weights = bench.read("weights", real=False)
    zero = bench.whole("wzp")
    weights = weights - (zero.reshape(-1, 1, 1, 1) if zero.size == len(weights) else zero[0])
    top, left, bottom, right = listed(bench.work, "pads", 4, 0)
    down, across = listed(bench.work, "strides", 2, 1)
    groups = int(option(bench.work, "ngroup", 1))
    if listed(bench.work, "dilations", 2, 1) != (1, 1) or len(x) != 1:
        raise refuse(bench.epoch, bench.work, "dilation or several images")
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))[0]
    made, high, wide, deep = weights.shape
    rows, columns = (x.shape[0] - high) // down + 1, (x.shape[1] - wide) // across + 1
    if x.shape[2] != deep * groups or made % groups or rows < 1 or columns < 1:
        raise refuse(bench.epoch, bench.work, f"{x.shape} with kernels {weights.shape}")
    total = np.zeros((rows, columns, made))
    each = made // groups
    for i in range(high):
        for j in range(wide):
            part = x[
                i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * across + 1 : across
            ]
            for g in range(groups):
                kernel = weights[g * each : (g + 1) * each, i, j]
                span = part[:, :, g * deep : (g + 1) * deep]
                total[:, :, g * each : (g + 1) * each] += span @ kernel.T
    if "bias" in bench.work.operands:
        total += bench.whole("bias", 4)
    real = total * (bench.real("is")[0] * bench.real("ws"))
    bench.write("output", bench.quantised(real, "output", "os", "ozp"), real=False)


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
}


def curve_of(work: Work) -> str:
    """Name of the function an operator applies to each value."""
    return str(work.options.get("type", work.options.get("general.type", "")))


def _curve(bench: _Bench) -> None:
    kind = curve_of(bench.work)
    if kind not in _CURVES or "is" in bench.work.operands:
        raise refuse(bench.epoch, bench.work, kind)
    x = bench.read("input", real=True)
    made = _CURVES[kind](x, option(bench.work, "alpha", 0.0), option(bench.work, "beta", 0.0))
    bench.write("output", made, real=True)


def _move(bench: _Bench) -> None:
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
    """The entry for an operator by its kind; functions of each value share one.

    Raises:
        ModelError: ATN-013 an operator that is not modelled.
    """
    curve = str(work.options.get("function", "")).endswith("_activ")
    found = kernels.get(work.kind, kernels["HardSigmoid"] if curve else None)
    if found is None:
        raise refuse(epoch, work, "unknown operator")
    return found


_KERNELS: dict[str, Callable[[_Bench], None]] = {
    "DequantizeLinear": _dequantise,
    "QuantizeLinear": _quantise,
    "Softmax": _softmax,
    "Resize": _resize,
    "Conv": _convolve,
    "HardSigmoid": _curve,
    **dict.fromkeys(MOVERS, _move),
}


def run_work(work: Work, memory: Memory, epoch: int, *, check: bool = True) -> None:
    """Compute one CPU or hybrid operator on the memory.

    Raises:
        ModelError: ATN-013 an operator that is not modelled, ATN-011 a read of bytes nothing wrote,
            ATN-008 an address outside memory.
    """
    bench = _Bench(memory, epoch, work, check)
    kernel_of(epoch, work, _KERNELS)(bench)

"""CPU and hybrid epochs on a memory image.

Data movers (concat, depth to space, transpose) are exact. The arithmetic of ST's closed CPU library
is not established: softmax, resize, (de)quantisation and small convolutions follow their
real-valued definition, rounded once, within one step of the reference (evidence grade B-).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npuforge.aton.compiled import Buffer, Operand, Work
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError
from npuforge.graph import CoordinateMode
from npuforge.numerics.neural_art.pointwise import interpolated, resize_coordinates

Reals = NDArray[np.float64]


def _refuse(epoch: int, work: Work, reason: str) -> ModelError:
    return ModelError("ATN-013", epoch=epoch, node=work.node, kind=work.kind, reason=reason)


class _Bench:
    """Memory access of one operator."""

    def __init__(self, memory: Memory, epoch: int, work: Work, check: bool) -> None:
        self.memory, self.epoch, self.work, self.check = memory, epoch, work, check

    def operand(self, role: str) -> Operand:
        found = self.work.operands.get(role)
        if found is None:
            raise _refuse(self.epoch, self.work, f"no operand {role}")
        return found

    def span(self, item: Operand, size: int) -> int:
        if min(item.shape) < 1 or min(item.strides) < 0:
            raise _refuse(self.epoch, self.work, f"shape {item.shape}, strides {item.strides}")
        reach = sum((n - 1) * step for n, step in zip(item.shape, item.strides, strict=True))
        return reach + size

    def view(self, item: Operand, kind: np.dtype[np.generic]) -> NDArray[np.generic]:
        """Elements of an operand as they lie in memory, writable."""
        size = kind.itemsize
        last = item.address + self.span(item, size) - 1
        base, data = self.memory.region(self.epoch, self.work.node, item.address, last)
        flat = data[item.address - base : last + 1 - base]
        return as_strided(np.frombuffer(flat, np.uint8)[:size].view(kind), item.shape, item.strides)

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
            raise _refuse(self.epoch, self.work, f"{values.size} values for {view.shape}")
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
    axis = {1: 3, 2: 1, 3: 2}.get(int(float(_option(bench, "axis", 3))), 2)
    values = bench.read("input", real=not integer)
    if integer:
        values = (values - bench.whole("izp")[0]) * bench.real("is")[0]
    grown = np.exp(values - values.max(axis=axis, keepdims=True))
    shares = grown / grown.sum(axis=axis, keepdims=True)
    if integer:
        bench.write("output", bench.quantised(shares, "output", "os", "ozp"), real=False)
    else:
        bench.write("output", shares, real=True)


def _option(bench: _Bench, name: str, default: float) -> float:
    value = bench.work.options.get(name, default)
    return float(value) if isinstance(value, int | float) else default


_COORDINATES = {
    "HALF_PIXEL": CoordinateMode.HALF_PIXEL,
    "ALIGN_CORNERS": CoordinateMode.ALIGN_CORNERS,
    "ASYMMETRIC": CoordinateMode.ASYMMETRIC,
    "PYTORCH_HALF_PIXEL": CoordinateMode.PYTORCH_HALF_PIXEL,
}


def _along(bench: _Bench, x: Reals, axis: int, made: int) -> Reals:
    """One axis resized."""
    size = x.shape[axis]
    named = str(bench.work.options.get("coord_transf_mode", "HALF_PIXEL"))
    if named not in _COORDINATES:
        raise _refuse(bench.epoch, bench.work, f"coordinates {named}")
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
            raise _refuse(bench.epoch, bench.work, f"nearest mode {kind}")
        nearest = np.clip(rules[kind](place), 0, size - 1).astype(np.int64)
        return np.take(x, nearest, axis=axis)
    if not mode.endswith("LINEAR"):
        raise _refuse(bench.epoch, bench.work, f"mode {mode}")
    return interpolated(x, axis, place)


def _resize(bench: _Bench) -> None:
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


def _listed(bench: _Bench, name: str, count: int, default: int) -> tuple[int, ...]:
    value = bench.work.options.get(name)
    if isinstance(value, tuple) and len(value) == count:
        return value
    return (default,) * count


def _convolve(bench: _Bench) -> None:
    """Integer convolution: exact sums, one rounding to output steps."""
    if "is" not in bench.work.operands:
        raise _refuse(bench.epoch, bench.work, "float convolution")
    x = bench.read("input", real=False) - bench.whole("izp")[0]
    weights = bench.read("weights", real=False)
    zero = bench.whole("wzp")
    weights = weights - (zero.reshape(-1, 1, 1, 1) if zero.size == len(weights) else zero[0])
    top, left, bottom, right = _listed(bench, "pads", 4, 0)
    down, across = _listed(bench, "strides", 2, 1)
    groups = int(_option(bench, "ngroup", 1))
    if _listed(bench, "dilations", 2, 1) != (1, 1) or len(x) != 1:
        raise _refuse(bench.epoch, bench.work, "dilation or several images")
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))[0]
    made, high, wide, deep = weights.shape
    rows, columns = (x.shape[0] - high) // down + 1, (x.shape[1] - wide) // across + 1
    if x.shape[2] != deep * groups or made % groups or rows < 1 or columns < 1:
        raise _refuse(bench.epoch, bench.work, f"{x.shape} with kernels {weights.shape}")
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


def _curve(bench: _Bench) -> None:
    kind = str(bench.work.options.get("type", bench.work.options.get("general.type", "")))
    if kind not in _CURVES or "is" in bench.work.operands:
        raise _refuse(bench.epoch, bench.work, kind)
    x = bench.read("input", real=True)
    made = _CURVES[kind](x, _option(bench, "alpha", 0.0), _option(bench, "beta", 0.0))
    bench.write("output", made, real=True)


def _transpose(bench: _Bench) -> None:
    order = bench.work.options.get("permutation", ())
    size = int(_option(bench, "bytes", 1))
    if not isinstance(order, tuple) or sorted(order) != [0, 1, 2, 3] or size not in (1, 2, 4):
        raise _refuse(bench.epoch, bench.work, f"permutation {order}, {size} bytes")
    kind = np.dtype(f"<u{size}")
    source, target = bench.operand("input"), bench.operand("output")
    bench.checked(source.address, bench.span(source, size))
    moved = np.array(bench.view(source, kind)).transpose(order)
    if moved.shape != target.shape:
        raise _refuse(bench.epoch, bench.work, f"{moved.shape} for {target.shape}")
    bench.view(target, kind)[...] = moved
    bench.memory.mark(target.address, bench.span(target, size))


def _array(bench: _Bench, buffer: Buffer) -> NDArray[np.generic]:
    """A buffer with channels last as (height, width, channels)."""
    size = buffer.bits // 8
    shape = buffer.memory_shape
    if size not in (1, 2, 4) or len(shape) != 4 or buffer.size != size * int(np.prod(shape)):
        raise _refuse(bench.epoch, bench.work, f"{buffer.name}: {shape} in {buffer.size} bytes")
    bench.checked(buffer.address, buffer.size)
    data = bench.memory.peek(buffer.address, buffer.size)
    return np.frombuffer(data, f"<u{size}").reshape(shape[1:])


def _store(bench: _Bench, buffer: Buffer, values: NDArray[np.generic]) -> None:
    data = np.ascontiguousarray(values).tobytes()
    if len(data) != buffer.size:
        raise _refuse(bench.epoch, bench.work, f"{len(data)} bytes for {buffer.name}")
    last = buffer.end - 1
    base, region = bench.memory.region(bench.epoch, bench.work.node, buffer.address, last)
    region[buffer.address - base : buffer.end - base] = np.frombuffer(data, np.uint8)
    bench.memory.mark(buffer.address, buffer.size)


def _block_of(bench: _Bench, small: Buffer, large: Buffer) -> int:
    """Edge of the blocks that go between depth and space."""
    if not small.memory_shape or not large.memory_shape or not small.memory_shape[1]:
        raise _refuse(bench.epoch, bench.work, "buffers without shapes")
    return max(1, large.memory_shape[1] // small.memory_shape[1])


def _depth_to_space(bench: _Bench) -> None:
    source, target = bench.work.inputs[0], bench.work.outputs[0]
    x = _array(bench, source)
    b = _block_of(bench, source, target)
    rows, columns, depth = x.shape
    if depth % (b * b):
        raise _refuse(bench.epoch, bench.work, f"{depth} channels, blocks of {b}")
    y = x.reshape(rows, columns, b, b, depth // (b * b)).transpose(0, 2, 1, 3, 4)
    _store(bench, target, y)


def _space_to_depth(bench: _Bench) -> None:
    source, target = bench.work.inputs[0], bench.work.outputs[0]
    x = _array(bench, source)
    b = _block_of(bench, target, source)
    rows, columns, depth = x.shape
    if rows % b or columns % b:
        raise _refuse(bench.epoch, bench.work, f"{rows}x{columns}, blocks of {b}")
    y = x.reshape(rows // b, b, columns // b, b, depth).transpose(0, 2, 1, 3, 4)
    _store(bench, target, y)


def _concat(bench: _Bench) -> None:
    numbers = bench.work.options.get("numbers", ())
    axis = numbers[1] if isinstance(numbers, tuple) and len(numbers) > 1 else 1
    place = {1: 2, 2: 0, 3: 1}.get(axis)
    if place is None:
        raise _refuse(bench.epoch, bench.work, f"axis {axis}")
    parts = [_array(bench, buffer) for buffer in bench.work.inputs]
    try:
        joined = np.concatenate(parts, axis=place)
    except ValueError as error:
        raise _refuse(bench.epoch, bench.work, str(error)) from None
    _store(bench, bench.work.outputs[0], joined)


_KERNELS: dict[str, Callable[[_Bench], None]] = {
    "DequantizeLinear": _dequantise,
    "QuantizeLinear": _quantise,
    "Softmax": _softmax,
    "Resize": _resize,
    "Conv": _convolve,
    "HardSigmoid": _curve,
    "Transpose": _transpose,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Concat": _concat,
}


def run_work(work: Work, memory: Memory, epoch: int, *, check: bool = True) -> None:
    """Compute one CPU or hybrid operator on the memory.

    Raises:
        ModelError: ATN-013 an operator that is not modelled, ATN-011 a read of bytes nothing wrote,
            ATN-008 an address outside memory.
    """
    bench = _Bench(memory, epoch, work, check)
    kernel = _KERNELS.get(work.kind)
    if kernel is None and str(work.options.get("function", "")).endswith("_activ"):
        kernel = _curve
    if kernel is None:
        raise _refuse(epoch, work, "unknown operator")
    if kernel in (_depth_to_space, _space_to_depth, _concat) and not (work.inputs and work.outputs):
        raise _refuse(epoch, work, "no buffers")
    kernel(bench)

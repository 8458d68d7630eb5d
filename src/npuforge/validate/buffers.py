"""Arrays and the bytes of a compiled program's buffers, each as the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.execute import ProgramRun
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError, UsageError
from npuforge.graph import NUMPY_TYPES, Array, Tensor


def _groups(buffer: Buffer) -> tuple[int, int, int, int] | None:
    """(groups, height, width, channels of a group) of a buffer in channel groups.

    The group is ``batch`` where that divides the channels: the shape in memory may state another.
    """
    shape = buffer.memory_shape
    if buffer.channel != "Mixed" or len(shape) != 5 or shape[0] != 1:
        return None
    channels = shape[1] * shape[4]
    batch = buffer.batch if buffer.batch and channels % buffer.batch == 0 else shape[4]
    return channels // batch, shape[2], shape[3], batch


def stored_bytes(buffer: Buffer, memory: Memory) -> bytes | None:
    """A buffer's own bytes, pixel after pixel; None when memory does not hold them."""
    view = _view(buffer, memory)
    return None if view is None else view.tobytes()


def store_bytes(buffer: Buffer, memory: Memory, data: bytes) -> None:
    """Put a buffer's own bytes in place."""
    view = _view(buffer, memory)
    if view is None:
        memory.load(buffer.address, data)  # raises
        return
    view[...] = np.frombuffer(data, np.uint8).reshape(view.shape)
    memory.mark(buffer.address, buffer.size)


def _view(buffer: Buffer, memory: Memory) -> NDArray[np.uint8] | None:
    """Pixels and their bytes, in memory itself."""
    pixels, own, step = 1, buffer.size, buffer.size
    if part := buffer.interleaved:
        pixels, size = part[0] * part[1], buffer.bits // 8
        own, step = part[2] * size, buffer.batch * size
    last = buffer.address + (pixels - 1) * step + own - 1
    if not buffer.size or not memory.holds(buffer.address, last):
        return None
    base, data = memory.region(0, buffer.name, buffer.address, last)
    flat = data[buffer.address - base : last + 1 - base]
    return as_strided(flat, (pixels, own), (step, 1))


def logical(buffer: Buffer, data: bytes) -> NDArray[np.generic] | None:
    """Values of a buffer as (height, width, channels) or as they lie; None when sizes differ."""
    kinds = {8: "u1" if buffer.unsigned else "i1", 16: "<i2", 32: "<f4" if buffer.real else "<i4"}
    if buffer.bits not in kinds:
        return None
    shape = buffer.memory_shape
    values = np.frombuffer(data, kinds[buffer.bits])
    if part := buffer.interleaved:
        return values.reshape(part)
    if not shape or int(np.prod(shape)) != values.size:
        return None
    if groups := _groups(buffer):
        return values.reshape(groups).transpose(1, 2, 0, 3).reshape(*groups[1:3], -1)
    return values.reshape(shape)


def physical(buffer: Buffer, values: NDArray[np.generic]) -> bytes:
    """Inverse of `logical`."""
    if buffer.interleaved:
        return np.ascontiguousarray(values).tobytes()
    if groups := _groups(buffer):
        count, rows, columns, batch = groups
        values = values.reshape(rows, columns, count, batch).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(values).tobytes()


def input_bytes(buffer: Buffer, values: NDArray[np.generic]) -> bytes:
    """An array as the bytes of an input buffer.

    Integer arrays are stored as they are (two's complement or unsigned, whichever the buffer has);
    real numbers are quantised with the buffer's scale and zero point. Channels-first arrays are
    turned when only that fits the shape in memory.

    Raises:
        ModelError: ATN-014 when size or type does not fit.
    """
    shape = tuple(n for n in buffer.memory_shape if n != 1)
    if values.ndim == 4 and tuple(n for n in values.shape if n != 1) != shape:
        turned = values.transpose(0, 2, 3, 1)
        if tuple(n for n in turned.shape if n != 1) == shape:
            values = turned
    if buffer.real:
        data = values.astype("<f4").tobytes()
    elif values.dtype.kind == "f":
        if not buffer.scales:
            raise ModelError("ATN-014", buffer=buffer.name, reason="no scale for real numbers")
        low, high = (0, 255) if buffer.unsigned else (-128, 127)
        zero = buffer.offsets[0] if buffer.offsets else 0
        steps = np.rint(values.astype(np.float64) / buffer.scales[0]) + zero
        data = np.clip(steps, low, high).astype(np.int16).astype(np.uint8).tobytes()
    else:
        data = values.astype(f"<i{max(1, buffer.bits // 8)}", casting="unsafe").tobytes()
    if len(data) != buffer.size:
        reason = f"{values.dtype} {values.shape} is {len(data)} bytes, the buffer has {buffer.size}"
        raise ModelError("ATN-014", buffer=buffer.name, reason=reason)
    return data


def model_input(buffer: Buffer, tensor: Tensor, data: bytes) -> Array:
    """The same input as the network takes it: steps turned from the buffer's zero point.

    Raises:
        ModelError: ATN-014 when buffer and network input do not belong together.
    """
    kinds = {8: "u1" if buffer.unsigned else "i1", 32: "<f4"}
    values = np.frombuffer(data, kinds.get(buffer.bits, "u1"))
    if values.size != tensor.size:
        reason = f"{values.size} values, the network's input {tensor.name} has {tensor.size}"
        raise ModelError("ATN-014", buffer=buffer.name, reason=reason)
    zero = buffer.offsets[0] if buffer.offsets else 0
    wanted = np.dtype(NUMPY_TYPES[tensor.dtype])
    if buffer.real:
        made = values.astype(np.float64)
    elif tensor.dtype.is_float:
        made = (values.astype(np.float64) - zero) * (buffer.scales[0] if buffer.scales else 1.0)
    else:
        held = tensor.quantization
        made = values.astype(np.float64) - zero + (int(held.zero_point[0]) if held else zero)
    if len(tensor.shape) == 4 and tensor.shape[1] < tensor.shape[3] and not buffer.real:
        n, c, h, w = tensor.shape
        if tuple(k for k in buffer.memory_shape if k != 1) == tuple(
            k for k in (n, h, w, c) if k != 1
        ):
            made = made.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(made.reshape(tensor.shape)).astype(wanted)


def buffer_arrays(network: Compiled, run: ProgramRun) -> dict[str, Array]:
    """Captured buffers and outputs of a run as arrays by name, in logical order where known."""
    held = {buffer.name: buffer for buffer in (*network.buffers, *network.outputs)}
    found: dict[str, Array] = {}
    for name, data in {**run.buffers, **run.outputs}.items():
        values = logical(held[name], data)
        found[name] = np.frombuffer(data, np.uint8) if values is None else np.array(values)
    return found


def program_inputs(network: Compiled, inputs: Sequence[Path], seed: int) -> dict[str, bytes]:
    """Bytes of every input buffer from .npy files, or random ones when none are given.

    Raises:
        UsageError: ATN-015 another number of files than inputs, ATN-009 a file that is no array.
        ModelError: ATN-014 an array that does not fit its buffer.
    """
    if not inputs:
        rng = np.random.default_rng(seed)
        return {b.name: _random_bytes(b, rng) for b in network.inputs}
    if len(inputs) != len(network.inputs):
        raise UsageError("ATN-015", given=len(inputs), wanted=len(network.inputs))
    made = {}
    for buffer, path in zip(network.inputs, inputs, strict=True):
        try:
            values = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError("ATN-009", path=path, reason=str(error)) from None
        made[buffer.name] = input_bytes(buffer, values)
    return made


def _random_bytes(buffer: Buffer, rng: np.random.Generator) -> bytes:
    if buffer.real:
        return rng.uniform(-1, 1, buffer.size // 4).astype("<f4").tobytes()
    return rng.integers(0, 256, buffer.size, np.uint8).tobytes()

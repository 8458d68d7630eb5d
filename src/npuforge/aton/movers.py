"""Hybrid epochs: data movers the CPU starts and the NPU's engines carry out. All are exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.bench import Bench, refuse
from npuforge.aton.compiled import Buffer

Values = NDArray[np.generic]


def _shape(bench: Bench, buffer: Buffer) -> tuple[int, int, int]:
    """Height, width and channels of a buffer of one image, in any order of memory."""
    held = buffer.memory_shape
    size = buffer.bits // 8
    if size not in (1, 2, 4) or not held or buffer.size != size * int(np.prod(held)):
        raise refuse(bench.epoch, bench.work, f"{buffer.name}: {held} in {buffer.size} bytes")
    if buffer.channel == "Mixed" and len(held) == 5 and held[0] == 1:
        return held[2], held[3], held[1] * held[4]
    if len(held) <= 2:
        return 1, 1, int(np.prod(held))
    held = (1,) * (4 - len(held)) + held if held[0] == 1 or len(held) == 4 else (1, *held)
    held = (1,) * (4 - len(held)) + held
    if len(held) != 4 or held[0] != 1:
        raise refuse(bench.epoch, bench.work, f"{buffer.name}: shape {buffer.memory_shape}")
    return (held[2], held[3], held[1]) if buffer.channel == "First" else (held[1:])


def _array(bench: Bench, buffer: Buffer) -> Values:
    """A buffer as (height, width, channels)."""
    height, width, channels = _shape(bench, buffer)
    bench.checked(buffer.address, buffer.size)
    flat = np.frombuffer(bench.memory.peek(buffer.address, buffer.size), f"<u{buffer.bits // 8}")
    if buffer.channel == "First":
        return flat.reshape(channels, height, width).transpose(1, 2, 0)
    if buffer.channel == "Mixed":
        each = buffer.memory_shape[4]
        mixed = flat.reshape(channels // each, height, width, each)
        return mixed.transpose(1, 2, 0, 3).reshape(height, width, channels)
    return flat.reshape(height, width, channels)


def _store(bench: Bench, buffer: Buffer, values: Values) -> None:
    """Write (height, width, channels) in a buffer's own order."""
    height, width, channels = _shape(bench, buffer)
    if values.shape != (height, width, channels):
        reason = f"{values.shape} for {buffer.name} of {(height, width, channels)}"
        raise refuse(bench.epoch, bench.work, reason)
    if buffer.channel == "First":
        values = values.transpose(2, 0, 1)
    elif buffer.channel == "Mixed":
        each = buffer.memory_shape[4]
        values = values.reshape(height, width, channels // each, each).transpose(2, 0, 1, 3)
    bench.put(buffer.address, np.ascontiguousarray(values).tobytes())


def _blocks(bench: Bench, small: Buffer, large: Buffer) -> tuple[int, int]:
    """Rows and columns of the blocks that go between depth and space."""
    rows, columns, _ = _shape(bench, small)
    high, wide, _ = _shape(bench, large)
    if high % rows or wide % columns:
        raise refuse(bench.epoch, bench.work, f"{rows}x{columns} in {high}x{wide}")
    return high // rows, wide // columns


def _depth_to_space(bench: Bench) -> None:
    source, target = bench.work.inputs[0], bench.work.outputs[0]
    x = _array(bench, source)
    down, across = _blocks(bench, source, target)
    rows, columns, depth = x.shape
    if depth % (down * across):
        raise refuse(bench.epoch, bench.work, f"{depth} channels, blocks of {down}x{across}")
    y = x.reshape(rows, columns, down, across, -1).transpose(0, 2, 1, 3, 4)
    _store(bench, target, y.reshape(rows * down, columns * across, -1))


def _space_to_depth(bench: Bench) -> None:
    source, target = bench.work.inputs[0], bench.work.outputs[0]
    x = _array(bench, source)
    down, across = _blocks(bench, target, source)
    rows, columns = x.shape[0] // down, x.shape[1] // across
    y = x.reshape(rows, down, columns, across, -1).transpose(0, 2, 1, 3, 4)
    _store(bench, target, y.reshape(rows, columns, -1))


def _concat(bench: Bench) -> None:
    numbers = bench.work.options.get("numbers", ())
    axis = numbers[1] if isinstance(numbers, tuple) and len(numbers) > 1 else 1
    place = {1: 2, 2: 0, 3: 1}.get(axis)
    if place is None:
        raise refuse(bench.epoch, bench.work, f"axis {axis}")
    parts = [_array(bench, buffer) for buffer in bench.work.inputs]
    try:
        joined = np.concatenate(parts, axis=place)
    except ValueError as error:
        raise refuse(bench.epoch, bench.work, str(error)) from None
    _store(bench, bench.work.outputs[0], joined)


def _split(bench: Bench) -> None:
    """Pieces along the one axis on which they are smaller than the whole."""
    source, targets = bench.work.inputs[0], bench.work.outputs
    whole, pieces = source.memory_shape, [t.memory_shape for t in targets]
    ranks = {len(whole), *(len(piece) for piece in pieces)}
    axes = [
        axis
        for axis in range(len(whole))
        if len(ranks) == 1 and any(piece[axis] != whole[axis] for piece in pieces)
    ]
    axis = axes[0] if axes else 0
    sizes = [piece[axis] for piece in pieces] if len(ranks) == 1 else []
    if len(axes) > 1 or sum(sizes) != whole[axis] or source.bits not in (8, 16, 32):
        raise refuse(bench.epoch, bench.work, f"{whole} in pieces of {pieces}")
    bench.checked(source.address, source.size)
    data = bench.memory.peek(source.address, source.size)
    if len(data) * 8 != source.bits * int(np.prod(whole)):
        raise refuse(bench.epoch, bench.work, f"{whole} in {source.size} bytes")
    values = np.frombuffer(data, f"<u{source.bits // 8}").reshape(whole)
    for target, part in zip(targets, np.split(values, np.cumsum(sizes)[:-1], axis), strict=True):
        bench.put(target.address, np.ascontiguousarray(part).tobytes())


def _slice(bench: Bench) -> None:
    """Rows of bytes cut out of longer rows: bytes in all, of a piece, rows, bytes of a long row."""
    numbers = bench.work.options.get("numbers", ())
    source, target = bench.work.inputs[0], bench.work.outputs[0]
    if not isinstance(numbers, tuple) or len(numbers) < 5 or numbers[4] % 8:
        raise refuse(bench.epoch, bench.work, f"operands {numbers}")
    total, piece, rows, pitch, bits = numbers[:5]
    size = bits // 8
    if total != piece * rows or piece > pitch or min(numbers[:5]) < 1:
        raise refuse(bench.epoch, bench.work, f"operands {numbers}")
    length = ((rows - 1) * pitch + piece) * size
    places = (np.arange(rows) * pitch * size)[:, None] + np.arange(piece * size)
    bench.checked(source.address, length)
    data = np.frombuffer(bench.memory.peek(source.address, length), np.uint8)
    bench.put(target.address, data[places].tobytes())


def _transpose(bench: Bench) -> None:
    order = bench.work.options.get("permutation", ())
    size = int(bench.option("bytes", 1))
    if not isinstance(order, tuple) or sorted(order) != [0, 1, 2, 3] or size not in (1, 2, 4):
        raise refuse(bench.epoch, bench.work, f"permutation {order}, {size} bytes")
    kind = np.dtype(f"<u{size}")
    source, target = bench.operand("input"), bench.operand("output")
    bench.checked(source.address, bench.span(source, size))
    moved = np.array(bench.view(source, kind)).transpose(order)
    if moved.shape != target.shape:
        raise refuse(bench.epoch, bench.work, f"{moved.shape} for {target.shape}")
    bench.view(target, kind)[...] = moved
    bench.memory.mark(target.address, bench.span(target, size))


def _moved(kernel: Callable[[Bench], None]) -> Callable[[Bench], None]:
    """A mover between listed buffers."""

    def run(bench: Bench) -> None:
        if not (bench.work.inputs and bench.work.outputs):
            raise refuse(bench.epoch, bench.work, "no buffers")
        kernel(bench)

    return run


MOVERS: dict[str, Callable[[Bench], None]] = {
    "DepthToSpace": _moved(_depth_to_space),
    "SpaceToDepth": _moved(_space_to_depth),
    "Concat": _moved(_concat),
    "Split": _moved(_split),
    "Slice": _moved(_slice),
    "Transpose": _transpose,
}
"""Operators by name."""

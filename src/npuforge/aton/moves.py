"""CPU and hybrid operators that only move bytes, as strided copies.

One description serves the simulator and the C code of the CPU side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuforge.aton.compiled import Buffer, Operand, Work
from npuforge.errors import ModelError


def refuse(epoch: int, work: Work, reason: str) -> ModelError:
    """The error for an operator that is not modelled, or not with these options."""
    return ModelError("ATN-013", epoch=epoch, node=work.node, kind=work.kind, reason=reason)


def operand_of(epoch: int, work: Work, role: str) -> Operand:
    """A tensor of an operator by role. Raises ATN-013 when it has none."""
    found = work.operands.get(role)
    if found is None:
        raise refuse(epoch, work, f"no operand {role}")
    return found


def extent_of(epoch: int, work: Work, item: Operand, size: int) -> int:
    """Bytes from the first to behind the last element of a tensor with elements of `size` bytes.

    Raises:
        ModelError: ATN-013 a shape or strides no tensor can have.
    """
    if min(item.shape) < 1 or min(item.strides) < 0:
        raise refuse(epoch, work, f"shape {item.shape}, strides {item.strides}")
    return size + sum((n - 1) * step for n, step in zip(item.shape, item.strides, strict=True))


def tensor_of(epoch: int, work: Work, role: str) -> Operand:
    """A tensor of an operator by role, its shape and strides checked. Raises ATN-013."""
    found = operand_of(epoch, work, role)
    extent_of(epoch, work, found, 1)
    return found


@dataclass(frozen=True)
class Move:
    """A copy of elements between two strided arrays of five axes.

    Attributes:
        source: address of the first element read.
        target: address of the first element written.
        size: bytes of an element: 1, 2 or 4.
        dims: elements along each axis.
        source_strides: bytes between neighbours along each axis.
        target_strides: the same of the target.
    """

    source: int
    target: int
    size: int
    dims: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]

    def _reach(self, strides: tuple[int, ...]) -> int:
        return self.size + sum((n - 1) * s for n, s in zip(self.dims, strides, strict=True))

    @property
    def source_reach(self) -> int:
        """Bytes from the first byte read to the one behind the last."""
        return self._reach(self.source_strides)

    @property
    def target_reach(self) -> int:
        """Bytes from the first byte written to the one behind the last."""
        return self._reach(self.target_strides)


@dataclass(frozen=True)
class _Picture:
    """A buffer of one image: channels lie in groups of `batch`, one group's picture after another.

    Attributes:
        buffer: it is.
        rows, columns, channels: its shape.
        batch: channels stored together in a pixel.
        size: bytes of an element.
    """

    buffer: Buffer
    rows: int
    columns: int
    channels: int
    batch: int
    size: int

    @property
    def pixel(self) -> int:
        """Bytes between neighbours in a row."""
        return self.batch * self.size

    @property
    def line(self) -> int:
        """Bytes between neighbours in a column."""
        return self.columns * self.pixel

    def place(self, channel: int) -> int:
        """Address of a channel of the first pixel."""
        group, lane = divmod(channel, self.batch)
        return self.buffer.address + group * self.rows * self.line + lane * self.size

    def run(self, channel: int) -> int:
        """Channels from this one on that lie at equal distances."""
        if self.batch in (1, self.channels):
            return self.channels - channel
        return self.batch - channel % self.batch

    def step(self) -> int:
        """Bytes between neighbouring channels of a run."""
        return self.rows * self.line if self.batch == 1 else self.size


def _picture(epoch: int, work: Work, buffer: Buffer, batch: int = 0) -> _Picture:
    """A mover's buffer; with `batch` in that order of channels, whatever the buffer says."""
    size, shape = buffer.bits // 8, buffer.shape or buffer.memory_shape
    known = size in (1, 2, 4) and len(shape) == 4 and shape[0] == 1 and min(shape) > 0
    if not known or buffer.size != size * int(np.prod(shape)):
        raise refuse(epoch, work, f"{buffer.name}: {shape} in {buffer.size} bytes")
    _, rows, columns, channels = shape
    held = min(batch or buffer.batch, channels)
    if held < 1 or channels % held:
        raise refuse(epoch, work, f"{buffer.name}: {channels} channels in groups of {held}")
    return _Picture(buffer, rows, columns, channels, held, size)


def _packed(dims: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Byte strides of a dense array."""
    strides = [size]
    for n in dims[:0:-1]:
        strides.insert(0, strides[0] * n)
    return tuple(strides)


def _ends(epoch: int, work: Work) -> tuple[Buffer, Buffer]:
    if not (work.inputs and work.outputs):
        raise refuse(epoch, work, "no buffers")
    return work.inputs[0], work.outputs[0]


def _blocks(epoch: int, work: Work) -> tuple[Move, ...]:
    """Depth to space and back: (rows, row in block, columns, column in block, channels).

    The runtime takes both ends as channels last, whatever their descriptors say.
    """
    source, target = _ends(epoch, work)
    deep = work.kind == "DepthToSpace"
    small, large = (
        _picture(epoch, work, end, batch=1 << 30)
        for end in ((source, target) if deep else (target, source))
    )
    down, across = max(1, large.rows // small.rows), max(1, large.columns // small.columns)
    fits = (small.rows * down, small.columns * across) == (large.rows, large.columns)
    if not fits or small.size != large.size or large.channels * down * across != small.channels:
        reason = f"{source.memory_shape} for {target.memory_shape}"
        raise refuse(epoch, work, reason)
    dims = (small.rows, down, small.columns, across, large.channels)
    in_space = _packed(dims, small.size)
    by_pixel = _packed((small.rows, small.columns, *dims[1::2], large.channels), small.size)
    in_depth = (by_pixel[0], by_pixel[2], by_pixel[1], by_pixel[3], by_pixel[4])
    ways = (in_depth, in_space) if deep else (in_space, in_depth)
    return (Move(source.address, target.address, small.size, dims, *ways),)


def _concat(epoch: int, work: Work) -> tuple[Move, ...]:
    """Pictures joined along one axis, each kept or put in the order of the whole."""
    whole = _picture(epoch, work, _ends(epoch, work)[1])
    numbers = work.options.get("numbers", ())
    axis = numbers[1] if isinstance(numbers, tuple) and len(numbers) > 1 else 1
    place = {1: 2, 2: 0, 3: 1}.get(axis)
    if place is None:
        raise refuse(epoch, work, f"axis {axis}")
    moves: list[Move] = []
    at = [0, 0, 0]
    for buffer in work.inputs:
        part = _picture(epoch, work, buffer)
        sizes = (part.rows, part.columns, part.channels)
        rest = [whole.rows - at[0], whole.columns - at[1], whole.channels - at[2]]
        fits = all(
            n <= r if i == place else n == r
            for i, (n, r) in enumerate(zip(sizes, rest, strict=True))
        )
        if part.size != whole.size or not fits:
            raise refuse(epoch, work, f"{buffer.name}: {sizes} for {tuple(rest)}")
        moves += _placed(part, whole, (at[0], at[1], at[2]))
        at[place] += sizes[place]
    if at[place] != (whole.rows, whole.columns, whole.channels)[place]:
        raise refuse(epoch, work, f"{at[place]} along axis {axis}")
    return tuple(moves)


def _placed(part: _Picture, whole: _Picture, at: tuple[int, int, int]) -> list[Move]:
    """A picture copied into a larger one, at a row, column and channel."""
    moves, channel = [], 0
    while channel < part.channels:
        count = min(part.channels - channel, part.run(channel), whole.run(at[2] + channel))
        target = whole.place(at[2] + channel) + at[0] * whole.line + at[1] * whole.pixel
        moves.append(
            Move(
                part.place(channel),
                target,
                part.size,
                (1, 1, part.rows, part.columns, count),
                (0, 0, part.line, part.pixel, part.step()),
                (0, 0, whole.line, whole.pixel, whole.step()),
            )
        )
        channel += count
    return moves


def _split(epoch: int, work: Work) -> tuple[Move, ...]:
    """Pieces along the one axis on which they are smaller than the whole, in row-major order."""
    source, _ = _ends(epoch, work)
    whole, size = source.shape or source.memory_shape, source.bits // 8
    pieces = [piece.shape or piece.memory_shape for piece in work.outputs]
    same = all(len(p) == len(whole) for p in pieces) and size in (1, 2, 4)
    axes = {i for p in pieces for i, n in enumerate(p) if same and n != whole[i]}
    axis = min(axes, default=0)
    dense = source.size == size * int(np.prod(whole)) and min(whole, default=0) > 0
    if not same or not dense or len(axes) > 1 or sum(p[axis] for p in pieces) != whole[axis]:
        raise refuse(epoch, work, f"{whole} in pieces of {pieces}")
    outer, inner = int(np.prod(whole[:axis])), size * int(np.prod(whole[axis + 1 :]))
    moves, at = [], source.address
    for piece, shape in zip(work.outputs, pieces, strict=True):
        row = shape[axis] * inner
        if piece.size != outer * row:
            raise refuse(epoch, work, f"{piece.name}: {shape} in {piece.size} bytes")
        dims = (1, 1, 1, outer, row // size)
        strides = (whole[axis] * inner, row)
        moves.append(Move(at, piece.address, size, dims, *((0, 0, 0, s, size) for s in strides)))
        at += row
    return tuple(moves)


def _slice(epoch: int, work: Work) -> tuple[Move, ...]:
    """Rows cut out of longer rows: bytes in all, of a piece, rows, bytes of a long row, bits."""
    numbers = work.options.get("numbers", ())
    source, target = _ends(epoch, work)
    if not isinstance(numbers, tuple) or len(numbers) < 5 or min(numbers[:5]) < 1:
        raise refuse(epoch, work, f"operands {numbers}")
    total, piece, rows, pitch, bits = numbers[:5]
    size = bits // 8
    fits = size in (1, 2, 4) and piece % size == 0 and pitch % size == 0 and piece <= pitch
    if not fits or total != piece * rows or total > target.size:
        raise refuse(epoch, work, f"operands {numbers}")
    dims = (1, 1, 1, rows, piece // size)
    ways = (0, 0, 0, pitch, size), (0, 0, 0, piece, size)
    return (Move(source.address, target.address, size, dims, *ways),)


def _transpose(epoch: int, work: Work) -> tuple[Move, ...]:
    order = work.options.get("permutation", ())
    given = work.options.get("bytes", 1)
    size = int(given) if isinstance(given, int | float) else 0
    if not isinstance(order, tuple) or sorted(order) != [0, 1, 2, 3] or size not in (1, 2, 4):
        raise refuse(epoch, work, f"permutation {order}, {size} bytes")
    source, target = tensor_of(epoch, work, "input"), tensor_of(epoch, work, "output")
    shape = tuple(source.shape[i] for i in order)
    if shape != target.shape:
        raise refuse(epoch, work, f"{shape} for {target.shape}")
    strides = tuple(source.strides[i] for i in order)
    ways = ((0, *strides), (0, *target.strides))
    return (Move(source.address, target.address, size, (1, *shape), *ways),)


MOVERS: dict[str, Callable[[int, Work], tuple[Move, ...]]] = {
    "Transpose": _transpose,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
}
"""Operators that only move bytes."""


def moves_of(epoch: int, work: Work) -> tuple[Move, ...]:
    """The copies of an operator of `MOVERS`.

    Raises:
        ModelError: ATN-013 shapes that do not fit together, or options that are not modelled.
    """
    return MOVERS[work.kind](epoch, work)

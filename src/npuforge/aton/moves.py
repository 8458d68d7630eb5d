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


def _picture(epoch: int, work: Work, buffer: Buffer) -> tuple[int, int, int, int]:
    """Height, width, channels and element bytes of a buffer with channels last."""
    size, shape = buffer.bits // 8, buffer.memory_shape
    known = size in (1, 2, 4) and len(shape) == 4 and shape[0] == 1 and min(shape) > 0
    if not known or buffer.size != size * int(np.prod(shape)):
        raise refuse(epoch, work, f"{buffer.name}: {shape} in {buffer.size} bytes")
    return shape[1], shape[2], shape[3], size


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
    """Depth to space and back: (rows, row in block, columns, column in block, channels)."""
    source, target = _ends(epoch, work)
    deep = work.kind == "DepthToSpace"
    small, large = (source, target) if deep else (target, source)
    rows, columns, depth, size = _picture(epoch, work, small)
    high, wide, channels, same = _picture(epoch, work, large)
    edge = max(1, high // rows)
    if (rows * edge, columns * edge, size) != (high, wide, same) or channels * edge**2 != depth:
        reason = f"{source.memory_shape} for {target.memory_shape}"
        raise refuse(epoch, work, reason)
    dims = (rows, edge, columns, edge, channels)
    in_space = _packed(dims, size)
    by_pixel = _packed((rows, columns, edge, edge, channels), size)
    in_depth = (by_pixel[0], by_pixel[2], by_pixel[1], by_pixel[3], by_pixel[4])
    ways = (in_depth, in_space) if deep else (in_space, in_depth)
    return (Move(source.address, target.address, size, dims, *ways),)


def _concat(epoch: int, work: Work) -> tuple[Move, ...]:
    _, target = _ends(epoch, work)
    numbers = work.options.get("numbers", ())
    axis = numbers[1] if isinstance(numbers, tuple) and len(numbers) > 1 else 1
    place = {1: 2, 2: 0, 3: 1}.get(axis)
    if place is None:
        raise refuse(epoch, work, f"axis {axis}")
    *whole, size = _picture(epoch, work, target)
    strides = _packed(tuple(whole), size)
    moves, at = [], 0
    for buffer in work.inputs:
        *part, same = _picture(epoch, work, buffer)
        if same != size or any(part[i] != whole[i] for i in range(3) if i != place):
            raise refuse(epoch, work, f"{buffer.name}: {tuple(part)} for {tuple(whole)}")
        start = target.address + at * strides[place]
        own = _packed(tuple(part), size)
        dims, ways = (1, 1, *part), ((0, 0, *own), (0, 0, *strides))
        moves.append(Move(buffer.address, start, size, dims, *ways))
        at += part[place]
    if at != whole[place]:
        raise refuse(epoch, work, f"{at} of {whole[place]} along the axis")
    return tuple(moves)


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
}
"""Operators that only move bytes."""


def moves_of(epoch: int, work: Work) -> tuple[Move, ...]:
    """The copies of an operator of `MOVERS`.

    Raises:
        ModelError: ATN-013 shapes that do not fit together, or options that are not modelled.
    """
    return MOVERS[work.kind](epoch, work)

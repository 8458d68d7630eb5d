"""Tensors of a network that a buffer of its compiled program can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.compiled import Buffer
from npuforge.graph import Array, Graph, Tensor

_AXES = 4
_NEAR = 1e-5
"""Largest relative difference of two scales that are the same number written differently."""


@dataclass(frozen=True, eq=False)
class Counterpart:
    """A tensor in the order of a buffer.

    Attributes:
        name: of the tensor.
        zero: its zero point.
        values: its values less the zero point, in the order and shape of the buffer.
        order: of its axes in the buffer; None as they are.
        limits: of what the buffer holds of it, in steps above the zero point; None for all of it.
    """

    name: str
    zero: float
    values: NDArray[np.float64]
    order: tuple[int, ...] | None
    limits: tuple[float, float] | None = None

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """What the buffer must hold, less the zero point."""
        return self._limited(self.values)

    def _limited(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values if self.limits is None else np.clip(values, *self.limits)

    def placed(self, values: Array) -> NDArray[np.float64]:
        """Other values of the tensor, less its zero point, in the order of the buffer."""
        view = values if self.order is None else values.transpose(self.order)
        return self._limited(view.reshape(self.values.shape).astype(np.float64) - self.zero)

    def tensor_order(self, steps: NDArray[np.float64], shape: tuple[int, ...]) -> Array:
        """Steps in the order of the buffer as stored values of the tensor of a shape."""
        stored = steps + self.zero
        if self.order is None:
            return stored.reshape(shape)
        view = stored.reshape([shape[axis] for axis in self.order])
        return view.transpose(np.argsort(self.order))


class References:
    """Reference tensors, found by size, shape, scale and zero point."""

    def __init__(self, graph: Graph, tensors: Mapping[str, Array]) -> None:
        self.by_size: dict[int, list[tuple[Tensor, Array]]] = {}
        for name, values in tensors.items():
            self.by_size.setdefault(values.size, []).append((graph.tensor(name), values))

    def candidates(self, buffer: Buffer, shape: tuple[int, ...]) -> list[Counterpart]:
        """All tensors that fit a buffer, once for each order of their axes that fits and differs.

        Args:
            buffer: as the compiler describes it.
            shape: of its values in logical order.
        """
        found = []
        for tensor, values in self.by_size.get(int(np.prod(shape)), ()):
            if not _alike(buffer, tensor) or _sides(tensor.shape) != _sides(shape):
                continue
            zero = 0.0
            if not buffer.real and tensor.quantization is not None:
                zero = float(tensor.quantization.zero_point[0])
            found += [
                Counterpart(tensor.name, zero, view.astype(np.float64) - zero, order)
                for view, order in _orders(values, shape)
            ]
        return found


def _sides(shape: tuple[int, ...]) -> list[int]:
    return sorted(n for n in shape if n != 1)


def _alike(buffer: Buffer, tensor: Tensor) -> bool:
    if buffer.real:
        return tensor.dtype.is_float
    held = tensor.quantization
    if held is None or held.scale.size != 1 or len(buffer.scales) != 1 or buffer.bits != 8:
        return False
    scale = float(held.scale[0])
    zero, offset = int(held.zero_point[0]), buffer.offsets[0] if buffer.offsets else 0
    return abs(scale - buffer.scales[0]) <= _NEAR * scale and (offset - zero) % 128 == 0


def _orders(values: Array, shape: tuple[int, ...]) -> list[tuple[Array, tuple[int, ...] | None]]:
    """A tensor in every order of its axes that has the shape of the buffer, each view once."""
    core = tuple(n for n in shape if n != 1)
    if values.ndim > _AXES or tuple(n for n in values.shape if n != 1) == core == ():
        return [(values.reshape(shape), None)]
    wide = [axis for axis, n in enumerate(values.shape) if n != 1]
    found: list[tuple[Array, tuple[int, ...] | None]] = []
    for moved in permutations(wide):
        if tuple(values.shape[axis] for axis in moved) != core:
            continue
        order = list(range(values.ndim))
        for place, axis in zip(wide, moved, strict=True):
            order[place] = axis
        flat = np.ascontiguousarray(values.transpose(order)).reshape(shape)
        if not any(np.array_equal(flat, other) for other, _ in found):
            found.append((flat, tuple(order)))
    return found

"""Memory access of one CPU or hybrid operator."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npuforge.aton.compiled import Operand, Work
from npuforge.aton.moves import extent_of, operand_of, refuse
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError

Reals = NDArray[np.float64]


class Bench:
    """Memory access of one operator."""

    def __init__(self, memory: Memory, epoch: int, work: Work, check: bool) -> None:
        self.memory, self.epoch, self.work, self.check = memory, epoch, work, check

    def operand(self, role: str) -> Operand:
        """A tensor by role. Raises ATN-013 when there is none."""
        return operand_of(self.epoch, self.work, role)

    def span(self, item: Operand, size: int) -> int:
        """Bytes from the first to behind the last element. Raises ATN-013."""
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
        """Type of an operand's elements: 16-bit ones lie two bytes apart."""
        if real:
            return np.dtype("<f4")
        size = 2 if min(item.strides) == 2 else 1
        return np.dtype(f"<{'i' if item.signed else 'u'}{size}")

    def read(self, role: str, *, real: bool) -> Reals:
        """Values of an operand, shape (batch, height, width, channels)."""
        item = self.operand(role)
        kind = self.kind_of(item, real)
        self.checked(item.address, self.span(item, kind.itemsize))
        return np.array(self.view(item, kind), np.float64)

    def checked(self, address: int, size: int) -> None:
        """Raises ATN-011 for bytes that nothing wrote."""
        missing = self.memory.first_unwritten(address, size) if self.check else None
        if missing is not None:
            raise ModelError("ATN-011", epoch=self.epoch, unit=self.work.node, address=hex(missing))

    def write(self, role: str, values: NDArray[np.generic], *, real: bool) -> None:
        """Store an operand. Raises ATN-013 when the number of values is another."""
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
        """A vector of integer parameters of so many bytes; zero points that are left out are 0."""
        if role.endswith("zp") and role not in self.work.operands:
            return np.zeros(1)
        item = self.operand(role)
        kind = f"<i{size}" if item.signed or size > 1 else "<u1"
        data = self.memory.peek(item.address, size * max(1, item.count))
        return np.frombuffer(data, kind).astype(np.float64)

    def quantised(self, values: Reals, role: str, scale: str, zero: str) -> NDArray[np.float64]:
        """Real values to steps of the output, halves to even, limits of its type."""
        kind = self.kind_of(self.operand(role), False)
        bits = 8 * kind.itemsize
        low, high = (
            (-1 << bits - 1, (1 << bits - 1) - 1) if kind.kind == "i" else (0, (1 << bits) - 1)
        )
        steps = np.rint(values / self.real(scale)[0]) + self.zero(zero, bits)
        kept: Reals = np.clip(steps, low, high)
        return kept

    def zero(self, role: str, bits: int) -> float:
        """A zero point, as wide as the tensor it belongs to."""
        return float(self.whole(role, bits // 8)[0])

    def dequantised(self, role: str, scale: str, zero: str) -> Reals:
        """Real values of an integer operand."""
        bits = 8 * self.kind_of(self.operand(role), False).itemsize
        found: Reals = (self.read(role, real=False) - self.zero(zero, bits)) * self.real(scale)[0]
        return found

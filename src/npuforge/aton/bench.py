"""Memory access of one CPU or hybrid operator of a compiled network."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npuforge.aton.compiled import Operand, Work
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError

Reals = NDArray[np.float64]


def refuse(epoch: int, work: Work, reason: str) -> ModelError:
    """What is raised for an operator that is not modelled: ATN-013 with its place."""
    return ModelError("ATN-013", epoch=epoch, node=work.node, kind=work.kind, reason=reason)


class Bench:
    """Memory access of one operator."""

    def __init__(self, memory: Memory, epoch: int, work: Work, check: bool) -> None:
        self.memory, self.epoch, self.work, self.check = memory, epoch, work, check

    def operand(self, role: str) -> Operand:
        """An operand by role. Raises ATN-013 when the call has none."""
        found = self.work.operands.get(role)
        if found is None:
            raise refuse(self.epoch, self.work, f"no operand {role}")
        return found

    def span(self, item: Operand, size: int) -> int:
        """Bytes from the first to the last of an operand. Raises ATN-013 for senseless steps."""
        if min(item.shape) < 1 or min(item.strides) < 0:
            raise refuse(self.epoch, self.work, f"shape {item.shape}, strides {item.strides}")
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
        """Element type: float32, or bytes with the operand's sign."""
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
        """Raises ATN-011 for bytes that nothing has written."""
        missing = self.memory.first_unwritten(address, size) if self.check else None
        if missing is not None:
            raise ModelError("ATN-011", epoch=self.epoch, unit=self.work.node, address=hex(missing))

    def write(self, role: str, values: NDArray[np.generic], *, real: bool) -> None:
        """Store an operand, shape (batch, height, width, channels)."""
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

    def put(self, address: int, data: bytes) -> None:
        """Bytes a mover writes. Raises ATN-008."""
        last = address + len(data) - 1
        base, region = self.memory.region(self.epoch, self.work.node, address, last)
        region[address - base : last + 1 - base] = np.frombuffer(data, np.uint8)
        self.memory.mark(address, len(data))

    def option(self, name: str, default: float) -> float:
        """A number among the operator's options."""
        value = self.work.options.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def numbers(self, name: str, count: int, default: int) -> tuple[int, ...]:
        """A list among the operator's options."""
        value = self.work.options.get(name)
        if isinstance(value, tuple) and len(value) == count:
            return value
        return (default,) * count

"""Memory and stream engines: bytes at addresses to frames of 24-bit elements and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npuforge._native import aton_gather, aton_scatter
from npuforge.aton.program import Pattern, Unit
from npuforge.errors import ModelError

Frames = NDArray[np.int32]
"""One row a frame, one 24-bit element (two's complement) a column."""

MAX_ELEMENTS = 1 << 27


@dataclass(frozen=True)
class Stream:
    """A sequence of frames.

    Attributes:
        values: the different frames, shape (different frames, elements).
        index: for each frame of the stream its row of ``values``; None when every row comes once,
            in order. Feature maps that are read again for every kernel group stay one row.
    """

    values: Frames
    index: NDArray[np.int64] | None = None

    @property
    def frames(self) -> int:
        """Frames of the stream."""
        return len(self.values) if self.index is None else len(self.index)

    @property
    def size(self) -> int:
        """Elements of the stream."""
        return self.frames * int(self.values.shape[1])

    def all(self) -> Frames:
        """Every frame, repeated ones written out."""
        return self.values if self.index is None else self.values[self.index]

    def picked(self, kept: NDArray[np.bool_]) -> Stream:
        """The frames of a mask."""
        if self.index is None:
            return Stream(self.values[kept])
        return Stream(self.values, self.index[kept])


class Memory:
    """Address space of a run: regions of bytes, and which of them were ever written."""

    def __init__(self, regions: Mapping[int, NDArray[np.uint8]]) -> None:
        """Args: regions: base address to bytes; the arrays are read and written in place."""
        self._regions = sorted(regions.items())
        self._written = {base: np.zeros(data.size, np.uint8) for base, data in self._regions}

    def regions(self) -> Sequence[tuple[int, NDArray[np.uint8]]]:
        """Base address and bytes of every region, lowest first."""
        return self._regions

    def holds(self, low: int, high: int) -> bool:
        """Whether one region holds all bytes of ``low..high``."""
        return self._find(low, high) is not None

    def _find(self, low: int, high: int) -> tuple[int, NDArray[np.uint8]] | None:
        for base, data in self._regions:
            if base <= low and high < base + data.size:
                return base, data
        return None

    def region(self, epoch: int, unit: str, low: int, high: int) -> tuple[int, NDArray[np.uint8]]:
        """Base and bytes of the region that holds ``low..high``. Raises ATN-008."""
        found = self._find(low, high)
        if found is None:
            raise ModelError("ATN-008", epoch=epoch, unit=unit, address=hex(low))
        return found

    def written(self, base: int) -> NDArray[np.uint8]:
        """One byte a byte of the region at ``base``: 1 where something wrote."""
        return self._written[base]

    def load(self, address: int, data: bytes) -> None:
        """Put bytes at an address. Raises ATN-008."""
        base, region = self.region(0, "load", address, address + max(len(data), 1) - 1)
        start = address - base
        region[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self.mark(address, len(data))

    def mark(self, address: int, size: int) -> None:
        """Note bytes as written. Raises ATN-008."""
        base, _ = self.region(0, "mark", address, address + size - 1)
        self._written[base][address - base : address - base + size] = 1

    def peek(self, address: int, size: int) -> bytes:
        """Bytes at an address. Raises ATN-008."""
        base, region = self.region(0, "peek", address, address + max(size, 1) - 1)
        return region[address - base : address - base + size].tobytes()

    def first_unwritten(self, address: int, size: int) -> int | None:
        """Address of the first of these bytes that nothing wrote. Raises ATN-008."""
        base, _ = self.region(0, "peek", address, address + max(size, 1) - 1)
        part = self._written[base][address - base : address - base + size]
        return None if part.all() else address + int(part.argmin())


def pattern_of(epoch: int, unit: Unit) -> Pattern:
    """Addresses of a stream engine, as its registers say. Raises ATN-006 when it moves nothing."""
    size, frames, length = unit.element_bytes, unit["LIMIT.CNT"], unit.frame_elements
    if not 1 <= size <= 3 or not frames or not length or frames * length > MAX_ELEMENTS:
        reason = f"{frames} frames of {length} elements of {size} bytes"
        raise ModelError("ATN-006", epoch=epoch, unit=unit.name, reason=reason)
    return unit.pattern


def read_stream(
    memory: Memory, epoch: int, unit: Unit, *, check: bool = True, spare: int = 0
) -> Stream:
    """What a reading engine delivers.

    Args:
        memory: to read.
        epoch: for messages.
        unit: the engine.
        check: refuse bytes that nothing has written.
        spare: bytes at the very end that nothing needs to have written.

    Raises:
        ModelError: ATN-006, ATN-008; ATN-011 for never-written bytes.
    """
    pattern = pattern_of(epoch, unit)
    base, data = memory.region(epoch, unit.name, pattern.low, pattern.high)
    starts, index = pattern.distinct
    out = np.empty((len(starts), pattern.elements), np.int32)
    shape = pattern.shape(bool(unit["CTRL.LSBMODE"] and unit["CTRL.SIGNEXT"]))
    held = memory.written(base)
    end = pattern.high + 1 - base
    before = held[end - spare : end].copy() if spare else None
    held[end - spare : end] = 1
    missing = aton_gather(data, held, starts - base, shape, check, out.reshape(-1))
    if before is not None:
        held[end - spare : end] = before
    if missing >= 0:
        raise ModelError("ATN-011", epoch=epoch, unit=unit.name, address=hex(base + missing))
    return Stream(out, index)


def write_stream(memory: Memory, epoch: int, unit: Unit, stream: Stream) -> None:
    """Let a writing engine store a stream. Raises ATN-006 when it starves or never drains."""
    pattern = pattern_of(epoch, unit)
    base, data = memory.region(epoch, unit.name, pattern.low, pattern.high)
    wanted = len(pattern.starts) * pattern.elements
    if stream.size != wanted:
        reason = f"{wanted} elements wanted, {stream.size} arrive"
        raise ModelError("ATN-006", epoch=epoch, unit=unit.name, reason=reason)
    values = np.ascontiguousarray(stream.all()).reshape(-1)
    aton_scatter(data, memory.written(base), pattern.starts - base, pattern.shape(False), values)

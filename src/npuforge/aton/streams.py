"""Memory and stream engines: bytes at addresses to frames of 24-bit elements and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.program import Unit
from npuforge.errors import ModelError

Frames = NDArray[np.int64]
"""Stream: one row a frame, one 24-bit element (two's complement) a column."""

MAX_ELEMENTS = 1 << 27


class Memory:
    """Address space of a run: named regions of bytes, and which of them were ever written."""

    def __init__(self, regions: Mapping[int, NDArray[np.uint8]]) -> None:
        """Args: regions: base address to bytes; the arrays are read and written in place."""
        self._regions = sorted(regions.items())
        self._written = {base: np.zeros(data.size, np.bool_) for base, data in self._regions}

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

    def mark(self, base: int, places: NDArray[np.int64]) -> None:
        """Note bytes (offsets in the region) as written."""
        self._written[base][places] = True

    def unwritten(self, base: int, places: NDArray[np.int64]) -> int | None:
        """Address of the first of these bytes that nobody wrote."""
        missing = ~self._written[base][places]
        return base + int(places[missing].min()) if missing.any() else None

    def load(self, address: int, data: bytes) -> None:
        """Put bytes at an address. Raises ATN-008."""
        base, region = self.region(0, "load", address, address + max(len(data), 1) - 1)
        start = address - base
        region[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self.mark(base, np.arange(start, start + len(data)))

    def peek(self, address: int, size: int) -> bytes:
        """Bytes at an address. Raises ATN-008."""
        base, region = self.region(0, "peek", address, address + max(size, 1) - 1)
        return region[address - base : address - base + size].tobytes()


def addresses(epoch: int, unit: Unit) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Byte address of each frame's start, and each element's offset in its frame."""
    size, frames, length = unit.element_bytes, unit["LIMIT.CNT"], unit.frame_elements
    if not size or not frames or not length or frames * length > MAX_ELEMENTS:
        reason = f"{frames} frames of {length} elements of {size} bytes"
        raise ModelError("ATN-006", epoch=epoch, unit=unit.name, reason=reason)
    if unit["CTRL.RAW"]:
        inside = np.arange(length, dtype=np.int64) * size
    else:
        line = unit["STRD.LOFF"] | unit["CID_CACHE.LOFF_MSB"] << 16
        pixel = unit["DEPTH.OFFSET"] | unit["LIMITEN.DOFF_MSB"] << 16
        rows = np.arange(unit["FSIZE.HEIGHT"], dtype=np.int64)[:, None, None] * line
        columns = np.arange(unit["FSIZE.WIDTH"], dtype=np.int64)[None, :, None] * pixel
        inside = (rows + columns + np.arange(unit["DEPTH.SIZE"], dtype=np.int64) * size).ravel()
    k = np.arange(frames, dtype=np.int64)
    if unit["CTRL.CONT"]:
        starts = k * length * size
    elif repeat := unit["FRAME_RPT.REG"]:
        starts = k % repeat * unit.signed("FOFFSET.REG")
        starts = starts + k // repeat * unit.signed("FRPTOFF.REG")
    else:
        starts = k * unit.signed("FOFFSET.REG")
    return starts + unit["ADDR.REG"], inside


def _places(
    memory: Memory, epoch: int, unit: Unit
) -> tuple[int, NDArray[np.uint8], NDArray[np.int64]]:
    starts, inside = addresses(epoch, unit)
    low = int(starts.min() + inside.min())
    high = int(starts.max() + inside.max()) + unit.element_bytes - 1
    base, data = memory.region(epoch, unit.name, low, high)
    return base, data, starts[:, None] + inside[None, :] - base


def read_stream(memory: Memory, epoch: int, unit: Unit, *, check: bool = True) -> Frames:
    """What a reading engine delivers. Raises ATN-006, ATN-008; ATN-011 for never-written bytes."""
    base, data, places = _places(memory, epoch, unit)
    size = unit.element_bytes
    out = np.zeros(places.shape, np.int64)
    for lane in range(size):
        if check and (address := memory.unwritten(base, places + lane)) is not None:
            raise ModelError("ATN-011", epoch=epoch, unit=unit.name, address=hex(address))
        out |= data[places + lane].astype(np.int64) << 8 * lane
    if unit["CTRL.LSBMODE"] and unit["CTRL.SIGNEXT"]:
        half = 1 << 8 * size - 1
        out = (out ^ half) - half
    return out


def write_stream(memory: Memory, epoch: int, unit: Unit, stream: Frames) -> None:
    """Let a writing engine store a stream. Raises ATN-006 when it starves or never drains."""
    base, data, places = _places(memory, epoch, unit)
    if stream.size != places.size:
        reason = f"{places.size} elements wanted, {stream.size} arrive"
        raise ModelError("ATN-006", epoch=epoch, unit=unit.name, reason=reason)
    values = stream.reshape(places.shape)
    for at, row in zip(places, values, strict=True):
        for lane in range(unit.element_bytes):
            data[at + lane] = row >> 8 * lane & 255
            memory.mark(base, at + lane)

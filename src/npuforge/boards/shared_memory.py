"""Where the memories of a chip lie in the external RAM this process shares with an emulator.

QEMU's mps3-an547 has 2 GiB of DDR at 0x60000000 (probed); given a file as its memory, the same
bytes are a mapped file here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuforge.aton.compiled import Compiled
from npuforge.aton.execute import memory_spans
from npuforge.errors import ToolError

DDR_BASE, DDR_BYTES = 0x60000000, 0x80000000
MAILBOX_BYTES = 0x10000
_ALIGNMENT = 0x100000


@dataclass(frozen=True)
class Window:
    """Addresses ``low`` to before ``high`` of the chip, seen at ``guest`` by the emulated CPU."""

    low: int
    high: int
    guest: int


@dataclass(frozen=True)
class AddressMap:
    """All windows of a network; the first bytes of the DDR are the mailbox."""

    windows: tuple[Window, ...]

    def guest(self, address: int, size: int = 1) -> int:
        """Address on the emulated CPU of some bytes of the chip.

        Raises:
            ToolError: BRD-020 when no memory of the network holds them.
        """
        for window in self.windows:
            if window.low <= address and address + size <= window.high:
                return address - window.low + window.guest
        raise ToolError("BRD-020", address=hex(address), size=size)


def address_map(network: Compiled) -> AddressMap:
    """Windows for every memory a compiled network uses.

    Memories that lie inside the DDR keep their addresses; the others move to free parts of it.

    Raises:
        ToolError: BRD-021 when they do not fit.
    """
    spans = memory_spans(network)
    first, end = DDR_BASE + MAILBOX_BYTES, DDR_BASE + DDR_BYTES
    kept = [Window(low, high, low) for low, high in spans if first <= low and high <= end]
    moved: list[Window] = []
    for low, high in spans:
        if not (first <= low and high <= end):
            moved.append(Window(low, high, _free([*kept, *moved], high - low, first, end)))
    return AddressMap((*kept, *moved))


def _free(taken: Sequence[Window], size: int, first: int, end: int) -> int:
    """The lowest aligned address with room between what is taken."""
    at = _aligned(first)
    for window in sorted(taken, key=lambda w: w.guest):
        if at + size <= window.guest:
            break
        at = max(at, _aligned(window.guest + window.high - window.low))
    if at + size > end:
        raise ToolError("BRD-021", size=size)
    return at


def _aligned(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT

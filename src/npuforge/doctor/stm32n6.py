"""Facts about the STM32N6 that several checks share.

Source of the memory map and the run-time facts: ST's published linker scripts, memory pools and
middleware, as read in public projects.
"""

from __future__ import annotations

from dataclasses import dataclass

NS_OFFSET = 0x1000_0000
"""Secure alias minus non-secure alias of the internal RAM (0x34… and 0x24…)."""


@dataclass(frozen=True)
class Bank:
    """A physical memory.

    Attributes:
        name: the name used in clock and power macros.
        base: secure address.
        size: bytes.
        needs_power: off after reset (SRAMSD set, MEM clock off).
        external: behind an XSPI, and needs memory-mapped mode.
    """

    name: str
    base: int
    size: int
    needs_power: bool = False
    external: bool = False

    @property
    def end(self) -> int:
        """First address behind the bank."""
        return self.base + self.size


BANKS = (
    Bank("ITCM", 0x1000_0000, 256 << 10),
    Bank("DTCM", 0x3000_0000, 256 << 10),
    Bank("AXISRAM1", 0x3400_0000, 1 << 20),
    Bank("AXISRAM2", 0x3410_0000, 1 << 20),
    Bank("AXISRAM3", 0x3420_0000, 448 << 10, needs_power=True),
    Bank("AXISRAM4", 0x3427_0000, 448 << 10, needs_power=True),
    Bank("AXISRAM5", 0x342E_0000, 448 << 10, needs_power=True),
    Bank("AXISRAM6", 0x3435_0000, 448 << 10, needs_power=True),
    Bank("CACHEAXIRAM", 0x343C_0000, 256 << 10, needs_power=True),
    Bank("VENCRAM", 0x3440_0000, 128 << 10),
    Bank("AHBSRAM1", 0x3800_0000, 16 << 10),
    Bank("AHBSRAM2", 0x3800_4000, 16 << 10),
    Bank("BKPSRAM", 0x3C00_0000, 8 << 10),
    Bank("XSPI2", 0x7000_0000, 256 << 20, external=True),
    Bank("XSPI3", 0x8000_0000, 256 << 20, external=True),
    Bank("XSPI1", 0x9000_0000, 256 << 20, external=True),
)
"""ITCM and DTCM with the extension that FLEXRAM settings allow."""

FSBL_ZONE = (0x3418_0000, 0x3420_0000)
"""RAM the first-stage boot loader runs in."""

APPLICATION_SLOT = (0x7010_0000, 0x7018_0000)
"""Slot of the application in ST's flash layout."""


def secure(address: int) -> int:
    """The secure alias of an address: 0x2… RAM and 0x4… peripherals become 0x3… and 0x5…."""
    if address >> 28 in (0x0, 0x2, 0x4):
        return address + NS_OFFSET
    return address


def bank_of(address: int) -> Bank | None:
    """The memory behind an address, or ``None`` when nothing is there."""
    place = secure(address)
    return next((bank for bank in BANKS if bank.base <= place < bank.end), None)


def banks_of(start: int, end: int) -> tuple[Bank, ...]:
    """Memories that a range touches, in order."""
    low, high = secure(start), secure(start) + (end - start)
    return tuple(bank for bank in BANKS if bank.base < high and low < bank.end)


def first_gap(start: int, end: int) -> int | None:
    """The first address of a range that has no memory behind it, or ``None``."""
    at = start
    while at < end:
        bank = bank_of(at)
        if bank is None:
            return at
        at += bank.end - secure(at)
    return None

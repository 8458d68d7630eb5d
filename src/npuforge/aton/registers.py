"""Names of units, registers and fields of the Neural-ART; unit pages as in the register map."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_KINDS = (
    ("CLKCTRL", 1),
    ("INTCTRL", 1),
    ("BUSIF", 2),
    ("STRSWITCH", 1),
    ("STRENG", 10),
    ("CONVACC", 4),
    ("DECUN", 2),
    ("ACTIV", 2),
    ("ARITH", 4),
    ("POOL", 2),
    ("RECBUF", 1),
    ("EPOCHCTRL", 1),
    ("TRACE", 1),
)
UNITS = tuple(f"{kind}{i}" for kind, count in _KINDS for i in range(count))
SWITCH = UNITS.index("STRSWITCH0")
FIRST_ENGINE = UNITS.index("STRENG0")
_PORTS = (
    ("STRENG", 10, 1),
    ("CONVACC", 4, 3),
    ("DECUN", 2, 2),
    ("ACTIV", 2, 1),
    ("ARITH", 4, 2),
    ("POOL", 2, 1),
    ("RECBUF", 1, 3),
)
PORTS = tuple(
    (UNITS.index(f"{kind}{i}"), port)
    for kind, count, ports in _PORTS
    for i in range(count)
    for port in range(ports)
)
"""Switch destinations in register order: (unit page, port)."""
SOURCES = (*range(FIRST_ENGINE, UNITS.index("RECBUF0")), *(UNITS.index("RECBUF0"),) * 3)
"""Unit page behind each switch source (link number)."""


@dataclass(frozen=True)
class Field:
    """A named bit range of a register: word index, lowest bit, width in bits."""

    register: int
    lsb: int
    width: int

    @property
    def mask(self) -> int:
        """Its bits in the register's word."""
        return (1 << self.width) - 1 << self.lsb

    def get(self, words: Mapping[int, int]) -> int:
        """Its value, unsigned, in words by register; absent registers hold 0."""
        return (words.get(self.register, 0) & self.mask) >> self.lsb

    def put(self, words: dict[int, int], value: int) -> None:
        """Set it to the low bits of a value; the other bits of the word stay."""
        word = words.get(self.register, 0) & ~self.mask
        words[self.register] = word | value << self.lsb & self.mask


_KIND_OF = tuple(name.rstrip("0123456789") for name in UNITS)


def kind_of(unit: int) -> str:
    """Kind of the unit on a page, for example ``CONVACC``."""
    return _KIND_OF[unit]


@cache
def _table() -> dict[str, dict[str, Field]]:
    document = tomllib.loads(Path(__file__).with_name("registers.toml").read_text("ascii"))
    table: dict[str, dict[str, Field]] = {}
    for kind, registers in document.items():
        fields = table.setdefault(kind, {})
        for name, row in registers.items():
            word, *entries = row.split()
            for entry in entries:
                field, _, place = entry.partition(":")
                lsb, _, width = place.partition("+")
                fields[f"{name}.{field}"] = Field(int(word), int(lsb), int(width))
    return table


def fields_of(kind: str) -> dict[str, Field]:
    """Fields of a unit kind by ``REGISTER.FIELD``; empty when no names are known."""
    return _table().get(kind, {})


@cache
def register_names(kind: str) -> dict[int, str]:
    """Word index to register name."""
    if kind == "STRSWITCH":
        names = {2 + n: f"{UNITS[unit]}_{port}" for n, (unit, port) in enumerate(PORTS)}
        return {0: "CTRL", **names}
    return {field.register: name.split(".")[0] for name, field in fields_of(kind).items()}

"""Names of units, registers and fields of the Neural-ART; their source is in registers.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
KINDS = tuple(kind for kind, _ in _KINDS)
"""Kinds of units in the order of their pages."""
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


_GATES = 4  # word of CLKCTRL with a clock bit for each unit from the first engine on
_KIND_OF = tuple(name.rstrip("0123456789") for name in UNITS)


def kind_of(unit: int) -> str:
    """Kind of the unit on a page, for example ``CONVACC``."""
    return _KIND_OF[unit]


@dataclass(frozen=True)
class Register:
    """A register of a unit kind.

    Attributes:
        word: index in the unit's page.
        fields: by name, with what each does.
    """

    word: int
    fields: Mapping[str, tuple[Field, str]]


@cache
def registers_of(kind: str) -> Mapping[str, Register]:
    """Registers of a unit kind by name; empty when none are known."""
    found = {name: _register(rows) for name, rows in _document().get(kind, {}).items()}
    if kind == "CLKCTRL":
        gates = {
            UNITS[page]: (Field(_GATES, page - FIRST_ENGINE, 1), "clock of that unit")
            for page in range(FIRST_ENGINE, len(UNITS))
        }
        found["BGATES"] = Register(_GATES, gates)
    return found


@cache
def _document() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads(Path(__file__).with_name("registers.toml").read_text("ascii"))


def _register(rows: Mapping[str, Any]) -> Register:
    fields = {}
    word = int(rows["word"])
    for name, text in rows.items():
        if name != "word":
            bits, _, about = text.partition(" ")
            high, _, low = bits.partition("-")
            lsb = int(low or high)
            fields[name] = (Field(word, lsb, int(high) - lsb + 1), about)
    return Register(word, fields)


@cache
def fields_of(kind: str) -> dict[str, Field]:
    """Fields of a unit kind by ``REGISTER.FIELD``; empty when no names are known."""
    return {
        f"{register}.{name}": field
        for register, held in registers_of(kind).items()
        for name, (field, _) in held.fields.items()
    }


@cache
def register_names(kind: str) -> dict[int, str]:
    """Word index to register name."""
    if kind == "STRSWITCH":
        names = {2 + n: f"{UNITS[unit]}_{port}" for n, (unit, port) in enumerate(PORTS)}
        return {0: "CTRL", **names}
    return {register.word: name for name, register in registers_of(kind).items()}

"""The register table: positions that cannot collide, and names for all that programs set."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuforge.artefacts.ec_blob import Op, read_blob
from npuforge.aton.registers import KINDS, SWITCH, UNITS, fields_of, kind_of, registers_of

_COEFFICIENTS = 256
"""First word of coefficient memories and function tables."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_fields_share_a_bit(kind: str) -> None:
    words = [register.word for register in registers_of(kind).values()]
    assert len(set(words)) == len(words)
    for register in registers_of(kind).values():
        taken = 0
        for place, about in register.fields.values():
            assert about
            assert place.register == register.word
            assert place.width > 0
            assert place.lsb + place.width <= 32
            assert not taken & place.mask
            taken |= place.mask


def test_values_go_in_and_out() -> None:
    for kind in KINDS:
        for name, place in fields_of(kind).items():
            words = {place.register: 0xA5A5A5A5}
            place.put(words, 0b1011)
            assert place.get(words) == 0b1011 & (1 << place.width) - 1, name
            assert words[place.register] & ~place.mask == 0xA5A5A5A5 & ~place.mask, name


def test_clocks_of_units() -> None:
    gates = registers_of("CLKCTRL")["BGATES"].fields
    assert [gates[name][0].lsb for name in ("STRENG0", "CONVACC0", "ACTIV0", "POOL1")] == [
        0,
        10,
        16,
        23,
    ]


@pytest.mark.shared
def test_every_bit_that_programs_set_has_a_name(shared: Path) -> None:
    unnamed = set()
    for path in sorted((shared / "aton").rglob("ec_blob_*.bin")):
        for item in read_blob(path.read_bytes()).instructions:
            if item.op not in (Op.WRITE, Op.BIT, Op.BURST, Op.LOAD) or item.unit == SWITCH:
                continue
            known = fields_of(kind_of(item.unit)).values()
            for n, value in enumerate(item.values):
                word = item.register + (n if item.op is Op.LOAD else 0)
                lsb = item.lsb if item.op in (Op.WRITE, Op.BIT) else 0
                left = value << lsb
                for place in known:
                    if place.register == word:
                        left &= ~place.mask
                if left and word < _COEFFICIENTS:
                    unnamed.add((UNITS[item.unit], word, hex(left)))
    assert not unnamed

"""Epoch-controller blobs: byte-exact both ways, hostile input refused with the word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge import api
from npuforge.artefacts.ec_blob import MAGIC, Blob, Instruction, Op, encode, read_blob, write_blob
from npuforge.aton import assemble, disassemble, epochs_of
from npuforge.aton.registers import PORTS, UNITS
from npuforge.errors import ModelError, UsageError

WORD = st.integers(0, 2**32 - 1)


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    op = draw(st.sampled_from(list(Op)))
    if op is Op.IRQ:
        return Instruction(op)
    if op is Op.LABEL:
        return Instruction(op, values=(draw(st.integers(0, 2**27 - 1)),))
    unit, register = draw(st.integers(0, 31)), draw(st.integers(0, 1023))
    if op is Op.BIT:
        bit = draw(st.integers(0, 31))
        return Instruction(op, unit, register % 32, bit, bit, (draw(st.integers(0, 1)),))
    if op in (Op.BURST, Op.LOAD):
        values = draw(st.lists(WORD, min_size=1, max_size=40))
        return Instruction(op, unit, register, 0, 31, tuple(values))
    lsb = draw(st.integers(0, 31))
    count = 2 if op is Op.POLL else 1
    values = draw(st.lists(WORD, min_size=count, max_size=count))
    return Instruction(op, unit, register, lsb, draw(st.integers(lsb, 31)), tuple(values))


PROGRAMS = st.lists(instructions(), min_size=1, max_size=30)


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


@settings(max_examples=150, deadline=None)
@given(PROGRAMS, st.lists(WORD, max_size=3), st.sampled_from([None, 0xECBF0020, 0xECBF0050]))
def test_random_programs_survive_both_ways(
    program: list[Instruction], tail: list[int], header: int | None
) -> None:
    prefix = (header, 0, 0, 24, 24, 0) if header else ()
    data = write_blob(Blob(prefix, tuple(program), tuple(tail)))
    blob = read_blob(data)
    assert [encode(item) for item in blob.instructions] == [encode(item) for item in program]
    assert write_blob(assemble(disassemble(blob))) == data


def refused_or_read(data: bytes) -> Blob | None:
    """The blob; None when it is refused with an offset inside the file."""
    try:
        return read_blob(data)
    except ModelError as error:
        word = error.params["word"]
    assert isinstance(word, int)
    assert 0 <= word <= len(data) // 4
    return None


@settings(max_examples=200, deadline=None)
@given(PROGRAMS, st.data())
def test_damaged_blobs_are_refused_or_still_exact(
    program: list[Instruction], data: st.DataObject
) -> None:
    good = write_blob(Blob((), tuple(program), ()))
    bad = bytearray(good)
    for _ in range(3):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(bad[: data.draw(st.integers(0, len(bad)))])
    for hostile in (bytes(bad), cut):
        blob = refused_or_read(hostile)
        if blob is None:
            continue
        assert write_blob(assemble(disassemble(blob))) == hostile
        epochs_of(blob)


@pytest.mark.parametrize(
    ("data", "code", "word"),
    [
        (b"", "ATN-001", 0),
        (words(1, 2), "ATN-001", 0),
        (words(MAGIC, 5, 0x0C), "ATN-003", 1),
        (words(MAGIC, 2, 0x0C, 0x1F), "ATN-002", 3),
        (words(MAGIC, 1, 5 << 26), "ATN-003", 2),
        (words(MAGIC, 2, 3 << 5 | 3, 7), "ATN-003", 2),
        (words(MAGIC, 2, 7 << 5, 1), "ATN-004", 2),
        (words(0xECBF0050, 0, 0, 0, 4096, 0), "ATN-001", 4),
    ],
)
def test_the_word_that_does_not_decode_is_named(data: bytes, code: str, word: int) -> None:
    with pytest.raises(ModelError) as caught:
        read_blob(data)
    assert (caught.value.code, caught.value.params["word"]) == (code, word)


@pytest.mark.parametrize("line", ["jump", "write STRENG99.CTRL 1", "write STRENG0.CTRL", "label x"])
def test_the_line_that_does_not_parse_is_named(line: str) -> None:
    with pytest.raises(ModelError) as caught:
        assemble(f"label 1\n{line}\n")
    assert (caught.value.code, caught.value.params["line"]) == ("ATN-005", 2)


COPY = """
label 7
  write STRENG0.ADDR 0x34000000
  load STRENG0.FSIZE 0x40
  write STRENG0.LIMIT 0x2
  write STRENG0.CTRL 0x80100
  write STRENG1.ADDR 0x34001000
  load STRENG1.FSIZE 0x80
  write STRENG1.LIMIT 0x1
  write STRENG1.CTRL 0x80108
  bit STRSWITCH0.STRENG1_0[0] 1
  bit STRENG1.CTRL[0] 1
  bit STRENG0.CTRL[0] 1
  poll STRENG1.CTRL[31] 0x64 0x0
  write STRENG0.CTRL 0x40000000
label 8
  poll STRENG1.CTRL[31] 0x64 0x0
  irq
"""


def test_an_epoch_is_what_the_units_hold_at_the_wait() -> None:
    first, second = epochs_of(assemble(COPY))
    assert (first.number, second.number) == (7, 8)
    (reader,), (writer,) = first.readers, first.writers
    assert (reader.name, reader["ADDR.REG"], reader.stream_bytes) == ("STRENG0", 0x34000000, 128)
    assert (writer.name, writer.element_bytes, writer.stream_bytes) == ("STRENG1", 1, 128)
    page = UNITS.index("STRENG1")
    assert {port: route.source for port, route in first.routes.items()} == {
        (page, 0): UNITS.index("STRENG0")
    }
    assert [unit.name for unit in second.units.values()] == ["STRENG1"]
    assert len(PORTS) == 41


def test_text_names_fields() -> None:
    text = disassemble(assemble(COPY))
    assert "write STRENG1.CTRL 0x80108  ; DIR=1 RAW=1 SIZE0=8" in text


def test_files(tmp_path: Path) -> None:
    source, blob, text = (tmp_path / name for name in ("in.txt", "a.bin", "a.txt"))
    source.write_text(COPY)
    data = api.aton_translate(source, "assemble", blob)
    assert blob.read_bytes() == data
    api.aton_translate(blob, "text", text)
    assert api.aton_translate(text, "assemble", blob, force=True) == data
    shown = api.aton_document(blob)["steps"][0]["epochs"]
    assert [(e["epoch"], e["read"], e["written"]) for e in shown] == [(7, 128, 128), (8, 0, 128)]
    with pytest.raises(UsageError):
        api.aton_translate(text, "assemble", blob)
    with pytest.raises(UsageError):
        api.aton_translate(text, "assemble")
    with pytest.raises(UsageError):
        api.aton_document(tmp_path / "absent")


@pytest.mark.shared
def test_compiled_blobs_survive_both_ways(shared: Path) -> None:
    blobs = sorted((shared / "aton").glob("*/ec_blob_*.bin"))
    assert len(blobs) == 18
    for path in blobs:
        data = path.read_bytes()
        assert write_blob(assemble(disassemble(read_blob(data)))) == data
    counted = {
        folder.name: sum(
            len(epochs_of(read_blob(path.read_bytes()))) for path in folder.glob("ec_blob_*.bin")
        )
        for folder in (shared / "aton").iterdir()
        if folder.name not in ("examples", "README.md", "registers.json")
    }
    assert counted["mobilenet_v1_025_96"] == 31
    assert counted["movenet_lightning_192"] == 69
    assert counted["yolox_nano_480"] == 219
    assert counted["deeplab_v3_mnv2_320"] == 57

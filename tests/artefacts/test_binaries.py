"""ELF files, linker maps and boot images: made here byte by byte, whole and damaged."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.boot_image import read_boot_image
from npuforge.artefacts.elf import read_elf, read_map
from npuforge.errors import ModelError


def elf(sections: list[tuple[str, int, int, bool]], entry: int = 0x34000801) -> bytes:
    """A 32-bit ARM ELF with sections (name, address, size, loaded) and one segment each."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    loads = [entry for entry in sections if entry[3]]
    at = 52 + 32 * len(loads)
    body, headers, segments = b"", [struct.pack("<10I", *[0] * 10)], b""
    place = 1
    for name, address, size, loaded in sections:
        kind, flags = (1, 6) if loaded else (8, 3)
        headers.append(
            struct.pack("<10I", place, kind, flags, address, at + len(body), size, 0, 0, 4, 0)
        )
        if loaded:
            segments += struct.pack("<8I", 1, at + len(body), address, address, size, size, 5, 4)
            body += bytes(size)
        place += len(name) + 1
    headers.append(struct.pack("<10I", place, 3, 0, 0, at + len(body), len(names), 0, 0, 1, 0))
    body += names
    head = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
        "<HHIIIIIHHHHHH", 2, 40, 1, entry, 52, at + len(body), 0, 52, 32, len(loads), 40,
        len(headers), len(headers) - 1,
    )  # fmt: skip
    return head + segments + body + b"".join(headers)


def test_elf_sections() -> None:
    image = read_elf(elf([(".text", 0x34000400, 256, True), (".bss", 0x34100000, 4096, False)]))
    assert image.entry == 0x34000801
    assert [(s.name, s.address, s.size, s.loaded) for s in image.sections] == [
        (".text", 0x34000400, 256, True),
        (".bss", 0x34100000, 4096, False),
    ]
    assert image.load_bytes == 256


@settings(max_examples=60, deadline=None)
@given(st.integers(8, 400), st.binary(max_size=40))
def test_damaged_elf(cut: int, junk: bytes) -> None:
    data = elf([(".text", 0x34000400, 256, True)])
    data = data[:cut] + junk + data[cut + len(junk) :]
    with suppress(ModelError):
        assert read_elf(data).entry >= 0


def test_map() -> None:
    text = (
        "Memory Configuration\n\nLinker script and memory map\n\n"
        ".text           0x34000800     0x8000\n"
        " .text.main     0x34000800       0x40 main.o\n"
        "                0x34000800                main\n"
        ".bss            0x34080200    0x86958\n"
        ".debug_info     0x00000000    0x1234\n"
    )
    image = read_map(text)
    assert [(s.name, s.size, s.loaded) for s in image.sections] == [
        (".text", 0x8000, True),
        (".bss", 0x86958, False),
    ]
    assert image.symbols["main"].address == 0x34000800


@pytest.mark.parametrize(("offset", "version"), [(0x68, 0x20300), (0x48, 0x20100)])
def test_boot_image(offset: int, version: int) -> None:
    data = bytearray(0x410)
    data[:4] = b"STM2"
    struct.pack_into("<III", data, offset, version, 0x1000, 0x34000801)
    struct.pack_into("<II", data, 0x400, 0x34200000, 0x34000801)
    image = read_boot_image(bytes(data))
    assert (image.version, image.entry, image.aligned) == (version, 0x34000801, True)
    struct.pack_into("<I", data, 0x404, 0)
    assert not read_boot_image(bytes(data)).aligned
    with pytest.raises(ModelError, match="DOC-004"):
        read_boot_image(bytes(data[:0x60]))

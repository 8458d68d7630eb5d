"""ELF files and GNU linker maps: sections, symbols, loadable bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npuforge.errors import ModelError

MAX_SYMBOLS = 200_000


@dataclass(frozen=True)
class Section:
    """A section that takes memory.

    Attributes:
        name: with its dot.
        address: run address.
        size: bytes.
        loaded: whether its bytes are in the file (not .bss).
        code: executable.
        writable: whether the program may write it; a map does not say, False there.
        load_address: where its bytes are stored; its address where that is the same or unknown.
    """

    name: str
    address: int
    size: int
    loaded: bool
    code: bool
    writable: bool = False
    load_address: int = -1

    def __post_init__(self) -> None:
        """A section that is not moved lies where it runs."""
        if self.load_address < 0:
            object.__setattr__(self, "load_address", self.address)

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.size


@dataclass(frozen=True)
class Symbol:
    """A defined symbol with its address and size in bytes."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Image:
    """A linked program, from an ELF file or a map.

    Attributes:
        entry: entry address, 0 when unknown.
        sections: sections with an address, in file order.
        symbols: by name.
        load_bytes: bytes from the lowest to the highest load address of loaded sections, 0 when
            unknown.
    """

    entry: int
    sections: tuple[Section, ...]
    symbols: Mapping[str, Symbol]
    load_bytes: int


def read_elf(data: bytes, file: str = "elf") -> Image:
    """Read an ELF file. Raises ``ModelError`` DOC-004 when it is damaged."""
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(data))
        sections, symbols = [], {}
        segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        for section in elf.iter_sections():
            flags = section["sh_flags"]
            if flags & 2 and section["sh_size"]:
                sections.append(
                    Section(
                        section.name, section["sh_addr"], section["sh_size"],
                        section["sh_type"] != "SHT_NOBITS", bool(flags & 4), bool(flags & 1),
                        _load_address(section["sh_addr"], section["sh_size"], segments),
                    )
                )  # fmt: skip
            if section["sh_type"] == "SHT_SYMTAB":
                for count, symbol in enumerate(section.iter_symbols()):
                    if count > MAX_SYMBOLS:
                        break
                    if symbol.name and symbol["st_shndx"] != "SHN_UNDEF":
                        symbols[symbol.name] = Symbol(
                            symbol.name, symbol["st_value"], symbol["st_size"]
                        )
        loads = [
            (segment["p_paddr"], segment["p_paddr"] + segment["p_filesz"]) for segment in segments
        ]
        entry = int(elf["e_entry"])
    except Exception as error:
        raise ModelError("DOC-004", file=file, reason=f"{type(error).__name__}: {error}") from None
    span = max(end for _, end in loads) - min(start for start, _ in loads) if loads else 0
    return Image(entry, tuple(sections), symbols, span)


def _load_address(address: int, size: int, segments: Sequence[Any]) -> int:
    for segment in segments:
        offset = address - int(segment["p_vaddr"])
        if offset >= 0 and offset + size <= int(segment["p_memsz"]):
            stored: int = int(segment["p_paddr"]) + offset
            return stored
    return -1


_SECTION = re.compile(
    r"^(\.[\w.]+)[ \t]*\n?[ \t]+(0x[0-9a-fA-F]+)[ \t]+(0x[0-9a-fA-F]+)"
    r"(?:[ \t]+load address[^\n]*)?$",
    re.MULTILINE,
)
_SYMBOL = re.compile(
    r"^[ \t]+(0x[0-9a-fA-F]{8,16})[ \t]+([A-Za-z_]\w*)(?: = [^\n]*)?$", re.MULTILINE
)
_NOT_ALLOCATED = re.compile(r"\.(?:debug|comment|ARM\.attributes|stab|note|gnu)")


def read_map(text: str) -> Image:
    """Read a GNU linker map; what it does not say stays empty."""
    body = text[max(text.find("Linker script and memory map"), 0) :]
    sections = [
        Section(
            match[1], int(match[2], 16), int(match[3], 16),
            not re.match(r"\.(?:noinit|.*bss|.*noload|.*heap|.*stack)", match[1], re.IGNORECASE),
            match[1] in (".text", ".isr_vector"),
        )
        for match in _SECTION.finditer(body)
        if int(match[3], 16) and not _NOT_ALLOCATED.match(match[1])
    ]  # fmt: skip
    symbols = {
        match[2]: Symbol(match[2], int(match[1], 16), 0)
        for _, match in zip(range(MAX_SYMBOLS), _SYMBOL.finditer(body), strict=False)
    }
    loaded = [section for section in sections if section.loaded]
    return Image(0, tuple(sections), symbols, sum(section.size for section in loaded))

"""Text of files that may be anything: bounded, never failing on their encoding."""

from __future__ import annotations

from pathlib import Path

MAX_TEXT = 32 << 20
"""Bytes of a text file that are read; the rest is left out."""


def decode(data: bytes) -> str:
    """Text of bytes: a byte-order mark, UTF-8, then GB 18030, else Latin-1; NUL becomes a space.

    Many of these boards' users write comments in GBK, which GB 18030 contains.
    """
    for mark, name in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(name, errors="replace").replace("\0", " ")
    data = data.removeprefix(b"\xef\xbb\xbf")
    for name in ("utf-8", "gb18030"):
        try:
            return data.decode(name).replace("\0", " ")
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1").replace("\0", " ")


def read_bytes(path: Path, limit: int = MAX_TEXT) -> bytes:
    """Up to ``limit`` bytes of a file. Raises ``OSError`` when it cannot be read."""
    with path.open("rb") as file:
        return file.read(limit)


def read_text(path: Path, limit: int = MAX_TEXT) -> str:
    """Text of up to ``limit`` bytes of a file with line ends as "\\n". Raises ``OSError``."""
    return decode(read_bytes(path, limit)).replace("\r\n", "\n").replace("\r", "\n")


def line_of(text: str, offset: int) -> int:
    """Number of the line, from 1, that holds a character offset."""
    return text.count("\n", 0, offset) + 1

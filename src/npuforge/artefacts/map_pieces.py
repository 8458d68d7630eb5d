"""What each object file put into a linked program: the input sections of a GNU linker map."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FILL = "*fill*"
"""Name of a piece that the linker inserted for alignment."""

_START = "Linker script and memory map"
_OUTPUT = re.compile(r"([A-Za-z_.][\w.$-]*)(?:[ \t]+0x[0-9a-fA-F]+[ \t]+0x[0-9a-fA-F]+.*)?$")
_PIECE = re.compile(
    r" (\*fill\*|[A-Za-z_.][\w.$*-]*)[ \t]+0x([0-9a-fA-F]+)[ \t]+0x([0-9a-fA-F]+)[ \t]*(.*)$"
)
_NAME = re.compile(r" ([A-Za-z_.][\w.$-]*)$")
_REST = re.compile(r" {2,}0x([0-9a-fA-F]+)[ \t]+0x([0-9a-fA-F]+)[ \t]+(\S.*)$")


@dataclass(frozen=True)
class MapPiece:
    """One input section, or filling.

    Attributes:
        section: output section it went to.
        name: input section, ``COMMON`` or ``*fill*``.
        address: where it lies.
        nbytes: its size after merging of equal strings.
        object: object file, or archive with its member in parentheses; "" for filling.
    """

    section: str
    name: str
    address: int
    nbytes: int
    object: str


def read_map_pieces(text: str) -> tuple[MapPiece, ...]:
    """The pieces of a map in its order; those of no size are left out, nothing is raised."""
    at = text.find(_START)
    return tuple(_pieces(text[at:] if at >= 0 else text))


def _pieces(text: str) -> Iterator[MapPiece]:
    section = pending = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            match = _OUTPUT.match(line)
            section, pending = (match[1] if match else ""), ""
            continue
        name = _NAME.match(line)
        if name is not None:
            pending = name[1]
            continue
        piece = _PIECE.match(line)
        rest = None if piece else _REST.match(line)
        found = piece[1] if piece else pending
        pending = ""
        match = piece or rest
        if match is None or not found or not section:
            continue
        address, nbytes, owner = match.groups()[-3:]
        # filling names the byte it was filled with, not an object
        owner = "" if found == FILL else owner.strip()
        if int(nbytes, 16) and (owner or found == FILL):
            yield MapPiece(section, found, int(address, 16), int(nbytes, 16), owner)

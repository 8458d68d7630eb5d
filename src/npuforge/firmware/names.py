"""C identifiers and literals."""

from __future__ import annotations

import math
import re

_KEYWORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "main",
    ]
)


def identifier(text: str) -> str:
    """A C identifier made of any text: lower case, letters, digits and underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "network"
    if name[0].isdigit() or name in _KEYWORDS:
        name = f"net_{name}"
    return name[:48].rstrip("_")


def int_literal(value: int) -> str:
    """An int32_t literal; the smallest one cannot be written as a negated literal."""
    return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)


def float_literal(value: float) -> str:
    """A float literal that is exact."""
    if math.isinf(value) or math.isnan(value):
        raise ValueError(f"{value} cannot be written in C")
    return f"{value.hex()}f"


def string_literal(text: str) -> str:
    """A C string; anything that is not plain ASCII is written as octal bytes."""
    out = []
    for byte in text.encode("utf-8"):
        plain = 32 <= byte < 127 and byte not in b'"\\?'
        out.append(chr(byte) if plain else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def comment(text: str) -> str:
    """Text that can stand inside of a C comment."""
    clean = "".join(c if c.isprintable() and ord(c) < 128 else "?" for c in text)
    return clean.replace("*/", "* /").replace("/*", "/ *")

"""GNU linker scripts: memory regions, symbols and output sections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from npuforge.artefacts.text import line_of


@dataclass(frozen=True)
class Region:
    """A line of ``MEMORY``; sizes in bytes, ``None`` when the expression cannot be evaluated."""

    name: str
    attributes: str
    origin: int | None
    length: int | None
    line: int
    text: str

    @property
    def end(self) -> int | None:
        """First address behind the region."""
        if self.origin is None or self.length is None:
            return None
        return self.origin + self.length


@dataclass(frozen=True)
class OutputSection:
    """An output section: where it runs, where it is loaded, whether it is loaded at all.

    Attributes:
        name: section name with its dot.
        region: run region, or "".
        load_region: load region after ``AT>``, or "".
        noload: whether it is marked NOLOAD.
        inputs: input section patterns named inside.
        address: address given in front of the colon, or ``None``.
        line: where it starts.
    """

    name: str
    region: str
    load_region: str
    noload: bool
    inputs: tuple[str, ...]
    address: int | None
    line: int


@dataclass(frozen=True)
class LinkerScript:
    """Regions by name, symbols with their values, output sections in order."""

    regions: Mapping[str, Region]
    symbols: Mapping[str, int]
    sections: tuple[OutputSection, ...]
    symbol_lines: Mapping[str, int]


_MEMORY = re.compile(r"\bMEMORY\s*+\{([^}]*+)")
_REGION = re.compile(
    r"(?<![\w.])([A-Za-z_][\w.]*+)\s*+(?:\(([^)\n]{0,80})\))?\s*+:\s*+(?:ORIGIN|org|o)\s*+=\s*+"
    r"([^,\n]{1,400}),\s*+(?:LENGTH|len|l)\s*+=\s*+([^\n]{1,1000})"
)
_SYMBOL = re.compile(r"(?:^|(?<=[{;\s(]))([A-Za-z_]\w*+)\s*+=\s*+([^=;{}]{1,1000}+);")
_SECTION = re.compile(
    r"^[ \t]*+(\.[\w.]++|[A-Za-z_]\w{0,200}_section)\s*+([^:;={}\n]{0,400}):\s*+([^{};]{0,1000})\{",
    re.MULTILINE,
)
_AFTER = re.compile(r"\s*+>\s*+(\w+)(?:\s++AT\s*+>\s*+(\w+))?")
_INPUT = re.compile(r"\*?\(\s*+((?:\.[\w.*]++\s*+)++)\)|KEEP\s*+\(\s*+\*\(\s*+(\.[\w.*]++)")
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_LINE = re.compile(r"^[ \t]*+#[^\n]*|//[^\n]*", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*+#define[ \t]++(\w++)[ \t]++([^\n/]++)", re.MULTILINE)
_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+[KkMm]?|\d+[KkMm]?|[A-Za-z_.][\w.]*|<<|>>|[-+*/()&|~])")


def read_linker_script(text: str) -> LinkerScript:
    """Read a GNU linker script; what cannot be evaluated is left out, nothing is raised."""
    plain = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    plain = _LINE.sub(lambda m: " " * len(m[0]), plain)
    regions: dict[str, Region] = {}
    symbols: dict[str, int] = {}
    lines: dict[str, int] = {}
    for name, expression, at in _definitions(text, plain):
        value = evaluate(expression, symbols, regions)
        if value is not None:
            symbols[name] = value
            lines[name] = line_of(text, at)
    for block in _MEMORY.finditer(plain):
        for match in _REGION.finditer(block[1]):
            origin = evaluate(match[3], symbols, regions)
            length = evaluate(match[4], symbols, regions)
            at = block.start(1) + match.start(1)
            regions[match[1]] = Region(
                match[1], match[2] or "", origin, length, line_of(text, at), match[0].strip()
            )
    for name, expression, at in _definitions(text, plain):
        value = evaluate(expression, symbols, regions)
        if value is not None:
            symbols[name] = value
            lines[name] = line_of(text, at)
    return LinkerScript(regions, symbols, tuple(_sections(text, plain, symbols, regions)), lines)


def _definitions(text: str, plain: str) -> list[tuple[str, str, int]]:
    found = [(m[1], m[2], m.start(1)) for m in _SYMBOL.finditer(plain)]
    found += [(m[1], m[2], m.start(1)) for m in _DEFINE.finditer(text)]
    return found


def _sections(
    text: str, plain: str, symbols: Mapping[str, int], regions: Mapping[str, Region]
) -> list[OutputSection]:
    found = []
    for match in _SECTION.finditer(plain):
        end = _closing(plain, match.end())
        body, after = plain[match.end() : end], _AFTER.match(plain, end + 1)
        inputs = [name for pair in _INPUT.findall(body) for part in pair for name in part.split()]
        words = match[2] + " " + match[3]
        address = evaluate(re.sub(r"\([A-Z]+\)", "", match[2]) or "?", symbols, regions)
        found.append(
            OutputSection(
                match[1],
                after[1] if after else "",
                (after[2] or "") if after else "",
                "NOLOAD" in words,
                tuple(inputs),
                address,
                line_of(text, match.start(1)),
            )
        )
        if end == len(plain):
            break  # never closed: what follows stands inside
    return found


def _closing(text: str, start: int) -> int:
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return len(text)


def evaluate(
    expression: str, symbols: Mapping[str, int], regions: Mapping[str, Region]
) -> int | None:
    """Value of a linker expression of numbers, symbols, ORIGIN, LENGTH and + - * / << >>.

    Returns ``None`` for anything else, also beyond 200 tokens.
    """
    tokens: list[str] = []
    at = 0
    expression = expression.strip()
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None or len(tokens) > 200:
            return None
        tokens.append(match[1])
        at = match.end()
    try:
        value, rest = _sum(tokens, symbols, regions)
    except (ValueError, KeyError, IndexError, ZeroDivisionError, RecursionError):
        return None
    return None if rest else value


def _sum(
    tokens: list[str], symbols: Mapping[str, int], regions: Mapping[str, Region]
) -> tuple[int, list[str]]:
    value, tokens = _product(tokens, symbols, regions)
    while tokens and tokens[0] in ("+", "-", "<<", ">>", "|", "&"):
        operator = tokens[0]
        other, tokens = _product(tokens[1:], symbols, regions)
        if operator in ("<<", ">>") and not 0 <= other < 64:
            raise ValueError(operator)
        value = {
            "+": lambda a, b: a + b, "-": lambda a, b: a - b, "<<": lambda a, b: a << b,
            ">>": lambda a, b: a >> b, "|": lambda a, b: a | b, "&": lambda a, b: a & b,
        }[operator](value, other)  # fmt: skip
    return value, tokens


def _product(
    tokens: list[str], symbols: Mapping[str, int], regions: Mapping[str, Region]
) -> tuple[int, list[str]]:
    value, tokens = _atom(tokens, symbols, regions)
    while tokens and tokens[0] in ("*", "/"):
        other, rest = _atom(tokens[1:], symbols, regions)
        value = value * other if tokens[0] == "*" else value // other
        tokens = rest
    return value, tokens


def _atom(
    tokens: list[str], symbols: Mapping[str, int], regions: Mapping[str, Region]
) -> tuple[int, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first == "-":
        value, rest = _atom(rest, symbols, regions)
        return -value, rest
    if first == "(":
        value, rest = _sum(rest, symbols, regions)
        if rest[0] != ")":
            raise ValueError("parenthesis")
        return value, rest[1:]
    if first in ("ORIGIN", "LENGTH"):
        region = regions[rest[1]]
        part = region.origin if first == "ORIGIN" else region.length
        if part is None or rest[0] != "(" or rest[2] != ")":
            raise ValueError(first)
        return part, rest[3:]
    if first[0].isdigit():
        unit = {"k": 1 << 10, "m": 1 << 20}.get(first[-1].lower(), 1)
        if unit > 1:
            first = first[:-1]
        return int(first, 16 if first.lower().startswith("0x") else 10) * unit, rest
    return symbols[first], rest

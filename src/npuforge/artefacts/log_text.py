"""Text of a log as people save it: any encoding, any line length, any size, never an exception.

A log is kept as one string with the offsets of its lines, so that searching for a literal runs at
the speed of `str.find` and only lines with a hit are looked at.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_BYTES = 64 << 20
"""Largest part of a log that is read; what follows is counted, not read."""
MAX_LINE = 2000
"""Characters of a line that readers look at; a longer line is cut."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-_])")
_STAMP = re.compile(
    r"^[ \t]*(?=[\[\dID])(?:\[?(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?"
    r"(?:[ \t]*(?:->|>|\|))?[ \t]+)?"
    r"(?:\[(?:INFO|DEBUG|TRACE)\][ \t]+(?:[\w.]+(?::\d+)?[ \t]*[:-][ \t]+)?|"
    r"[ID] \(\d+\) [\w-]+:[ \t])?",
    re.MULTILINE,
)
"""What terminals and loggers put in front of every line: time of day, level, place. Levels above
INFO stay, they say something; so do a kernel's seconds since boot."""
MAX_STAMPED = 16 << 20
"""Characters of a log from which stamps are taken off; in longer ones they stay."""
LINES = 8_000
"""Lines that hold a literal which are looked at in one long log."""
FEWEST = 200
"""The same in each of some long logs of a project."""
SHORT = 4096
"""Characters of a log up to which searching it is cheaper than asking what it can hold."""
CLASSIFIED = 400
"""Characters of a line that decide its class; tables of reports have far longer lines."""
MAX_TEMPLATES = 4000
"""Different lines, numbers aside, that a reader classifies; a log with more is noise by then."""

_NUMBER = re.compile(r"(?<![A-Za-z_])(?:0x0*[1-9a-fA-F][0-9a-fA-F]*|\d*[1-9]\d*)")
_HEX_DIGITS = b"0123456789abcdef"
_CONTROL = {code: None for code in range(32) if code not in (9, 10)}


@dataclass(frozen=True)
class Line:
    """One line: its number from 1, and its text without the line end, at most MAX_LINE long."""

    number: int
    text: str


@dataclass(frozen=True, eq=False)
class LogText:
    """A decoded log.

    Attributes:
        name: path or label for messages.
        text: all lines, ``\\n`` ended, without escape sequences and control characters.
        encoding: how it was decoded.
        cut: bytes that were left out because the file is larger than MAX_BYTES.
        binary: whether it looks like no text at all; `text` is empty then.
        effort: share of the lines with a literal that readers look at in a long log.
        fewest: lines with a literal that readers look at however small that share is.
    """

    name: str
    text: str = field(repr=False)
    encoding: str = "utf-8"
    cut: int = 0
    binary: bool = False
    effort: float = 1.0
    fewest: int = FEWEST

    @cached_property
    def lower(self) -> str:
        """The text in lower case, same offsets as `text`."""
        lowered = self.text.lower()
        # a few letters grow when lowered; offsets must stay those of the text
        return lowered if len(lowered) == len(self.text) else _ascii_lower(self.text)

    @cached_property
    def starts(self) -> list[int]:
        """Offset of each line's first character."""
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def line(self, number: int) -> Line:
        """A line by number, from 1."""
        begin = self.starts[number - 1]
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return Line(number, self.text[begin : min(end, begin + MAX_LINE)])

    def lines(self) -> Iterator[Line]:
        """All lines in order."""
        for number in range(1, len(self.starts) + 1):
            yield self.line(number)

    def window(self, number: int, before: int, after: int) -> list[Line]:
        """The lines around a line."""
        first, last = max(1, number - before), min(len(self.starts), number + after)
        return [self.line(i) for i in range(first, last + 1)]

    @cached_property
    def _shapes(self) -> bytes:
        """Every word once, without the characters of numbers: what a long log can hold at all."""
        bare = self.lower.encode("utf-8", "replace").translate(None, _HEX_DIGITS)
        lines = b" ".join(set(bare.split(b"\n")))
        return b" ".join(set(lines.split()))

    def may_hold(self, literal: str) -> bool:
        """False only when a lower-case literal is certainly absent; cheap on long logs."""
        if len(self.text) < SHORT:
            return True
        shapes = self._shapes
        return all(part in shapes for part in _parts_of(literal))

    def holds(self, *literals: str) -> bool:
        """Whether one of some literals, given in lower case, is anywhere in the log."""
        return any(literal in self.lower for literal in filter(self.may_hold, literals))

    def _share(self, limit: int) -> int:
        return max(min(limit, self.fewest), round(limit * self.effort))

    def lines_with(self, literals: Iterable[str], limit: int = LINES) -> list[int]:
        """Numbers of the lines that hold one of some literals, ascending.

        Args:
            literals: in lower case.
            limit: lines a literal that are taken from the beginning, fewer by `effort`; of the
                rest, half as many from the end, where a log that stopped is decided.
        """
        numbers: set[int] = set()
        limit = self._share(limit)
        for literal in filter(self.may_hold, literals):
            if not _forward(self, literal, limit, numbers):
                _backward(self, literal, limit // 2, numbers)
        return sorted(numbers)

    def with_literal(self, literal: str, limit: int = 100_000) -> Iterator[Line]:
        """Lines that hold a literal, given in lower case, any case in the text; each line once.

        The limit falls with `effort`.
        """
        if not self.may_hold(literal):
            return
        limit = self._share(limit)
        find, starts, total = self.lower.find, self.starts, len(self.text)
        at, count = find(literal), 0
        while at >= 0 and count < limit:
            index = bisect_right(starts, at)
            end = starts[index] if index < len(starts) else total
            begin = starts[index - 1]
            yield Line(index, self.text[begin : min(end, begin + MAX_LINE)].rstrip("\n"))
            count += 1
            if end >= total:
                return
            at = find(literal, end)


def _forward(log: LogText, literal: str, limit: int, into: set[int]) -> bool:
    """Line numbers with a literal from the beginning; whether all were seen."""
    find, starts, last = log.lower.find, log.starts, len(log.starts)
    at, count = find(literal), 0
    while at >= 0:
        if count >= limit:
            return False
        number = bisect_right(starts, at)
        into.add(number)
        if number >= last:
            return True
        count += 1
        at = find(literal, starts[number])
    return True


def _backward(log: LogText, literal: str, limit: int, into: set[int]) -> None:
    rfind, starts = log.lower.rfind, log.starts
    at, count = rfind(literal), 0
    while at >= 0 and count < limit:
        number = bisect_right(starts, at)
        into.add(number)
        count += 1
        at = rfind(literal, 0, starts[number - 1])


@lru_cache(maxsize=4096)
def _parts_of(literal: str) -> tuple[bytes, ...]:
    """Words of a literal without the characters of numbers."""
    return tuple(literal.encode().translate(None, _HEX_DIGITS).split())


def integer(text: str) -> int:
    """A number as logs print it: hexadecimal after 0x, else decimal, leading zeros or not."""
    return int(text, 16) if "x" in text.lower() else int(text)


def template_of(text: str) -> str:
    """A line with every number other than zero replaced: what a program prints again and again."""
    return _NUMBER.sub("1", text[:CLASSIFIED])


class Classifier(Generic[T]):
    """Classifies lines once a template, so that a log that repeats itself costs little.

    Args:
        classify: takes a line's text; its answer may depend on numbers only by their being zero.
    """

    def __init__(self, classify: Callable[[str], T]) -> None:
        self._classify = classify
        self._known: dict[str, T] = {}

    def __call__(self, text: str) -> T | None:
        """The class of a line; None once too many different lines were seen."""
        template = template_of(text)
        known = self._known.get(template, self)
        if known is not self:
            return known  # type: ignore[return-value]
        if len(self._known) >= MAX_TEMPLATES:
            return None
        answer = self._classify(text[:CLASSIFIED])
        self._known[template] = answer
        return answer


def _ascii_lower(text: str) -> str:
    return text.translate({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})


def log_from_text(text: str, name: str = "log") -> LogText:
    """A log from a string."""
    return log_from_bytes(text.encode("utf-8", "replace"), name)


def log_from_bytes(data: bytes, name: str = "log") -> LogText:
    """A log from raw bytes; what cannot be decoded becomes a replacement character."""
    cut = max(0, len(data) - MAX_BYTES)
    data = data[:MAX_BYTES]
    encoding = _encoding(data)
    if encoding is None:
        return LogText(name, "", "binary", cut, binary=True)
    text = data.decode(encoding, "replace").lstrip("\ufeff")
    if "\r" in text:
        # progress bars overwrite their line with a carriage return; each state becomes a line
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if not text.isprintable() and any(chr(c) in text for c in _CONTROL):
        text = text.translate(_CONTROL)
    return LogText(name, _unstamped(text), encoding, cut)


def _unstamped(text: str) -> str:
    """The text without the stamps of its lines, where most lines begin with one."""
    if len(text) > MAX_STAMPED:
        return text
    head = [line for line in text[:20_000].split("\n")[:200] if line.strip()]
    stamped = sum(1 for line in head if (found := _STAMP.match(line)) and found[0].strip())
    return _STAMP.sub("", text) if stamped > 0.6 * len(head) else text


def read_log(path: Path, effort: float = 1.0, fewest: int = FEWEST) -> LogText:
    """Read a log file.

    Args:
        path: the file.
        effort: see `LogText`.
        fewest: see `LogText`.

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
        log = replace(log_from_bytes(data, str(path)), effort=effort, fewest=fewest)
        if len(data) <= MAX_BYTES:
            return log
        size = file.seek(0, 2)
    return replace(log, cut=size - MAX_BYTES)


_UNPRINTED = bytes(code for code in range(32) if code < 9 or 13 < code < 27 or code > 27)


def _encoding(data: bytes) -> str | None:
    """Name of a codec, or None for a binary file."""
    head = data[:8192]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if not head:
        return "utf-8"
    zeros = head.count(0)
    control = len(head) - len(head.translate(None, _UNPRINTED))
    if zeros <= len(head) // 4 and control > len(head) // 12 and len(head) >= 256:
        return None
    if zeros > len(head) // 4:
        # UTF-16 without a mark: every second byte of mostly ASCII text is zero
        odd, even = head[1::2].count(0), head[0::2].count(0)
        if odd > 0.8 * (len(head) // 2) and even < len(head) // 40 + 1:
            return "utf-16-le"
        if even > 0.8 * (len(head) // 2) and odd < len(head) // 40 + 1:
            return "utf-16-be"
        return None
    # a UART capture may hold a burst of noise at reset; mostly noise is no text
    sample = head + data[len(data) // 2 : len(data) // 2 + 4096]
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(data) - 3:
            return "utf-8"
        high = sum(1 for byte in sample if byte >= 0x80)
        if high > len(sample) // 2:
            return None
        try:
            data.decode("gb18030")
        except UnicodeDecodeError:
            return "utf-8"
        return "gb18030" if high > len(sample) // 50 else "utf-8"
    return "utf-8"

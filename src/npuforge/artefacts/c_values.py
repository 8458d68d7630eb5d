"""The subset of C that generators of network code write: initialisers and calls as values.

No compiler and no preprocessor: comments and directives are skipped, casts dropped, a macro with
one argument is its argument (address macros are identities on a host). What stays symbolic stays
a `Symbol` or an `Apply`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from npuforge.artefacts.text import line_of
from npuforge.errors import ModelError

MAX_CHARACTERS = 1 << 27
MAX_DEPTH = 64


@dataclass(frozen=True)
class Symbol:
    """A name that has no value here: an enumerator, a variable, ``NULL``."""

    name: str


@dataclass(frozen=True)
class Apply:
    """A macro, function or operator applied to values."""

    function: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True)
class Record:
    """An initialiser with designators: ``.a.b = value``; later ones win."""

    fields: tuple[tuple[str, Value], ...]

    def get(self, name: str) -> Value | None:
        """Value of a field; None when the initialiser leaves it out."""
        return next((value for key, value in reversed(self.fields) if key == name), None)

    def integer(self, name: str, default: int = 0) -> int:
        """A field as a number; the default when it is absent or symbolic."""
        value = self.get(name)
        return value if isinstance(value, int) else default

    def text(self, name: str) -> str:
        """A field as a word: a string, or the name of an enumerator; empty when absent."""
        value = self.get(name)
        if isinstance(value, Symbol):
            return value.name
        return value if isinstance(value, str) else ""


Value = int | float | str | Symbol | Apply | Record | tuple["Value", ...]


def unwrapped(value: Value | None) -> Value | None:
    """A value without the braces around a single one: ``{{3}}`` is 3."""
    while isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return value


def integers(value: Value | None) -> tuple[int, ...]:
    """The whole numbers of an array; empty when it is none."""
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()


def reals(value: Value | None) -> tuple[float, ...]:
    """The numbers of an array; empty when it is none."""
    if not isinstance(value, tuple):
        return ()
    return tuple(
        float(v) for v in value if isinstance(v, float) or (isinstance(v, int) and abs(v) < 1 << 64)
    )


@dataclass(frozen=True)
class Definition:
    """``TYPE name[..] = initialiser;`` and where it stands in the text."""

    type: str
    name: str
    value: Value
    position: int


@dataclass(frozen=True)
class Call:
    """A call statement and where it stands in the text."""

    function: str
    arguments: tuple[Value, ...]
    position: int


_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*"
    r"|(?P<name>[A-Za-z_]\w*)|\"(?P<text>(?:[^\"\\\n]|\\.)*)\"|(?P<mark><<|>>|->|[^\s\w]))"
)
_WHOLE = re.compile(r"[\s0-9a-fA-FxXuUlL,-]*")
_REAL = re.compile(r"[\s0-9eEfF.,+-]*")
_TYPES = {"unsigned", "signed", "char", "short", "int", "long", "float", "double", "void", "const"}
_TYPES |= {"bool", "struct", "volatile"}
_DEFINITION = re.compile(
    r"(?<![\w.])(?=[A-Za-z_])(?:(?:static|const|constexpr|ECBLOB_CONST_SECTION)\s++)*+"
    r"(?P<type>[A-Za-z_]\w*+)(?=[\s*])\s*+(?:(?:\*|const\b)\s*+)*+(?P<name>[A-Za-z_]\w*+)\s*+"
    r"(?:\[[^\]\n]*+\]\s*+)*+(?:__attribute__\s*+\(\([^\n;{]{0,400}\)\)\s*+)?=\s*+(?P<open>\{)"
)
"""No part gives back what it took: comments become blanks, and blanks may be many."""
_SPACE = re.compile(r"[^\n]")


def without_comments(text: str) -> str:
    """The text with comments and directives blanked; positions and lines stay."""
    return _COMMENT.sub(lambda match: _SPACE.sub(" ", match[0]), text)


class _Reader:
    """Recursive descent over tokens from one position on."""

    def __init__(self, text: str, position: int, file: str) -> None:
        self.text, self.at, self.file = text, position, file
        self.kind, self.word, self.end = "", "", position
        self.depth = 0
        self.advance()

    def refuse(self, reason: str) -> ModelError:
        line = line_of(self.text, self.at)
        return ModelError("CMP-003", path=self.file, line=line, reason=reason)

    def advance(self) -> None:
        self.at = self.end
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            self.kind = self.word = ""
            return
        self.kind = match.lastgroup or ""
        self.word = match[self.kind]
        self.end = match.end()

    def expect(self, word: str) -> None:
        if self.word != word:
            raise self.refuse(f"{word!r} expected, {self.word[:40]!r} found")
        self.advance()

    def braces(self) -> Value:
        """An initialiser in braces."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse("nested too deep")
        numbers = self.numbers()
        if numbers is not None:
            self.depth -= 1
            return numbers
        self.expect("{")
        fields: list[tuple[str, Value]] = []
        items: list[Value] = []
        while self.word != "}":
            if not self.word:
                raise self.refuse("the file ends inside braces")
            key = self.designator()
            value = self.braces() if self.word == "{" else self.expression()
            if key:
                fields.append((key, value))
            else:
                items.append(value)
            if self.word == ",":
                self.advance()
            elif self.word != "}":
                raise self.refuse(f"',' expected, {self.word[:40]!r} found")
        self.advance()
        self.depth -= 1
        return Record(tuple(fields)) if fields else tuple(items)

    def numbers(self) -> Value | None:
        """A list of plain numbers, read at once; None when the braces hold something else."""
        start = self.text.index("{", self.at)
        end = self.text.find("}", start)
        inside = self.text[start + 1 : end]
        if end < 0 or not inside.strip():
            return None
        words = inside.replace(",", " ").split()
        try:
            if _WHOLE.fullmatch(inside):
                found: Value = tuple(int(_octal(word.rstrip("uUlL")), 0) for word in words)
            elif _REAL.fullmatch(inside):
                found = tuple(float(word.rstrip("fF")) for word in words)
            else:
                return None
        except ValueError:
            return None
        self.end = end + 1
        self.advance()
        return found

    def designator(self) -> str:
        """``.a.b =`` or ``MACRO(0) =``; empty when a plain value follows."""
        saved = (self.at, self.end, self.kind, self.word)
        parts: list[str] = []
        while self.word in (".", "["):
            if self.word == "[":
                self.advance()
                parts.append(f"[{self.word}]")
                self.advance()
                self.expect("]")
            else:
                self.advance()
                parts.append(f".{self.word}" if parts else self.word)
                self.advance()
        if not parts and self.kind == "name":
            parts.append(self.word)
            self.advance()
            if self.word == "(":
                self.advance()
                inner = ""
                while self.word not in (")", ""):
                    inner += self.word
                    self.advance()
                self.advance()
                parts.append(f"({inner})")
        if parts and self.word == "=":
            self.advance()
            return "".join(parts)
        self.at, self.end, self.kind, self.word = saved
        return ""

    def expression(self) -> Value:
        """A value, or the choice of two behind a condition; names stay symbols."""
        condition = self.terms()
        if self.word != "?":
            return condition
        self.advance()
        first = self.expression()
        self.expect(":")
        second = self.expression()
        if isinstance(condition, int):
            return first if condition else second
        return Apply("?", (condition, first, second))

    def terms(self) -> Value:
        """Sums, shifts and ors of operands."""
        left = self.operand()
        while self.word in ("+", "-", "|", "*", "<<", ">>", "==", "/"):
            mark = self.word
            self.advance()
            right = self.operand()
            left = _combined(mark, left, right)
        return left

    def operand(self) -> Value:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse("nested too deep")
        value = self._operand()
        while self.word in ("[", "->", "."):
            mark = self.word
            self.advance()
            part = self.expression() if mark == "[" else Symbol(self.word)
            if mark == "[":
                self.expect("]")
            else:
                self.advance()
            value = Apply(mark, (value, part))
        self.depth -= 1
        return value

    def _operand(self) -> Value:
        kind, word = self.kind, self.word
        if kind == "number":
            self.advance()
            return _number(word)
        if kind == "text":
            self.advance()
            parts = [word]
            while self.kind == "text":
                parts.append(self.word)
                self.advance()
            return "".join(parts)
        if word == "-":
            self.advance()
            value = self.operand()
            return -value if isinstance(value, int | float) else Apply("-", (value,))
        if word in ("&", "*", "~", "+"):
            self.advance()
            return self.operand()
        if word == "{":
            return self.braces()
        if word == "(":
            self.advance()
            if self.cast():
                return self.operand()
            value = self.expression()
            self.expect(")")
            return value
        if kind == "name":
            self.advance()
            return self.called(word) if self.word == "(" else Symbol(word)
        raise self.refuse(f"value expected, {word[:40]!r} found")

    def cast(self) -> bool:
        """Whether a type and its closing parenthesis follow; skips them then."""
        saved = (self.at, self.end, self.kind, self.word)
        names = 0
        while (
            self.kind == "name" and (self.word in _TYPES or self.word.endswith("_t") or names)
        ) or (names and self.word == "*"):
            names += 1
            self.advance()
        if names and self.word == ")":
            self.advance()
            return True
        self.at, self.end, self.kind, self.word = saved
        return False

    def called(self, name: str) -> Value:
        arguments = self.arguments()
        if len(arguments) == 1:
            return arguments[0]
        return Apply(name, arguments)

    def arguments(self) -> tuple[Value, ...]:
        """What stands between parentheses."""
        self.expect("(")
        found: list[Value] = []
        while self.word != ")":
            if not self.word:
                raise self.refuse("the file ends inside parentheses")
            found.append(self.expression())
            if self.word == ",":
                self.advance()
            elif self.word != ")":
                raise self.refuse(f"',' expected, {self.word[:40]!r} found")
        self.advance()
        return tuple(found)


def _octal(word: str) -> str:
    digits = word.lstrip("-").rstrip("uUlL")
    if len(digits) > 1 and digits.isdigit() and digits[0] == "0":
        return f"{'-' if word.startswith('-') else ''}0o{digits[1:]}"
    return word


def _number(word: str) -> int | float:
    try:
        return int(_octal(word), 0)
    except ValueError:
        return float(word)


def _combined(mark: str, left: Value, right: Value) -> Value:
    if isinstance(left, int) and isinstance(right, int):
        if mark == "+":
            return left + right
        if mark == "-":
            return left - right
        if mark == "|":
            return left | right
        if mark == "*":
            return left * right
        if mark in ("<<", ">>") and 0 <= right < 64:
            return left << right if mark == "<<" else left >> right
    if mark == "+" and isinstance(left, Apply) and left.function == "+":
        first, more = left.arguments
        if isinstance(more, int) and isinstance(right, int):
            return Apply("+", (first, more + right))
    return Apply(mark, (left, right))


def definitions(text: str, file: str, types: str = "") -> Iterator[Definition]:
    """Definitions with an initialiser in braces, in order.

    Args:
        text: comment-free text (see `without_comments`).
        file: name for messages.
        types: regular expression of the types wanted; all when empty.

    Raises:
        ModelError: CMP-003 with the line that does not parse.
    """
    wanted = re.compile(types) if types else None
    at = 0
    while match := _DEFINITION.search(text, at):
        at = match.end()
        if wanted is not None and not wanted.fullmatch(match["type"]):
            continue
        reader = _Reader(text, match.start("open"), file)
        value = reader.braces()
        at = reader.at
        yield Definition(match["type"], match["name"], value, match.start())


def calls(text: str, file: str, functions: str) -> Iterator[Call]:
    """Call statements of functions whose name matches a regular expression, in order.

    Raises:
        ModelError: CMP-003 with the line that does not parse.
    """
    for match in re.finditer(rf"(?<=[;{{}}\s])({functions})\s*\(", text):
        after = _Reader(text, match.end(1), file)
        try:
            arguments = after.arguments()
        except ModelError:
            if text[: match.start()].rstrip().endswith((";", "}", "{")):
                raise
            continue
        if after.word == ";":
            yield Call(match[1], arguments, match.start())

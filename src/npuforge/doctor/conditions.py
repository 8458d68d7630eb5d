"""Which code a build takes: preprocessor conditions around a line, and what decides them.

A statement about code is proved only where the code is compiled. A condition is decided by the
macros of the sources and by the build files; what neither decides, and what they exclude, makes a
finding possible instead of certain.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from npuforge.artefacts.recognise import Kind
from npuforge.doctor.project import Artefact, Project

_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*((?:[^\n\\]|\\\n|\\(?!\n))*)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|//.*", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(defined)\b|([A-Za-z_]\w*)|(0[xX][0-9a-fA-F]+|\d+)[uUlL]*|(&&|\|\||[=!<>]=|[!<>()+-]))"
)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(?![\w(])[ \t]*([^\n]*)", re.MULTILINE
)
_OPTION = re.compile(r"-D[ \t]*([A-Za-z_]\w*)(?:=([\w()]+))?")
_LISTED = re.compile(r"(?<=[\s\"';>(])([A-Z]\w{2,})(?:=([\w()]+))?(?=[\s\"';<)])")
"""How a project file of an IDE, or a list of CMake, names a macro."""
OPENS = re.compile(r"^[ \t]*(?:ifn?(?:eq|def)\b|if[ \t]*\()", re.MULTILINE)
CLOSES = re.compile(r"^[ \t]*(?:endif\b)", re.MULTILINE)
MAX_HEADERS = 6000
"""Headers that are searched for the definition of a macro; in larger trees it stays undecided."""


@dataclass(frozen=True)
class Condition:
    """One arm of a conditional.

    Attributes:
        text: its condition; "" for an ``#else``.
        earlier: conditions of the arms before it, none of which may hold.
    """

    text: str
    earlier: tuple[str, ...] = ()


def conditions_at(text: str) -> list[tuple[int, tuple[Condition, ...]]]:
    """Conditions by line: pairs of a first line and the conditions that hold from it on."""
    stack: list[Condition] = []
    found: list[tuple[int, tuple[Condition, ...]]] = [(1, ())]
    line, at = 1, 0
    for match in _DIRECTIVE.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        word, rest = match[1], " ".join(_COMMENT.sub(" ", match[2].replace("\\\n", " ")).split())
        if word in ("ifdef", "ifndef"):
            rest = ("!" if word == "ifndef" else "") + f"defined({rest})"
        if word.startswith("if"):
            if word == "ifndef" and _guards(text, match):
                rest = "1"
            stack.append(Condition(rest))
        elif word == "endif":
            del stack[-1:]
        elif stack:
            last = stack.pop()
            stack.append(Condition(rest if word == "elif" else "", (*last.earlier, last.text)))
        found.append((line, tuple(stack)))
    return found


def _guards(text: str, match: re.Match[str]) -> bool:
    """Whether an ``#ifndef`` is there for its own ``#define``: a guard, or a default."""
    name = match[2].split()[0] if match[2].split() else ""
    return re.match(rf"\s*#[ \t]*define[ \t]+{re.escape(name)}\b", text[match.end() :]) is not None


class Macros:
    """What macros of a project's sources and builds are, as far as the files say."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._built: Mapping[str, frozenset[str | None]] | None = None
        self._defined: dict[str, frozenset[str]] = {}

    def values(self, name: str) -> frozenset[str | None] | None:
        """Values a macro has somewhere; empty when nothing defines it, ``None`` when unknown.

        A ``None`` among the values is a definition that itself depends on a condition.
        """
        if self._built is None:
            self._built = self._options()
        values: set[str | None] = set(self._built.get(name, ()))
        headers = self.project.of(Kind.C_HEADER, Kind.C_SOURCE)
        if name not in self._defined:
            if len(headers) > MAX_HEADERS:
                return frozenset(values) or None
            self._defined[name] = frozenset(self._bodies(name, headers))
        values |= self._defined[name]
        if not values and (name.startswith("__") or not self.project.of(Kind.BUILD)):
            return None  # a compiler, or a device header outside, may define it
        return frozenset(values)

    def _bodies(self, name: str, headers: tuple[Artefact, ...]) -> set[str]:
        found = set()
        for item in headers:
            text = self.project.text(item)
            if name in text:
                found |= {
                    _COMMENT.sub(" ", body).strip()
                    for word, body in _DEFINE.findall(text)
                    if word == name
                }
        return found

    def _options(self) -> Mapping[str, frozenset[str | None]]:
        found: defaultdict[str, set[str | None]] = defaultdict(set)
        for item in self.project.of(Kind.BUILD):
            text = self.project.text(item)
            opens = [match.start() for match in OPENS.finditer(text)]
            closes = [match.start() for match in CLOSES.finditer(text)]
            make = item.path.suffix == ".mk" or "makefile" in item.path.name.lower()
            for match in (_OPTION if make else _LISTED).finditer(text):
                at = match.start()
                inside = sum(a < at for a in opens) > sum(a < at for a in closes)
                found[match[1]].add(None if inside else match[2] or "1")
        return {name: frozenset(values) for name, values in found.items()}


def holds(condition: str, macros: Macros) -> bool | None:
    """Whether a condition holds; ``None`` when the files do not decide it."""
    try:
        value = _Expression(condition, macros).value()
    except (ValueError, RecursionError):
        return None
    return None if value is None else bool(value)


class _Expression:
    """Precedence climbing over the few operators that conditions use."""

    LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"))

    def __init__(self, text: str, macros: Macros, depth: int = 0) -> None:
        self.macros, self.depth, self.at = macros, depth, 0
        self.tokens: list[str] = []
        end = 0
        text = text.strip()
        while end < len(text):
            match = _TOKEN.match(text, end)
            if match is None or len(self.tokens) > 400:
                raise ValueError(text)
            self.tokens.append(next(group for group in match.groups() if group))
            end = match.end()

    def value(self) -> int | None:
        found = self._level(0)
        if self.at != len(self.tokens):
            raise ValueError("rest")
        return found

    def _take(self, *words: str) -> str:
        if self.at < len(self.tokens) and (not words or self.tokens[self.at] in words):
            self.at += 1
            return self.tokens[self.at - 1]
        if words:
            return ""
        raise ValueError("end")

    def _level(self, level: int) -> int | None:
        if level == len(self.LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while word := self._take(*self.LEVELS[level]):
            left = _apply(word, left, self._level(level + 1))
        return left

    def _unary(self) -> int | None:
        word = self._take()
        if word == "!":
            inner = self._unary()
            return None if inner is None else int(not inner)
        if word == "-":
            inner = self._unary()
            return None if inner is None else -inner
        if word == "(":
            inner = self._level(0)
            if not self._take(")"):
                raise ValueError("bracket")
            return inner
        if word == "defined":
            bracket = self._take("(")
            name = self._take()
            if bracket and not self._take(")"):
                raise ValueError("bracket")
            return self._defined(name)
        if word[0].isdigit():
            return int(word, 16) if word[:2].lower() == "0x" else int(word)
        if not word.isidentifier():
            raise ValueError(word)
        return self._named(word)

    def _defined(self, name: str) -> int | None:
        values = self.macros.values(name)
        if values is None or (values and None in values):
            return None
        return int(bool(values))

    def _named(self, name: str) -> int | None:
        values = self.macros.values(name)
        if values is None or len(values) > 1 or None in values or self.depth > 8:
            return None
        if not values:
            return 0  # as the preprocessor takes a name that nothing defines
        body = next(iter(values)) or ""
        return _Expression(body, self.macros, self.depth + 1).value() if body else None


def _apply(word: str, left: int | None, right: int | None) -> int | None:
    if word == "&&" and (left == 0 or right == 0):
        return 0
    if word == "||" and (left or right):
        return 1
    if left is None or right is None:
        return None
    return {
        "||": int(bool(left or right)), "&&": int(bool(left and right)),
        "==": int(left == right), "!=": int(left != right), "<": int(left < right),
        ">": int(left > right), "<=": int(left <= right), ">=": int(left >= right),
        "+": left + right, "-": left - right,
    }[word]  # fmt: skip


def compiled(project: Project, file: str, line: int) -> bool | None:
    """Whether a line of a C source is compiled; ``None`` when the files do not decide it."""
    item = project.once("C sources by name", lambda: _named_sources(project)).get(file)
    if item is None:
        return True
    regions = project.once(("conditions", item.path), lambda: conditions_at(project.text(item)))
    around: tuple[Condition, ...] = ()
    for first, conditions in regions:
        if first >= line:  # the directive's own line belongs to what is around it
            break
        around = conditions
    macros = project.once("macros of the preprocessor", lambda: Macros(project))
    answer: bool | None = True
    for condition in around:
        truths = [holds(text, macros) for text in condition.earlier]
        own = holds(condition.text, macros) if condition.text else True
        if own is False or True in truths:
            return False
        if own is None or None in truths:
            answer = None
    return answer


def _named_sources(project: Project) -> Mapping[str, Artefact]:
    return {item.name: item for item in project.of(Kind.C_SOURCE)}

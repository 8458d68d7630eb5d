"""C sources without a compiler: functions, calls in order, assignments, variables, macros.

Built on tree-sitter, which survives macros and broken code. Expressions stay text; control flow is
the list of enclosing frames of each event.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 160
"""Nesting of statements and expressions that is followed."""
MAX_EVENTS = 20_000
"""Events kept of one function."""


class Frame(NamedTuple):
    """A control structure around an event.

    Attributes:
        kind: loop, if, else, case, pp (preprocessor condition).
        at: start byte of the structure, the same for all arms.
        arm: number of the arm, 0 for the first.
        condition: its text.
        line: where it starts.
    """

    kind: str
    at: int
    arm: int
    condition: str
    line: int


class Event(NamedTuple):
    """Something a function does, in the order of evaluation.

    Attributes:
        kind: call, assign, return, or declare.
        name: function called, or left side of the assignment.
        args: arguments of the call; for an assignment operator and right side; for a declaration
            its type.
        line: where.
        frames: enclosing control structures, outermost first.
        target: variable that takes the call's value, or "".
        used: whether the call's value is used at all.
    """

    kind: str
    name: str
    args: tuple[str, ...]
    line: int
    frames: tuple[Frame, ...]
    target: str = ""
    used: bool = False

    @property
    def text(self) -> str:
        """How it is quoted: a call or an assignment as written, anything else by its kind."""
        if self.kind == "call":
            return f"{self.name}({', '.join(self.args)})"
        if self.kind == "assign":
            return f"{self.name} {self.args[0]} {self.args[1]}".rstrip()
        return self.kind

    @property
    def loops(self) -> tuple[Frame, ...]:
        """Enclosing loops, outermost first."""
        return tuple(frame for frame in self.frames if frame.kind == "loop")


@dataclass(frozen=True)
class Variable:
    """A variable with storage: global, static or local.

    Attributes:
        name: its name.
        type: type text with qualifiers and attributes.
        dims: texts of the array sizes; empty for a scalar.
        pointer: declared with a star.
        initial: start of the initialiser, or "".
        line: where.
        function: enclosing function, or "".
        frames: preprocessor conditions around it.
    """

    name: str
    type: str
    dims: tuple[str, ...]
    pointer: bool
    initial: str
    line: int
    function: str
    frames: tuple[Frame, ...] = ()

    @property
    def static(self) -> bool:
        """Whether it lives as long as the program."""
        return not self.function or re.search(r"\bstatic\b", self.type) is not None

    @property
    def section(self) -> str:
        """Linker section named by an attribute, or ""."""
        match = re.search(r"section\s*\(\s*\"([^\"]+)\"", self.type)
        return match[1] if match else ""

    @property
    def aligned(self) -> int | str | None:
        """Alignment stated by an attribute: a number, the text of a macro, or ``None``."""
        match = re.search(r"align(?:ed|as)?\w*\s*\(\s*\(?\s*(\w+)", self.type, re.IGNORECASE)
        if match is None:
            match = re.search(r"ALIGN\w*?_?(\d+)", self.type)
        if match is None:
            return None
        return _integer(match[1]) if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", match[1]) else match[1]


@dataclass(frozen=True)
class Function:
    """A function definition.

    Attributes:
        name: its name.
        params: parameter names in order.
        types: parameter type texts.
        static: local to the file.
        head: return type and attributes.
        line: first line.
        end: last line.
        events: what it does, in order.
        frames: preprocessor conditions around it.
    """

    name: str
    params: tuple[str, ...]
    types: tuple[str, ...]
    static: bool
    head: str
    line: int
    end: int
    events: tuple[Event, ...]
    frames: tuple[Frame, ...] = ()

    @property
    def calls(self) -> Iterator[Event]:
        """Its calls in order."""
        return (event for event in self.events if event.kind == "call")


@dataclass(frozen=True)
class Macro:
    """A ``#define``; ``params`` is ``None`` for an object-like one."""

    name: str
    params: tuple[str, ...] | None
    body: str
    line: int
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class CSource:
    """What a C file holds."""

    functions: tuple[Function, ...] = ()
    variables: tuple[Variable, ...] = ()
    macros: tuple[Macro, ...] = ()
    includes: tuple[str, ...] = ()
    calls: tuple[Event, ...] = field(default=())
    """Macro invocations at file level."""


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_c

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language()))


def read_c(text: str) -> CSource:
    """Read a C file; broken parts are left out, nothing is raised."""
    data = _readable(text).encode("utf-8", errors="replace")
    return _Reader(data).read(_parser().parse(data).root_node)


def _readable(text: str) -> str:
    """Words that hide a declaration from the grammar, replaced by blanks of the same length."""
    text = _CPLUSPLUS.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = _LONE_MACRO.sub(r"\1;", text)
    return _WORDS.sub(_blank, text)


_CPLUSPLUS = re.compile(
    r"^[ \t]*#[ \t]*if(?:def[ \t]+__cplusplus|[ \t]+defined[ \t(]*__cplusplus[ \t)]*)[^\n]*\n"
    r"(?:[^#\n]*\n){0,4}?[ \t]*#[ \t]*endif[^\n]*",
    re.MULTILINE,
)
_LONE_MACRO = re.compile(r"^([A-Z][A-Z0-9_]{3,}\([^()\n]*\))[ \t]*(?=\n\s*+[^{\s])", re.MULTILINE)
_WORDS = re.compile(
    r"\b(?:__STATIC_INLINE|__STATIC_FORCEINLINE|__INLINE|__FORCEINLINE|__IO|__weak|__WEAK|"
    r"ALIGN_32BYTES(?=\s*\()|__NO_RETURN|IRAM_ATTR|LOCAL|EXPORT)(?!\w)"
)


def _blank(match: re.Match[str]) -> str:
    word = match[0]
    return "static".ljust(len(word)) if word.startswith("__STATIC") else " " * len(word)


_CONTROL = {"while_statement", "for_statement", "do_statement"}
_POINTING = {"pointer_declarator", "abstract_pointer_declarator", "function_declarator"}
_PP = {"preproc_if", "preproc_ifdef", "preproc_elif", "preproc_else", "preproc_elifdef"}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.macros: list[Macro] = []
        self.includes: list[str] = []
        self.calls: list[Event] = []
        self.events: list[Event] = []
        self.function = ""

    def read(self, root: Node) -> CSource:
        self._top(root, (), 0)
        return CSource(
            tuple(self.functions),
            tuple(self.variables),
            tuple(self.macros),
            tuple(self.includes),
            tuple(self.calls),
        )

    def text(self, node: Node | None) -> str:
        """Text of a node on one line."""
        if node is None:
            return ""
        raw = self.data[node.start_byte : node.end_byte].decode("utf-8", errors="replace")
        return " ".join(raw.split()) if "\n" in raw or "  " in raw else raw

    # -- file level

    def _top(
        self,
        node: Node,
        frames: tuple[Frame, ...],
        depth: int,
        skip: Collection[int] = (),
    ) -> None:
        if depth > MAX_DEPTH:
            return
        for child in node.named_children:
            kind = child.type
            if child.id in skip:
                continue
            if kind == "function_definition":
                self._function(child, frames)
            elif kind == "declaration":
                self._declaration(child, frames, top=True)
            elif kind in ("preproc_def", "preproc_function_def"):
                self._macro(child, frames)
            elif kind == "preproc_include":
                self.includes.append(self.text(child.child_by_field_name("path")).strip('"<>'))
            elif kind in _PP:
                self._conditional(child, frames, depth, top=True)
            elif kind == "expression_statement":
                before = self.events
                self.events = []
                self._expression(child, frames, 0)
                self.calls += [event for event in self.events if event.kind == "call"]
                self.events = before
            elif kind in ("linkage_specification", "declaration_list", "ERROR"):
                self._top(child, frames, depth + 1)

    def _macro(self, node: Node, frames: tuple[Frame, ...]) -> None:
        params = node.child_by_field_name("parameters")
        raw = self.text(node.child_by_field_name("value")).replace("\\ ", " ").strip()
        self.macros.append(
            Macro(
                self.text(node.child_by_field_name("name")),
                None if params is None else tuple(self.text(p) for p in params.named_children),
                re.split(r"/[*/]", raw, maxsplit=1)[0].strip() if '"' not in raw else raw,
                node.start_point[0] + 1,
                frames,
            )
        )

    def _conditional(self, node: Node, frames: tuple[Frame, ...], depth: int, *, top: bool) -> None:
        """Arms of an #if; ``#if 0`` and the rest behind ``#if 1`` are dropped."""
        at, arm, taken = node.start_byte, 0, False
        current: Node | None = node
        while current is not None and not taken:
            condition = self._pp_condition(current)
            other = current.child_by_field_name("alternative")
            if condition not in ("0", "(0)"):
                taken = condition in ("1", "(1)")
                frame = Frame("pp", at, arm, condition, current.start_point[0] + 1)
                skip = {
                    child.id
                    for child in (
                        current.child_by_field_name("condition"),
                        current.child_by_field_name("name"),
                        other,
                    )
                    if child is not None
                }
                inner = frames if taken else (*frames, frame)
                if top:
                    self._top(current, inner, depth + 1, skip)
                else:
                    for child in current.named_children:
                        if child.id not in skip:
                            self._statement(child, inner, depth + 1)
            current, arm = other, arm + 1

    def _pp_condition(self, node: Node) -> str:
        if node.type in ("preproc_ifdef", "preproc_elifdef"):
            word = self.data[node.start_byte : node.start_byte + 8].decode("latin-1")
            name = self.text(node.child_by_field_name("name"))
            return f"!defined({name})" if "ndef" in word else f"defined({name})"
        return self.text(node.child_by_field_name("condition")) or "else"

    def _function(self, node: Node, frames: tuple[Frame, ...]) -> None:
        declarator = node.child_by_field_name("declarator")
        body = node.child_by_field_name("body")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator") or next(
                (c for c in declarator.named_children if "declarator" in c.type), None
            )
        if declarator is None or body is None:
            if body is not None:
                self._top(body, frames, MAX_DEPTH - 1)
            return
        names, types = [], []
        for param in _children(declarator.child_by_field_name("parameters")):
            if param.type == "parameter_declaration":
                inner = param.child_by_field_name("declarator")
                names.append(self._declared(inner)[0])
                types.append(self.text(param))
        name = self.text(declarator.child_by_field_name("declarator"))
        head = self.data[node.start_byte : declarator.start_byte].decode("utf-8", "replace")
        outer, self.events, self.function = self.events, [], name
        self._statement(body, (), 0)
        self.functions.append(
            Function(
                name.strip("()* "),
                tuple(names) if names != [""] else (),
                tuple(types),
                re.search(r"\bstatic\b", head) is not None,
                " ".join(head.split()),
                node.start_point[0] + 1,
                node.end_point[0] + 1,
                tuple(self.events),
                frames,
            )
        )
        self.events, self.function = outer, ""

    def _declared(self, node: Node | None) -> tuple[str, tuple[str, ...], bool]:
        """Name, array sizes and whether a declarator is a pointer."""
        dims: list[str] = []
        pointer = False
        for _ in range(MAX_DEPTH):
            if node is None or node.type in ("identifier", "field_identifier", "type_identifier"):
                break
            if node.type == "array_declarator":
                dims.insert(0, self.text(node.child_by_field_name("size")))
            elif node.type in _POINTING:
                pointer = True
            node = node.child_by_field_name("declarator") or next(
                (
                    c
                    for c in node.named_children
                    if "declarator" in c.type or c.type == "identifier"
                ),
                None,
            )
        return self.text(node), tuple(dims), pointer

    def _declaration(self, node: Node, frames: tuple[Frame, ...], *, top: bool) -> None:
        declarators = node.children_by_field_name("declarator")
        if not declarators:
            return
        head = self.data[node.start_byte : declarators[0].start_byte].decode("utf-8", "replace")
        extra = " ".join(self.text(c) for c in node.children if c.type == "attribute_specifier")
        kind = " ".join(head.split()) + (f" {extra}" if extra and extra not in head else "")
        if re.search(r"\b(?:typedef|extern)\b", kind):
            return
        whole = self.data[node.start_byte : min(node.end_byte, node.start_byte + 1200)]
        after = re.search(rb"__attribute__\s*\(\(.*?\)\)", whole.split(b"=", 1)[0], re.DOTALL)
        if after is not None and "__attribute__" not in kind:
            kind += " " + " ".join(after[0].decode("utf-8", "replace").split())
        for item in declarators:
            value = item.child_by_field_name("value") if item.type == "init_declarator" else None
            inner = item.child_by_field_name("declarator") if value is not None else item
            if inner is not None and inner.type == "function_declarator":
                continue
            name, dims, pointer = self._declared(inner)
            attributes = " ".join(
                self.text(c) for c in item.named_children if c.type == "attribute_specifier"
            )
            initial = ""
            if value is not None:
                raw = self.data[value.start_byte : min(value.end_byte, value.start_byte + 400)]
                initial = " ".join(raw.decode("utf-8", "replace").split())
            line = (inner or item).start_point[0] + 1
            words = f"{kind} {attributes}".strip()
            self.variables.append(
                Variable(name, words, dims, pointer, initial, line, self.function, frames)
            )
            if top:
                continue
            if value is None:
                self._add(Event("declare", name, (words,), line, frames))
                continue
            if value.type != "initializer_list" or value.end_byte - value.start_byte < 4096:
                self._expression(value, frames, 0, target=name, used=True)
            self._add(Event("assign", name, ("=", initial), line, frames, target=words))

    # -- inside functions

    def _add(self, event: Event) -> None:
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)

    def _statement(self, node: Node, frames: tuple[Frame, ...], depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        kind = node.type
        if kind in ("compound_statement", "labeled_statement", "ERROR"):
            for child in node.named_children:
                self._statement(child, frames, depth + 1)
        elif kind == "expression_statement":
            self._expression(node, frames, depth)
        elif kind == "declaration":
            self._declaration(node, frames, top=False)
        elif kind == "if_statement":
            self._if(node, frames, depth)
        elif kind in _CONTROL:
            self._loop(node, frames, depth)
        elif kind == "switch_statement":
            self._expression(node.child_by_field_name("condition"), frames, depth)
            self._switch(node, frames, depth)
        elif kind == "return_statement":
            for child in node.named_children:
                self._expression(child, frames, depth, used=True, target="return")
            value = self.text(node).removeprefix("return").strip(" ;")
            self._add(Event("return", "", (value,), node.start_point[0] + 1, frames))
        elif kind in ("preproc_def", "preproc_function_def"):
            self._macro(node, frames)
        elif kind in _PP:
            self._conditional(node, frames, depth, top=False)
        elif kind in ("break_statement", "goto_statement", "continue_statement"):
            word = kind.split("_")[0]
            self._add(Event(word, self.text(node), (), node.start_point[0] + 1, frames))
        elif kind == "gnu_asm_expression" or "expression" in kind or kind == "identifier":
            self._expression(node, frames, depth)

    def _if(self, node: Node, frames: tuple[Frame, ...], depth: int) -> None:
        condition = node.child_by_field_name("condition")
        text = self.text(condition)
        self._expression(condition, frames, depth, used=True, target="if")
        line = node.start_point[0] + 1
        body = node.child_by_field_name("consequence")
        if body is not None and text not in ("(0)", "(false)"):
            frame = Frame("if", node.start_byte, 0, text, line)
            self._statement(body, (*frames, frame), depth + 1)
        other = node.child_by_field_name("alternative")
        if other is not None:
            frame = Frame("else", node.start_byte, 1, text, line)
            for child in other.named_children if other.type == "else_clause" else [other]:
                self._statement(child, (*frames, frame), depth + 1)

    def _loop(self, node: Node, frames: tuple[Frame, ...], depth: int) -> None:
        condition = node.child_by_field_name("condition")
        text = self.text(condition)
        frame = Frame(
            "loop", node.start_byte, 0, f"{node.type[:2]} {text}", node.start_point[0] + 1
        )
        inner = (*frames, frame)
        first = node.child_by_field_name("initializer")
        if first is not None:
            if first.type == "declaration":
                self._declaration(first, frames, top=False)
            else:
                self._expression(first, frames, depth)
        body = node.child_by_field_name("body")
        if node.type != "do_statement":
            self._expression(condition, inner, depth, used=True, target="while")
        if body is not None:
            self._statement(body, inner, depth + 1)
        self._expression(node.child_by_field_name("update"), inner, depth)
        if node.type == "do_statement":
            self._expression(condition, inner, depth, used=True, target="while")
        self._add(Event("endloop", "", (), node.end_point[0] + 1, inner))

    def _switch(self, node: Node, frames: tuple[Frame, ...], depth: int) -> None:
        line = node.start_point[0] + 1
        for arm, child in enumerate(_children(node.child_by_field_name("body"))):
            if child.type != "case_statement":
                self._statement(child, frames, depth + 1)
                continue
            value = child.child_by_field_name("value")
            frame = Frame("case", node.start_byte, arm, self.text(value) or "default", line)
            for part in child.named_children:
                if value is None or part.id != value.id:
                    self._statement(part, (*frames, frame), depth + 1)

    def _expression(
        self,
        node: Node | None,
        frames: tuple[Frame, ...],
        depth: int,
        target: str = "",
        used: bool = False,
    ) -> None:
        if node is None or depth > MAX_DEPTH:
            return
        kind = node.type
        if kind == "call_expression":
            self._call(node, frames, depth, target, used)
        elif kind == "assignment_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            name = self.text(left)
            self._expression(right, frames, depth + 1, target=name, used=True)
            if left is not None and left.type != "identifier":
                self._expression(left, frames, depth + 1, used=True)
            operator = self.text(node.child_by_field_name("operator"))
            value = self.text(right)[:400]
            self._add(Event("assign", name, (operator, value), node.start_point[0] + 1, frames))
        elif kind == "update_expression":
            name = self.text(node.child_by_field_name("argument"))
            self._add(Event("assign", name, ("++", ""), node.start_point[0] + 1, frames))
        elif kind == "gnu_asm_expression":
            self._add(Event("asm", "", (self.text(node)[:800],), node.start_point[0] + 1, frames))
        elif kind == "cast_expression":
            void = self.text(node.child_by_field_name("type")) == "void"
            inner = node.child_by_field_name("value")
            self._expression(inner, frames, depth + 1, target, used and not void)
        elif kind in ("parenthesized_expression", "expression_statement", "comma_expression"):
            for child in node.named_children:
                self._expression(child, frames, depth + 1, target, used)
        elif kind not in ("identifier", "number_literal", "string_literal", "initializer_list"):
            for child in node.named_children:
                self._expression(child, frames, depth + 1, target, True)
        elif kind == "initializer_list" and node.end_byte - node.start_byte < 4096:
            for child in node.named_children:
                self._expression(child, frames, depth + 1, "", True)

    def _call(
        self, node: Node, frames: tuple[Frame, ...], depth: int, target: str, used: bool
    ) -> None:
        args = []
        for child in _children(node.child_by_field_name("arguments")):
            if child.type == "comment":
                continue
            self._expression(child, frames, depth + 1, used=True)
            args.append(self.text(child)[:400])
        name = self.text(node.child_by_field_name("function"))
        line = node.start_point[0] + 1
        self._add(Event("call", name, tuple(args), line, frames, target, used))


def _children(node: Node | None) -> list[Node]:
    return [] if node is None else node.named_children


_NUMBER = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b")
_SIZEOF = re.compile(r"sizeof\s*\(\s*((?:u?int(?:8|16|32)_t|float|char|float32_t))\s*\)")
_SIZES = {"int8_t": 1, "uint8_t": 1, "char": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4,
          "uint32_t": 4, "float": 4, "float32_t": 4}  # fmt: skip
_CAST = re.compile(
    r"\(\s*(?:u?int(?:8|16|32|ptr)_t|uintptr_t|size_t|unsigned(?: int)?|int)\s*\*?\s*\)"
)
_ALLOWED = re.compile(r"[0-9+\-*/()<>|&~% ]*")


def constant(text: str, macros: Mapping[str, str], depth: int = 12) -> int | None:
    """Value of an integer expression over literals and object-like macros, or ``None``."""
    text = _SIZEOF.sub(lambda m: str(_SIZES[m[1]]), text)
    text = _CAST.sub(" ", text)
    for _ in range(depth):
        names = set(re.findall(r"[A-Za-z_]\w*", _NUMBER.sub(" ", text)))
        if not names:
            break
        if not all(name in macros for name in names) or len(text) > 400:
            return None
        text = re.sub(
            r"\b[A-Za-z_]\w*\b",
            lambda m: f"({macros[m[0]]})" if m[0] in macros else m[0],
            text,
        )
    if len(text) > 2000:
        return None
    text = _NUMBER.sub(lambda m: str(_integer(m[1])), text)
    if not text.strip() or len(text) > 400 or not _ALLOWED.fullmatch(text) or "**" in text:
        return None
    from npuforge.artefacts.linker_script import evaluate

    return evaluate(text, {}, {})


def _integer(text: str) -> int:
    if text.lower().startswith("0x"):
        return int(text, 16)
    return (
        int(text, 8)
        if len(text) > 1 and text[0] == "0" and text.isdigit() and not (set(text) & set("89"))
        else int(text)
    )

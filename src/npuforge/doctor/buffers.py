"""Which expressions mean a network's input or output, and what functions do to their arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from npuforge.artefacts.c_source import Event, Function
from npuforge.doctor import names
from npuforge.doctor.project import Project
from npuforge.doctor.sources import Program, Source, Sources, Step

IN, OUT = "input", "output"
_CAST = re.compile(
    r"^\(\s*(?:const |volatile |unsigned |signed |struct )*[A-Za-z_]\w*\s*(?:const\s*)?\**\s*\)"
    r"(?=\s*[\w(&*])"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:(?:->|\.)[A-Za-z_]\w*)*")


def base_of(text: str) -> str:
    """The variable an address or element expression starts from, without casts and indices."""
    text = text.strip()
    for _ in range(12):
        before = text
        if text.startswith("(") and _closes_at_end(text):
            text = text[1:-1].strip()
        cast = _CAST.match(text)
        if cast and cast.end() < len(text):
            text = text[cast.end() :].strip()
        text = text.lstrip("&*~ ")
        if text == before:
            break
    match = _IDENTIFIER.match(text)
    return match[0] if match else ""


def _closes_at_end(text: str) -> bool:
    depth = 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0:
            return at == len(text) - 1
    return False


@dataclass
class Roles:
    """What variables mean so far in a trace; grows with each assignment."""

    roles: dict[str, str] = field(default_factory=dict)

    def of(self, text: str) -> str:
        """``input``, ``output``, the name of another variable, or ""."""
        if re.search(r"LL_Buffer_addr_start\s*\(.*\)", text):
            return self.meaning(text)
        name = base_of(text)
        for _ in range(8):
            following = self.roles.get(name)
            if following is None or following == name:
                break
            name = following
        return name

    def learn(self, step: Step) -> None:
        """Take an assignment or a call into account."""
        event = step.event
        if event.kind == "assign" and event.args[0] == "=":
            role = self.meaning(event.args[1])
            name = base_of(event.name)
            # a value put into a tensor does not change what the pointer to it means
            element = re.search(r"\[|^\s*\*", event.name) is not None
            if role and not (element and role not in (IN, OUT) and self.of(name) in (IN, OUT)):
                self.roles[name] = role
        elif event.kind == "call":
            self._call(event)
        elif event.kind == "return" and step.outer is not None and step.outer.event.target:
            # what a function hands out is what its caller holds then
            role = self.meaning(event.args[0]) if event.args else ""
            if role in (IN, OUT):
                self.roles[base_of(step.outer.event.target)] = role

    def meaning(self, value: str) -> str:
        """Role, or variable, that a value stands for; "" when it is neither."""
        match = re.search(r"LL_Buffer_addr_(?:start|end)\s*\((.*)\)", value)
        for word, role in (("nput", IN), ("utput", OUT)):
            if re.search(rf"\w{word}_[Bb]uffers_[Ii]nfo\w*\s*\(|Get_User_\w{word}_Buffer", value):
                return f"{role} info" if "nfo" in value and not match else role
        if match or "addr_base" in value or "offset_start" in value:
            info = self.of(match[1] if match else value.split("(")[-1])
            info = info if info.endswith("info") else self._info(value)
            if info.endswith(" info") and ("addr" in value or match):
                return info.removesuffix(" info")
            return ""
        if re.match(r"^[&*(]*[A-Za-z_(]", value.strip()) and "(" not in _uncast(value):
            name = base_of(value)
            role = self.of(value)
            if re.search(r"[-+*/%<>=!?]", _uncast(value).replace("->", "").lstrip("&* ")):
                return role if role in (IN, OUT) and "+" in value else ""
            return role or name
        return ""

    def _info(self, value: str) -> str:
        for name in _IDENTIFIER.findall(value):
            role = self.of(name.split("->")[0].split(".")[0])
            if role.endswith(" info"):
                return role
        return ""

    def _call(self, event: Event) -> None:
        match = names.SET_USER.fullmatch(event.name)
        if match and len(event.args) >= 2:
            role = IN if (match[1] or match[2] or "").lower().startswith("in") else OUT
            name = self.of(event.args[1])
            if name:
                self.roles[name] = role
            return
        match = re.fullmatch(r"stai_(?!runtime)\w+_get_(inputs|outputs)", event.name)
        if match and len(event.args) >= 2:
            self.roles[base_of(event.args[1])] = IN if match[1] == "inputs" else OUT


def roles_of(project: Project, program: Program) -> Roles:
    """What variables mean at the end of a program's trace; learnt once, shared by the checks."""

    def learn() -> Roles:
        roles = Roles()
        for step in program.steps:
            roles.learn(step)
        return roles

    entry = program.entry
    return project.once(("roles", program.source.artefact.path, entry.line, entry.name), learn)


def _uncast(text: str) -> str:
    text = text.strip()
    while (match := _CAST.match(text)) is not None:
        text = text[match.end() :].strip()
    return text


# -- what a function does to its pointer arguments

_WRITES = re.compile(
    r"mem(?:cpy|set|move)|\w*[Pp]re_?[Pp]rocess\w*|\w*[Rr]esize\w*|\w*[Cc]rop\w*|\w*[Nn]ormali[sz]e\w*|"
    r"\w*[Ff]ill\w*|\w*[Cc]onvert\w*|\w*_to_(?:rgb|int8|u?int8|float)\w*|img_\w+|\w*[Qq]uantize\w*|"
    r"fread|f_read|lfs_file_read"
)
_NOT_CPU = re.compile(
    r"SCB_\w+|\w*[Cc]ache\w*|LL_\w+|stai_\w+|HAL_\w+|CMW_\w+|BSP_\w+|\w*Pipe_Start\w*|\w*DMA\w*|"
    r"assert\w*|sizeof|free|malloc|\w*_Start\w*|\w*[Dd]cmipp\w*|memalign|configASSERT|\w*ASSERT\w*"
)


class Effects:
    """Which parameters a function reads or writes through, itself or in what it calls."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._known: dict[tuple[str, int, str], tuple[frozenset[int], frozenset[int]]] = {}

    def of_call(self, event: Event, near: Source) -> tuple[frozenset[int], frozenset[int]]:
        """Argument numbers that a call reads and writes through."""
        found = self.sources.resolve(event.name, near)
        if found is not None:
            return self.of_function(*found)
        every = range(len(event.args))
        if re.fullmatch(r"mem(?:cpy|move)", event.name):
            return frozenset({1}), frozenset({0})
        if event.name == "memset":
            return frozenset(), frozenset({0})
        if _NOT_CPU.fullmatch(event.name):
            return frozenset(), frozenset()
        if _WRITES.fullmatch(event.name):
            return frozenset(every), frozenset(every)
        return frozenset(every), frozenset()

    def of_function(
        self, source: Source, function: Function
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Parameter numbers that a function reads and writes through."""
        key = (source.artefact.name, function.line, function.name)
        if key in self._known:
            return self._known[key]
        self._known[key] = (frozenset(), frozenset())
        place = {name: at for at, name in enumerate(function.params) if name}
        reads: set[int] = set()
        writes: set[int] = set()
        conditions: set[int] = set()
        for event in function.events:
            for frame in event.frames:
                if frame.at not in conditions:
                    conditions.add(frame.at)
                    _dereferenced(frame.condition, place, reads)
            if event.kind == "assign":
                self._assign(event, place, reads, writes)
            elif event.kind == "call":
                inner_reads, inner_writes = self.of_call(event, source)
                for at, argument in enumerate(event.args):
                    owner = place.get(base_of(argument))
                    if owner is not None and _pointer(argument):
                        reads |= {owner} if at in inner_reads else set()
                        writes |= {owner} if at in inner_writes else set()
            elif event.kind in ("return", "if"):
                _dereferenced(event.args[0], place, reads)
        self._known[key] = (frozenset(reads), frozenset(writes))
        return self._known[key]

    @staticmethod
    def _assign(event: Event, place: dict[str, int], reads: set[int], writes: set[int]) -> None:
        owner = place.get(base_of(event.name))
        if owner is not None and re.search(r"[\[*]|->", event.name):
            writes.add(owner)
        _dereferenced(event.args[1], place, reads)
        if event.args[0] == "=" and event.name.isidentifier():
            source = place.get(base_of(event.args[1]))
            if source is not None and "[" not in event.args[1]:
                place.setdefault(event.name, source)


def _pointer(argument: str) -> bool:
    return not re.search(r"\[|^\*", argument) or argument.startswith("&")


def _dereferenced(text: str, place: dict[str, int], reads: set[int]) -> None:
    for name in re.findall(r"([A-Za-z_]\w*)\s*\[|\*\s*([A-Za-z_]\w*)", text):
        owner = place.get(name[0] or name[1])
        if owner is not None:
            reads.add(owner)

"""Which functions a program reaches from its start-up, and which of its calls lead out of sight."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping

from npuforge.artefacts.c_source import Function
from npuforge.artefacts.recognise import Kind
from npuforge.doctor.findings import Evidence
from npuforge.doctor.project import Project
from npuforge.doctor.sources import ENTRIES, PRIMITIVE, VENDOR, Source, sources_of

Place = tuple[str, int]
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLED_BY_HARDWARE = re.compile(r"\w*(?:IRQHandler|_Handler|Callback)|SystemInit")
_KNOWN = re.compile(
    r"(?:HAL|LL|BSP|SCB|NVIC|MX|ARM|arm|RIF|BOOT|stai|LL_ATON|ll_aton|tx|ux|nx|fx|os|lv|UTIL|ISP|CMW|"
    r"__HAL|__|aiPp|app_postprocess|SystemClock|SystemCore|EXTMEM|k|xTask|xQueue|xSemaphore|xEvent|"
    r"xTimer|pv|vTask|vQueue|vPort|vSemaphore|NN)_?[A-Z_0-9]\w*|"
    r"(?:mem|str|f|v|s|sn|vs|vsn|put|get|is|to|a|l|ll|wcs)?(?:cpy|set|move|cmp|len|chr|str|tok|cat|"
    r"printf|puts|putchar|getc|digit|alpha|upper|lower|open|close|read|write|seek|flush|free|abs)\w?|"
    r"(?:m|c|re)alloc|memalign|rand|srand|qsort|exp|expf|logf?|sqrtf?|powf?|sinf?|cosf?|tanf?|atan2?f?|floorf?|"
    r"ceilf?|roundf?|lroundf?|fabsf?|fminf?|fmaxf?|time|clock|exit|abort|assert\w*|sizeof|offsetof|"
    r"va_\w+|if|while|for|switch|return|UNUSED|MIN|MAX|IS_\w+|configASSERT|portYIELD\w*|"
    r"taskENTER_\w+|taskEXIT_\w+|pdMS_TO_TICKS|[A-Z][A-Z0-9_]+"
)
"""Calls of the C library, the HAL, kernels and their like, which do nothing for a network."""
MAX_SEARCHED = 3000
"""Sources of a tree up to which definitions are looked for outside of the parsed ones."""


def _index(project: Project) -> Mapping[str, list[tuple[int, int, str]]]:
    """Functions of each parsed file: first line, last line, name."""

    def make() -> Mapping[str, list[tuple[int, int, str]]]:
        return {
            source.artefact.name: [(f.line, f.end, f.name) for f in source.code.functions]
            for source in sources_of(project).files
        }

    return project.once("functions by file", make)


def _around(project: Project, file: str, line: int) -> tuple[int, str] | None:
    for first, last, name in _index(project).get(file, ()):
        if first <= line <= last:
            return first, name
    return None


def function_at(project: Project, file: str, line: int) -> str | None:
    """Name of the function that a line belongs to."""
    found = _around(project, file, line)
    return None if found is None else found[1]


def the_entry(project: Project) -> Evidence | None:
    """The entry point of a project that has one only."""
    sources = sources_of(project)
    entries = [pair for name in ENTRIES for pair in sources.functions.get(name, ())]
    if len(entries) != 1:
        return None
    source, function = entries[0]
    return source.at(function.line, function.name)


def _live(project: Project) -> Mapping[Place, Evidence]:
    """Functions that an entry point or the hardware reaches, with the place where it starts."""

    def make() -> Mapping[Place, Evidence]:
        sources = sources_of(project)
        found: dict[Place, Evidence] = {}
        queue: deque[tuple[Source, Function, Evidence]] = deque()
        for name, pairs in sources.functions.items():
            if name in ENTRIES or _CALLED_BY_HARDWARE.fullmatch(name):
                for source, function in pairs:
                    queue.append((source, function, source.at(function.line, name)))
        queue = deque(sorted(queue, key=lambda item: item[1].name not in ENTRIES))
        while queue:
            source, function, entry = queue.popleft()
            place = (source.artefact.name, function.line)
            if place in found:
                continue
            found[place] = entry
            for name in _named(project, source, function):
                pair = sources.resolve(name, source)
                if pair is not None:
                    queue.append((*pair, entry))
        return found

    return project.once("reached functions", make)


def _named(project: Project, source: Source, function: Function) -> Iterator[str]:
    """Everything that a function names: what it calls, starts as a task or puts into a table."""
    sources = sources_of(project)
    seen: set[str] = set()
    pending = []
    for event in function.events:
        yield event.name
        pending += _WORD.findall(" ".join((event.name, *event.args)))
    while pending:
        word = pending.pop()
        if word in seen:
            continue
        seen.add(word)
        yield word
        for _, macro in sources.macros.get(word, ()):
            pending += _WORD.findall(macro.body)
        for _, variable in sources.variables.get(word, ()):
            pending += _WORD.findall(variable.initial)


def reached(project: Project, file: str, line: int) -> Evidence | None:
    """Where a program starts that reaches the function around a line; ``None`` when none does."""
    around = _around(project, file, line)
    return None if around is None else _live(project).get((file, around[0]))


def reached_in(project: Project, file: str) -> tuple[str, ...]:
    """Names of the functions of a file that a program reaches."""
    live = _live(project)
    return tuple(name for line, _, name in _index(project).get(file, ()) if (file, line) in live)


def hidden_calls(project: Project) -> tuple[Evidence, ...]:
    """Calls, in code that runs, of functions whose code is in none of the files."""

    def make() -> tuple[Evidence, ...]:
        sources = sources_of(project)
        live = _live(project)
        hidden: dict[str, Evidence] = {}
        for source, function, event in sources.all_events():
            name = event.name
            if event.kind != "call" or (source.artefact.name, function.line) not in live:
                continue
            if name in hidden or not name.isidentifier() or name in sources.macros:
                continue
            if sources.resolve(name, source) is not None or name in function.params:
                continue
            if not (PRIMITIVE.fullmatch(name) or _KNOWN.fullmatch(name)):
                hidden[name] = source.at(event.line, event.text)
        if hidden:
            for name in _defined(project, set(hidden)):
                del hidden[name]
        return tuple(hidden.values())

    return project.once("hidden calls", make)


def _defined(project: Project, names: set[str]) -> set[str]:
    """Names that a source outside of the parsed ones, the vendor's among them, defines."""
    items = project.of(Kind.C_SOURCE, Kind.C_HEADER)
    if len(items) > MAX_SEARCHED:
        return set()
    found: set[str] = set()
    for item in sorted(items, key=lambda item: not VENDOR.search(item.name)):
        text = project.text(item)
        for name in names - found:
            if name in text and re.search(
                rf"\b{name}\s*\([^;{{}}]*\)\s*\{{|#[ \t]*define[ \t]+{name}\b", text
            ):
                found.add(name)
    return found

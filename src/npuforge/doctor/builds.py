"""Which build takes a source: what build files list, what they collect, what a map shows."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.conditions import CLOSES, OPENS
from npuforge.doctor.findings import Evidence
from npuforge.doctor.project import Artefact, Project

_LISTED = re.compile(r"[\w./\\$(){}@*+-]{1,240}\.(?:cpp|cxx|cc|c)(?![\w.])", re.IGNORECASE)
_VARIABLE = re.compile(
    r"^[ \t]*(?:set[ \t]*\([ \t]*(\w+)[ \t]+|(\w+)[ \t]*[:?+]?=[ \t]*)([^\n#)]{1,400})",
    re.MULTILINE | re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$[({](\w+)[)}]")
_ENTRY = re.compile(r"<entry\b([^>]*kind=\"sourcePath\"[^>]*)/?>")
_ATTRIBUTE = re.compile(r"(\w+)=\"([^\"]*)\"")
_LINK = re.compile(
    r"<link>\s*<name>([^<]*)</name>\s*<type>([12])</type>\s*<location(?:URI)?>([^<]*)</location",
)
_BY_NAME = re.compile(r"stm32\w+_hal_conf\.h|FreeRTOSConfig\.h|tx_user\.h|ll_aton_version\.h")
"""Headers that the vendor's and the kernel's sources include by their names."""
_PROJECTS = (".uvprojx", ".ewp")
MAX_BUILD = 4 << 20
"""Bytes; longer build files are not looked at."""


@dataclass(frozen=True)
class _Taken:
    """Sources that a build file takes: a file, or all files of a folder."""

    parts: tuple[str, ...]
    folder: bool
    deep: bool
    exact: bool
    left_out: tuple[str, ...]
    where: Evidence

    def holds(self, file: str) -> bool:
        """Whether it takes a file."""
        parts = tuple(file.split("/"))
        if not self.folder:
            return parts[-len(self.parts) :] == self.parts and (
                not self.exact or len(parts) == len(self.parts)
            )
        inside = parts[:-1]
        if self.exact:
            size = len(self.parts)
            if inside[:size] != self.parts or (len(inside) > size and not self.deep):
                return False
            rest = "/".join(parts[size:])
            return not any(rest == name or rest.startswith(f"{name}/") for name in self.left_out)
        if not self.parts:
            return False
        size = len(self.parts)
        starts = range(len(inside) - size + 1) if self.deep else (len(inside) - size,)
        return any(start >= 0 and inside[start : start + size] == self.parts for start in starts)


def built(project: Project, item: Artefact) -> Evidence | None:
    """Where a build takes a source; ``None`` when no build file or map says so."""
    if item.kind is Kind.C_HEADER:
        return _included(project, item)
    for taken in project.once("sources of builds", lambda: tuple(_taken(project))):
        if taken.holds(item.name):
            return taken.where
    return _mapped(project, item)


def _included(project: Project, item: Artefact) -> Evidence | None:
    """The source that includes a header of this name, where the tree has only one such header."""
    name = item.path.name
    if sum(other.path.name == name for other in project.of(Kind.C_HEADER)) != 1:
        return None
    if _BY_NAME.fullmatch(name):
        return item.at(1)
    pattern = re.compile(
        rf'^[ \t]*#[ \t]*include[ \t]+[<"](?:[\w./-]*/)?{re.escape(name)}[">]', re.M
    )
    for other in project.of(Kind.C_SOURCE):
        text = project.text(other)
        if name in text and (match := pattern.search(text)):
            return other.at(line_of(text, match.start()), match[0])
    return None


def _mapped(project: Project, item: Artefact) -> Evidence | None:
    stem = item.path.name
    same = [other for other in project.of(Kind.C_SOURCE, Kind.NETWORK_C) if other.path.name == stem]
    if len(same) != 1:
        return None
    base = re.escape(item.path.stem)
    suffix = re.escape(item.path.suffix)
    name = re.compile(rf"(?<![\w.-]){base}(?:{suffix})?\.o(?:bj)?\b")
    for other in project.of(Kind.MAP):
        text = project.text(other)
        if item.path.stem in text and (match := name.search(text)):
            return other.at(line_of(text, match.start()), match[0])
    return None


def _taken(project: Project) -> Iterator[_Taken]:
    for item in project.artefacts:
        name = item.path.name.lower()
        project_file = name.endswith(_PROJECTS) or name.endswith((".cproject.yml", ".clayer.yml"))
        if item.size > MAX_BUILD or not (
            item.kind is Kind.BUILD or project_file or name in (".project", "platformio.ini")
        ):
            continue
        folder = tuple(part for part in item.name.split("/")[:-1])
        if name == ".cproject":
            yield from _entries(project, item, folder)
        elif name == ".project":
            yield from _links(project, item, folder)
        elif name == "platformio.ini":
            for sub in ("src", "lib"):
                yield _Taken((*folder, sub), True, True, True, (), item.at(1))
        else:
            yield from _lists(project, item, folder)


def _entries(project: Project, item: Artefact, folder: tuple[str, ...]) -> Iterator[_Taken]:
    """Source folders of an Eclipse project, with what they leave out."""
    text = project.text(item)
    for match in _ENTRY.finditer(text):
        values = dict(_ATTRIBUTE.findall(match[1]))
        parts = tuple(part for part in values.get("name", "").split("/") if part)
        left_out = tuple(name for name in values.get("excluding", "").split("|") if name)
        where = item.at(line_of(text, match.start()), match[0])
        yield _Taken((*folder, *parts), True, True, True, left_out, where)


def _links(project: Project, item: Artefact, folder: tuple[str, ...]) -> Iterator[_Taken]:
    """Sources that an Eclipse project links from elsewhere, unless a build leaves them out."""
    settings = next(
        (
            other for other in project.of(Kind.BUILD)
            if other.name == "/".join((*folder, ".cproject"))
        ),
        None,
    )  # fmt: skip
    if settings is None:
        return
    entries = [dict(_ATTRIBUTE.findall(m)) for m in _ENTRY.findall(project.text(settings))]
    text = project.text(item)
    for match in _LINK.finditer(text):
        inside = [e for e in entries if _within(match[1], e.get("name", ""))]
        out = [
            name
            for e in inside
            for name in e.get("excluding", "").split("|")
            if name and _within(match[1], "/".join(filter(None, (e.get("name", ""), name))))
        ]
        up = re.match(r"PARENT-(\d+)-PROJECT_LOC/(.*)", match[3])
        if not inside or out or (up is None and "PROJECT_LOC" not in match[3]):
            continue
        levels, rest = (int(up[1]), up[2]) if up else (0, match[3].partition("PROJECT_LOC/")[2])
        if levels > len(folder):
            continue
        parts = (*folder[: len(folder) - levels], *(p for p in rest.split("/") if p))
        whole = match[2] == "2"
        yield _Taken(parts, whole, True, True, (), item.at(line_of(text, match.start()), match[1]))


def _within(name: str, folder: str) -> bool:
    return not folder or name == folder or name.startswith(f"{folder}/")


def _lists(project: Project, item: Artefact, folder: tuple[str, ...]) -> Iterator[_Taken]:
    """Sources that a Makefile, a CMake list or a project of another IDE names or collects."""
    text = project.text(item)
    opens = [match.start() for match in OPENS.finditer(text)]
    closes = [match.start() for match in CLOSES.finditer(text)]
    values = {m[1] or m[2]: m[3].strip().strip("\"'") for m in _VARIABLE.finditer(text)}
    for match in _LISTED.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start : match.start()]
        if "#" in line or "%" in line or match[0].startswith(("%", "*.c.")):
            continue
        if sum(at < start for at in opens) > sum(at < start for at in closes):
            continue  # under a condition
        word = match[0].replace("\\", "/").lstrip("({")
        for _ in range(4):
            known = _REFERENCE.search(word)
            if known is None or known[1] not in values or "$" in values[known[1]][:1]:
                break
            word = word.replace(known[0], values[known[1]].split()[0], 1)
        deep = "**" in word or re.search(r"RECURSE|rwildcard|find\b", line) is not None
        words = word.split("/")
        rooted = not re.search(r"[$(){}]", word)
        parts = tuple(p for p in words if p not in ("", ".", "..") and not re.search(r"[$(){}]", p))
        where = item.at(line_of(text, match.start()), match[0])
        globbed = "*" in parts[-1] if parts else True
        if not parts or ("*" in parts[-1] and not parts[-1].startswith("*.")):
            continue
        if rooted and not word.startswith("/"):
            path = posixpath.normpath("/".join((*folder, *words)))
            if not path.startswith(".."):
                exact = tuple(p for p in path.split("/") if p not in (".", "**"))
                yield _Taken(
                    exact[:-1] if globbed else exact, globbed, deep, True, (), where
                )  # fmt: skip
                continue
        named = tuple(p for p in parts if p != "**")
        if globbed and re.fullmatch(
            r"\$[({](?:CMAKE_(?:CURRENT_)?SOURCE_DIR|CURDIR|PROJECT_SOURCE_DIR)[)}]", words[0]
        ):
            yield _Taken((*folder, *named[:-1]), True, deep, True, (), where)
        else:
            yield _Taken(named[:-1] if globbed else named, globbed, deep, False, (), where)

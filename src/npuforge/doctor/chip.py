"""Which chip a project is for, as far as its files say.

Most rules are about the STM32N6. Middleware for many chips names it too, so that a word in a
conditional proves nothing: what counts is what a project of one chip cannot do without.
"""

from __future__ import annotations

import re

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.findings import Evidence
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR

_FAMILY = r"stm32(?:n6|[cfghlu]\d|w[bl]|mp)"
_FILE = re.compile(
    rf"(?:(?:startup|system)_)?({_FAMILY})\w*(?:_it\.c|_hal_msp\.c|_hal_conf\.h|\.s|xx?\.c)",
    re.IGNORECASE,
)
"""Start-up, interrupt handlers and HAL settings: files of one chip."""
_MCU = re.compile(rf"^Mcu\.(?:UserName|Family|Name)=({_FAMILY})", re.MULTILINE | re.IGNORECASE)
_DEFINE = re.compile(rf"\b({_FAMILY})\w*xx\b", re.IGNORECASE)
_INCLUDE = re.compile(rf'^[ \t]*#[ \t]*include[ \t]+[<"]({_FAMILY})\w*\.h[">]', re.MULTILINE)
_LOOKED_AT = 400
"""Sources whose first lines are searched for the header of a chip."""


def families_of(project: Project) -> frozenset[str]:
    """Families that files of one chip name, in lower case: ``stm32n6``, ``stm32h7``, …"""

    return frozenset(family for _, family, _ in _named(project))


def families_near(project: Project, file: str) -> dict[str, Evidence]:
    """Families that the files nearest to a file name: of its folder, else of those around it."""
    folder = file.split("/")[:-1]
    for depth in range(len(folder), -1, -1):
        prefix = "/".join((*folder[:depth], ""))
        found = {
            family: where for name, family, where in _named(project) if name.startswith(prefix)
        }
        if found:
            return found
    return {}


def _named(project: Project) -> tuple[tuple[str, str, Evidence], ...]:
    """Files of one chip with the family that they name, and where."""

    def look() -> tuple[tuple[str, str, Evidence], ...]:
        found: list[tuple[str, str, Evidence]] = []
        for item in project.artefacts:
            match = _FILE.fullmatch(item.path.name)
            if match and not VENDOR.search(item.name):
                found.append((item.name, match[1].lower(), item.at(1)))
        for item in project.of(Kind.IOC):
            found += _matches(item, _MCU, project.text(item)[: 1 << 20])
        for item in project.of(Kind.BUILD):
            found += _matches(item, _DEFINE, project.text(item)[: 1 << 20])
        for item in project.of(Kind.C_SOURCE)[:_LOOKED_AT]:
            if not VENDOR.search(item.name):
                found += _matches(item, _INCLUDE, project.text(item)[:8192])
        found += [(item.name, "stm32n6", item.at(1)) for item in project.of(Kind.NETWORK_C)]
        return tuple(found)

    return project.once("families of chips", look)


def _matches(
    item: Artefact, pattern: re.Pattern[str], text: str
) -> list[tuple[str, str, Evidence]]:
    first: dict[str, Evidence] = {}
    for match in pattern.finditer(text):
        first.setdefault(match[1].lower(), item.at(line_of(text, match.start()), match[0]))
    return [(item.name, family, where) for family, where in first.items()]


def is_stm32n6(project: Project) -> bool:
    """Whether something in the project is surely for an STM32N6."""
    return "stm32n6" in families_of(project)


def is_other(project: Project) -> bool:
    """Whether the project is surely for other chips only."""
    return bool(families_of(project)) and not is_stm32n6(project)

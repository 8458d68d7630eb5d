"""Which chip a project is for, as far as its files say.

Most rules are about the STM32N6. Middleware for many chips names it too, so that a word in a
conditional proves nothing: what counts is what a project of one chip cannot do without.
"""

from __future__ import annotations

import re

from npuforge.artefacts.recognise import Kind
from npuforge.doctor.project import Project
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

    def look() -> frozenset[str]:
        found: set[str] = set()
        for item in project.artefacts:
            match = _FILE.fullmatch(item.path.name)
            if match and not VENDOR.search(item.name):
                found.add(match[1].lower())
        for item in project.of(Kind.IOC):
            found |= {name.lower() for name in _MCU.findall(project.text(item)[: 1 << 20])}
        for item in project.of(Kind.BUILD):
            found |= {name.lower() for name in _DEFINE.findall(project.text(item)[: 1 << 20])}
        for item in project.of(Kind.C_SOURCE)[:_LOOKED_AT]:
            if not VENDOR.search(item.name):
                head = project.text(item)[:8192]
                found |= {name.lower() for name in _INCLUDE.findall(head)}
        if project.of(Kind.NETWORK_C):
            found.add("stm32n6")
        return frozenset(found)

    return project.once("families of chips", look)


def is_stm32n6(project: Project) -> bool:
    """Whether something in the project is surely for an STM32N6."""
    return "stm32n6" in families_of(project)


def is_other(project: Project) -> bool:
    """Whether the project is surely for other chips only."""
    return bool(families_of(project)) and not is_stm32n6(project)

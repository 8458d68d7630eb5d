"""K02: linker regions and static data against the memory that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.linker_script import LinkerScript, Region, read_linker_script
from npuforge.artefacts.recognise import Kind
from npuforge.doctor.chip import families_of
from npuforge.doctor.findings import Check, Finding, Premise, Rule
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR
from npuforge.doctor.stm32n6 import bank_of, banks_of, first_gap, secure
from npuforge.vocab import Severity

NO_MEMORY = Rule("K02-no-memory", Severity.ERROR, cases=("C06",), rank=20)
OTHER_FAMILY = Rule("K02-other-family", Severity.ERROR, cases=("C08",), rank=20)
OFF_AT_RESET = Rule("K02-off-at-reset", Severity.ERROR, cases=("A13", "C29"), rank=20)


def linker(artefact: Artefact, text: str) -> LinkerScript:
    """Reader for `Project.parsed`."""
    return read_linker_script(text)


def scripts(project: Project) -> list[tuple[Artefact, LinkerScript]]:
    """Linker scripts of the project's own that declare memory.

    Scripts of other chips count only when none is of the STM32N6 (trees for many boards hold many),
    those of boot loaders and flash loaders only when there are no others.
    """

    def choose() -> list[tuple[Artefact, LinkerScript]]:
        found = [
            (item, script)
            for item, script in project.parsed(linker, Kind.LINKER_SCRIPT)
            if script.regions and not VENDOR.search(item.name) and "emplate" not in item.name
        ]
        found = [pair for pair in found if _ours(project, *pair)] or found
        applications = [pair for pair in found if not _BOOT.search(pair[0].path.name)]
        return applications or found

    return project.once("scripts", choose)


def _built(project: Project, item: Artefact) -> bool:
    """Whether a build file names a linker script."""
    name = re.compile(rf"(?:(?<![\w.-])|(?<=-T)){re.escape(item.path.name)}(?![\w.-])")
    return any(name.search(project.text(build)) for build in project.of(Kind.BUILD))


_BOOT = re.compile(r"fsbl|loader|boot", re.IGNORECASE)
MANY = 3
"""Linker scripts from which on a tree is one for several boards."""


def of_family(script: LinkerScript) -> bool:
    """Whether a script places something in memory that an STM32N6 has."""
    starts = [region.origin for region in script.regions.values() if region.origin is not None]
    return any(
        start >> 24 == 0x34 or (bank_of(start) is not None and secure(start) >> 24 == 0x34)
        for start in starts
    )


_CHIP = re.compile(r"stm32(?:[fghlu]\d|w[bl]|c0|mp|n(?!6))\w*", re.IGNORECASE)


def _ours(project: Project, item: Artefact, script: LinkerScript) -> bool:
    """Whether a script is one for an STM32N6; RAM at 0x24000000 exists in other families too."""
    if not of_family(script):
        return False
    head = project.text(item)[:4096]
    foreign = _CHIP.search(item.path.name) or _CHIP.search(head)
    return not foreign or "stm32n6" in (item.name + head).lower()


def _regions(project: Project) -> Iterator[Finding]:
    found = scripts(project)
    ours = [pair for pair in found if _ours(project, *pair)]
    if not ours:
        # in a tree for many boards a script of another one says nothing
        if len(project.of(Kind.LINKER_SCRIPT)) > MANY or families_of(project) != {"stm32n6"}:
            return
        for item, script in found:
            regions = [r for r in script.regions.values() if r.origin is not None]
            first = next((r for r in regions if bank_of(r.origin or 0) is None), None)
            if first is not None:
                yield OTHER_FAMILY.at(
                    item.at(first.line, first.text, first.origin),
                    region=first.name,
                    address=f"{first.origin:#010x}",
                )
        return
    for item, script in ours:
        # one of several that no build names may be a draft
        taken = len(ours) == 1 or _built(project, item)
        for region in script.regions.values():
            yield from _region(project, item, script, region, taken=taken)


def _boot_powers(project: Project, bank: str) -> bool:
    """Whether a boot stage or the start-up switches a bank on before it is used as a stack."""
    clock = re.compile(rf"{bank}_MEM_CLK_ENABLE|RAMCFG_SRAM{bank[-1]}_AXI")
    startup = (
        item
        for item in project.artefacts
        if item.path.suffix.lower() in (".s", ".asm") and item.size < STARTUP
    )
    if any(_BANK_REGISTERS.search(_ASM_COMMENT.sub("", project.text(item))) for item in startup):
        return True
    return any(
        _BOOT.search(item.name) and clock.search(project.text(item))
        for item in project.of(Kind.C_SOURCE)
        if not VENDOR.search(item.name)
    )


STARTUP = 1 << 20
"""Bytes; longer assembler files are no start-up code."""
_BANK_REGISTERS = re.compile(r"RAMCFG|SRAMSD|MEMENS?R|\b0x[45]2023[0-9a-f]{3}\b", re.IGNORECASE)
"""RAMCFG stands at 0x52023000 (secure) and 0x42023000, as in the vendor's device header."""
_ASM_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*+\*/|//[^\n]*|^[ \t]*[@;#][^\n]*", re.MULTILINE)


def _region(
    project: Project, item: Artefact, script: LinkerScript, region: Region, *, taken: bool
) -> Iterator[Finding]:
    if region.origin is None or region.end is None or region.end <= region.origin:
        return
    gap = first_gap(region.origin, region.end)
    here = item.at(region.line, region.text, region.origin)
    if gap is not None and (gap == region.origin or bank_of(region.origin) is not None):
        yield NO_MEMORY.at(
            item.at(region.line, region.text, gap),
            premises=(
                Premise("script", here if taken else None),
                Premise("placed", here if _past(script, region, gap) else None),
            ),
            region=region.name,
            start=f"{region.origin:#010x}",
            end=f"{region.end:#010x}",
            gap=f"{gap:#010x}",
        )
        return
    banks = banks_of(region.origin, region.end)
    off = next((bank for bank in banks if bank.needs_power), None)
    if off is None or banks[0].needs_power:
        return
    if _boot_powers(project, off.name):
        return
    stack = next((script.symbols[n] for n in _STACK_TOPS if n in script.symbols), None)
    in_off = (
        stack is not None
        and region.origin < stack <= region.end
        and (bank_of(stack - 8) or banks[0]).needs_power
    )
    yield OFF_AT_RESET.at(
        item.at(region.line, region.text, off.base),
        premises=(
            Premise("script", here if taken else None),
            Premise("placed", here if in_off else None),
        ),
        what=region.name,
        end=f"{region.end:#010x}",
        bank=off.name,
    )


def _past(script: LinkerScript, region: Region, gap: int) -> bool:
    """Whether a script places something where a region has no memory.

    A region that is declared too long hurts nobody until something reaches its end: a section in
    one without any memory, a stack that starts at the end, an output section at an address there.
    """
    if region.origin is None or region.end is None:
        return False
    placed = [section for section in script.sections if section.region == region.name]
    starts = (section.address for section in script.sections)
    return (
        (gap == region.origin and bool(placed))
        or any(gap < value <= region.end for value in script.symbols.values())
        or any(start is not None and gap <= start < region.end for start in starts)
    )


_STACK_TOPS = ("_estack", "__StackTop", "__stack", "_stack_top", "g_idle_topstack")


CHECKS = (Check("linker regions", (NO_MEMORY, OTHER_FAMILY, OFF_AT_RESET), _regions),)

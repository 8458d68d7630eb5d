"""Whether the CPU's data cache is on where a network runs, and covers the network's memory.

Switching it on counts in the program that runs the network, in the start-up code before it, and in
a project without an entry point anywhere. What another program of the project leaves on (a boot
stage), what an undecided preprocessor condition hides and what an MPU region may exempt make it
possible only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from npuforge.artefacts.c_source import constant
from npuforge.doctor.conditions import compiled
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.sources import ENTRIES, Program, Step, programs_of, sources_of
from npuforge.doctor.stm32n6 import secure

_ENABLE = re.compile(
    r"SCB_EnableDCache|mcu_cache_enable|\w*[Ee]nable_?(?:CPU_?|MCU_?)?D_?[Cc]ache\w*|"
    r"CPU_CACHE_Enable|sys_cache_data_enable|up_enable_dcache"
)
_DISABLE = re.compile(
    r"SCB_DisableDCache|mcu_cache_disable|\w*[Dd]isable_?(?:CPU_?|MCU_?)?D_?[Cc]ache\w*|"
    r"CPU_CACHE_Disable|sys_cache_data_disable|BOOT_Application"
)
"""ST's boot manager switches the cache off before it enters the application."""
_CONTROL = re.compile(r"SCB\s*->\s*CCR")
_STARTS = re.compile(r"SystemInit|Reset_Handler|_?start|__?low_level_init|\w*[Pp]re_?[Mm]ain")
_REGION = re.compile(r"HAL_MPU_ConfigRegion|(?:LL|ARM)_MPU_(?:Config|Set)Region\w*")
_UNCACHED = re.compile(
    r"NOT_CACHEABLE|NON_?CACHEABLE|NOCACHE|NO_CACHE|MEMATTR\w*NC\b|ATTR_DEVICE", re.IGNORECASE
)


class CpuCache(IntEnum):
    """How certain it is that the data cache is on."""

    OFF = 0
    POSSIBLE = 1
    ON = 2


def cache_in(project: Project, program: Program) -> tuple[CpuCache, Step | None]:
    """State of the data cache in a program that runs a network, and where it is switched on."""
    key = ("data cache", program.source.artefact.path, program.entry.line, program.entry.name)
    return project.once(key, lambda: _look(project, program))


def cache_anywhere(project: Project) -> bool:
    """Whether any program of the project may switch the data cache on."""

    def look() -> bool:
        return any(_left_on(project, program)[0] for program in _own(project))

    return project.once("data cache anywhere", look)


def _look(project: Project, program: Program) -> tuple[CpuCache, Step | None]:
    found, step = _left_on(project, program)
    entered = [other for other in programs_of(project) if other.entry.name in ENTRIES]
    if not found:
        for other in _own(project):
            if other is program:
                continue
            state, where = _left_on(project, other)
            if not state:
                continue
            starts = _STARTS.fullmatch(other.entry.name) or not entered
            here = state if starts else CpuCache.POSSIBLE
            if here > found:
                found, step = here, where
    if found is CpuCache.ON and _exempt(project, program):
        found = CpuCache.POSSIBLE
    return found, step


def _own(project: Project) -> Iterator[Program]:
    """Programs that may run: a switch that nobody calls is none."""
    for program in programs_of(project):
        if not _ENABLE.fullmatch(program.entry.name) and "cache_state" not in program.entry.name:
            yield program


def _left_on(project: Project, program: Program) -> tuple[CpuCache, Step | None]:
    """What the last switch of a program that always runs leaves behind."""
    state, where = CpuCache.OFF, None
    for step in program.steps:
        on, off = _switch(step)
        if not on and not off:
            continue
        taken = compiled(project, step.source.artefact.name, step.event.line)
        for frame_file, line in step.at().via:
            outer = compiled(project, frame_file, line)
            taken = False if outer is False or taken is False else None if outer is None else taken
        if taken is False:
            continue
        if on:
            now = CpuCache.ON if taken else CpuCache.POSSIBLE
            if now >= state:
                state, where = now, step
        elif taken and not any(frame.kind in ("if", "else", "case") for frame in step.frames):
            state, where = CpuCache.OFF, None
    return state, where


def _switch(step: Step) -> tuple[bool, bool]:
    event = step.event
    if event.kind == "call":
        return bool(_ENABLE.fullmatch(event.name)), bool(_DISABLE.fullmatch(event.name))
    if event.kind == "assign" and _CONTROL.search(event.name) and "DC" in event.args[1]:
        return event.args[0] == "|=", event.args[0] == "&="
    return False, False


# -- the MPU


def _exempt(project: Project, program: Program) -> bool:
    """Whether an MPU region without cache may cover memory of the network."""
    regions = [s for s in program.steps if s.event.kind == "call" and _REGION.fullmatch(s.name)]
    if not regions or not _mentions(project, program):
        return False
    networks = networks_of(project)
    if any(facts.user_inputs or facts.user_outputs for facts in networks):
        return True  # the buffers may lie in such a region
    used = [(secure(a), secure(b)) for facts in networks for a, b, _ in facts.touched]
    spans = list(_spans(project, program))
    if not used or len(spans) < len(regions):
        return True
    return any(a < end and start <= b for start, end in used for a, b in spans)


def _mentions(project: Project, program: Program) -> bool:
    """Whether the functions that set up the MPU name memory without cache."""
    sources = sources_of(project)
    near = {
        (step.source.artefact.name, step.function.line): (step.source, step.function)
        for step in program.steps
        if "MPU" in step.name
    }
    return any(_UNCACHED.search(sources.body(*place)) for place in near.values())


def _spans(project: Project, program: Program) -> Iterator[tuple[int, int]]:
    """First and last address of regions whose bounds are constants."""
    values = sources_of(project).values
    base: int | None = None
    for step in program.steps:
        if step.event.kind != "assign":
            continue
        if re.search(r"(?:\.|->)BaseAddress$", step.name):
            base = constant(step.event.args[1], values)
        elif re.search(r"(?:\.|->)LimitAddress$", step.name):
            limit = constant(step.event.args[1], values)
            if base is not None and limit is not None:
                yield secure(base), secure(limit)
            base = None

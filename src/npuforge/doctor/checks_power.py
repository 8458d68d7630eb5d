"""K03 to K06 and K12: clocks, power, external memory, isolation, user buffers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor import names
from npuforge.doctor.checks_memory import scripts
from npuforge.doctor.checks_runtime import defines
from npuforge.doctor.chip import is_other
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding, Rule
from npuforge.doctor.network_facts import NetworkFacts, networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.sources import (
    ENTRIES,
    VENDOR,
    Program,
    Sources,
    Step,
    programs_of,
    sources_of,
)
from npuforge.doctor.stm32n6 import banks_of, secure
from npuforge.vocab import Severity

BANK_CLOCK = Rule("K03-bank-clock", Severity.WARNING, cases=("A27",), rank=20)
BANK_POWER = Rule("K03-bank-power", Severity.WARNING, cases=("A07",), rank=20)
CLOCK_ORDER = Rule("K03-clock-order", Severity.WARNING, cases=("A26",), rank=20)
NPU_CLOCK = Rule("K03-npu-clock", Severity.WARNING, cases=("A37",), rank=15)
CACHE_CLOCK = Rule("K03-cache-clock", Severity.WARNING, cases=("A25", "A39"), rank=25)
RISAF_CLOCK = Rule("K03-risaf-clock", Severity.WARNING, cases=("A39",), rank=15)
PSRAM = Rule("K04-psram-off", Severity.ERROR, cases=("A04",), rank=10)
NO_PSRAM = Rule("K04-no-psram", Severity.ERROR, cases=("C30",), rank=5)
FLASH = Rule("K04-flash-unmapped", Severity.WARNING, Confidence.HIGH, cases=("A01",), rank=10)
MAP_LATE = Rule("K04-mapped-late", Severity.ERROR, cases=("C09",), rank=10)
RISC = Rule("K05-risc-missing", Severity.WARNING, cases=("A44",), rank=20)
RIF_LATE = Rule("K05-rif-late", Severity.WARNING, cases=("C10",), rank=20)
OWN_RAM = Rule("K05-own-ram", Severity.WARNING, cases=("A42",), rank=20)
SLEEP = Rule("K06-sleep-clock", Severity.WARNING, Confidence.MEDIUM, cases=("A28",), rank=20)
SLEEP_PART = Rule("K06-sleep-clock-part", Severity.WARNING, Confidence.MEDIUM, cases=("A28",))
SLEEP_OFF = Rule("K06-sleep-disabled", Severity.ERROR, cases=("A28",), rank=20)
SET_IGNORED = Rule("K12-set-ignored", Severity.ERROR, cases=("C07",), rank=10)
UNCHECKED = Rule("K12-result-unused", Severity.INFO, cases=("C07",))
UNBOUND = Rule("K12-unbound", Severity.ERROR, cases=("A33",), rank=10)
NO_START_OFFSET = Rule("K12-start-offset", Severity.WARNING, Confidence.MEDIUM, cases=("C20",))


def npu_programs(project: Project) -> tuple[tuple[Program, Step], ...]:
    """Programs that run a network, with their first run."""

    def make() -> tuple[tuple[Program, Step], ...]:
        found = []
        # the stai interface runs networks on chips without an NPU too
        for program in () if is_other(project) else programs_of(project):
            run = next(program.calls(names.RUN), None)
            if run is not None and not VENDOR.search(program.source.artefact.name):
                found.append((program, run))
        started = {
            step.source.artefact.name
            for program, _ in found
            if program.entry.name in ENTRIES
            for step in program.steps
        }
        # beside code that runs, a function that nobody calls is left over
        return tuple(
            (program, run)
            for program, run in found
            if program.entry.name in ENTRIES or program.source.artefact.name not in started
        )

    return project.once("npu_programs", make)


def _first(program: Program, run: Step) -> int:
    return next(i for i, step in enumerate(program.steps) if step is run)


def _banks(networks: tuple[NetworkFacts, ...]) -> dict[str, Evidence]:
    used: dict[str, Evidence] = {}
    for facts in networks:
        for start, end, name in facts.touched:
            for bank in banks_of(start, max(end, start + 1)):
                used.setdefault(bank.name, facts.pool_at(name, start, name or bank.name))
    return used


def _mains(project: Project) -> list[tuple[Program, Step]]:
    """NPU programs that start at a real entry point, where everything that runs is known."""
    return [pair for pair in npu_programs(project) if pair[0].entry.name in ENTRIES]


# -- K03


def _power(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    mains = _mains(project)
    if not mains:
        return
    program, run = mains[0]
    yield from _order(program)
    yield from _risaf(program)
    if not sources.text_mentions(_NPU_ON):
        yield NPU_CLOCK.at(run.at())
    if not sources.text_mentions(_CACHE_ON):
        yield CACHE_CLOCK.at(run.at())
    for name, where in _banks(networks_of(project)).items():
        number = name.removeprefix("AXISRAM")
        if number not in ("3", "4", "5", "6"):
            continue
        clock = re.compile(
            rf"AXISRAM{number}_MEM_CLK_ENABLE|AXISRAM{number}_CLK_ENABLE|MEMENS?R\b|"
            rf"{_LL_ON}LL_MEM_AXISRAM{number}\b|AXISRAM{number}EN"
        )
        power = re.compile(
            rf"RAMCFG_SRAM{number}|SRAMSD|HAL_RAMCFG_EnableAXISRAM\s*\(\s*(?!&?hramcfg)"
        )
        if not sources.text_mentions(clock):
            yield BANK_CLOCK.at(where, run.at(), bank=name)
        own = re.compile(rf"RAMCFG_SRAM{number}_AXI|RAMCFG_SRAM{number}\b")
        if not sources.text_mentions(own) and (
            sources.text_mentions(re.compile(r"RAMCFG_SRAM\d")) or not sources.text_mentions(power)
        ):
            yield BANK_POWER.at(where, run.at(), bank=name)


_LL_ON = r"(?:EnableClock\s*\(|=|#[ \t]*define\b)[^;]{0,400}?"
"""Where an LL mask switches a clock on; the same names stand in calls for reset and sleep."""
_NPU_ON = re.compile(
    rf"RCC_NPU_CLK_ENABLE|{_LL_ON}LL_AHB5_GRP1_PERIPH_NPU\b|NPUEN\b|npu_clk|AHB5ENS?R"
)
_CACHE_ON = re.compile(
    rf"CACHEAXI_CLK_ENABLE|{_LL_ON}LL_AHB5_GRP1_PERIPH_CACHEAXI\b|CACHEAXIEN|npu_cache_init|"
    r"AHB5ENS?R|npu_cache_enable|HAL_CACHEAXI_MspInit"
)
_SRAMSD = re.compile(r"SRAMSD")


def _order(program: Program) -> Iterator[Finding]:
    clock = None
    cleared = None
    for step in program.steps:
        event = step.event
        if event.kind == "call" and re.fullmatch(r"__HAL_RCC_RAMCFG_CLK_ENABLE", event.name):
            clock = step
            break
        release = event.kind == "call" and event.name == "HAL_RAMCFG_EnableAXISRAM"
        write = (
            event.kind == "assign" and "RAMCFG_SRAM" in event.name and _SRAMSD.search(event.args[1])
        )
        if (release or write) and cleared is None:
            cleared = step
    if cleared is not None and clock is not None:
        yield CLOCK_ORDER.at(cleared.at(), clock.at())


def _risaf(program: Program) -> Iterator[Finding]:
    ram = False
    for step in program.steps:
        if step.event.kind != "call":
            continue
        if "CACHEAXIRAM_MEM_CLK_ENABLE" in step.name or step.name == "npu_cache_init":
            ram = True
        filtered = step.name.startswith("HAL_RIF_RISAF_Config") and not ram
        if filtered and re.search(r"\bRISAF8(?:_S)?\b", step.args[0] if step.args else ""):
            yield RISAF_CLOCK.at(step.at())
            return


# -- K04

_MAP_RAM = re.compile(
    r"BSP_XSPI_RAM_EnableMemoryMappedMode|APS256XX_EnableMemoryMappedMode|\w*[Pp][Ss]?RAM\w*"
    r"(?:[Mm]ap|[Ii]nit)\w*|\w*HYPERRAM\w*|\w*hyper_?ram\w*",
)
_MAP_FLASH = re.compile(
    r"BSP_XSPI_NOR_EnableMemoryMappedMode|MX(?:66UW1G45G|25UM51245G)_Enable\w*MemoryMapped\w*"
)
_ANY_MAP = re.compile(
    r"MemoryMapped|MEMORY_?MAPPED|EXTMEM_MemoryMapped|_mmap|memory_map|XIP|EXTMEM_Init|FMODE",
    re.IGNORECASE,
)
_RAM_TEXT = re.compile(
    r"BSP_XSPI_RAM_\w*MemoryMapped|APS256|PSRAM_\w*(?:Init|Map)|[Pp]sram_?\w*(?:[Ii]nit|[Mm]ap)|"
    r"XSPI1_Init|MX_XSPI1|EXTMEMORY_1|HYPERRAM|hyperram_init|EXTMEM_\w+\(|ospi_psram"
)


def _external(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    networks = networks_of(project)
    mains = _mains(project)
    banks = _banks(networks)
    nucleo = _nucleo_only(project)
    if "XSPI1" in banks and nucleo is not None:
        yield NO_PSRAM.at(banks["XSPI1"], nucleo)
    elif "XSPI1" in banks and mains and not sources.text_mentions(_RAM_TEXT):
        yield PSRAM.at(banks["XSPI1"], mains[0][1].at())
    if "XSPI2" in banks and mains and not sources.text_mentions(_ANY_MAP):
        yield FLASH.at(banks["XSPI2"], mains[0][1].at())
    for program, run in mains:
        if "XSPI2" in banks or not networks:
            yield from _late(program, run, _MAP_FLASH)
        if "XSPI1" in banks:
            yield from _late(program, run, _MAP_RAM)


def _late(program: Program, run: Step, mapping: re.Pattern[str]) -> Iterator[Finding]:
    first = _first(program, run)
    use = next(
        (
            (i, s)
            for i, s in enumerate(program.steps)
            if s.event.kind == "call"
            and (names.NETWORK_INIT.fullmatch(s.name) or names.RUN.fullmatch(s.name))
        ),
        (first, run),
    )
    found = [
        (i, s)
        for i, s in enumerate(program.steps)
        if s.event.kind == "call" and mapping.fullmatch(s.name)
    ]
    if not found:
        return
    at, step = found[0]
    branched = any(frame.kind in ("if", "else", "case", "pp") for frame in step.frames)
    if at > use[0] and step.thread == use[1].thread and not branched:
        yield MAP_LATE.at(step.at(), use[1].at())


def _nucleo_only(project: Project) -> Evidence | None:
    """Where the project says that its only board is the Nucleo, which has no PSRAM."""
    text = re.compile(r"NUCLEO[-_]N657X0|USE_NUCLEO_64|NUCLEO_N657")
    other = re.compile(r"STM32N6570[-_]DK|stm32n6570_discovery|APS256|PSRAM", re.IGNORECASE)
    where = None
    for item in project.of(Kind.IOC, Kind.BUILD, Kind.C_SOURCE, Kind.C_HEADER, Kind.LINKER_SCRIPT):
        if VENDOR.search(item.name):
            continue
        body = project.text(item)
        if other.search(body) or other.search(item.name):
            return None
        match = text.search(body)
        if match and where is None:
            where = item.at(line_of(body, match.start()), match[0])
    return where


# -- K05


def _isolation(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for program, run in npu_programs(project):
        master = _rif(program, "HAL_RIF_RIMC_ConfigMasterAttributes", r"\bRIF_MASTER_INDEX_NPU\b")
        slave = _rif(
            program, "HAL_RIF_RISC_SetSlaveSecureAttributes", r"\bRIF_RISC_PERIPH_INDEX_NPU\b"
        )
        risc = re.compile(r"RIF_RISC_PERIPH_INDEX_NPU|RISC_SEC\w*CFGR|RIFSC\s*->\s*RISC")
        if master is not None and slave is None and not sources.text_mentions(risc):
            yield RISC.at(master.at())
        start = next(program.calls(names.NETWORK_INIT), run)
        for step in (master, slave):
            if step is not None and step.thread == start.thread:
                order = [s for s in program.steps if s is step or s is start]
                if order[0] is start and start is not step:
                    yield RIF_LATE.at(step.at(), start.at())
                    break
    regions = [region for _, script in scripts(project) for region in script.regions.values()]
    code = {
        secure(region.origin) & ~0xF_FFFF
        for region in regions
        if region.origin is not None and "x" in region.attributes.lower()
    }
    for program in programs_of(project):
        yield from _own_ram(sources, program, code)


def _rif(program: Program, function: str, argument: str) -> Step | None:
    for step in program.steps:
        named = step.event.kind == "call" and step.name == function
        if named and re.search(argument, step.args[0] if step.args else ""):
            return step
    return None


_RISAF_OF = {2: 0x3400_0000, 3: 0x3410_0000, 7: 0x3400_0000}
"""RAM behind a filter: RISAF2 and 3 for AXISRAM1 and 2, RISAF7 for FLEXMEM."""


def _opens(sources: Sources, step: Step) -> bool:
    """Whether a filter is given the whole window for everybody, as the vendor's own init does."""
    body = sources.body(step.source, step.function)
    return all(
        re.search(rf"\b{part}\s*=\s*{value}\b", body)
        for part, value in (
            ("ReadWhitelist", "RIF_CID_MASK"),
            ("WriteWhitelist", "RIF_CID_MASK"),
            ("StartAddress", "0(?:x0+)?[uUlL]*"),
        )
    )


def _own_ram(sources: Sources, program: Program, code: set[int]) -> Iterator[Finding]:
    """A filter configured over the RAM that the program runs from."""
    for step in program.steps:
        if step.event.kind == "call" and step.name.startswith("HAL_RIF_RISAF_Config"):
            match = re.search(r"\bRISAF(\d{1,3})(?:_S)?\b", step.args[0] if step.args else "")
            if match and _RISAF_OF.get(int(match[1])) in code and not _opens(sources, step):
                yield OWN_RAM.at(step.at(), number=match[1])
                return


# -- K06


def _sleep(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for program, run in _mains(project):
        for step in program.steps:
            if (
                step.event.kind == "call"
                and re.fullmatch(
                    r"__HAL_RCC_(?:NPU|CACHEAXI|CACHEAXIRAM_MEM|AXISRAM[3-6]_MEM)_CLK_SLEEP_DISABLE",
                    step.name,
                )
                and not sources.text_mentions(
                    re.compile(re.escape(step.name.replace("_DISABLE", "_ENABLE")))
                )
            ):
                yield SLEEP_OFF.at(step.at(), run.at())
        if _polls(project) or sources.text_mentions(_SLEEP_ALL) or _awake(project, sources):
            continue
        if not _kept(sources, "NPU"):
            yield SLEEP.at(run.at())
            return
        missing = [
            part
            for part in ("CACHEAXI", *sorted(_ram(networks_of(project))))
            if not _kept(sources, part)
        ]
        if missing:
            where = next(
                (
                    s.at()
                    for s in program.steps
                    if s.event.kind == "call" and s.name == "__HAL_RCC_NPU_CLK_SLEEP_ENABLE"
                ),
                run.at(),
            )
            yield SLEEP_PART.at(where, missing=", ".join(missing))


_IDLE_SLEEPS = re.compile(
    r"\b__WFI\b|\bwfi\b|configUSE_TICKLESS_IDLE\s+[12]|TX_ENABLE_WFI|TX_LOW_POWER|PWR_EnterSLEEP"
)


def _awake(project: Project, sources: Sources) -> bool:
    """Whether an RTOS waits for the NPU and nothing in the project puts the CPU to sleep."""
    waits = defines(project, "LL_ATON_OSAL_(?:FREERTOS|THREADX)") is not None
    return waits and not sources.text_mentions(_IDLE_SLEEPS)


_SLEEP_ALL = re.compile(r"LPENS?R\b|EnableClockLowPower\s*\(\s*(?!LL_)|EnableClockSleep")


def _kept(sources: Sources, part: str) -> bool:
    """Whether the clock of a part is kept on in sleep, by the HAL's macro or an LL mask."""
    return sources.text_mentions(
        re.compile(
            rf"RCC_{part}(?:_MEM)?_CLK_SLEEP_ENABLE|"
            rf"EnableClockLowPower\s*\([^;]{{0,400}}?_{part}\b"
        )
    )


def _ram(networks: tuple[NetworkFacts, ...]) -> set[str]:
    return {name for name in _banks(networks) if re.fullmatch(r"AXISRAM[2-6]|XSPI[12]", name)}


def _polls(project: Project) -> bool:
    return defines(project, "LL_ATON_RT_POLLING") is not None


# -- K12


def _user_io(project: Project) -> Iterator[Finding]:
    networks = networks_of(project)
    sources = sources_of(project)
    bound: set[str] = set()
    said: set[tuple[str, int, str]] = set()
    for program, _ in npu_programs(project):
        for step in program.calls(names.SET_USER):
            match = names.SET_USER.fullmatch(step.name)
            which = (match[1] or match[2] or "").lower()[:2] if match else ""
            bound.add(which)
            if step.event.used:
                continue
            network = _network_of(step.name, networks)
            allocated = (
                network is not None
                and (network.user_inputs if which == "in" else network.user_outputs) is False
            )
            place = (step.source.artefact.name, step.function.line, which)
            if network is not None and allocated and place not in said:
                said.add(place)
                yield SET_IGNORED.at(
                    step.at(), network.artefact.at(None, "LL_ATON_User_IO_WRONG_INDEX"),
                    name=network.name,
                )  # fmt: skip
            elif not allocated and step.name.startswith("LL_ATON"):
                yield UNCHECKED.at(step.at())
    mains = _mains(project)
    for facts in networks:
        if not mains or len(networks) > 1:
            break
        for which, flag in (("in", facts.user_inputs), ("out", facts.user_outputs)):
            word = {"in": "Input", "out": "Output"}[which]
            if flag and not sources.text_mentions(
                re.compile(rf"LL_ATON_Set_User_{word}_Buffer|_set_{word.lower()}s\b")
            ):
                yield UNBOUND.at(
                    facts.artefact.at(None, f"LL_ATON_Set_User_{word}_Buffer_{facts.name}"),
                    mains[0][1].at(),
                    which=word.lower(),
                )
    yield from _offset(project, sources)


def _network_of(name: str, networks: tuple[NetworkFacts, ...]) -> NetworkFacts | None:
    found = [facts for facts in networks if name.endswith(f"_{facts.name}")]
    if found:
        return found[0]
    return networks[0] if len(networks) == 1 else None


_BASE = re.compile(r"(?:->|\.)\s*addr_base\s*\.\s*p\b")


def _offset(project: Project, sources: Sources) -> Iterator[Finding]:
    for source, _, event in sources.all_events():
        if event.kind != "assign" or not _BASE.search(event.args[1]):
            continue
        if "offset_start" not in event.args[1]:
            yield NO_START_OFFSET.at(source.at(event.line, f"{event.name} = {event.args[1]}"))


CHECKS = (
    Check(
        "clocks and power of the NPU RAM",
        (BANK_CLOCK, BANK_POWER, CLOCK_ORDER, NPU_CLOCK, CACHE_CLOCK, RISAF_CLOCK),
        _power,
    ),
    Check("external memory", (PSRAM, NO_PSRAM, FLASH, MAP_LATE), _external),
    Check("isolation", (RISC, RIF_LATE, OWN_RAM), _isolation),
    Check("sleep clocks", (SLEEP, SLEEP_PART, SLEEP_OFF), _sleep),
    Check("user buffers", (SET_IGNORED, UNCHECKED, UNBOUND, NO_START_OFFSET), _user_io),
)

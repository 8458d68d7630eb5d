"""What a CubeMX project says by itself, and where the generated sources no longer follow it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.c_source import constant
from npuforge.artefacts.ioc import CLOCK_KEYS, COPY_KEY, Ioc, read_ioc
from npuforge.artefacts.recognise import Kind
from npuforge.doctor.checks_power import npu_programs
from npuforge.doctor.findings import Check, Confidence, Finding, Rule
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR, sources_of
from npuforge.vocab import Severity

NPU_SLOW = Rule("K27-ioc-npu-clock", Severity.WARNING, Confidence.MEDIUM, cases=("F09",), rank=15)
FLASH_SLOW = Rule("K27-ioc-flash-clock", Severity.WARNING, Confidence.LOW, cases=("F15",), rank=20)
STALE = Rule("K29-ioc-stale", Severity.WARNING, cases=("C28",), rank=12)
HANDLER = Rule("K13-ioc-handler", Severity.WARNING, Confidence.MEDIUM, cases=("A43",), rank=15)

NOMINAL_NPU = 800_000_000
"""Hz of the NPU at nominal voltage (DS14791); 1 GHz in overdrive."""
SLOW_FLASH = 100_000_000
"""Hz below which octal DTR flash is slower than the 200 MHz of ST's boards by more than half."""
_NPU_HANDLER = re.compile(r"NPU0?_IRQn|NPU_END_OF_EPOCH_IRQn|CDNN0_IRQn")


def _reader(artefact: Artefact, text: str) -> Ioc:
    return read_ioc(text)


def projects_of(project: Project) -> tuple[tuple[Artefact, Ioc], ...]:
    """CubeMX projects for an STM32N6, those of packages and examples left out."""

    def read() -> tuple[tuple[Artefact, Ioc], ...]:
        return tuple(
            (item, ioc)
            for item, ioc in project.parsed(_reader, Kind.IOC)
            if ioc.family == "STM32N6" and not VENDOR.search(item.name)
        )

    return project.once("ioc", read)


def _uses_npu(project: Project, ioc: Ioc) -> bool:
    return bool(ioc.ai_version or networks_of(project) or npu_programs(project))


def _run(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for item, ioc in projects_of(project):
        if not _uses_npu(project, ioc):
            continue
        npu = ioc.clocks.get("npu")
        if npu is not None and npu < NOMINAL_NPU:
            key = CLOCK_KEYS["npu"]
            yield NPU_SLOW.at(
                item.at(ioc.line(key), ioc.setting(key)),
                npu=npu // 1_000_000,
                ram=ioc.clocks.get("npu_ram", 0) // 1_000_000,
            )
        flash = ioc.clocks.get("xspi2")
        used = any("XSPI2" in names for names in ioc.peripherals.values())
        if flash is not None and used and flash < SLOW_FLASH:
            key = CLOCK_KEYS["xspi2"]
            yield FLASH_SLOW.at(item.at(ioc.line(key), ioc.setting(key)), mhz=flash // 1_000_000)
        for name in ioc.interrupts:
            if _NPU_HANDLER.fullmatch(name):
                key = next(k for k in ioc.lines if k.endswith(f".{name}"))
                yield HANDLER.at(item.at(ioc.line(key), ioc.setting(key)), name=name)
        for source, macro in sources.macros.get("EXTMEM_LRUN_SOURCE_SIZE", ()):
            value = constant(macro.body, sources.values)
            wanted = ioc.copy_size
            near = len(projects_of(project)) == 1 or source.artefact.name.startswith(
                item.name.rpartition("/")[0]
            )
            if None not in (value, wanted) and value != wanted and near:
                yield STALE.at(
                    source.at(macro.line, f"#define {macro.name} {macro.body}"),
                    item.at(ioc.line(COPY_KEY), ioc.setting(COPY_KEY)),
                    name=macro.name,
                    have=f"{value:#x}",
                    want=f"{wanted:#x}",
                )


CHECKS = (Check("CubeMX project", (NPU_SLOW, FLASH_SLOW, STALE, HANDLER), _run),)

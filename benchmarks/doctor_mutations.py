"""Faults written into real projects: how many of them the doctor finds.

Every sub-folder of FOLDER is one project that runs a network. Each kind of mutation changes one
thing in its sources, as a person would by mistake, where the project does it right; the mutation is
found when a finding of the rules named for it appears that the project did not have before. A kind
that has no place in a project is left out, and so is one whose finding the project has already. The
files on disk are not changed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from common import report

from npuforge.artefacts import c_source
from npuforge.artefacts.recognise import Kind
from npuforge.doctor import collect, diagnose, sources
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR
from npuforge.vocab import Severity

Texts = dict[Path, str]
CODE = (Kind.C_SOURCE, Kind.C_HEADER)
sources.read_c = lru_cache(20_000)(c_source.read_c)  # most files are the same in every mutant


@dataclass(frozen=True)
class Mutation:
    """One kind of fault.

    Attributes:
        name: what a person did.
        rules: findings of which one must appear.
        make: changed texts by path; empty where the project has no place for it.
    """

    name: str
    rules: tuple[str, ...]
    make: Callable[[Project], Texts]


def own(project: Project, *kinds: Kind) -> Iterator[tuple[Artefact, str]]:
    """The project's own files of some kinds."""
    for item in project.of(*kinds):
        if not VENDOR.search(item.name) and item.size < 1 << 20:
            yield item, project.text(item)


def everywhere(pattern: str, new: str) -> Callable[[Project], Texts]:
    """Replace every match in the project's own sources; lines in comments do not count."""
    search = re.compile(pattern, re.MULTILINE)

    def make(project: Project) -> Texts:
        changed = {}
        for item, text in own(project, *CODE):
            made = search.sub(new, text)
            if made != text:
                changed[item.path] = made
        return changed

    return make


def once(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Callable[[Project], Texts]:
    """Replace the first match in the project's own C sources."""
    search = re.compile(pattern, re.MULTILINE)

    def make(project: Project) -> Texts:
        for item, text in own(project, Kind.C_SOURCE):
            match = search.search(text)
            if match:
                put = new(match) if callable(new) else match.expand(new)
                return {item.path: text[: match.start()] + put + text[match.end() :]}
        return {}

    return make


RUN = re.compile(
    r"^([ \t]*)(?:[\w>. -]+=\s*)?(?:LL_ATON_RT_Main|stai_(?!ext|runtime)\w*_run)\s*\([^;]*;", re.M
)
EPOCHS = re.compile(
    r"^([ \t]*)do\s*(?:\n[ \t]*)?\{(?:[^{}]|\{[^{}]*\}){0,1500}?LL_ATON_RT_RunEpochBlock", re.M
)


def cached(project: Project) -> bool:
    """Whether the application, not only a boot stage, switches the CPU's data cache on."""
    call = re.compile(r"^[ \t]*(?:SCB_EnableDCache|mcu_cache_enable)\s*\(\s*\)\s*;", re.M)
    boot = re.compile(r"fsbl|boot|loader", re.IGNORECASE)
    return any(
        call.search(text)
        for item, text in own(project, Kind.C_SOURCE)
        if not boot.search(item.name)
    )


def hardware(project: Project, *, first: bool) -> bool:
    """Whether an end of the network runs in hardware, so that the application owes maintenance."""
    if not cached(project):
        return False
    found = networks_of(project)
    soft = any((n.first_software if first else n.last_software) for n in found)
    return bool(found) and not soft


def around_run(text: str, before: str = "", after: str = "") -> str | None:
    """Put lines directly before or after the call that runs the network."""
    match = RUN.search(text) or EPOCHS.search(text)
    if match is None:
        return None
    if match.re is RUN:
        return text[: match.start()] + before + match[0] + after + text[match.end() :]
    end = re.compile(r"\}\s*while\s*\([^;]*;").search(text, match.end())
    if end is None:
        return None
    return (
        text[: match.start()] + before + text[match.start() : end.end()] + after + text[end.end() :]
    )


def network_suffix(project: Project, text: str) -> str:
    """Name of the network that a file runs, in the runtime's function names."""
    names = [facts.name for facts in networks_of(project)]
    run = RUN.search(text) or EPOCHS.search(text)
    near = text[run.start() : run.end() + 200] if run else ""
    return next((name for name in names if name in near), names[0])


def near_run(before: str = "", after: str = "", *, first: bool) -> Callable[[Project], Texts]:
    """Lines around the run, with IN and OUT for the addresses of the tensors."""

    def make(project: Project) -> Texts:
        if not hardware(project, first=first):
            return {}
        for item, text in own(project, Kind.C_SOURCE):
            name = network_suffix(project, text)
            address = f"LL_Buffer_addr_start(LL_ATON_Input_Buffers_Info_{name}())"
            made = around_run(text, *(line.replace("IN", address) for line in (before, after)))
            if made is not None:
                return {item.path: made}
        return {}

    return make


def stale_output(project: Project) -> Texts:
    """No invalidation in the files that run the network or work on its outputs."""
    if not hardware(project, first=False):
        return {}
    call = re.compile(
        r"^[ \t]*(?:SCB_(?:CleanInvalidate|Invalidate)DCache(?:_by_Addr)?|"
        r"mcu_cache_(?:clean_)?invalidate(?:_range)?|LL_ATON_Cache_MCU_\w*Invalidate_Range)"
        r"\s*\([^;]*;",
        re.MULTILINE,
    )
    outputs = re.compile(r"out|result|pred|\(\s*\)", re.IGNORECASE)
    changed = {}
    for item, text in own(project, Kind.C_SOURCE):
        made = call.sub(lambda m: ";" if outputs.search(m[0]) else m[0], text)
        if made != text:
            changed[item.path] = made
    return changed


def empty_helpers(project: Project) -> Texts:
    """The functions that the runtime calls for cache maintenance do nothing."""
    changed: Texts = {}
    if not cached(project):
        return changed
    body = re.compile(
        r"(\bmcu_cache_\w*(?:clean|invalidate)\w*\s*\([^;{)]*\)\s*)\{.*?^\}", re.M | re.S
    )
    for item in project.of(Kind.C_SOURCE):
        text = project.text(item)
        made = body.sub(r"\1{\n  return 0;\n}", text)
        if made != text:
            changed[item.path] = made
    return changed


def unaligned(project: Project) -> Texts:
    """A buffer that is invalidated loses its alignment."""
    call = re.compile(
        r"SCB_InvalidateDCache_by_Addr\s*\(\s*(?:\([^)]*\)\s*)?&?(\w+)\s*(?:\[0\])?\s*,"
    )
    for _, text in own(project, Kind.C_SOURCE):
        for name in dict.fromkeys(call.findall(text)):
            for item, other in own(project, Kind.C_SOURCE):
                line = re.search(rf"^[^\n;]*\b{name}\s*\[[^;]*;", other, re.M)
                if line is None:
                    continue
                bare = re.sub(
                    r"\b(?:ALIGN_32|__?ALIGN\w*\(\w+\)|__attribute__\s*\(\(.*?aligned.*?\)\))",
                    "",
                    line[0],
                )
                if bare != line[0]:
                    return {item.path: other[: line.start()] + bare + other[line.end() :]}
    return {}


def bank(project: Project) -> str:
    """Number of a RAM bank that the network uses and reset leaves off; "" when there is none."""
    for facts in networks_of(project):
        for start, end, _ in facts.touched:
            for number, base in (
                ("5", 0x342E0000),
                ("4", 0x34270000),
                ("6", 0x34350000),
                ("3", 0x34200000),
            ):
                if start < base + 0x70000 and base < end:
                    return number
    return ""


def of_bank(pattern: str, new: str) -> Callable[[Project], Texts]:
    def make(project: Project) -> Texts:
        number = bank(project)
        return everywhere(pattern.replace("BANK", number), new)(project) if number else {}

    return make


def mapped(which: str, base: int) -> Callable[[Project], Texts]:
    """Nothing maps an external memory that the network uses."""

    def make(project: Project) -> Texts:
        used = any(s >> 24 == base for f in networks_of(project) for s, _, _ in f.touched)
        return (
            everywhere(rf"^[ \t]*(?:[\w ]+=\s*)?{which}\s*\([^;]*;", ";")(project) if used else {}
        )

    return make


def guard(project: Project) -> Texts:
    """The network comes from another release than the library."""
    if not any(item.path.name == "ll_aton_version.h" for item in project.of(Kind.C_HEADER)):
        return {}
    changed = {}
    for item in project.of(Kind.NETWORK_C):
        text = project.text(item)
        made = re.sub(
            r"(LL_ATON_VERSION_MINOR\s*!=\s*)(\d+)", lambda m: f"{m[1]}{int(m[2]) + 1}", text
        )
        if made != text:
            changed[item.path] = made
    return changed


def script(project: Project) -> Texts:
    """The application's RAM region lies where there is no memory."""
    for item, text in own(project, Kind.LINKER_SCRIPT):
        match = re.search(r"(\bRAM\w*\s*\([^)]*\)\s*:\s*ORIGIN\s*=\s*)0x[23]4[0-9A-Fa-f]{6}", text)
        if match and not re.search(r"fsbl|loader|boot", item.name, re.IGNORECASE):
            return {
                item.path: text[: match.start()] + f"{match[1]}0x34500000" + text[match.end() :]
            }
    return {}


def signing(project: Project) -> Texts:
    """The signing command has lost its alignment option."""
    changed = {}
    for item, text in own(project, Kind.SCRIPT, Kind.BUILD):
        if "igningTool" in text:
            made = re.sub(r"\s-align\b", "", text)
            if made != text:
                changed[item.path] = made
    return changed


def module(project: Project) -> Texts:
    """Generating code again has switched a HAL module off."""
    changed = {}
    for item, text in own(project, Kind.C_HEADER):
        if item.path.name == "stm32n6xx_hal_conf.h":
            made = re.sub(
                r"^[ \t]*(#[ \t]*define\s+HAL_RIF_MODULE_ENABLED\b)[^\n]*",
                r"/* \1 */",
                text,
                flags=re.M,
            )
            if made != text:
                changed[item.path] = made
    return changed


CACHE = r"SCB_\w*DCache_by_Addr"
STATEMENT = r"^[ \t]*(?:\(void\)\s*)?"
MUTATIONS = (
    Mutation("output is no longer invalidated", ("K07-output-stale",), stale_output),
    Mutation("input is written after the clean", ("K07-input-not-cleaned",),
             near_run("memset((void *)IN, 0, 64);\n", first=True)),
    Mutation("written input is invalidated", ("K07-dirty-invalidated",),
             near_run("memset((void *)IN, 0, 64);\nSCB_InvalidateDCache_by_Addr((void *)IN, 64);\n",
                      first=True)),
    Mutation("end address for a size", ("K08-end-for-size",),
             once(rf"({CACHE}\s*\(\s*)(?:\([^()]*\)\s*)?(\w+)\s*,\s*([^;]+)\);",
                  r"\1\2, (uint32_t)\2 + \3);")),
    Mutation("size for an end address", ("K08-size-for-end",),
             once(r"(mcu_cache_\w+_range\s*\(\s*[^,;{}]+,\s*)[^;{}]*?\+\s*([^;{}]+)\);",
                  r"\1(uint32_t)sizeof(nf_buffer));")),
    Mutation("cache functions do nothing", ("K08-no-effect",), empty_helpers),
    Mutation("buffer loses its alignment", ("K09-unaligned",), unaligned),
    Mutation("NPU is no secure slave", ("K05-risc-missing",),
             everywhere(rf"{STATEMENT}HAL_RIF_RISC_SetSlaveSecureAttributes\s*\(\s*"
                        r"RIF_RISC_PERIPH_INDEX_NPU[^;]*;", ";")),
    Mutation("a RAM bank stays off", ("K03-bank-power",),
             of_bank(r"^[^\n;]*RAMCFG_SRAMBANK_AXI[^;]*;", ";")),
    Mutation("a RAM bank has no clock", ("K03-bank-clock",),
             of_bank(r"__HAL_RCC_AXISRAMBANK_MEM_CLK_ENABLE\s*\(\s*\)\s*;", ";")),
    Mutation("the NPU has no clock", ("K03-npu-clock",),
             everywhere(r"__HAL_RCC_NPU_CLK_ENABLE\s*\(\s*\)\s*;", ";")),
    Mutation("flash is not mapped", ("K04-flash-unmapped",),
             mapped(r"\w*(?:NOR|Nor|XSPI|EXTMEM)\w*(?:MemoryMapped|MEMORY_MAPPED)\w*", 0x71)),
    Mutation("PSRAM is not mapped", ("K04-psram-off",),
             mapped(r"(?:BSP_XSPI_RAM|APS256\w*|EXTMEM|\w*PSRAM|\w*Psram|\w*psram)_\w+", 0x90)),
    Mutation("sleep clocks are missing", ("K06-sleep-clock", "K06-sleep-clock-part"),
             everywhere(r"__HAL_RCC_NPU_CLK_SLEEP_ENABLE\s*\(\s*\)\s*;|"
                        r"LL_AHB5_GRP1_EnableClockLowPower\s*\(\s*~0\s*\)\s*;", ";")),
    Mutation("network of another release", ("K14-guard",), guard),
    Mutation("RAM region where there is none", ("K02-no-memory", "K02-other-family"), script),
    Mutation("signing without alignment", ("K15-no-align",), signing),
    Mutation("HAL module switched off", ("K29-hal-module",), module),
    Mutation("the runtime is never initialised", ("K11-no-runtime-init",),
             everywhere(rf"{STATEMENT}(?:LL_ATON_RT_RuntimeInit|stai_runtime_init)\s*\(\s*\)\s*;",
                        ";")),
    Mutation("one epoch instead of all", ("K11-single-epoch",),
             everywhere(r"\}\s*while\s*\(\s*\w+\s*!=\s*LL_ATON_RT_DONE\s*\)\s*;", "} while (0);")),
    Mutation("no reset between inferences", ("K11-no-reset",),
             everywhere(rf"{STATEMENT}LL_ATON_RT_(?:Reset|DeInit|Init)_Network\s*\([^;]*;", ";")),
)  # fmt: skip


def mutant(project: Project, texts: Texts) -> Project:
    """The same project with other contents of some files."""
    made = Project(project.artefacts)
    made._texts = {**project._texts, **texts}
    return made


def seen(project: Project) -> set[tuple[str, str, str]]:
    return {(f.id, f.evidence[0].file, f.evidence[0].token) for f in diagnose(project).findings}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of project folders")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--list", action="store_true", help="also print every mutation")
    parser.add_argument("--only", help="part of a mutation's name")
    options = parser.parse_args()
    tried: Counter[str] = Counter()
    found: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    places: defaultdict[str, list[str]] = defaultdict(list)
    folders = sorted(path for path in options.folder.iterdir() if path.is_dir())
    for folder in folders:
        project = collect([folder])
        before = seen(project)
        ids = {key[0] for key in before}
        for mutation in MUTATIONS:
            if options.only and options.only not in mutation.name:
                continue
            texts = mutation.make(project)
            if not texts or ids & set(mutation.rules):
                continue
            tried[mutation.name] += 1
            places[mutation.name].append(folder.name)
            new = [f for f in diagnose(mutant(project, texts)).findings if f.id in mutation.rules]
            found[mutation.name] += bool(new)
            errors[mutation.name] += any(f.severity is Severity.ERROR for f in new)
            if options.list:
                files = ", ".join(str(path.relative_to(folder)) for path in list(texts)[:3])
                word = f"found {new[0].severity.value}" if new else "missed"
                print(f"{word}\t{folder.name}\t{mutation.name}\t{files}", flush=True)
    rows = [
        (m.name, " ".join(m.rules), tried[m.name], found[m.name], errors[m.name])
        for m in MUTATIONS
        if tried[m.name]
    ]
    total, good = tried.total(), found.total()
    report(
        "Faults written into real projects",
        ("mutation", "finding", "projects", "found", "as an error"), rows, options.json,
        projects=len(folders), kinds=len(rows), mutants=total, found=good,
        recall=f"{good / total:.1%}" if total else "-",
    )  # fmt: skip
    return 0 if total and good >= 0.9 * total else 1


if __name__ == "__main__":
    sys.exit(main())

"""K01, K14 to K16 and K30: what lies where, in flash and in RAM, and whether the parts fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from npuforge.artefacts.boot_image import BootImage, read_boot_image
from npuforge.artefacts.c_source import constant
from npuforge.artefacts.elf import Image, read_elf, read_map
from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.checks_memory import OFF_AT_RESET, scripts
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding, Premise, Rule
from npuforge.doctor.network_facts import NetworkFacts, networks_of
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import Sources, sources_of
from npuforge.doctor.stm32n6 import APPLICATION_SLOT, FSBL_ZONE, bank_of, secure
from npuforge.errors import ModelError
from npuforge.vocab import Severity

OVERLAP = Rule("K01-overlap", Severity.ERROR, cases=("C27", "C05"), rank=5)
STACK = Rule("K01-stack-in-pool", Severity.WARNING, Confidence.MEDIUM, cases=("C05",), rank=6)
FSBL = Rule("K01-fsbl-zone", Severity.INFO, cases=("C03",))
NOLOAD = Rule("K01-noload-context", Severity.ERROR, cases=("A34",), rank=10)
FRAME = Rule("K01-frame-over-code", Severity.WARNING, cases=("C26",), rank=10)
HEAP = Rule("K01-heap-shared", Severity.WARNING, Confidence.MEDIUM, cases=("I13",), rank=10)
SLOT = Rule("K15-slot", Severity.ERROR, cases=("C02",), rank=5)
COPY = Rule("K15-copy-size", Severity.ERROR, cases=("C28",), rank=5)
HEADER = Rule("K15-header", Severity.ERROR, cases=("H01",), rank=5)
NO_ALIGN = Rule("K15-no-align", Severity.WARNING, cases=("H01",), rank=10)
ADDRESS = Rule("K15-flash-address", Severity.ERROR, cases=("H04",), rank=5)
UNSIGNED = Rule("K15-unsigned", Severity.WARNING, Confidence.MEDIUM, cases=("H04",), rank=10)
NOT_LOADED = Rule("K16-not-loaded", Severity.WARNING, Confidence.MEDIUM, cases=("C01",), rank=5)
BASE = Rule("K16-base", Severity.ERROR, cases=("C13", "A01"), rank=5)


@dataclass(frozen=True)
class Placed:
    """A file that a script writes to flash."""

    file: str
    start: int
    where: Evidence


def _map(artefact: Artefact, text: str) -> Image:
    return read_map(text)


def images_of(project: Project) -> list[tuple[Artefact, Image]]:
    """Linked programs for this chip: ELF files, else maps."""

    def make() -> list[tuple[Artefact, Image]]:
        programs = list(_binary(project))
        # a map does not say which sections are only reserved; its program does
        stems = {PurePosixPath(item.name).with_suffix("") for item, _ in programs}
        maps = [
            (item, image)
            for item, image in project.parsed(_map, Kind.MAP)
            if PurePosixPath(item.name).with_suffix("") not in stems
        ]
        found = [*programs, *maps]
        return [
            (item, image)
            for item, image in found
            if any(secure(s.address) >> 24 in (0x34, 0x70, 0x71) for s in image.sections)
        ]

    return project.once("images", make)


def _binary(project: Project) -> Iterator[tuple[Artefact, Image]]:
    for item in project.of(Kind.ELF):
        if re.search(r"stldr|loader|fsbl", item.name, re.IGNORECASE):
            continue
        try:
            yield item, read_elf(project.data(item), item.name)
        except ModelError as error:
            project.note(item, error.code, error)


# -- RAM


def _ram(project: Project) -> Iterator[Finding]:
    networks = networks_of(project)
    images = images_of(project)
    for item, image in images:
        for section in image.sections:
            bank = bank_of(section.address)
            if section.loaded and bank is not None and bank.needs_power:
                yield OFF_AT_RESET.at(
                    item.at(None, section.name, section.address), what=section.name,
                    end=f"{section.end:#010x}", bank=bank.name,
                )  # fmt: skip
        for facts in networks if _links_network(image) else ():
            for start, end, name in facts.touched:
                over = next(
                    (
                        s
                        for s in image.sections
                        if s.address < end and start < s.end and not _network_section(s.name)
                    ),
                    None,
                )
                if over is not None:
                    yield OVERLAP.at(
                        item.at(None, over.name, over.address),
                        facts.pool_at(name, start),
                        section=over.name, start=f"{over.address:#010x}", end=f"{over.end:#010x}",
                        pool=name or f"{start:#010x}",
                    )  # fmt: skip
    yield from _stack(project)
    yield from _zone(project)


_FEW = 200
"""Symbols up to which an image (stripped, or a cut map) may hide that it runs a network."""


def _links_network(image: Image) -> bool:
    """Whether a program can run a network: with its symbols known, one is of the runtime."""
    return len(image.symbols) <= _FEW or any(
        re.match(r"_?(?:LL_ATON|ll_aton|NN_I|stai_|ll_sw|npu_cache)", name)
        for name in image.symbols
    )


def _network_section(name: str) -> bool:
    return re.search(r"npu|pool|weights?|activ|aton|psram|ext", name, re.IGNORECASE) is not None


def _stack(project: Project) -> Iterator[Finding]:
    """Linker scripts alone: the stack top inside memory that the network writes."""
    if images_of(project):
        return
    for item, script in scripts(project):
        top = script.symbols.get("_estack")
        if top is None:
            continue
        size = script.symbols.get("_Min_Stack_Size", 0x400)
        for facts in networks_of(project):
            if not _belongs(project, item, facts):
                continue
            for start, end, name in facts.touched:
                if start < top and top - size < end and bank_of(start) is not None:
                    yield STACK.at(
                        item.at(script.symbol_lines.get("_estack"), "_estack", top),
                        facts.pool_at(name, start),
                        top=f"{top:#010x}", pool=name or f"{start:#010x}",
                    )  # fmt: skip


def _belongs(project: Project, script: Artefact, facts: NetworkFacts) -> bool:
    """Whether a network can be part of the program of a linker script: same board, and used."""
    boards = ("nucleo", "dk")
    for board, other in zip(boards, reversed(boards), strict=True):
        here = re.search(rf"(?:^|[/_-]){board}", script.name, re.IGNORECASE)
        if here and re.search(rf"[/_-]{other}[/_-]", f"/{facts.artefact.name}", re.IGNORECASE):
            return False
    used = re.compile(
        rf"\b(?:NN_Instance_|NN_Interface_|stai_){facts.name}\b|stai_{facts.name}_|"
        rf"NN_INSTANCE\w*\s*\(\s*{facts.name}\b"
    )
    return sources_of(project).text_mentions(used)


def _zone(project: Project) -> Iterator[Finding]:
    runs_there = [
        (item, region)
        for item, script in scripts(project)
        for region in script.regions.values()
        if region.origin is not None
        and region.end is not None
        and FSBL_ZONE[0] <= secure(region.origin) < FSBL_ZONE[1]
    ]
    for facts in networks_of(project):
        for start, end, name in facts.touched:
            if start < FSBL_ZONE[1] and FSBL_ZONE[0] < end:
                where = facts.pool_at(name, start)
                if runs_there:
                    item, region = runs_there[0]
                    yield FSBL.at(
                        where, item.at(region.line, region.text, region.origin),
                        severity=Severity.WARNING, pool=name,
                    )  # fmt: skip
                else:
                    yield FSBL.at(where, pool=name)
                return


def _objects(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    yield from _context(project, sources)
    yield from _frames(project, sources)
    yield from _sbrk(sources)


def _context(project: Project, sources: Sources) -> Iterator[Finding]:
    noload = {
        name.rstrip("*"): item.at(section.line, f"{section.name} (NOLOAD)")
        for item, script in scripts(project)
        for section in script.sections
        if section.noload
        for name in (section.name, *section.inputs)
    }
    for source, function, event in sources.all_events():
        if event.kind != "call" or not re.fullmatch(r"stai_(?!runtime)\w+_init", event.name):
            continue
        name = re.sub(r"^[&(\s]+|\W.*$", "", event.args[0]) if event.args else ""
        for where, variable in sources.variables.get(name, ()):
            if variable.section not in noload or any(
                e.kind == "call" and e.name == "memset" and name in e.args[0]
                for e in function.events
            ):
                continue
            yield NOLOAD.at(
                where.at(variable.line, f"{variable.type} {name}"),
                source.at(event.line, event.text),
                noload[variable.section],
                name=name,
                section=variable.section,
            )


_LAYER = re.compile(r"LTDC_SetAddress|SetLayerAddress|ConfigLayer|LTDC_Layer|FBStartAdress")
_FRAME = re.compile(r"FBStart\w*|\w*(?:LAYER|FRAME|FB|LCD)\w*(?:ADDR|ADDRESS|BASE|START)\w*", re.I)


def _frames(project: Project, sources: Sources) -> Iterator[Finding]:
    code = [
        (item, region)
        for item, script in scripts(project)
        for region in script.regions.values()
        if region.origin is not None and region.end is not None and "x" in region.attributes
    ]
    places: list[tuple[Evidence, int]] = []
    default = sources.text_mentions(re.compile(r"BSP_LCD_Init(?:Ex)?\s*\(")) and not (
        sources.text_mentions(_LAYER)
    )
    for found in sources.macros.values() if default else ():
        for source, macro in found:
            if _FRAME.fullmatch(macro.name) and macro.params is None:
                value = constant(macro.body, sources.values)
                if value is not None:
                    where = source.at(macro.line, f"#define {macro.name} {macro.body}")
                    places.append((where, value))
    for source, _, event in sources.all_events():
        if event.kind == "assign" and _FRAME.search(event.name.split(".")[-1].split("->")[-1]):
            value = constant(event.args[1], sources.values)
            if value is not None:
                places.append((source.at(event.line, f"{event.name} = {event.args[1]}"), value))
    for where, value in places:
        for item, region in code:
            start = secure(region.origin or 0) & ~0xFFF
            if start <= secure(value) < secure(region.end or 0) and secure(value) >> 24 == 0x34:
                yield FRAME.at(
                    where, item.at(region.line, region.text, region.origin),
                    address=f"{value:#010x}", region=region.name,
                )  # fmt: skip
                break


def _sbrk(sources: Sources) -> Iterator[Finding]:
    for source, function in sources.functions.get("_sbrk", ()):
        symbol = None
        for event in function.events:
            if event.kind == "assign":
                match = re.search(r"&\s*(_end|end|__end__|_ebss|_heap_start)\b", event.args[1])
                symbol = match[1] if match else symbol
        limit = any(
            re.search(r"_estack|limit|HEAP_SIZE|heap_end|_eheap", " ".join((e.name, *e.args)))
            and e.kind == "assign" and "estack" not in " ".join(e.args)
            for e in function.events
        )  # fmt: skip
        if symbol is None or limit:
            continue
        for other, user, event in sources.all_events():
            if user.name == "_sbrk" or event.kind not in ("assign", "call"):
                continue
            words = " ".join((event.name, *event.args))
            if re.search(rf"&\s*{symbol}\b", words) and not re.search(r"memset|zero|clear", words):
                yield HEAP.at(
                    other.at(event.line, words),
                    source.at(function.line, f"_sbrk grows from {symbol}"),
                    symbol=symbol,
                )
                return


# -- flash


_ADDRESS = re.compile(r"\b0x([0-9a-fA-F]{7,8})\b")
_FILE_BEFORE = re.compile(r"([\w./\\$()-]{1,200}\.(?:bin|hex|raw|elf))[\"']?\s*,?\s+(?:-a\w*\s+)?$")
NEAR = 260
"""Characters in front of an address in which the file must stand that is written there."""


def _placed(project: Project) -> list[Placed]:
    """Files that build files and scripts write to addresses."""

    def find() -> list[Placed]:
        found = []
        for item in project.of(Kind.BUILD, Kind.SCRIPT):
            text = project.text(item)
            for address in _ADDRESS.finditer(text):
                low = max(address.start() - NEAR, 0)
                start = max(text.rfind("\n", low, address.start()) + 1, low)
                before = text[start : address.start()]
                if _REMARK.match(before):
                    continue
                match = (
                    _FILE_BEFORE.search(before) if re.search(r"bin|hex|raw|elf", before) else None
                )
                if match is not None:
                    found.append(
                        Placed(
                            PurePosixPath(match[1].replace("\\", "/")).name,
                            int(address[1], 16),
                            item.at(line_of(text, start + match.start()), match[0] + address[0]),
                        )
                    )
        return found

    return project.once("placed", find)


def _size_of(project: Project, name: str) -> tuple[int, Artefact] | None:
    found = [item for item in project.artefacts if item.path.name == name]
    return (found[0].size, found[0]) if len(found) == 1 else None


def _weights(project: Project) -> list[tuple[int, Evidence]]:
    found = []
    for facts in networks_of(project):
        for pool in facts.pools:
            if pool.used and pool.read_only and pool.base >> 28 == 7:
                found.append((pool.base, facts.artefact.at(pool.line, pool.name, pool.base)))
    return found


def _flash(project: Project) -> Iterator[Finding]:
    placed = _placed(project)
    yield from _slots(project, placed)
    yield from _addresses(project, placed)
    yield from _copy(project)
    yield from _raw(project, placed)
    yield from _signing(project)


def _slots(project: Project, placed: list[Placed]) -> Iterator[Finding]:
    weights = _weights(project)
    programs: list[tuple[int, int, Evidence]] = []
    for entry in placed:
        sized = _size_of(project, entry.file)
        if sized and not _is_weights(entry.file):
            programs.append((entry.start, entry.start + sized[0], entry.where))
    if not programs:
        for item in project.of(Kind.BOOT_IMAGE):
            start = APPLICATION_SLOT[0]
            if item.size > 0x1000 and "fsbl" not in item.name.lower():
                programs.append((start, start + item.size, item.at(None, f"{item.size} bytes")))
        for item, image in images_of(project):
            runs = {secure(s.address) >> 20 for s in image.sections if s.code}
            if not programs and image.load_bytes and runs & {0x340} and item.kind is Kind.ELF:
                start = APPLICATION_SLOT[0]
                programs.append(
                    (start, start + image.load_bytes, item.at(None, f"{image.load_bytes} bytes"))
                )
    for start, end, where in programs:
        for base, evidence in weights:
            if start < base < end:
                yield SLOT.at(
                    where, evidence, size=end - start, start=f"{start:#010x}",
                    base=f"{base:#010x}", room=base - start,
                )  # fmt: skip
                break


def _is_weights(name: str) -> bool:
    return re.search(r"atonbuf|weights?|xspi|network_data|params|\.raw", name, re.I) is not None


def _addresses(project: Project, placed: list[Placed]) -> Iterator[Finding]:
    for entry in placed:
        if 0x0700_0000 <= entry.start < 0x0800_0000:
            yield ADDRESS.at(entry.where, address=f"{entry.start:#010x}")
    bases = {base for base, _ in _weights(project)}
    for entry in placed:
        named = re.search(r"atonbuf\.xSPI2", entry.file) and entry.start >> 28 == 7
        if named and len(bases) == 1 and entry.start not in bases:
            base, evidence = _weights(project)[0]
            yield BASE.at(entry.where, evidence, start=f"{entry.start:#010x}", base=f"{base:#010x}")
    signing = any(
        re.search(r"SigningTool|-align\b|_signed|sign", project.text(item), re.IGNORECASE)
        for item in project.of(Kind.BUILD, Kind.SCRIPT)
    )
    for entry in placed:
        boots = entry.start in (0x7000_0000, APPLICATION_SLOT[0])
        if boots and not signing and "sign" not in entry.file and "trusted" not in entry.file:
            yield UNSIGNED.at(entry.where, file=entry.file)


def _copy(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    sizes = [
        (image.load_bytes, item.at(None, f"{image.load_bytes} bytes"))
        for item, image in images_of(project)
        if image.load_bytes and not re.search("fsbl|loader", item.name, re.IGNORECASE)
    ]
    sizes += [
        (item.size, item.at(None, f"{item.size} bytes"))
        for item in project.of(Kind.BOOT_IMAGE, Kind.RAW_IMAGE)
        if re.search(r"app", item.path.name, re.IGNORECASE) and not _is_weights(item.path.name)
    ]
    defined = [
        (value, source.at(macro.line, f"#define {macro.name} {macro.body}"))
        for source, macro in sources.macros.get("EXTMEM_LRUN_SOURCE_SIZE", ())
        # a flash loader has the same header and boots nothing
        if not re.search("loader", source.artefact.name, re.IGNORECASE)
        and (value := constant(macro.body, sources.values)) is not None
    ]
    largest = max(sizes, default=None, key=lambda pair: pair[0])
    if largest is None:
        return
    short = [(value, where) for value, where in defined if value < largest[0]]
    # of several boot loaders and applications, which belong together is not said; a map does not
    # tell what of a section is in the file
    sure = len(short) == len(defined) == len(sizes) == 1 and not largest[1].file.endswith(".map")
    for value, where in short:
        yield COPY.at(
            where, largest[1], premises=(Premise("pair", where if sure else None),),
            copied=value, size=largest[0],
        )  # fmt: skip


def _raw(project: Project, placed: list[Placed]) -> Iterator[Finding]:
    sources = sources_of(project)
    for item in project.of(Kind.RAW_IMAGE, Kind.IHEX):
        match = re.search(r"atonbuf\.(AXISRAM[2-6]|npuRAM[3-6]|cpuRAM2)\.", item.path.name)
        if match is None or not item.size:
            continue
        for facts in networks_of(project):
            pool = next((p for p in facts.pools if match[1] in (p.postfix, p.name)), None)
            if pool is None or not _beside(item, facts.artefact):
                continue
            address = re.compile(rf"0x{pool.base:x}", re.IGNORECASE)
            loaded = any(address.search(entry.where.token) for entry in placed)
            if not loaded and not sources.text_mentions(address):
                yield NOT_LOADED.at(
                    item.at(None, f"{item.size} bytes"),
                    facts.artefact.at(pool.line, pool.name, pool.base),
                    # of several networks, one may be kept without being used
                    severity=None if len(networks_of(project)) == 1 else Severity.WARNING,
                    pool=pool.name, base=f"{pool.base:#010x}",
                )  # fmt: skip


def _beside(one: Artefact, other: Artefact) -> bool:
    """Whether the folder of one file is that of the other, or lies in it."""
    a, b = (f"{item.name.rpartition('/')[0]}/" for item in (one, other))
    return a.startswith(b) or b.startswith(a)


def _signing(project: Project) -> Iterator[Finding]:
    for item in project.of(Kind.BOOT_IMAGE):
        try:
            header: BootImage = read_boot_image(project.data(item, 0x1000), item.name)
        except ModelError as error:
            project.note(item, error.code, error)
            continue
        if header.reset is not None and not header.aligned:
            yield HEADER.at(
                item.at(None, f"entry point {header.entry:#010x}", header.entry),
                entry=f"{header.entry:#010x}", reset=f"{header.reset:#010x}",
            )  # fmt: skip
    for item in project.of(Kind.BUILD, Kind.SCRIPT):
        text = project.text(item)
        end = 0
        for match in _SIGNS.finditer(text):
            if match.start() < end:
                continue
            start, end = text.rfind("\n", 0, match.start()) + 1, _command_end(text, match.start())
            words = text[start:end]
            if _REMARK.match(words):
                continue
            if re.search(r"-bin\b|\s-t\s", words) and not re.search(r"-align\b|--align", words):
                yield NO_ALIGN.at(item.at(line_of(text, match.start()), words))


_REMARK = re.compile(r"[ \t]*(?:#|::|@?rem\b)", re.IGNORECASE)
"""A line of a script or build file that only says something."""
_SIGNS = re.compile(r"SigningTool_CLI|SIGN\w*(?:TOOL|CLI|EXE)\w*")
"""The signing tool, by its name or as a variable of a build file."""


def _command_end(text: str, at: int) -> int:
    """End of the line at a position, over lines that a backslash continues."""
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        if not text.endswith("\\", 0, end):
            return end
        at = end + 1


CHECKS = (
    Check("memory overlaps", (OVERLAP, STACK, FSBL, OFF_AT_RESET), _ram),
    Check("objects in memory", (NOLOAD, FRAME, HEAP), _objects),
    Check(
        "flash images",
        (SLOT, COPY, HEADER, NO_ALIGN, ADDRESS, UNSIGNED, NOT_LOADED, BASE),
        _flash,
    ),
)

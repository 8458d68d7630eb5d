"""The project as a Zephyr module, with a sample application of it.

Zephyr brings the board up, owns its linker script and the program's memory; the module adds the
runtime, the networks, a port on Zephyr's calls, and a devicetree overlay that says which memories
are the networks'. Formats: Zephyr's documentation of modules, devicetree bindings and
``zephyr_linker_sources``; names of nodes and boards: its devicetree sources of the STM32N6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from npuforge.firmware.flash_layout import FlashLayout
from npuforge.firmware.network import Network
from npuforge.firmware.project import SMALL_SOURCES, rendered, template_files
from npuforge.memory.layout import SystemLayout
from npuforge.memory.linker import ANSWERS_SECTION, weights_section
from npuforge.memory.spans import aligned
from npuforge.memory.writers.link_script import network_sections

BOARDS: Mapping[str, str] = {
    "stm32n6570-dk": "stm32n6570_dk/stm32n657xx/sb",
    "nucleo-n657x0-q": "nucleo_n657x0_q/stm32n657xx/sb",
}
"""What ``west build -b`` calls the boards, as a program that is started over the serial boot."""

PROGRAM = (0x34180400, 0x34200000)
"""Where Zephyr's program and data lie on these boards: its node ``axisram2``."""

BUFFER_BYTES = 64 * 1024
"""Bytes of shared buffers that the sample asks for, where the plan leaves them."""

IMAGE_BYTES = 256 * 1024
"""Weights and known answers up to this size are in the image by default: it runs in 511 KiB."""


class _Home(NamedTuple):
    label: str
    region: str
    extra: str
    end: int


_OWN = """\tnf_{name}: nf-memory@{base:x} {{
\t\tcompatible = "zephyr,memory-region";
\t\treg = <{base:#010x} {size:#x}>;
\t\tzephyr,memory-region = "{region}";
\t}};"""


@dataclass(frozen=True)
class ZephyrMemory:
    """A memory of the networks.

    Attributes:
        label: of its devicetree node.
        region: name of its linker region.
        base: first address.
        nbytes: its size.
        node: devicetree source of the node, "" for one that Zephyr's has.
        sections: activation regions in it, with their bytes.
        buffers: bytes of shared buffers behind them; None where there are none.
        powered: nodes of Zephyr's that the memory spans and that switch its banks on.
    """

    label: str
    region: str
    base: int
    nbytes: int
    node: str
    sections: tuple[tuple[str, int], ...]
    buffers: int | None = None
    powered: tuple[str, ...] = ()


def _homes(layout: SystemLayout) -> dict[str, _Home]:
    lower = layout.target.pool("cpuRAM2")
    size = PROGRAM[0] - lower.base
    own = _OWN.format(name="axisram2", base=lower.base, size=size, region="NF_AXISRAM2")
    homes = {"cpuRAM2": _Home("nf_axisram2", "NF_AXISRAM2", own, PROGRAM[0])}
    for number in range(3, 7):
        pool = layout.target.pool(f"npuRAM{number}")
        homes[pool.name] = _Home(f"axisram{number}", f"AXISRAM{number}", "", pool.end)
    for pool in layout.target.pools:
        if pool.name == "hyperRAM":
            # the last line of the PSRAM is not to be read: STM32N6 errata ES0620, 2.4.5
            homes[pool.name] = _Home("psram", "PSRAM", "", pool.end - 32)
    return homes


def _pools_of(layout: SystemLayout, first: int, end: int) -> tuple[str, ...] | None:
    """Names of the memories side by side that addresses lie in; None where one lies in none."""
    names = []
    while first < end:
        pool = layout.target.pool_at(first)
        if pool is None:
            return None
        names.append(pool.name)
        first = pool.end
    return tuple(names)


def _joined(homes: Sequence[_Home], base: int) -> _Home:
    """One memory over several of Zephyr's: a section may lie across their border."""
    name = "_".join(home.label for home in homes)
    region = "_".join(home.region for home in homes)
    node = _OWN.format(name=name, base=base, size=homes[-1].end - base, region=region)
    return _Home(f"nf_{name}", region, node, homes[-1].end)


def zephyr_memories(layout: SystemLayout) -> list[ZephyrMemory] | None:
    """The memories of a layout's activations; None where Zephyr's own program lies in them."""
    homes = _homes(layout)
    found: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for section in network_sections(layout):
        if section.load:
            continue
        names = _pools_of(layout, section.address, section.address + section.nbytes)
        if names is None or not homes.keys() >= set(names):
            return None
        # memories that any section joins are one
        sections = [(section.section, section.nbytes)]
        for other in [key for key in found if set(key) & set(names)]:
            sections = found.pop(other) + sections
            names = tuple(sorted({*other, *names}, key=lambda n: layout.target.pool(n).base))
        found[names] = sections
    made = []
    for names, sections in found.items():
        base = layout.target.pool(names[0]).base
        parts = [homes[name] for name in names]
        own = len(parts) > 1
        label, region, node, end = _joined(parts, base) if own else parts[0]
        if PROGRAM[0] in (home.end for home in parts[:-1]):
            return None  # joined across Zephyr's program
        line = layout.target.buffer_alignment
        if base + sum(aligned(nbytes, line) for _, nbytes in sections) > end:
            return None
        powered = tuple(home.label for home in parts if not home.extra) if own else ()
        made.append(
            ZephyrMemory(label, region, base, end - base, node, tuple(sections), powered=powered)
        )
    return _with_buffers(made, layout.target.buffer_alignment)


def _with_buffers(memories: list[ZephyrMemory], line: int) -> list[ZephyrMemory]:
    """Shared buffers lie in the memory with the most room."""

    def room(memory: ZephyrMemory) -> int:
        return memory.nbytes - sum(aligned(nbytes, line) for _, nbytes in memory.sections)

    best = max(memories, key=room)
    bytes_ = min(BUFFER_BYTES, room(best))
    return [replace(m, buffers=bytes_) if m is best else m for m in memories]


class FlashFile(NamedTuple):
    """A file that is programmed at an address, and the section that is read there."""

    file: str
    section: str
    address: int
    nbytes: int


def flash_parts(networks: Sequence[Network], flash: FlashLayout) -> list[FlashFile]:
    """Weights and known answers of networks in the flash; the answers lie one after the other."""
    made = []
    for network in networks:
        part = flash.part(f"weights of {network.name}")
        made.append(FlashFile(part.file, weights_section(network.name), part.address, part.nbytes))
    at = flash.part("known answers").address
    for network in networks:
        tensors = [*network.graph.inputs, *network.graph.outputs]
        nbytes = sum(network.graph.tensors[name].nbytes for name in tensors)
        made.append(FlashFile(f"network/{network.name}_answer.bin", ANSWERS_SECTION, at, nbytes))
        at = aligned(at + nbytes, 8)
    return made


def zephyr_files(
    layout: SystemLayout,
    networks: Sequence[Network],
    flash: FlashLayout,
    application: Sequence[str],
    title: str,
    loader: str,
) -> dict[str, bytes]:
    """The module and its sample by relative path; none where the plan leaves Zephyr no memory.

    Args:
        layout: of the board.
        networks: of the project.
        flash: where weights and known answers are programmed.
        application: sources of the application, paths in the project.
        title: first comment line.
        loader: file name of the programmer's loader for the flash.
    """
    memories = zephyr_memories(layout)
    if memories is None:
        return {}
    window = layout.target.pool("octoFlash")
    parts = flash_parts(networks, flash)
    values = {
        "title": title,
        "loader": loader,
        "board": BOARDS[layout.target.name],
        "networks": networks,
        "names": [network.name for network in networks],
        "memories": memories,
        "window": window,
        "parts": parts,
        "first": min(part.address for part in parts),
        "in_image": sum(part.nbytes for part in parts) <= IMAGE_BYTES,
        "sections": {part.section: part.address for part in reversed(parts)},
        "small": SMALL_SOURCES,
        "line": layout.target.buffer_alignment,
        "buffers": next(m.buffers for m in memories if m.buffers is not None),
        "application": application,
    }
    files = {
        f"zephyr/{name}": rendered(f"zephyr/{name}.j2", **values)
        for name in (
            "CMakeLists.txt", "Kconfig", "module.yml", "memories.ld", "weights.ld", "constants.ld",
            "README.md", "app/CMakeLists.txt", "app/app.overlay", "app/prj.conf", "app/sample.yaml",
        )
    }  # fmt: skip
    files["zephyr/dts/bindings/npuforge,memories.yaml"] = rendered("zephyr/binding.yaml.j2")
    files |= template_files("zephyr/port", "zephyr_port")
    return files | template_files("zephyr/app", "zephyr_app")

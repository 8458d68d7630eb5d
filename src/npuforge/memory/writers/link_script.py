"""The linker script of a system's layout.

Every block has a memory region of exactly its place and size, so that the linker refuses what the
layout did not foresee. Code and static data get the rooms the layout left for them. Networks that
share an arena have sections at the same address: they hold nothing at load time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npuforge.memory.layout import Block, SystemLayout
from npuforge.memory.linker import (
    LinkSection,
    answers_section,
    assertions,
    code_sections,
    fixed_sections,
    region_section,
    weights_section,
)
from npuforge.memory.spans import aligned
from npuforge.memory.system import Account, link_name
from npuforge.targets import Reach

CODE_REGION = "CODE"
DATA_REGION = "RAM"
CONSTANTS_REGION = "CONSTANTS"
"""What the program leaves of its slot in the flash."""
SECTOR = 64 * 1024
"""Bytes that the flash erases at once."""


@dataclass(frozen=True)
class LinkRegion:
    """A line of ``MEMORY``: name, access letters, first address and bytes."""

    name: str
    access: str
    origin: int
    length: int


_PREFIX = {Account.DATA_PATH: "data", Account.NPU_RUNTIME: "npu"}


def block_section(block: Block) -> str:
    """Section of an item of the description: what C puts there with an attribute."""
    return f".mem_{_PREFIX.get(block.account, 'sys')}_{link_name(block.name)}"


def code_room(layout: SystemLayout) -> tuple[int, int]:
    """First and end address of what code and constants may take, behind the boot header."""
    boot, target = layout.boot, layout.target
    start = target.pool(boot.code).base + boot.offset + boot.header
    fixed = {"boot header", "code", "read-only data", "npu runtime"}
    behind = [b.address for b in layout.blocks if b.address >= start and b.name not in fixed]
    end = min([target.pool(boot.code).end, *behind])
    if boot.weights and start < boot.weights < end:
        end = boot.weights
    return start, end


def data_room(layout: SystemLayout) -> tuple[int, int]:
    """First and end address of what static data may take."""
    pool = layout.target.pool(layout.boot.data[0])
    items = [
        b.address
        for b in layout.blocks
        if pool.base <= b.address < pool.end and b.name != "static data"
    ]
    start = pool.base
    if layout.boot.code == pool.name:
        start = code_room(layout)[1]
    return start, min([pool.end, *items])


def network_sections(layout: SystemLayout) -> list[LinkSection]:
    """Sections of the networks' activations and weights at the plan's addresses."""
    sections = []
    for network in layout.networks:
        plan = network.plan
        for i, region in enumerate(plan.regions):
            sections.append(
                LinkSection(
                    region_section(network.name, i), _region_at(layout, region.base),
                    region.base, region.used, False,
                )
            )  # fmt: skip
        sections.append(
            LinkSection(
                weights_section(network.name), _region_at(layout, plan.weights.base),
                plan.weights.base, plan.weights.used, True,
            )
        )  # fmt: skip
    return sections


def link_regions(layout: SystemLayout) -> list[LinkRegion]:
    """The regions in the order of their addresses."""
    start, end = code_room(layout)
    low, high = data_room(layout)
    regions = [
        LinkRegion(CODE_REGION, "rx", start, end - start),
        LinkRegion(DATA_REGION, "rw", low, high - low),
    ]
    boot = layout.boot
    if boot.stored and boot.weights:
        # the image's slot is longer than the memory it is copied to: constants lie behind it
        first = aligned(boot.stored + layout.target.pool(boot.code).size, SECTOR)
        regions.append(LinkRegion(CONSTANTS_REGION, "r", first, boot.weights - first))
    for block in _placed(layout):
        access = "r" if block.loaded else "rw"
        regions.append(LinkRegion(_region_name(block), access, block.address, block.nbytes))
    return sorted(regions, key=lambda region: region.origin)


def system_linker_script(layout: SystemLayout, title: str) -> str:
    """The script.

    Section names are those of generated networks (`region_section`, `weights_section`) and
    `block_section` for items; symbols ``nf_mem_NAME_start`` and ``nf_mem_NAME_end``
    bound each item.

    Args:
        layout: the system.
        title: first comment line.
    """
    sections = network_sections(layout)
    boot = layout.boot
    lines = [
        f"/* {title.replace('*/', '* /')}",
        f" * {layout.target.name}, boot {boot.name}; written from the memory layout. */",
        "ENTRY(Reset_Handler)",
        "",
        "MEMORY",
        "{",
    ]
    lines += [
        f"    {r.name} ({r.access}) : ORIGIN = {r.origin:#010x}, LENGTH = {r.length:#x}"
        for r in link_regions(layout)
        if r.length
    ]
    lines += ["}", "", "SECTIONS", "{"]
    lines += fixed_sections(sections)
    for block in _items(layout):
        lines += _item_section(block)
    stack = next((b for b in layout.blocks if b.name == "main stack"), None)
    top = stack.end if stack else data_room(layout)[1]
    lines += code_sections(CODE_REGION, DATA_REGION, top, stack.nbytes if stack else 0)
    named = {region.name for region in link_regions(layout) if region.length}
    lines += answers_section(CONSTANTS_REGION if CONSTANTS_REGION in named else CODE_REGION)
    lines += ["}", ""]
    lines += assertions(sections)
    lines += _image_assertions(layout)
    return "\n".join(lines) + "\n"


def _items(layout: SystemLayout) -> Iterator[Block]:
    """Blocks that come from the description's items, with sections of their own."""
    kinds = (Account.SYSTEM, Account.DATA_PATH, Account.NPU_RUNTIME)
    inside = ("static data", "main stack", "npu runtime")
    for block in layout.blocks:
        if block.account in kinds and not block.loaded and block.name not in inside:
            yield block


def _placed(layout: SystemLayout) -> Iterator[Block]:
    yield from _items(layout)
    for block in layout.blocks:
        if block.account in (Account.WEIGHTS, Account.ACTIVATIONS):
            yield block


def _region_name(block: Block) -> str:
    kind = "DMA_" if Reach.DMA in block.reach else "NF_"
    return kind + link_name(block.name).upper()


def _region_at(layout: SystemLayout, address: int) -> str:
    return next(
        _region_name(block)
        for block in _placed(layout)
        if block.address <= address < block.end or block.address == address
    )


def _item_section(block: Block) -> list[str]:
    name, section = link_name(block.name), block_section(block)
    return [
        f"    {section} {block.address:#010x} (NOLOAD) :",
        "    {",
        f"        nf_mem_{name}_start = .;",
        f"        KEEP(*({section} {section}.*))",
        f"        . = {block.nbytes:#x};",
        f"        nf_mem_{name}_end = .;",
        f"    }} > {_region_name(block)}",
    ]


def _image_assertions(layout: SystemLayout) -> list[str]:
    """What the boot loader copies must fit the slot it is stored in."""
    boot = layout.boot
    if not boot.stored or not boot.weights:
        return []
    slot = boot.weights - boot.stored
    start = code_room(layout)[0]
    return [
        f"ASSERT(nf_data_load + SIZEOF(.data) - {start:#x} + {boot.header:#x} <= {slot:#x}, "
        '"the image does not fit its slot in the flash")'
    ]

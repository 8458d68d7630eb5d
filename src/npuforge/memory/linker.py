"""The linker script, written from the plan: estimate and link cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuforge.errors import PlanError
from npuforge.memory.plan import Plan, Region
from npuforge.memory.spans import aligned
from npuforge.targets import Pool, Target, Use

STACK_BYTES = 16 * 1024
"""Stack of the generated firmware; kernels keep less than 2 KiB on it."""


@dataclass(frozen=True)
class LinkSection:
    """One output section at a fixed address.

    Attributes:
        section: name of the input and output section.
        pool: pool it lies in.
        address: its first address.
        nbytes: its size.
        load: whether it has contents to be loaded (weights), or is only reserved.
    """

    section: str
    pool: str
    address: int
    nbytes: int
    load: bool


def region_section(network: str, index: int) -> str:
    """Section name of activation region `index` of a network."""
    return f".nf_{network}_region_{index}"


def weights_section(network: str) -> str:
    """Section name of a network's weights image."""
    return f".nf_{network}_weights"


ANSWERS_SECTION = ".nf_answers"
"""Section of the known answers; a program that does not ask for them does not hold them."""


def place_sections(plans: Sequence[tuple[str, Plan]], target: Target) -> list[LinkSection]:
    """Addresses on a target of all regions and weights of several networks.

    A plan made for this target keeps its own addresses; a plan for another target (which this one
    emulates) keeps its offsets, and each region gets room in the first pool that has it.

    Raises:
        PlanError: a region does not fit.
    """
    free = {pool.name: pool.base for pool in target.pools}
    sections = []
    for network, plan in plans:
        regions: list[tuple[str, Region, Use]] = [
            (region_section(network, i), region, Use.ACTIVATIONS)
            for i, region in enumerate(plan.regions)
        ]
        regions.append((weights_section(network), plan.weights, Use.WEIGHTS))
        for section, region, use in regions:
            load = use is Use.WEIGHTS
            if plan.target == target.name:
                home = target.pool_at(region.base)
                assert home is not None
                pool = home
                address = region.base if not load else max(region.base, free[pool.name])
            else:
                pool = _roomy(target, free, region.used, use)
                address = free[pool.name]
            free[pool.name] = aligned(address + region.used, target.buffer_alignment)
            sections.append(LinkSection(section, pool.name, address, region.used, load))
    return sections


def _roomy(target: Target, free: dict[str, int], nbytes: int, use: Use) -> Pool:
    for pool in target.pools_for(use):
        if free[pool.name] + nbytes <= pool.end:
            return pool
    available = max((p.end - free[p.name] for p in target.pools_for(use)), default=0)
    raise PlanError("MEM-020", target=target.name, need=nbytes, available=available, use=use)


def program_pools(target: Target) -> tuple[Pool, Pool]:
    """Where code and constants go, and where data and stack: the first two system pools, or one."""
    system = target.pools_for(Use.SYSTEM)
    return system[0], system[min(1, len(system) - 1)]


def linker_script(sections: Sequence[LinkSection], target: Target, title: str) -> str:
    """The linker script of a bare-metal image.

    Code and constants go to the first system pool, data and stack to the second (or the same).

    Args:
        sections: from `place_sections`.
        target: the machine that is linked for.
        title: first comment line.
    """
    code, data = program_pools(target)
    constants = target.pools_for(Use.WEIGHTS)[0].name
    used = dict.fromkeys([code.name, data.name, *(s.pool for s in sections), constants])
    lines = [f"/* {title} */", "ENTRY(Reset_Handler)", "", "MEMORY", "{"]
    for name in used:
        pool = target.pool(name)
        access = "rwx" if pool.writable else "rx"
        lines.append(f"    {name} ({access}) : ORIGIN = {pool.base:#010x}, LENGTH = {pool.size:#x}")
    lines += ["}", "", "SECTIONS", "{"]
    lines += fixed_sections(sections)
    lines += code_sections(code.name, data.name, data.end)
    lines += answers_section(constants)
    lines += ["}", ""]
    lines += assertions(sections)
    return "\n".join(lines) + "\n"


def answers_section(region: str) -> list[str]:
    """Output section of the known answers, behind everything else of a memory region."""
    return [f"    {ANSWERS_SECTION} : {{ *({ANSWERS_SECTION}) }} > {region}"]


def fixed_sections(sections: Sequence[LinkSection]) -> list[str]:
    """Output sections at the addresses of a plan."""
    lines = []
    for s in sections:
        kind = "" if s.load else " (NOLOAD)"
        lines += [
            f"    {s.section} {s.address:#010x}{kind} :",
            "    {",
            f"        KEEP(*({s.section}))",
            f"    }} > {s.pool}",
        ]
    return lines


def code_sections(code: str, data: str, stack_top: int, stack: int = STACK_BYTES) -> list[str]:
    """Output sections of the program itself, and the symbols its start-up code needs.

    Args:
        code: region for code and constants, and for the initial values of data.
        data: region for data.
        stack_top: end address of the main stack.
        stack: bytes that must be left for it.
    """
    return [
        "    .text :",
        "    {",
        "        KEEP(*(.vectors))",
        "        *(.text .text.* .rodata .rodata.*)",
        "        . = ALIGN(4);",
        f"    }} > {code}",
        "    .ARM.exidx : { *(.ARM.exidx .ARM.exidx.*) } > " + code,
        "    nf_data_load = LOADADDR(.data);",
        "    .data :",
        "    {",
        "        nf_data_start = .;",
        "        *(.data .data.*)",
        "        . = ALIGN(4);",
        "        nf_data_end = .;",
        f"    }} > {data} AT > {code}",
        "    .bss (NOLOAD) :",
        "    {",
        "        nf_bss_start = .;",
        "        *(.bss .bss.* COMMON)",
        "        . = ALIGN(8);",
        "        nf_bss_end = .;",
        "        PROVIDE(end = .);",
        f"    }} > {data}",
        f"    nf_stack_top = {stack_top:#010x};",
        f'    ASSERT(nf_bss_end + {stack:#x} <= nf_stack_top, "no room for the stack")',
        "    /DISCARD/ : { *(.comment .note*) }",
    ]


def assertions(sections: Sequence[LinkSection]) -> list[str]:
    """Refuse a link in which a section is not as large as planned."""
    return [
        f'ASSERT(SIZEOF({s.section}) == {s.nbytes:#x}, "{s.section} is not the size of the plan")'
        for s in sections
    ]

"""An independent check of a system's layout. It shares no code with what made it."""

from __future__ import annotations

from npuforge.errors import PlanError
from npuforge.memory.layout import Block, PlacedNetwork, SystemLayout
from npuforge.memory.system import Account
from npuforge.targets import Reach


def verify_layout(layout: SystemLayout) -> None:
    """Check every block: memory of the right reach, alignment of both ends, one owner a byte.

    The rules are the target's: activations and weights on its buffer and weight alignment, what a
    DMA writes on whole cache lines (neither end shared with what the CPU writes), cacheable DMA
    buffers only where the description says that the program maintains them, and nothing that is
    loaded at boot in RAM that the boot loader works in.

    Raises:
        PlanError: SYS-030 with the block and the rule it breaks.
    """
    for block in layout.blocks:
        _check_place(layout, block)
        _check_alignment(layout, block)
        low, high = layout.boot.loader_ram
        if block.loaded and block.address < high and block.end > low:
            raise PlanError(
                "SYS-030", name=block.name, address=f"{block.address:#x}",
                rule=f"the boot loader works in {low:#x} to {high:#x} while it loads",
            )  # fmt: skip
    blocks = layout.blocks
    for i, one in enumerate(blocks):
        for other in blocks[i + 1 :]:
            if one.address < other.end and other.address < one.end:
                raise PlanError(
                    "SYS-030", name=one.name, address=f"{other.address:#x}",
                    rule=f"{other.name} lies there too",
                )  # fmt: skip
    for network in layout.networks:
        _check_network(layout, network)


def _check_place(layout: SystemLayout, block: Block) -> None:
    at = block.address
    while at < block.end:
        homes = [pool for pool in layout.target.pools if pool.base <= at < pool.base + pool.size]
        missing = [reach for reach in block.reach if not homes or reach not in homes[0].reach]
        if missing:
            raise PlanError(
                "SYS-030", name=block.name, address=f"{at:#x}",
                rule=f"no memory there that {missing[0]} reaches",
            )  # fmt: skip
        if not homes[0].writable and not block.loaded:
            raise PlanError(
                "SYS-030", name=block.name, address=f"{at:#x}", rule="the memory is read-only"
            )
        at = homes[0].base + homes[0].size


def _check_alignment(layout: SystemLayout, block: Block) -> None:
    target = layout.target
    ends = [block.address]
    wanted = 1
    if block.account is Account.ACTIVATIONS:
        wanted = target.buffer_alignment
    elif block.account is Account.WEIGHTS:
        wanted = target.weight_alignment or target.buffer_alignment
    elif Reach.DMA in block.reach:
        wanted = max(layout.description.dma_alignment, target.cache_line)
        ends.append(block.address + block.nbytes)
        cached_by_choice = layout.description.cached_dma
        if block.cacheable and not cached_by_choice and not target.coherent_dma:
            raise PlanError(
                "SYS-030", name=block.name, address=f"{block.address:#x}",
                rule="a DMA buffer in cacheable memory that nobody maintains",
            )  # fmt: skip
    for end in ends:
        if end % wanted:
            raise PlanError(
                "SYS-030", name=block.name, address=f"{end:#x}",
                rule=f"not on a multiple of {wanted} bytes",
            )  # fmt: skip


def _check_network(layout: SystemLayout, network: PlacedNetwork) -> None:
    """Activations and weights of a plan lie inside of blocks of their class."""
    plan = network.plan
    ranges = [(region.base, region.base + region.used, Account.ACTIVATIONS)
              for region in plan.regions]  # fmt: skip
    ranges.append((plan.weights.base, plan.weights.base + plan.weights.used, Account.WEIGHTS))
    for start, end, account in ranges:
        inside = [
            block
            for block in layout.blocks
            if block.account is account and block.address <= start and end <= block.end
        ]
        if not inside and end > start:
            raise PlanError(
                "SYS-030", name=network.name, address=f"{start:#x}",
                rule=f"no block of {account} covers it up to {end:#x}",
            )  # fmt: skip

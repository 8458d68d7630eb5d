"""What ST's compiler is predicted to fill, to be set beside a plan of our own."""

from __future__ import annotations

from dataclasses import dataclass

from npuforge.accelerators.neural_art.banks import banks_of, filled, place
from npuforge.accelerators.neural_art.buffers import epoch_buffers
from npuforge.graph import Graph
from npuforge.mapping import map_to_npu
from npuforge.targets import Target


@dataclass(frozen=True)
class FilledBanks:
    """Bytes to which each memory is filled, and their sums.

    Attributes:
        banks: name and bytes, in the compiler's order of preference.
        inside: bytes on the chip.
        outside: bytes in external memory.
        unplaced: buffers that no memory has room for.
    """

    banks: tuple[tuple[str, int], ...]
    inside: int
    outside: int
    unplaced: int


def compiler_banks(graph: Graph, target: Target) -> FilledBanks | None:
    """The banks of a board that ST's compiler fills for a network; None without its NPU.

    `benchmarks/peaks.py` sets the rule beside published figures: equal on 19 of 33 networks.
    """
    if not target.has_neural_art:
        return None
    banks = banks_of(target)
    placed = place(epoch_buffers(graph, map_to_npu(graph).epochs), banks)
    levels = filled(placed, banks)
    external = {bank.name for bank in banks if bank.external}
    return FilledBanks(
        tuple(levels.items()),
        sum(level for name, level in levels.items() if name not in external),
        sum(level for name, level in levels.items() if name in external),
        sum(one.bank is None for one in placed),
    )

"""From an instance of memory planning to pieces and rooms, and what a placement of it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npuforge.artefacts.planning_instance import InstanceBuffer, PoolRow
from npuforge.errors import PlanError
from npuforge.memory.pools import Piece, Room
from npuforge.memory.spans import Span


def instance_pieces(
    pools: Sequence[PoolRow], buffers: Sequence[InstanceBuffer]
) -> tuple[list[Piece], list[Room]]:
    """What `pack_rooms` takes.

    Raises:
        PlanError: MEM-003 when a pool's base breaks an alignment of a buffer that may use it,
            MEM-004 when no pool reaches a buffer.
    """
    rooms = [Room(p.name, p.size, p.clocks_per_byte, p.reserved) for p in pools]
    pieces = []
    for buffer in buffers:
        open_to = [
            pool
            for pool in pools
            if set(buffer.reach) <= set(pool.reach)
            and (not buffer.pools or pool.name in buffer.pools)
        ]
        if not open_to:
            raise PlanError("MEM-004", tensor=buffer.id, size=buffer.size)
        for pool in open_to:
            if pool.base % buffer.alignment:
                raise PlanError(
                    "MEM-003", tensor=buffer.id, offset=pool.base,
                    reason=f"the base of {pool.name} is no multiple of {buffer.alignment}",
                )  # fmt: skip
        span = Span(
            buffer.id, buffer.size, buffer.alignment, buffer.lower, buffer.upper - 1, buffer.fixed
        )
        names = tuple(pool.name for pool in open_to)
        pieces.append(Piece(span, names, buffer.traffic, buffer.view_of, buffer.view_offset))
    return pieces, rooms


def address_clocks(
    pools: Sequence[PoolRow], buffers: Sequence[InstanceBuffer], addresses: Mapping[str, int]
) -> float:
    """Clocks of all traffic at given addresses; a buffer over several pools pays each its share.

    Raises:
        PlanError: MEM-004 when a byte lies in no pool.
    """
    total = 0.0
    for buffer in buffers:
        start = addresses[buffer.id]
        end = start + buffer.size
        inside = 0
        for pool in pools:
            held = min(end, pool.base + pool.size) - max(start, pool.base)
            if held > 0:
                inside += held
                total += pool.clocks_per_byte * buffer.traffic * held / buffer.size
        if inside != buffer.size:
            raise PlanError("MEM-004", tensor=buffer.id, size=buffer.size)
    return total

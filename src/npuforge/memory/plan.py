"""The memory plan: an address for every buffer of a schedule.

Memory only gives addresses. Activations go to the fastest pools that hold them; neighbouring pools
of the same speed are used as one. Constants become one image in the pool for weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.errors import PlanError
from npuforge.lowering import Buffer, Schedule
from npuforge.memory.packing import Effort, pack
from npuforge.memory.pools import Piece, Room, pack_rooms
from npuforge.memory.spans import Span, aligned, lower_bound, spans_of
from npuforge.targets import Pool, Target, Use, pool_groups

FITTING = Effort(tries=5000, nodes=100_000)
"""Search for a packing that just fits: worth more time than a lower one that is not needed."""


@dataclass(frozen=True)
class Region:
    """A contiguous piece of memory that the plan uses: one pool, or neighbouring equal ones.

    Attributes:
        name: of the pool, or of the pools joined by "+".
        base: first address.
        size: bytes there are.
        used: bytes the plan takes, from the base.
        clocks_per_byte: accelerator clocks for one byte of a full-width access.
    """

    name: str
    base: int
    size: int
    used: int
    clocks_per_byte: float


@dataclass(frozen=True)
class BufferPlace:
    """Where a buffer lies: byte `offset` of region number `region` (constants: of the image)."""

    region: int
    offset: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Addresses for one schedule on one target.

    Attributes:
        target: name of the target.
        regions: activation regions that are used, fastest first.
        places: by buffer name; region -1 is the weights image.
        weights: where the weights image lies.
        image: the weights image.
        lower_bound: bytes that must be live at once at the peak; no plan can use less.
        peak_step: the step at which that happens.
        least: bytes that no plan goes below: the lower bound, or more where a search proved it.
        method: the packer's stage that found it.
        spill_gap: how far the clocks of all traffic are above what any choice of memories for the
            buffers takes, as a fraction; None when everything lies in one group of memories.
    """

    target: str
    regions: tuple[Region, ...]
    places: Mapping[str, BufferPlace]
    weights: Region
    image: npt.NDArray[np.uint8]
    lower_bound: int
    peak_step: int
    least: int
    method: str
    spill_gap: float | None = None

    @property
    def activation_bytes(self) -> int:
        """Bytes the activations take in all regions together."""
        return sum(region.used for region in self.regions)

    @property
    def gap(self) -> float:
        """How far the plan is above the lower bound, as a fraction."""
        return self.activation_bytes / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def proved_optimal(self) -> bool:
        """Whether no plan can use less."""
        return self.activation_bytes <= self.least

    def address(self, buffer: str) -> int:
        """Absolute address of a buffer."""
        place = self.places[buffer]
        base = self.weights.base if place.region < 0 else self.regions[place.region].base
        return base + place.offset


def plan_memory(schedule: Schedule, target: Target) -> Plan:
    """Give every buffer an address.

    Raises:
        PlanError: the activations or the weights do not fit into the target's pools.
    """
    spans = spans_of(schedule)
    bound, peak_step = lower_bound(spans, len(schedule.steps))
    placed = _place(schedule, spans, target, bound)
    image, weight_places = weights_image(schedule.constants)
    regions: list[Region] = []
    places: dict[str, BufferPlace] = dict(weight_places)
    for group, offsets in placed.groups:
        used = max(offsets[span.name] + span.size for span in spans if span.name in offsets)
        places.update({name: BufferPlace(len(regions), at) for name, at in offsets.items()})
        regions.append(_region(group, used))
    return Plan(
        target=target.name,
        regions=tuple(regions),
        places=places,
        weights=_weights_region(target, image.size),
        image=image,
        lower_bound=bound,
        peak_step=peak_step,
        least=max(bound, placed.least),
        method=placed.method,
        spill_gap=placed.spill_gap,
    )


def _region(group: Sequence[Pool], used: int) -> Region:
    kept = [pool for pool in group if pool.base < group[0].base + used] or list(group[:1])
    size = kept[-1].end - kept[0].base
    speed = max(pool.clocks_per_byte for pool in kept)
    return Region("+".join(pool.name for pool in kept), kept[0].base, size, used, speed)


@dataclass(frozen=True)
class _Placed:
    """Offsets by buffer in each group of pools that is used, and what is known about the least."""

    groups: Sequence[tuple[Sequence[Pool], Mapping[str, int]]]
    least: int
    method: str
    spill_gap: float | None = None


def _place(schedule: Schedule, spans: Sequence[Span], target: Target, bound: int) -> _Placed:
    """In the fastest group of pools; slower joined groups before any spill."""
    attempts = [pool_groups(target, same_speed=True), pool_groups(target, same_speed=False)]
    packing = pack(spans)
    for groups in attempts:
        size = _size(groups[0])
        if not all(_open_to(schedule, span, groups[0]) for span in spans):
            continue
        if packing.least <= size < packing.height:
            packing = pack(spans, size, FITTING)
        if packing.height <= size:
            return _Placed([(groups[0], packing.offsets)], packing.least, packing.method)
    return _spill(schedule, spans, attempts[1], target, bound)


def _spill(
    schedule: Schedule,
    spans: Sequence[Span],
    groups: Sequence[Sequence[Pool]],
    target: Target,
    bound: int,
) -> _Placed:
    """Over all groups, with the traffic of the schedule's steps in the faster ones."""
    rooms = [Room(str(i), _size(group), group[0].clocks_per_byte) for i, group in enumerate(groups)]
    traffic = traffic_of(schedule)
    pieces = [
        Piece(
            span,
            tuple(str(i) for i, group in enumerate(groups) if _open_to(schedule, span, group)),
            traffic.get(span.name, 0),
        )
        for span in spans
    ]
    try:
        found = pack_rooms(pieces, rooms)
    except PlanError:
        largest = max(spans, key=lambda span: span.size)
        raise PlanError(
            "MEM-001",
            target=target.name,
            need=bound,
            available=sum(room.capacity for room in rooms),
            tensor=largest.name,
            size=largest.size,
        ) from None
    kept = [i for i in range(len(groups)) if str(i) in found.packings]
    used = [(groups[i], found.packings[str(i)].offsets) for i in kept]
    gap = 0.0 if found.proved else found.clocks / found.least_clocks - 1
    return _Placed(used, bound, "spill", gap)


def traffic_of(schedule: Schedule) -> dict[str, int]:
    """Bytes that the steps read and write of each buffer, each operand's view once."""
    traffic: dict[str, int] = {}
    for step in schedule.steps:
        for operand in step.operands:
            moved = traffic.get(operand.buffer, 0) + operand.view.extent
            traffic[operand.buffer] = moved
    return traffic


def _open_to(schedule: Schedule, span: Span, group: Sequence[Pool]) -> bool:
    """Whether everything that must reach a buffer reaches every pool of a group."""
    wanted = schedule.buffers[span.name].reach
    return all(reach in pool.reach for reach in wanted for pool in group)


def _size(group: Sequence[Pool]) -> int:
    return group[-1].end - group[0].base


def weights_image(
    constants: Iterable[Buffer],
) -> tuple[npt.NDArray[np.uint8], dict[str, BufferPlace]]:
    """All constants in one image, each at its alignment, and where each lies."""
    parts: list[npt.NDArray[np.uint8]] = []
    places = {}
    size = 0
    for buffer in constants:
        assert buffer.data is not None
        offset = aligned(size, buffer.alignment)
        parts.append(np.zeros(offset - size, np.uint8))
        parts.append(np.frombuffer(buffer.data.tobytes(), np.uint8))
        places[buffer.name] = BufferPlace(-1, offset)
        size = offset + buffer.nbytes
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8), places


def _weights_region(target: Target, size: int) -> Region:
    pools = target.pools_for(Use.WEIGHTS)
    for pool in pools:
        if size <= pool.size:
            return Region(pool.name, pool.base, pool.size, size, pool.clocks_per_byte)
    largest = max((pool.size for pool in pools), default=0)
    raise PlanError("MEM-002", target=target.name, need=size, available=largest)

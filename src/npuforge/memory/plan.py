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
from npuforge.targets import Pool, Target, Use


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
        proved_optimal: whether the plan's total equals the lower bound.
        method: the packer that found it.
    """

    target: str
    regions: tuple[Region, ...]
    places: Mapping[str, BufferPlace]
    weights: Region
    image: npt.NDArray[np.uint8]
    lower_bound: int
    peak_step: int
    method: str

    @property
    def activation_bytes(self) -> int:
        """Bytes the activations take in all regions together."""
        return sum(region.used for region in self.regions)

    @property
    def gap(self) -> float:
        """How far the plan is above the lower bound, as a fraction; 0 is proved optimal."""
        return self.activation_bytes / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def proved_optimal(self) -> bool:
        """Whether no plan can use less."""
        return self.activation_bytes <= self.lower_bound

    def address(self, buffer: str) -> int:
        """Absolute address of a buffer."""
        place = self.places[buffer]
        base = self.weights.base if place.region < 0 else self.regions[place.region].base
        return base + place.offset


def aligned(value: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-value // alignment) * alignment


def plan_memory(schedule: Schedule, target: Target) -> Plan:
    """Give every buffer an address.

    Raises:
        PlanError: the activations or the weights do not fit into the target's pools.
    """
    spans = spans_of(schedule)
    bound, peak_step = lower_bound(spans, len(schedule.steps))
    offsets, groups = _place(spans, target, bound)
    image, weight_places = weights_image(schedule.constants)
    regions: list[Region] = []
    places: dict[str, BufferPlace] = dict(weight_places)
    for group, placed in zip(groups, offsets, strict=True):
        if not placed:
            continue
        used = max(offset + span.size for span, offset in placed)
        for span, offset in placed:
            places[span.name] = BufferPlace(len(regions), offset)
        regions.append(_region(group, used))
    return Plan(
        target=target.name,
        regions=tuple(regions),
        places=places,
        weights=_weights_region(target, image.size),
        image=image,
        lower_bound=bound,
        peak_step=peak_step,
        method="greedy by size",
    )


@dataclass(frozen=True)
class Span:
    """A buffer to be placed: padded bytes, alignment, first and last step of its life."""

    name: str
    size: int
    alignment: int
    first: int
    last: int


def spans_of(schedule: Schedule) -> list[Span]:
    """All writable buffers of a schedule, in its order."""
    spans = []
    for buffer in schedule.activations:
        life = schedule.lifetimes[buffer.name]
        size = aligned(buffer.nbytes, buffer.alignment)
        spans.append(Span(buffer.name, size, buffer.alignment, life.first, life.last))
    return spans


def lower_bound(spans: Iterable[Span], steps: int) -> tuple[int, int]:
    """The largest number of bytes in use at one step, and that step."""
    change = np.zeros(steps + 3, np.int64)
    for span in spans:
        change[span.first + 1] += span.size
        change[span.last + 2] -= span.size
    live = np.cumsum(change)
    peak = int(np.argmax(live))
    return int(live[peak]), max(peak - 1, 0)


def pool_groups(target: Target, same_speed: bool) -> list[list[Pool]]:
    """Activation pools joined where one begins at the other's end, fastest group first."""
    pools = sorted(target.pools_for(Use.ACTIVATIONS), key=lambda pool: pool.base)
    groups: list[list[Pool]] = []
    for pool in pools:
        last = groups[-1][-1] if groups else None
        joins = last is not None and last.end == pool.base and last.external == pool.external
        if joins and last is not None and (not same_speed or last.ratio == pool.ratio):
            groups[-1].append(pool)
        else:
            groups.append([pool])
    return sorted(groups, key=lambda group: (group[0].external, group[0].clocks_per_byte))


def _region(group: Sequence[Pool], used: int) -> Region:
    kept = [pool for pool in group if pool.base < group[0].base + used] or list(group[:1])
    size = kept[-1].end - kept[0].base
    speed = max(pool.clocks_per_byte for pool in kept)
    return Region("+".join(pool.name for pool in kept), kept[0].base, size, used, speed)


Placed = list[tuple[Span, int]]


def _place(
    spans: Sequence[Span], target: Target, bound: int
) -> tuple[list[Placed], list[list[Pool]]]:
    """Greedy by size over the pool groups; slower joined groups before any spill."""
    attempts = [pool_groups(target, same_speed=True), pool_groups(target, same_speed=False)]
    for groups in attempts:
        first = [groups[0]]
        placed = _greedy(spans, [_size(group) for group in first])
        if placed is not None:
            return placed, first
    groups = attempts[1]
    placed = _greedy(spans, [_size(group) for group in groups])
    if placed is None:
        available = sum(_size(group) for group in groups)
        largest = max(spans, key=lambda span: span.size)
        raise PlanError(
            "MEM-001",
            target=target.name,
            need=bound,
            available=available,
            tensor=largest.name,
            size=largest.size,
        )
    return placed, groups


def _size(group: Sequence[Pool]) -> int:
    return group[-1].end - group[0].base


def _greedy(spans: Sequence[Span], capacities: Sequence[int]) -> list[Placed] | None:
    """Largest first, each at the lowest free offset of the first region that has room."""
    regions: list[Placed] = [[] for _ in capacities]
    for span in sorted(spans, key=lambda s: (-s.size, s.first, s.name)):
        for placed, capacity in zip(regions, capacities, strict=True):
            offset = _lowest(span, placed)
            if offset + span.size <= capacity:
                placed.append((span, offset))
                break
        else:
            return None
    return regions


def _lowest(span: Span, placed: Placed) -> int:
    busy = sorted(
        (offset, offset + other.size)
        for other, offset in placed
        if other.first <= span.last and span.first <= other.last
    )
    at = 0
    for low, high in busy:
        if at + span.size <= low:
            break
        at = max(at, aligned(high, span.alignment))
    return at


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

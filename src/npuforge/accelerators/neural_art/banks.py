"""Where ST's compiler puts the buffers of a network, and what each memory is filled to.

Its report adds up what every memory is filled to. Memories are full at different times, and a place
is chosen buffer by buffer, so that figure lies above the bytes alive at once. The rule below was
read from the addresses in compile reports of public projects (`benchmarks/peaks.py` prints how many
it gives): the largest buffer first; the first memory in the order of the compiler's preference in
which it fits; there the tightest gap below what is filled so far, else on top. A buffer larger than
a bank goes to the banks joined. Not known is how the compiler spreads the buffers of one epoch over
banks so that they are read side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from npuforge.accelerators.neural_art.buffers import EpochBuffer
from npuforge.targets import Pool, Target, Use, pool_groups

ALIGNMENT = 16
"""Bytes; every address of a buffer in the public reports is a multiple of it."""

RESERVED = 8
"""Bytes that the compiler leaves free at the end of a memory: streams read ahead."""

PREFERENCE = ("npuRAM5", "npuRAM4", "npuRAM3", "npuRAM6")
"""Order among the NPU's banks in the public reports; the last one costs more energy to read."""


class Tie(StrEnum):
    """Which of several buffers of one size is placed first."""

    EARLY = "early"
    LATE = "late"
    LONG = "long"
    SHORT = "short"


class Fit(StrEnum):
    """Which gap is taken."""

    TIGHT = "tight"
    LOW = "low"


@dataclass(frozen=True)
class Bank:
    """A memory the compiler fills.

    Attributes:
        name: as in the reports.
        base: first address.
        nbytes: bytes.
        joined: it stands for several memories beside each other.
        external: outside of the chip.
    """

    name: str
    base: int
    nbytes: int
    joined: bool = False
    external: bool = False

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.base + self.nbytes


@dataclass(frozen=True)
class Placed:
    """A buffer with its address; `bank` is None where no memory had room."""

    buffer: EpochBuffer
    bank: Bank | None
    address: int

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.buffer.nbytes


def banks_of(target: Target) -> tuple[Bank, ...]:
    """The memories of a board for activations, in the compiler's order of preference.

    Fast ones first, then memories beside each other on the chip joined, then external memory.
    """
    pools = target.pools_for(Use.ACTIVATIONS)
    inside = [pool for pool in pools if not pool.external]
    best = min((pool.ratio for pool in inside), default=0.0)
    rank = {name: n for n, name in enumerate(PREFERENCE)}
    fast = sorted(
        (pool for pool in inside if pool.ratio == best),
        key=lambda pool: (rank.get(pool.name, len(rank)), pool.base),
    )
    found = [Bank(pool.name, pool.base, pool.size) for pool in fast]
    groups = sorted(pool_groups(target, same_speed=False), key=lambda group: group[0].base)
    joined = [_join(group) for group in groups if len(group) > 1 and not group[0].external]
    slow = [Bank(p.name, p.base, p.size) for p in inside if p.ratio != best]
    outside = [Bank(p.name, p.base, p.size, external=True) for p in pools if p.external]
    return (*found, *joined, *slow, *outside)


def _join(group: Sequence[Pool]) -> Bank:
    total = sum(pool.size for pool in group)
    return Bank("_".join(pool.name for pool in group), group[0].base, total, joined=True)


def place(
    buffers: Iterable[EpochBuffer], banks: Sequence[Bank], *, tie: Tie = Tie.EARLY,
    fit: Fit = Fit.TIGHT, reserved: int = RESERVED,
) -> tuple[Placed, ...]:  # fmt: skip
    """Place buffers as ST's compiler is believed to, in the order in which it places them.

    Args:
        buffers: values between epochs, as `buffers.epoch_buffers` predicts them or a report has
            them.
        banks: memories in the order of preference.
        tie: order of buffers of one size.
        fit: which gap is taken.
        reserved: bytes left free at the end of each memory.
    """
    placed: list[Placed] = []
    for buffer in sorted(buffers, key=lambda one: (-one.nbytes, *_order(one, tie))):
        living = sorted(
            (other.address, other.end) for other in placed
            if other.bank is not None
            and other.buffer.first <= buffer.last and buffer.first <= other.buffer.last
        )  # fmt: skip
        for bank in banks:
            height = bank.base
            if fit is Fit.TIGHT:
                height = max((min(p.end, bank.end) for p in placed if _touches(p, bank)),
                             default=bank.base)  # fmt: skip
            at = _gap(living, bank, height, buffer.nbytes, bank.end - reserved)
            if at is not None:
                placed.append(Placed(buffer, bank, at))
                break
        else:
            placed.append(Placed(buffer, None, 0))
    return tuple(placed)


def _order(buffer: EpochBuffer, tie: Tie) -> tuple[int, int]:
    life = buffer.last - buffer.first
    return {
        Tie.EARLY: (buffer.first, 0), Tie.LATE: (-buffer.first, 0),
        Tie.LONG: (-life, buffer.first), Tie.SHORT: (life, buffer.first),
    }[tie]  # fmt: skip


def _touches(placed: Placed, bank: Bank) -> bool:
    return placed.bank is not None and placed.address < bank.end and bank.base < placed.end


def _gap(
    living: Sequence[tuple[int, int]], bank: Bank, height: int, nbytes: int, limit: int
) -> int | None:
    """The tightest free range below a height, else the lowest free address; None without room."""
    at = bank.base
    tightest: tuple[int, int] | None = None
    lowest: int | None = None
    for start, end in (*living, (bank.end, bank.end)):
        if end <= at and start < bank.end:
            continue
        room = min(start, bank.end) - at
        if room >= nbytes and lowest is None and at + nbytes <= limit:
            lowest = at
        room = min(start, height) - at
        if room >= nbytes and at + nbytes <= limit and (tightest is None or room < tightest[0]):
            tightest = room, at
        at = max(at, -(-end // ALIGNMENT) * ALIGNMENT)
        if at >= bank.end:
            break
    return lowest if tightest is None else tightest[1]


def filled(placed: Iterable[Placed], banks: Iterable[Bank]) -> dict[str, int]:
    """Bytes to which each memory is filled, by name: what a compile report adds up."""
    rows = [p for p in placed if p.bank is not None and p.buffer.nbytes]
    found = {}
    for bank in banks:
        ends = [min(p.end, bank.end) - bank.base for p in rows if _touches(p, bank)]
        if ends and not bank.joined:
            found[bank.name] = max(ends)
    return found

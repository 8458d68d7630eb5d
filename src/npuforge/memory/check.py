"""Whether files that describe memory agree: overlap, containment and reach between any of them.

Each file is read by its own reader into claims. A claim either takes memory for one owner, or
offers memory that others may take. Two claims of different files disagree when they take the same
byte for different things, when one thing has two places, when something is taken that the other
file does not offer, or when nothing that must reach it does. A target says besides on which
multiples networks' buffers and weights begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from npuforge.artefacts.c_info import CInfo
from npuforge.artefacts.elf import Image, Section
from npuforge.artefacts.linker_script import LinkerScript
from npuforge.artefacts.map_pieces import MapPiece
from npuforge.artefacts.mpool import PoolFile
from npuforge.memory.classes import SECTION_RULES
from npuforge.memory.layout import SystemLayout
from npuforge.memory.spans import aligned
from npuforge.memory.system import Account, link_name
from npuforge.memory.writers.link_script import block_section
from npuforge.targets import Reach, Target


class Owner(StrEnum):
    """Whose memory it is."""

    NETWORK = "network"
    PROGRAM = "program"
    ANYONE = "anyone"


@dataclass(frozen=True)
class Claim:
    """A range of addresses that a file speaks of.

    Attributes:
        file: the file.
        name: what it calls it.
        start: first address.
        end: first address behind it.
        owner: whose it is.
        offers: memory that others may take, rather than taken.
        same: name that the same thing has in other files, "" when it has none there.
    """

    file: str
    name: str
    start: int
    end: int
    owner: Owner
    offers: bool = False
    same: str = ""


class Conflict(StrEnum):
    """What is wrong between two claims."""

    OVERLAP = "overlap"
    MOVED = "moved"
    NOT_OFFERED = "not offered"
    NO_MEMORY = "no memory"
    OUT_OF_REACH = "out of reach"
    MISALIGNED = "misaligned"


@dataclass(frozen=True)
class Disagreement:
    """Two claims that cannot both be right, or one that the target refuses.

    Attributes:
        conflict: what is wrong.
        one: the claim.
        other: the claim it disagrees with; None for the target.
        start: first address in question.
        end: first address behind it.
    """

    conflict: Conflict
    one: Claim
    other: Claim | None
    start: int
    end: int


@dataclass(frozen=True)
class FileClaims:
    """A file and what it speaks of; `complete` says that its offers are all there is."""

    file: str
    claims: tuple[Claim, ...]
    complete: bool = False


def _owner(section: str) -> Owner:
    piece = MapPiece(section, section, 0, 0, "")
    rule = next((rule for rule in SECTION_RULES if rule.matches(piece)), None)
    network = rule is not None and rule.account in (Account.WEIGHTS, Account.ACTIVATIONS)
    return Owner.NETWORK if network else Owner.PROGRAM


def image_claims(image: Image, file: str) -> FileClaims:
    """Sections of a linked program, also where their contents are stored."""

    def claims(section: Section) -> Iterator[Claim]:
        owner = _owner(section.name)
        yield Claim(file, section.name, section.address, section.end, owner, False, section.name)
        if section.loaded and section.load_address != section.address:
            name = f"stored copy of {section.name}"
            start = section.load_address
            yield Claim(file, name, start, start + section.size, Owner.PROGRAM)

    return FileClaims(file, tuple(claim for s in image.sections for claim in claims(s)))


def script_claims(script: LinkerScript, file: str) -> FileClaims:
    """Regions of a linker script, each owned by what its sections hold, and placed sections."""
    claims = []
    for region in script.regions.values():
        owners = {_owner(s.name) for s in script.sections if s.region == region.name}
        if region.origin is None or region.end is None or not owners:
            continue
        owner = Owner.NETWORK if owners == {Owner.NETWORK} else Owner.PROGRAM
        claims.append(Claim(file, region.name, region.origin, region.end, owner, True, region.name))
    for section in script.sections:
        if section.address is not None:
            at = section.address
            claims.append(
                Claim(file, section.name, at, at, _owner(section.name), True, section.name)
            )
    return FileClaims(file, tuple(claims), complete=True)


def pool_claims(pools: PoolFile, file: str) -> FileClaims:
    """Pools that the NPU compiler may fill."""
    return FileClaims(
        file,
        tuple(
            Claim(file, pool.name, pool.address, pool.end, Owner.NETWORK, True)
            for pool in pools.pools
            if pool.absolute and pool.size
        ),
    )


def report_claims(report: CInfo, file: str) -> FileClaims:
    """Buffers that the NPU compiler placed, as one range a pool."""
    claims = []
    for pool in report.pools:
        inside = [buffer for buffer in report.buffers if buffer.pool == pool.id and buffer.size]
        if inside and pool.address:
            start = pool.address + min(buffer.offset for buffer in inside)
            end = pool.address + max(buffer.offset + buffer.size for buffer in inside)
            claims.append(Claim(file, pool.name, start, end, Owner.NETWORK))
    return FileClaims(file, tuple(claims))


def protection_claims(ranges: Sequence[tuple[int, int]], file: str) -> FileClaims:
    """Regions of a memory protection table."""
    return FileClaims(
        file,
        tuple(
            Claim(file, f"region {n}", start, end, Owner.ANYONE, True)
            for n, (start, end) in enumerate(ranges)
        ),
        complete=True,
    )


def layout_claims(layout: SystemLayout, file: str) -> FileClaims:
    """Blocks of a layout. Code and static data are estimates there and claim nothing."""
    claims = []
    guessed = (Account.CODE, Account.READ_ONLY)
    for block in layout.blocks:
        if block.account in guessed or block.name in ("static data", "main stack", "npu runtime"):
            continue
        network = block.account in (Account.WEIGHTS, Account.ACTIVATIONS)
        same = "" if network else block_section(block)
        claims.append(
            Claim(
                file, block.name, block.address, block.end,
                Owner.NETWORK if network else Owner.PROGRAM, False, same,
            )
        )  # fmt: skip
    for placed in layout.networks:
        # sections at the plan's addresses, with the names that generated code gives them
        for i, region in enumerate(placed.plan.regions):
            name = f".nf_{link_name(placed.name)}_region_{i}"
            claims.append(
                Claim(file, name, region.base, region.base + region.used, Owner.NETWORK, False,
                      name)
            )  # fmt: skip
        weights, name = placed.plan.weights, f".nf_{link_name(placed.name)}_weights"
        end = weights.base + weights.used
        claims.append(Claim(file, name, weights.base, end, Owner.NETWORK, False, name))
    return FileClaims(file, tuple(claims))


def compare_files(files: Sequence[FileClaims], target: Target | None = None) -> list[Disagreement]:
    """Everything in which files disagree with each other, and with a target if one is given."""
    found: list[Disagreement] = []
    for one, other in combinations(files, 2):
        found += _pair(one, other)
    if target is not None:
        for file in files:
            for claim in file.claims:
                found += _against_target(claim, target)
    return found


def _pair(one: FileClaims, other: FileClaims) -> Iterator[Disagreement]:
    for a in one.claims:
        for b in other.claims:
            if a.same and a.same == b.same:
                if a.start != b.start:
                    yield Disagreement(Conflict.MOVED, a, b, min(a.start, b.start),
                                       max(a.end, b.end))  # fmt: skip
                continue
            start, end = max(a.start, b.start), min(a.end, b.end)
            if start < end and not _may_share(a, b):
                yield Disagreement(Conflict.OVERLAP, a, b, start, end)
    for taker, offerer in ((one, other), (other, one)):
        if offerer.complete:
            yield from _not_offered(taker, offerer)


def _may_share(a: Claim, b: Claim) -> bool:
    """Memory on offer may be taken by its owner; networks may lie over each other."""
    if Owner.ANYONE in (a.owner, b.owner):
        return True
    if a.owner is not b.owner:
        return False
    return a.owner is Owner.NETWORK or a.offers != b.offers


def _not_offered(taker: FileClaims, offerer: FileClaims) -> Iterator[Disagreement]:
    """What a program takes lies in regions of its linker script and of its protection table."""
    offers = sorted((c for c in offerer.claims if c.offers), key=lambda claim: claim.start)
    if not offers:
        return
    everything = offers[0].owner is Owner.ANYONE
    for claim in taker.claims:
        if claim.offers or not (everything or claim.owner is Owner.PROGRAM):
            continue
        at = claim.start
        for offer in offers:
            if offer.start <= at < offer.end:
                at = offer.end
        if at < claim.end:
            yield Disagreement(Conflict.NOT_OFFERED, claim, offers[0], at, claim.end)


def _asked_alignment(claim: Claim, target: Target) -> int:
    """Bytes that a target wants the beginning of a named section on; 1 for anything else.

    Buffers inside of a network are the compiler's own: only what the program gives it is known.
    """
    if not claim.same or claim.owner is not Owner.NETWORK:
        return 1
    weights = claim.same.endswith("_weights")
    return (weights and target.weight_alignment) or target.buffer_alignment


def _against_target(claim: Claim, target: Target) -> Iterator[Disagreement]:
    alignment = _asked_alignment(claim, target)
    if claim.start % alignment:
        next_one = aligned(claim.start, alignment)
        yield Disagreement(Conflict.MISALIGNED, claim, None, claim.start, next_one)
    at = claim.start
    while at < claim.end:
        pool = target.pool_at(at)
        if pool is None:
            yield Disagreement(Conflict.NO_MEMORY, claim, None, at, claim.end)
            return
        wanted = Reach.NPU if claim.owner is Owner.NETWORK and target.has_npu else Reach.CPU
        if wanted not in pool.reach:
            end = min(pool.end, claim.end)
            yield Disagreement(Conflict.OUT_OF_REACH, claim, None, at, end)
        at = pool.end

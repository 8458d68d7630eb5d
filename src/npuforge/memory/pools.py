"""Buffers over several memories: which of them each one goes to, and where it lies there.

A buffer goes to the cheapest memory that it may use. Where too much lives at once, what costs
least to move for the bytes it frees goes to the next one, and comes back if there is room in the
end. The cost is clocks: bytes read and written, times the memory's clocks for a byte. A bound on it
is stated.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from npuforge.errors import PlanError
from npuforge.memory.packing import Effort, Packing, fullest_step, live_bound, pack
from npuforge.memory.spans import Span

MOST_EXCHANGES = 200
"""Exchanges of a moved buffer for another one that are tried."""

COVER_NODES = 2000
"""Nodes of the search for the buffers that cost least to move, at one step."""


@dataclass(frozen=True)
class Room:
    """A memory.

    Attributes:
        name: unique.
        capacity: bytes.
        clocks: for one byte.
        reserved: [low, high) ranges of offsets that nothing may touch.
    """

    name: str
    capacity: int
    clocks: float
    reserved: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Piece:
    """A buffer and where it may go.

    Attributes:
        span: its bytes and life; a fixed offset needs a single room.
        rooms: names of the memories it may use.
        traffic: bytes read and written in its life.
        view_of: another piece in whose memory it lies ("" for memory of its own): an operator that
            works in place, a reshape, a slice of a concatenation.
        view_offset: byte of that piece at which it begins.
    """

    span: Span
    rooms: tuple[str, ...]
    traffic: int = 0
    view_of: str = ""
    view_offset: int = 0


@dataclass(frozen=True)
class RoomPlace:
    """A memory and an offset there."""

    room: str
    offset: int


@dataclass(frozen=True)
class RoomPacking:
    """Where everything lies.

    Attributes:
        places: by name of the piece.
        packings: of each memory that is used; views are not listed in them.
        clocks: of all traffic.
        least_clocks: no assignment costs less.
    """

    places: Mapping[str, RoomPlace]
    packings: Mapping[str, Packing]
    clocks: float
    least_clocks: float

    @property
    def proved(self) -> bool:
        """Whether no assignment costs less."""
        return self.clocks <= self.least_clocks * (1 + 1e-12)


def pack_rooms(
    pieces: Sequence[Piece], rooms: Sequence[Room], effort: Effort | None = None
) -> RoomPacking:
    """Place pieces in memories.

    Views become part of the memory they lie in, which then lives as long as any of them: a packing
    is the best one known under that rule.

    Args:
        pieces: names of spans are unique.
        rooms: the memories.
        effort: for each packing that is tried.

    Raises:
        PlanError: MEM-003 when a fixed buffer or a view is impossible, MEM-004 when no room was
            found for a buffer.
    """
    owners, members = _merge(pieces)
    rooms = [_trimmed(room) for room in rooms]
    owners = [_reduced(piece, rooms) for piece in owners]
    search = _Assignment(owners, rooms, effort or Effort(tries=100, nodes=2000))
    search.run()
    packings = {room.name: search.final(room) for room in rooms if search.held(room)}
    places = {}
    for owner in owners:
        room = search.room_of[owner.span.name]
        base = packings[room].offsets[owner.span.name]
        for name, offset in members[owner.span.name]:
            places[name] = RoomPlace(room, base + offset)
    return RoomPacking(places, packings, search.clocks(), least_clocks(owners, rooms))


def joined_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces with memory of their own, each grown by its views and living as long as any of them.

    Raises:
        PlanError: MEM-003 when a view is impossible.
    """
    return _merge(pieces)[0]


def _reduced(piece: Piece, rooms: Sequence[Room]) -> Piece:
    """A piece that no longer names memories smaller than it."""
    small = {room.name for room in rooms if room.capacity < piece.span.size}
    return replace(piece, rooms=tuple(name for name in piece.rooms if name not in small))


def _trimmed(room: Room) -> Room:
    """The same memory without what is reserved at its end: fewer ranges to search around."""
    end, kept = room.capacity, [pair for pair in room.reserved if pair[0] < room.capacity]
    while any(high >= end for _, high in kept):
        end = max(min(low for low, high in kept if high >= end), 0)
        kept = [pair for pair in kept if pair[0] < end]
    return replace(room, capacity=end, reserved=tuple(kept))


def _merge(pieces: Sequence[Piece]) -> tuple[list[Piece], dict[str, list[tuple[str, int]]]]:
    """Pieces with memory of their own, grown by their views; views by owner with offsets."""
    by_name = {piece.span.name: piece for piece in pieces}
    members: dict[str, list[tuple[str, int]]] = {}
    owners: dict[str, Piece] = {}
    for piece in pieces:
        owner, offset = piece, 0
        for _ in pieces:
            if not owner.view_of:
                break
            offset += owner.view_offset
            if owner.view_of not in by_name:
                raise _impossible(piece, offset, f"there is no buffer {owner.view_of}")
            owner = by_name[owner.view_of]
        if owner.view_of:
            raise _impossible(piece, offset, "its views form a circle")
        if owner is not piece:
            span = piece.span
            if offset < 0 or offset % span.alignment or span.fixed is not None:
                raise _impossible(piece, offset, f"a view at this byte of {owner.span.name}")
        members.setdefault(owner.span.name, []).append((piece.span.name, offset))
        kept = owners.get(owner.span.name, owner)
        owners[owner.span.name] = _joined(kept, piece, offset) if piece is not owner else kept
    return list(owners.values()), members


def _joined(owner: Piece, view: Piece, offset: int) -> Piece:
    a, b = owner.span, view.span
    span = replace(
        a,
        size=max(a.size, offset + b.size),
        alignment=math.lcm(a.alignment, b.alignment),
        first=min(a.first, b.first),
        last=max(a.last, b.last),
        forbidden=a.forbidden + b.forbidden,
    )
    rooms = tuple(room for room in owner.rooms if room in view.rooms)
    if not rooms:
        raise _impossible(view, offset, f"no memory is open to it and to {a.name}")
    return replace(owner, span=span, rooms=rooms, traffic=owner.traffic + view.traffic)


def _impossible(piece: Piece, offset: int, reason: str) -> PlanError:
    return PlanError("MEM-003", tensor=piece.span.name, offset=offset, reason=reason)


def least_clocks(owners: Sequence[Piece], rooms: Sequence[Room]) -> float:
    """Clocks that no assignment undercuts.

    Everything in its cheapest memory, plus what the fullest step adds: of the bytes alive there
    that may use the k cheapest memories only those fit that these memories do not reserve. The rest
    pays the difference to the cheapest other memory, whole buffers at a time, and those pay that
    cost least.
    """
    order = sorted(rooms, key=lambda room: room.clocks)
    clocks = {room.name: room.clocks for room in rooms}
    base = sum(piece.traffic * min(clocks[name] for name in piece.rooms) for piece in owners)
    most = 0.0
    steps = sorted({piece.span.first for piece in owners})
    for k in range(1, len(order)):
        cheap = {room.name for room in order[:k]}
        capacity = sum(_open_bytes(room) for room in order[:k])
        inside = [piece for piece in owners if cheap & set(piece.rooms)]
        choices = []
        for piece in inside:
            others = [clocks[name] for name in piece.rooms if name not in cheap]
            if others and piece.span.size:
                least = min(clocks[name] for name in piece.rooms)
                extra = piece.traffic * (min(others) - least)
                choices.append((extra / piece.span.size, piece.span.size, piece.span))
        choices.sort(key=lambda choice: choice[:2])
        for step in steps:
            total = sum(p.span.size for p in inside if p.span.first <= step <= p.span.last)
            if total <= capacity:
                continue
            alive = [(c, n) for c, n, span in choices if span.first <= step <= span.last]
            cover = _Cover(alive)
            if cover.upper(total - capacity) > most:
                most = max(most, cover.least(total - capacity))
    return base + most


def _open_bytes(room: Room) -> int:
    """Bytes of a memory that are not reserved."""
    held = end = 0
    for low, high in sorted(room.reserved):
        high = min(high, room.capacity)
        held += max(high - max(low, end), 0)
        end = max(end, high)
    return room.capacity - held


class _Cover:
    """Whole buffers of at least so many bytes for the least.

    Args:
        choices: price of a byte and bytes of each, sorted.
    """

    def __init__(self, choices: Sequence[tuple[float, int]]) -> None:
        self.listed = choices
        self.sizes = [0, *accumulate(size for _, size in self.listed)]
        self.paid = [0.0, *accumulate(price * size for price, size in self.listed)]

    def upper(self, need: int) -> float:
        """What the cheapest bytes cost, whole buffers of them."""
        return self.paid[min(bisect_left(self.sizes, need), len(self.listed))] if need > 0 else 0.0

    def least(self, need: int) -> float:
        """Branch and bound; where that takes too many nodes, the price with parts of buffers."""
        if need <= 0:
            return 0.0
        best = self.paid[-1]
        if self.sizes[-1] <= need:
            return best
        best = min(best, self.upper(need))
        nodes = 0
        open_nodes = [(0, need, 0.0)]
        while open_nodes:
            at, left, paid = open_nodes.pop()
            nodes += 1
            if nodes > COVER_NODES:
                return self._fractional(0, need)
            if left <= 0:
                best = min(best, paid)
                continue
            if self.sizes[-1] - self.sizes[at] < left:
                continue
            if paid + self._fractional(at, left) >= best:
                continue
            price, size = self.listed[at]
            open_nodes.append((at + 1, left, paid))
            open_nodes.append((at + 1, left - size, paid + price * size))
        return best

    def _fractional(self, at: int, need: int) -> float:
        """The same from one buffer on, where a part of a buffer may be taken."""
        goal = self.sizes[at] + need
        i = bisect_left(self.sizes, goal)
        if i > len(self.listed):
            return self.paid[-1] - self.paid[at]
        price, _size = self.listed[i - 1]
        return self.paid[i] - self.paid[at] - price * (self.sizes[i] - goal)


class _Assignment:
    """Which memory each piece is in; packs a memory to see whether its pieces fit."""

    def __init__(self, owners: Sequence[Piece], rooms: Sequence[Room], effort: Effort) -> None:
        self.owners, self.effort = list(owners), effort
        self.rooms = sorted(rooms, key=lambda room: room.clocks)
        self.rank = {room.name: i for i, room in enumerate(self.rooms)}
        self.room_of: dict[str, str] = {}
        self.found: dict[str, Packing] = {}
        for piece in owners:
            self._check(piece)
            self.room_of[piece.span.name] = self._choices(piece)[0]

    def _check(self, piece: Piece) -> None:
        if not piece.rooms or any(name not in self.rank for name in piece.rooms):
            raise PlanError("MEM-004", tensor=piece.span.name, size=piece.span.size)
        if piece.span.fixed is not None and len(piece.rooms) > 1:
            raise _impossible(piece, piece.span.fixed, "a fixed offset needs a single memory")

    def _choices(self, piece: Piece) -> list[str]:
        """Memories of a piece, the cheapest first."""
        return sorted(piece.rooms, key=lambda name: self.rank[name])

    def _next(self, piece: Piece) -> str | None:
        """The memory it goes to when it leaves the one it is in."""
        choices = self._choices(piece)
        at = choices.index(self.room_of[piece.span.name])
        return choices[at + 1] if at + 1 < len(choices) else None

    def _price(self, piece: Piece) -> float:
        """Clocks that leaving costs, for each byte that it frees."""
        following = self._next(piece)
        if following is None:
            return math.inf
        here = self.rooms[self.rank[self.room_of[piece.span.name]]]
        there = self.rooms[self.rank[following]]
        return piece.traffic * (there.clocks - here.clocks) / max(piece.span.size, 1)

    def _saved(self, piece: Piece, name: str) -> float:
        """Clocks that going to another memory saves."""
        here, there = self.rank[self.room_of[piece.span.name]], self.rank[name]
        return piece.traffic * (self.rooms[here].clocks - self.rooms[there].clocks)

    def held(self, room: Room) -> list[Piece]:
        """Pieces in a memory."""
        return [piece for piece in self.owners if self.room_of[piece.span.name] == room.name]

    def clocks(self) -> float:
        """Clocks of all traffic."""
        return sum(
            piece.traffic * self.rooms[self.rank[self.room_of[piece.span.name]]].clocks
            for piece in self.owners
        )

    def run(self) -> None:
        for room in self.rooms:
            moved = self._empty(room)
            self._return(room, moved)
            self._exchange(room, moved)

    def _spans(self, room: Room) -> list[Span]:
        return [
            replace(piece.span, forbidden=piece.span.forbidden + room.reserved)
            if room.reserved else piece.span
            for piece in self.held(room)
        ]  # fmt: skip

    def _fits(self, room: Room) -> bool:
        """Whether what is in a memory fits; a packing that does is kept."""
        spans = self._spans(room)
        if live_bound(spans) > room.capacity:
            return False
        packing = pack(spans, room.capacity, self.effort)
        if packing.height > room.capacity:
            return False
        self.found[room.name] = packing
        return True

    def final(self, room: Room) -> Packing:
        """The packing that was kept, or a lower one if more effort finds it."""
        packing = pack(self._spans(room), 0, Effort())
        kept = self.found[room.name]
        if packing.height < kept.height:
            return packing
        return replace(kept, least=max(kept.least, packing.least))

    def _empty(self, room: Room) -> list[Piece]:
        """Move pieces to the next memory until the rest fits."""
        moved = []
        while not self._fits(room):
            piece = min(self._crowded(room), key=lambda p: (self._price(p), -p.span.size),
                        default=None)  # fmt: skip
            following = self._next(piece) if piece is not None else None
            if piece is None or following is None:
                names = self.held(room)
                largest = max(names, key=lambda p: p.span.size)
                raise PlanError("MEM-004", tensor=largest.span.name, size=largest.span.size)
            self.room_of[piece.span.name] = following
            moved.append(piece)
        return moved

    def _crowded(self, room: Room) -> list[Piece]:
        """Pieces alive at the fullest step; of a memory where only addresses lack, all of them."""
        held = self.held(room)
        if live_bound(self._spans(room)) <= room.capacity:
            return held
        worst = fullest_step([piece.span for piece in held])
        return [p for p in held if p.span.first <= worst <= p.span.last]

    def _return(self, room: Room, moved: list[Piece]) -> None:
        """Bring pieces back that fit after all, those that save most first."""
        for piece in sorted(moved, key=lambda p: -p.traffic):
            was = self.room_of[piece.span.name]
            self.room_of[piece.span.name] = room.name
            if self._fits(room):
                moved.remove(piece)
            else:
                self.room_of[piece.span.name] = was

    def _exchange(self, room: Room, moved: list[Piece]) -> None:
        """Exchange a moved piece for a cheaper one that it meets, while that fits and saves."""
        tried = 0
        for piece in sorted(moved, key=lambda p: -p.traffic):
            for other in self.held(room):
                following = self._next(other)
                meets = piece.span.first <= other.span.last and other.span.first <= piece.span.last
                if not meets or following is None or tried >= MOST_EXCHANGES:
                    continue
                names = (piece.span.name, other.span.name)
                was = [self.room_of[name] for name in names]
                saved = self._saved(piece, room.name) + self._saved(other, following)
                if saved <= 0:
                    continue
                tried += 1
                self.room_of[names[0]], self.room_of[names[1]] = room.name, following
                if self._fits(room):
                    break
                self.room_of[names[0]], self.room_of[names[1]] = was

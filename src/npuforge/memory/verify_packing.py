"""An independent check of packings over one or several memories. It shares no code with packers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from npuforge.errors import PlanError
from npuforge.memory.pools import Piece, Room, RoomPlace


def verify_rooms(
    pieces: Sequence[Piece], rooms: Sequence[Room], places: Mapping[str, RoomPlace]
) -> None:
    """Check every piece's place against its own limits and against every other piece.

    A view has to lie in its owner at its byte. Pieces of one owner may share bytes, all others may
    not while they live.

    Raises:
        PlanError: MEM-018 with the piece and the rule it breaks.
    """
    memories = {room.name: room for room in rooms}
    by_name = {piece.span.name: piece for piece in pieces}
    for piece in pieces:
        span = piece.span
        place = places.get(span.name)
        if place is None:
            raise PlanError("MEM-018", tensor=span.name, rule="it has no place")
        _check_alone(piece, place, memories)
        if piece.view_of:
            owner = places.get(piece.view_of)
            wanted = None if owner is None else (owner.room, owner.offset + piece.view_offset)
            if wanted != (place.room, place.offset):
                raise PlanError("MEM-018", tensor=span.name, rule=f"no view of {piece.view_of}")
    for one, other in combinations(pieces, 2):
        a, b = places[one.span.name], places[other.span.name]
        apart = (
            a.room != b.room
            or one.span.last < other.span.first
            or other.span.last < one.span.first
            or a.offset + one.span.size <= b.offset
            or b.offset + other.span.size <= a.offset
        )
        empty = not one.span.size or not other.span.size
        if not apart and not empty and _root(one, by_name) != _root(other, by_name):
            raise PlanError(
                "MEM-018", tensor=one.span.name, rule=f"{other.span.name} lies there too"
            )


def _check_alone(piece: Piece, place: RoomPlace, memories: Mapping[str, Room]) -> None:
    span, low = piece.span, place.offset
    high = low + span.size
    room = memories.get(place.room)
    rule = ""
    if room is None or place.room not in piece.rooms:
        rule = f"{place.room} is not open to it"
    elif low < 0 or high > room.capacity:
        rule = f"it ends at {high}, {room.name} at {room.capacity}"
    elif low % span.alignment:
        rule = f"not on a multiple of {span.alignment}"
    elif span.fixed is not None and low != span.fixed:
        rule = f"its offset was decided to be {span.fixed}"
    elif span.size and any(
        low < end and start < high for start, end in (*span.forbidden, *room.reserved)
    ):
        rule = "it touches bytes that it may not"
    if rule:
        raise PlanError("MEM-018", tensor=span.name, rule=rule)


def _root(piece: Piece, by_name: Mapping[str, Piece]) -> str:
    while piece.view_of:
        piece = by_name[piece.view_of]
    return piece.span.name

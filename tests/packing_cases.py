"""Random packing problems, and an exhaustive answer to small ones."""

from __future__ import annotations

import random

from npuforge.memory.packing import live_bound
from npuforge.memory.pools import Piece, Room
from npuforge.memory.spans import Span


def apart(a: Span, at: int, b: Span, other: int) -> bool:
    """Whether two spans at offsets share no byte at any step."""
    in_time = a.last < b.first or b.last < a.first
    return in_time or at + a.size <= other or other + b.size <= at


def exhaustive_height(spans: list[Span], most: int) -> int | None:
    """The least height up to `most`, by trying every offset of every span, or None."""

    def allowed(span: Span, at: int) -> bool:
        if at % span.alignment or (span.fixed is not None and at != span.fixed):
            return False
        return not any(at < high and low < at + span.size for low, high in span.forbidden)

    def place(i: int, taken: list[int], height: int) -> bool:
        if i == len(spans):
            return True
        for at in range(height - spans[i].size + 1):
            fits = allowed(spans[i], at) and all(
                apart(spans[i], at, spans[k], taken[k]) for k in range(i)
            )
            if fits and place(i + 1, [*taken, at], height):
                return True
        return False

    return next((h for h in range(most + 1) if place(0, [], h)), None)


def small_spans(chance: random.Random, count: int) -> list[Span]:
    """A few small spans, some fixed, some with forbidden ranges."""
    spans = []
    for i in range(count):
        first = chance.randrange(5)
        size, alignment = chance.randint(1, 4), chance.choice((1, 1, 1, 2, 3, 4))
        low = chance.randrange(6)
        spans.append(
            Span(
                str(i), size, alignment, first, first + chance.randrange(4),
                chance.randrange(3) * alignment if chance.random() < 0.2 else None,
                ((low, low + chance.randint(1, 2)),) if chance.random() < 0.25 else (),
            )
        )  # fmt: skip
    return spans


def random_system(chance: random.Random) -> tuple[list[Piece], list[Room]]:
    """Pieces over up to three memories: some fixed, with forbidden ranges, views, few rooms."""
    unit = chance.choice((1, 16, 32))
    names = ["fast", "near", "far"][-chance.randint(1, 3) :]
    count, steps = chance.randint(2, 24), chance.randint(1, 20)
    pieces: list[Piece] = []
    for i in range(count):
        first = chance.randrange(steps)
        size = chance.randint(0 if chance.random() < 0.05 else 1, 40) * unit
        alignment = unit * chance.choice((1, 1, 2, 4))
        kept = [name for name in names if chance.random() < 0.8] or [chance.choice(names)]
        low = chance.randrange(60) * unit
        forbidden = ((low, low + chance.randint(1, 5) * unit),) if chance.random() < 0.1 else ()
        fixed = None
        if chance.random() < 0.04:
            kept, fixed = kept[:1], chance.randrange(30) * alignment
        span = Span(f"b{i}", size, alignment, first, min(first + chance.randrange(6), steps),
                    fixed, forbidden)  # fmt: skip
        view_of, at = "", 0
        if i and chance.random() < 0.15 and fixed is None:
            owner = chance.choice(pieces)
            if set(owner.rooms) & set(kept):
                view_of, at = owner.span.name, chance.randrange(3) * alignment
        pieces.append(Piece(span, tuple(kept), chance.randrange(1000), view_of, at))
    bound = live_bound([piece.span for piece in pieces])
    rooms = [
        Room(name, int(bound * chance.uniform(0.5, 1.4)) if name != "far" else 1 << 20, clocks,
             ((low := chance.randrange(40) * unit, low + unit),) if chance.random() < 0.2 else ())
        for name, clocks in (("fast", 0.2), ("near", 0.5), ("far", 2.5)) if name in names
    ]  # fmt: skip
    return pieces, rooms

"""Packings against an exhaustive oracle and the independent verifier."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest
from tests.packing_cases import apart, exhaustive_height, random_system, small_spans

from npuforge import _native
from npuforge.errors import PlanError
from npuforge.memory.packing import Effort, Method, check_fixed, live_bound, pack
from npuforge.memory.pools import Piece, Room, RoomPlace, least_clocks, pack_rooms
from npuforge.memory.spans import Span
from npuforge.memory.verify_packing import verify_rooms

ROWS = [(3, 1, 0, 1, -1, []), (2, 1, 1, 2, -1, []), (4, 1, 2, 3, -1, [])]


def row(span: Span) -> tuple[int, int, int, int, int, list[tuple[int, int]]]:
    fixed = -1 if span.fixed is None else span.fixed
    return span.size, span.alignment, span.first, span.last, fixed, list(span.forbidden)


@pytest.mark.parametrize("seed", range(12))
def test_native_answers_are_those_of_an_exhaustive_search(seed: int) -> None:
    chance = random.Random(seed)
    answers = {"found": 0, "impossible": 0}
    for _ in range(40):
        spans = small_spans(chance, chance.randint(1, 5))
        rows = [row(span) for span in spans]
        most = 14
        least = exhaustive_height(spans, most)
        for capacity in range(most + 1):
            outcome, offsets, _ = _native.pack(rows, capacity, 1 << 40)
            possible = least is not None and capacity >= least
            assert outcome == ("found" if possible else "impossible"), (spans, capacity)
            answers[outcome] += 1
            if outcome != "found":
                continue
            for i, span in enumerate(spans):
                at = offsets[i]
                assert 0 <= at <= capacity - span.size
                assert at % span.alignment == 0
                assert span.fixed in (None, at)
                assert all(at >= h or at + span.size <= low for low, h in span.forbidden)
                assert all(apart(span, at, spans[k], offsets[k]) for k in range(i))
    assert min(answers.values()) > 50


@pytest.mark.parametrize("seed", range(8))
def test_pack_reaches_the_least_height_and_says_so(seed: int) -> None:
    """With effort for a full search, height and `least` are both the exhaustive answer."""
    chance = random.Random(100 + seed)
    above = 0
    for _ in range(40):
        spans = small_spans(chance, chance.randint(1, 5))
        try:
            check_fixed(spans)
        except PlanError:
            continue
        packing = pack(spans)
        assert exhaustive_height(spans, packing.height) == packing.height
        assert packing.least == packing.height
        assert packing.proved
        assert packing.bound == live_bound(spans) <= packing.least
        above += packing.least > packing.bound
    assert above > 2


def test_goal_ends_the_search_or_is_proved_out_of_reach() -> None:
    spans = [Span(str(i), *ROWS[i][:4]) for i in range(3)]
    spans.append(Span("wall", 1, 1, 0, 3, 4))
    best = pack(spans)
    assert best.proved
    assert pack(spans, best.height).height <= best.height
    below = pack(spans, best.height - 1)
    assert below.least == best.height == below.height


def test_stages_are_named_and_limits_respected() -> None:
    chance = random.Random(5)
    spans = [
        Span(str(i), chance.randint(1, 50), 1, a := chance.randrange(40), a + chance.randrange(15))
        for i in range(60)
    ]
    greedy = pack(spans, effort=Effort(tries=0, limited=False, nodes=0))
    swaps = pack(spans, effort=Effort(tries=500, limited=False, nodes=0))
    every = pack(spans)
    assert greedy.method is Method.GREEDY
    assert greedy.height >= swaps.height >= every.height >= every.bound
    assert every == pack(spans)
    assert pack([]).height == 0


def test_contradictions_of_fixed_buffers_are_refused() -> None:
    for spans in (
        [Span("a", 4, 4, 0, 1, 2)],
        [Span("a", 4, 4, 0, 1, 4, ((6, 7),))],
        [Span("a", 4, 1, 0, 1, 0), Span("b", 4, 1, 1, 2, 3)],
    ):
        with pytest.raises(PlanError) as caught:
            pack(spans)
        assert caught.value.code == "MEM-003"
        assert caught.value.hint
    assert pack([Span("a", 4, 1, 0, 1, 0), Span("b", 4, 1, 2, 2, 3)]).height == 7


@pytest.mark.parametrize("bad", [(0, 1, 0, 0, -1, []), (1, 0, 0, 0, -1, []), (1, 1, 1, 0, -1, []),
                                 (1, 1, 0, 0, -2, []), (1 << 60, 1, 0, 0, -1, []),
                                 (1, 1, 0, 0, -1, [(3, 2)])])  # fmt: skip
def test_native_refuses_unsound_rows(bad: tuple[int, int, int, int, int, list[object]]) -> None:
    for call in (lambda: _native.pack([bad], 9, 9), lambda: _native.climb([bad], 9, 9)):
        with pytest.raises(ValueError, match="packing item"):
            call()


@pytest.mark.parametrize("seed", range(10))
def test_random_systems_pass_the_verifier(seed: int) -> None:
    """Fixed, forbidden, aliased, several memories; `benchmarks/packing_random.py` does 10,000."""
    chance = random.Random(1000 + seed)
    placed = 0
    refused = set()
    for _ in range(30):
        pieces, rooms = random_system(chance)
        try:
            found = pack_rooms(pieces, rooms)
        except PlanError as error:
            refused.add(error.code)
            continue
        verify_rooms(pieces, rooms, found.places)
        assert found.clocks >= found.least_clocks * (1 - 1e-12)
        placed += 1
    assert refused <= {"MEM-003", "MEM-004"}
    assert placed > 12


@pytest.mark.parametrize("seed", range(6))
def test_bound_on_clocks_holds_for_every_assignment(seed: int) -> None:
    """Against all assignments of few pieces to two memories, each checked by the exact search."""
    chance = random.Random(seed)
    rooms = [Room("fast", 6, 1.0), Room("slow", 100, 3.0)]
    reached = 0
    for _ in range(25):
        spans = [replace(s, fixed=None, forbidden=()) for s in small_spans(chance, 5)]
        pieces = [Piece(span, ("fast", "slow"), chance.randrange(1, 9)) for span in spans]
        best = None
        for choice in range(1 << len(pieces)):
            fast = [p for i, p in enumerate(pieces) if choice >> i & 1]
            clocks = sum(p.traffic * (1.0 if p in fast else 3.0) for p in pieces)
            if (best is None or clocks < best) and pack([p.span for p in fast]).height <= 6:
                best = clocks
        found = pack_rooms(pieces, rooms)
        assert best is not None
        assert least_clocks(pieces, rooms) <= best <= found.clocks
        reached += found.clocks == best
    assert reached >= 20


@pytest.mark.parametrize("seed", range(10))
def test_bound_on_clocks_is_exact_for_buffers_that_all_live_at_once(seed: int) -> None:
    """Whole buffers move: the bound is the cheapest subset of all that free enough."""
    chance = random.Random(seed)
    whole = 0
    for _ in range(30):
        sizes = [chance.randint(1, 30) for _ in range(chance.randint(1, 9))]
        traffic = [chance.randrange(100) for _ in sizes]
        room = chance.randint(0, sum(sizes))
        rooms = [Room("fast", room, 1.0), Room("slow", 1000, 3.5)]
        pieces = [
            Piece(Span(str(i), size, 1, 0, 1), ("fast", "slow"), traffic[i])
            for i, size in enumerate(sizes)
        ]
        costs = [
            sum(traffic) + 2.5 * sum(t for i, t in enumerate(traffic) if choice >> i & 1)
            for choice in range(1 << len(sizes))
            if sum(s for i, s in enumerate(sizes) if not choice >> i & 1) <= room
        ]
        assert least_clocks(pieces, rooms) == pytest.approx(min(costs), rel=1e-12)
        whole += min(costs) > sum(traffic)
    assert whole > 10


def test_verifier_finds_every_kind_of_fault() -> None:
    rooms = [Room("fast", 64, 1.0, ((32, 40),)), Room("slow", 256, 2.0)]
    pieces = [
        Piece(Span("a", 16, 16, 0, 2), ("fast", "slow"), 5),
        Piece(Span("b", 16, 16, 1, 3), ("fast",), 5),
        Piece(Span("view", 8, 8, 2, 3), ("fast",), 5, "b", 8),
        Piece(Span("still", 8, 8, 0, 3, 48), ("fast",), 5),
    ]
    places = dict(pack_rooms(pieces, rooms).places)
    verify_rooms(pieces, rooms, places)
    faults = {
        "it has no place": {"a": None},
        "is not open to it": {"b": RoomPlace("slow", 0)},
        "it ends at": {"a": RoomPlace("fast", 64)},
        "not on a multiple": {"a": RoomPlace("fast", 8)},
        "was decided to be": {"still": RoomPlace("fast", 56)},
        "bytes that it may not": {"a": RoomPlace("fast", 32)},
        "no view of": {"view": RoomPlace("fast", places["b"].offset)},
        "lies there too": {"a": places["b"]},
    }
    for rule, change in faults.items():
        broken = {name: place for name, place in (places | change).items() if place is not None}
        with pytest.raises(PlanError, match="packing of") as caught:
            verify_rooms(pieces, rooms, broken)
        assert rule in caught.value.message


def test_preference_follows_traffic_and_eligibility() -> None:
    rooms = [Room("fast", 32, 0.2), Room("slow", 1000, 2.0)]
    pieces = [
        Piece(Span("busy", 32, 1, 0, 1), ("fast", "slow"), 900),
        Piece(Span("idle", 32, 1, 1, 2), ("fast", "slow"), 100),
        Piece(Span("camera", 32, 1, 0, 2), ("slow",), 5000),
    ]
    found = pack_rooms(pieces, rooms)
    assert {name: place.room for name, place in found.places.items()} == {
        "busy": "fast", "idle": "slow", "camera": "slow",
    }  # fmt: skip
    assert found.proved
    assert found.clocks == pytest.approx(900 * 0.2 + 5100 * 2.0)


def test_views_share_and_impossible_ones_are_refused() -> None:
    rooms = [Room("fast", 64, 1.0), Room("slow", 64, 2.0)]
    whole = Piece(Span("concat", 32, 8, 2, 3), ("fast", "slow"))
    left = Piece(Span("left", 16, 8, 0, 2), ("fast",), 0, "concat", 0)
    right = Piece(Span("right", 16, 8, 1, 2), ("fast",), 0, "concat", 16)
    inner = Piece(Span("inner", 8, 8, 1, 1), ("fast",), 0, "right", 8)
    found = pack_rooms([inner, whole, left, right], rooms)
    verify_rooms([inner, whole, left, right], rooms, found.places)
    base = found.places["concat"].offset
    assert [found.places[n].offset - base for n in ("left", "right", "inner")] == [0, 16, 24]
    assert found.packings["fast"].height == 32
    circle = [replace(whole, view_of="left"), left]
    for pieces in (circle, [left], [whole, replace(left, view_offset=4)],
                   [whole, replace(left, rooms=("none",))]):  # fmt: skip
        with pytest.raises(PlanError) as caught:
            pack_rooms(pieces, rooms)
        assert caught.value.code == "MEM-003"


def test_lasting_spans_go_below() -> None:
    chance = random.Random(5)
    for _ in range(300):
        spans = small_spans(chance, chance.randint(1, 5))
        last = max(span.last for span in spans)
        spans += [Span(f"always{i}", chance.randint(1, 3) * 2, 1, 0, last) for i in range(2)]
        spans = [replace(span, first=max(span.first, 0)) for span in spans]
        try:
            found = pack(spans)
        except PlanError:
            continue
        assert all(
            apart(a, found.offsets[a.name], b, found.offsets[b.name])
            for a, b in combinations(spans, 2)
        )
        assert found.height == exhaustive_height(spans, found.height)


def test_reserved_end_and_memories_too_small() -> None:
    rooms = [Room("small", 8, 0.1), Room("mid", 64, 0.2, ((32, 40), (40, 64)))]
    rooms.append(Room("far", 1 << 20, 2.0))
    names = tuple(room.name for room in rooms)
    # b is cheapest to move, yet the next memory that holds it is far
    pieces = [Piece(Span("a", 8, 1, 0, 3), names, 100), Piece(Span("b", 32, 1, 0, 3), names, 10)]
    plan = pack_rooms(pieces, rooms)
    verify_rooms(pieces, rooms, plan.places)
    assert plan.places["a"].room == "small"
    assert plan.places["b"].room == "mid"
    assert plan.proved

"""The Pareto front: nothing on it is beaten, nothing off it is needed, limits hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.cost import load_calibration
from npuforge.explore.search import Backend, Candidate, Exploration, candidates, explore, pareto
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.targets import load_target

TARGET = load_target("stm32n6570-dk")


@pytest.fixture(scope="module")
def network(example: Callable[[str], Path]) -> Graph:
    folder = example("x").parent.parent
    return load_model(max(folder.glob("*/*.tflite"), key=lambda path: path.stat().st_size))


@pytest.fixture(scope="module")
def everything(network: Graph) -> list[Candidate]:
    points = tuple(TARGET.operating_points.values())
    return list(candidates(network, TARGET, points, "4.0", True, load_calibration()))


@pytest.fixture(scope="module")
def found(network: Graph) -> Exploration:
    return explore(network, TARGET)


def test_the_front_is_exactly_what_nothing_beats(
    found: Exploration, everything: list[Candidate]
) -> None:
    assert found.tried == len(everything)
    for one in found.front:
        assert not any(other.beats(one) for other in everything)
    kept = {one.goals for one in found.front}
    for other in everything:
        assert other.goals in kept or any(one.beats(other) for one in found.front)


def test_fastest_first_and_both_ends_make_sense(found: Exploration) -> None:
    times = [one.cost.ms for one in found.front]
    assert times == sorted(times)
    assert found.front[0].choice.point.name == "overdrive"
    assert found.front[0].choice.backend is Backend.NPU
    least = min(found.front, key=lambda one: one.energy.uj)
    assert least.choice.point.name == "nominal"


def test_weights_in_ram_take_ram_and_save_time(everything: list[Candidate]) -> None:
    moved = [one for one in everything if one.weights_in_ram]
    assert moved
    for one in moved:
        same = [
            other for other in everything
            if not other.choice.weight_share and other.choice.backend is Backend.NPU
            and (other.choice.point, other.choice.integer_io, other.choice.spread)
            == (one.choice.point, one.choice.integer_io, one.choice.spread)
        ]  # fmt: skip
        (base,) = same
        assert one.cost.ms < base.cost.ms
        assert one.ram == base.ram + one.weights_in_ram
        assert one.ram <= 2_883_584


def test_limits_leave_out_what_breaks_them(network: Graph, found: Exploration) -> None:
    middle = found.front[len(found.front) // 2]
    limited = explore(network, TARGET, max_ms=middle.cost.ms, max_ram=middle.ram)
    assert limited.front
    assert limited.tried < found.tried
    for one in limited.front:
        assert one.cost.ms <= middle.cost.ms
        assert one.ram <= middle.ram
    assert explore(network, TARGET, max_ms=1e-6).front == ()


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=12, unique=True))
def test_the_front_of_a_part_is_a_front(indices: list[int]) -> None:
    cached = _CACHE or _fill()
    part = [cached[i % len(cached)] for i in indices]
    front = pareto(part)
    for one in front:
        assert not any(other.beats(one) for other in part)
    assert {f.goals for f in pareto(list(front))} == {f.goals for f in front}


_CACHE: list[Candidate] = []


def _fill() -> list[Candidate]:
    folder = Path(__file__).parents[2] / "examples"
    graph = load_model(min(folder.glob("*/*.tflite"), key=lambda path: path.stat().st_size))
    points = tuple(TARGET.operating_points.values())
    _CACHE.extend(candidates(graph, TARGET, points, "3.0", True, load_calibration()))
    return _CACHE

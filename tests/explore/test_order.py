"""The order of steps with the fewest bytes: against all orders, and run."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.boards import HostBoard
from npuforge.errors import PlanError
from npuforge.explore.cut import FREE, Cut
from npuforge.explore.fit import fit_schedule, limited
from npuforge.explore.order import Orders, best_order
from npuforge.explore.shortfall import diagnose
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.lowering import Buffer, BufferKind, Schedule, Step, StepOperand, TensorPlace, lower
from npuforge.lowering.order import apart, reorder, waits_for
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.shortfall import bytes_needed
from npuforge.numerics import View, random_inputs
from npuforge.targets import load_target

ROOT = Path(__file__).parents[2]
BOARD = load_target("mps3-an547")


def wiring(seed: int) -> Schedule:
    """A random network of up to ten steps, often with a concatenation written in parts."""
    rng = random.Random(seed)
    buffers = {"in": Buffer("in", BufferKind.INPUT, rng.randint(1, 20), 1)}
    steps: list[Step] = []

    def operand(name: str, writes: bool, offset: int = 0, size: int = 0) -> StepOperand:
        view = View.dense((size or buffers[name].nbytes,), 1)
        return StepOperand(name, replace(view, offset=offset), writes)

    for number in range(rng.randint(2, 7)):
        sources = rng.sample(sorted(buffers), min(len(buffers), rng.choice((1, 1, 1, 2, 2, 3))))
        name = f"b{number}"
        buffers[name] = Buffer(name, BufferKind.ACTIVATION, rng.randint(1, 20), 1)
        operands = (*(operand(s, False) for s in sources), operand(name, True))
        steps.append(Step(name, "any", "cpu_m55", "copy", operands, {}))
    if rng.random() < 0.6:
        parts = rng.sample(sorted(buffers), min(3, len(buffers)))
        total = sum(buffers[part].nbytes for part in parts)
        buffers["cat"] = Buffer("cat", BufferKind.ACTIVATION, total, 1)
        offset = 0
        for part in parts:
            size = buffers[part].nbytes
            operands = (operand(part, False), operand("cat", True, offset, size))
            steps.append(Step("cat", "concat", "cpu_m55", "copy", operands, {}))
            offset += size
    read = {op.buffer for step in steps for op in step.operands if not op.writes}
    outputs = [name for name in buffers if name not in read]
    for name in outputs:
        buffers[name] = replace(buffers[name], kind=BufferKind.OUTPUT)
    last = {op.buffer: n for n, step in enumerate(steps) for op in step.operands if op.writes}
    tensors = {n: TensorPlace(n, 0, b.nbytes, last.get(n, -1)) for n, b in buffers.items()}
    return Schedule("wiring", tuple(steps), buffers, tensors, ("in",), tuple(outputs))


def least_of_all(schedule: Schedule) -> int:
    """The fewest bytes alive at once over all orders, one by one over sets of steps."""
    waits = waits_for(schedule)
    count = len(schedule.steps)
    lives = schedule.lifetimes
    users = {
        b.name: {
            n for n, s in enumerate(schedule.steps) for op in s.operands if op.buffer == b.name
        }
        for b in schedule.activations
    }

    def alive(done: frozenset[int], step: int) -> int:
        started, open_ = done | {step}, set(range(count)) - done
        return sum(
            b.nbytes
            for b in schedule.activations
            if (users[b.name] & started or lives[b.name].first < 0)
            and (users[b.name] & open_ or lives[b.name].last >= count)
        )

    layer = {frozenset[int](): 0}
    for _ in range(count):
        following: dict[frozenset[int], int] = {}
        for done, peak in layer.items():
            for step in set(range(count)) - done:
                if waits[step] <= done:
                    now = max(peak, alive(done, step))
                    key = done | {step}
                    following[key] = min(following.get(key, now), now)
        layer = following
    return layer[frozenset(range(count))]


@given(st.integers(0, 1 << 32))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_order_needs_less(seed: int) -> None:
    schedule = wiring(seed)
    least = least_of_all(schedule)
    found = best_order(schedule)
    assert (found.after, found.bound) == (least, least)
    assert found.proved
    assert bytes_needed(found.schedule) == least
    orders = Orders(schedule)
    # the search alone, without the bound and the heuristics before it
    order, _, ended = orders.within(least, 1 << 20)
    assert order is not None
    assert ended
    assert orders.peak(order) == least
    assert orders.within(least - 1, 1 << 20)[0::2] == (None, True)
    worst = orders.bound(range(orders.count))
    assert worst.nbytes <= least
    divided, _ = orders.around(worst, 1 << 20)
    assert divided is None or orders.peak(divided) == worst.nbytes == least


def test_an_early_end_proves_nothing() -> None:
    gaps = 0
    for seed in range(60):
        schedule = wiring(seed)
        found = best_order(schedule, limit=0)
        least = least_of_all(schedule)
        assert found.bound <= least <= found.after
        assert found.sets == 0
        gaps += not found.proved
    assert gaps


@given(st.integers(2, 6), st.data())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_smallest_cuts(inner: int, data: st.DataObject) -> None:
    edge = st.tuples(st.integers(0, inner + 1), st.integers(0, inner + 1), st.integers(1, 9))
    edges = data.draw(st.lists(edge, max_size=16))
    cut = Cut(inner + 2)
    for tail, head, capacity in edges:
        cut.add(tail, head, capacity)
    sums = [
        sum(c for tail, head, c in edges if tail in side and head not in side)
        for size in range(inner + 1)
        for chosen in itertools.combinations(range(2, inner + 2), size)
        for side in ({0, *chosen},)
    ]
    assert cut.smallest(FREE) == min(sums)


def test_what_waits_stays_behind() -> None:
    schedule = wiring(3)
    waits = waits_for(schedule)
    step = next(n for n, found in enumerate(waits) if found)
    order = [n for n in range(len(waits)) if n != step]
    with pytest.raises(ValueError, match="waits"):
        reorder(schedule, [step, *order])
    with pytest.raises(ValueError, match="once"):
        reorder(schedule, order)


def test_parts_of_a_buffer() -> None:
    low = View.strided((1, 2, 3, 4), (0, 24, 8, 1), 1)
    high = replace(low, offset=4)
    assert apart(low, high)
    assert not apart(low, replace(low, offset=3))
    assert not apart(low, replace(low, c=5))
    assert apart(View.dense((8,), 1), replace(View.dense((8,), 1), offset=8))
    assert not apart(View.dense((8,), 1), replace(View.dense((8,), 1), offset=7))


def irregular() -> Graph:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from order import DARTS, cells
    finally:
        sys.path.pop(0)
    return cells("DARTS cell", DARTS, 4)


def test_cells_in_a_better_order() -> None:
    """Fewer bytes, the same results, and chosen where the file's order does not fit."""
    graph = irregular()
    schedule = lower(graph, map_graph(graph, BOARD), BOARD)
    found = best_order(schedule)
    assert found.proved
    assert found.after < found.before == bytes_needed(schedule)
    sample = random_inputs(graph, np.random.default_rng(5))
    runs = []
    for made in (schedule, found.schedule):
        plan = plan_memory(made, BOARD)
        verify_plan(made, plan, BOARD)
        runs.append(HostBoard(graph, made, plan).run(sample, capture=True).tensors)
    assert set(runs[0]) == set(runs[1])
    for name, values in runs[0].items():
        assert np.array_equal(runs[1][name], values), name
    fitted = fit_schedule(schedule, BOARD, found.after, tiling=False)
    assert fitted.ordering is not None
    assert fitted.plan.activation_bytes == found.after
    with pytest.raises(PlanError, match=str(found.after)):
        fit_schedule(schedule, BOARD, found.after - 1, tiling=False)
    told = diagnose("cells", graph, schedule, limited(BOARD, found.after))
    assert told is not None
    assert told.helps("order")
    assert next(r for r in told.remedies if r.kind == "order").planned == found.after


@pytest.mark.parametrize("name", ["image_classification", "visual_wake_words"])
def test_chains_stay_as_they_are(name: str, example: Callable[[str], Path]) -> None:
    graph = load_model(example(name))
    schedule = lower(graph, map_graph(graph, BOARD), BOARD)
    found = best_order(schedule)
    assert found.schedule is schedule
    assert found.proved

"""Least spill: live tensors fit at every epoch, whatever the network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor
from tests.passes.patterns import PATTERNS, Net, Pattern

from npuforge.accelerators import PlacementKind
from npuforge.cost import (
    EpochWork,
    Memory,
    activation_limits,
    compiler_rules,
    epoch_works,
    npu_cost,
    place_activations,
)
from npuforge.cost.residence import least_live_order
from npuforge.graph import Graph
from npuforge.graph.attrs import ConvAttrs
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint, load_target

POINT = OperatingPoint("overdrive", 800.0, 1000.0, flash_mhz=200.0)


def convolution(size: int, channels: int) -> Graph:
    return single(
        "conv2d",
        [
            tensor("x", (1, size, size, channels), quant=(0.1, -128)),
            tensor("w", (channels, 1, 1, channels), data=np.ones((channels, 1, 1, channels))),
        ],
        [tensor("y", (1, size, size, channels), quant=(0.1, -128))],
        ConvAttrs(),
    )


def test_what_fits_stays_in_npu_ram() -> None:
    graph = convolution(64, 8)
    cost = npu_cost(graph, map_to_npu(graph).placements, POINT)
    assert cost.residence.memory == {}
    assert cost.residence.peak == 2 * 64 * 64 * 8


def test_what_exceeds_the_chip_leaves_it_and_costs_time() -> None:
    graph = convolution(640, 8)
    assert 2 * 640 * 640 * 8 > 2_883_584
    mapping = map_to_npu(graph).placements
    spilled = npu_cost(graph, mapping, POINT)
    assert Memory.EXTERNAL in spilled.residence.memory.values()
    roomy = place_activations(graph, [e.work for e in spilled.epochs], 1 << 30, 1 << 30)
    inside = npu_cost(graph, mapping, POINT, residence=roomy)
    assert spilled.ms > 3 * inside.ms


def test_limits_are_the_boards_pools() -> None:
    assert activation_limits(load_target("stm32n6570-dk")) == (4 * 448 * 1024, 2_883_584)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=12), st.data())
def test_live_tensors_fit_at_every_epoch(sizes: list[int], data: st.DataObject) -> None:
    tensors = {f"t{i}": tensor(f"t{i}", (1, size)) for i, size in enumerate(sizes)}
    graph = Graph("g", tensors, (), (), ())
    works = [
        EpochWork((f"n{step}",), "add", PlacementKind.HARDWARE, tensors=tuple(names))
        for step in range(8)
        if (names := data.draw(st.lists(st.sampled_from(sorted(tensors)), unique=True)))
    ]
    near, internal = 40, 90
    where = place_activations(graph, works, near, internal)
    alive: dict[str, list[int]] = {}
    for step, work in enumerate(works):
        for name in work.tensors:
            alive.setdefault(name, []).append(step)
    for step in range(len(works)):
        live = [n for n, steps in alive.items() if steps[0] <= step <= steps[-1]]
        held = {
            memory: sum(graph.tensor(n).nbytes for n in live if where.memory.get(n) is memory)
            for memory in Memory
        }
        total = sum(graph.tensor(n).nbytes for n in live)
        assert total - held[Memory.EXTERNAL] <= internal
        assert held[Memory.CPU_RAM] <= internal - near
        assert total - held[Memory.EXTERNAL] - held[Memory.CPU_RAM] <= near
        assert where.peak >= total


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.make.__name__)
def test_another_order_can_run_and_keeps_no_more_alive(pattern: Pattern) -> None:
    graph = pattern.make()
    works = epoch_works(graph, map_to_npu(graph).placements, compiler_rules("4.0"))
    other = least_live_order(graph, works)
    assert sorted(w.nodes for w in other) == sorted(w.nodes for w in works)
    before, after = (place_activations(graph, one).peak for one in (works, other))
    assert after <= before
    ran: set[str] = set()
    producers = {name: node.name for node in graph.nodes for name in node.outputs}
    for work in other:
        ran.update(work.nodes)
        for name in work.tensors:
            assert name not in producers or producers[name] in ran


def test_a_wide_branch_waits_for_a_narrow_one() -> None:
    """Two branches from one map, each widened and pooled: one after the other, not side by side."""
    net = Net()
    x = net.conv(net.input(1, 16, 16, 4), 4)
    wide = [net.conv(x, 64) for _ in range(2)]
    ends = [net.conv(branch, 4) for branch in wide]
    graph = net.graph(net.op("add", ends))
    works = epoch_works(graph, map_to_npu(graph).placements, compiler_rules("4.0"))
    other = least_live_order(graph, works)
    before, after = (place_activations(graph, one).peak for one in (works, other))
    assert before >= 2 * 16 * 16 * 64
    assert after < before - 16 * 16 * 50

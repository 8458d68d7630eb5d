"""Equal parts of a network: found by structure, and held against the order they ran in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.mapping.test_epochs import Net

from npuforge.accelerators.neural_art.operations import Operation, operations
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu

sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    from compiled import NETWORKS, CompiledEpoch, compiled_epochs
    from equal_parts import compared, parts
finally:
    sys.path.pop(0)


def _head(net: Net, source: str, channels: int = 16) -> str:
    """Two branches of two convolutions behind a stem, joined."""
    stem = net.conv(source, 16)
    one = net.conv(net.depthwise(stem), channels)
    other = net.conv(net.depthwise(stem), channels)
    return net.add(one, other)


def _two_heads(second: int = 16) -> Graph:
    net = Net((1, 16, 16, 16))
    small = net.conv(net.first, 16, kernel=3, stride=2)
    return net.graph(_head(net, net.first), _head(net, small, second))


def _ran(graph: Graph, order: list[int]) -> tuple[list[CompiledEpoch], tuple[Operation, ...]]:
    """One epoch a node in the stated order of positions."""
    ops = operations(graph, map_to_npu(graph).placements)
    made = [{op.writes for op in ops if op.node == graph.nodes[n].name} for n in order]
    found = [CompiledEpoch(i, "hardware", frozenset(m), ()) for i, m in enumerate(made)]
    return found, ops


def test_parts_are_what_lies_between_fork_and_join() -> None:
    graph = _two_heads()
    first, second = parts(graph)
    # The stem is what all comes from; it is no part of what may be reordered.
    assert [graph.nodes[n].op for n in first.nodes] == [
        *("depthwise_conv2d", "conv2d", "depthwise_conv2d", "conv2d", "add")
    ]
    assert first.signature == second.signature
    assert first.nodes != second.nodes


def test_another_number_of_channels_is_another_part() -> None:
    first, second = parts(_two_heads(second=8))
    assert first.signature != second.signature
    assert compared(_two_heads(second=8), *_ran(_two_heads(second=8), list(range(13)))) == []


@pytest.mark.parametrize(("swapped", "orders"), [(False, 1), (True, 2)])
def test_the_reverse_order_of_one_head_is_a_contradiction(swapped: bool, orders: int) -> None:
    graph = _two_heads()
    second = parts(graph)[1].nodes
    order = list(range(len(graph.nodes)))
    if swapped:
        a, b, c, d = second[:4]
        at = order.index(a)
        order[at : at + 4] = [c, d, a, b]
    (found,) = compared(graph, *_ran(graph, order))
    assert len(found.orders) == orders
    assert found.alike is not swapped


def test_at_the_same_time_contradicts_nothing() -> None:
    graph = _two_heads()
    epochs, ops = _ran(graph, list(range(len(graph.nodes))))
    second = parts(graph)[1].nodes
    inside = {op.writes for op in ops if op.node in {graph.nodes[n].name for n in second}}
    together = [CompiledEpoch(e.number, e.kind, e.made - inside, ()) for e in epochs]
    together.append(CompiledEpoch(99, "hardware", frozenset(inside), ()))
    (found,) = compared(graph, together, ops)
    assert found.alike


@pytest.mark.shared
def test_yolox_has_three_equal_heads_in_two_orders(shared: Path) -> None:
    """So no rule on the structure of the graph packs all three as ST's compiler does."""
    name = "yolox_nano_480"
    graph = load_model(shared / "models" / NETWORKS[name][0])
    ops = operations(graph, map_to_npu(graph, release="2.1").placements)
    found = compared(graph, compiled_epochs(shared / "aton" / name, graph, ops), ops)
    heads = [c for c in found if not c.alike]
    assert [len(c.parts) for c in heads] == [3]
    sizes = [graph.output_tensors(graph.nodes[p.join])[0].shape[1] for p in heads[0].parts]
    assert sizes == [60, 30, 15]
    assert sorted(map(len, heads[0].orders)) == [1, 2]
    # The other equal parts (residual blocks, stages of the neck) all ran alike.
    assert sum(len(c.parts) for c in found if c.alike) == 23

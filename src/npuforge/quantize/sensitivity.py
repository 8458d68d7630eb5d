"""Which layers the error comes from: each alone in integers, everything else in single precision.

A layer counts with what it reads and writes as integers, so that the error of its activations'
ranges is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from npuforge.graph import Graph, Node, is_view, macs
from npuforge.passes import CHANNEL_AXIS
from npuforge.quantize.assign import node_precisions
from npuforge.quantize.build import quantize_graph
from npuforge.quantize.capable import FOLLOWS, WEIGHTED
from npuforge.quantize.measure import Tally
from npuforge.quantize.ranges import Range
from npuforge.quantize.scheme import Granularity, Precision, Scheme
from npuforge.quantize.score import Reference, Score
from npuforge.quantize.weights import stored_weights, weight_peaks, weight_scales

Tick = Callable[[int, int], None]


class Grouping(StrEnum):
    """What is made integer at once."""

    LAYER = "layer"
    """One node."""
    BLOCK = "block"
    """Nodes between two tensors through which everything passes: a residual block is one."""
    OPERATOR = "operator"
    """All nodes of one operator."""


@dataclass(frozen=True)
class Sensitivity:
    """One group alone in integers.

    Attributes:
        name: the node's, the block's first and last node, or the operator.
        nodes: names of its nodes.
        ops: their operators, each once, in order.
        score: of the network with only these nodes in integers.
        weight_sqnr: of the weights alone, dB; the worst node's; None without weights.
        macs: multiply-accumulates of the group.
    """

    name: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    score: Score
    weight_sqnr: float | None
    macs: int


def groups_of(graph: Graph, scheme: Scheme, grouping: Grouping) -> list[tuple[str, list[Node]]]:
    """Nodes that compute on integers under a scheme, in groups; moves and views follow others.

    Args:
        graph: prepared float graph.
        scheme: whose precisions count.
        grouping: how nodes are put together.
    """
    precisions = node_precisions(graph, scheme)
    counted = [
        node
        for node in graph.nodes
        if precisions[node.name] is not Precision.FLOAT
        and not is_view(node)
        and node.op not in FOLLOWS
    ]
    if grouping is Grouping.LAYER:
        return [(node.name, [node]) for node in counted]
    if grouping is Grouping.OPERATOR:
        by_op: dict[str, list[Node]] = {}
        for node in counted:
            by_op.setdefault(node.op, []).append(node)
        return list(by_op.items())
    blocks = []
    names = {node.name for node in counted}
    for block in _blocks(graph):
        nodes = [node for node in block if node.name in names]
        if nodes:
            ends = (nodes[0].name, nodes[-1].name)
            blocks.append((" … ".join(dict.fromkeys(ends)), nodes))
    return blocks


def _blocks(graph: Graph) -> list[list[Node]]:
    """Nodes cut where a single tensor is alive."""
    last: dict[str, int] = {name: len(graph.nodes) for name in graph.outputs}
    for number, node in enumerate(graph.nodes):
        for name in node.input_names:
            last[name] = max(last.get(name, number), number)
    alive = {name for name in graph.inputs if name in last}
    blocks: list[list[Node]] = [[]]
    for number, node in enumerate(graph.nodes):
        blocks[-1].append(node)
        alive |= {name for name in node.outputs if name in last}
        alive = {name for name in alive if last[name] > number}
        if len(alive) <= 1:
            blocks.append([])
    return [block for block in blocks if block]


def sensitivities(
    reference: Reference,
    ranges: Mapping[str, Range],
    scheme: Scheme,
    *,
    grouping: Grouping = Grouping.LAYER,
    tick: Tick | None = None,
) -> tuple[Sensitivity, ...]:
    """Every group alone in integers, the most harmful first.

    Args:
        reference: the prepared float graph on samples.
        ranges: of its activations.
        scheme: how integers are made.
        grouping: what is made integer at once.
        tick: told groups done and groups in all.
    """
    graph = reference.graph
    groups = groups_of(graph, scheme, grouping)
    precisions = node_precisions(graph, scheme)
    found = []
    for number, (name, nodes) in enumerate(groups):
        layers = {node.name: precisions[node.name] for node in nodes}
        alone = replace(scheme, base=Precision.FLOAT, layers=layers)
        made = quantize_graph(graph, ranges, alone)
        known = [w for node in nodes if (w := weight_sqnr(graph, node, scheme)) is not None]
        found.append(
            Sensitivity(
                name,
                tuple(layers),
                tuple(dict.fromkeys(node.op for node in nodes)),
                reference.score(made.graph),
                min(known) if known else None,
                sum(macs(graph, node) for node in nodes),
            )
        )
        if tick is not None:
            tick(number + 1, len(groups))
    return tuple(sorted(found, key=lambda item: (item.score.key, item.name)))


def weight_sqnr(graph: Graph, node: Node, scheme: Scheme) -> float | None:
    """Signal to quantisation noise of a layer's rounded weights, in dB; None without weights."""
    if node.op not in WEIGHTED:
        return None
    w = graph.tensor(node.inputs[1])
    if w.data is None:
        return None
    axis = CHANNEL_AXIS[node.op]
    bits = 4 if node.name in scheme.int4 else 8
    peaks = weight_peaks(w.data, axis, scheme.weights is Granularity.CHANNEL)
    stored = stored_weights(w.data, weight_scales(peaks, None, 1.0, bits), axis, bits)
    tally = Tally()
    tally.add(w.data.astype(np.float64), stored.quant.real(stored.data))
    return tally.sqnr

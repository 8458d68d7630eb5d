"""Equal parts of one network, and whether they were compiled alike.

Two parts are equal when a join (a node of several computed inputs) and everything between it and
the node that all of it comes from agree node for node: operator, attributes, weights' shapes,
channels, kind of zero point, and who reads whom. Only height and width of the maps may differ. A
rule that looks at the structure of the graph has to treat equal parts alike; where a compiler runs
two nodes of one part in one order and their counterparts in the other, no such rule gives both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiled import CompiledEpoch

from npuforge.accelerators.neural_art.operations import Operation, Part, zero_point
from npuforge.graph import Graph, Node
from npuforge.graph import attrs as at

Signature = tuple[object, ...]


@dataclass(frozen=True)
class Joined:
    """A join with what leads to it.

    Attributes:
        join: position of the join among the graph's nodes.
        nodes: positions, ascending; the join is the last one.
        signature: equal for equal parts.
    """

    join: int
    nodes: tuple[int, ...]
    signature: Signature


def parts(graph: Graph) -> list[Joined]:
    """Every join whose inputs are computed side by side."""
    number = {node.name: i for i, node in enumerate(graph.nodes)}
    sources = [
        [number[graph.producers[n].name] for n in node.input_names if n in graph.producers]
        for node in graph.nodes
    ]
    dominators: list[frozenset[int]] = []
    ancestors: list[frozenset[int]] = []
    for i, own in enumerate(sources):
        shared = frozenset.intersection(*(dominators[s] for s in own)) if own else frozenset()
        dominators.append(shared | {i})
        ancestors.append(frozenset(own).union(*(ancestors[s] for s in own)))
    found = []
    for i, own in enumerate(sources):
        above = dominators[i] - {i}
        if len(set(own)) < 2 or not above:
            continue
        fork = max(above)
        inside = sorted({i} | {n for n in ancestors[i] if fork in ancestors[n]})
        place = {n: k for k, n in enumerate(inside)}
        signature = tuple(
            _described(graph, graph.nodes[n], tuple(place.get(s, -1) for s in sources[n]))
            for n in inside
        )
        if all(n == i or not ancestors[n].isdisjoint({fork}) for n in inside):
            found.append(Joined(i, tuple(inside), signature))
    return found


def _described(graph: Graph, node: Node, reads: tuple[int, ...]) -> Signature:
    """What a rule on the structure can see of a node, but for the size of its maps."""
    attrs = node.attrs if not isinstance(node.attrs, at.ResizeAttrs) else type(node.attrs)
    constants = tuple(t.shape for t in graph.input_tensors(node) if t is not None and t.is_constant)
    made = graph.output_tensors(node)[0]
    # What decides on a reader's units: shifted to unsigned, taken as it is, or multiplied wide.
    zero = {-128: "shift", 0: "none"}.get(zero_point(made), "wide")
    return (
        node.op,
        attrs,
        constants,
        made.shape[-1:],
        len(made.shape),
        str(made.dtype),
        zero,
        reads,
    )


@dataclass(frozen=True)
class Comparison:
    """Equal parts of a network side by side.

    Attributes:
        parts: the equal parts.
        orders: the joins, those in one group whose parts do not contradict each other.
    """

    parts: tuple[Joined, ...]
    orders: tuple[tuple[int, ...], ...]

    @property
    def alike(self) -> bool:
        """Whether one order fits all of them."""
        return len(self.orders) == 1


def compared(
    graph: Graph, epochs: Iterable[CompiledEpoch], ops: Sequence[Operation]
) -> list[Comparison]:
    """Equal parts of a network, and the orders they were compiled in.

    Args:
        graph: the network.
        epochs: as compiled.
        ops: its operations; an order is that of the convolutions, of which each has one.
    """
    runs = {value: epoch.number for epoch in epochs for value in epoch.made}
    number = {node.name: i for i, node in enumerate(graph.nodes)}
    ran = {
        number[op.node]: runs[op.writes] for op in ops if op.part is Part.CONV and op.writes in runs
    }
    groups: dict[Signature, list[Joined]] = defaultdict(list)
    for part in parts(graph):
        groups[part.signature].append(part)
    result = []
    for same in groups.values():
        if len(same) < 2:
            continue
        orders: list[list[Joined]] = []
        for part in same:
            fitting = (o for o in orders if not any(contradict(part, p, ran) for p in o))
            group = next(fitting, None)
            if group is None:
                orders.append([part])
            else:
                group.append(part)
        joins = tuple(tuple(p.join for p in o) for o in orders)
        result.append(Comparison(tuple(same), joins))
    return result


def contradict(one: Joined, other: Joined, ran: dict[int, int]) -> bool:
    """Whether two convolutions of one part ran in the reverse order of their counterparts."""
    pairs = [
        (ran[a], ran[b])
        for a, b in zip(one.nodes, other.nodes, strict=True)
        if a in ran and b in ran
    ]
    return any((a - c) * (b - d) < 0 for a, b in pairs for c, d in pairs)

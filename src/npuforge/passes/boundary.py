"""Passes that move work out of the network, into the application: they change its interface.

What was taken off is a graph of its own, so that the whole can still be run, compared and handed to
whoever writes the application.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from npuforge.graph import Graph, macs
from npuforge.passes.framework import feeds, pruned, subgraph


@dataclass(frozen=True, eq=False)
class Cut:
    """A network in pieces.

    Attributes:
        graph: what stays.
        head: old inputs -> new inputs, or None when they are the same.
        tail: new outputs -> old outputs, or None when they are the same.
        nodes: names of the nodes that were taken off.
    """

    graph: Graph
    head: Graph | None
    tail: Graph | None
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class BoundaryPass(ABC):
    """A pass that takes nodes off the ends of a network."""

    code: ClassVar[str]

    @abstractmethod
    def cut(self, graph: Graph, off_npu: Collection[str]) -> Cut | None:
        """The network in pieces; None when there is nothing to take off.

        Args:
            graph: the network.
            off_npu: names of the nodes that leave the NPU.
        """


def take_off_tail(graph: Graph, tail: Collection[str]) -> Cut | None:
    """Take nodes off whose results reach only outputs.

    Args:
        graph: the network.
        tail: names of nodes, closed under "reads the result of".
    """
    inside = [node for node in graph.nodes if node.name in tail]
    kept = [node for node in graph.nodes if node.name not in tail]
    if not inside or not kept or any(not node.outputs for node in inside):
        return None
    made = {name for node in inside for name in node.outputs}
    read = feeds(inside, graph.tensors)
    if any(name in graph.inputs or name in graph.states for name in read):
        return None
    outputs = tuple(dict.fromkeys([*read, *(n for n in graph.outputs if n not in made)]))
    behind = tuple(name for name in graph.outputs if name in made)
    rest = pruned(replace(graph, nodes=tuple(kept), outputs=outputs))
    part = subgraph(graph, inside, read, behind, name=f"{graph.name}.tail")
    return Cut(rest, None, part, tuple(node.name for node in inside))


@dataclass(frozen=True)
class IntegerInputs(BoundaryPass):
    """Conversions of float inputs to integers go into the application."""

    code: ClassVar[str] = "integer-inputs"

    def cut(self, graph: Graph, off_npu: Collection[str]) -> Cut | None:
        """See the base class."""
        taken = []
        for name in graph.inputs:
            readers = graph.consumers.get(name, ())
            if name in graph.outputs or len(readers) != 1 or readers[0].op != "quantize":
                continue
            if graph.tensors[name].dtype.is_float:
                taken.append(readers[0])
        if not taken:
            return None
        swapped = {node.inputs[0]: node.outputs[0] for node in taken}
        inputs = tuple(swapped.get(name, name) for name in graph.inputs)
        names = {node.name for node in taken}
        nodes = tuple(node for node in graph.nodes if node.name not in names)
        rest = pruned(replace(graph, nodes=nodes, inputs=inputs))
        sources = [name for name in graph.inputs if name in swapped]
        made = [swapped[name] for name in sources]
        head = subgraph(graph, taken, sources, made, name=f"{graph.name}.head")
        return Cut(rest, head, None, tuple(names))


@dataclass(frozen=True)
class CpuTail(BoundaryPass):
    """What the CPU would compute at the end of the network goes into the application.

    Attributes:
        mac_limit: largest share of the network's multiply-accumulates that may be taken off.
        node_limit: largest share of its nodes.
    """

    code: ClassVar[str] = "cpu-tail"
    mac_limit: float = 0.02
    node_limit: float = 0.35

    def cut(self, graph: Graph, off_npu: Collection[str]) -> Cut | None:
        """See the base class."""
        behind = _descendants(graph)
        work = {node.name: macs(graph, node) for node in graph.nodes}
        total = sum(work.values())
        tail: set[str] = set()
        for node in graph.nodes:
            if node.name not in off_npu:
                continue
            more = tail | {node.name} | behind[node.name]
            cheap = sum(work[name] for name in more) <= self.mac_limit * total
            if cheap and len(more) <= self.node_limit * len(graph.nodes) + 2:
                tail = more
        return take_off_tail(graph, tail) if tail else None


def _descendants(graph: Graph) -> dict[str, set[str]]:
    """Node name -> names of all nodes that depend on it."""
    behind: dict[str, set[str]] = {}
    for node in reversed(graph.nodes):
        found: set[str] = set()
        for name in node.outputs:
            for reader in graph.consumers.get(name, ()):
                found.add(reader.name)
                found |= behind[reader.name]
        behind[node.name] = found
    return behind

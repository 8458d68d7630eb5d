"""The NPU's share of a network, the nodes that leave it, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from npuforge.accelerators.neural_art.epochs import (
    DEFAULT_RELEASE,
    Epoch,
    epochs,
    merges_requantisation,
)
from npuforge.accelerators.neural_art.placement import USER_RULE, NpuPlacement, place_node
from npuforge.accelerators.protocol import PlacementKind
from npuforge.errors import UsageError
from npuforge.graph import Graph, Node, macs, short_name
from npuforge.messages import render


@dataclass(frozen=True)
class Fallback:
    """One node that leaves the NPU.

    Attributes:
        node: its name.
        op: its operator.
        kind: where it runs instead.
        rule: id of the rule.
        reason: why, with the numbers.
        remedy: what to do about it.
        confidence: how well the rule is founded.
        macs: multiply-accumulates of the node.
        bytes: activation bytes it reads and writes: what sorts nodes without multiplications.
    """

    node: str
    op: str
    kind: PlacementKind
    rule: str
    reason: str
    remedy: str
    confidence: str
    macs: int
    bytes: int


@dataclass(frozen=True)
class NpuMapping:
    """The predicted placement of a network on Neural-ART.

    Attributes:
        placements: one a node, in execution order.
        fallbacks: costliest first.
        node_share: nodes on the NPU, of those that run at all (views do not); 0 to 1.
        mac_share: multiply-accumulates on the NPU; 0 to 1. Hybrid convolutions count as on it.
        hybrid_epochs: epochs driven by a C helper.
        software_epochs: epochs on the CPU.
        graph: the network.
        merged: requantisation in one ARITH operation; see `epochs.epochs`.
    """

    placements: tuple[NpuPlacement, ...]
    fallbacks: tuple[Fallback, ...]
    node_share: float
    mac_share: float
    hybrid_epochs: int
    software_epochs: int
    graph: Graph = field(repr=False, compare=False)
    merged: bool

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """The predicted epochs in execution order; packed when first asked for."""
        return epochs(self.graph, self.placements, merged=self.merged)

    @property
    def hardware_epochs(self) -> int:
        """Epochs that run in NPU units alone."""
        return sum(epoch.kind is PlacementKind.HARDWARE for epoch in self.epochs)


def map_to_npu(
    graph: Graph,
    *,
    cpu: Collection[str] = (),
    integer_io: bool = False,
    release: str = DEFAULT_RELEASE,
) -> NpuMapping:
    """Predict where ST's compiler puts every node.

    Args:
        graph: the network.
        cpu: node names (whole or the short form reports show) or operators forced to the CPU.
        integer_io: compile with integer network inputs and outputs: the conversions at the
            network's boundary are left out (`--inputs-data-type`, `--outputs-data-type`).
        release: of ST Edge AI Core, major and minor number; it decides which operations share an
            epoch, not where a node runs.

    Raises:
        UsageError: a name in `cpu` fits no node, or `release` is no release number.
    """
    wanted = {name.lower() for name in cpu}
    used: set[str] = set()
    placements = []
    for node in graph.nodes:
        names = {node.name.lower(), short_name(node.name).lower(), node.op} & wanted
        used |= names
        placement = place_node(graph, node)
        if names and placement.kind is not PlacementKind.VIEW and not placement.software_epochs:
            placement = NpuPlacement(
                *(node.name, USER_RULE.kind, USER_RULE.code, {"op": node.op}),
                software_epochs=USER_RULE.software_epochs,
            )
        elif integer_io and placement.rule == "MAP-npu-float-io":
            placement = NpuPlacement(node.name, PlacementKind.VIEW, "MAP-npu-view")
        placements.append(placement)
    if wanted - used:
        raise UsageError("NPU-001", names=", ".join(sorted(wanted - used)))
    return _summary(graph, placements, merges_requantisation(release))


def moved_bytes(graph: Graph, node: Node) -> int:
    """Activation bytes that a node reads and writes."""
    tensors = (*graph.input_tensors(node), *graph.output_tensors(node))
    return sum(t.nbytes for t in tensors if t is not None and not t.is_constant)


def _summary(graph: Graph, placements: list[NpuPlacement], merged: bool) -> NpuMapping:
    fallbacks = []
    nodes = on_npu = work = npu_work = 0
    for node, placement in zip(graph.nodes, placements, strict=True):
        count = macs(graph, node)
        work += count
        if placement.kind in (PlacementKind.HARDWARE, PlacementKind.HYBRID):
            npu_work += count
        if placement.kind is not PlacementKind.VIEW:
            nodes += 1
            on_npu += placement.kind is PlacementKind.HARDWARE
        if placement.is_fallback:
            reason, remedy = render(placement.rule, placement.params)
            fallbacks.append(
                Fallback(
                    *(node.name, node.op, placement.kind, placement.rule, reason, remedy),
                    *(placement.confidence.value, count, moved_bytes(graph, node)),
                )
            )
    # A hybrid epoch does its work with the NPU's DMA: cheaper than any node on the CPU.
    fallbacks.sort(key=lambda f: (f.kind is PlacementKind.HYBRID, -f.macs, -f.bytes))
    return NpuMapping(
        tuple(placements),
        tuple(fallbacks),
        on_npu / nodes if nodes else 1.0,
        npu_work / work if work else 1.0,
        sum(p.hybrid_epochs for p in placements),
        sum(p.software_epochs for p in placements),
        graph,
        merged,
    )

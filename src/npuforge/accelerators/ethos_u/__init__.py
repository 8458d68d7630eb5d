"""Ethos-U: no rules of our own, the placement is read from Vela's per-layer report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuforge.accelerators.protocol import Placement, PlacementKind
from npuforge.artefacts.vela_report import VelaLayer
from npuforge.errors import UnsupportedError
from npuforge.graph import Graph, Node, is_view
from npuforge.numerics import KernelCall
from npuforge.targets import Target


@dataclass(frozen=True)
class EthosU:
    """The operators that Vela put on the NPU.

    Attributes:
        layers: rows of the per-layer report; empty: nothing is known, nothing is placed.
    """

    layers: tuple[VelaLayer, ...] = ()
    name = "ethos_u"

    def layer(self, node: Node) -> VelaLayer | None:
        """The row of a node: Vela names an operator after its output tensor."""
        names = {node.name, *node.outputs}
        return next((layer for layer in self.layers if layer.name in names), None)

    def place(self, graph: Graph, node: Node, target: Target) -> Placement | None:
        """On the NPU when the report lists the node; None when it does not."""
        if is_view(node):
            return Placement(node.name, self.name, PlacementKind.VIEW, "MAP-view")
        if self.layer(node) is None:
            return None
        return Placement(node.name, self.name, PlacementKind.HARDWARE, "MAP-vela")

    def lower(self, graph: Graph, node: Node) -> Sequence[KernelCall]:
        """Vela makes the program, not we.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("VEL-002", node=node.name)

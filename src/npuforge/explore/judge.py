"""What makes one graph better than another on a target: NPU share, hazards, time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from npuforge.accelerators.protocol import PlacementKind
from npuforge.cost import npu_cost
from npuforge.graph import Graph, is_view
from npuforge.mapping import map_to_npu
from npuforge.passes import Score, count_hazards
from npuforge.targets import OperatingPoint, Target


@dataclass(frozen=True)
class TargetJudge:
    """Scores graphs by predicted placement and time.

    Attributes:
        target: the board.
        point: its operating point.
    """

    target: Target
    point: OperatingPoint

    def score(self, graph: Graph) -> Score:
        """The figures of a graph; without an NPU only the number of nodes counts."""
        transposes = sum(node.op == "transpose" for node in graph.nodes)
        if not self.target.has_neural_art:
            running = sum(not is_view(node) for node in graph.nodes)
            return Score(running, transposes=transposes)
        npu = map_to_npu(graph)
        running = sum(p.kind is not PlacementKind.VIEW for p in npu.placements)
        return Score(
            *(running, npu.node_share, npu.mac_share, npu.software_epochs, npu.hybrid_epochs),
            *(transposes, count_hazards(graph)),
            npu_cost(graph, npu.placements, self.point).ms,
        )

    def off_npu(self, graph: Graph) -> Collection[str]:
        """Names of the nodes that leave the NPU."""
        if not self.target.has_neural_art:
            return ()
        return {fallback.node for fallback in map_to_npu(graph).fallbacks}

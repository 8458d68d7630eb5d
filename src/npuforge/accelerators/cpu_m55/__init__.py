"""The Cortex-M55 as an accelerator: every node as calls of the npuforge runtime's kernels."""

from __future__ import annotations

from collections.abc import Sequence

from npuforge.accelerators.protocol import Placement, PlacementKind
from npuforge.graph import Graph, Node, is_view
from npuforge.numerics import KernelCall, bind
from npuforge.targets import Target
from npuforge.vocab import Contract


class CpuM55:
    """Runs whatever has a kernel."""

    name = "cpu_m55"

    def place(self, graph: Graph, node: Node, target: Target) -> Placement:
        """Every node runs here; what has no kernel is refused by `lower`."""
        if is_view(node):
            kind, reason = PlacementKind.VIEW, "MAP-view"
        else:
            tensors = (*graph.input_tensors(node)[:1], *graph.output_tensors(node)[:1])
            floating = node.contract is Contract.FLOAT32 or any(
                t is not None and t.dtype.is_float for t in tensors
            )
            kind = PlacementKind.CPU_FLOAT if floating else PlacementKind.CPU_INTEGER
            reason = "MAP-backend-cpu" if target.has_npu else "MAP-no-npu"
        return Placement(node.name, self.name, kind, reason)

    def lower(self, graph: Graph, node: Node) -> Sequence[KernelCall]:
        """The runtime kernels that compute the node under its contract."""
        return [] if is_view(node) else bind(graph, node)

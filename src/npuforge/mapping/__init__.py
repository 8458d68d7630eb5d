"""The mapping room: which accelerator runs each node, and why."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass

from npuforge.accelerators import Placement, accelerator
from npuforge.graph import Graph
from npuforge.mapping.compiled import (
    CompiledEpochs,
    ReportComparison,
    compare_report,
    epochs_of_c_info,
    epochs_of_report,
    read_compiled,
)
from npuforge.mapping.npu import Fallback, NpuMapping, map_to_npu
from npuforge.mapping.vela import VelaMapping, map_with_vela, read_vela
from npuforge.targets import Target

__all__ = [
    "CompiledEpochs",
    "Fallback",
    "Mapping",
    "NpuMapping",
    "ReportComparison",
    "VelaMapping",
    "compare_report",
    "epochs_of_c_info",
    "epochs_of_report",
    "map_graph",
    "map_to_npu",
    "map_with_vela",
    "read_compiled",
    "read_vela",
]


@dataclass(frozen=True)
class Mapping:
    """The placement of every node.

    Attributes:
        backend: "cpu" when everything runs on the Cortex-M.
        placements: by node name, in execution order.
    """

    backend: str
    placements: MappingType[str, Placement]


def map_graph(graph: Graph, target: Target) -> Mapping:
    """Place every node with backend `cpu`: the Cortex-M runs the whole network."""
    cpu = accelerator(target.accelerators[0])
    placements = {}
    for node in graph.nodes:
        placement = cpu.place(graph, node, target)
        assert placement is not None
        placements[node.name] = placement
    return Mapping("cpu", placements)

"""A network under Vela's report: share of the NPU and fallbacks, as for Neural-ART."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from npuforge.accelerators.ethos_u import EthosU
from npuforge.accelerators.protocol import PlacementKind
from npuforge.artefacts.vela_report import VelaLayer, read_vela_layers
from npuforge.graph import Graph, is_view, macs
from npuforge.mapping.compiled import file_bytes
from npuforge.mapping.npu import Fallback, moved_bytes
from npuforge.messages import render


@dataclass(frozen=True)
class VelaMapping:
    """What Vela's report says of a network.

    Attributes:
        fallbacks: nodes that no row names, costliest first.
        node_share: nodes with a row, of those that run at all; 0 to 1.
        mac_share: multiply-accumulates of those nodes; 0 to 1.
        cycles: NPU clocks of all rows, as Vela estimates them.
        unknown: names of rows that fit no node: fused or inserted by Vela.
    """

    fallbacks: tuple[Fallback, ...]
    node_share: float
    mac_share: float
    cycles: int
    unknown: tuple[str, ...]


def read_vela(path: str | PathLike[str]) -> tuple[VelaLayer, ...]:
    """The rows of Vela's ``*_per-layer.csv``.

    Raises:
        NpuforgeError: the file cannot be read or is no such report.
    """
    file = Path(path)
    return read_vela_layers(file_bytes(file), file.name)


def map_with_vela(graph: Graph, layers: Sequence[VelaLayer]) -> VelaMapping:
    """Lay a per-layer report over a network."""
    npu = EthosU(tuple(layers))
    fallbacks, found = [], set()
    nodes = on_npu = work = npu_work = 0
    for node in graph.nodes:
        if is_view(node):
            continue
        count, layer = macs(graph, node), npu.layer(node)
        nodes += 1
        work += count
        if layer is not None:
            found.add(layer.name)
            on_npu += 1
            npu_work += count
            continue
        floating = any(t.dtype.is_float for t in graph.output_tensors(node))
        kind = PlacementKind.CPU_FLOAT if floating else PlacementKind.CPU_INTEGER
        reason, remedy = render("MAP-vela-missing", {"op": node.op, "output": node.outputs[0]})
        fallbacks.append(
            Fallback(
                *(node.name, node.op, kind, "MAP-vela-missing", reason, remedy),
                *("report", count, moved_bytes(graph, node)),
            )
        )
    fallbacks.sort(key=lambda f: (-f.macs, -f.bytes))
    return VelaMapping(
        tuple(fallbacks),
        on_npu / nodes if nodes else 1.0,
        npu_work / work if work else 1.0,
        sum(layer.cycles for layer in layers),
        tuple(layer.name for layer in layers if layer.name not in found),
    )

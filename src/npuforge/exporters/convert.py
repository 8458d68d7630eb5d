"""A graph in the form a file format computes, and the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from npuforge.errors import UsageError
from npuforge.exporters.legal import for_onnx, for_tflite, is_quantised
from npuforge.exporters.onnx.exporter import export_onnx
from npuforge.exporters.tflite.exporter import export_tflite
from npuforge.graph import Graph, Node, is_view
from npuforge.numerics import bind
from npuforge.vocab import Contract


class Format(StrEnum):
    """A file format that graphs are written in."""

    TFLITE = "tflite"
    ONNX = "onnx"


WRITERS: Mapping[Format, Callable[[Graph], bytes]] = {
    Format.TFLITE: export_tflite,
    Format.ONNX: export_onnx,
}
_LEGAL: Mapping[Format, Callable[[Graph], Graph]] = {
    Format.TFLITE: for_tflite,
    Format.ONNX: for_onnx,
}
_OWN: Mapping[Format, tuple[Contract, ...]] = {
    Format.TFLITE: (Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO),
    Format.ONNX: (Contract.ONNX_QLINEAR, Contract.FLOAT32),
}


def format_of(path: Path) -> Format:
    """The format that a file's name asks for.

    Raises:
        UsageError: the name ends in neither .tflite nor .onnx.
    """
    try:
        return Format(path.suffix.lower().removeprefix("."))
    except ValueError:
        raise UsageError("EXP-010", path=path) from None


@dataclass(frozen=True, eq=False)
class Conversion:
    """A graph written as a file.

    Attributes:
        graph: what the file says, under the contract its format is computed by.
        content: the file's bytes.
        format: its format.
        changed: nodes whose contract had to change, or that had to be put in other words, in
            execution order: single steps of their results may differ from those of the model read.
    """

    graph: Graph
    content: bytes
    format: Format
    changed: tuple[Node, ...]


def convert(graph: Graph, target: Format) -> Conversion:
    """Write a graph in a format, under that format's own arithmetic.

    Raises:
        UnsupportedError: the format, or our executor under its contract, cannot take a node.
    """
    own = graph.with_nodes(_own_contract(graph, node, target) for node in graph.nodes)
    own = _LEGAL[target](own)
    known = {node.name: node for node in graph.nodes}
    changed = tuple(
        node
        for node in own.nodes
        if node.name not in known
        or (node.op, node.contract) != (known[node.name].op, known[node.name].contract)
    )
    for node in changed:
        if not is_view(node):
            bind(own, node)
    return Conversion(own, WRITERS[target](own), target, changed)


def _own_contract(graph: Graph, node: Node, target: Format) -> Node:
    """The node under a contract the format has; plain floats and pure movement stay."""
    if not is_quantised(graph, node) or node.contract in (Contract.EXACT, *_OWN[target]):
        return node
    return replace(node, contract=_OWN[target][0])

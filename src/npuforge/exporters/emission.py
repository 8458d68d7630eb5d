"""What the exports to all formats share: the graph, new names, refusals."""

from __future__ import annotations

from typing import Any, ClassVar

from npuforge.errors import UnsupportedError
from npuforge.graph import Graph, Names, Node


class Emission:
    """State of one export; each format adds what it collects.

    Attributes:
        format: the format as messages call it.
        graph: what is exported.
    """

    format: ClassVar[str]

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = Names(graph.tensors)

    def refuse(
        self, node: Node, reason: str = "", code: str = "EXP-002", **more: str
    ) -> UnsupportedError:
        """The error for a node that the format cannot express; `more` goes into its message."""
        words: dict[str, Any] = {"node": node.name, "op": node.op, "reason": reason, **more}
        return UnsupportedError(code, format=self.format, **words)

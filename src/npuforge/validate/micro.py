"""tflite-micro as an oracle: it runs the file that our exporter writes of a graph.

Networks that LiteRT's reference resolver refuses, because it lacks an operator, are checked with it
under the contract tflite_micro. Shape arithmetic is folded before, which tflite-micro cannot do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npuforge.errors import ToolError
from npuforge.exporters import export_tflite
from npuforge.graph import Array, Graph

ARENA_BYTES = 64 << 20
"""Memory of one interpreter; with every tensor preserved nothing is reused."""
PIECE_NODES = 256
"""Longest piece of a network that is run at once: tflite-micro plans at most 1024 buffers."""


def pieces(graph: Graph, size: int = PIECE_NODES) -> Iterator[Graph]:
    """The graph cut into runs of consecutive nodes, each a graph of its own.

    A piece reads what earlier pieces made; its outputs are what later ones and the network need. A
    network with state variables stays whole.
    """
    step = len(graph.nodes) if graph.states else size
    for start in range(0, len(graph.nodes), max(step, 1)):
        nodes = graph.nodes[start : start + step]
        made = {name for node in nodes for name in node.outputs}
        read = {name for node in nodes for name in node.input_names}
        later = {name for node in graph.nodes[start + step :] for name in node.input_names}
        wanted = later | set(graph.outputs) | (made - read)
        names = read | made | set(graph.states)
        yield replace(
            graph,
            nodes=nodes,
            tensors={name: graph.tensors[name] for name in graph.tensors if name in names},
            inputs=tuple(
                name
                for name in graph.tensors
                if name in read - made - set(graph.states) and not graph.tensors[name].is_constant
            ),
            outputs=tuple(n for node in nodes for n in node.outputs if n in wanted),
        )


@dataclass(frozen=True, eq=False)
class _Piece:
    """A loaded piece: its interpreter and where its tensors are in the file."""

    graph: Graph
    interpreter: Any
    numbers: Mapping[str, int]


class TfliteMicroExport:
    """tflite-micro's reference kernels over the exported graph: the oracle of tflite_micro."""

    def __init__(self, graph: Graph) -> None:
        from importlib.metadata import version

        self.name = f"tflite-micro {version('tflite-micro')}"
        self._graph = graph
        self._pieces = [self._load(piece) for piece in pieces(graph)]

    def _load(self, piece: Graph) -> _Piece:
        import tflite
        from tflite_micro.python.tflite_micro import runtime

        content = export_tflite(piece)
        try:
            interpreter = runtime.Interpreter.from_bytes(
                content,
                arena_size=ARENA_BYTES,
                intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
            )
        except (ValueError, RuntimeError) as error:
            raise ToolError("VAL-004", oracle=self.name, reason=str(error)) from None
        subgraph = tflite.Model.GetRootAsModel(content, 0).Subgraphs(0)
        made = {name for node in piece.nodes for name in node.outputs}
        numbers = {}
        for i in range(subgraph.TensorsLength()):
            name = subgraph.Tensors(i).Name().decode()
            if name in made:
                numbers[name] = i
        return _Piece(piece, interpreter, numbers)

    def tensors(
        self, inputs: Mapping[str, Array], ours: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Every tensor of one run from the given inputs."""
        known: dict[str, Array] = dict(inputs)
        found: dict[str, Array] = {}
        for piece in self._pieces:
            for index, name in enumerate(piece.graph.inputs):
                piece.interpreter.set_input(np.ascontiguousarray(known[name]), index)
            piece.interpreter.invoke()
            for name, number in piece.numbers.items():
                found[name] = np.array(piece.interpreter.GetTensor(number, 0)["tensor_data"])
            known.update(found)
        return found

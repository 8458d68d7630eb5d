"""The oracles: independent implementations that say what a network's tensors must be.

Frameworks are imported only here and only when an oracle is made.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from npuforge.errors import ToolError
from npuforge.graph import Array, Graph
from npuforge.vocab import Contract


class Oracle(Protocol):
    """Something that computes the true tensors of a network."""

    @property
    def name(self) -> str:
        """Name and version, as reports show it."""

    def tensors(
        self, inputs: Mapping[str, Array], ours: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """The true tensors for one sample.

        Args:
            inputs: the network's inputs.
            ours: tensors that npuforge computed; an oracle that checks layer by layer feeds each
                layer with them.
        """


def oracle_for(graph: Graph, content: bytes, folder: Path | None = None) -> Oracle:
    """The oracle of the model file's format; of the contract tflite_micro where the graph has it.

    Args:
        graph: the imported network.
        content: the model file.
        folder: where the file lies; external data is read from there.

    Raises:
        ToolError: the package it needs is not installed.
    """
    if any(node.contract is Contract.TFLITE_MICRO for node in graph.nodes):
        _require("tflite_micro", "tflite-micro")
        from npuforge.validate.micro import TfliteMicroExport

        return TfliteMicroExport(graph)
    if graph.source == "tflite":
        _require("ai_edge_litert", "ai-edge-litert")
        return LiteRtReference(graph, content)
    _require("onnxruntime", "onnxruntime")
    from npuforge.validate.onnx_layers import OnnxRuntimeLayers

    return OnnxRuntimeLayers(graph, content, folder)


def _require(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ToolError("VAL-001", package=package)


class LiteRtReference:
    """LiteRT's interpreter with the reference kernels: the oracle of tflite_reference.

    The default interpreter must never be used: its XNNPACK kernels round differently.
    """

    def __init__(self, graph: Graph, content: bytes) -> None:
        from importlib.metadata import version

        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self.name = f"LiteRT {version('ai-edge-litert')} reference kernels"
        self._graph = graph
        try:
            self._interpreter: Any = Interpreter(
                model_content=mend(content),
                experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True,
            )
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ToolError("VAL-004", oracle=self.name, reason=str(error)) from None
        self._inputs = [d["index"] for d in self._interpreter.get_input_details()]
        made = {name for node in graph.nodes for name in node.outputs}
        self._indices: dict[str, int] = {}
        seen: set[str] = set()
        for detail in self._interpreter.get_tensor_details():
            name = detail["name"]
            # of tensors with equal names the first is known by its plain name
            if name in made and name not in seen:
                self._indices[name] = detail["index"]
            seen.add(name)

    def tensors(
        self, inputs: Mapping[str, Array], ours: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Every tensor of one run from the given inputs."""
        for name, index in zip(self._graph.inputs, self._inputs, strict=True):
            self._interpreter.set_tensor(index, inputs[name])
        self._interpreter.invoke()
        return {n: self._interpreter.get_tensor(i) for n, i in self._indices.items()}


def mend(content: bytes) -> bytes:
    """The file with two blemishes removed that LiteRT's reference interpreter refuses.

    Older converters left the channel axis of bias tensors at that of the weights, which has no
    effect on the arithmetic. And TILE is registered there under its first version only, although
    the kernel is the one that newer files name.
    """
    import tflite

    mended = bytearray(content)
    root = tflite.Model.GetRootAsModel(content, 0)

    def clear(table: Any, field: int, value: int) -> None:
        offset = table.Offset(field)
        if offset:
            at = table.Pos + offset
            mended[at : at + 4] = value.to_bytes(4, "little")

    for i in range(root.OperatorCodesLength()):
        code = root.OperatorCodes(i)
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if kind == tflite.BuiltinOperator.TILE:
            clear(code._tab, _VERSION, 1)
    for i in range(root.SubgraphsLength()):
        graph = root.Subgraphs(i)
        for k in range(graph.TensorsLength()):
            tensor = graph.Tensors(k)
            quant = tensor.Quantization()
            if quant is not None and tensor.ShapeLength() == 1:
                clear(quant._tab, _QUANTIZED_DIMENSION, 0)
    return bytes(mended)


# positions of fields in the virtual tables of OperatorCode and QuantizationParameters
_VERSION = 8
_QUANTIZED_DIMENSION = 16

"""uint8 networks on int8: the same numbers lowered by 128."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from npuforge.graph import Graph, Names, Node, PadAttrs, Quantization, StateAttrs, Tensor
from npuforge.graph.attrs import NO_ATTRS, Attrs
from npuforge.passes.framework import CHANNEL_AXIS, Edit, Pass
from npuforge.vocab import Contract, DType

LOWER = 128
"""What uint8 numbers are lowered by to become int8."""


@dataclass(frozen=True)
class UnsignedToSigned(Pass):
    """Networks on uint8 compute on int8: zero points move by 128, asymmetric weights are rescaled.

    Inputs and outputs of the network stay uint8, with a change of type behind and before them.
    """

    code: ClassVar[str] = "unsigned-to-signed"
    bound: ClassVar[float] = 2.0

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class: the pass takes the whole graph, at its first node."""
        if node is not graph.nodes[0] or not _is_unsigned(graph):
            return None
        return _Signed(graph, names, self.code).edit()


def _is_unsigned(graph: Graph) -> bool:
    made = [t for node in graph.nodes for t in graph.output_tensors(node)]
    working = [t for t in made if t.dtype is DType.UINT8 and t.name not in graph.outputs]
    return bool(working) and not graph.states


class _Signed:
    def __init__(self, graph: Graph, names: Names, code: str) -> None:
        self._graph, self._names, self._code = graph, names, code
        self._tensors: dict[str, Tensor] = {}
        self._nodes: list[Node] = []
        self._swapped: dict[str, str] = {}

    def edit(self) -> Edit | None:
        graph = self._graph
        for name in graph.inputs:
            if graph.tensors[name].dtype is DType.UINT8:
                self._convert(name, self._swap(graph.tensors[name]))
        for node in graph.nodes:
            if isinstance(node.attrs, StateAttrs):
                return None
            self._node(node)
        for name in graph.outputs:
            if name in self._swapped and name not in graph.inputs:
                self._convert(self._swapped[name], name)
        nodes = tuple(self._nodes)
        removed = tuple(node.name for node in graph.nodes)
        return Edit(removed, nodes, tuple(self._tensors.values()))

    def _convert(self, source: str, target: str) -> None:
        name = self._names.fresh(f"{target}/{self._code}")
        contract = next(
            (n.contract for n in self._graph.nodes if n.contract is not Contract.EXACT),
            Contract.TFLITE_REFERENCE,
        )
        node = Node(name, "quantize", (source,), (target,), NO_ATTRS, contract, (name,))
        self._nodes.append(node)

    def _swap(self, tensor: Tensor) -> str:
        """The int8 tensor that stands for a uint8 one."""
        if tensor.name not in self._swapped:
            name = self._names.fresh(f"{tensor.name}/signed")
            quant = tensor.quantization
            if quant is not None:
                quant = Quantization(quant.scale, quant.zero_point - LOWER, quant.axis)
            data = None
            if tensor.data is not None:
                data = (tensor.data.astype(np.int16) - LOWER).astype(np.int8)
            self._tensors[name] = Tensor(name, tensor.shape, DType.INT8, quant, data)
            self._swapped[tensor.name] = name
        return self._swapped[tensor.name]

    def _node(self, node: Node) -> None:
        graph = self._graph
        inputs: list[str | None] = []
        for position, name in enumerate(node.inputs):
            tensor = None if name is None else graph.tensors[name]
            if tensor is None or tensor.dtype is not DType.UINT8:
                inputs.append(name)
            elif node.op in CHANNEL_AXIS and position == 1 and tensor.is_constant:
                inputs.append(self._weights(tensor, CHANNEL_AXIS[node.op]))
            else:
                inputs.append(self._swap(tensor))
        inputs = self._rescaled_bias(node, inputs)
        outputs = tuple(
            self._swap(t) if t.dtype is DType.UINT8 else t.name for t in graph.output_tensors(node)
        )
        attrs: Attrs = node.attrs
        if isinstance(attrs, PadAttrs) and graph.tensor(node.inputs[0]).dtype is DType.UINT8:
            attrs = replace(attrs, value=attrs.value - LOWER)
        name = self._names.fresh(f"{node.name}/{self._code}")
        origins = node.origins or (node.name,)
        made = Node(name, node.op, tuple(inputs), outputs, attrs, node.contract, origins)
        self._nodes.append(made)

    def _weights(self, w: Tensor, axis: int) -> str:
        """int8 weights with zero point 0; channels that do not fit get a scale of their own."""
        name = self._names.fresh(f"{w.name}/signed")
        shape = [1] * len(w.shape)
        shape[axis] = -1
        others = tuple(i for i in range(len(w.shape)) if i != axis)
        zero = w.quant.zero_point.reshape(shape) if w.quant.axis is not None else w.quant.z
        centred = w.array.astype(np.int64) - zero
        peak = np.abs(centred).max(axis=others)
        factor = np.maximum(peak / 127.0, 1.0)
        stored = np.rint(centred / factor.reshape(shape)).astype(np.int8)
        scale = (w.quant.scale * factor).astype(np.float32)
        quant = Quantization.per_channel(scale, axis)
        self._tensors[name] = Tensor(name, w.shape, DType.INT8, quant, np.ascontiguousarray(stored))
        return name

    def _rescaled_bias(self, node: Node, inputs: list[str | None]) -> list[str | None]:
        """The bias in units of the new weights' scales."""
        if node.op not in CHANNEL_AXIS or len(inputs) < 3 or inputs[2] is None:
            return inputs
        old, bias = self._graph.tensor(node.inputs[1]), self._graph.tensors[inputs[2]]
        new = self._tensors.get(inputs[1] or "")
        if new is None or new.quantization is None or bias.dtype is not DType.INT32:
            return inputs
        ratio = old.quant.scale.astype(np.float64) / new.quant.scale.astype(np.float64)
        x = self._graph.tensor(node.inputs[0])
        data = np.rint(bias.array.astype(np.float64) * ratio.reshape(bias.array.shape)).astype(
            np.int32
        )
        name = self._names.fresh(f"{bias.name}/signed")
        quant = Quantization.per_channel(np.float32(x.quant.s) * new.quant.scale, 0)
        self._tensors[name] = Tensor(name, bias.shape, DType.INT32, quant, data)
        return [*inputs[:2], name, *inputs[3:]]

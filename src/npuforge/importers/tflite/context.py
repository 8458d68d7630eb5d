"""What operator handlers may use of the importer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from npuforge.errors import NpuforgeError
from npuforge.graph import Array, Attrs, Graph, Node, Quantization, Shape, Tensor, schema, verify
from npuforge.graph.ops import ShapeMismatch
from npuforge.importers.tflite.file import RawOperator, RawSubgraph, RawTensor
from npuforge.numerics import run_graph
from npuforge.vocab import Contract

FOLD_LIMIT = 1 << 22
"""Largest tensor, in elements, that is computed while reading."""


class Context(ABC):
    """What a handler may use of the importer.

    Attributes:
        open: tensors whose shape the file leaves open (an axis of -1 in the signature): converters
            store 1 there, and runtimes find the size when they allocate.
    """

    tensors: dict[str, Tensor]
    nodes: list[Node]
    states: dict[str, Array]
    resources: dict[int, str]
    names: list[str]
    open: set[str]

    @abstractmethod
    def subgraph(self, index: int) -> RawSubgraph | None:
        """Another subgraph of the file; None when there is none with this number."""

    @abstractmethod
    def quantization(self, raw: RawTensor) -> Quantization | None:
        """The scales of a tensor of any subgraph."""

    def name_of(self, index: int) -> str | None:
        """Name of a tensor by its number; None for an absent optional one."""
        return None if index < 0 else self.names[index]

    @abstractmethod
    def refuse(self, op: RawOperator, reason: str) -> NpuforgeError:
        """The error for an operator that is sound but not taken."""

    @abstractmethod
    def damaged(self, op: RawOperator, reason: str) -> NpuforgeError:
        """The error for an operator that contradicts itself."""

    def inputs(self, op: RawOperator, least: int) -> list[Tensor | None]:
        """The tensors an operator reads; at least `least` of them are there."""
        indices = op.inputs
        if len(indices) < least or min(indices[:least], default=0) < 0:
            raise self.damaged(op, f"{len(indices)} inputs")
        tensors, names = self.tensors, self.names
        return [None if i < 0 else tensors[names[i]] for i in indices]

    def input(self, op: RawOperator, index: int) -> Tensor:
        """One input that must be there, as all before it."""
        indices = op.inputs
        if len(indices) <= index or min(indices[: index + 1]) < 0:
            raise self.damaged(op, f"{len(indices)} inputs")
        return self.tensors[self.names[indices[index]]]

    def first(self, op: RawOperator) -> Tensor:
        """The operator's first input."""
        return self.input(op, 0)

    def output(self, op: RawOperator, index: int = 0) -> Tensor:
        """One of the operator's outputs."""
        name = self.name_of(op.outputs[index]) if len(op.outputs) > index else None
        if name is None:
            raise self.damaged(op, "no output")
        return self.tensors[name]

    def settle(self, tensor: Tensor, shape: Shape) -> Tensor:
        """The tensor with the shape that its operator makes, where the file leaves it open."""
        if tensor.name not in self.open or tensor.shape == shape:
            return tensor
        settled = replace(tensor, shape=shape)
        self.tensors[tensor.name] = settled
        return settled

    def _settle_outputs(self, node: Node) -> None:
        if self.open.isdisjoint(node.outputs):
            return
        sources = [None if name is None else self.tensors[name] for name in node.inputs]
        try:
            shapes = schema(node.op).infer(sources, node.attrs)
        except ShapeMismatch:
            return  # the verifier says what does not fit
        for name, shape in zip(node.outputs, shapes, strict=False):
            self.settle(self.tensors[name], shape)

    def constant(self, op: RawOperator, index: int) -> Array:
        """The data of an input that must be known before the network runs."""
        tensor = self.input(op, index)
        if tensor.data is None:
            raise self.refuse(op, f"{tensor.name} is computed while the network runs")
        return tensor.data

    def integers(self, op: RawOperator, index: int) -> list[int]:
        """An input of whole numbers that must be known before the network runs."""
        data = self.constant(op, index)
        if data.dtype.kind not in "iu":
            raise self.damaged(op, f"input {index} is not of integers")
        return [int(v) for v in data.reshape(-1)]

    def fold(self, op: RawOperator, value: Array) -> None:
        """Make the output a constant instead of adding a node."""
        tensor = self.output(op)
        if value.size != tensor.size:
            tensor = self.settle(tensor, value.shape)
        if value.size != tensor.size:
            raise self.damaged(op, f"result of {value.size} values for shape {tensor.shape}")
        data = np.array(value.reshape(tensor.shape), order="C")
        self.tensors[tensor.name] = Tensor(
            tensor.name, tensor.shape, tensor.dtype, tensor.quantization, data
        )

    def intermediate(self, op: RawOperator, suffix: str, like: Tensor, shape: Shape) -> Tensor:
        """A new tensor beside the operator's output, of the type of another one."""
        name = f"{self.output(op).name}/{suffix}"
        while name in self.tensors:
            name += "'"
        tensor = Tensor(name, shape, like.dtype, like.quantization)
        self.tensors[name] = tensor
        return tensor

    def move(self, kind: str, attrs: Attrs, source: Tensor, target: Tensor) -> None:
        """Append a node of data movement between two tensors."""
        node = Node(target.name, kind, (source.name,), (target.name,), attrs)
        self._settle_outputs(node)
        if not self._folded(node):
            self.nodes.append(node)

    def _folded(self, node: Node) -> bool:
        """Compute a node whose inputs are all known; whether that was done."""
        first = node.inputs[0] if node.inputs else None
        if first is not None and self.tensors[first].data is None:
            return False  # most nodes read a computed tensor first
        sources = {name: self.tensors[name] for name in node.input_names}
        if not sources or any(not tensor.is_constant for tensor in sources.values()):
            return False
        tensors = sources | {name: self.tensors[name] for name in node.outputs}
        if any(tensor.size > FOLD_LIMIT for tensor in tensors.values()):
            return False
        graph = Graph("fold", tensors, (node,), (), node.outputs)
        verify(graph)
        for name, value in run_graph(graph, {}).items():
            self.tensors[name] = replace(self.tensors[name], data=value)
        return True

    def add(
        self,
        op: RawOperator,
        kind: str,
        attrs: Attrs,
        inputs: Sequence[str | None] | None = None,
        *,
        moves: bool = False,
    ) -> None:
        """Append a node with all of the operator's outputs; `moves` marks pure data movement."""
        known = self.names
        names = [None if i < 0 else known[i] for i in op.inputs] if inputs is None else list(inputs)
        while names and names[-1] is None:
            names.pop()
        outputs = [known[i] for i in op.outputs if i >= 0]
        if not outputs:
            raise self.damaged(op, "no output")
        contract = Contract.EXACT
        if not moves:
            contract = Contract.FLOAT32
            for name in (*names[:1], outputs[0]):
                tensor = None if name is None else self.tensors[name]
                if tensor and tensor.quantization is not None and not tensor.dtype.is_float:
                    contract = Contract.TFLITE_REFERENCE
        node = Node(outputs[0], kind, tuple(names), tuple(outputs), attrs, contract)
        self._settle_outputs(node)
        if not self._folded(node):
            self.nodes.append(node)


Handler = Callable[[Context, RawOperator], None]


def normal_axes(ctx: Context, op: RawOperator, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front; refuses those that do not exist."""
    if any(not -rank <= axis < rank for axis in axes):
        raise ctx.damaged(op, f"axes {list(axes)} for rank {rank}")
    return [axis % rank for axis in axes]

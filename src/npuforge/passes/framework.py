"""What a pass is: it finds places in a graph and says what stands there instead.

A pass looks at one node at a time and returns an edit: nodes that go, nodes that come, tensors that
come. Edits that do not overlap are applied together. Every node that comes names the nodes it was
made from, so that reports can speak of the original network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Attrs, Graph, Names, Node, Quantization, StateAttrs, Tensor
from npuforge.graph.attrs import NO_ATTRS
from npuforge.graph.ops import SCHEMAS
from npuforge.vocab import Contract, DType

CHANNEL_AXIS = {"conv2d": 0, "depthwise_conv2d": 3, "fully_connected": 0, "transpose_conv2d": 0}
"""Operators with weights, and the weights' axis of output channels."""


class Exactness(StrEnum):
    """What a pass promises of the tensors it computes another way."""

    EXACT = "exact"
    """Bit for bit the same."""
    BOUNDED = "bounded"
    """Within the pass's bound."""


@dataclass(frozen=True, eq=False)
class Edit:
    """What happens at one place.

    Attributes:
        remove: names of the nodes that go.
        nodes: nodes that come; together they write every tensor of the removed nodes that is still
            read, unless it is in `instead`.
        tensors: tensors that come.
        instead: tensor name -> the tensor its readers read from now on.
    """

    remove: tuple[str, ...]
    nodes: tuple[Node, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass(ABC):
    """One rewrite. Subclasses are frozen dataclasses; their fields are its options.

    Class attributes:
        code: the name users write, and key `PASS-<code>` of its words.
        bound: the largest difference of a computed tensor, in steps of its scale, given the same
            inputs; on floats relative to the largest value. 0: bit for bit the same.
        ops: operators it looks at.
        tidy: it only takes nodes away, so that it needs no better NPU share to pay.
    """

    code: ClassVar[str]
    bound: ClassVar[float] = 0.0
    ops: ClassVar[frozenset[str]] = frozenset()
    tidy: ClassVar[bool] = False

    @property
    def exactness(self) -> Exactness:
        """What it promises."""
        return Exactness.BOUNDED if self.bound else Exactness.EXACT

    @abstractmethod
    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """The edit anchored at a node; None where the pattern or a precondition is missing."""

    def edits(self, graph: Graph, names: Names) -> list[Edit]:
        """Edits of the whole graph that do not overlap, in execution order."""
        found: list[Edit] = []
        gone: set[str] = set()
        for node in graph.nodes:
            if (self.ops and node.op not in self.ops) or node.name in gone:
                continue
            edit = self.find(graph, node, names)
            if edit is not None and not gone.intersection(edit.remove):
                gone.update(edit.remove)
                found.append(edit)
        return found


class Builder:
    """Collects the nodes and tensors of one edit, named after the node they replace.

    Args:
        graph: where the edit goes.
        anchor: the node whose contract the new nodes follow and whose name they carry.
        names: names in use.
        code: the pass.
    """

    def __init__(self, graph: Graph, anchor: Node, names: Names, code: str) -> None:
        self.graph = graph
        self._anchor = anchor
        self._names = names
        self._code = code
        self._tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []

    def tensor(self, name: str) -> Tensor:
        """A tensor of the graph or of this edit."""
        return self._tensors.get(name) or self.graph.tensors[name]

    def constant(self, label: str, like: Tensor) -> str:
        """A new constant with the type, quantisation and data of `like`; returns its name."""
        name = self._names.fresh(f"{self._anchor.name}/{label}")
        self._tensors[name] = replace(like, name=name)
        return name

    def add(
        self,
        op: str,
        inputs: Sequence[str | None],
        attrs: Attrs = NO_ATTRS,
        *,
        quant: Quantization | None = None,
        dtype: DType = DType.INT8,
        out: str | None = None,
        exact: bool = False,
    ) -> str:
        """Append a node and return the name of its output.

        Args:
            op: operator.
            inputs: tensor names.
            attrs: attributes.
            quant: quantisation of a new output.
            dtype: element type of a new output.
            out: name of an existing tensor that the node writes instead of a new one.
            exact: the node moves data: contract `exact`.
        """
        if out is None:
            label = self._anchor.outputs[0] if self._anchor.outputs else self._anchor.name
            out = self._names.fresh(f"{label}/{self._code}.{op}")
            tensors = [None if name is None else self.tensor(name) for name in inputs]
            shape = SCHEMAS[op].infer(tensors, attrs)[0]
            self._tensors[out] = Tensor(out, shape, dtype, quant)
        contract = self._anchor.contract
        if exact:
            contract = Contract.EXACT
        elif contract is Contract.EXACT:
            contract = arithmetic(self.graph)
        name = self._names.fresh(f"{self._anchor.name}/{self._code}.{op}")
        origins = self._anchor.origins or (self._anchor.name,)
        self.nodes.append(Node(name, op, tuple(inputs), (out,), attrs, contract, origins))
        return out

    def like(self, op: str, source: str, attrs: Attrs, out: str | None = None) -> str:
        """Append a node that moves the bytes of `source`; its result has the same type."""
        x = self.tensor(source)
        return self.add(
            op, [source], attrs, quant=x.quantization, dtype=x.dtype, out=out, exact=True
        )

    def edit(self, *removed: Node, instead: Mapping[str, str] | None = None) -> Edit:
        """The edit that puts the collected nodes in the place of the removed ones."""
        origins = tuple(dict.fromkeys(o for node in removed for o in node.origins or (node.name,)))
        nodes = tuple(replace(node, origins=origins) for node in self.nodes)
        return Edit(
            tuple(node.name for node in removed),
            nodes,
            tuple(self._tensors.values()),
            instead or {},
        )


def arithmetic(graph: Graph) -> Contract:
    """The contract of the graph's integer arithmetic."""
    chosen = (Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO, Contract.ONNX_QLINEAR)
    found = next((node.contract for node in graph.nodes if node.contract in chosen), None)
    if found is not None:
        return found
    return Contract.ONNX_QLINEAR if graph.source == "onnx" else Contract.TFLITE_REFERENCE


def apply_edits(graph: Graph, edits: Sequence[Edit]) -> Graph:
    """The graph after edits that do not overlap; what nobody reads any more stays out."""
    gone = {name for edit in edits for name in edit.remove}
    instead = {old: new for edit in edits for old, new in edit.instead.items()}
    tensors = dict(graph.tensors)
    places: dict[str, list[Node]] = {}
    for edit in edits:
        tensors.update({tensor.name: tensor for tensor in edit.tensors})
        places.setdefault(edit.remove[-1], []).extend(edit.nodes)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name not in gone:
            nodes.append(node)
        nodes += places.get(node.name, [])
    read = [replace(n, inputs=tuple(_resolve(instead, i) for i in n.inputs)) for n in nodes]
    outputs = tuple(_resolve(instead, name) or name for name in graph.outputs)
    whole = replace(graph, tensors=tensors, nodes=tuple(read), outputs=outputs)
    return pruned(in_order(whole))


def _resolve(instead: Mapping[str, str], name: str | None) -> str | None:
    while name is not None and name in instead:
        name = instead[name]
    return name


def in_order(graph: Graph) -> Graph:
    """The same nodes so that each stands behind what it reads; otherwise their order stays.

    Accesses to one state variable keep their order.
    """
    made_by = graph.producers
    waits: dict[str, set[str]] = {}
    last_access: dict[str, str] = {}
    for node in graph.nodes:
        before = {made_by[name].name for name in node.input_names if name in made_by}
        if isinstance(node.attrs, StateAttrs):
            if node.attrs.variable in last_access:
                before.add(last_access[node.attrs.variable])
            last_access[node.attrs.variable] = node.name
        waits[node.name] = before
    done: set[str] = set()
    ordered: list[Node] = []
    remaining = list(graph.nodes)
    while remaining:
        later = []
        for node in remaining:
            if waits[node.name] <= done:
                done.add(node.name)
                ordered.append(node)
            else:
                later.append(node)
        if len(later) == len(remaining):
            raise AssertionError("an edit made a cycle")
        remaining = later
    return replace(graph, nodes=tuple(ordered))


def pruned(graph: Graph) -> Graph:
    """The graph without nodes whose results nobody reads, and without unused tensors."""
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        is_store = not node.outputs
        if is_store or any(name in needed for name in node.outputs):
            needed.update(node.input_names)
            kept.append(node)
    kept.reverse()
    used = {*graph.inputs, *graph.outputs, *graph.states}
    for node in kept:
        used.update(node.input_names, node.outputs)
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    return replace(graph, nodes=tuple(kept), tensors=tensors)


# --- questions that patterns ask ---


def sole_reader(graph: Graph, name: str) -> Node | None:
    """The only node that reads a tensor; None when there are more, or it is an output."""
    readers = graph.consumers.get(name, ())
    return readers[0] if len(readers) == 1 and name not in graph.outputs else None


def maker(graph: Graph, name: str | None, *ops: str) -> Node | None:
    """The node that makes a tensor, when it is one of these operators."""
    node = graph.producers.get(name) if name is not None else None
    return node if node is not None and node.op in ops else None


def same_quant(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same type and map stored values to the same real numbers."""
    if a.dtype is not b.dtype:
        return False
    if a.quantization is None:
        return b.quantization is None
    return a.quantization.same_as(b.quantization)


def feeds(nodes: Sequence[Node], tensors: Mapping[str, Tensor]) -> list[str]:
    """What nodes read and neither make themselves nor hold as constants."""
    made = {name for node in nodes for name in node.outputs}
    read = dict.fromkeys(name for node in nodes for name in node.input_names)
    return [name for name in read if name not in made and tensors[name].data is None]


def real_numbers(stored: Array, quant: Quantization | None) -> npt.NDArray[np.float64]:
    """The real numbers of stored ones; those without quantisation are real already."""
    return stored.astype(np.float64) if quant is None else quant.real(stored)


def subgraph(graph: Graph, nodes: Sequence[Node], inputs: Iterable[str], outputs: Iterable[str],
             tensors: Mapping[str, Tensor] | None = None, name: str = "") -> Graph:  # fmt: skip
    """Some nodes of a graph as a graph of their own."""
    known = graph.tensors if tensors is None else tensors
    inputs, outputs = tuple(inputs), tuple(outputs)
    used = {*inputs, *outputs}
    for node in nodes:
        used.update(node.input_names, node.outputs)
    return Graph(
        name or graph.name,
        {key: known[key] for key in known if key in used},
        tuple(nodes),
        inputs,
        outputs,
        graph.source,
    )


def scalar_quant(low: float, high: float) -> Quantization:
    """int8 scale and zero point that cover a range of real numbers, zero exactly included."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / 255.0, 1e-30)
    return Quantization.per_tensor(scale, max(-128, min(127, round(-128 - low / scale))))

"""Who computes in what, which tensors share a scale, and the scale of each group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuforge.exporters.legal import FIXED_OUTPUTS
from npuforge.graph import Graph, Node, PadAttrs, PadMode, Quantization
from npuforge.quantize.capable import FOLLOWS, WEIGHTED, computes, data_inputs, is_join, tied
from npuforge.quantize.ranges import Range
from npuforge.quantize.scheme import Precision, Scheme, ZeroPoints
from npuforge.vocab import DType

_LEAST_SCALE = 1e-9


@dataclass(frozen=True, eq=False)
class Assignment:
    """What every node and tensor gets.

    Attributes:
        precisions: of each node, by name.
        quants: of each activation that is stored as integers, by name.
    """

    precisions: Mapping[str, Precision]
    quants: Mapping[str, Quantization]


def node_precisions(
    graph: Graph, scheme: Scheme, refused: frozenset[str] = frozenset()
) -> dict[str, Precision]:
    """In what each node computes; movement follows its input.

    Args:
        graph: prepared.
        scheme: what is asked.
        refused: names of nodes that turned out to have no integer kernel.
    """
    made: dict[str, Precision] = dict.fromkeys(graph.inputs, scheme.base)
    chosen: dict[str, Precision] = {}
    for node in graph.nodes:
        wanted = scheme.layers.get(node.name, scheme.base)
        sources = [n for n in data_inputs(graph, node) if not graph.tensors[n].is_constant]
        if node.op in FOLLOWS and node.name not in scheme.layers and sources:
            wanted = made[sources[0]]
        if node.name in refused or not _is_real(graph, node):
            wanted = Precision.FLOAT
        elif not computes(node, wanted):
            fits8 = wanted is Precision.INT16 and computes(node, Precision.INT8)
            wanted = Precision.INT8 if fits8 else Precision.FLOAT
        chosen[node.name] = wanted
        for name in node.outputs:
            made[name] = wanted
    return chosen


def _is_real(graph: Graph, node: Node) -> bool:
    """Whether a node turns real numbers into real numbers, with constant weights where it has."""
    if not data_inputs(graph, node):
        return False
    if node.op in WEIGHTED and not graph.tensor(node.inputs[1]).is_constant:
        return False
    integers = node.op in ("arg_max", "arg_min")
    return integers or all(t.dtype is DType.FLOAT32 for t in graph.output_tensors(node))


class _Groups:
    """Union-find over tensor names."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def root(self, name: str) -> str:
        while self._parent.get(name, name) != name:
            self._parent[name] = self._parent.get(self._parent[name], self._parent[name])
            name = self._parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        self._parent[self.root(b)] = self.root(a)


def assign(
    graph: Graph,
    ranges: Mapping[str, Range],
    scheme: Scheme,
    refused: frozenset[str] = frozenset(),
) -> Assignment:
    """Precisions and scales.

    Args:
        graph: prepared.
        ranges: of every real activation, by name.
        scheme: what is asked.
        refused: names of nodes that have no integer kernel.
    """
    precisions = node_precisions(graph, scheme, refused)
    kinds = {name: scheme.base for name in graph.inputs if graph.tensors[name].dtype.is_float}
    for node in graph.nodes:
        for tensor in graph.output_tensors(node):
            if tensor.dtype.is_float:
                kinds[tensor.name] = precisions[node.name]
    kinds = {name: kind for name, kind in kinds.items() if kind is not Precision.FLOAT}
    groups, fixed = _grouped(graph, precisions, kinds)
    members: dict[str, list[str]] = {}
    for name in kinds:
        members.setdefault(groups.root(name), []).append(name)
    derived = _derived(graph, precisions, kinds)
    read = _read_by_layers(graph, precisions)
    quants = {}
    for root, names in members.items():
        quant = fixed.get(root)
        if quant is None:
            own = [ranges[n] for n in names if n not in derived] or [ranges[n] for n in names]
            whole = own[0]
            for item in own[1:]:
                whole = whole.union(item)
            whole = whole.union(_constants(graph, precisions, names))
            friendly = scheme.zero_points is ZeroPoints.NPU and not read.isdisjoint(names)
            quant = quantization(whole, kinds[root], friendly, scheme.signed_share)
        quants.update(dict.fromkeys(names, quant))
    return Assignment(precisions, quants)


def _grouped(
    graph: Graph, precisions: Mapping[str, Precision], kinds: Mapping[str, Precision]
) -> tuple[_Groups, dict[str, Quantization]]:
    """Groups of tensors with one scale, and the groups whose scale an operator dictates."""
    groups = _Groups()
    fixed: dict[str, Quantization] = {}
    for node in graph.nodes:
        kind = precisions[node.name]
        if kind is Precision.FLOAT:
            continue
        values = FIXED_OUTPUTS.get(node.op, {}).get(kind.dtype)
        if values is not None:
            fixed[node.outputs[0]] = Quantization.per_tensor(*values)
        pairs = [(a, b) for a, b in tied(graph, node) if kinds.get(a) is kind]
        known = [fixed.get(groups.root(a)) for a, _ in pairs]
        first = known[0] if known else None
        same = first is not None and all(first.same_as(one) for one in known)
        for (a, b), quant in zip(pairs, known, strict=True):
            if is_join(node) and quant is not None and not same:
                continue
            groups.join(a, b)
    return groups, fixed


def _derived(
    graph: Graph, precisions: Mapping[str, Precision], kinds: Mapping[str, Precision]
) -> set[str]:
    """Tensors whose values are among those of a tensor they share a scale with."""
    return {
        b
        for node in graph.nodes
        if precisions[node.name] is not Precision.FLOAT
        for a, b in tied(graph, node)
        if kinds.get(a) is kinds.get(b)
    }


def _read_by_layers(graph: Graph, precisions: Mapping[str, Precision]) -> set[str]:
    return {
        str(node.inputs[0])
        for node in graph.nodes
        if node.op in WEIGHTED and precisions[node.name] is Precision.INT8
    }


def _constants(graph: Graph, precisions: Mapping[str, Precision], names: list[str]) -> Range:
    """What constants that share the group's scale need: padding values and constant operands."""
    found = Range(0.0, 0.0)
    for name in names:
        node = graph.producers.get(name)
        if node is None or precisions[node.name] is Precision.FLOAT:
            continue
        if isinstance(node.attrs, PadAttrs) and node.attrs.mode is PadMode.CONSTANT:
            found = found.union(Range.of(node.attrs.value, node.attrs.value))
        if is_join(node):
            for operand in data_inputs(graph, node):
                data = graph.tensors[operand].data
                if data is not None:
                    found = found.union(Range.of_values(data))
    return found


def quantization(
    span: Range, kind: Precision, friendly: bool = False, signed_share: float = 0.0
) -> Quantization:
    """Scale and zero point of a range.

    Args:
        span: what must be held.
        kind: INT8 or INT16; 16 bits are always symmetric.
        friendly: only zero points -128 and 0.
        signed_share: see `Scheme`.
    """
    peak = max(-span.low, span.high)
    if kind is Precision.INT16:
        return Quantization.per_tensor(max(peak / 32767.0, _LEAST_SCALE))
    low, high = span.low, span.high
    if friendly:
        if -low > signed_share * span.width:
            scale = max(high / 127.0, -low / 128.0, _LEAST_SCALE)
            return Quantization.per_tensor(scale, 0)
        low = 0.0
    step = float(max(np.float32((high - low) / 255.0), np.float32(_LEAST_SCALE)))
    zero = int(np.clip(np.rint(-128.0 - low / step), -128, 127))
    return Quantization.per_tensor(step, zero)

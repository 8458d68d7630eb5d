"""A float graph and its scales → the quantised graph, computed under the TFLite contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from npuforge.errors import UnsupportedError
from npuforge.graph import (
    Array,
    Graph,
    Names,
    NoAttrs,
    Node,
    PadAttrs,
    PadMode,
    Quantization,
    Tensor,
    is_view,
    verify,
)
from npuforge.numerics import bind
from npuforge.passes import CHANNEL_AXIS
from npuforge.passes.framework import in_order, pruned
from npuforge.quantize.assign import Assignment, assign, quantization
from npuforge.quantize.capable import WEIGHTED, data_inputs, is_join, tied
from npuforge.quantize.ranges import Range
from npuforge.quantize.scheme import EndType, Granularity, Precision, Scheme, ZeroPoints
from npuforge.quantize.weights import (
    Stored,
    stored_bias,
    stored_weights,
    weight_peaks,
    weight_scales,
)
from npuforge.vocab import Contract, DType

Double = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tuning:
    """Changes to the numbers of single layers, by node name.

    Attributes:
        bias: real numbers added to the bias, one an output channel.
        stored: stored weights instead of those rounded to nearest.
    """

    bias: Mapping[str, Double] = field(default_factory=dict)
    stored: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Quantized:
    """A quantised network and where it came from.

    Attributes:
        graph: computes under tflite_reference.
        assignment: precision of each node, scale of each tensor.
        stored_as: float tensor name -> its name as integers in `graph`.
        refused: nodes that stay float because no kernel computes them on integers.
    """

    graph: Graph
    assignment: Assignment
    stored_as: Mapping[str, str]
    refused: frozenset[str]


def quantize_graph(
    graph: Graph, ranges: Mapping[str, Range], scheme: Scheme, tuning: Tuning | None = None
) -> Quantized:
    """Make the quantised graph.

    Args:
        graph: prepared float graph.
        ranges: range of every real activation and input, by name.
        scheme: widths, granularity, zero points, types at the ends.
        tuning: changed numbers of single layers.
    """
    refused: frozenset[str] = frozenset()
    while True:
        assignment = assign(graph, ranges, scheme, refused)
        made = _Build(graph, ranges, assignment, scheme, tuning or Tuning())
        result = made.run()
        without = made.origins_without_kernel(result)
        if not without:
            return Quantized(result, assignment, made.stored_as, refused)
        refused |= without


class _Build:
    """State of one construction."""

    def __init__(
        self,
        graph: Graph,
        ranges: Mapping[str, Range],
        assignment: Assignment,
        scheme: Scheme,
        tuning: Tuning,
    ) -> None:
        self._graph = graph
        self._ranges = ranges
        self._precisions = assignment.precisions
        self._quants = assignment.quants
        self._scheme = scheme
        self._tuning = tuning
        self._names = Names({*graph.tensors, *(node.name for node in graph.nodes)})
        self._tensors: dict[str, Tensor] = {}
        self._nodes: list[Node] = []
        self._versions: dict[tuple[str, str], str] = {}
        self.stored_as: dict[str, str] = {}

    def run(self) -> Graph:
        graph = self._graph
        inputs = tuple(self._input(name) for name in graph.inputs)
        for node in graph.nodes:
            self._node(node)
        outputs = tuple(self._output(name) for name in graph.outputs)
        made = replace(
            graph,
            tensors=self._tensors,
            nodes=tuple(self._nodes),
            inputs=inputs,
            outputs=outputs,
            source="tflite",
        )
        made = pruned(in_order(made))
        verify(made)
        return made

    def origins_without_kernel(self, made: Graph) -> frozenset[str]:
        """Float nodes whose integer form no kernel computes."""
        known = {node.name for node in self._graph.nodes}
        found = set()
        for node in made.nodes:
            if is_view(node) or node.name not in known:
                continue
            if self._precisions[node.name] is Precision.FLOAT:
                continue
            try:
                bind(made, node)
            except UnsupportedError:
                found.add(node.name)
        return frozenset(found)

    # --- tensors ---

    def _add(self, tensor: Tensor) -> str:
        self._tensors[tensor.name] = tensor
        return tensor.name

    def _input(self, name: str) -> str:
        tensor = self._graph.tensors[name]
        quant = self._quants.get(name)
        kind = self._scheme.inputs
        dtype = self._scheme.base.dtype
        if quant is None:
            return self._add(tensor)
        if kind is EndType.FLOAT:
            self._add(tensor)
            self._versions[name, "float"] = name
            self._convert(name, name, dtype, quant)
            return name
        if kind is EndType.UINT8 and dtype is DType.INT8:
            shifted = Quantization.per_tensor(float(quant.s), quant.z + 128)
            self._add(replace(tensor, dtype=DType.UINT8, quantization=shifted))
            self._convert(name, name, DType.INT8, quant)
            return name
        self._stored(name, replace(tensor, dtype=dtype, quantization=quant))
        return name

    def _stored(self, name: str, tensor: Tensor) -> None:
        """Register the integer form of a float tensor."""
        self._add(tensor)
        self._versions[name, _key(tensor)] = tensor.name
        self.stored_as.setdefault(name, tensor.name)

    def _convert(self, name: str, source: str, dtype: DType, quant: Quantization | None) -> str:
        """A node that brings a tensor to another type or scale; returns the new tensor."""
        old = self._tensors[source]
        label = "real" if quant is None else str(dtype)
        made = Tensor(self._names.fresh(f"{name}/{label}"), old.shape, dtype, quant)
        if quant is None:
            self._add(made)
            self._versions[name, "float"] = made.name
        elif name in self.stored_as:
            self._add(made)
            self._versions[name, _key(made)] = made.name
        else:
            self._stored(name, made)
        op = "dequantize" if quant is None else "quantize"
        contract = Contract.TFLITE_REFERENCE
        self._nodes.append(Node(made.name, op, (source,), (made.name,), NoAttrs(), contract))
        return made.name

    def _as_float(self, name: str) -> str:
        tensor = self._graph.tensors[name]
        if tensor.is_constant or not tensor.dtype.is_float:
            return self._add(tensor)
        known = self._versions.get((name, "float"))
        if known is not None:
            return known
        if name not in self.stored_as:
            return self._add(tensor)
        return self._convert(name, self.stored_as[name], DType.FLOAT32, None)

    def _as_integers(self, name: str, dtype: DType, quant: Quantization) -> str:
        """A tensor on a type and scale; constants are stored on it at once."""
        tensor = self._graph.tensors[name]
        if tensor.data is not None:
            return self._constant(tensor, dtype, quant)
        wanted = replace(tensor, dtype=dtype, quantization=quant)
        known = self._versions.get((name, _key(wanted)))
        if known is not None:
            return known
        source = self.stored_as.get(name) or self._as_float(name)
        return self._convert(name, source, dtype, quant)

    def _constant(self, tensor: Tensor, dtype: DType, quant: Quantization) -> str:
        data = _integers(tensor.array.astype(np.float64), dtype, quant).astype(str(dtype))
        name = self._names.fresh(f"{tensor.name}/{dtype}")
        return self._add(Tensor(name, tensor.shape, dtype, quant, np.asarray(data, order="C")))

    def _own_quant(self, name: str, kind: Precision) -> Quantization:
        """The scale of an operand: its group's, or that of its own values for a constant."""
        tensor = self._graph.tensors[name]
        if tensor.data is None:
            quant = self._quants.get(name)
            if quant is not None and self._tensors[self.stored_as[name]].dtype is kind.dtype:
                return quant
            return self._other_width(name, kind)
        return quantization(Range.of_values(tensor.data), kind)

    def _other_width(self, name: str, kind: Precision) -> Quantization:
        """The scale of a tensor whose producer computes in another width."""
        quant = self._quants.get(name)
        if quant is None:
            friendly = self._scheme.zero_points is ZeroPoints.NPU
            return quantization(self._ranges[name], kind, friendly, self._scheme.signed_share)
        stored = self._tensors[self.stored_as[name]]
        low, high = quant.range_of(stored.dtype)
        return quantization(Range.of(low, high), kind)

    # --- nodes ---

    def _node(self, node: Node) -> None:
        kind = self._precisions[node.name]
        if kind is Precision.FLOAT:
            inputs = tuple(None if n is None else self._as_float(n) for n in node.inputs)
            for tensor in self._graph.output_tensors(node):
                self._add(tensor)
            self._nodes.append(replace(node, inputs=inputs))
            return
        dtype = kind.dtype
        outputs = []
        for tensor in self._graph.output_tensors(node):
            if not tensor.dtype.is_float:
                outputs.append(self._add(tensor))
                continue
            name = tensor.name
            if name in self._graph.outputs and self._scheme.outputs is not EndType.INT8:
                name = self._names.fresh(f"{name}/{dtype}")
            made = replace(tensor, name=name, dtype=dtype, quantization=self._quants[tensor.name])
            self._stored(tensor.name, made)
            outputs.append(name)
        inputs = self._layer(node, kind) if node.op in WEIGHTED else self._operands(node, kind)
        contract = node.contract
        if contract is not Contract.EXACT:
            contract = Contract.TFLITE_REFERENCE
        attrs = node.attrs
        if isinstance(attrs, PadAttrs) and attrs.mode is PadMode.CONSTANT:
            stored = _integers(np.float64(attrs.value), dtype, self._tensors[outputs[0]].quant)
            attrs = replace(attrs, value=float(stored))
        made_node = replace(
            node, inputs=inputs, outputs=tuple(outputs), attrs=attrs, contract=contract
        )
        self._nodes.append(made_node)

    def _operands(self, node: Node, kind: Precision) -> tuple[str | None, ...]:
        """Inputs of a node without weights, on the scales it needs."""
        shared = dict(tied(self._graph, node))
        reals = set(data_inputs(self._graph, node))
        made: list[str | None] = []
        for name in node.inputs:
            if name is None or name not in reals:
                made.append(None if name is None else self._as_float(name))
                continue
            if name in shared or is_join(node):
                quant = self._quants[shared.get(name, node.outputs[0])]
            else:
                quant = self._own_quant(name, kind)
            made.append(self._as_integers(name, kind.dtype, quant))
        return tuple(made)

    def _layer(self, node: Node, kind: Precision) -> tuple[str | None, ...]:
        """Input, weights and bias of a layer."""
        graph = self._graph
        source = str(node.inputs[0])
        x = self._as_integers(source, kind.dtype, self._own_quant(source, kind))
        input_scale = self._tensors[x].quant.s
        w = graph.tensor(node.inputs[1])
        bias = layer_bias(graph, node)
        if node.name in self._tuning.bias:
            extra = self._tuning.bias[node.name]
            bias = extra if bias is None else bias + extra
        weights = self._weights(node, w, bias, float(input_scale))
        names = [self._names.fresh(f"{w.name}/{weights.dtype}")]
        self._add(Tensor(names[0], w.shape, weights.dtype, weights.quant, weights.data))
        if bias is not None:
            stored = stored_bias(bias, input_scale, weights.quant, kind is Precision.INT16)
            old = node.inputs[2] if len(node.inputs) > 2 else None
            names.append(self._names.fresh(f"{old or node.name + '/bias'}/{stored.dtype}"))
            self._add(Tensor(names[1], bias.shape, stored.dtype, stored.quant, stored.data))
        return (x, *names)

    def _weights(self, node: Node, w: Tensor, bias: Double | None, input_scale: float) -> Stored:
        axis = CHANNEL_AXIS[node.op]
        bits = 4 if node.name in self._scheme.int4 else 8
        per_channel = self._scheme.weights is Granularity.CHANNEL and w.shape[axis] > 1
        peaks = weight_peaks(w.array, axis, per_channel)
        scales = weight_scales(peaks, bias, input_scale, bits)
        if bits == 4 and not per_channel:
            scales = scales[:1]
        stored = stored_weights(w.array, scales, axis, bits)
        data = self._tuning.stored.get(node.name)
        return stored if data is None else replace(stored, data=np.ascontiguousarray(data))

    # --- ends ---

    def _output(self, name: str) -> str:
        tensor = self._graph.tensors[name]
        stored = self.stored_as.get(name)
        if tensor.is_constant or stored is None:
            self._tensors.setdefault(name, tensor)
            return name
        if self._scheme.outputs is EndType.INT8 or name in self._graph.inputs:
            return stored
        old = self._tensors[stored]
        if self._scheme.outputs is EndType.FLOAT:
            self._add(tensor)
            op = "dequantize"
        else:
            quant = Quantization.per_tensor(float(old.quant.s), old.quant.z + 128)
            if old.dtype is not DType.INT8:
                raise UnsupportedError("QNT-003", tensor=name, dtype=old.dtype)
            self._add(replace(tensor, dtype=DType.UINT8, quantization=quant))
            op = "quantize"
        label = self._names.fresh(f"{name}/{op}")
        contract = Contract.TFLITE_REFERENCE
        self._nodes.append(Node(label, op, (stored,), (name,), NoAttrs(), contract))
        return name


def layer_weights(made: Quantized, name: str) -> tuple[Array, Double, int] | None:
    """Stored weights, scales and bits of a layer by its float name; None where it is float."""
    for node in made.graph.nodes:
        if node.name == name:
            w = made.graph.tensor(node.inputs[1])
            if w.quantization is None:
                return None
            return w.array, w.quant.scale.astype(np.float64), w.dtype.bits
    return None


def layer_bias(graph: Graph, node: Node) -> Double | None:
    """The bias of a layer as real numbers, one an output channel; None where it has none."""
    name = node.inputs[2] if len(node.inputs) > 2 else None
    if name is None:
        return None
    return np.asarray(graph.tensors[name].array, np.float64).reshape(-1)


def _integers(real: Double | np.float64, dtype: DType, quant: Quantization) -> Double:
    """Real numbers as a type holds them on a scale, still in double precision."""
    low, high = dtype.limits
    return np.asarray(np.clip(np.rint(real / float(quant.s)) + quant.z, low, high))


def _key(tensor: Tensor) -> str:
    quant = tensor.quant
    return f"{tensor.dtype} {float(quant.s)!r} {quant.z}"

"""Passes on elementwise operators: what Neural-ART has no unit for, in words it has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npuforge.graph import (
    Array,
    ConvAttrs,
    ElementwiseAttrs,
    Graph,
    LeakyReluAttrs,
    Names,
    Node,
    Quantization,
    ReduceAttrs,
    ReshapeAttrs,
    Tensor,
)
from npuforge.graph.attrs import NO_ATTRS
from npuforge.numerics import run_graph
from npuforge.numerics.types import is_int8
from npuforge.passes.framework import (
    Builder,
    Edit,
    Pass,
    arithmetic,
    maker,
    real_numbers,
    scalar_quant,
    sole_reader,
)
from npuforge.passes.movement import first_axes
from npuforge.passes.tidy import UNARY
from npuforge.vocab import Activation, DType

BINARY = frozenset({"add", "sub", "mul"})
"""Binary operators with an integer kernel under every contract."""
NONE = ElementwiseAttrs()
ROUNDING_STEPS = tuple(sorted(range(-24, 25), key=abs))
"""Scales tried for a rounding, in two-thousandths from 1, nearest first."""
GELU_SLOPE = 1.702
"""gelu(x) is about x * sigmoid(1.702 x) (Hendrycks and Gimpel, 2016)."""


def quantised(real: Array, quant: Quantization, name: str = "c") -> Tensor:
    """A constant int8 tensor of real numbers on a scale."""
    stored = np.rint(real.astype(np.float64) / float(quant.s)) + quant.z
    data = np.clip(stored, -128, 127).astype(np.int8)
    return Tensor(name, data.shape, DType.INT8, quant, np.asarray(data, order="C"))


def own_quant(real: Array) -> Quantization:
    """A scale for constants: exact for a single value, else one that covers their range."""
    values = np.unique(real)
    if values.size == 1 and values[0] != 0:
        return Quantization.per_tensor(abs(float(values[0])))
    return scalar_quant(float(real.min(initial=0.0)), float(real.max(initial=0.0)))


@dataclass(frozen=True)
class PreluToLeaky(Pass):
    """PReLU with one slope for all channels is a leaky ReLU."""

    code: ClassVar[str] = "prelu-to-leaky"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"prelu"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        slope = graph.tensor(node.inputs[1])
        if not slope.is_constant or np.unique(slope.array).size != 1:
            return None
        alpha = float(real_numbers(slope.array, slope.quantization).reshape(-1)[0])
        made = Builder(graph, node, names, self.code)
        made.add("leaky_relu", node.inputs[:1], LeakyReluAttrs(alpha), out=node.outputs[0])
        return made.edit(node)


@dataclass(frozen=True)
class IntegerPrelu(Pass):
    """PReLU left in float between a dequantise and a quantise, with its slopes in int8.

    Quantisers leave it so because the slopes are no weights to them.
    """

    code: ClassVar[str] = "integer-prelu"
    bound: ClassVar[float] = 2.0
    ops: ClassVar[frozenset[str]] = frozenset({"prelu"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        slope = graph.tensor(node.inputs[1])
        before = maker(graph, node.inputs[0], "dequantize")
        after = sole_reader(graph, node.outputs[0])
        if before is None or after is None or after.op != "quantize" or not slope.is_constant:
            return None
        x, y = graph.tensor(before.inputs[0]), graph.tensors[after.outputs[0]]
        real = real_numbers(slope.array, slope.quantization)
        if not is_int8(x, y) or not np.isfinite(real).all():
            return None
        made = Builder(graph, after, names, self.code)
        stored = made.constant("slope", quantised(real, own_quant(real)))
        made.add("prelu", [x.name, stored], node.attrs, out=y.name)
        return made.edit(node, after)


@dataclass(frozen=True)
class GeluToSigmoid(Pass):
    """GELU as x * sigmoid(1.702 x)."""

    code: ClassVar[str] = "gelu-to-sigmoid"
    bound: ClassVar[float] = 3.0
    ops: ClassVar[frozenset[str]] = frozenset({"gelu"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        if not is_int8(x, y):
            return None
        made = Builder(graph, node, names, self.code)
        slope = np.full((1,) * len(x.shape), GELU_SLOPE)
        factor = made.constant("slope", quantised(slope, Quantization.per_tensor(GELU_SLOPE)))
        # the product has the same stored numbers as x
        wide = Quantization.per_tensor(float(x.quant.s) * GELU_SLOPE, x.quant.z)
        scaled = made.add("mul", [x.name, factor], NONE, quant=wide)
        gate = made.add("logistic", [scaled], quant=Quantization.per_tensor(1 / 256, -128))
        made.add("mul", [x.name, gate], NONE, out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class SquaredDifference(Pass):
    """(a - b)^2 as a difference and a product."""

    code: ClassVar[str] = "squared-difference"
    bound: ClassVar[float] = 2.0
    ops: ClassVar[frozenset[str]] = frozenset({"squared_difference"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        a, b = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        y = graph.tensors[node.outputs[0]]
        if not is_int8(a, b, y) or not isinstance(node.attrs, ElementwiseAttrs):
            return None
        # no square beyond the output's range is of interest
        reach = math.sqrt(max(y.quant.range_of(y.dtype)[1], 0.0))
        (least, most), (lowest, highest) = (t.quant.range_of(t.dtype) for t in (a, b))
        low, high = max(least - highest, -reach), min(most - lowest, reach)
        made = Builder(graph, node, names, self.code)
        gap = made.add("sub", node.inputs, NONE, quant=scalar_quant(low, high))
        made.add("mul", [gap, gap], node.attrs, out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class IntegerIslands(Pass):
    """Float arithmetic between a dequantise and a quantise is done on the integers.

    Covers shape changes, rounding (a change to the scale 1), unary and binary operators.
    """

    code: ClassVar[str] = "integer-islands"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"quantize"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        if not x.dtype.is_float or not is_int8(y):
            return None
        made = Builder(graph, node, names, self.code)
        source = self._integers(graph, made, x.name)
        if source is not None:
            made.add("quantize", [source], out=y.name)
            return made.edit(node)
        last = graph.producers.get(x.name)
        if last is None or not self._last(graph, made, last, y):
            return None
        return made.edit(node)

    def _last(self, graph: Graph, made: Builder, node: Node, y: Tensor) -> bool:
        """Append the integer form of the operator whose float result is quantised."""
        if node.op in BINARY or node.op == "div":
            attrs = node.attrs
            assert isinstance(attrs, ElementwiseAttrs)
            if attrs.activation is not Activation.NONE:
                return False
            inputs = []
            for position, name in enumerate(node.inputs):
                inverse = node.op == "div" and position == 1
                found = self._operand(graph, made, str(name), inverse)
                if found is None:
                    return False
                inputs.append(found)
            op = "mul" if node.op == "div" else node.op
            made.add(op, inputs, attrs, out=y.name)
            return True
        if node.op in UNARY and node.op not in ("quantize", "dequantize", "round"):
            source = self._integers(graph, made, str(node.inputs[0]))
            if source is None:
                return False
            made.add(node.op, [source], node.attrs, out=y.name)
            return True
        return False

    def _operand(self, graph: Graph, made: Builder, name: str, inverse: bool) -> str | None:
        tensor = graph.tensors[name]
        if not tensor.is_constant:
            return None if inverse else self._integers(graph, made, name)
        real = tensor.array.astype(np.float64)
        if inverse:
            if not real.all():
                return None
            real = 1.0 / real
        if np.isfinite(real).all():
            return made.constant("constant", quantised(real, own_quant(real)))
        return None

    def _integers(self, graph: Graph, made: Builder, name: str) -> str | None:
        """The int8 tensor that holds a float tensor's real numbers exactly; None without one."""
        node = graph.producers.get(name)
        if node is None:
            return None
        if node.op == "dequantize":
            x = graph.tensor(node.inputs[0])
            return x.name if is_int8(x) else None
        if node.op in ("reshape", "transpose", "slice"):
            source = self._integers(graph, made, str(node.inputs[0]))
            return None if source is None else made.like(node.op, source, node.attrs)
        if node.op == "round":
            source = self._integers(graph, made, str(node.inputs[0]))
            scale = None if source is None else rounding_scale(graph, made.tensor(source))
            if source is None or scale is None:
                return None
            return made.add("quantize", [source], quant=Quantization.per_tensor(scale))
        return None


def rounding_scale(graph: Graph, tensor: Tensor) -> float | None:
    """The scale near 1 to which a change of scale gives the stored numbers `round` gives.

    All 256 stored numbers are tried. Integer arithmetic rounds twice, so that it is not always 1.
    None where there is no such scale: at halves, and where a number leaves int8.
    """
    quant = tensor.quant
    stored = np.arange(-128, 128).astype(np.int8)
    real = (stored.astype(np.int64) - quant.z).astype(np.float32) * quant.s
    wanted = np.rint(real.astype(np.float64))
    if np.abs(wanted).max() > 127:
        return None
    x = Tensor("x", (256,), DType.INT8, quant)
    for step in ROUNDING_STEPS:
        scale = 1.0 + step / 2000.0
        y = Tensor("y", (256,), DType.INT8, Quantization.per_tensor(scale))
        node = Node("r", "quantize", ("x",), ("y",), NO_ATTRS, arithmetic(graph))
        made = run_graph(Graph("r", {"x": x, "y": y}, (node,), ("x",), ("y",)), {"x": stored})
        if np.array_equal(made["y"], wanted):
            return scale
    return None


@dataclass(frozen=True)
class SumToConv(Pass):
    """A sum over axes, or a mean over channels, as a 1x1 convolution with equal weights."""

    code: ClassVar[str] = "sum-to-conv"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"sum", "mean"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, ReduceAttrs)
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        axes = node.attrs.axes
        if not is_int8(x, y) or not axes:
            return None
        if node.op == "mean" and axes != (len(x.shape) - 1,):
            return None
        count = math.prod(x.shape[axis] for axis in axes)
        if count < 1 or count > 16384:
            return None
        made = Builder(graph, node, names, self.code)
        source = first_axes(made, x.name, axes, last=True)
        if source is None:
            return None
        rows = x.size // count
        image = made.like("reshape", source, ReshapeAttrs((1, rows, 1, count)))
        ones = np.ones((1, 1, 1, count), np.int8)
        scale = np.array([1.0 / count if node.op == "mean" else 1.0], np.float32)
        quant = Quantization.per_channel(scale, 0)
        weights = made.constant("ones", Tensor("w", ones.shape, DType.INT8, quant, ones))
        total = made.add("conv2d", [image, weights], ConvAttrs(), quant=y.quantization)
        made.like("reshape", total, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)

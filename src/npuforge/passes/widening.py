"""Passes that give a convolution or a pad the shape that NPU units take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from npuforge.graph import (
    ConvAttrs,
    Graph,
    Names,
    Node,
    PadAttrs,
    PadMode,
    Quantization,
    Tensor,
)
from npuforge.numerics.types import is_int8
from npuforge.passes.convolution import Layer
from npuforge.passes.framework import Builder, Edit, Pass, same_quant, sole_reader
from npuforge.vocab import DType

UNIT_STRIDE = 2
"""Largest stride that needs no SpaceToDepth in front of the convolution."""


@dataclass(frozen=True)
class ChannelPadToConv(Pass):
    """A pad of channels becomes a 1x1 convolution whose weights are ones and zeros.

    The weights' scale is 1 and the output keeps the input's scale: every stored number comes out
    as it went in, and a new channel holds the zero point.
    """

    code: ClassVar[str] = "channel-pad-to-conv"
    ops: ClassVar[frozenset[str]] = frozenset({"pad"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        assert isinstance(node.attrs, PadAttrs)
        *sides, before = node.attrs.before
        *others, after = node.attrs.after
        if len(x.shape) != 4 or not is_int8(x, y) or not same_quant(x, y):
            return None
        if any(sides) or any(others) or not before + after:
            return None
        if node.attrs.mode is not PadMode.CONSTANT or node.attrs.value != x.quant.z:
            return None
        channels = x.shape[3]
        data = np.zeros((y.shape[3], 1, 1, channels), np.int8)
        data[range(before, before + channels), 0, 0, range(channels)] = 1
        quant = Quantization.per_channel(np.ones(y.shape[3], np.float32), 0)
        weights = Tensor("w", data.shape, DType.INT8, quant, data)
        layer = Layer(weights, np.zeros(y.shape[3], np.int32), 0, x.quant.s)
        made = Builder(graph, node, names, self.code)
        made.add("conv2d", [x.name, *layer.constants(made)], ConvAttrs(), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class WidenGate(Pass):
    """A gate squeezed to one channel gets a second one, whose weights are zero on both sides."""

    code: ClassVar[str] = "widen-gate"
    ops: ClassVar[frozenset[str]] = frozenset({"conv2d"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        middle = graph.tensors[node.outputs[0]]
        reader = sole_reader(graph, middle.name)
        if middle.size != 1 or reader is None or reader.op != "conv2d":
            return None
        first, second = Layer.of(graph, node), Layer.of(graph, reader)
        if first is None or second is None or first.input_scale is None:
            return None
        assert isinstance(reader.attrs, ConvAttrs)
        if any(reader.attrs.padding) or second.input_scale is None:
            return None
        made = Builder(graph, node, names, self.code)
        squeeze = _second_channel(first)
        inputs = [node.inputs[0], *squeeze.constants(made)]
        narrow = made.add("conv2d", inputs, node.attrs, quant=middle.quantization)
        w = second.weights
        data = np.concatenate([w.array, np.zeros_like(w.array)], axis=3)
        wide = replace(second, weights=replace(w, shape=data.shape, data=data))
        made.add("conv2d", [narrow, *wide.constants(made)], reader.attrs, out=reader.outputs[0])
        return made.edit(node, reader)


def _second_channel(layer: Layer) -> Layer:
    """A layer of one output channel with another one of zeros."""
    w = layer.weights
    data = np.concatenate([w.array, np.zeros_like(w.array)], axis=layer.axis)
    scale = np.repeat(w.quant.scale.reshape(-1)[:1], 2)
    quant = Quantization.per_channel(scale, layer.axis)
    weights = replace(w, shape=data.shape, data=data, quantization=quant)
    return replace(layer, weights=weights, bias=np.append(layer.bias, layer.bias.dtype.type(0)))


@dataclass(frozen=True)
class UnitStride(Pass):
    """The stride of a convolution that makes a single place is 1: no other place is read."""

    code: ClassVar[str] = "unit-stride"
    ops: ClassVar[frozenset[str]] = frozenset({"conv2d"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, ConvAttrs)
        if max(node.attrs.stride) <= UNIT_STRIDE:
            return None
        x, w, y = (graph.tensors[str(n)] for n in (*node.inputs[:2], node.outputs[0]))
        top, bottom, left, right = node.attrs.padding
        held = (x.shape[1] + top + bottom, x.shape[2] + left + right)
        if y.shape[1:3] != (1, 1) or held != w.shape[1:3] or max(node.attrs.dilation) > 1:
            return None
        made = Builder(graph, node, names, self.code)
        made.add("conv2d", node.inputs, replace(node.attrs, stride=(1, 1)), out=y.name)
        return made.edit(node)

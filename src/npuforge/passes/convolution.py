"""Passes around convolutions: what can be part of one becomes part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from npuforge.graph import (
    Array,
    ConcatAttrs,
    ConvAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    Graph,
    Names,
    Node,
    PadAttrs,
    PadMode,
    Quantization,
    SliceAttrs,
    SplitAttrs,
    Tensor,
)
from npuforge.numerics.types import is_int8
from npuforge.passes.framework import (
    CHANNEL_AXIS,
    Builder,
    Edit,
    Pass,
    maker,
    real_numbers,
    same_quant,
    sole_reader,
)
from npuforge.passes.hazards import ACTIVATION_OPS, is_strided_line
from npuforge.vocab import Activation, DType

CONVOLUTIONS = frozenset({"conv2d", "depthwise_conv2d"})
_ACTIVATIONS = {
    "relu": Activation.RELU,
    "relu6": Activation.RELU6,
    "relu_n1_to_1": Activation.RELU_N1_TO_1,
}


@dataclass(frozen=True)
class FoldPad(Pass):
    """Zero padding in front of a convolution becomes the convolution's own padding."""

    code: ClassVar[str] = "fold-pad"
    ops: ClassVar[frozenset[str]] = CONVOLUTIONS
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        pad = maker(graph, node.inputs[0], "pad")
        if pad is None or not isinstance(node.attrs, ConvAttrs):
            return None
        attrs = pad.attrs
        assert isinstance(attrs, PadAttrs)
        x = graph.tensor(pad.inputs[0])
        zero = float(x.quantization.z) if x.quantization is not None else 0.0
        sides = (attrs.before[1], attrs.after[1], attrs.before[2], attrs.after[2])
        outside = (attrs.before[0], attrs.after[0], attrs.before[3], attrs.after[3])
        if attrs.mode is not PadMode.CONSTANT or attrs.value != zero or any(outside):
            return None
        if not same_quant(x, graph.tensors[pad.outputs[0]]):
            return None
        a, b, c, d = node.attrs.padding
        padding = (a + sides[0], b + sides[1], c + sides[2], d + sides[3])
        made = Builder(graph, node, names, self.code)
        merged = replace(node.attrs, padding=padding)
        made.add(node.op, [x.name, *node.inputs[1:]], merged, out=node.outputs[0])
        return made.edit(node)


@dataclass(frozen=True)
class FuseActivation(Pass):
    """A ReLU behind a convolution, a fully connected layer or a sum becomes its output range."""

    code: ClassVar[str] = "fuse-activation"
    bound: ClassVar[float] = 2.0
    ops: ClassVar[frozenset[str]] = frozenset(_ACTIVATIONS)
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        first = maker(graph, node.inputs[0], "conv2d", "depthwise_conv2d", "fully_connected", "add")
        if first is None or sole_reader(graph, first.outputs[0]) is None:
            return None
        attrs = first.attrs
        if not isinstance(attrs, ConvAttrs | FullyConnectedAttrs | ElementwiseAttrs):
            return None
        if attrs.activation is not Activation.NONE:
            return None
        made = Builder(graph, first, names, self.code)
        fused = replace(attrs, activation=_ACTIVATIONS[node.op])
        made.add(first.op, first.inputs, fused, out=node.outputs[0])
        return made.edit(first, node)


@dataclass(frozen=True)
class FoldRequantize(Pass):
    """A change of scale behind a convolution or sum: it writes the second scale at once."""

    code: ClassVar[str] = "fold-requantize"
    bound: ClassVar[float] = 2.0
    ops: ClassVar[frozenset[str]] = frozenset({"quantize"})
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        first = maker(
            graph, node.inputs[0], "conv2d", "depthwise_conv2d", "fully_connected", "add", "mul"
        )
        if first is None or sole_reader(graph, first.outputs[0]) is None:
            return None
        y = graph.tensors[node.outputs[0]]
        if not is_int8(graph.tensors[first.outputs[0]], y):
            return None
        made = Builder(graph, first, names, self.code)
        made.add(first.op, first.inputs, first.attrs, out=y.name)
        return made.edit(first, node)


@dataclass(frozen=True)
class FoldAffine(Pass):
    """Multiplication or addition of constants behind a convolution goes into weights and bias.

    A factor a channel changes the weights' scale, not their stored numbers; so folding a batch
    normalisation only takes roundings away.
    """

    code: ClassVar[str] = "fold-affine"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"mul", "add", "sub"})
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        split = constant_operand(graph, node)
        if split is None or not isinstance(node.attrs, ElementwiseAttrs):
            return None
        moving, real = split
        first = maker(graph, moving, "conv2d", "depthwise_conv2d", "fully_connected")
        if first is None or sole_reader(graph, moving) is None:
            return None
        attrs = first.attrs
        assert isinstance(attrs, ConvAttrs | FullyConnectedAttrs)
        if attrs.activation is not Activation.NONE or node.inputs[0] != moving:
            return None
        channels = graph.tensors[moving].shape[-1]
        if real.size not in (1, channels) or (real.size > 1 and real.shape[-1] != channels):
            return None
        layer = Layer.of(graph, first)
        if layer is None:
            return None
        vector = np.broadcast_to(real.reshape(-1), (channels,)).astype(np.float64)
        if node.op == "mul":
            layer = layer.scaled(vector)
        else:
            layer = layer.shifted(-vector if node.op == "sub" else vector)
        made = Builder(graph, first, names, self.code)
        inputs = [first.inputs[0], *layer.constants(made)]
        fused = replace(attrs, activation=node.attrs.activation)
        made.add(first.op, inputs, fused, out=node.outputs[0])
        return made.edit(first, node)


def constant_operand(graph: Graph, node: Node) -> tuple[str, npt.NDArray[np.float64]] | None:
    """The computed operand of a binary node and the real numbers of its constant one."""
    a, b = (graph.tensor(name) for name in node.inputs[:2])
    if a.is_constant is b.is_constant:
        return None
    fixed, moving = (a, b) if a.is_constant else (b, a)
    return moving.name, real_numbers(fixed.array, fixed.quantization)


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights and bias of a convolution or fully connected layer.

    Attributes:
        weights: the tensor.
        bias: int32 or float32, one number an output channel.
        axis: output channel axis of the weights.
        input_scale: scale of the layer's input, None on floats.
    """

    weights: Tensor
    bias: npt.NDArray[np.generic]
    axis: int
    input_scale: np.float32 | None

    @classmethod
    def of(cls, graph: Graph, node: Node) -> Layer | None:
        """The layer of a node; None when it computes in types this does not cover."""
        x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        y = graph.tensors[node.outputs[0]]
        if not w.is_constant:
            return None
        axis = CHANNEL_AXIS[node.op]
        name = node.inputs[2] if len(node.inputs) > 2 else None
        floats = x.dtype is w.dtype is y.dtype is DType.FLOAT32
        if not floats and not (is_int8(x, y) and w.dtype is DType.INT8 and w.quantization):
            return None
        if not floats and w.quant.zero_point.any():
            return None
        kind = np.float32 if floats else np.int32
        channels = w.shape[axis]
        if name is not None and not graph.tensors[name].is_constant:
            return None
        bias = np.zeros(channels, kind) if name is None else graph.tensors[name].array.reshape(-1)
        return cls(w, bias.astype(kind), axis, None if floats else x.quant.s)

    def scaled(self, factors: npt.NDArray[np.float64]) -> Layer:
        """Every output channel times its factor."""
        shape = [1] * len(self.weights.shape)
        shape[self.axis] = -1
        data = self.weights.array
        if self.input_scale is None:
            weights = (data.astype(np.float64) * factors.reshape(shape)).astype(np.float32)
            bias = (self.bias.astype(np.float64) * factors).astype(np.float32)
            return replace(self, weights=replace(self.weights, data=weights), bias=bias)
        sign = np.where(factors < 0, -1, 1)
        # a factor of zero keeps the scale and clears the numbers
        keep = (factors != 0).astype(np.int64)
        size = np.where(factors == 0, 1.0, np.abs(factors))
        stored = np.clip(data.astype(np.int64) * (sign * keep).reshape(shape), -128, 127)
        scale = np.broadcast_to(self.weights.quant.scale, factors.shape).astype(np.float64) * size
        quant = Quantization.per_channel(scale.astype(np.float32), self.axis)
        weights_tensor = replace(self.weights, data=stored.astype(np.int8), quantization=quant)
        turned = (self.bias.astype(np.int64) * sign * keep).astype(np.int32)
        return replace(self, weights=weights_tensor, bias=turned)

    def shifted(self, amounts: npt.NDArray[np.float64]) -> Layer:
        """Every output channel plus an amount."""
        if self.input_scale is None:
            return replace(self, bias=(self.bias.astype(np.float64) + amounts).astype(np.float32))
        scale = float(self.input_scale) * self.weights.quant.scale.astype(np.float64)
        bias = self.bias.astype(np.float64) + amounts / scale
        limit = float(2**31 - 1)
        return replace(self, bias=np.clip(np.rint(bias), -limit, limit).astype(np.int32))

    def constants(self, made: Builder) -> tuple[str, str]:
        """Put weights and bias into an edit; returns their names."""
        weights = made.constant("weights", self.weights)
        dtype, quant = DType.FLOAT32, None
        if self.input_scale is not None:
            dtype = DType.INT32
            scale = np.float32(self.input_scale) * self.weights.quant.scale
            quant = Quantization.per_channel(scale, 0)
            if scale.size == 1:
                quant = Quantization.per_tensor(float(scale[0]))
        bias = Tensor("bias", self.bias.shape, dtype, quant, np.ascontiguousarray(self.bias))
        return weights, made.constant("bias", bias)


@dataclass(frozen=True)
class AffineToDepthwise(Pass):
    """Multiply and add constants a channel, with or without ReLU: one 1x1 depthwise convolution."""

    code: ClassVar[str] = "affine-to-depthwise"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"add"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        first = maker(graph, node.inputs[0], "mul")
        if first is None or sole_reader(graph, first.outputs[0]) is None:
            return None
        factors, amounts = constant_operand(graph, first), constant_operand(graph, node)
        if factors is None or amounts is None or amounts[0] != first.outputs[0]:
            return None
        assert isinstance(node.attrs, ElementwiseAttrs)
        assert isinstance(first.attrs, ElementwiseAttrs)
        x, y = graph.tensors[factors[0]], graph.tensors[node.outputs[0]]
        channels = y.shape[-1]
        sizes = {factors[1].size, amounts[1].size}
        if not is_int8(x, y) or len(x.shape) != 4 or x.shape != y.shape or sizes - {1, channels}:
            return None
        if first.attrs.activation is not Activation.NONE:
            return None
        scale = np.broadcast_to(np.abs(factors[1]).reshape(-1) / 127.0, (channels,))
        scale = np.where(scale > 0, scale, 1.0).astype(np.float32)
        signs = np.broadcast_to(np.sign(factors[1]).reshape(-1), (channels,))
        stored = (signs * 127).astype(np.int8).reshape(1, 1, 1, channels)
        weights = Tensor("w", stored.shape, DType.INT8, Quantization.per_channel(scale, 3), stored)
        layer = Layer(weights, np.zeros(channels, np.int32), 3, x.quant.s)
        layer = layer.shifted(np.broadcast_to(amounts[1].reshape(-1), (channels,)))
        made = Builder(graph, first, names, self.code)
        attrs = ConvAttrs(activation=node.attrs.activation)
        inputs = [x.name, *layer.constants(made)]
        made.add("depthwise_conv2d", inputs, attrs, out=y.name)
        return made.edit(first, node)


@dataclass(frozen=True)
class DenseDilation(Pass):
    """A dilated kernel written out with zeros between its weights.

    Attributes:
        most: largest number of kernel elements written out.
    """

    code: ClassVar[str] = "dense-dilation"
    ops: ClassVar[frozenset[str]] = CONVOLUTIONS
    most: int = 121

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, ConvAttrs)
        w = graph.tensor(node.inputs[1])
        dilation = node.attrs.dilation
        if dilation == (1, 1) or not w.is_constant or w.dtype is DType.UINT8:
            return None
        if w.quantization is not None and w.quantization.zero_point.any():
            return None
        rows, columns = ((n - 1) * d + 1 for n, d in zip(w.shape[1:3], dilation, strict=True))
        if rows * columns > self.most:
            return None
        data = np.zeros((w.shape[0], rows, columns, w.shape[3]), w.array.dtype)
        data[:, :: dilation[0], :: dilation[1]] = w.array
        made = Builder(graph, node, names, self.code)
        weights = made.constant("weights", replace(w, shape=data.shape, data=data))
        attrs = replace(node.attrs, dilation=(1, 1))
        inputs = [node.inputs[0], weights, *node.inputs[2:]]
        made.add(node.op, inputs, attrs, out=node.outputs[0])
        return made.edit(node)


@dataclass(frozen=True)
class StrideOutOfDepthwise(Pass):
    """A strided one-dimensional depthwise convolution runs at stride 1; what follows skips.

    The stride goes into the 1x1 convolution behind it, or into a slice.
    """

    code: ClassVar[str] = "stride-out-of-depthwise"
    ops: ClassVar[frozenset[str]] = frozenset({"depthwise_conv2d"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        if not is_strided_line(graph, node):
            return None
        assert isinstance(node.attrs, ConvAttrs)
        stride = node.attrs.stride
        y = graph.tensors[node.outputs[0]]
        made = Builder(graph, node, names, self.code)
        attrs = replace(node.attrs, stride=(1, 1))
        whole = made.add(node.op, node.inputs, attrs, quant=y.quantization, dtype=y.dtype)
        after = sole_reader(graph, y.name)
        if after is not None and _is_pointwise(graph, after):
            assert isinstance(after.attrs, ConvAttrs)
            strided = replace(after.attrs, stride=stride)
            made.add(after.op, [whole, *after.inputs[1:]], strided, out=after.outputs[0])
            return made.edit(node, after)
        cut = SliceAttrs((0, 0, 0, 0), (1, *stride, 1), y.shape)
        made.like("slice", whole, cut, out=y.name)
        return made.edit(node)


def _is_pointwise(graph: Graph, node: Node) -> bool:
    return (
        node.op == "conv2d"
        and isinstance(node.attrs, ConvAttrs)
        and graph.tensor(node.inputs[1]).shape[1:3] == (1, 1)
        and node.attrs.stride == (1, 1)
        and not any(node.attrs.padding)
    )


@dataclass(frozen=True)
class HoistActivation(Pass):
    """An activation behind a reshape is computed before it, where the layer can take it in."""

    code: ClassVar[str] = "hoist-activation"
    ops: ClassVar[frozenset[str]] = ACTIVATION_OPS

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        view = maker(graph, node.inputs[0], "reshape")
        if view is None or sole_reader(graph, view.outputs[0]) is None:
            return None
        y = graph.tensors[node.outputs[0]]
        made = Builder(graph, node, names, self.code)
        done = made.add(node.op, view.inputs, node.attrs, quant=y.quantization, dtype=y.dtype)
        made.like("reshape", done, view.attrs, out=y.name)
        return made.edit(view, node)


@dataclass(frozen=True)
class RegroupConvolutions(Pass):
    """Split, one convolution a piece, concat: a grouped or depthwise convolution written out."""

    code: ClassVar[str] = "regroup-convolutions"
    ops: ClassVar[frozenset[str]] = frozenset({"concat"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        y = graph.tensors[node.outputs[0]]
        assert isinstance(node.attrs, ConcatAttrs)
        if len(y.shape) != 4 or node.attrs.axis != 3 or len(node.inputs) < 2:
            return None
        branches = [maker(graph, name, "conv2d") for name in node.inputs]
        convs = [conv for conv in branches if conv is not None]
        if len(convs) != len(branches) or not self._alike(graph, convs, y):
            return None
        source = _split_in_order(graph, convs)
        layers = [Layer.of(graph, conv) for conv in convs]
        known = [layer for layer in layers if layer is not None]
        if source is None or len(known) != len(layers):
            return None
        attrs = convs[0].attrs
        assert isinstance(attrs, ConvAttrs)
        data = np.concatenate([layer.weights.array for layer in known], axis=0)
        depthwise = data.shape[3] == 1
        axis = 3 if depthwise else 0
        if depthwise:
            data = np.ascontiguousarray(data.transpose(3, 1, 2, 0))
        else:
            attrs = replace(attrs, groups=len(convs))
        weights = replace(known[0].weights, shape=data.shape, data=data)
        if known[0].input_scale is not None:
            count = known[0].weights.shape[0]
            scales = [np.broadcast_to(layer.weights.quant.scale, count) for layer in known]
            quant = Quantization.per_channel(np.concatenate(scales), axis)
            weights = replace(weights, quantization=quant)
        bias = np.concatenate([layer.bias for layer in known])
        layer = Layer(weights, bias, axis, known[0].input_scale)
        made = Builder(graph, node, names, self.code)
        op = "depthwise_conv2d" if depthwise else "conv2d"
        made.add(op, [source, *layer.constants(made)], attrs, out=y.name)
        edit = made.edit(*convs, node)
        contract = convs[0].contract
        return replace(edit, nodes=tuple(replace(n, contract=contract) for n in edit.nodes))

    def _alike(self, graph: Graph, convs: Sequence[Node], y: Tensor) -> bool:
        first = convs[0]
        shape = graph.tensor(first.inputs[1]).shape
        return all(
            (conv.attrs, conv.contract) == (first.attrs, first.contract)
            and isinstance(conv.attrs, ConvAttrs)
            and conv.attrs.groups == 1
            and graph.tensor(conv.inputs[1]).shape == shape
            and sole_reader(graph, conv.outputs[0]) is not None
            and same_quant(graph.tensors[conv.outputs[0]], y)
            for conv in convs
        )


def _split_in_order(graph: Graph, convs: Sequence[Node]) -> str | None:
    """The tensor whose equal channel pieces the convolutions read, in order; None if it is not."""
    names = [str(conv.inputs[0]) for conv in convs]
    split = maker(graph, names[0], "split")
    if split is not None and isinstance(split.attrs, SplitAttrs):
        whole = split.attrs.axis == 3 and tuple(names) == split.outputs
        return str(split.inputs[0]) if whole else None
    at = 0
    source: str | None = None
    for name in names:
        cut = maker(graph, name, "slice")
        if cut is None or not isinstance(cut.attrs, SliceAttrs):
            return None
        x = graph.tensor(cut.inputs[0])
        size = cut.attrs.count[3]
        wanted = SliceAttrs((0, 0, 0, at), (1, 1, 1, 1), (*x.shape[:3], size))
        if source not in (None, x.name) or cut.attrs != wanted:
            return None
        source = x.name
        at += size
    return source if source is not None and at == graph.tensors[source].shape[3] else None


@dataclass(frozen=True)
class FocusToStride(Pass):
    """Every second pixel sliced off, joined as channels and convolved: one strided convolution."""

    code: ClassVar[str] = "focus-to-stride"
    ops: ClassVar[frozenset[str]] = frozenset({"conv2d"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        join = maker(graph, node.inputs[0], "concat")
        attrs = node.attrs
        assert isinstance(attrs, ConvAttrs)
        w = graph.tensor(node.inputs[1])
        if join is None or not w.is_constant or (attrs.groups, attrs.dilation) != (1, (1, 1)):
            return None
        assert isinstance(join.attrs, ConcatAttrs)
        cuts = [maker(graph, name, "slice") for name in join.inputs]
        if join.attrs.axis != 3 or any(cut is None for cut in cuts):
            return None
        found = [cut for cut in cuts if cut is not None]
        source = graph.tensor(found[0].inputs[0])
        phases = [_phase(cut, source.name, source.shape) for cut in found]
        if any(phase is None for phase in phases) or attrs.stride != (1, 1):
            return None
        joined = graph.tensors[join.outputs[0]]
        if not same_quant(source, joined) or len(source.shape) != 4:
            return None
        steps = {phase[:2] for phase in phases if phase is not None}
        if len(steps) != 1:
            return None
        stride = steps.pop()
        data = _spread(w.array, [p[2:] for p in phases if p is not None], stride, source.shape[3])
        made = Builder(graph, node, names, self.code)
        weights = made.constant("weights", replace(w, shape=data.shape, data=data))
        top, bottom, left, right = attrs.padding
        padding = (top * stride[0], bottom * stride[0], left * stride[1], right * stride[1])
        strided = replace(attrs, stride=stride, padding=padding)
        inputs = [source.name, weights, *node.inputs[2:]]
        made.add("conv2d", inputs, strided, out=node.outputs[0])
        return made.edit(node)


def _phase(cut: Node, source: str, shape: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """Row step, column step, first row, first column of a slice that takes every n-th pixel."""
    a = cut.attrs
    assert isinstance(a, SliceAttrs)
    if cut.inputs[0] != source or len(shape) != 4:
        return None
    whole = (a.begin[0], a.begin[3], a.step[0], a.step[3], a.count[0], a.count[3])
    rows, columns = a.step[1], a.step[2]
    if whole != (0, 0, 1, 1, shape[0], shape[3]) or rows < 1 or columns < 1:
        return None
    if rows * columns < 2 or a.count[1] * rows != shape[1] or a.count[2] * columns != shape[2]:
        return None
    return (rows, columns, a.begin[1], a.begin[2])


def _spread(
    weights: Array, begins: Sequence[tuple[int, ...]], stride: tuple[int, int], channels: int
) -> Array:
    count, rows, columns, _ = weights.shape
    wide = (count, rows * stride[0], columns * stride[1], channels)
    data = np.zeros(wide, weights.dtype)
    for i, (row, column) in enumerate(begins):
        part = weights[:, :, :, i * channels : (i + 1) * channels]
        data[:, row :: stride[0], column :: stride[1]] = part
    return data

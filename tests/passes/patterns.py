"""Small networks in the form in which public networks contain what a pass rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from npuforge.graph import Attrs, Graph, Node, Quantization, Tensor
from npuforge.graph import attrs as at
from npuforge.graph.attrs import NO_ATTRS
from npuforge.graph.ops import SCHEMAS
from npuforge.vocab import Activation, Contract, DType

T8 = Contract.TFLITE_REFERENCE
NONE = at.ElementwiseAttrs()


class Net:
    """A graph built node by node; quantised int8 unless said otherwise."""

    def __init__(self, seed: int = 1, contract: Contract = T8, spread: float = 150.0) -> None:
        self.spread = spread
        self.rng = np.random.default_rng(seed)
        self.contract = contract
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []

    def _put(self, tensor: Tensor) -> str:
        self.tensors[tensor.name] = tensor
        return tensor.name

    def input(
        self, *shape: int, dtype: DType = DType.INT8, q: tuple[float, int] | None = (0.05, -3)
    ) -> str:
        quant = None if q is None or dtype.is_float else Quantization.per_tensor(*q)
        name = self._put(Tensor(f"x{len(self.inputs)}", shape, dtype, quant))
        self.inputs.append(name)
        return name

    def const(
        self,
        values: object,
        q: tuple[float, int] | Quantization | None = None,
        dtype: DType = DType.INT8,
    ) -> str:
        data = np.asarray(values, str(dtype), order="C")
        quant = Quantization.per_tensor(*q) if isinstance(q, tuple) else q
        return self._put(Tensor(f"c{len(self.tensors)}", data.shape, dtype, quant, data))

    def op(
        self,
        op: str,
        inputs: Sequence[str | None],
        attrs: Attrs = NO_ATTRS,
        *,
        q: tuple[float, int] | None = None,
        dtype: DType | None = None,
        exact: bool = False,
    ) -> str:
        """Append a node of one output; without `q` it keeps the type of its first input."""
        return self.split(op, inputs, attrs, q=q, dtype=dtype, exact=exact)[0]

    def split(
        self,
        op: str,
        inputs: Sequence[str | None],
        attrs: Attrs = NO_ATTRS,
        *,
        q: tuple[float, int] | None = None,
        dtype: DType | None = None,
        exact: bool = True,
    ) -> list[str]:
        read = [None if name is None else self.tensors[name] for name in inputs]
        first = read[0]
        assert first is not None
        quant = Quantization.per_tensor(*q) if q is not None else first.quantization
        kind = dtype or first.dtype
        names = []
        for shape in SCHEMAS[op].infer(read, attrs):
            tensor = Tensor(f"t{len(self.tensors)}", shape, kind, None if kind.is_float else quant)
            names.append(self._put(tensor))
        contract = Contract.EXACT if exact else self.contract
        if kind.is_float and all(t is None or t.dtype.is_float for t in read):
            contract = Contract.FLOAT32
        self.nodes.append(Node(f"n_{names[0]}", op, tuple(inputs), tuple(names), attrs, contract))
        return names

    def move(self, op: str, source: str, attrs: Attrs) -> str:
        return self.op(op, [source], attrs, exact=True)

    def conv(
        self,
        x: str,
        channels: int,
        kernel: tuple[int, int] = (1, 1),
        *,
        q: tuple[float, int] = (0.1, 4),
        **attrs: object,
    ) -> str:
        depth = self.tensors[x].shape[3]
        w = self.rng.integers(-127, 128, (channels, *kernel, depth))
        return self._layer("conv2d", x, w, 0, q, attrs)

    def depthwise(
        self,
        x: str,
        kernel: tuple[int, int] = (3, 3),
        *,
        q: tuple[float, int] = (0.1, 4),
        **attrs: object,
    ) -> str:
        depth = self.tensors[x].shape[3]
        w = self.rng.integers(-127, 128, (1, *kernel, depth))
        return self._layer("depthwise_conv2d", x, w, 3, q, attrs)

    def _layer(self, op: str, x: str, w: object, axis: int, q: tuple[float, int],
               attrs: dict[str, object]) -> str:  # fmt: skip
        array = np.asarray(w)
        count = array.shape[axis]
        depth = array.size // count
        scales = (
            self.rng.uniform(0.5, 1.5, count) * q[0] / (self.scale(x) * self.spread * depth**0.5)
        )
        quant = Quantization.per_channel(scales, axis)
        weights = self.const(array, quant)
        scale = (scales * self.scale(x)).astype(np.float32)
        units = Quantization.per_channel(scale, 0)
        bias = self.const(self.rng.integers(-500, 500, count), units, DType.INT32)
        return self.op(op, [x, weights, bias], at.ConvAttrs(**attrs), q=q)  # type: ignore[arg-type]

    def scale(self, name: str) -> float:
        return float(self.tensors[name].quant.s)

    def graph(self, *outputs: str) -> Graph:
        source = "onnx" if self.contract is Contract.ONNX_QLINEAR else "tflite"
        return Graph(
            "pattern", self.tensors, tuple(self.nodes), tuple(self.inputs), outputs, source
        )


def constant_branch() -> Graph:
    """Position codes computed from constants by an operator the NPU lacks."""
    net = Net()
    x = net.input(1, 4, 4, 8)
    codes = net.op("softplus", [net.const(np.arange(8).reshape(1, 1, 1, 8), (0.1, 0))], q=(0.05, 0))
    return net.graph(net.op("add", [x, codes], NONE, q=(0.1, 0)))


def identity_broadcast() -> Graph:
    """A broadcast to the shape a tensor already has, as exporters of Expand leave it."""
    net = Net()
    x = net.conv(net.input(1, 4, 4, 8), 8)
    y = net.move("broadcast_to", x, at.ReshapeAttrs((1, 4, 4, 8)))
    return net.graph(net.conv(y, 8))


def unsigned_network() -> Graph:
    """The first layers of a uint8 MobileNet as TensorFlow quantised them until 2019."""
    net = Net()
    x = net.input(1, 12, 12, 3, dtype=DType.UINT8, q=(1 / 128, 128))
    for kind, channels, stride in (("conv2d", 8, 2), ("depthwise_conv2d", 8, 1), ("conv2d", 16, 1)):
        depth = net.tensors[x].shape[3]
        size = 1 if channels == 16 else 3
        shape = (channels, size, size, depth) if kind == "conv2d" else (1, 3, 3, depth)
        w = net.const(net.rng.integers(0, 256, shape), (0.01, 121), DType.UINT8)
        b = net.const(net.rng.integers(-900, 900, channels), None, DType.INT32)
        pads = (0, 0, 0, 0) if size == 1 else (1, 1, 1, 1)
        attrs = at.ConvAttrs(stride=(stride, stride), padding=pads, activation=Activation.RELU6)
        x = net.op(kind, [x, w, b], attrs, q=(6 / 255, 0))
    pooled = net.op("average_pool2d", [x], at.PoolAttrs((6, 6), (6, 6)))
    return net.graph(net.move("reshape", pooled, at.ReshapeAttrs((1, 16))))


def spiking_step() -> Graph:
    """One step of a spiking network: the membrane is rounded in float (Keras quantised SNNs)."""
    net = Net()
    x = net.op("relu", [net.input(1, 20, q=(0.0063, -33))], q=(1 / 255, -128))
    real = net.op("dequantize", [x], dtype=DType.FLOAT32)
    spike = net.op("round", [real])
    gap = net.op("sub", [net.const(np.float32(1.0), None, DType.FLOAT32), spike], NONE)
    rest = net.op("quantize", [gap], dtype=DType.INT8, q=(0.0125, 47))
    return net.graph(net.op("mul", [x, rest], NONE, q=(0.01, 0)))


def double_requantize() -> Graph:
    """Two changes of scale in a row, as concatenating converters leave them."""
    net = Net()
    x = net.op("quantize", [net.input(1, 4, 4, 8)], q=(0.06, -10))
    return net.graph(net.op("quantize", [x], q=(0.11, 5)))


def layout_sandwich() -> Graph:
    """Channels first, an activation, channels last again: a converted PyTorch block."""
    net = Net()
    x = net.conv(net.input(1, 6, 5, 8), 8)
    first = net.move("transpose", x, at.TransposeAttrs((0, 3, 1, 2)))
    act = net.op("leaky_relu", [first], at.LeakyReluAttrs(0.1), q=(0.08, 2))
    return net.graph(net.conv(net.move("transpose", act, at.TransposeAttrs((0, 2, 3, 1))), 8))


def moved_ones() -> Graph:
    """A transpose that swaps the batch axis with another axis of one."""
    net = Net()
    x = net.conv(net.input(1, 1, 6, 8), 8)
    turned = net.move("transpose", x, at.TransposeAttrs((1, 0, 2, 3)))
    return net.graph(net.conv(turned, 8))


def channel_shuffle() -> Graph:
    """The channel shuffle of ShuffleNet: five axes, two of them swapped."""
    net = Net()
    x = net.conv(net.input(1, 6, 6, 8), 16)
    groups = net.move("reshape", x, at.ReshapeAttrs((1, 6, 6, 2, 8)))
    turned = net.move("transpose", groups, at.TransposeAttrs((0, 1, 2, 4, 3)))
    return net.graph(net.conv(net.move("reshape", turned, at.ReshapeAttrs((1, 6, 6, 16))), 8))


def attention_heads() -> Graph:
    """A matrix transposed without a batch axis, as unrolled attention heads have it."""
    net = Net()
    x = net.op("relu", [net.input(24, 16)])
    return net.graph(net.op("relu", [net.move("transpose", x, at.TransposeAttrs((1, 0)))]))


def five_axes() -> Graph:
    """An activation on the five axes of a detection head [1, anchors, rows, columns, values]."""
    net = Net()
    x = net.conv(net.input(1, 4, 4, 8), 12)
    head = net.move("reshape", x, at.ReshapeAttrs((1, 4, 4, 3, 4)))
    score = net.op("logistic", [head], q=(1 / 256, -128))
    return net.graph(net.move("reshape", score, at.ReshapeAttrs((1, 48, 4))))


def unrolled_groups() -> Graph:
    """A depthwise convolution as TensorFlow's converter unrolls it: split, conv, concat."""
    net = Net()
    x = net.input(1, 6, 6, 6)
    parts = net.split("split", [x], at.SplitAttrs(3, (1,) * 6))
    done = [net.conv(part, 1, (3, 3), padding=(1, 1, 1, 1)) for part in parts]
    return net.graph(net.op("concat", done, at.ConcatAttrs(3), exact=True))


def grouped() -> Graph:
    """A grouped convolution (ResNeXt) unrolled with slices."""
    net = Net()
    x = net.input(1, 5, 5, 12)
    done = []
    for i in range(3):
        cut = at.SliceAttrs((0, 0, 0, 4 * i), (1, 1, 1, 1), (1, 5, 5, 4))
        done.append(net.conv(net.move("slice", x, cut), 5, (3, 3), padding=(1, 1, 1, 1)))
    return net.graph(net.op("concat", done, at.ConcatAttrs(3), exact=True))


def focus() -> Graph:
    """The Focus layer in front of YOLOv5 and YOLOX."""
    net = Net()
    x = net.input(1, 16, 12, 3)
    parts = [
        net.move("slice", x, at.SliceAttrs((0, i, j, 0), (1, 2, 2, 1), (1, 8, 6, 3)))
        for j in (0, 1)
        for i in (0, 1)
    ]
    joined = net.op("concat", parts, at.ConcatAttrs(3), exact=True)
    return net.graph(net.conv(joined, 8, (3, 3), padding=(1, 1, 1, 1)))


def yolo_head() -> Graph:
    """YOLOv8's head: boxes and scores joined a level, levels joined, boxes and scores parted."""
    net = Net()
    levels = []
    for size in (6, 3):
        x = net.input(1, size, size, 8)
        parts = [net.conv(x, 16), net.conv(x, 1)]
        joined = net.op("concat", parts, at.ConcatAttrs(3), exact=True)
        turned = net.move("transpose", joined, at.TransposeAttrs((0, 3, 1, 2)))
        levels.append(net.move("reshape", turned, at.ReshapeAttrs((1, 17, size * size))))
    whole = net.op("concat", levels, at.ConcatAttrs(2), exact=True)
    boxes = net.move("slice", whole, at.SliceAttrs((0, 0, 0), (1, 1, 1), (1, 16, 45)))
    scores = net.move("slice", whole, at.SliceAttrs((0, 16, 0), (1, 1, 1), (1, 1, 45)))
    return net.graph(net.op("relu", [boxes]), net.op("logistic", [scores], q=(1 / 256, -128)))


def relu_behind_reshape() -> Graph:
    """An activation between a reshape and a depthwise convolution."""
    net = Net()
    x = net.conv(net.input(1, 4, 8, 8), 8)
    view = net.move("reshape", x, at.ReshapeAttrs((1, 8, 4, 8)))
    return net.graph(net.depthwise(net.op("relu", [view]), (3, 3), padding=(1, 1, 1, 1)))


def strided_line() -> Graph:
    """A 1-D depthwise convolution of stride 2 in front of its 1x1: a keyword network."""
    net = Net()
    x = net.input(1, 40, 1, 8)
    y = net.depthwise(x, (3, 1), stride=(2, 1), padding=(1, 1, 0, 0))
    return net.graph(net.conv(y, 12))


def strided_line_alone() -> Graph:
    """The same with something else behind it."""
    net = Net()
    y = net.depthwise(net.input(1, 1, 40, 8), (1, 5), stride=(1, 2), padding=(0, 0, 2, 2))
    return net.graph(net.op("hard_swish", [y]))


def padded_conv() -> Graph:
    """A pad in front of a strided convolution, as Keras applications write it."""
    net = Net()
    x = net.conv(net.input(1, 8, 8, 4), 8)
    pad = net.move("pad", x, at.PadAttrs((0, 0, 0, 0), (0, 1, 1, 0), value=4.0))
    return net.graph(net.conv(pad, 8, (3, 3), stride=(2, 2)))


def batch_norm(spread: float = 250.0) -> Graph:
    """Convolution, batch normalisation and ReLU that no converter has folded."""
    net = Net(spread=spread)
    x = net.conv(net.input(1, 8, 8, 8), 16, (3, 3), q=(0.1, 0))
    factor = net.const(net.rng.integers(-60, 60, (1, 1, 1, 16)), (0.01, 0))
    y = net.op("mul", [x, factor], NONE, q=(0.11, 2))
    shift = net.const(net.rng.integers(-60, 60, 16), (0.02, 0))
    return net.graph(net.op("add", [y, shift], NONE, q=(0.12, 1)))


def relu_layers() -> Graph:
    """ReLU6 as a node of its own behind a convolution."""
    net = Net()
    x = net.conv(net.input(1, 8, 8, 8), 8, q=(0.05, -20))
    return net.graph(net.conv(net.op("relu6", [x], q=(6 / 255, -128)), 8))


def requantized_conv() -> Graph:
    """A convolution whose result is brought to another scale, for a concat."""
    net = Net(spread=250.0)
    x = net.conv(net.input(1, 8, 8, 8), 8, q=(0.1, 4))
    return net.graph(net.op("quantize", [x], q=(0.17, -5)))


def preactivation() -> Graph:
    """Batch normalisation and ReLU before the convolution: a ResNetV2 block."""
    net = Net()
    x = net.input(1, 12, 12, 8, q=(0.03, 0))
    factor = net.const(net.rng.integers(40, 127, (1, 1, 1, 8)), (0.01, 0))
    y = net.op("mul", [x, factor], NONE, q=(0.04, 0))
    shift = net.const(net.rng.integers(-60, 60, 8), (0.01, 0))
    z = net.op("add", [y, shift], at.ElementwiseAttrs(Activation.RELU), q=(0.03, -128))
    return net.graph(net.conv(z, 8, (3, 3)))


def dilated() -> Graph:
    """A temporal convolution with dilation 2 (TCN keyword networks)."""
    net = Net()
    x = net.input(1, 1, 50, 16)
    pads = (0, 0, 4, 0)
    return net.graph(net.conv(x, 16, (1, 3), dilation=(1, 2), padding=pads))


def upsample(channels: int = 16) -> Graph:
    """The nearest upsampling of a feature pyramid."""
    net = Net()
    x = net.conv(net.input(1, 8, 6, 8), channels)
    attrs = at.ResizeAttrs((16, 12), at.ResizeMode.NEAREST, at.CoordinateMode.HALF_PIXEL_NEAREST)
    up = net.move("resize", x, attrs)
    skip = net.conv(net.input(1, 16, 12, 8), channels)
    return net.graph(net.op("add", [up, skip], NONE, q=(0.15, 0)))


def wide_upsample() -> Graph:
    """The same with so many channels that a transposed convolution would not pay."""
    return upsample(264)


def pooled_pixel() -> Graph:
    """The image pooling branch of DeepLab: one pixel resized to the whole map."""
    net = Net()
    x = net.input(1, 10, 10, 16)
    pooled = net.op("mean", [x], at.ReduceAttrs((1, 2), True), q=(0.05, -3))
    attrs = at.ResizeAttrs((10, 10), at.ResizeMode.BILINEAR, at.CoordinateMode.HALF_PIXEL)
    up = net.op("resize", [pooled], attrs)
    return net.graph(net.op("add", [x, up], NONE, q=(0.1, 0)))


def bilinear() -> Graph:
    """The bilinear upsampling of a segmentation decoder."""
    net = Net()
    x = net.conv(net.input(1, 10, 10, 8), 8)
    attrs = at.ResizeAttrs((20, 20), at.ResizeMode.BILINEAR, at.CoordinateMode.HALF_PIXEL)
    return net.graph(net.conv(net.op("resize", [x], attrs), 8))


def odd_bilinear() -> Graph:
    """A bilinear resize with aligned corners and odd sizes."""
    net = Net()
    x = net.conv(net.input(1, 7, 5, 8), 8)
    attrs = at.ResizeAttrs((16, 11), at.ResizeMode.BILINEAR, at.CoordinateMode.ALIGN_CORNERS)
    return net.graph(net.conv(net.op("resize", [x], attrs), 8))


def prelu(same: bool = False) -> Graph:
    """PReLU with a slope a channel (MobileFaceNet)."""
    net = Net()
    x = net.conv(net.input(1, 8, 8, 8), 8, q=(0.05, 3))
    slopes = np.full(8, 64) if same else net.rng.integers(-20, 127, 8)
    alpha = net.const(slopes.reshape(1, 1, 8), (1 / 256, 0))
    return net.graph(net.op("prelu", [x, alpha], q=(0.05, -20)))


def channel_pad() -> Graph:
    """A shortcut widened by channels of zeros (BlazeFace, face mesh)."""
    net = Net()
    x = net.input(1, 8, 8, 8)
    attrs = at.PadAttrs((0, 0, 0, 0), (0, 0, 0, 4), value=-3.0)
    wide = net.move("pad", x, attrs)
    return net.graph(net.op("add", [net.conv(x, 12), wide], NONE, q=(0.1, 4)))


def gate_of_one() -> Graph:
    """A squeeze-and-excite gate over one channel (OSNet x0.25)."""
    net = Net()
    x = net.conv(net.input(1, 6, 6, 16), 16)
    mean = net.op("mean", [x], at.ReduceAttrs((1, 2), keep_dims=True))
    narrow = net.conv(mean, 1, activation=Activation.RELU)
    gate = net.op("logistic", [net.conv(narrow, 16)], q=(1 / 256, -128))
    return net.graph(net.op("mul", [x, gate], NONE, q=(0.1, 0)))


def whole_map_stride() -> Graph:
    """A head that covers the last map, with the stride of its kernel (face mesh)."""
    net = Net()
    x = net.conv(net.input(1, 3, 3, 8), 8)
    return net.graph(net.conv(x, 24, (3, 3), stride=(3, 3)))


def float_prelu() -> Graph:
    """PReLU left in float between a dequantize and a quantize, as ONNX Runtime leaves it."""
    net = Net()
    x = net.conv(net.input(1, 8, 8, 8), 8, q=(0.05, 3))
    real = net.op("dequantize", [x], dtype=DType.FLOAT32)
    slope = net.const(net.rng.uniform(-0.1, 0.5, (1, 1, 8)), None, DType.FLOAT32)
    out = net.op("quantize", [net.op("prelu", [real, slope])], dtype=DType.INT8, q=(0.05, -20))
    return net.graph(out)


def prelu_one_slope() -> Graph:
    """PReLU with one slope (torch.nn.PReLU's default)."""
    return prelu(same=True)


def gelu() -> Graph:
    """GELU between two layers (ConvNeXt, transformers)."""
    net = Net()
    x = net.conv(net.input(1, 6, 6, 8), 8, q=(0.03, 2))
    return net.graph(net.conv(net.op("gelu", [x], at.GeluAttrs(), q=(0.02, -110)), 8))


def variance() -> Graph:
    """The squared difference of an instance normalisation."""
    net = Net()
    x = net.input(1, 6, 6, 8)
    mean = net.op("mean", [x], at.ReduceAttrs((1, 2), True), q=(0.03, 0))
    square = net.op("squared_difference", [x, mean], NONE, q=(0.16, -128))
    return net.graph(net.op("mean", [square], at.ReduceAttrs((1, 2), True), q=(0.08, -128)))


def counted() -> Graph:
    """A sum over time (spiking and counting networks)."""
    net = Net()
    x = net.input(1, 10, 12)
    return net.graph(net.op("sum", [x], at.ReduceAttrs((1,)), q=(0.4, 3)))


def channel_mean() -> Graph:
    """A mean over channels: the spatial attention of CBAM."""
    net = Net()
    x = net.input(1, 8, 8, 16)
    return net.graph(net.op("mean", [x], at.ReduceAttrs((3,), True), q=(0.04, 1)))


def temporal_pool() -> Graph:
    """A maximum over time behind a recurrent or temporal network."""
    net = Net()
    x = net.op("relu", [net.input(1, 20, 16)])
    return net.graph(net.op("reduce_max", [x], at.ReduceAttrs((1,))))


def temporal_mean() -> Graph:
    """The mean over time of rows of features."""
    net = Net()
    x = net.op("relu", [net.input(1, 6, 5, 8)])
    return net.graph(net.op("mean", [x], at.ReduceAttrs((2,)), q=(0.04, -90)))


def gathered() -> Graph:
    """Every second channel picked by indices."""
    net = Net()
    x = net.op("relu", [net.input(1, 8, 8, 16)])
    index = net.const(np.arange(0, 16, 2), None, DType.INT32)
    return net.graph(net.conv(net.op("gather", [x, index], at.AxisAttrs(3), exact=True), 8))


def tiled() -> Graph:
    """A global vector tiled over the map (RNNT joints, PointNet)."""
    net = Net()
    x = net.conv(net.input(1, 1, 1, 8), 16)
    tile = net.move("tile", x, at.TileAttrs((1, 6, 4, 1)))
    return net.graph(net.conv(tile, 8))


def double_reshape() -> Graph:
    """A flatten behind a squeeze."""
    net = Net()
    x = net.op("relu", [net.input(1, 4, 4, 8)])
    flat = net.move("reshape", x, at.ReshapeAttrs((1, 16, 8)))
    return net.graph(net.op("relu", [net.move("reshape", flat, at.ReshapeAttrs((1, 128)))]))


def computed_twice() -> Graph:
    """The same activation computed for two branches."""
    net = Net()
    x = net.input(1, 4, 4, 8)
    branches = [net.op("logistic", [x], q=(1 / 256, -128)) for _ in range(2)]
    done = [net.conv(branch, 8) for branch in branches]
    return net.graph(net.op("add", done, NONE, q=(0.2, 0)))


def unread_branch() -> Graph:
    """An auxiliary head whose output was cut off."""
    net = Net()
    x = net.conv(net.input(1, 4, 4, 8), 8)
    net.op("softplus", [x], q=(0.1, -128))
    return net.graph(net.conv(x, 8))


def float_input() -> Graph:
    """A network with float input and output around an integer body."""
    net = Net()
    x = net.input(1, 4, 4, 8, dtype=DType.FLOAT32, q=None)
    stored = net.op("quantize", [x], dtype=DType.INT8, q=(0.02, -5))
    y = net.conv(stored, 8)
    return net.graph(net.op("dequantize", [y], dtype=DType.FLOAT32))


def classifier() -> Graph:
    """A classifier that ends in softmax and a conversion to float."""
    net = Net()
    x = net.conv(net.input(1, 6, 6, 8), 16, (3, 3))
    for _ in range(4):
        x = net.conv(x, 16)
    pooled = net.op("mean", [x], at.ReduceAttrs((1, 2)), q=(0.1, 4))
    soft = net.op("softmax", [pooled], at.SoftmaxAttrs(1), q=(1 / 256, -128))
    return net.graph(net.op("dequantize", [soft], dtype=DType.FLOAT32))


@dataclass(frozen=True)
class Pattern:
    """A pass, a network that has its pattern, and what the predicted placement makes of it.

    Attributes:
        code: of the pass.
        make: the network.
        raises: whether more of the network must run on the NPU.
        pays: whether it must cost fewer nodes, hazards or time; where it does not, the pass is
            left alone unless the user insists.
        source: public network, layer or exporter that writes it; stated wherever `raises` is.
    """

    code: str
    make: Callable[[], Graph]
    raises: bool = True
    pays: bool = True
    source: str = ""


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "fold-constants",
        constant_branch,
        source="constants computed in the graph: torch.onnx with do_constant_folding=False",
    ),
    Pattern(
        "drop-identity",
        identity_broadcast,
        source="torch.onnx writes Tensor.expand as Expand, also to the size it has; two in "
        "the public birdnet_stm32n6_100.tflite",
    ),
    Pattern(
        "unsigned-to-signed",
        unsigned_network,
        source="mobilenet_v1_1.0_224_quant.tflite of TensorFlow's hosted models",
    ),
    Pattern(
        "integer-islands",
        spiking_step,
        source="snn_*_V2.tflite (eight published models)",
    ),
    Pattern("merge-requantize", double_requantize, raises=False),
    Pattern("merge-transposes", layout_sandwich, raises=False),
    Pattern("free-transposes", moved_ones, raises=False),
    Pattern("lower-transposes", channel_shuffle, raises=False),
    Pattern(
        "lower-transposes",
        attention_heads,
        source="torch.nn.MultiheadAttention: q.view(len, batch * heads, dim).transpose(0, 1)",
    ),
    Pattern(
        "lower-rank",
        five_axes,
        source="YOLOv5, models/yolo.py, Detect.forward: view(bs, na, no, ny, nx).permute(0, "
        "1, 3, 4, 2), then sigmoid",
    ),
    Pattern("regroup-convolutions", unrolled_groups, raises=False),
    Pattern("regroup-convolutions", grouped, raises=False),
    Pattern("focus-to-stride", focus, raises=False),
    Pattern(
        "hoist-slices",
        yolo_head,
        source="YOLOv8 and YOLO11 detection heads (18 published models)",
    ),
    Pattern("hoist-activation", relu_behind_reshape, raises=False),
    Pattern("stride-out-of-depthwise", strided_line, raises=False),
    Pattern("stride-out-of-depthwise", strided_line_alone, raises=False),
    Pattern("fold-pad", padded_conv, raises=False),
    Pattern("fold-affine", batch_norm, raises=False),
    Pattern("fuse-activation", relu_layers, raises=False),
    Pattern("fold-requantize", requantized_conv, raises=False),
    Pattern("affine-to-depthwise", preactivation, raises=False),
    Pattern(
        "dense-dilation",
        dilated,
        source="WaveNet and TCN layers in Keras: Conv1D(dilation_rate=2 ** i, padding='causal')",
    ),
    Pattern("nearest-to-transposed-conv", upsample, raises=False, pays=False),
    Pattern(
        "nearest-to-concat",
        wide_upsample,
        source="neck of YOLOv8, YOLO11, YOLOX, SSD FPN-Lite (19 published models)",
    ),
    Pattern(
        "nearest-to-concat",
        pooled_pixel,
        source="image pooling branch of DeepLabV3 (torchvision, ASPPPooling)",
    ),
    Pattern("bilinear-to-conv", bilinear, raises=False),
    Pattern("bilinear-to-conv", odd_bilinear, raises=False),
    Pattern(
        "prelu-to-leaky",
        prelu_one_slope,
        raises=False,
        source="torch.nn.PReLU, num_parameters=1 by default",
    ),
    Pattern(
        "channel-pad-to-conv",
        channel_pad,
        source="MediaPipe: blazeface_front, face_landmark, palm_detection (17 pads)",
    ),
    Pattern(
        "widen-gate",
        gate_of_one,
        source="osnet_a025_256_128_tfs_int8.tflite: 16 gates over one channel",
    ),
    Pattern(
        "unit-stride",
        whole_map_stride,
        source="MediaPipe: face_landmark.tflite, heads of 3 x 3 with stride 3",
    ),
    Pattern(
        "integer-prelu",
        float_prelu,
        source="MobileFaceNet as ONNX Runtime quantises it: PRelu and its slopes stay float",
    ),
    Pattern(
        "gelu-to-sigmoid",
        gelu,
        source="torch.onnx, symbolic_opset9.gelu: Div, Erf, Add, Mul, Mul (ViT, ConvNeXt)",
    ),
    Pattern(
        "squared-difference",
        variance,
        source="tf.nn.moments: reduce_mean(squared_difference(y, mean)), under Keras "
        "LayerNormalization",
    ),
    Pattern("sum-to-conv", counted, raises=False),
    Pattern(
        "sum-to-conv",
        channel_mean,
        source="CBAM spatial attention: torch.mean(x, dim=1, keepdim=True)",
    ),
    Pattern(
        "reduce-to-pool",
        temporal_pool,
        source="Keras GlobalMaxPooling1D: max over the steps axis",
    ),
    Pattern("reduce-to-pool", temporal_mean, raises=False),
    Pattern(
        "gather-to-slice",
        gathered,
        source="torch.onnx writes x[:, index] with a constant index as Gather",
    ),
    Pattern(
        "copies-to-concat",
        tiled,
        source="PointNet, PointNetfeat.forward: x.view(-1, 1024, 1).repeat(1, 1, n_pts)",
    ),
    Pattern("merge-reshapes", double_reshape, raises=False),
    Pattern("merge-equal", computed_twice, raises=False),
    Pattern(
        "drop-dead-code",
        unread_branch,
        source="GoogLeNet's auxiliary classifiers, left in when an output is cut off",
    ),
    Pattern(
        "integer-inputs",
        float_input,
        source="Keras post-training quantisation with float interface (13 published models)",
    ),
    Pattern(
        "cpu-tail",
        classifier,
        source="softmax heads of ST's model zoo (68 published models)",
    ),
)

"""An int8 detector with the layer shapes of YOLOv8n, built here with random weights.

Shapes, strides and channels are those of the published architecture at width 0.25 and depth 0.33;
activations are SiLU, as a sigmoid and a product. Scales keep every tensor alive: what is compared
is whether two ways to compute it give the same bytes, not what it detects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuforge.graph import (
    Attrs,
    ConcatAttrs,
    ConvAttrs,
    Graph,
    Node,
    PoolAttrs,
    Quantization,
    ReshapeAttrs,
    ResizeAttrs,
    SoftmaxAttrs,
    SplitAttrs,
    Tensor,
    verify,
)
from npuforge.graph.attrs import NO_ATTRS, CoordinateMode, ElementwiseAttrs, ResizeMode
from npuforge.vocab import Contract, DType

CLASSES, BINS = 80, 16
PRE, POST, UNIT = (0.05, 0), (0.025, -117), (1 / 256, -128)
"""Scale and zero point of convolutions, of SiLU results, and of probabilities."""


class _Builder:
    def __init__(self) -> None:
        self._rng = np.random.default_rng(640)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []

    def tensor(self, name: str, shape: Sequence[int], quant: tuple[float, int]) -> Tensor:
        made = Tensor(name, tuple(shape), DType.INT8, Quantization.per_tensor(*quant))
        self.tensors[name] = made
        return made

    def node(
        self, op: str, inputs: Sequence[Tensor], shapes: Sequence[Sequence[int]],
        quant: tuple[float, int], attrs: Attrs = NO_ATTRS,
    ) -> list[Tensor]:  # fmt: skip
        name = f"{op}_{len(self.nodes)}"
        outs = [self.tensor(f"{name}:{n}", shape, quant) for n, shape in enumerate(shapes)]
        self.nodes.append(
            Node(
                name, op, tuple(t.name for t in inputs), tuple(t.name for t in outs), attrs,
                Contract.TFLITE_REFERENCE,
            )
        )  # fmt: skip
        return outs

    def conv(self, x: Tensor, channels: int, kernel: int, stride: int = 1) -> Tensor:
        """A convolution alone, padded to the input's size over the stride."""
        rng, name, depth = self._rng, f"conv_{len(self.nodes)}", x.shape[3]
        weights = rng.normal(0, 1, (channels, kernel, kernel, depth))
        largest = np.abs(weights).reshape(channels, -1).max(axis=1)
        values = np.round(weights / largest[:, None, None, None] * 127).astype(np.int8)
        # the sum of what a kernel covers has the spread of one of its inputs
        scales = largest / 127 / np.sqrt(kernel * kernel * depth)
        assert x.quant is not None
        sums = scales * float(x.quant.s)
        bias = np.round(rng.normal(0, 0.3, channels) / sums).astype(np.int32)
        quants = [Quantization.per_channel(scale, 0) for scale in (scales, sums)]
        w = Tensor(f"{name}/weights", values.shape, DType.INT8, quants[0], values)
        b = Tensor(f"{name}/bias", (channels,), DType.INT32, quants[1], bias)
        self.tensors |= {w.name: w, b.name: b}
        pad = kernel // 2
        sides = [(side + 2 * pad - kernel) // stride + 1 for side in x.shape[1:3]]
        attrs = ConvAttrs(stride=(stride, stride), padding=(pad, pad, pad, pad))
        return self.node("conv2d", (x, w, b), [(1, *sides, channels)], PRE, attrs)[0]

    def block(self, x: Tensor, channels: int, kernel: int, stride: int = 1) -> Tensor:
        """A convolution and SiLU."""
        y = self.conv(x, channels, kernel, stride)
        gate = self.node("logistic", (y,), [y.shape], UNIT)[0]
        return self.node("mul", (y, gate), [y.shape], POST, ElementwiseAttrs())[0]

    def concat(self, parts: Sequence[Tensor], axis: int = 3) -> Tensor:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        quant = parts[0].quant
        assert quant is not None
        pair = (float(quant.s), quant.z)
        return self.node("concat", parts, [shape], pair, ConcatAttrs(axis))[0]

    def c2f(self, x: Tensor, channels: int, depth: int, shortcut: bool) -> Tensor:
        """Two halves, one of them through `depth` bottlenecks, everything joined."""
        half = channels // 2
        y = self.block(x, channels, 1)
        shape = (*y.shape[:3], half)
        parts = self.node("split", (y,), [shape, shape], POST, SplitAttrs(3, (half, half)))
        for _ in range(depth):
            z = self.block(self.block(parts[-1], half, 3), half, 3)
            if shortcut:
                z = self.node("add", (parts[-1], z), [z.shape], POST, ElementwiseAttrs())[0]
            parts.append(z)
        return self.block(self.concat(parts), channels, 1)

    def sppf(self, x: Tensor, channels: int) -> Tensor:
        """Three maxima of 5x5 in a row, everything joined."""
        parts = [self.block(x, channels // 2, 1)]
        attrs = PoolAttrs(kernel=(5, 5), padding=(2, 2, 2, 2))
        for _ in range(3):
            parts += self.node("max_pool2d", (parts[-1],), [parts[-1].shape], POST, attrs)
        return self.block(self.concat(parts), channels, 1)

    def doubled(self, x: Tensor) -> Tensor:
        sides = (x.shape[1] * 2, x.shape[2] * 2)
        attrs = ResizeAttrs(sides, ResizeMode.NEAREST, CoordinateMode.ASYMMETRIC)
        return self.node("resize", (x,), [(1, *sides, x.shape[3])], POST, attrs)[0]

    def reshaped(self, x: Tensor, shape: tuple[int, ...], quant: tuple[float, int]) -> Tensor:
        return self.node("reshape", (x,), [shape], quant, ReshapeAttrs(shape))[0]

    def head(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Distances of the four sides as distributions, and class scores, a line a cell."""
        cells = x.shape[1] * x.shape[2]
        sides = self.conv(self.block(self.block(x, 64, 3), 64, 3), 4 * BINS, 1)
        scores = self.conv(self.block(self.block(x, CLASSES, 3), CLASSES, 3), CLASSES, 1)
        return (
            self.reshaped(sides, (1, cells, 4 * BINS), PRE),
            self.reshaped(scores, (1, cells, CLASSES), PRE),
        )


def detector(side: int = 640) -> Graph:
    """The detector for pictures of side x side x 3, a multiple of 32.

    Outputs: (1, cells, 4) distances in cells and (1, cells, 80) scores of all three scales.
    """
    b = _Builder()
    x = b.tensor("image", (1, side, side, 3), (0.03, 0))
    y = b.c2f(b.block(b.block(x, 16, 3, 2), 32, 3, 2), 32, 1, True)
    p3 = b.c2f(b.block(y, 64, 3, 2), 64, 2, True)
    p4 = b.c2f(b.block(p3, 128, 3, 2), 128, 2, True)
    p5 = b.sppf(b.c2f(b.block(p4, 256, 3, 2), 256, 1, True), 256)
    n4 = b.c2f(b.concat([b.doubled(p5), p4]), 128, 1, False)
    n3 = b.c2f(b.concat([b.doubled(n4), p3]), 64, 1, False)
    m4 = b.c2f(b.concat([b.block(n3, 64, 3, 2), n4]), 128, 1, False)
    m5 = b.c2f(b.concat([b.block(m4, 128, 3, 2), p5]), 256, 1, False)
    heads = [b.head(scale) for scale in (n3, m4, m5)]
    sides = b.concat([pair[0] for pair in heads], 1)
    scores = b.concat([pair[1] for pair in heads], 1)
    cells = sides.shape[1]
    bins = b.reshaped(sides, (1, 4 * cells, 1, BINS), PRE)
    likely = b.node("softmax", (bins,), [bins.shape], UNIT, SoftmaxAttrs(3))[0]
    means = Tensor("bins", (1, 1, 1, BINS), DType.INT8, Quantization.per_tensor(1.0, 0),
                   np.arange(BINS, dtype=np.int8).reshape(1, 1, 1, BINS))  # fmt: skip
    b.tensors[means.name] = means
    quant = (BINS / 256, -128)
    mean = b.node("conv2d", (likely, means), [(1, 4 * cells, 1, 1)], quant, ConvAttrs())[0]
    boxes = b.reshaped(mean, (1, cells, 4), quant)
    found = b.node("logistic", (scores,), [scores.shape], UNIT)[0]
    graph = Graph(
        f"yolov8n_shapes_{side}", b.tensors, tuple(b.nodes), ("image",), (boxes.name, found.name)
    )
    verify(graph)
    return graph

"""Small float networks with random weights, for tests of quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from npuforge.exporters import Format, convert
from npuforge.graph import (
    Attrs,
    ConcatAttrs,
    ConvAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    Graph,
    NoAttrs,
    Node,
    PadAttrs,
    PoolAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    SoftmaxAttrs,
    Tensor,
    schema,
    verify,
)
from npuforge.vocab import Activation, Contract, DType

EXACT = {"reshape", "concat", "pad", "slice", "transpose"}


class Net:
    """Builds a float graph node by node."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors = {"x": Tensor("x", tuple(shape), DType.FLOAT32)}
        self.nodes: list[Node] = []

    def constant(self, values: object) -> str:
        name = f"c{len(self.tensors)}"
        data = np.ascontiguousarray(np.asarray(values, np.float32))
        self.tensors[name] = Tensor(name, data.shape, DType.FLOAT32, None, data)
        return name

    def add(self, op: str, *inputs: str, attrs: Attrs | None = None) -> str:
        attrs = attrs or NoAttrs()
        shape = schema(op).infer([self.tensors[n] for n in inputs], attrs)[0]
        name = f"t{len(self.nodes)}_{op}"
        self.tensors[name] = Tensor(name, shape, DType.FLOAT32)
        contract = Contract.EXACT if op in EXACT else Contract.FLOAT32
        self.nodes.append(Node(name, op, inputs, (name,), attrs, contract))
        return name

    def conv(self, x: str, channels: int, k: int = 3, stride: int = 1,
             act: Activation = Activation.RELU, spread: float = 1.0) -> str:  # fmt: skip
        """`spread`: ratio of the largest to the smallest channel of weights."""
        cin = self.tensors[x].shape[3]
        w = self.rng.normal(size=(channels, k, k, cin)) / np.sqrt(k * k * cin)
        gains = np.geomspace(1.0, spread, channels)
        pad = k // 2
        attrs = ConvAttrs((stride, stride), (1, 1), (pad, pad, pad, pad), act)
        bias = self.rng.normal(size=channels) * 0.1 * gains
        names = (self.constant(w * gains[:, None, None, None]), self.constant(bias))
        return self.add("conv2d", x, *names, attrs=attrs)

    def depthwise(self, x: str, act: Activation = Activation.RELU6, spread: float = 1.0) -> str:
        c = self.tensors[x].shape[3]
        gains = np.geomspace(1.0, spread, c)
        w = self.rng.normal(size=(1, 3, 3, c)) / 3 * gains
        attrs = ConvAttrs((1, 1), (1, 1), (1, 1, 1, 1), act)
        names = (self.constant(w), self.constant(self.rng.normal(size=c) * 0.1 * gains))
        return self.add("depthwise_conv2d", x, *names, attrs=attrs)

    def dense(self, x: str, outputs: int, act: Activation = Activation.NONE) -> str:
        depth = self.tensors[x].shape[-1]
        w = self.rng.normal(size=(outputs, depth)) / np.sqrt(depth)
        names = (self.constant(w), self.constant(self.rng.normal(size=outputs) * 0.1))
        return self.add("fully_connected", x, *names, attrs=FullyConnectedAttrs(act))

    def flat(self, x: str) -> str:
        size = int(np.prod(self.tensors[x].shape))
        return self.add("reshape", x, attrs=ReshapeAttrs((1, size)))

    def graph(self, *outputs: str) -> Graph:
        made = Graph("net", self.tensors, tuple(self.nodes), ("x",), outputs, "tflite")
        verify(made)
        return made


def small_network(seed: int = 0, side: int = 16) -> Graph:
    """Convolutions, a residual sum, pools, padding, concat, softmax."""
    net = Net((1, side, side, 3), seed)
    a = net.conv("x", 8, stride=2)
    b = net.depthwise(a)
    c = net.conv(b, 8, 1, act=Activation.NONE)
    d = net.add("add", a, c, attrs=ElementwiseAttrs())
    e = net.add("max_pool2d", d, attrs=PoolAttrs((2, 2), (2, 2)))
    f = net.conv(e, 8, 3, act=Activation.NONE)
    swish = net.add("mul", f, net.add("logistic", f), attrs=ElementwiseAttrs())
    g = net.add("concat", swish, e, attrs=ConcatAttrs(3))
    h = net.add("pad", g, attrs=PadAttrs((0, 1, 1, 0), (0, 1, 1, 0)))
    i = net.add("average_pool2d", h, attrs=PoolAttrs((2, 2), (2, 2)))
    j = net.add("mean", i, attrs=ReduceAttrs((1, 2)))
    return net.graph(net.add("softmax", net.dense(j, 5), attrs=SoftmaxAttrs(1)))


def write_float(graph: Graph, path: Path) -> Path:
    """The network as a TFLite file."""
    path.write_bytes(convert(graph, Format.TFLITE).content)
    return path


def write_samples(graph: Graph, path: Path, count: int = 6, seed: int = 1) -> Path:
    """Random samples of the network's inputs, classes 0..4 beside them."""
    rng = np.random.default_rng(seed)
    arrays = {
        name: rng.normal(size=(count, *graph.tensors[name].shape)).astype(np.float32)
        for name in graph.inputs
    }
    np.savez(path, labels=rng.integers(0, 5, count), **arrays)
    return path

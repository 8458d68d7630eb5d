"""Small float networks with random weights, for tests of quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from npuforge.numerics import Executor
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

    def layer(self, output: str) -> Node:
        """The node that makes a tensor."""
        return next(node for node in self.nodes if node.outputs[0] == output)

    def replaced(self, name: str, values: np.ndarray) -> None:
        """Give a constant other values."""
        data = np.ascontiguousarray(values, np.float32)
        self.tensors[name] = replace(self.tensors[name], data=data)

    def scaled(self, name: str, factors: np.ndarray) -> None:
        """Multiply a constant."""
        self.replaced(name, self.tensors[name].array * factors)

    def only(self, output: str, channel: int, source: int, bias: float = 0.0) -> None:
        """Make a channel of a convolution the local mean of one of its input's channels."""
        w, b = (str(name) for name in self.layer(output).inputs[1:3])
        weights, biases = self.tensors[w].array.copy(), self.tensors[b].array.copy()
        weights[channel] = 0
        weights[channel, :, :, source] = 1 / weights[0, :, :, 0].size
        biases[channel] = bias
        self.replaced(w, weights)
        self.replaced(b, biases)

    def spread(self, first: str, second: str, factors: np.ndarray) -> None:
        """Make channels between two convolutions unlike; the function stays the same."""
        node = self.layer(first)
        self.scaled(str(node.inputs[1]), factors[:, None, None, None])
        self.scaled(str(node.inputs[2]), factors)
        self.scaled(str(self.layer(second).inputs[1]), 1 / factors)

    def values(self, name: str, inputs: np.ndarray) -> np.ndarray:
        """A tensor for each of several inputs."""
        executor = Executor(self.graph(name))
        return np.stack([executor.run({"x": x[None]})[name] for x in inputs])

    def unit_variance(self, layer: str, inputs: np.ndarray) -> None:
        """Centre and scale a dense layer's outputs over some inputs."""
        rows = self.values(layer, inputs).reshape(len(inputs), -1)
        node = self.layer(layer)
        factors = 1 / rows.std(axis=0)
        self.scaled(str(node.inputs[1]), factors[:, None])
        bias = str(node.inputs[2])
        self.replaced(bias, (self.tensors[bias].array - rows.mean(axis=0)) * factors)

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


@dataclass(frozen=True, eq=False)
class Task:
    """A classifier with labelled samples."""

    graph: Graph
    inputs: np.ndarray
    labels: np.ndarray

    def write(self, path: Path, begin: int, end: int) -> Path:
        """Some of the samples as a file."""
        np.savez(path, x=self.inputs[begin:end, None], labels=self.labels[begin:end])
        return path


def classifier(hard: bool, count: int = 360, seed: int = 0) -> Task:
    """Two convolutions and a tanh layer with random weights, and a trained last layer.

    Hard: the channels between the convolutions differ by up to 1:2000 (the network computes the
    same, as a ReLU lets factors through), and one sample in forty is so bright that it drives the
    tanh layer to values hundreds of times larger than those it tells apart.
    """
    rng = np.random.default_rng(seed)
    net = Net((1, 12, 12, 3), seed)
    labels = rng.integers(0, 6, count)
    prototypes = rng.normal(size=(6, 12, 12, 3))
    inputs = (prototypes[labels] + rng.normal(size=(count, 12, 12, 3))).astype(np.float32)
    inputs[::40, :, :, 2] += 4.0
    a = net.conv("x", 16)
    b = net.conv(a, 24, stride=2)
    c = net.flat(net.add("mean", b, attrs=ReduceAttrs((1, 2))))
    d = net.dense(c, 48)
    net.only(a, 15, 2, bias=-2.5)
    net.only(b, 23, 15)
    features = net.add("tanh", d)
    net.unit_variance(d, inputs)
    if hard:
        net.spread(a, b, np.geomspace(1, 1 / 2000, 16))
        gains = np.ones((1, 24))
        gains[0, 23] = 2000.0
        net.scaled(str(net.layer(d).inputs[1]), gains)
    rows = net.values(features, inputs).reshape(count, -1)
    rows = np.concatenate([rows, np.ones((count, 1))], axis=1)
    target = np.eye(6)[labels]
    weights = np.linalg.solve(rows.T @ rows + 0.03 * np.eye(rows.shape[1]), rows.T @ target)
    names = (net.constant(weights[:-1].T), net.constant(weights[-1]))
    logits = net.add("fully_connected", features, *names, attrs=FullyConnectedAttrs())
    return Task(net.graph(logits), inputs, labels)

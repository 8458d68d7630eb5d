"""A digit classifier trained with numpy alone: two strided convolutions and a dense layer."""

from __future__ import annotations

import numpy as np

from npuforge.graph import (
    Array,
    Attrs,
    ConvAttrs,
    FullyConnectedAttrs,
    Graph,
    Node,
    ReshapeAttrs,
    SoftmaxAttrs,
    Tensor,
    schema,
    verify,
)
from npuforge.graph.attrs import NO_ATTRS
from npuforge.vocab import Activation, Contract, DType

CHANNELS = (12, 24)
EPOCHS = 8
BATCH = 50
RATE = 2e-3
PADDING = (1, 1, 1, 1)


def _patches(x: Array) -> Array:
    """3x3 patches at stride 2 with padding 1: [n, rows, columns, 9 * channels]."""
    n, h, w, c = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows, columns = (h + 1) // 2, (w + 1) // 2
    parts = [
        padded[:, i : i + 2 * rows - 1 : 2, j : j + 2 * columns - 1 : 2]
        for i in range(3)
        for j in range(3)
    ]
    return np.stack(parts, 3).reshape(n, rows, columns, 9 * c)


def _spread(patches: Array, shape: tuple[int, ...]) -> Array:
    """The transpose of `_patches`: gradients of patches added up where they overlap."""
    n, h, w, c = shape
    _, rows, columns, _ = patches.shape
    parts = patches.reshape(n, rows, columns, 9, c)
    padded = np.zeros((n, h + 2, w + 2, c), patches.dtype)
    for k in range(9):
        i, j = divmod(k, 3)
        padded[:, i : i + 2 * rows - 1 : 2, j : j + 2 * columns - 1 : 2] += parts[:, :, :, k]
    return padded[:, 1:-1, 1:-1]


def digit_classifier(images: Array, labels: Array, seed: int = 0) -> Graph:
    """Train on images [n, 28, 28, 1] with values 0..1 and classes 0..9 (Adam, cross entropy)."""
    rng = np.random.default_rng(seed)
    sizes = [(9, CHANNELS[0]), (9 * CHANNELS[0], CHANNELS[1]), (49 * CHANNELS[1], 10)]
    weights = [(rng.normal(size=s) * np.sqrt(2 / s[0])).astype(np.float32) for s in sizes]
    values = [*weights, *(np.zeros(s[1], np.float32) for s in sizes)]
    first = [np.zeros_like(v) for v in values]
    second = [np.zeros_like(v) for v in values]
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            step += 1
            slopes = _gradients(values, images[chosen], labels[chosen])
            for k, slope in enumerate(slopes):
                first[k] = 0.9 * first[k] + 0.1 * slope
                second[k] = 0.999 * second[k] + 0.001 * slope**2
                size = np.sqrt(second[k] / np.float32(1 - 0.999**step)) + np.float32(1e-7)
                values[k] = values[k] - np.float32(RATE / (1 - 0.9**step)) * first[k] / size
    return _graph(values)


def _gradients(values: list[Array], x: Array, labels: Array) -> list[Array]:
    w1, w2, w3, b1, b2, b3 = values
    p1 = _patches(x)
    a1 = np.maximum(p1 @ w1 + b1, 0)
    p2 = _patches(a1)
    a2 = np.maximum(p2 @ w2 + b2, 0)
    flat = a2.reshape(len(x), -1)
    scores = flat @ w3 + b3
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    d3 = (e / e.sum(axis=1, keepdims=True) - np.eye(10, dtype=np.float32)[labels]) / len(x)
    d2 = (d3 @ w3.T).reshape(a2.shape) * (a2 > 0)
    d1 = _spread(d2 @ w2.T, a1.shape) * (a1 > 0)
    return [
        np.tensordot(p1, d1, ([0, 1, 2], [0, 1, 2])),
        np.tensordot(p2, d2, ([0, 1, 2], [0, 1, 2])),
        flat.T @ d3,
        d1.sum((0, 1, 2)),
        d2.sum((0, 1, 2)),
        d3.sum(0),
    ]


def _graph(values: list[Array]) -> Graph:
    w1, w2, w3, b1, b2, b3 = (v.astype(np.float32) for v in values)
    tensors = {"x": Tensor("x", (1, 28, 28, 1), DType.FLOAT32)}
    nodes: list[Node] = []

    def constant(name: str, data: Array) -> str:
        data = np.ascontiguousarray(data)
        tensors[name] = Tensor(name, data.shape, DType.FLOAT32, None, data)
        return name

    def add(name: str, op: str, inputs: tuple[str, ...], attrs: Attrs = NO_ATTRS) -> str:
        shape = schema(op).infer([tensors[n] for n in inputs], attrs)[0]
        tensors[name] = Tensor(name, shape, DType.FLOAT32)
        contract = Contract.EXACT if op == "reshape" else Contract.FLOAT32
        nodes.append(Node(name, op, inputs, (name,), attrs, contract))
        return name

    def convolution(name: str, x: str, w: Array, b: Array) -> str:
        shaped = w.reshape(3, 3, -1, w.shape[1]).transpose(3, 0, 1, 2)
        inputs = (x, constant(f"{name}/w", shaped), constant(f"{name}/b", b))
        return add(name, "conv2d", inputs, ConvAttrs((2, 2), (1, 1), PADDING, Activation.RELU))

    y = convolution("conv2", convolution("conv1", "x", w1, b1), w2, b2)
    y = add("flat", "reshape", (y,), ReshapeAttrs((1, 49 * CHANNELS[1])))
    inputs = (y, constant("dense/w", w3.T), constant("dense/b", b3))
    y = add("dense", "fully_connected", inputs, FullyConnectedAttrs())
    y = add("softmax", "softmax", (y,), SoftmaxAttrs(1))
    made = Graph("digits", tensors, tuple(nodes), ("x",), (y,), "tflite")
    verify(made)
    return made

"""What layers read, as far as rounding and biases need it: means, peaks and second moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, ConvAttrs, Graph, Node
from npuforge.quantize.capable import WEIGHTED
from npuforge.quantize.engines import OwnEngine
from npuforge.tasks import Dataset

Double = npt.NDArray[np.float64]
MOST_DEPTH = 1600
"""Largest number of weights of one output that second moments are kept for (memory: its square)."""
PATCHES = 128
"""Positions of one sample that go into the second moments."""


@dataclass(frozen=True, eq=False)
class LayerInput:
    """What one layer read over all samples.

    Attributes:
        mean: mean of each weight's input, in the weights' order, [depth]; depthwise: [taps,
            channels].
        peaks: largest magnitude of each input channel.
        moment: mean of the products of inputs, [depth, depth]; depthwise: [channels, taps, taps];
            None where there are too many, the layer has groups, or none were wanted.
    """

    mean: Double
    peaks: Double
    moment: Double | None


def layer_inputs(graph: Graph, data: Dataset, *, moments: bool = True) -> dict[str, LayerInput]:
    """Statistics of every convolution, depthwise convolution and dense layer, by node name.

    Args:
        graph: prepared float graph.
        data: calibration samples.
        moments: whether second moments are wanted: rounding needs them, biases do not.
    """
    layers = [node for node in graph.nodes if _is_taken(graph, node)]
    wanted = list(dict.fromkeys(str(node.inputs[0]) for node in layers))
    engine = OwnEngine(graph, wanted)
    sums: dict[str, list[Double | None]] = {}
    peaks: dict[str, Double] = {}
    for number, sample in enumerate(data):
        values = dict(engine.tensors(sample.inputs))
        for node in layers:
            x = values[str(node.inputs[0])]
            high = np.abs(x).reshape(-1, x.shape[-1]).max(axis=0).astype(np.float64)
            peaks[node.name] = np.maximum(peaks.get(node.name, high), high)
            found = _moments(graph, node, x, np.random.default_rng(number), moments)
            sums[node.name] = _added(sums.get(node.name), found)
    count = max(len(data), 1)
    return {
        node.name: LayerInput(
            _scaled(sums[node.name][0], count),
            peaks[node.name],
            None if sums[node.name][1] is None else _scaled(sums[node.name][1], count),
        )
        for node in layers
        if node.name in sums
    }


def _is_taken(graph: Graph, node: Node) -> bool:
    if node.op not in WEIGHTED or node.op == "transpose_conv2d":
        return False
    return graph.tensor(node.inputs[1]).is_constant


def _scaled(total: Double | None, count: int) -> Double:
    assert total is not None
    return total / count


def _added(
    old: list[Double | None] | None, new: tuple[Double, Double | None]
) -> list[Double | None]:
    if old is None:
        return list(new)
    return [None if a is None or b is None else a + b for a, b in zip(old, new, strict=True)]


def _moments(
    graph: Graph, node: Node, x: Array, rng: np.random.Generator, wanted: bool
) -> tuple[Double, Double | None]:
    """Mean of the patches of one sample, and of their products where these are wanted."""
    if node.op == "fully_connected":
        rows = x.reshape(-1, graph.tensor(node.inputs[1]).shape[1]).astype(np.float64)
        few = wanted and rows.shape[1] <= MOST_DEPTH
        return rows.mean(axis=0), rows.T @ rows / len(rows) if few else None
    patches = sampled_patches(graph, node, x, rng)
    n, kh, kw, c = patches.shape
    if node.op == "depthwise_conv2d":
        taps = patches.reshape(n, kh * kw, c)
        moment = np.einsum("nac,nbc->cab", taps, taps) / n if wanted else None
        return taps.mean(axis=0), moment
    rows = patches.reshape(n, kh * kw * c)
    assert isinstance(node.attrs, ConvAttrs)
    few = wanted and rows.shape[1] <= MOST_DEPTH and node.attrs.groups == 1
    return rows.mean(axis=0), rows.T @ rows / n if few else None


def sampled_patches(graph: Graph, node: Node, x: Array, rng: np.random.Generator) -> Double:
    """Input patches [n, rows, columns, channels] at random output positions, padding as zeros."""
    attrs = node.attrs
    assert isinstance(attrs, ConvAttrs)
    w = graph.tensor(node.inputs[1])
    y = graph.tensors[node.outputs[0]]
    kh, kw = w.shape[1], w.shape[2]
    top, bottom, left, right = attrs.padding
    padded = np.pad(x[0].astype(np.float64), ((top, bottom), (left, right), (0, 0)))
    total = y.shape[1] * y.shape[2]
    chosen = np.arange(total) if total <= PATCHES else rng.choice(total, PATCHES, replace=False)
    rows = (chosen // y.shape[2]) * attrs.stride[0]
    columns = (chosen % y.shape[2]) * attrs.stride[1]
    i = rows[:, None, None] + (np.arange(kh) * attrs.dilation[0])[None, :, None]
    j = columns[:, None, None] + (np.arange(kw) * attrs.dilation[1])[None, None, :]
    return np.asarray(padded[i, j])


def mean_error(node: Node, statistics: LayerInput, error: Double) -> Double:
    """Mean change of each output when the weights change by `error` (the weights' own shape)."""
    if node.op == "depthwise_conv2d":
        taps = error.reshape(-1, error.shape[3])
        c = statistics.mean.shape[1]
        spread = np.repeat(statistics.mean, error.shape[3] // c, axis=1)
        return np.asarray((taps * spread).sum(axis=0))
    flat = error.reshape(error.shape[0], -1)
    if flat.shape[1] != statistics.mean.size:
        return np.zeros(error.shape[0])  # grouped convolution
    return np.asarray(flat @ statistics.mean)


Statistics = Mapping[str, LayerInput]

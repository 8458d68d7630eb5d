"""Channels of unlike size made alike, across two layers: what leaves one is scaled in the other.

Positive factors pass through ReLU. Factors balance the size of each channel between the layers with
one scale for all of them and the weights that read it (Nagel et al., "Data-free quantization
through weight equalization and bias correction", 2019), with sizes of channels that were observed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from npuforge.graph import (
    ConvAttrs,
    FullyConnectedAttrs,
    Graph,
    Names,
    Node,
    PoolAttrs,
    ReduceAttrs,
    Tensor,
)
from npuforge.passes import CHANNEL_AXIS
from npuforge.passes.framework import pruned, sole_reader
from npuforge.quantize.capable import WEIGHTED
from npuforge.quantize.statistics import Statistics
from npuforge.quantize.weights import along
from npuforge.vocab import Activation

Double = npt.NDArray[np.float64]
MOST = 1e4
"""Largest factor, and one over the smallest."""


def equalised(graph: Graph, statistics: Statistics) -> tuple[Graph, tuple[str, ...]]:
    """The network with factors moved across pairs of layers, and the tensors that changed.

    Args:
        graph: prepared float graph.
        statistics: of the layers' inputs.
    """
    changed = []
    for name in [node.name for node in graph.nodes]:
        second = next(node for node in graph.nodes if node.name == name)
        first = _first(graph, second)
        if first is None or name not in statistics:
            continue
        peaks = statistics[name].peaks
        factors = _factors(peaks, _reader_peaks(graph, second, peaks.size))
        if np.allclose(factors, 1.0, rtol=0.01):
            continue
        graph = _moved(graph, first, second, factors)
        changed.append(first.outputs[0])
    return graph, tuple(changed)


def _first(graph: Graph, second: Node) -> Node | None:
    """The layer in front whose output only `second` reads, linear up to ReLU; pools, means and
    reshapes of single positions may stand in between."""
    if second.op not in ("conv2d", "depthwise_conv2d", "fully_connected"):
        return None
    source = str(second.inputs[0])
    first = graph.producers.get(source)
    while first is not None and _lets_through(graph, first):
        if sole_reader(graph, source) is None:
            return None
        source = str(first.inputs[0])
        first = graph.producers.get(source)
    if first is None or first.op not in WEIGHTED or first.op == "transpose_conv2d":
        return None
    attrs = (first.attrs, second.attrs)
    if sole_reader(graph, source) is None or any(
        isinstance(a, ConvAttrs) and a.groups > 1 for a in attrs
    ):
        return None
    assert isinstance(first.attrs, ConvAttrs | FullyConnectedAttrs)
    if first.attrs.activation not in (Activation.NONE, Activation.RELU):
        return None
    channels = graph.tensors[source].shape[-1]
    if second.op == "fully_connected" and graph.tensor(second.inputs[1]).shape[1] != channels:
        return None
    weights = graph.tensor(first.inputs[1]), graph.tensor(second.inputs[1])
    return first if all(w.is_constant for w in weights) else None


def _lets_through(graph: Graph, node: Node) -> bool:
    """Whether a factor of a channel in front of a node is that factor of the channel behind it."""
    source, made = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
    channels = source.shape[-1] if source.shape else 0
    if not made.shape or made.shape[-1] != channels:
        return False
    if isinstance(node.attrs, PoolAttrs):
        return node.attrs.activation in (Activation.NONE, Activation.RELU)
    if isinstance(node.attrs, ReduceAttrs):
        axes = {axis % len(source.shape) for axis in node.attrs.axes}
        return node.op == "mean" and len(source.shape) - 1 not in axes
    # a vector of channels in another rank; of several positions the order could change
    return node.op == "reshape" and source.size == channels


def _reader_peaks(graph: Graph, node: Node, channels: int) -> Double:
    """Largest weight that reads each input channel, relative to the largest of its output."""
    w = np.abs(graph.tensor(node.inputs[1]).array.astype(np.float64))
    if node.op == "depthwise_conv2d":
        return np.ones(channels)  # each has an output, and with it a scale, of its own
    rows = w.reshape(w.shape[0], -1, channels)
    largest = np.maximum(rows.max(axis=(1, 2), keepdims=True), 1e-30)
    return np.asarray((rows / largest).max(axis=(0, 1)))


def _factors(peaks: Double, readers: Double) -> Double:
    """Factor of each channel of the tensor in between; their geometric mean keeps its size."""
    live = (peaks > 0) & (readers > 0)
    factors = np.ones_like(peaks)
    if not live.any():
        return factors
    balance = np.sqrt(readers[live] / peaks[live])
    largest = float(peaks[live].max())
    balance *= largest / float((balance * peaks[live]).max())
    factors[live] = np.clip(balance, 1 / MOST, MOST)
    return factors


def _moved(graph: Graph, first: Node, second: Node, factors: Double) -> Graph:
    names = Names(graph.tensors)
    tensors = dict(graph.tensors)

    def constant(old: Tensor, data: Double) -> str:
        name = names.fresh(f"{old.name}/equalised")
        tensors[name] = replace(old, name=name, data=np.ascontiguousarray(data, np.float32))
        return name

    def real(tensor: Tensor) -> Double:
        return tensor.array.astype(np.float64)

    w1, w2 = graph.tensor(first.inputs[1]), graph.tensor(second.inputs[1])
    scaled = real(w1) * along(factors, w1.array.ndim, CHANNEL_AXIS[first.op])
    inputs1 = [first.inputs[0], constant(w1, scaled)]
    if len(first.inputs) > 2 and first.inputs[2] is not None:
        bias = graph.tensors[first.inputs[2]]
        inputs1.append(constant(bias, real(bias).reshape(-1) * factors))
    by = factors  # weights have what they read in their last axis
    if second.op == "depthwise_conv2d":
        by = np.repeat(factors, w2.shape[3] // factors.size)
    inputs2 = [second.inputs[0], constant(w2, real(w2) / by), *second.inputs[2:]]
    changed = {
        first.name: replace(first, inputs=tuple(inputs1)),
        second.name: replace(second, inputs=tuple(inputs2)),
    }
    return pruned(graph.with_nodes((changed.get(n.name, n) for n in graph.nodes), tensors))

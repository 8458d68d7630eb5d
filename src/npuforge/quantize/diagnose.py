"""Why a network is hard to quantise: tensors that one scale cannot serve, with figures.

Channels of unlike size that share one scale leave small ones few levels; so do rare large values
for all others, values far beyond what the readers tell apart, and, among weights, inputs whose
weights are small beside those of other inputs of the same output.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from npuforge.graph import Graph
from npuforge.passes import CHANNEL_AXIS
from npuforge.quantize.calibrate import Calibration
from npuforge.quantize.capable import WEIGHTED
from npuforge.quantize.ranges import LEVELS
from npuforge.quantize.saturate import told_apart
from npuforge.quantize.statistics import Statistics
from npuforge.quantize.weights import along, weight_peaks

SPREAD = 16.0
"""Ratio of the largest channel to the median one from which small channels have less than 4 of 8
bits (a channel 16 times smaller than the range has 255/16 levels)."""
OUTLIERS = 8.0
"""Ratio of the whole range to the one that holds 99.9 % of the values, likewise 3 bits lost."""
KEPT = 0.999
"""Share of the values of an inner range."""
WEIGHT_LEVELS = 127.0
"""Levels on one side of zero that 8-bit weights have."""


class Cause(StrEnum):
    """What is wrong with a tensor; the key of its sentence."""

    SPREAD = "QNS-spread"
    OUTLIERS = "QNS-outliers"
    SATURATES = "QNS-saturates"
    WEIGHTS = "QNS-weights"


@dataclass(frozen=True)
class Diagnosis:
    """One tensor that is hard to represent.

    Attributes:
        cause: what is wrong.
        tensor: the tensor.
        node: the node that makes it, or that reads it where it is an input or weights.
        ratio: of what sets the scale to what is to be told apart.
        levels: how many levels (of 255; weights: of 127) what is small has under min-max.
    """

    cause: Cause
    tensor: str
    node: str
    ratio: float
    levels: float


def diagnoses(
    graph: Graph, calibration: Calibration, statistics: Statistics
) -> tuple[Diagnosis, ...]:
    """Tensors that min-max ranges serve badly, the worst first.

    Args:
        graph: prepared float graph.
        calibration: with histograms.
        statistics: of the layers' inputs; empty: unlike channels are not looked for.
    """
    found = [
        *_spread(graph, statistics),
        *_outliers(graph, calibration),
        *_saturating(graph, calibration),
        *_weights(graph),
    ]
    return tuple(sorted(found, key=lambda item: (-item.ratio, item.tensor)))


def _spread(graph: Graph, statistics: Statistics) -> list[Diagnosis]:
    found: dict[str, Diagnosis] = {}
    for node in graph.nodes:
        if node.name not in statistics:
            continue
        peaks = statistics[node.name].peaks
        live = peaks[peaks > 0]
        if live.size < 2:
            continue
        ratio = float(live.max() / np.median(live))
        if ratio >= SPREAD:
            name = str(node.inputs[0])
            found[name] = Diagnosis(Cause.SPREAD, name, _maker(graph, name), ratio, LEVELS / ratio)
    return list(found.values())


def _outliers(graph: Graph, calibration: Calibration) -> list[Diagnosis]:
    found = []
    for name, observer in calibration.observers.items():
        if observer.histogram is None or name not in graph.tensors:
            continue
        points, counts = observer.histogram.points()
        total = np.cumsum(counts)
        if points.size < 2:
            continue
        outside = (1.0 - KEPT) / 2.0 * total[-1]
        low = min(float(points[np.searchsorted(total, outside)]), 0.0)
        at = min(int(np.searchsorted(total, total[-1] - outside)), points.size - 1)
        high = max(float(points[at]), 0.0)
        whole = max(observer.high, 0.0) - min(observer.low, 0.0)
        if high > low and whole / (high - low) >= OUTLIERS:
            ratio = whole / (high - low)
            found.append(
                Diagnosis(Cause.OUTLIERS, name, _maker(graph, name), ratio, LEVELS / ratio)
            )
    return found


def _saturating(graph: Graph, calibration: Calibration) -> list[Diagnosis]:
    """Tensors that reach much further than any reader's curve does."""
    found = []
    for name, observer in calibration.observers.items():
        useful = told_apart(graph, name) if name in graph.tensors else None
        if useful is None:
            continue
        low, high = min(observer.low, 0.0), max(observer.high, 0.0)
        width = min(high, useful.high) - max(low, useful.low)
        if width > 0 and (high - low) / width >= OUTLIERS:
            ratio = (high - low) / width
            node = graph.consumers[name][0].name
            found.append(Diagnosis(Cause.SATURATES, name, node, ratio, LEVELS / ratio))
    return found


def _weights(graph: Graph) -> list[Diagnosis]:
    """Layers in which the weights of most inputs are small beside those of others."""
    found = []
    for node in graph.nodes:
        if node.op not in WEIGHTED or node.op in ("depthwise_conv2d", "transpose_conv2d"):
            continue  # what reads one input has a scale of its own
        w = graph.tensor(node.inputs[1])
        if w.data is None:
            continue
        axis = CHANNEL_AXIS[node.op]
        peaks = np.maximum(weight_peaks(w.array, axis, True), 1e-30)
        relative = np.abs(w.array.astype(np.float64)) / along(peaks, w.array.ndim, axis)
        by_input = relative.reshape(-1, relative.shape[-1]).max(axis=0)
        live = by_input[by_input > 0]
        if live.size < 2:
            continue
        ratio = 1.0 / float(np.median(live))
        if ratio >= SPREAD:
            levels = WEIGHT_LEVELS / ratio
            found.append(Diagnosis(Cause.WEIGHTS, w.name, node.name, ratio, levels))
    return found


def _maker(graph: Graph, tensor: str) -> str:
    node = graph.producers.get(tensor)
    if node is not None:
        return node.name
    readers = graph.consumers.get(tensor, ())
    return readers[0].name if readers else ""

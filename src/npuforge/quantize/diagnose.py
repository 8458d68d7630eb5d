"""Why a network is hard to quantise: tensors that one scale cannot serve, with figures.

Two causes ruin 8-bit activations. Channels of unlike size share one scale, so that small ones have
few levels; and rare large values stretch the range, so that all others have few levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from npuforge.graph import Graph
from npuforge.quantize.calibrate import Calibration
from npuforge.quantize.ranges import LEVELS
from npuforge.quantize.statistics import Statistics

SPREAD = 16.0
"""Ratio of the largest channel to the median one from which small channels have less than 4 of 8
bits (a channel 16 times smaller than the range has 255/16 levels)."""
OUTLIERS = 8.0
"""Ratio of the whole range to the one that holds 99.9 % of the values, likewise 3 bits lost."""
KEPT = 0.999
"""Share of the values of an inner range."""


class Cause(StrEnum):
    """What is wrong with a tensor; the key of its sentence."""

    SPREAD = "QNS-spread"
    OUTLIERS = "QNS-outliers"


@dataclass(frozen=True)
class Diagnosis:
    """One tensor that is hard to represent.

    Attributes:
        cause: what is wrong.
        tensor: the tensor.
        node: the node that makes it, or that reads it where it is an input.
        ratio: see `SPREAD` and `OUTLIERS`.
        levels: how many of 255 levels what is small has under min-max.
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
    found = [*_spread(graph, statistics), *_outliers(graph, calibration)]
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


def _maker(graph: Graph, tensor: str) -> str:
    node = graph.producers.get(tensor)
    if node is not None:
        return node.name
    readers = graph.consumers.get(tensor, ())
    return readers[0].name if readers else ""



"""What a set of samples looks like, from the outside and from inside of the float network.

One pass over the samples, in which nothing but figures is kept: limits, means and grid of the input
by channel, a fingerprint and a thumbnail a sample, the class it has or the network sees in it, and
the range of every activation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import Graph
from npuforge.quantize.engines import EngineName, float_engine, wanted_tensors
from npuforge.quantize.observe import Histogram, Observer
from npuforge.quantize.score import predicted
from npuforge.tasks import Dataset
from npuforge.tasks.preprocess import image_geometry

Double = npt.NDArray[np.float64]
Tick = Callable[[int, int], None]
THUMB = 8
"""Side of the thumbnails near duplicates are found by."""
MOST_VALUES = 4096
"""Distinct values of a channel above which there is no grid to look for."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Figures of a set of samples.

    Attributes:
        samples: how many.
        labels: class of each, or None where none is known.
        predicted: class the float network sees in each; empty where it names none.
        classes: how many classes the network has; 0 where it names none.
        channels: channels of the first input; 1 where it is no picture.
        means: of each sample by channel, [samples, channels].
        deviations: standard deviation within each sample by channel, likewise.
        low: smallest value of each channel.
        high: largest.
        step: distance of the values' grid by channel; 0 where they lie on none.
        prints: fingerprint of each sample's inputs.
        thumbs: a small version of each first input, of unit length around its mean.
        observers: limits and histograms of every activation, by tensor.
        half: limits of every activation after the first half of the samples.
    """

    samples: int
    labels: tuple[int | None, ...]
    predicted: tuple[int, ...]
    classes: int
    channels: int
    means: Double
    deviations: Double
    low: Double
    high: Double
    step: Double
    prints: tuple[str, ...]
    thumbs: Double
    observers: dict[str, Observer]
    half: dict[str, tuple[float, float]]


def survey(
    graph: Graph,
    data: Dataset,
    *,
    engine: EngineName = EngineName.OWN,
    tick: Tick | None = None,
) -> Survey:
    """Look at every sample once.

    Args:
        graph: prepared float graph.
        data: samples of its inputs.
        engine: who runs it.
        tick: told samples done and samples in all.
    """
    first = graph.tensors[graph.inputs[0]]
    size = image_geometry(first)
    channels = 1 if size is None else size.channels
    wanted = wanted_tensors(graph)
    answer = graph.outputs[0]
    last = graph.tensors[answer].shape
    # rows of rank 3 are candidates of a detector, rank 4 a map: neither names one class a sample
    named = len(last) in (1, 2) and answer in wanted
    runner = float_engine(engine, graph, wanted)
    observers = {name: Observer(histogram=Histogram()) for name in wanted}
    half: dict[str, tuple[float, float]] = {}
    means, deviations, thumbs = [], [], []
    prints, seen = [], []
    grids = [_Grid() for _ in range(channels)]
    for number, sample in enumerate(data):
        if number == max(1, len(data) // 2):
            half = {name: (o.low, o.high) for name, o in observers.items()}
        for name, value in runner.tensors(sample.inputs):
            observers[name].add(np.asarray(value, np.float32))
            if named and name == answer:
                seen.append(predicted(np.asarray(value)))
        values = np.asarray(sample.inputs[first.name], np.float64)
        planes = values[0] if size is not None else values.reshape(-1, 1)
        if size is not None and size.first:
            planes = planes.transpose(1, 2, 0)
        flat = planes.reshape(-1, channels)
        means.append(flat.mean(axis=0))
        deviations.append(flat.std(axis=0))
        for grid, channel in zip(grids, flat.T, strict=True):
            grid.add(channel)
        thumbs.append(_thumb(planes))
        digest = hashlib.sha256()
        for name in graph.inputs:
            digest.update(np.ascontiguousarray(sample.inputs[name]).tobytes())
        prints.append(digest.hexdigest())
        if tick is not None:
            tick(number + 1, len(data))
    return Survey(
        len(data),
        data.labels,
        tuple(seen),
        (max(last[-1], 2) if last else 2) if named else 0,
        channels,
        np.array(means),
        np.array(deviations),
        np.array([grid.low for grid in grids]),
        np.array([grid.high for grid in grids]),
        np.array([grid.step() for grid in grids]),
        tuple(prints),
        np.array(thumbs),
        observers,
        half,
    )


class _Grid:
    """Distinct values of a channel, as long as they are few."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf
        self._values: Double | None = np.zeros(0)

    def add(self, values: Double) -> None:
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))
        if self._values is None:
            return
        self._values = np.union1d(self._values, np.unique(values))
        if self._values.size > MOST_VALUES:
            self._values = None

    def step(self) -> float:
        """The distance all values are multiples of apart; 0 where there is none."""
        values = self._values
        if values is None or values.size < 8:
            return 0.0
        gaps = np.diff(values)
        gaps = gaps[gaps > 1e-5 * (self.high - self.low)]  # rounding of single precision
        if gaps.size < 7:
            return 0.0
        least = float(gaps.min())
        counts = np.rint((values - values[0]) / least)
        # all gaps together fix the step more finely than the least one
        step = float((values[-1] - values[0]) / counts[-1])
        off = np.abs((values - values[0]) / step - np.rint((values - values[0]) / step))
        return step if float(off.max()) < 0.02 else 0.0


def _thumb(planes: Double) -> Double:
    """A few block means of a picture or signal, without its mean, of unit length."""
    if planes.ndim == 3:
        rows, columns = (np.array_split(np.arange(n), THUMB) for n in planes.shape[:2])
        blocks = [
            planes[np.ix_(r, c)].mean(axis=(0, 1))
            for r in rows
            for c in columns
            if r.size and c.size
        ]
    else:
        blocks = [part.mean(axis=0) for part in np.array_split(planes, THUMB * THUMB) if part.size]
    flat = np.concatenate(blocks)
    flat = flat - flat.mean()
    size = float(np.linalg.norm(flat))
    return np.asarray(flat / size) if size else flat

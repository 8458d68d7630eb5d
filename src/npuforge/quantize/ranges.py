"""From what was observed to the range that is represented: one function a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array
from npuforge.quantize.observe import Observer

Double = npt.NDArray[np.float64]

LEVELS = 255
"""Steps of an 8-bit range."""
_CUTS = np.concatenate([np.geomspace(0.01, 0.5, 40), np.linspace(0.52, 1.0, 33)])
"""Shares of the whole range that are tried as ends."""
_ROUNDS = 3
"""Times that both ends may be cut to the smallest share."""


class RangeMethod(StrEnum):
    """How the range of an activation is chosen."""

    MINMAX = "minmax"
    """Everything that was seen."""
    MOVING = "moving"
    """Moving average of each sample's smallest and largest value."""
    PERCENTILE = "percentile"
    """All but the outermost values of both ends."""
    MSE = "mse"
    """The least mean squared error of rounding and clipping together, relative to the sample's
    mean square where that is unusually large."""
    ENTROPY = "entropy"
    """The least information lost (Kullback-Leibler divergence) between the histograms."""


@dataclass(frozen=True)
class Range:
    """Real numbers that a tensor must be able to hold; zero is always among them.

    Attributes:
        low: at most 0.
        high: at least 0.
    """

    low: float
    high: float

    @classmethod
    def of(cls, low: float, high: float) -> Range:
        """A range widened to hold zero."""
        return cls(min(low, 0.0), max(high, 0.0))

    @classmethod
    def of_values(cls, values: Array) -> Range:
        """The smallest range that holds all of an array."""
        return cls(float(values.min(initial=0.0)), float(values.max(initial=0.0)))

    def union(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    @property
    def width(self) -> float:
        """From end to end."""
        return self.high - self.low


def choose_range(observer: Observer, method: RangeMethod, percentile: float = 99.99) -> Range:
    """The range of a tensor by a method.

    Args:
        observer: with a histogram, unless the method needs none.
        method: see `RangeMethod`.
        percentile: share of the values kept by `PERCENTILE`, 0..100.
    """
    if method is RangeMethod.MOVING:
        return Range.of(observer.moving_low, observer.moving_high)
    whole = Range.of(observer.low, observer.high)
    if method is RangeMethod.MINMAX or observer.histogram is None or whole.width == 0.0:
        return whole
    histogram = observer.histogram
    if method is RangeMethod.MSE:
        points, counts = histogram.middles()
        chosen = least_error(points, counts, whole, histogram.width)
        return Range.of(max(chosen.low, whole.low), min(chosen.high, whole.high))
    points, counts = histogram.points()
    if points.size < 2:
        return whole
    chosen = _METHODS[method](points, counts, whole, percentile)
    return Range.of(max(chosen.low, whole.low), min(chosen.high, whole.high))


def _percentile(points: Double, counts: Double, whole: Range, percentile: float) -> Range:
    total = np.cumsum(counts)
    outside = (1.0 - percentile / 100.0) / 2.0
    low = points[np.searchsorted(total, outside * total[-1])] if whole.low < 0 else 0.0
    high = points[min(np.searchsorted(total, (1.0 - outside) * total[-1]), points.size - 1)]
    return Range.of(float(low), float(high))


def least_error(points: Double, counts: Double, whole: Range, width: float) -> Range:
    """The range of least squared error: both ends cut alike first, then each for itself.

    Args:
        points, counts: middles of bins and what lies in them; zeros have no error.
        whole: everything that was seen.
        width: of the bins.
    """
    for _ in range(_ROUNDS):
        lows, highs = whole.low * _CUTS, whole.high * _CUTS
        best = int(np.argmin(squared_errors(points, counts, lows, highs, width)))
        low, high = float(lows[best]), float(highs[best])
        if best:
            break
        whole = Range(low, high)
    for _ in range(2):
        errors = squared_errors(points, counts, np.full(highs.size, low), highs, width)
        high = float(highs[int(np.argmin(errors))])
        if low < 0.0:
            errors = squared_errors(points, counts, lows, np.full(lows.size, high), width)
            low = float(lows[int(np.argmin(errors))])
    return Range.of(low, high)


def squared_errors(
    points: Double, counts: Double, lows: Double, highs: Double, width: float = 0.0
) -> Double:
    """Summed squared error of 8-bit ranges [low, high], one number a candidate.

    Args:
        points, counts: values and how many there are.
        lows, highs: of the candidates.
        width: of bins whose middles the points are; steps finer than that have the mean error of
            rounding, a twelfth of their square, since nothing is known of the values in a bin.
    """
    scale = (highs - lows) / LEVELS
    scale = np.where(scale > 0, scale, 1e-30)[:, None]
    zero = np.rint(-lows[:, None] / scale)
    stored = np.clip(np.rint(points / scale) + zero, 0, LEVELS)
    error = (stored - zero) * scale - points
    square = error * error
    fine = scale[:, 0] < width
    if fine.any():
        inside = (points >= lows[fine, None]) & (points <= highs[fine, None])
        square[fine] = np.where(inside, scale[fine] ** 2 / 12.0, square[fine])
    return np.asarray(square @ counts)


def _entropy(points: Double, counts: Double, whole: Range, percentile: float) -> Range:
    """Both ends cut by the same share; the outside is counted at the ends."""
    best, chosen = np.inf, whole
    for share in _CUTS:
        low, high = whole.low * share, whole.high * share
        lost = divergence(points, counts, float(low), float(high))
        if lost < best:
            best, chosen = lost, Range.of(float(low), float(high))
    return chosen


def divergence(points: Double, counts: Double, low: float, high: float) -> float:
    """Kullback-Leibler divergence of the values and their 8-bit form, in nats.

    Zeros are left out: they are represented exactly, and in most networks they are the majority.
    """
    kept = points != 0
    points, counts = points[kept], counts[kept]
    scale = max((high - low) / LEVELS, 1e-30)
    inside = (points >= low) & (points <= high)
    if not inside.any():
        return float("inf")
    p = counts[inside].copy()
    p[0] += counts[points < low].sum()
    p[-1] += counts[points > high].sum()
    steps = np.clip(np.floor((points[inside] - low) / scale), 0, LEVELS - 1).astype(int)
    mass = np.bincount(steps, counts[inside], LEVELS)
    bins = np.bincount(steps, minlength=LEVELS)
    q = mass[steps] / bins[steps]
    p, q = p / p.sum(), q / q.sum()
    used = p > 0
    return float(np.sum(p[used] * np.log(p[used] / np.maximum(q[used], 1e-30))))


_Method = Callable[[Double, Double, Range, float], Range]
_METHODS: Mapping[RangeMethod, _Method] = {
    RangeMethod.PERCENTILE: _percentile,
    RangeMethod.ENTROPY: _entropy,
}

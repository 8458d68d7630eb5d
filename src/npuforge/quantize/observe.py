"""What is remembered of a tensor's values while samples stream by: limits and a histogram.

The histogram's bins are aligned to zero and double in width when a value falls outside, so that
nothing that has been counted has to be seen again and memory stays fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from npuforge import _native

BINS = 4096
"""Bins of a histogram; at most half of them are unused after the width has doubled."""
MOST_COUNTED = 16384
"""Values of one tensor and sample that go into the histogram; of more, every n-th. Limits are
taken of all."""
TYPICAL = 4.0
"""Mean squares, in units of their geometric mean over the samples, from which on a sample counts
relative to its own: one that a network explodes on must not set the steps of all others."""

Counts = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


@dataclass
class Histogram:
    """Counts of values in bins [i * width, (i + 1) * width), i from `first`.

    Attributes:
        width: of a bin; 0 until a value other than zero was seen.
        first: number of the first bin.
        counts: values in each bin.
        zeros: values that are exactly zero; they are in no bin.
        weighted: the counts with each sample's weight, see `Observer`.
    """

    width: float = 0.0
    first: int = 0
    counts: Counts = field(default_factory=lambda: np.zeros(BINS, np.int64))
    zeros: int = 0
    weighted: Weights = field(default_factory=lambda: np.zeros(BINS))

    def add(
        self, values: npt.NDArray[np.float32], low: float, high: float, weight: float = 1.0
    ) -> None:
        """Count finite values whose limits, or those of what they are a part of, are known."""
        if low == high == 0.0:
            self.zeros += values.size
            return
        self._reach(min(low, 0.0), max(high, 0.0))
        counts = np.zeros(BINS, np.int64)
        values = np.ascontiguousarray(values, np.float32)
        self.zeros += _native.count_bins(values, 1.0 / self.width, self.first, counts)
        self.counts += counts
        self.weighted += counts * weight

    def _reach(self, low: float, high: float) -> None:
        """Make the bins cover a range: widths are powers of two, so that pairs can merge."""
        if self.width == 0.0:
            exponent = np.ceil(np.log2(max(high - low, 2.0**-100) / (BINS // 2)))
            self.width = float(2.0**exponent)
            self.first = int(np.floor(low / self.width))
        while True:
            a, b = int(np.floor(low / self.width)), int(np.floor(high / self.width))
            used = np.flatnonzero(self.counts)
            if used.size:
                a = min(a, int(used[0]) + self.first)
                b = max(b, int(used[-1]) + self.first)
            if b - a < BINS:
                break
            self._double()
        if a < self.first or b >= self.first + BINS:
            self._move(a)

    def _move(self, first: int) -> None:
        used = np.flatnonzero(self.counts)
        places = used + self.first - first
        moved, weighted = np.zeros(BINS, np.int64), np.zeros(BINS)
        moved[places], weighted[places] = self.counts[used], self.weighted[used]
        self.counts, self.weighted, self.first = moved, weighted, first

    def _double(self) -> None:
        numbers = (np.arange(BINS) + self.first) // 2
        first = int(numbers[0])
        merged = np.bincount(numbers - first, self.counts, BINS).astype(np.int64)
        self.weighted = np.bincount(numbers - first, self.weighted, BINS).astype(np.float64)
        self.counts, self.first, self.width = merged, first, 2 * self.width

    def middles(self) -> tuple[Weights, Weights]:
        """Middles of the used bins and their weighted counts, in rising order; zeros left out."""
        used = np.flatnonzero(self.counts)
        middles = np.asarray((used + self.first + 0.5) * self.width, np.float64)
        return middles, self.weighted[used]

    def points(self) -> tuple[Weights, Weights]:
        """Middles of the used bins and their counts, zero among them, in rising order."""
        middles, _ = self.middles()
        counts = self.counts[self.counts > 0].astype(np.float64)
        if self.zeros:
            at = int(np.searchsorted(middles, 0.0))
            middles = np.insert(middles, at, 0.0)
            counts = np.insert(counts, at, float(self.zeros))
        return middles, counts


@dataclass
class Observer:
    """Limits and histogram of one tensor.

    Attributes:
        momentum: weight of a new sample in the moving limits.
        low: smallest value so far.
        high: largest value so far.
        moving_low: moving average of the samples' smallest values.
        moving_high: moving average of the samples' largest values.
        samples: samples seen.
        bad: values that were no finite numbers.
        histogram: None when only limits are wanted. A sample weighs in it one over its mean square,
            or over `TYPICAL` times the geometric mean of those so far, whichever is larger.
        energy: sum of the logarithms of the samples' mean squares.
        energies: samples in that sum: those that are not all zeros.
    """

    momentum: float = 0.1
    low: float = 0.0
    high: float = 0.0
    moving_low: float = 0.0
    moving_high: float = 0.0
    samples: int = 0
    bad: int = 0
    histogram: Histogram | None = field(default_factory=Histogram)
    energy: float = 0.0
    energies: int = 0

    def add(self, values: npt.NDArray[np.float32]) -> None:
        """Take in one sample's values, of any shape."""
        flat = values.reshape(-1)
        if flat.size == 0:
            return
        low, high = float(flat.min()), float(flat.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            finite = flat[np.isfinite(flat)]
            self.bad += int(flat.size - finite.size)
            if finite.size == 0:
                return
            flat, low, high = finite, float(finite.min()), float(finite.max())
        if self.samples == 0:
            self.low, self.high, self.moving_low, self.moving_high = low, high, low, high
        else:
            self.low, self.high = min(self.low, low), max(self.high, high)
            self.moving_low += self.momentum * (low - self.moving_low)
            self.moving_high += self.momentum * (high - self.moving_high)
        self.samples += 1
        if self.histogram is not None:
            step = -(-flat.size // MOST_COUNTED)
            # a step that shares a factor with the channels would always see the same ones
            counted = flat[:: step + 1 - step % 2] if step > 1 else flat
            self.histogram.add(counted, low, high, self._weight(counted))

    def _weight(self, values: npt.NDArray[np.float32]) -> float:
        """What a sample counts beside the others, in the tensor's units to the power of -2."""
        square = float(np.mean(np.square(values, dtype=np.float64)))
        if square == 0.0:
            return 1.0  # no bin is touched
        self.energy += math.log(square)
        self.energies += 1
        typical = TYPICAL * math.exp(self.energy / self.energies)
        return 1.0 / max(square, typical)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything as arrays, for a file."""
        numbers = [self.low, self.high, self.moving_low, self.moving_high]
        numbers += [float(self.samples), float(self.bad), self.momentum]
        numbers += [self.energy, float(self.energies)]
        state: dict[str, npt.NDArray[np.generic]] = {"limits": np.array(numbers)}
        if self.histogram is not None:
            h = self.histogram
            state["bins"] = np.array([h.width, float(h.first), float(h.zeros)])
            state["counts"], state["weighted"] = h.counts, h.weighted
        return state

    @classmethod
    def restored(cls, state: dict[str, npt.NDArray[np.generic]]) -> Observer:
        """The observer whose state was stored."""
        limits = (float(v) for v in state["limits"])
        low, high, mlow, mhigh, samples, bad, momentum, energy, energies = limits
        histogram = None
        if "counts" in state:
            width, first, zeros = (float(v) for v in state["bins"])
            counts = state["counts"].astype(np.int64)
            weighted = state["weighted"].astype(np.float64)
            histogram = Histogram(width, int(first), counts, int(zeros), weighted)
        ends = low, high, mlow, mhigh
        return cls(momentum, *ends, int(samples), int(bad), histogram, energy, int(energies))

"""What is remembered of a tensor's values while samples stream by: limits and a histogram.

The histogram's bins are aligned to zero and double in width when a value falls outside, so that
nothing that has been counted has to be seen again and memory stays fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

BINS = 4096
"""Bins of a histogram; at most half of them are unused after the width has doubled."""
MOST_COUNTED = 16384
"""Values of one tensor and sample that go into the histogram; of more, every n-th. Limits are
taken of all."""

Counts = npt.NDArray[np.int64]


@dataclass
class Histogram:
    """Counts of values in bins [i * width, (i + 1) * width), i from `first`.

    Attributes:
        width: of a bin; 0 until a value other than zero was seen.
        first: number of the first bin.
        counts: values in each bin.
        zeros: values that are exactly zero; they are in no bin.
    """

    width: float = 0.0
    first: int = 0
    counts: Counts = field(default_factory=lambda: np.zeros(BINS, np.int64))
    zeros: int = 0

    def add(self, values: npt.NDArray[np.float32], low: float, high: float) -> None:
        """Count finite values whose limits are known."""
        nonzero = values[values != 0]
        self.zeros += int(values.size - nonzero.size)
        if nonzero.size == 0:
            return
        self._reach(min(low, 0.0), max(high, 0.0))
        bins = np.floor(nonzero.astype(np.float64) / self.width).astype(np.int64) - self.first
        self.counts += np.bincount(np.clip(bins, 0, BINS - 1), minlength=BINS)

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
        moved = np.zeros(BINS, np.int64)
        moved[used + self.first - first] = self.counts[used]
        self.counts, self.first = moved, first

    def _double(self) -> None:
        numbers = (np.arange(BINS) + self.first) // 2
        first = int(numbers[0])
        merged = np.bincount(numbers - first, self.counts, BINS).astype(np.int64)
        self.counts, self.first, self.width = merged, first, 2 * self.width

    def points(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Middles of the used bins and their counts, zero among them, in rising order."""
        used = np.flatnonzero(self.counts)
        middles = ((used + self.first + 0.5) * self.width).astype(np.float64)
        counts = self.counts[used].astype(np.float64)
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
        histogram: None when only limits are wanted.
    """

    momentum: float = 0.1
    low: float = 0.0
    high: float = 0.0
    moving_low: float = 0.0
    moving_high: float = 0.0
    samples: int = 0
    bad: int = 0
    histogram: Histogram | None = field(default_factory=Histogram)

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
            self.histogram.add(counted, low, high)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything as arrays, for a file."""
        numbers = [self.low, self.high, self.moving_low, self.moving_high]
        numbers += [float(self.samples), float(self.bad), self.momentum]
        state: dict[str, npt.NDArray[np.generic]] = {"limits": np.array(numbers)}
        if self.histogram is not None:
            h = self.histogram
            state["bins"] = np.array([h.width, float(h.first), float(h.zeros)])
            state["counts"] = h.counts
        return state

    @classmethod
    def restored(cls, state: dict[str, npt.NDArray[np.generic]]) -> Observer:
        """The observer whose state was stored."""
        low, high, mlow, mhigh, samples, bad, momentum = (float(v) for v in state["limits"])
        histogram = None
        if "counts" in state:
            width, first, zeros = (float(v) for v in state["bins"])
            counts = state["counts"].astype(np.int64)
            histogram = Histogram(width, int(first), counts, int(zeros))
        return cls(momentum, low, high, mlow, mhigh, int(samples), int(bad), histogram)

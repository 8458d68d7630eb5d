"""What a network is worth at its task: top-k, F1 and overlap of classes, from its answers.

All take answers in pieces, so that no more than counts is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Double = npt.NDArray[np.float64]


class TopK:
    """Share of samples whose class is among the k largest scores.

    Equal scores are ordered by class number, the lower first.
    """

    def __init__(self, ks: Sequence[int]) -> None:
        self._ks = tuple(ks)
        self._right = dict.fromkeys(self._ks, 0)
        self._count = 0

    def add(self, scores: Double, label: int) -> None:
        """Take in one sample."""
        order = np.argsort(-scores.reshape(-1), kind="stable")
        self._count += 1
        for k in self._ks:
            self._right[k] += int(label in order[:k])

    def result(self) -> dict[str, float]:
        """By name, 0..1."""
        return {f"top-{k}": self._right[k] / max(self._count, 1) for k in self._ks}


class Confusion:
    """Counts of true against found classes, and what follows from them.

    Attributes:
        counts: [true, found].
    """

    def __init__(self, classes: int) -> None:
        self.counts: Counts = np.zeros((classes, classes), np.int64)

    def add(self, truth: npt.ArrayLike, found: npt.ArrayLike) -> None:
        """Take in classes of samples or pixels; true classes outside of the range do not count."""
        t, f = (np.asarray(v, np.int64).reshape(-1) for v in (truth, found))
        size = len(self.counts)
        known = (t >= 0) & (t < size)
        pairs = t[known] * size + f[known]
        self.counts += np.bincount(pairs, minlength=size * size).reshape(size, size)

    @property
    def accuracy(self) -> float:
        """Share of right ones."""
        return float(np.trace(self.counts) / max(int(self.counts.sum()), 1))

    @property
    def f1(self) -> float:
        """Mean over classes that occur, true or found, of 2 tp / (2 tp + fp + fn)."""
        hits = np.diag(self.counts)
        both = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        live = both > 0
        return float(np.mean(2 * hits[live] / both[live])) if live.any() else 0.0

    @property
    def mean_iou(self) -> float:
        """Mean over classes that occur, true or found, of tp / (tp + fp + fn)."""
        hits = np.diag(self.counts)
        union = self.counts.sum(axis=0) + self.counts.sum(axis=1) - hits
        live = union > 0
        return float(np.mean(hits[live] / union[live])) if live.any() else 0.0

"""Average precision of detections as COCO's evaluation defines it, checked against pycocotools.

The definition (cocodataset.org, "Detection evaluation"): per category and image the detections,
best first, each take the free ground truth with the largest overlap that reaches the threshold;
crowds and objects outside of the size range may absorb detections without counting. Precision, made
falling, is read at 101 recalls and averaged over thresholds 0.50 to 0.95 and categories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.tasks.boxes import Box

Double = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
AREAS: Mapping[str, tuple[float, float]] = {
    "all": (0.0, 1e10),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
"""Size ranges in square pixels, COCO's."""
MOST = (1, 10, 100)
"""Detections an image that recalls are given for."""


def overlaps(found: Sequence[Box], truth: Sequence[Box]) -> Double:
    """Intersection over union of every pair; over the detection alone where truth is a crowd."""
    if not found or not truth:
        return np.zeros((len(found), len(truth)))
    a = np.array([item.box for item in found], np.float64)[:, None]
    b = np.array([item.box for item in truth], np.float64)[None]
    left, right = (
        np.maximum(a[..., 0], b[..., 0]),
        np.minimum(a[..., 0] + a[..., 2], b[..., 0] + b[..., 2]),
    )
    top, bottom = (
        np.maximum(a[..., 1], b[..., 1]),
        np.minimum(a[..., 1] + a[..., 3], b[..., 1] + b[..., 3]),
    )
    shared = np.clip(right - left, 0, None) * np.clip(bottom - top, 0, None)
    sizes = a[..., 2] * a[..., 3]
    crowd = np.array([item.crowd for item in truth])[None]
    whole = np.where(crowd, sizes, sizes + b[..., 2] * b[..., 3] - shared)
    made: Double = np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)
    return made


@dataclass(frozen=True, eq=False)
class _Matched:
    """Detections of a picture and category: scores, hits and what does not count, by threshold."""

    scores: Double
    hits: Flags
    ignored: Flags
    truths: int


def _match(found: Sequence[Box], truth: Sequence[Box], area: tuple[float, float]) -> _Matched:
    """Give each detection, best first, a true object."""
    order = np.argsort([-item.score for item in found], kind="mergesort")[: MOST[-1]]
    best = [found[i] for i in order]
    outside = np.array([t.crowd or not area[0] <= t.size <= area[1] for t in truth], bool)
    # those that count stand in front
    rank = np.argsort(outside, kind="mergesort")
    objects, outside = [truth[i] for i in rank], outside[rank]
    shared = overlaps(best, objects)
    counts = (len(THRESHOLDS), len(best))
    hits, ignored = np.zeros(counts, bool), np.zeros(counts, bool)
    for t, threshold in enumerate(THRESHOLDS):
        taken = np.zeros(len(objects), bool)
        for d in range(len(best)):
            chosen, least = -1, min(threshold, 1 - 1e-10)
            for g, item in enumerate(objects):
                if taken[g] and not item.crowd:
                    continue
                if chosen >= 0 and not outside[chosen] and outside[g]:
                    break
                if shared[d, g] >= least:
                    chosen, least = g, shared[d, g]
            if chosen >= 0:
                taken[chosen] = hits[t, d] = True
                ignored[t, d] = outside[chosen]
    sizes = np.array([item.size for item in best])
    far = (sizes < area[0]) | (sizes > area[1])
    ignored |= ~hits & far[None]
    scores = np.array([item.score for item in best], np.float64)
    return _Matched(scores, hits, ignored, int((~outside).sum()))


def _curve(parts: Sequence[_Matched], most: int) -> tuple[Double, Double] | None:
    """Precision at 101 recalls and the largest recall, by threshold; None without true objects."""
    truths = sum(part.truths for part in parts)
    if truths == 0:
        return None
    scores = np.concatenate([part.scores[:most] for part in parts])
    order = np.argsort(-scores, kind="mergesort")
    hits = np.concatenate([part.hits[:, :most] for part in parts], 1)[:, order]
    ignored = np.concatenate([part.ignored[:, :most] for part in parts], 1)[:, order]
    right = np.cumsum(hits & ~ignored, axis=1).astype(np.float64)
    wrong = np.cumsum(~hits & ~ignored, axis=1).astype(np.float64)
    precision = np.zeros((len(THRESHOLDS), len(RECALLS)))
    largest = np.zeros(len(THRESHOLDS))
    for t in range(len(THRESHOLDS)):
        recall = right[t] / truths
        if recall.size == 0:
            continue
        largest[t] = recall[-1]
        exact = right[t] / (right[t] + wrong[t] + np.spacing(1))
        falling = np.maximum.accumulate(exact[::-1])[::-1]
        at = np.searchsorted(recall, RECALLS, side="left")
        reached = at < recall.size
        precision[t, reached] = falling[at[reached]]
    return precision, largest


def average_precision(found: Iterable[Box], truth: Iterable[Box]) -> dict[str, float]:
    """COCO's twelve figures: AP, AP50, AP75, by size, and AR at 1, 10 and 100 and by size.

    Args:
        found: detections; at most 100 a picture and category count.
        truth: true objects of all pictures.

    Returns:
        By COCO's names, 0..1; nan where there is no true object of that size.
    """
    places: dict[tuple[int, int], tuple[list[Box], list[Box]]] = {}
    for side, items in enumerate((found, truth)):
        for item in items:
            places.setdefault((item.category, item.image), ([], []))[side].append(item)
    # pictures in rising order: equal scores keep it, as in COCO's evaluation
    keys = sorted(places)
    categories = sorted({category for category, _ in keys})
    precisions: dict[tuple[str, int], list[Double]] = {}
    recalls: dict[tuple[str, int], list[Double]] = {}
    for name, area in AREAS.items():
        for category in categories:
            parts = [_match(*places[key], area) for key in keys if key[0] == category]
            for most in MOST:
                made = _curve(parts, most)
                if made is not None:
                    precisions.setdefault((name, most), []).append(made[0])
                    recalls.setdefault((name, most), []).append(made[1])

    def mean(values: list[Double] | None, threshold: int | None = None) -> float:
        if not values:
            return float("nan")
        stacked = np.stack(values)
        return float((stacked if threshold is None else stacked[:, threshold]).mean())

    whole = precisions.get(("all", 100))
    return {
        "AP": mean(whole),
        "AP50": mean(whole, 0),
        "AP75": mean(whole, 5),
        **{f"AP{n}": mean(precisions.get((n, 100))) for n in ("small", "medium", "large")},
        **{f"AR{most}": mean(recalls.get(("all", most))) for most in MOST},
        **{f"AR{n}": mean(recalls.get((n, 100))) for n in ("small", "medium", "large")},
    }

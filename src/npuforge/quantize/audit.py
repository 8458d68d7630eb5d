"""Whether calibration samples are fit to be calibrated on: the faults that spoil most networks.

Samples are judged alone (how many, repeated, of one class) and against others that are known to be
as the network will see them (values scaled or ordered otherwise, drift, classes and ranges that do
not occur). What explains a difference is named instead of the difference: samples that are scaled
otherwise drift as well, but it is the scale that has to be mended.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from npuforge.quantize.survey import Survey

Double = npt.NDArray[np.float64]
FEW = 50
"""Samples below which the ranges of most image networks still grow with every sample."""
ALIKE = 0.9995
"""Cosine of two thumbnails from which on samples count as nearly the same."""
REPEATED = 0.1
"""Share of repeated samples that is worth a word."""
CROWDED = 0.9
"""Share of one class that is worth a word, where there are more."""
CROWDING = 0.25
"""By how much that share must be above the usual one."""
DRIFT = 0.5
"""Shift of a mean, in standard deviations between samples, that is worth a word (Cohen's d)."""
SURE = 4.0
"""Standard errors by which a shift must lie off chance."""
OUTSIDE = 0.01
"""Share of values of a tensor beyond its calibrated range that is worth a word."""
BEYOND = 3.0
"""Times chance: of n samples and one more, all alike, the new one is the smallest or the largest
with probability 2 / (n + 1)."""
GROWING = 0.1
"""Growth of a range in the second half of the samples that counts as growing."""
SCALED = 0.001
"""Least relative difference of two grids: 255 against 256 is 0.004."""


class Fault(StrEnum):
    """What is wrong with calibration samples; the key of its sentence."""

    FEW = "AUD-few"
    DUPLICATES = "AUD-duplicates"
    ONE_CLASS = "AUD-one-class"
    CLASSES = "AUD-classes"
    SCALE_256 = "AUD-scale-256"
    NORMALISATION = "AUD-normalisation"
    COLOUR_ORDER = "AUD-colour-order"
    DRIFT = "AUD-drift"
    RANGES = "AUD-ranges"


@dataclass(frozen=True)
class AuditFinding:
    """One thing that is wrong, with its figures.

    Attributes:
        fault: what.
        figures: for its sentence, by the name of the gap.
    """

    fault: Fault
    figures: dict[str, str] = field(default_factory=dict)


def audit(calibration: Survey, reference: Survey | None = None) -> tuple[AuditFinding, ...]:
    """What is wrong with calibration samples, the gravest first.

    Args:
        calibration: the samples that are to be calibrated on.
        reference: samples as the network will see them, preprocessed as in training; without them
            scale, colour order, drift and ranges cannot be judged.
    """
    found = [*_scale(calibration, reference)]
    if not found and reference is not None:
        found += _colour(calibration, reference)
    found += _one_class(calibration, reference)
    repeated = _repeated(calibration)
    found += repeated
    if not repeated:
        found += _few(calibration)
    if reference is not None and not found:
        found += _drift(calibration, reference)
    if reference is not None and not found:
        found += _missing(calibration, reference) or _ranges(calibration, reference)
    return tuple(found)


def _few(own: Survey) -> list[AuditFinding]:
    count = len(set(own.prints))
    if count >= FEW:
        return []
    growing = _share_growing(own)
    figures = {"samples": str(count), "growing": f"{growing:.0%}", "few": str(FEW)}
    return [AuditFinding(Fault.FEW, figures)]


def _share_growing(own: Survey) -> float:
    """Share of tensors whose range the second half of the samples made wider by a tenth."""
    grown = total = 0
    for name, (low, high) in own.half.items():
        observer = own.observers[name]
        width = high - low
        total += 1
        grown += (observer.high - observer.low) > (1 + GROWING) * width
    return grown / total if total else 0.0


def _repeated(own: Survey) -> list[AuditFinding]:
    count = own.samples
    same = count - len(set(own.prints))
    products = own.thumbs @ own.thumbs.T
    alike = np.triu(products >= ALIKE, 1) & (np.abs(own.thumbs).sum(axis=1) > 0)
    near = int(alike.any(axis=0).sum())
    if max(same, near) < max(REPEATED * count, 2):
        return []
    distinct = count - max(same, near)
    figures = {"samples": str(count), "same": str(same), "near": str(near)}
    return [AuditFinding(Fault.DUPLICATES, {**figures, "distinct": str(distinct)})]


def _seen(own: Survey, reference: Survey | None) -> tuple[Counter[int], Counter[int], bool]:
    """Classes of both sets: labels where every sample that counts has one, else what the network
    sees; and whether they are labels."""
    known = _labels(own)
    theirs = () if reference is None else _labels(reference)
    if known and (reference is None or theirs):
        return Counter(known), Counter(theirs), True
    return Counter(own.predicted), Counter(() if reference is None else reference.predicted), False


def _labels(survey: Survey) -> tuple[int, ...]:
    """The class of every sample; empty when one has none."""
    found = tuple(label for label in survey.labels if label is not None)
    return found if len(found) == survey.samples else ()


def _one_class(own: Survey, reference: Survey | None) -> list[AuditFinding]:
    """Hardly anything but one class, where there usually are others."""
    counts, others, labelled = _seen(own, reference)
    if not counts or own.classes == 1:
        return []
    most, number = counts.most_common(1)[0]
    share = number / counts.total()
    usual = others[most] / others.total() if others else 1.0 / max(own.classes, 2)
    figures = {
        "class_number": str(most),
        "share": f"{share:.0%}",
        "of": str(counts.total()),
        "usual": f"{usual:.0%}",
    }
    if others:
        # a network with two classes may usually see nine in ten of one
        alone = share == 1.0 and _unlikely(own.samples, 1.0 - usual)
        crowded = share >= CROWDED and usual < share - CROWDING
        return [AuditFinding(Fault.ONE_CLASS, figures)] if alone or crowded else []
    # what the network sees may be wrong: of itself it accuses nobody
    return [AuditFinding(Fault.ONE_CLASS, figures)] if labelled and share >= CROWDED else []


def _missing(own: Survey, reference: Survey) -> list[AuditFinding]:
    """Classes of the reference that do not occur."""
    counts, others, _ = _seen(own, reference)
    total = others.total()
    missing = sorted(
        c for c, n in others.items() if not counts[c] and _unlikely(own.samples, n / total)
    )
    if not missing:
        return []
    names = ", ".join(str(c) for c in missing[:8])
    figures = {"missing": names, "count": str(len(missing)), "classes": str(len(others))}
    return [AuditFinding(Fault.CLASSES, figures)]


def _unlikely(samples: int, share: float) -> bool:
    """Whether a class of this share would hardly be missing by chance."""
    return (1.0 - share) ** samples < 1e-3


def _scale(own: Survey, reference: Survey | None) -> list[AuditFinding]:
    """Values on another grid, or of another size altogether."""
    if reference is None or own.channels != reference.channels:
        return []
    if np.all(own.step > 0) and np.all(reference.step > 0):
        ratio = float(np.median(own.step / reference.step))
        if abs(ratio - 1) < SCALED:
            return _offset(own, reference)
        for factor in (255 / 256, 256 / 255):
            if abs(ratio / factor - 1) < SCALED:
                figures = {"step": f"{own.step[0]:.6g}", "usual": f"{reference.step[0]:.6g}"}
                return [AuditFinding(Fault.SCALE_256, figures)]
        return [_normalisation(own, reference, ratio)]
    # without a grid: the spread within samples, and of all values: a quiet class is no other scale
    usual = reference.deviations.mean(axis=0).clip(1e-12)
    ratio = float(np.median(own.deviations.mean(axis=0) / usual))
    width = float(np.median((own.high - own.low) / (reference.high - reference.low).clip(1e-12)))
    if not 0.25 < ratio < 4.0 and not 0.25 < width < 4.0:
        return [_normalisation(own, reference, ratio)]
    return []


def _offset(own: Survey, reference: Survey) -> list[AuditFinding]:
    """The same grid elsewhere: values that begin well below or above."""
    width = 255 * reference.step
    moved = (own.low - reference.low) / width
    moved_high = (own.high - reference.high) / width
    both = np.minimum(np.abs(moved), np.abs(moved_high)) * (np.sign(moved) == np.sign(moved_high))
    if float(np.median(both)) > 0.3:
        return [_normalisation(own, reference, 1.0)]
    return []


def _normalisation(own: Survey, reference: Survey, ratio: float) -> AuditFinding:
    return AuditFinding(
        Fault.NORMALISATION,
        {
            "range": _limits(own),
            "usual": _limits(reference),
            "factor": f"{ratio:.3g}",
        },
    )


def _limits(survey: Survey) -> str:
    low, high = float(survey.low.min()), float(survey.high.max())
    return f"{low:.3g}..{high:.3g}"


def _shifts(own: Survey, reference: Survey, means: Double) -> tuple[Double, Double]:
    """By channel: shift of the mean in standard deviations between samples, and in errors."""
    gap = means.mean(axis=0) - reference.means.mean(axis=0)
    spread = np.sqrt((means.var(axis=0) + reference.means.var(axis=0)) / 2).clip(1e-12)
    error = np.sqrt(
        means.var(axis=0) / len(means) + reference.means.var(axis=0) / len(reference.means)
    ).clip(1e-12)
    return gap / spread, gap / error


def _cast(means: Double) -> Double:
    """Differences between channels of each sample: what a reversal of their order turns round."""
    return np.stack([means[:, 0] - means[:, 2], means[:, 0] + means[:, 2] - 2 * means[:, 1]], 1)


def _colour(own: Survey, reference: Survey) -> list[AuditFinding]:
    """First and last channel exchanged."""
    if own.channels != 3 or own.samples < 4 or reference.samples < 4:
        return []

    def off(means: Double) -> float:
        a, b = _cast(means)[:, 0], _cast(reference.means)[:, 0]
        error = np.sqrt(a.var() / len(a) + b.var() / len(b))
        return float(abs(a.mean() - b.mean()) / max(error, 1e-12))

    direct, turned = off(own.means), off(own.means[:, ::-1])
    if direct > SURE and turned < direct / 3:
        order = own.means.mean(axis=0)
        usual = reference.means.mean(axis=0)
        figures = {
            "means": ", ".join(f"{v:.3g}" for v in order),
            "usual": ", ".join(f"{v:.3g}" for v in usual),
            "direct": f"{direct:.1f}",
            "turned": f"{turned:.1f}",
        }
        return [AuditFinding(Fault.COLOUR_ORDER, figures)]
    return []


def _drift(own: Survey, reference: Survey) -> list[AuditFinding]:
    """Mean or contrast of the input shifted against the reference."""
    if own.samples < 4 or reference.samples < 4:
        return []
    size, errors = _shifts(own, reference, own.means)
    a, b = np.log(own.deviations.clip(1e-9)), np.log(reference.deviations.clip(1e-9))
    spread = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 2).clip(1e-12)
    error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b)).clip(1e-12)
    gap = a.mean(axis=0) - b.mean(axis=0)
    candidates = [
        (abs(float(s)), abs(float(e)), kind)
        for kind, sizes, certain in (
            ("mean", size, errors),
            ("contrast", gap / spread, gap / error),
        )
        for s, e in zip(sizes, certain, strict=True)
    ]
    sure = [(s, e, kind) for s, e, kind in candidates if s > DRIFT and e > SURE]
    if not sure:
        return []
    shift, _, _ = max(sure)
    tensor, outside = worst_outside(own, reference)
    figures = {
        "shift": f"{shift:.1f}",
        "mean": f"{own.means.mean():.3g}",
        "usual_mean": f"{reference.means.mean():.3g}",
        "contrast": f"{own.deviations.mean():.3g}",
        "usual_contrast": f"{reference.deviations.mean():.3g}",
        "outside": f"{outside:.2%}",
        "tensor": tensor,
    }
    return [AuditFinding(Fault.DRIFT, figures)]


def _ranges(own: Survey, reference: Survey) -> list[AuditFinding]:
    tensor, share = worst_outside(own, reference)
    most = max(OUTSIDE, BEYOND * 2.0 / (own.samples + 1))
    if share < most:
        return []
    count = sum(s >= most for s in _outside(own, reference).values())
    figures = {
        "tensor": tensor,
        "share": f"{share:.2%}",
        "count": str(count),
        "most": f"{most:.2%}",
    }
    return [AuditFinding(Fault.RANGES, figures)]


def _outside(own: Survey, reference: Survey) -> dict[str, float]:
    """Share of the reference's values beyond the limits seen in calibration, by tensor."""
    found = {}
    for name, observer in reference.observers.items():
        mine = own.observers.get(name)
        if mine is None or observer.histogram is None:
            continue
        points, counts = observer.histogram.points()
        total, half = float(counts.sum()), observer.histogram.width / 2
        # whole bins: the middle of a value's bin may lie beyond it
        beyond = float(counts[(points + half < mine.low) | (points - half > mine.high)].sum())
        found[name] = beyond / total if total else 0.0
    return found


def worst_outside(own: Survey, reference: Survey) -> tuple[str, float]:
    """The tensor of whose values in other samples most lie beyond its calibrated range, and the
    share of them."""
    shares = _outside(own, reference)
    worst = max(shares, key=lambda name: (shares[name], name), default="")
    return worst, shares.get(worst, 0.0)

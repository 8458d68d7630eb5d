"""Error metrics between a reference and a result, as ST's validation reports define them.

r is the reference, p the result, both as real numbers (dequantised); e = r - p. The definitions
were checked against published ST Edge AI reports, so that numbers can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]


def rmse(r: Real, p: Real) -> float:
    """Root of the mean squared error: sqrt(mean(e^2)), in units of the tensor."""
    return float(np.sqrt(np.mean((r - p) ** 2)))


def mae(r: Real, p: Real) -> float:
    """Mean absolute error: mean(|e|), in units of the tensor."""
    return float(np.mean(np.abs(r - p)))


def l2r(r: Real, p: Real) -> float:
    """Relative L2 error: ||e|| / ||p||. The denominator is the result, as in ST's reports."""
    norm = float(np.linalg.norm(p))
    error = float(np.linalg.norm(r - p))
    return error / norm if norm else (0.0 if error == 0.0 else float("inf"))


def mean_error(r: Real, p: Real) -> float:
    """Mean error: mean(e); its sign is reference minus result."""
    return float(np.mean(r - p))


def std_error(r: Real, p: Real) -> float:
    """Standard deviation of the error, with n - 1 in the denominator; 0 for one value."""
    return float(np.std(r - p, ddof=1)) if r.size > 1 else 0.0


def nse(r: Real, p: Real) -> float:
    """Nash-Sutcliffe efficiency: 1 - sum(e^2) / sum((r - mean(r))^2); 1 is perfect."""
    total = float(np.sum((r - r.mean()) ** 2))
    error = float(np.sum((r - p) ** 2))
    if total == 0.0:
        return 1.0 if error == 0.0 else float("-inf")
    return 1.0 - error / total


def cosine(r: Real, p: Real) -> float:
    """Mean over samples (the first axis) of the cosine between reference and result."""
    a, b = r.reshape(len(r), -1), p.reshape(len(p), -1)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    dots = np.sum(a * b, axis=1)
    same = np.all(a == b, axis=1)
    values = np.divide(dots, norms, out=same.astype(np.float64), where=norms > 0)
    return float(np.mean(values))


def snr(r: Real, p: Real) -> float:
    """Signal to noise in dB: 10 log10(1 / (1 - nse)); infinite when there is no error."""
    rest = 1.0 - nse(r, p)
    return float("inf") if rest <= 0.0 else float(-10.0 * np.log10(rest))


def top1_agreement(r: Real, p: Real) -> float:
    """Share of samples whose largest value along the last axis is at the same place, 0 to 1."""
    return float(np.mean(np.argmax(r, axis=-1) == np.argmax(p, axis=-1)))


METRICS: Mapping[str, Callable[[Real, Real], float]] = {
    "rmse": rmse,
    "mae": mae,
    "l2r": l2r,
    "mean": mean_error,
    "std": std_error,
    "nse": nse,
    "cosine": cosine,
    "snr": snr,
    "top1": top1_agreement,
}


def all_metrics(r: npt.ArrayLike, p: npt.ArrayLike) -> dict[str, float]:
    """Every metric of one output; the first axis is the sample."""
    reference = np.atleast_1d(np.asarray(r, np.float64))
    result = np.atleast_1d(np.asarray(p, np.float64))
    return {name: function(reference, result) for name, function in METRICS.items()}

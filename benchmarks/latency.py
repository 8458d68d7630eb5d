"""Predicted against published inference times of STM32N6 boards, without a family's own figures.

Leave-one-family-out: the few free constants are fitted on all other family groups (the code of
`npuforge calibrate`), and the 80 % interval of a row comes from rows of other families that were
themselves predicted by a fit that left their family out. Beside it: the spread of published figures
of one model (noise floor), a regression on MACs, and the compiler's own predictions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import arguments, csv_rows, report, required_shared_folder
from cost_data import published_times

from npuforge.cost import Calibration, load_calibration
from npuforge.cost.calibrate import Observation, fit, predict_with_doubt, spread_of

PRIORS = {
    "program_clocks": 1500.0,
    "legacy_program_factor": 2.5,
    "hybrid_cpu_clocks_per_byte": 3.7,
    "scale": 1.0,
}
"""Start values of every fit, from single-epoch logs and compiled programs: no whole-network figure
took part, so that a family that is left out is left out of the start as well."""


def start_calibration() -> Calibration:
    """The shipped constants with the fitted ones back at their start."""
    return load_calibration().with_constants(PRIORS)


@dataclass(frozen=True, eq=False)
class Folds:
    """Predictions of rows whose family took no part in the fit, and their intervals."""

    predicted: np.ndarray
    doubt: np.ndarray
    low: np.ndarray
    high: np.ndarray


def folds(observations: Sequence[Observation], start: Calibration) -> Folds:
    """Leave-one-family-group-out predictions."""
    groups = np.array([o.group for o in observations])
    measured = np.array([o.ms for o in observations])
    predicted, doubt = np.zeros(len(observations)), np.zeros(len(observations))
    for group in sorted(set(groups)):
        inside = [o for o in observations if o.group == group]
        fitted = fit([o for o in observations if o.group != group], start)
        found = predict_with_doubt(inside, fitted.calibration)
        predicted[groups == group], doubt[groups == group] = found
    ratio = measured / predicted
    width = np.zeros(len(observations))
    for group in sorted(set(groups)):
        others = groups != group
        spread = spread_of(ratio[others], doubt[others], list(groups[others]))
        width[~others] = np.exp(spread * doubt[~others])
    return Folds(predicted, doubt, predicted / width, predicted * width)


def noise_floor(shared: Path) -> tuple[int, float, float]:
    """Networks published more than once with the same input; median and 90th percentile of
    largest over smallest time, releases mixed and per release where a release has several."""
    sets: dict[tuple[str, ...], list[float]] = {}
    for r in csv_rows(shared / "groundtruth/n6_measured.csv"):
        if r["quality"] == "ok":
            key = (r["family_group"], r["model"].lower(), r["input_shape"], r["format"])
            sets.setdefault(key, []).append(float(r["inference_ms"]))
    spread = [max(v) / min(v) for v in sets.values() if len(v) > 1]
    return len(spread), float(np.median(spread)), float(np.quantile(spread, 0.9))


def vendor_predictions(shared: Path) -> list[float]:
    """The compiler's predicted over measured time where both are published."""
    rows = csv_rows(shared / "groundtruth/other_measured.csv")
    both = [r for r in rows if r["compiler_predicted_ms"] and r["inference_ms"]]
    return [
        float(r["compiler_predicted_ms"]) / float(r["inference_ms"])
        for r in both
        if r["quality"] == "ok"
    ]


def _ranks(values: np.ndarray) -> np.ndarray:
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values))
    for value in np.unique(values):
        same = values == value
        ranks[same] = ranks[same].mean()
    return ranks


def _macs_regression(work: np.ndarray, measured: np.ndarray, groups: np.ndarray) -> np.ndarray:
    out = np.zeros(len(work))
    for group in np.unique(groups):
        others = groups != group
        slope = np.polyfit(np.log(work[others]), np.log(measured[others]), 1)
        out[~others] = np.exp(np.polyval(slope, np.log(work[~others])))
    return out


def _errors(predicted: np.ndarray, measured: np.ndarray) -> tuple[float, float]:
    error = np.abs(predicted / measured - 1)
    return round(float(np.median(error)), 3), round(float(np.quantile(error, 0.9)), 3)


def main() -> None:
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    rows, refused = published_times(shared)
    observations = [row.observation for row in rows]
    groups = np.array([o.group for o in observations])
    measured = np.array([o.ms for o in observations])
    result = folds(observations, start_calibration())
    inside = (result.low <= measured) & (measured <= result.high)
    work = np.array([max(r.macs, 1) for r in rows], float)
    error = np.abs(result.predicted / measured - 1)
    by_family = [float(np.median(error[groups == group])) for group in sorted(set(groups))]
    vendor = np.abs(np.array(vendor_predictions(shared)) - 1)
    count, typical, large = noise_floor(shared)
    release = [re.split(r"[.-]", o.release)[0] for o in observations]
    table = [
        (row.file[:52], o.group, o.release, f"{o.ms:.2f}", f"{p:.2f}", f"{p / o.ms:.2f}",
         f"{low:.2f}..{high:.2f}", "" if low <= o.ms <= high else "outside")
        for row, o, p, low, high in sorted(
            zip(rows, observations, result.predicted, result.low, result.high, strict=True),
            key=lambda entry: (entry[1].group, entry[0].file),
        )
    ]  # fmt: skip
    medians = {
        f"median_error_release_{major}": round(
            float(np.median(error[[r == major for r in release]])), 3
        )
        for major in sorted(set(release))
    }
    report(
        "Inference time, predicted without the family's own figures, against published",
        ("file", "group", "compiler", "measured ms", "predicted ms", "ratio", "80 %", ""),
        table,
        options.json,
        rows_used=len(rows),
        families=len(by_family),
        refused=refused,
        median_error=_errors(result.predicted, measured)[0],
        p90_error=_errors(result.predicted, measured)[1],
        median_of_family_medians=round(float(np.median(by_family)), 3),
        rank_correlation=round(
            float(np.corrcoef(_ranks(measured), _ranks(result.predicted))[0, 1]), 4
        ),
        interval_holds=round(float(np.mean(inside)), 3),
        interval_holds_by_family=round(
            float(np.mean([np.mean(inside[groups == group]) for group in sorted(set(groups))])), 3
        ),
        interval_median_half_width=round(float(np.median(result.high / result.predicted)) - 1, 3),
        noise_floor_networks=count,
        noise_floor_median_max_over_min=round(typical, 3),
        noise_floor_p90_max_over_min=round(large, 3),
        macs_regression=_errors(_macs_regression(work, measured, groups), measured),
        vendor_prediction_rows=len(vendor),
        vendor_prediction=(
            round(float(np.median(vendor)), 3),
            round(float(np.quantile(vendor, 0.9)), 3),
        ),
        **medians,
    )


if __name__ == "__main__":
    main()

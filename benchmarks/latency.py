"""Predicted against published inference times of STM32N6 boards, by model and in total.

No constant is fitted on these rows. The 80 % interval of a row comes from the ratios of all other
family groups; beside it a regression on MACs, fitted on all other family groups as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import arguments, csv_rows, published_models, report, shared_folder

from npuforge.cost import npu_cost
from npuforge.errors import NpuforgeError
from npuforge.graph import macs
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint


@dataclass(frozen=True)
class Row:
    """One published figure with its prediction."""

    name: str
    group: str
    version: str
    measured: float
    predicted: float
    macs: int


def load_rows(shared: Path) -> tuple[list[Row], list[str]]:
    """All rows of quality ok with a model file, and the files that could not be read."""
    truth = {r["row_id"]: r for r in csv_rows(shared / "groundtruth/n6_measured.csv")}
    rows, refused = [], []
    seen: set[str] = set()
    for model in published_models(shared):
        fresh = [truth[key] for key in model.rows if key in truth and key not in seen]
        wanted = [row for row in fresh if row["quality"] == "ok"]
        if not wanted:
            continue
        try:
            graph = load_model(shared / "models" / model.file)
        except NpuforgeError as error:
            refused.append(f"{model.file}: {error}")
            continue
        placements = map_to_npu(graph).placements
        work = sum(macs(graph, node) for node in graph.nodes)
        for r in wanted:
            seen.add(r["row_id"])
            point = OperatingPoint("row", float(r["cpu_mhz"]), float(r["npu_mhz"]))
            predicted = npu_cost(graph, placements, point).ms
            rows.append(
                Row(model.file, r["family_group"], r["stedgeai_version"],
                    float(r["inference_ms"]), predicted, work)
            )  # fmt: skip
    return rows, refused


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values)).astype(float)


def main() -> None:
    options = arguments(__doc__ or "")
    shared = shared_folder()
    if shared is None:
        raise SystemExit("measurement data not found: set NPUFORGE_SHARED")
    rows, refused = load_rows(shared)
    groups = np.array([r.group for r in rows])
    measured = np.array([r.measured for r in rows])
    predicted = np.array([r.predicted for r in rows])
    work = np.array([max(r.macs, 1) for r in rows], float)
    held, regression = [], np.zeros(len(rows))
    for i in range(len(rows)):
        others = groups != groups[i]
        low, high = np.quantile(measured[others] / predicted[others], (0.1, 0.9))
        held.append(bool(low <= measured[i] / predicted[i] <= high))
        slope = np.polyfit(np.log(work[others]), np.log(measured[others]), 1)
        regression[i] = np.exp(np.polyval(slope, np.log(work[i])))
    error = np.abs(predicted / measured - 1)
    plain = np.abs(regression / measured - 1)
    table = [
        (r.name[:58], r.group, r.version, f"{r.measured:.2f}", f"{r.predicted:.2f}",
         f"{r.predicted / r.measured:.2f}")
        for r in sorted(rows, key=lambda r: r.group)
    ]  # fmt: skip
    report(
        "Inference time, predicted against published",
        ("file", "group", "compiler", "measured ms", "predicted ms", "ratio"),
        table,
        options.json,
        rows_used=len(rows),
        refused=refused,
        ratio_10_90=[round(float(q), 3) for q in np.quantile(measured / predicted, (0.1, 0.9))],
        median_error=round(float(np.median(error)), 3),
        p90_error=round(float(np.quantile(error, 0.9)), 3),
        rank_correlation=round(float(np.corrcoef(_ranks(measured), _ranks(predicted))[0, 1]), 3),
        interval_holds=round(float(np.mean(held)), 3),
        macs_regression_median=round(float(np.median(plain)), 3),
        macs_regression_p90=round(float(np.quantile(plain, 0.9)), 3),
    )


if __name__ == "__main__":
    main()

"""Refit of the shipped calibration file on all published measurements.

CPU kernels come from measured Cortex-M55 layers, the few constants of whole networks from board
figures; constants of single epochs stay as the calibration file has them, with their sources.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from common import ROOT, report, required_shared_folder
from cost_data import m55_layers, published_times
from latency import folds, start_calibration

from npuforge.cost import format_calibration
from npuforge.cost.calibrate import fit, fit_cpu, spread_of


def main() -> None:
    shared = required_shared_folder()
    start = start_calibration()
    fresh = fit_cpu(m55_layers(shared), "Cortex-M55 reports of ST Edge AI Core 2.2")
    kept = {"round_float"}
    fresh = {op: kernel for op, kernel in fresh.items() if op not in kept}
    start = replace(start, cpu={**start.cpu, **fresh})
    rows, _ = published_times(shared)
    observations = [row.observation for row in rows]
    done = fit(observations, start)
    outside = folds(observations, start)
    ratio = np.array([o.ms for o in observations]) / outside.predicted
    spread = spread_of(ratio, outside.doubt, [o.group for o in observations])
    basis = (
        f"{len(rows)} board figures of {done.groups} network families at 800/1000 MHz, each family "
        "predicted by a fit to the others"
    )
    calibration = replace(done.calibration, spread=spread, basis=basis)
    target = ROOT / "src/npuforge/cost/calibration.toml"
    Path(target).write_text(format_calibration(calibration), encoding="utf-8")
    changed = [
        (name, f"{getattr(start.constants, name):.4g}",
         f"{getattr(calibration.constants, name):.4g}")
        for name in calibration.fitted
    ]  # fmt: skip
    report("Fitted constants", ("constant", "before", "after"), changed, None,
           median_error_in_sample=round(done.median_error, 3))  # fmt: skip


if __name__ == "__main__":
    main()

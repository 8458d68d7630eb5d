"""Whole inferences with threads against one thread of the same executor, in the same run.

Interleaved: in each round every number of threads runs once. Wall time; the fastest round of each
counts. LiteRT's default interpreter (XNNPACK) with as many threads stands beside it.

    python benchmarks/threads.py
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, every_model, interleaved_ms, lite_inference, report

from npuforge.importers import load_model
from npuforge.numerics import Executor, random_inputs

LEAST_MS = 2.0
"""Networks faster than this on one thread are left out: nothing in them is worth sharing."""


def measure(path: Path, threads: int, rounds: int) -> tuple[Any, ...] | None:
    """Milliseconds with one thread and with several, ours and XNNPACK's; None for a small one."""
    graph = load_model(path)
    inputs = random_inputs(graph, np.random.default_rng(0))
    executors = [Executor(graph), Executor(graph, threads=threads)]
    calls = [
        lambda: executors[0].run(inputs),
        lambda: executors[1].run(inputs),
        lite_inference(path, inputs, reference=False),
        lite_inference(path, inputs, reference=False, threads=threads),
    ]
    one, several, lite_one, lite_several = interleaved_ms(calls, rounds, time.perf_counter)
    if one < LEAST_MS:
        return None
    shared = f"{executors[1].shared_steps}/{len(graph.nodes)}"
    ratios = round(several / one, 3), round(lite_several / lite_one, 3)
    return path.stem, shared, round(one, 2), round(several, 2), *ratios


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    threads = max(os.cpu_count() or 1, 2)
    rows, failed = [], []
    for path in every_model():
        if path.suffix != ".tflite":
            continue
        try:
            found = measure(path, threads, options.runs)
        except (ValueError, RuntimeError):
            failed.append(path.stem)  # LiteRT refuses the file
            continue
        if found is not None:
            rows.append(found)
    report(
        f"inference time, {threads} threads against one",
        ("model", "shared", "ms", "ms threads", "x one", "XNNPACK x one"),
        rows,
        options.json,
        median=round(statistics.median(row[4] for row in rows), 3) if rows else None,
        median_of_xnnpack=round(statistics.median(row[5] for row in rows), 3) if rows else None,
        not_measured=failed,
        load=os.getloadavg()[0],
    )


if __name__ == "__main__":
    main()

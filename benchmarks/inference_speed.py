"""Whole inferences of the int8 TFLite networks, one thread, against LiteRT in the same run.

Interleaved: in each round every engine runs once. Times are processor time, which other programs on
the machine do not prolong; the fastest round of each engine counts, because noise only adds.
Relative times are to LiteRT's reference kernels and to its default interpreter (XNNPACK).

    python benchmarks/inference_speed.py
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
from common import arguments, every_model, interleaved_ms, lite_inference, report

from npuforge.importers import load_model
from npuforge.numerics import Executor, random_inputs


def measure(path: Path, rounds: int) -> tuple[str, float, float, float] | None:
    """Milliseconds: ours, reference, XNNPACK; None for a network without int8 convolution."""
    graph = load_model(path)
    if not any(str(t.dtype) == "int8" and t.is_constant for t in graph.tensors.values()):
        return None
    executor = Executor(graph)
    inputs = random_inputs(graph, np.random.default_rng(0))
    calls = [
        lambda: executor.run(inputs),
        lite_inference(path, inputs, reference=True),
        lite_inference(path, inputs, reference=False),
    ]
    ours, reference, xnnpack = interleaved_ms(calls, rounds, time.process_time)
    return path.stem, ours, reference, xnnpack


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    rows, failed = [], []
    for path in every_model():
        if path.suffix != ".tflite":
            continue
        try:
            found = measure(path, options.runs)
        except (ValueError, RuntimeError) as error:
            failed.append(f"{path.stem}: {error}")
            continue
        if found is not None:
            name, a, b, c = found
            rows.append((name, round(a, 3), round(b, 3), round(c, 3), round(a / b, 3),
                         round(a / c, 3)))  # fmt: skip
    report(
        "inference time, one thread",
        ("model", "ms", "reference ms", "XNNPACK ms", "x reference", "x XNNPACK"),
        rows,
        options.json,
        median_of_reference=round(statistics.median(r[4] for r in rows), 3),
        median_of_xnnpack=round(statistics.median(r[5] for r in rows), 3),
        worst_of_reference=max((r[4], r[0]) for r in rows),
        worst_of_xnnpack=max((r[5], r[0]) for r in rows),
        not_measured=failed,
    )


if __name__ == "__main__":
    main()

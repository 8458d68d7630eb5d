"""Wall time of `deploy` without the cross build and the oracle's own run, against LiteRT.

Rival: LiteRT loads the same file and runs it ten times with its reference kernels. The bar is
3 s + 3 times that.

    python benchmarks/deploy_time.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from common import arguments, median_seconds, model_files, report

from npuforge import api
from npuforge.validate import oracles

NAMES = (
    "visual_wake_words",
    "keyword_spotting",
    "image_classification",
    "anomaly_detection",
    "zoo2__flowers__mobilenet_v1_0.25_96_fft_int8",
)


def reference_runs(path: Path) -> None:
    """Load the file and run it ten times."""
    interpreter = Interpreter(
        model_path=str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    detail = interpreter.get_input_details()[0]
    data = np.zeros(detail["shape"], detail["dtype"])
    for _ in range(10):
        interpreter.set_tensor(detail["index"], data)
        interpreter.invoke()


class Stopwatch:
    """Adds up the time spent in calls that are not npuforge's own."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time taken."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        return timed


def deploy_seconds(path: Path) -> float:
    """One deployment: all its time but that of the cross build and of the oracle."""
    watch = Stopwatch()
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(api, "build_project", watch.wrap(api.build_project)),
        mock.patch.object(
            oracles.LiteRtReference, "tensors", watch.wrap(oracles.LiteRtReference.tensors)
        ),
    ):
        begin = time.perf_counter()
        done = api.deploy_model(path, "stm32n6570-dk", Path(folder) / "out", emulate="on")
        total = time.perf_counter() - begin
    assert not done.validation.failed
    return total - watch.seconds


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    rows = []
    for path in model_files(*NAMES):
        ours = median_seconds_of(deploy_seconds, path, options.runs)
        rival = median_seconds(lambda path=path: reference_runs(path), options.runs)
        bar = 3 + 3 * rival
        rows.append((path.stem, f"{ours:.2f}", f"{rival:.3f}", f"{bar:.2f}", f"{ours / bar:.2f}"))
    report(
        "deploy without cross build and oracle, against LiteRT's reference kernels",
        ("model", "deploy s", "LiteRT load + 10 runs s", "bar s", "deploy / bar"),
        rows,
        options.json,
    )


def median_seconds_of(measure: Callable[[Path], float], path: Path, runs: int) -> float:
    """Median of a measurement that returns seconds itself."""
    return float(np.median([measure(path) for _ in range(runs)]))


if __name__ == "__main__":
    main()

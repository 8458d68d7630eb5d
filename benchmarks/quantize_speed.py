"""Wall time and peak memory of quantising MobileNetV2-224 on 200 photo crops.

ONNX Runtime's static quantisation (min-max, its default) against `npuforge quantize` with ONNX
Runtime as float engine and with its own executor; "auto", its default, chooses between ways. Each
run is a process of its own, so that peak memory is that run's; the runs take turns, and the fastest
of each counts. Importing the packages is not timed; exporting the float network for ONNX Runtime
is, on both sides. A quarter of the samples shows whether memory grows with their number.

    python benchmarks/quantize_speed.py --runs 2 --json benchmarks/results/quantize_speed.json
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import arguments, report
from quantize_data import pictures, save, shared, signed

from npuforge.exporters import Format, convert
from npuforge.quantize import (
    EngineName,
    RangeMethod,
    Scheme,
    ToolName,
    quantize,
    quantize_by,
)
from npuforge.tasks import open_dataset

RIVAL = "onnxruntime quantize_static"
WAYS = {
    RIVAL: (None, RangeMethod.MINMAX, 1.0),
    "npuforge, ONNX Runtime engine, auto": (EngineName.ONNXRUNTIME, None, 1.2),
    "npuforge, ONNX Runtime engine, mse": (EngineName.ONNXRUNTIME, RangeMethod.MSE, 1.2),
    "npuforge, ONNX Runtime engine, minmax": (EngineName.ONNXRUNTIME, RangeMethod.MINMAX, 1.2),
    "npuforge, own executor, auto": (EngineName.OWN, None, 4.0),
    "npuforge, own executor, mse": (EngineName.OWN, RangeMethod.MSE, 4.0),
}
"""Float engine, range method (None: auto), and how many times the rival's time is allowed."""
SAMPLES = 200


def one(way: str, path: Path, count: int) -> None:
    """Quantise once and print seconds and the peak resident memory in MB."""
    graph = shared("mobilenet_v2_1.0_224_int8.tflite")
    assert graph is not None
    data = open_dataset([path], graph).spread(count)
    engine, method, _ = WAYS[way]
    import onnx  # noqa: F401
    import onnxruntime.quantization  # noqa: F401

    scheme = Scheme() if method is None else Scheme(method=method)
    begin = time.perf_counter()
    if engine is None:
        quantize_by(ToolName.ONNXRUNTIME, graph, data, scheme)
    else:
        auto = method is None
        made = quantize(graph, data, scheme, engine=engine, choose=auto, measured_on=0)
        convert(made.made.graph, Format.TFLITE)
    seconds = time.perf_counter() - begin
    print(json.dumps([seconds, peak_megabytes()]))


def peak_megabytes() -> float:
    """Peak resident memory of this process since it was executed (getrusage counts its parent)."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kilobytes = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    return int(kilobytes) / 1024


def measured(way: str, path: Path, count: int) -> tuple[float, float]:
    """Seconds and MB of one run in a process of its own."""
    command = [sys.executable, __file__, "--one", way, str(path), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak


def main() -> None:
    """Take turns and report."""
    args = arguments(__doc__ or "")
    graph = shared("mobilenet_v2_1.0_224_int8.tflite")
    if graph is None:
        raise SystemExit("needs NPUFORGE_SHARED")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "calibration.npz"
        save(pictures(graph, "", signed, (SAMPLES, 1)), Path(name))
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(args.runs):
            for way, results in found.items():
                results.append(measured(way, path, SAMPLES))
                print(way, results[-1], flush=True)
        quarter = {way: measured(way, path, SAMPLES // 4)[1] for way in WAYS}
    best = min(seconds for seconds, _ in found[RIVAL])
    rows = []
    for way, results in found.items():
        seconds = min(s for s, _ in results)
        peak = max(p for _, p in results)
        figures = (round(seconds, 1), round(seconds / best, 2), WAYS[way][2])
        rows.append((way, *figures, round(peak), round(quarter[way])))
    columns = ("way", "seconds", "x rival", "limit", "peak MB", f"MB at {SAMPLES // 4} samples")
    report("Quantising MobileNetV2-224 on 200 crops", columns, rows, args.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()

"""Predicted against measured time of single epochs: hardware, software and controller blocks.

Hardware: epochs that can be matched with a node by their order (MobileNetV2 without epoch
controller) or because the network has only one convolution. Blocks of the epoch controller that
span known nodes are shown apart. Software: CPU layers of the Cortex-M55 reports, each predicted by
a fit to the other reports, and the CPU epochs of NPU builds whose operator is named.

What took part in a fit: the constants for depthwise frames and for over 512 channels, the set-up
by the CPU and the floating-point average come from the MobileNetV2 log itself. Single layers, fully
connected epochs and blocks took part in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import arguments, csv_rows, report, required_shared_folder
from cost_data import m55_layers

from npuforge.cost import Bottleneck, EpochCost, load_calibration, npu_cost
from npuforge.cost.calibrate import fit_cpu
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint

SINGLE = {
    "baseline_conv2d_16f_3x3_int8": "baseline_conv2d_16f_3x3_int8",
    "baseline_conv2d_1x1_int8": "baseline_conv2d_1x1_int8",
    "baseline_conv2d_32f_5x5_int8": "baseline_conv2d_32f_5x5_int8",
    "baseline_conv2d_3x3_int8": "baseline_conv2d_3x3_int8",
    "baseline_conv2d_64f_3x3_int8": "baseline_conv2d_64f_3x3_int8",
    "baseline_conv2d_pool_int8": "baseline_conv2d_pool_int8",
    "baseline_depthwise_3x3_int8": "baseline_depthwise_3x3_int8",
}
NAMED = {
    "DequantizeLinear": ("dequantize", 62_720),
    "QuantizeLinear": ("quantize", 1_280),
    "GlobalAveragePool": ("mean_float", 62_720),
}
"""Named CPU epochs of MobileNetV2: operator and elements."""
BLOCKS = "B036"
"""The same network, release 4.0.1, nominal clocks, flash at 99 MB/s, epoch controller."""
CONTROLLER_FREE = "B041"
"""MobileNetV2 224, release 2.2, 800/1000 MHz, one log line an epoch."""

DETECTORS = ("B038", "B039")
"""YOLO11n and YOLOv8n at 224 x 224, release 4.0.1, nominal clocks, a line a hybrid epoch."""


@dataclass(frozen=True)
class EpochRow:
    """One epoch; times in microseconds."""

    source: str
    what: str
    measured: float
    predicted: float


def _costs(graph: Graph, point: OperatingPoint, release: str) -> tuple[EpochCost, ...]:
    # The compiler of these logs left average pooling over a transposed ONNX mean to the CPU.
    placements = map_to_npu(graph, integer_io=True).placements
    calibration = load_calibration().with_constants({"scale": 1.0})
    return npu_cost(graph, placements, point, calibration, release=release, controller=False).epochs


def _core(epoch: EpochCost, point: OperatingPoint) -> float:
    """Microseconds between start and end of the units: without the CPU's set-up."""
    setup = epoch.parts[Bottleneck.CONTROL] * 1e3
    start = load_calibration().constants.epoch_clocks / point.npu_mhz
    return epoch.ms * 1e3 - setup + start


def mobilenet_rows(shared: Path) -> list[EpochRow]:
    """52 convolutions and the classifier, matched by order."""
    log = [
        r for r in csv_rows(shared / "groundtruth/per_epoch.csv") if r["run_id"] == CONTROLLER_FREE
    ]
    graph = load_model(shared / "models/mobilenet_v2_224_int8.onnx")
    point = OperatingPoint("board", 800.0, 1000.0, flash_mhz=200.0)
    epochs = [e for e in _costs(graph, point, "2.2") if e.op in
              ("conv2d", "depthwise_conv2d", "fully_connected")]  # fmt: skip
    lines = [*log[1:53], log[-1]]
    assert len(epochs) == len(lines), (len(epochs), len(lines))
    return [
        EpochRow("MobileNetV2 224", e.op, float(line["cyc_core"]) / 0.8 / 1e3, _core(e, point))
        for e, line in zip(epochs, lines, strict=True)
    ]


def single_rows(shared: Path) -> list[EpochRow]:
    """The convolution epoch of single-layer networks: three boards and projects, two releases."""
    rows = []
    seen: set[str] = set()
    for r in csv_rows(shared / "groundtruth/per_epoch.csv"):
        if r["model"] not in SINGLE or r["run_id"] in seen:
            continue
        seen.add(r["run_id"])
        slow = float(r["cpu_mhz"]) < 700
        point = OperatingPoint(
            "log", float(r["cpu_mhz"]), float(r["npu_mhz"]), flash_mhz=50.0 if slow else 200.0
        )
        graph = load_model(shared / "models" / f"{SINGLE[r['model']]}.tflite")
        epochs = [e for e in _costs(graph, point, r["stedgeai_version"]) if "conv" in e.op]
        measured = float(r["cyc_core"]) / point.cpu_mhz
        rows.append(EpochRow(r["run_id"], r["model"], measured, _core(epochs[0], point)))
    return rows


def classifier_rows(shared: Path) -> list[EpochRow]:
    """Fully connected epochs of the unrolled networks: all of one size, so order is no matter."""
    rows = []
    for run, size, limit in (("N288", (100, 784), 100_000), ("N283", (1000, 784), 1_000_000)):
        log = [r for r in csv_rows(shared / "groundtruth/per_epoch.csv") if r["run_id"] == run]
        graph = load_model(shared / f"models/snn_{size[0]}_2_V2.tflite")
        point = OperatingPoint("board", 800.0, 1000.0, flash_mhz=200.0)
        epoch = max(
            (e for e in _costs(graph, point, "2.2") if e.op == "fully_connected"
             and e.macs == size[0] * size[1]), key=lambda e: e.ms)  # fmt: skip
        rows += [
            EpochRow(run, f"fully_connected {size[1]}x{size[0]}",
                     float(r["cyc_core"]) / 0.8 / 1e3, _core(epoch, point))
            for r in log if limit < float(r["cyc_core"]) < 1.05 * size[0] * size[1] * 2
            and abs(float(r["cyc_core"]) / (size[0] * size[1]) - 2.0) < 0.1
        ]  # fmt: skip
    return rows


def block_rows(shared: Path) -> list[EpochRow]:
    """The two blocks of the epoch controller: all convolutions, and the classifier."""
    log = [r for r in csv_rows(shared / "groundtruth/per_epoch.csv") if r["run_id"] == BLOCKS]
    point = OperatingPoint("studio", 600.0, 800.0, flash_mhz=50.0)
    graph = load_model(shared / "models/mobilenet_v2_224_int8.onnx")
    placements = map_to_npu(graph, integer_io=True).placements
    epochs = npu_cost(graph, placements, point, release="4.0.1").epochs
    parts = {True: 0.0, False: 0.0}
    for epoch in epochs:
        if epoch.op != "mean":
            parts[epoch.op == "fully_connected"] += epoch.ms * 1e3
    blocks = [r for r in log if "EC" in r["type"]]
    return [
        EpochRow(BLOCKS, r["name"], float(r["dur_ms"]) * 1e3, parts[index == 1])
        for index, r in enumerate(blocks)
    ]


def cpu_layer_rows(shared: Path) -> list[EpochRow]:
    """CPU layers, each report predicted from the other reports."""
    layers = m55_layers(shared)
    rows = []
    for group in sorted({layer.group for layer in layers}):
        kernels = fit_cpu([layer for layer in layers if layer.group != group], "")
        rows += [
            EpochRow(group, layer.op, layer.clocks / 800,
                     kernels[layer.op].clocks(layer.elements, layer.macs) / 800)
            for layer in layers if layer.group == group
        ]  # fmt: skip
    return rows


def cpu_epoch_rows(shared: Path) -> list[EpochRow]:
    """CPU epochs of NPU builds whose operator and size are known."""
    calibration = load_calibration()
    control = calibration.constants.software_cpu_clocks
    known = []
    for r in csv_rows(shared / "groundtruth/per_epoch.csv"):
        if r["sw_op"]:
            op, size = NAMED[r["sw_op"]]
            known.append((r, op, size))
        elif r["run_id"].startswith("N2") and r["idx"] == "0" and "SW" in r["type"]:
            known.append((r, "quantize", 7840))
    return [
        EpochRow(r["run_id"], op, float(r["cyc_post"]) / float(r["cpu_mhz"]),
                 (control + calibration.kernel(op).clocks(size, 0)) / float(r["cpu_mhz"]))
        for r, op, size in known
    ]  # fmt: skip


def hybrid_rows(shared: Path) -> list[EpochRow]:
    """Hybrid epochs with the copies the NPU makes inside them, of two detectors at 224 x 224.

    A copy moves an element a clock, so the NPU's own clocks say how many elements it was. The two
    constants of such epochs were fitted to these same rows.
    """
    k = load_calibration().constants
    rows: list[EpochRow] = []
    log = csv_rows(shared / "groundtruth/per_epoch.csv")
    for r in (r for r in log if r["run_id"] in DETECTORS):
        cpu, npu = float(r["cpu_mhz"]), float(r["npu_mhz"])
        before, core, behind = (float(r[f"cyc_{part}"]) / cpu for part in ("pre", "core", "post"))
        if "HYBRID" in r["type"]:
            setup = k.hybrid_copy_cpu_clocks / cpu
            rows.append(EpochRow(r["run_id"], r["name"], before + core + behind, setup))
        elif "extra" in r["type"]:
            last, elements = rows.pop(), core * npu
            by_cpu = elements * k.hybrid_copy_cpu_clocks_per_element / cpu
            rows.append(
                EpochRow(last.source, f"{last.what} +", last.measured + before + core + behind,
                         last.predicted + core + by_cpu)
            )  # fmt: skip
    return [row for row in rows if row.what.endswith("+")]


def summary(rows: Sequence[EpochRow]) -> tuple[int, str, str]:
    """Rows, median and 90th percentile of the error."""
    error = np.array([abs(r.predicted / r.measured - 1) for r in rows])
    return len(rows), f"{np.median(error):.1%}", f"{np.quantile(error, 0.9):.1%}"


def main() -> None:
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    parts = {
        "hardware: MobileNetV2, by order": mobilenet_rows(shared),
        "hardware: single layers": single_rows(shared),
        "hardware: fully connected": classifier_rows(shared),
        "hybrid: copies of detectors, in sample": hybrid_rows(shared),
        "software: CPU layers, report left out": cpu_layer_rows(shared),
        "software: CPU epochs of NPU builds": cpu_epoch_rows(shared),
    }
    blocks = block_rows(shared)
    table = [(name, *summary(rows)) for name, rows in parts.items()]
    hardware = [r for name, rows in parts.items() if name.startswith("hardware") for r in rows]
    software = [r for name, rows in parts.items() if name.startswith("software") for r in rows]
    table += [("all hardware", *summary(hardware)), ("all software", *summary(software))]
    worst = sorted(hardware, key=lambda r: -abs(np.log(r.predicted / r.measured)))[:12]
    report(
        "Epoch time, predicted against board logs", ("what", "epochs", "median error", "p90"),
        table, options.json,
        blocks=[f"{r.what}: {r.measured / 1e3:.2f} ms, predicted {r.predicted / 1e3:.2f}"
                for r in blocks],
        furthest=[f"{r.source} {r.what} {r.measured:.0f} us, predicted {r.predicted:.0f}"
                  for r in worst],
    )  # fmt: skip


if __name__ == "__main__":
    main()

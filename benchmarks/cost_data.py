"""Published measurements as the observations the cost model is fitted and judged on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common import csv_rows, published_models

from npuforge.cost import compiler_rules, epoch_works, place_activations
from npuforge.cost.calibrate import LayerTime, Observation
from npuforge.errors import NpuforgeError
from npuforge.graph import Graph, macs
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint

ZOO_BOARD = "STM32N6570-DK"
"""ST's model zoo: epoch controller on, integer network inputs and outputs for ONNX files."""

M55_OPS = {
    "Conversion/smul_f32_s8": "quantize",
    "Conversion/smul_s8_f32": "dequantize",
    "Conversion/smul_s8_u8": "requantize",
    "Eltwise/mul/op_s8_s8": "mul",
    "Eltwise/add/op_s8_s8": "add",
    "Eltwise/min/op_s8_s8": "minimum",
    "Eltwise/sub/op_f32_f32": "sub_float",
    "Dense/smul_s8_s8": "fully_connected",
    "Nonlinearity/op_s8_s8": "relu",
    "Nonlinearity/op_f32_f32": "round_float",
    "Slice/smul_s8_s8": "slice",
    "Concat/smul_s8_s8": "concat",
    "Reduce/smul_f32_f32": "sum_float",
}
"""Operators of the CPU reports under the names of our graph."""


@dataclass(frozen=True)
class PublishedTime:
    """One published figure of a network whose file is at hand.

    Attributes:
        observation: what the model predicts from.
        file: model file.
        macs: multiply-accumulates.
        row: id in n6_measured.csv.
    """

    observation: Observation
    file: str
    macs: int
    row: str


def observe(
    graph: Graph, name: str, group: str, ms: float, point: OperatingPoint, release: str,
    controller: bool, integer_io: bool,
) -> Observation:  # fmt: skip
    """An observation of a graph."""
    placements = map_to_npu(graph, integer_io=integer_io).placements
    works = epoch_works(graph, placements, compiler_rules(release))
    where = place_activations(graph, works)
    return Observation(name, group, works, where, point, release, controller, ms)


def published_times(shared: Path) -> tuple[list[PublishedTime], list[str]]:
    """All rows of quality ok with a model file, and the files that could not be read."""
    truth = {r["row_id"]: r for r in csv_rows(shared / "groundtruth/n6_measured.csv")}
    found, refused = [], []
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
        work = sum(macs(graph, node) for node in graph.nodes)
        for r in wanted:
            seen.add(r["row_id"])
            zoo = r["board"] == ZOO_BOARD
            seen_by = observe(
                graph, r["model"], r["family_group"], float(r["inference_ms"]),
                OperatingPoint("row", float(r["cpu_mhz"]), float(r["npu_mhz"])),
                r["stedgeai_version"], zoo, zoo and model.file.endswith(".onnx"),
            )  # fmt: skip
            found.append(PublishedTime(seen_by, model.file, work, r["row_id"]))
    return found, refused


def _sizes(text: str) -> Iterator[int]:
    for shape in re.findall(r"\(([0-9x]+)\)", text):
        size = 1
        for part in shape.split("x"):
            size *= int(part)
        yield size


def m55_layers(shared: Path) -> list[LayerTime]:
    """Measured CPU layers; operators that occur in none of our graphs are left out."""
    layers = []
    for r in csv_rows(shared / "groundtruth/m55_per_layer.csv"):
        op = M55_OPS.get(f"{r['op']}/{r['kernel_type']}")
        if op is not None:
            size = max((*_sizes(r["inputs"]), *_sizes(r["outputs"])))
            # Only a matrix product has multiply-accumulates; other counts are elements again.
            work = int(r["macc"] or 0) if op == "fully_connected" else 0
            layers.append(LayerTime(op, r["run_id"], size, work, float(r["cycles"])))
    return layers

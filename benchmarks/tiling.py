"""Peak RAM of activations with and without tiling, checked bit for bit on the host and in QEMU.

python benchmarks/tiling.py [--vela PYTHON] [--emulate]

Four published classifiers, and a 640x640 detector with the layer shapes of YOLOv8n. With
--emulate the firmware of each network that a number of bytes is asked for is built and run in QEMU
(machine mps3-an547), which takes minutes for the detector. The rival is
Arm's Vela, which cascades operators in stripes to save SRAM: the Python of the option compiles the
same files for an Ethos-U55 with 128 MACs, optimised for size. Its SRAM holds what the NPU needs,
the network's input too. Published for patches (MCUNetV2, arXiv 2110.15352, MobileNetV2 1.0): 172 kB
instead of 1372 kB, with what overlaps computed twice.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import lite_interpreter, model_files, report
from detector import detector

from npuforge.boards import HostBoard, QemuBoard, build_project, find_toolchain, write_sources
from npuforge.explore.fit import on_chip
from npuforge.explore.tiling import Tiler, tile_least, tile_within
from npuforge.exporters import Format, convert
from npuforge.firmware import KnownAnswer, Network, capture_order, project_files
from npuforge.graph import Array, Graph
from npuforge.importers import load_model
from npuforge.lowering import Schedule, lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.shortfall import bytes_needed
from npuforge.numerics import Executor, random_inputs
from npuforge.targets import Target, Use, load_target

GOALS = {
    "zoo2__food-101__mobilenet_v1_0.5_224_fft_int8": 294,
    "zoo2__food-101__mobilenet_v2_0.35_224_fft_int8": 275,
    "zoo2__food-101__squeezenetv1.1_224_tfs_int8": 425,
    "mobilenet_v2_1.0_224_int8": None,
}
"""KiB of activations that each network has to be planned into; None for no such number."""
SIDE = 640
"""Rows and columns of the detector's picture."""

EMULATED = "mps3-an547"

Cells = tuple[Any, ...]
Outputs = dict[str, Array]


def vela_bytes(python: Path, file: Path) -> int:
    """SRAM that Vela's program for a file takes, optimised for size."""
    with TemporaryDirectory() as folder:
        command = [python, "-m", "ethosu.vela", file, "--accelerator-config", "ethos-u55-128",
                   "--optimise", "Size", "--output-dir", folder]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = re.search(r"Total SRAM used\s+([\d.]+) KiB", done.stdout)
    assert found is not None, done.stdout
    return round(float(found[1]) * 1024)


def same_in_litert(graph: Graph, content: bytes) -> bool:
    """Whether LiteRT's reference kernels give backend cpu's outputs, byte for byte."""
    sample = random_inputs(graph, np.random.default_rng(0))
    want = Executor(graph).run(sample)
    interpreter = lite_interpreter(content)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample[graph.inputs[0]])
    interpreter.invoke()
    return all(
        np.array_equal(interpreter.get_tensor(detail["index"]), want[name])
        for detail, name in zip(interpreter.get_output_details(), graph.outputs, strict=True)
    )


def emulated(graph: Graph, schedule: Schedule, sample: Outputs, want: Outputs) -> bool:
    """Whether the generated firmware of a schedule gives the outputs in the emulator."""
    board, tools = load_target(EMULATED), find_toolchain()
    plan = plan_memory(schedule, board)
    network = Network("tiled", graph, schedule, plan)
    with TemporaryDirectory() as name:
        folder = Path(name)
        answer = KnownAnswer(sample, want)
        write_sources(folder, project_files([network], [answer], board, "tiled"))
        build_project(folder, folder / "build", tools)
        machine = QemuBoard(
            graph, schedule, capture_order(schedule), folder / "build", 0, tools
        )  # fmt: skip
        got = machine.run([sample])[0].outputs
    return all(np.array_equal(want[name], got[name]) for name in graph.outputs)


def compared(
    graph: Graph,
    board: Target,
    goals: Sequence[tuple[str, int | None]],
    vela: int | str,
    emulate: bool,
) -> list[Cells]:
    """A network whole, then in stripes within each goal (None: as far as the search goes)."""
    whole = lower(graph, map_graph(graph, board), board)
    sample = random_inputs(graph, np.random.default_rng(0))
    want = Executor(graph).run(sample)
    tiler, rows = Tiler(whole), []
    for asked, goal in goals:
        begin = time.perf_counter()
        found = tile_least(whole, tiler) if goal is None else tile_within(whole, goal, tiler)
        took = time.perf_counter() - begin
        if found is None:
            rows.append((graph.name, asked, bytes_needed(whole), *["none"] * 8, vela))
            continue
        plan = plan_memory(found.schedule, board)
        verify_plan(found.schedule, plan, board)
        got = HostBoard(graph, found.schedule, plan).run(sample).outputs
        same = all(np.array_equal(want[name], got[name]) for name in graph.outputs)
        again = "not run"
        if emulate and goal is not None:
            again = "yes" if emulated(graph, found.schedule, sample, want) else "NO"
        within = "" if goal is None else "yes" if plan.activation_bytes <= goal else "NO"
        rows.append(
            (
                graph.name, asked, bytes_needed(whole), plan.activation_bytes, within,
                f"{found.recomputed / whole.macs:.1%}", found.moved,
                f"{len(whole.steps)} + {found.added_steps}", "yes" if same else "NO", again,
                f"{took:.1f}", vela,
            )
        )  # fmt: skip
    return rows


def main() -> None:
    """Tile every network to its goal and as far as the search goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--vela", type=Path, help="a Python with ethos-u-vela")
    parser.add_argument("--emulate", action="store_true", help="also run the firmware in QEMU")
    options = parser.parse_args()
    board = load_target(EMULATED)
    rows = []

    def rival(file: Path) -> int | str:
        return vela_bytes(options.vela, file) if options.vela else "not run"

    for path in model_files(*GOALS):
        goal = GOALS[path.stem]
        graph = replace(load_model(path), name=path.stem)
        goals: list[tuple[str, int | None]] = [("the least", None)]
        if goal is not None:
            goals.insert(0, (f"{goal} KiB", goal * 1024))
        rows += compared(graph, board, goals, rival(path), options.emulate)
    chip = on_chip(load_target("stm32n6570-dk"))
    inside = sum(pool.size for pool in chip.pools_for(Use.ACTIVATIONS))
    graph = detector(SIDE)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "detector.tflite"
        content = convert(graph, Format.TFLITE).content
        file.write_bytes(content)
        other = rival(file)
    goals = [(f"SRAM of {chip.name}: {inside}", inside), ("the least", None)]
    rows += compared(graph, chip, goals, other, options.emulate)
    report(
        "activations with and without tiling, bytes; outputs against backend cpu",
        ("network", "asked for", "whole", "tiled", "within the goal", "recomputed MACs",
         "bytes moved in windows", "kernel calls", "same output", "same in QEMU",
         "seconds of search", "Vela, SRAM for size"),
        rows, options.json, networks=len(GOALS) + 1,
        detector_outputs_equal_to_litert="yes" if same_in_litert(graph, content) else "NO",
    )  # fmt: skip


if __name__ == "__main__":
    main()

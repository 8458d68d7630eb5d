"""Peak RAM of activations with and without tiling, checked bit for bit on the host.

Three published classifiers, and a 640x640 detector with the layer shapes of YOLOv8n.

python benchmarks/tiling.py
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from common import arguments, model_files, report
from detector import detector

from npuforge.boards import HostBoard
from npuforge.explore.fit import on_chip
from npuforge.explore.tiling import Tiler, tile_least, tile_within
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.shortfall import bytes_needed
from npuforge.numerics import Executor, random_inputs
from npuforge.targets import Target, Use, load_target

GOALS = {
    "zoo2__food-101__mobilenet_v1_0.5_224_fft_int8": 294,
    "zoo2__food-101__mobilenet_v2_0.35_224_fft_int8": 275,
    "zoo2__food-101__squeezenetv1.1_224_tfs_int8": 425,
}
"""KiB of activations that each network has to be planned into."""
SIDE = 640
"""Rows and columns of the detector's picture."""

Cells = tuple[Any, ...]


def compared(graph: Graph, board: Target, goals: Sequence[tuple[str, int | None]]) -> list[Cells]:
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
            rows.append((graph.name, asked, bytes_needed(whole), *["none"] * 7))
            continue
        plan = plan_memory(found.schedule, board)
        verify_plan(found.schedule, plan, board)
        got = HostBoard(graph, found.schedule, plan).run(sample).outputs
        same = all(np.array_equal(want[name], got[name]) for name in graph.outputs)
        within = "" if goal is None else "yes" if plan.activation_bytes <= goal else "NO"
        rows.append(
            (
                graph.name, asked, bytes_needed(whole), plan.activation_bytes, within,
                f"{found.recomputed / whole.macs:.1%}", found.moved,
                f"{len(whole.steps)} + {found.added_steps}", "yes" if same else "NO",
                f"{took:.1f}",
            )
        )  # fmt: skip
    return rows


def main() -> None:
    """Tile every network to its goal and as far as the search goes."""
    options = arguments(__doc__ or "")
    board = load_target("mps3-an547")
    rows = []
    for path in model_files(*GOALS):
        goal = GOALS[path.stem]
        graph = replace(load_model(path), name=path.stem)
        rows += compared(graph, board, [(f"{goal} KiB", goal * 1024), ("the least", None)])
    chip = on_chip(load_target("stm32n6570-dk"))
    inside = sum(pool.size for pool in chip.pools_for(Use.ACTIVATIONS))
    goals = [(f"SRAM of {chip.name}: {inside}", inside), ("the least", None)]
    rows += compared(detector(SIDE), chip, goals)
    report(
        "activations with and without tiling, bytes; outputs against backend cpu",
        ("network", "asked for", "whole", "tiled", "within the goal", "recomputed MACs",
         "bytes moved in windows", "kernel calls", "same output", "seconds of search"),
        rows, options.json, networks=len(GOALS) + 1,
    )  # fmt: skip


if __name__ == "__main__":
    main()

"""Peak RAM of activations with and without tiling, checked bit for bit on the host.

python benchmarks/tiling.py
"""

from __future__ import annotations

import numpy as np
from common import arguments, model_files, report

from npuforge.boards import HostBoard
from npuforge.explore.tiling import Tiler, tile_least, tile_within
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

GOALS = {
    "zoo2__food-101__mobilenet_v1_0.5_224_fft_int8": 294,
    "zoo2__food-101__mobilenet_v2_0.35_224_fft_int8": 275,
    "zoo2__food-101__squeezenetv1.1_224_tfs_int8": 425,
}
"""KiB of activations that each network has to be planned into."""


def main() -> None:
    """Tile every network to its goal and as far as the search goes."""
    options = arguments(__doc__ or "")
    board = load_target("mps3-an547")
    rows = []
    for path in model_files(*GOALS):
        graph = load_model(path)
        whole = lower(graph, map_graph(graph, board), board)
        sample = random_inputs(graph, np.random.default_rng(0))
        plain = plan_memory(whole, board)
        want = HostBoard(graph, whole, plain).run(sample).outputs
        tiler, goal = Tiler(whole), GOALS[path.stem] * 1024
        for asked, found in (
            (f"{GOALS[path.stem]} KiB", tile_within(whole, goal, tiler)),
            ("the least", tile_least(whole, tiler)),
        ):
            if found is None:
                rows.append((path.stem, asked, plain.activation_bytes, *["none"] * 6))
                continue
            plan = plan_memory(found.schedule, board)
            verify_plan(found.schedule, plan, board)
            got = HostBoard(graph, found.schedule, plan).run(sample).outputs
            same = all(np.array_equal(want[name], got[name]) for name in graph.outputs)
            rows.append(
                (
                    path.stem, asked, plain.activation_bytes, plan.activation_bytes,
                    "yes" if plan.activation_bytes <= goal else "NO",
                    f"{found.recomputed / whole.macs:.1%}", found.moved,
                    f"{len(whole.steps)} + {found.added_steps}", "yes" if same else "NO",
                )
            )  # fmt: skip
    report(
        "activations with and without tiling, bytes",
        ("network", "asked for", "whole", "tiled", "within the goal", "recomputed MACs",
         "bytes moved in windows", "kernel calls", "same output"),
        rows, options.json, networks=len(GOALS),
    )  # fmt: skip


if __name__ == "__main__":
    main()

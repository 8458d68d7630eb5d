"""Stress on the virtual board: a single convolution and a detector, then every injected fault."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from common import arguments, model_files, report

from npuforge.boards import HostBoard
from npuforge.boards.virtual_board import VirtualBoard
from npuforge.firmware import KnownAnswer, Network, project_files
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

RUNS = (("baseline_conv2d_3x3_int8", 10_000), ("blazeface_front_128", 1_000))


def build(path: Path, folder: Path) -> VirtualBoard:
    graph, target = load_model(path), load_target("stm32n6570-dk")
    schedule = lower(graph, map_graph(graph, target), target)
    plan = plan_memory(schedule, target)
    sample = random_inputs(graph, np.random.default_rng(0))
    answer = KnownAnswer(sample, HostBoard(graph, schedule, plan).run(sample).outputs)
    network = Network("network", graph, schedule, plan)
    files = project_files([network], [answer], load_target("mps3-an547"), path.stem)
    return VirtualBoard(files, folder)


def main() -> None:
    options = arguments(__doc__)
    rows = []
    faults = []
    for name, count in RUNS:
        for path in model_files(name):
            with tempfile.TemporaryDirectory() as folder:
                board = build(path, Path(folder))
                result = board.stress(count)
                rows.append((name, count, result.failures, f"{100 * result.high:.3f} %"))
                if not faults:
                    faults = [(f.fault, f.trials, f.caught, f.named) for f in board.inject(1_000)]
    report("inferences", ("network", "inferences", "failures", "95 % below"), rows, None)
    report("faults", ("fault", "trials", "caught", "named"), faults, options.json, stress=rows)


if __name__ == "__main__":
    main()

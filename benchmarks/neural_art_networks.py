"""Every quantised network at hand under the contracts of the chip: units, grades, deviation.

    python benchmarks/neural_art_networks.py

Random inputs, one sample. `share` is the share of output values that differ from the model's own
arithmetic, end to end; `saturated` counts values that met a 16-bit limit on the way.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
from common import arguments, report, required_shared_folder

from npuforge import api
from npuforge.errors import NpuforgeError
from npuforge.numerics import random_inputs
from npuforge.numerics.neural_art import CONTRACTS, NeuralArtExecutor

GRADES = "ABCD"


def row(path: Path, contract: str) -> tuple[object, ...]:
    """One network under one contract."""
    graph = api.load_graph(path, contract)
    inputs = random_inputs(graph, np.random.default_rng(0))
    executor = api.make_executor(graph)
    assert isinstance(executor, NeuralArtExecutor)
    ours = executor.run(inputs)
    theirs = api.make_executor(api.load_graph(path)).run(inputs)
    values = sum(array.size for array in ours.values())
    differ = sum(int(np.count_nonzero(ours[name] != theirs[name])) for name in ours)
    evidence = api.evidence(graph)
    grades = Counter(entry["grade"] for entry in evidence)
    on_cpu = sum(entry["unit"] == "CPU" for entry in evidence)
    saturated = sum(c.shift + c.gain for c in executor.counts.values())
    counts = (grades.get(grade, 0) for grade in GRADES)
    return (path.name[:56], contract, len(graph.nodes), on_cpu, *counts, saturated,
            f"{differ / values:.3f}")  # fmt: skip


def main() -> int:
    """Print the table; 1 when a network does not run."""
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    rows, refused = [], []
    for path in sorted((shared / "models").iterdir()):
        for contract in CONTRACTS:
            try:
                rows.append(row(path, str(contract)))
            except NpuforgeError as error:
                refused.append(f"{path.name}, {contract}: {error}")
    columns = ("network", "contract", "nodes", "on CPU", *GRADES, "saturated", "share")
    totals = ["total", "", *(sum(int(str(r[i])) for r in rows) for i in range(2, 9)), ""]
    report("Networks under the chip's contracts", columns, [*rows, totals], options.json,
           networks=len(rows) // 2, refused=refused)  # fmt: skip
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())

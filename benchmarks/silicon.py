"""Outputs recorded on STM32N6570-DK boards against the contract neural_art, and others.

Needs the measurement data: `silicon/*.npz` (10 inputs a network, and the board's outputs) and the
networks they belong to.

    python benchmarks/silicon.py
"""

from __future__ import annotations

import sys

import numpy as np
from common import arguments, report, required_shared_folder

from npuforge import api

CONTRACTS = ("neural_art", "neural_art@1.1.3", "tflite_reference")


def main() -> int:
    """Compare every output byte; 1 when the contract neural_art differs anywhere."""
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    rows = []
    for path in sorted((shared / "silicon").glob("*.npz")):
        name = path.stem.replace("poll", "pool")
        model = shared / "models" / f"baseline_{name}_int8.tflite"
        with np.load(path, allow_pickle=False) as data:
            inputs, board = data["c_inputs_1"], data["c_outputs_1"]
        differing = []
        for contract in CONTRACTS:
            graph = api.load_graph(model, contract)
            executor = api.make_executor(graph)
            ours = [executor.run({graph.inputs[0]: x[None]})[graph.outputs[0]] for x in inputs]
            differing.append(int(np.count_nonzero(np.concatenate(ours).ravel() != board.ravel())))
        rows.append((name, board.size, *differing))
    total = ("total", *(sum(row[i] for row in rows) for i in range(1, 5)))
    columns = ("network", "outputs", *(f"{name} differs" for name in CONTRACTS))
    report("Recorded board outputs", columns, [*rows, total], options.json)
    return int(total[2] != 0)


if __name__ == "__main__":
    sys.exit(main())

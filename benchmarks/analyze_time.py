"""User time of `analyze` beyond import, for the largest networks of the measurement data.

Each file is analysed in a process of its own; the time is that of reading, planning, placing,
packing into epochs and timing, without the imports and without printing. The limit is 1.0 s for a
network of 300 nodes; `limit` scales it with the number of nodes above that.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from common import arguments, report, required_shared_folder

LIMIT = 1.0
NODES = 300
SCRIPT = """
import json, os, sys
from npuforge import api
import npuforge.cost, npuforge.explore.boards, npuforge.importers.onnx.importer
import npuforge.importers.tflite.importer, onnx, flatbuffers
begin = os.times().user
planned, board = api.analyze_model(sys.argv[1], "stm32n6570-dk")
middle = os.times().user
npu = api.npu_mapping(planned.graph, board)
npu.hardware_epochs
time = api.npu_time(planned.graph, board, npu, "nominal")
print(json.dumps([len(planned.graph.nodes), middle - begin, os.times().user - middle]))
"""


def main() -> None:
    """Print the table; the last column says whether the limit holds."""
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    files = sorted((shared / "models").iterdir(), key=lambda path: -path.stat().st_size)[:16]
    table = []
    for path in files:
        runs = []
        for _ in range(options.runs):
            made = subprocess.run(
                [sys.executable, "-c", SCRIPT, str(path)],
                capture_output=True,
                check=True,
                text=True,
            )
            runs.append(json.loads(made.stdout))
        nodes = runs[0][0]
        plan, npu = (statistics.median(run[i] for run in runs) for i in (1, 2))
        limit = LIMIT * max(1.0, nodes / NODES)
        verdict = "yes" if plan + npu < limit else "no"
        table.append((path.name[:52], nodes, f"{plan:.2f}", f"{npu:.2f}", f"{plan + npu:.2f}",
                      f"{limit:.2f}", verdict))  # fmt: skip
    table.sort(key=lambda row: -int(row[1]))
    columns = ("model", "nodes", "plan s", "npu s", "total s", "limit", "within")
    within = sum(row[-1] == "yes" for row in table)
    report("user time of analyze", columns, table, options.json, within=within, models=len(table))


if __name__ == "__main__":
    main()

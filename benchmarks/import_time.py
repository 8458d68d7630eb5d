"""Time to import and verify every model file; the bar is 150 ms a file and 0.3 ms a node.

Processor time of `load_model` in a warm process (`startup.py` measures loading libraries), the
fastest of the rounds. Nodes are those of the file: operators of all TFLite subgraphs, or nodes
of the ONNX graph, where quantising and dequantising are nodes too. A file of one or two nodes shows
what opening a file costs, so the bar of a node holds from 10 nodes on.

    python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
from pathlib import Path

from common import arguments, every_model, least_cpu_seconds, report

from npuforge.errors import NpuforgeError
from npuforge.importers import load_model

FEWEST_NODES = 10


def node_count(path: Path) -> int:
    """Nodes of the file as its format counts them."""
    if path.suffix == ".onnx":
        import onnx

        return len(onnx.load(path, load_external_data=False).graph.node)
    from npuforge.importers.tflite.file import read_tflite

    return sum(len(g.operators) for g in read_tflite(path.read_bytes(), path.name).subgraphs)


def measure(path: Path, rounds: int) -> tuple[str, int, float, float]:
    """Name, nodes, milliseconds, and milliseconds a node."""
    nodes = node_count(path)
    best = least_cpu_seconds(lambda: load_model(path), rounds) * 1e3
    return path.stem, nodes, round(best, 2), round(best / nodes, 3)


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    rows, failed = [], []
    for path in every_model():
        try:
            rows.append(measure(path, max(options.runs, 3)))
        except NpuforgeError as error:
            failed.append(f"{path.stem}: {error}")
    several = [r for r in rows if r[1] >= FEWEST_NODES]
    report(
        "import and verification",
        ("model", "nodes", "ms", "ms a node"),
        rows,
        options.json,
        models=len(rows),
        median_ms=statistics.median(r[2] for r in rows),
        median_ms_a_node=statistics.median(r[3] for r in rows),
        slowest=max((r[2], r[0]) for r in rows),
        slowest_a_node=max((r[3], r[0]) for r in several),
        over_150_ms=[r[0] for r in rows if r[2] > 150],
        over_300_us_a_node=[r[0] for r in several if r[3] > 0.3],
        not_measured=failed,
    )


if __name__ == "__main__":
    main()

"""Activation memory of published models: bound, plan, proof and time, beside other packers.

python benchmarks/packing_models.py [--target stm32n6570-dk] [--vela PYTHON]

The buffers are those of our own lowering in file order; every packer gets the same ones. The
published internal RAM is that of another compiler's lowering, so it is no rival of the packing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from common import csv_rows, every_model, published_models, report, shared_folder
from packing import verified_pack
from rivals import by_size_height, vela_height

from npuforge.errors import NpuforgeError
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.spans import spans_of
from npuforge.targets import load_target

VELA = 10.0
"""Seconds of Vela's hill climb for one model."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--target", default="stm32n6570-dk", help="board to lower for")
    parser.add_argument("--vela", type=Path, help="a Python with ethos-u-vela")
    return parser.parse_args()


def published_ram() -> dict[str, str]:
    """Published internal RAM in KiB with the compiler version, newest version, by model file."""
    shared = shared_folder()
    if shared is None:
        return {}
    rows = {row["row_id"]: row for row in csv_rows(shared / "groundtruth" / "n6_measured.csv")}
    found = {}
    for model in published_models(shared):
        kept = [
            rows[key]
            for key in model.rows
            if key in rows and rows[key]["quality"] == "ok" and rows[key]["internal_ram_kib"]
        ]
        if kept:
            newest = max(kept, key=lambda row: version(row["stedgeai_version"]))
            found[model.file] = f"{newest['internal_ram_kib']} ({newest['stedgeai_version']})"
    return found


def version(text: str) -> tuple[int, ...]:
    """A version for comparison; what is no number counts as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))


def main() -> None:
    """Pack and plan every model."""
    chosen = options()
    target = load_target(chosen.target)
    published = published_ram()
    rows = []
    proved = reached = planned = 0
    spills = {"none": 0, "proved": 0, "open": 0}
    slowest = 0.0
    for path in every_model():
        graph = load_model(path)
        schedule = lower(graph, map_graph(graph, target), target)
        spans = spans_of(schedule)
        found, taken = verified_pack(spans)
        height, bound, least = found.height, found.bound, found.least
        begin = time.perf_counter()
        try:
            plan = plan_memory(schedule, target)
            verify_plan(schedule, plan, target)
            where = " ".join(f"{region.name}:{region.used}" for region in plan.regions)
            planned += 1
            if plan.spill_gap is None:
                spills["none"] += 1
            else:
                where += f" spill {plan.spill_gap:.1%} above the least clocks"
                spills["proved" if plan.spill_gap == 0 else "open"] += 1
        except NpuforgeError as error:
            where = error.code
        seconds = time.perf_counter() - begin
        slowest = max(slowest, taken, seconds)
        proved += height == least
        reached += height == bound
        vela = vela_height(chosen.vela, spans, VELA) if chosen.vela else None
        rows.append((
            path.stem, len(spans), bound, least, height, f"{height / bound - 1:.2%}",
            "yes" if height == least else "NO", str(found.method), round(taken, 3),
            where, round(seconds, 3),
            by_size_height(spans), "none" if vela is None else vela[0],
            "none" if vela is None else round(vela[1], 2), published.get(path.name, ""),
        ))  # fmt: skip
    report(
        f"activations of every model on {target.name}, bytes",
        ("model", "buffers", "bound", "least", "height", "gap", "proved", "stage", "seconds",
         "plan", "plan seconds", "by size", "Vela", "Vela in", "published KiB (compiler)"),
        rows, chosen.json, models=len(rows), bound_reached=reached, proved_least=proved,
        planned_and_verified=planned, spills=spills, slowest_seconds=round(slowest, 2),
    )  # fmt: skip


if __name__ == "__main__":
    main()

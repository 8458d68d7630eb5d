"""Plan every instance of the planning set, verify each plan, and state bounds.

python benchmarks/planning.py [--vela PYTHON]

`clocks` are those of all traffic at the pools' prices; `least` is a bound that no plan undercuts.
Where an NPU compiler placed the same buffers, its clocks stand beside. Heights of everything in one
memory, as other packers need it, are stated too; those packers know neither pools nor views, so
views are joined to their owners for all of them.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

from common import ROOT, report
from rivals import by_size_height, vela_height

from npuforge.artefacts.planning_instance import (
    InstanceBuffer,
    PoolRow,
    read_buffers,
    read_pools,
)
from npuforge.memory.instances import instance_pieces
from npuforge.memory.packing import pack
from npuforge.memory.pools import joined_pieces, pack_rooms
from npuforge.memory.spans import Span
from npuforge.memory.verify_packing import verify_rooms

SET = ROOT / "benchmarks" / "planning"

VELA = 10.0
"""Seconds of Vela's hill climb for one instance."""


@dataclass(frozen=True)
class Instance:
    """An instance of the set.

    Attributes:
        name: of its file.
        pools: the memories.
        buffers: the buffers.
        compiler_clocks: clocks at the addresses that a compiler gave; None where none did.
        origin: where it comes from.
    """

    name: str
    pools: tuple[PoolRow, ...]
    buffers: tuple[InstanceBuffer, ...]
    compiler_clocks: float | None
    origin: str


def read_set(folder: Path = SET) -> list[Instance]:
    """All instances, in the order of the index."""
    found = []
    with (folder / "index.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            memory = folder / "memories" / f"{row['memory']}.csv"
            buffers = folder / "instances" / f"{row['instance']}.csv"
            found.append(
                Instance(
                    row["instance"],
                    read_pools(memory.read_text(encoding="utf-8"), memory.name),
                    read_buffers(buffers.read_text(encoding="utf-8"), buffers.name),
                    float(row["compiler_clocks"]) if row["compiler_clocks"] else None,
                    row["origin"],
                )
            )
    return found


def one_memory(instance: Instance) -> list[Span]:
    """Spans of everything that is written, views joined, as if there were one memory."""
    pieces, _ = instance_pieces(instance.pools, instance.buffers)
    read_only = {b.id for b in instance.buffers if b.reach and "write" not in b.reach}
    return [
        Span(p.span.name, p.span.size, p.span.alignment, p.span.first, p.span.last)
        for p in joined_pieces(pieces)
        if p.span.name not in read_only
    ]


def main() -> None:
    """Plan, verify and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--vela", type=Path, help="a Python with ethos-u-vela")
    chosen = parser.parse_args()
    rows = []
    proved = better = worse = compared = reached = 0
    slowest = 0.0
    for instance in read_set():
        pieces, rooms = instance_pieces(instance.pools, instance.buffers)
        begin = time.process_time()
        plan = pack_rooms(pieces, rooms)
        taken = time.process_time() - begin
        verify_rooms(pieces, rooms, plan.places)
        slowest = max(slowest, taken)
        proved += plan.proved
        theirs = instance.compiler_clocks
        if theirs is not None:
            compared += 1
            better += plan.clocks < theirs * (1 - 1e-6)
            worse += plan.clocks > theirs * (1 + 1e-6)
        spans = one_memory(instance)
        alone = pack(spans)
        reached += alone.height == alone.least
        vela = vela_height(chosen.vela, spans, VELA) if chosen.vela else None
        rows.append((
            instance.name, len(instance.buffers), len(rooms),
            sum(bool(b.view_of) for b in instance.buffers), round(plan.clocks),
            round(plan.least_clocks), f"{plan.clocks / plan.least_clocks - 1:.2%}",
            "yes" if plan.proved else "no", round(taken, 2),
            "" if theirs is None else round(theirs),
            " ".join(f"{name}:{p.height}" for name, p in plan.packings.items()),
            alone.least, alone.height, by_size_height(spans), "none" if vela is None else vela[0],
        ))  # fmt: skip
        print(rows[-1], flush=True)
    report(
        "planning set",
        ("instance", "buffers", "pools", "views", "clocks", "least", "gap", "proved", "CPU seconds",
         "compiler", "used", "one memory least", "height", "by size", "Vela"),
        rows, chosen.json, instances=len(rows), proved_least_clocks=proved,
        one_memory_proved=reached, slowest_cpu_seconds=round(slowest, 2),
        beside_compiler=f"{better} fewer clocks, {compared - better - worse} equal, {worse} more",
    )  # fmt: skip


if __name__ == "__main__":
    main()

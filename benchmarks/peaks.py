"""Published internal RAM on STM32N6 beside what ST's lowering needs, item by item.

python benchmarks/peaks.py [--vela PYTHON] [--checkouts FOLDER]

First table, published networks at the newest compiler: the peak of our own lowering, the arena
that tflite-micro takes for activations, Vela's hill climb on the buffers of our lowering; then the
epochs that ST's compiler is predicted to make: `fused` is what no longer reaches memory, `copies`
and `partials` what only this lowering has, their sum `live`. The published figure adds up what
every pool is filled to. Pools are full at different times, and addresses leave gaps: `pools` is the
rest.

Second table, compile reports of public projects (see planning_instances.py): both terms as they
are, from the compiler's own addresses.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import csv_rows, published_models, report, required_shared_folder
from packing_models import version
from planning_instances import REPORTS, report_bytes
from rivals import vela_height

from npuforge.accelerators.neural_art.buffers import EpochBuffer, Holds, epoch_buffers
from npuforge.artefacts.c_info import CInfo, read_c_info
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.mapping.npu import map_to_npu
from npuforge.memory.packing import live_bound, pack
from npuforge.memory.spans import Span, spans_of
from npuforge.targets import load_target

ARENA = """
import sys
from tflite_micro.python.tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 26).print_allocations()
"""
HEAD = re.compile(r"Arena allocation head (\d+) bytes")

VELA = 10.0
"""Seconds of Vela's hill climb for one network."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--vela", type=Path, help="a Python with ethos-u-vela")
    parser.add_argument("--checkouts", type=Path, help="git directories OWNER+NAME")
    return parser.parse_args()


def micro_bytes(model: Path) -> int | None:
    """Bytes of the head of tflite-micro's arena: what its planner gives to activations."""
    if model.suffix != ".tflite":
        return None
    done = subprocess.run([sys.executable, "-c", ARENA, model], capture_output=True, text=True)
    found = HEAD.search(done.stdout + done.stderr)
    return int(found[1]) if found else None


def live_of(buffers: Sequence[EpochBuffer], *kinds: Holds) -> int:
    """Most bytes of some kinds alive at one epoch."""
    return live_bound([Span(b.value, b.nbytes, 1, b.first, b.last) for b in buffers
                       if b.holds in kinds])  # fmt: skip


def network_rows(shared: Path, vela: Path | None) -> list[tuple[Any, ...]]:
    """The published networks."""
    target = load_target("stm32n6570-dk")
    known = {row["row_id"]: row for row in csv_rows(shared / "groundtruth" / "n6_measured.csv")}
    rows = []
    for model in published_models(shared):
        kept = [known[key] for key in model.rows
                if key in known and known[key]["quality"] == "ok"
                and known[key]["internal_ram_kib"]]  # fmt: skip
        if not kept:
            continue
        newest = max(kept, key=lambda row: version(row["stedgeai_version"]))
        path = shared / "models" / model.file
        graph = load_model(path)
        spans = spans_of(lower(graph, map_graph(graph, target), target))
        own = pack(spans).height
        hill = vela_height(vela, spans, VELA) if vela else None
        # the model zoo compiles with 8-bit inputs and outputs
        epochs = map_to_npu(graph, integer_io=True, release=newest["stedgeai_version"]).epochs
        buffers = epoch_buffers(graph, epochs, integer_io=True)
        tensors = live_of(buffers, Holds.TENSOR)
        copies = live_of(buffers, Holds.TENSOR, Holds.COPY) - tensors
        live = live_of(buffers, *Holds)
        published = round(float(newest["internal_ram_kib"]) * 1024)
        micro = micro_bytes(path)
        rows.append((
            path.stem, newest["stedgeai_version"], own, "none" if micro is None else micro,
            "none" if hill is None else hill[0], tensors - own, copies,
            live - tensors - copies, live, published - live, published,
            newest["external_ram_kib"], f"{published / live - 1:.1%}",
        ))  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def report_row(name: str, info: CInfo) -> tuple[Any, ...]:
    """A compile report: bytes alive at once, and what its pools are filled to."""
    spans = []
    ends: dict[str, int] = {}
    parts = {p.id: (p.name, p.address) for p in info.pools if not p.parts and p.size and p.address}
    written = [b for b in info.buffers if not b.parameter and b.size]
    written.sort(key=lambda b: -b.size)
    for i, b in enumerate(written):
        start = info.address_of(b) or 0
        inside = any(
            (info.address_of(o) or 0) <= start
            and start + b.size <= (info.address_of(o) or 0) + o.size
            and (o.first_epoch, o.last_epoch) == (b.first_epoch, b.last_epoch)
            for o in written[:i]
        )
        if not inside:
            spans.append(Span(str(b.id), b.size, 1, b.first_epoch, b.last_epoch))
        for pool in info.pools:
            if pool.id in parts and pool.address < start + b.size:
                end = min(start + b.size, pool.address + pool.size) - pool.address
                if start < pool.address + pool.size:
                    ends[pool.name] = max(ends.get(pool.name, 0), end)
    live = live_bound(spans)
    outside = sum(end for pool, end in ends.items() if pool == "hyperRAM")
    filled = sum(ends.values())
    release = info.tools[1][1].split()[0] if len(info.tools) > 1 else ""
    each = " ".join(f"{pool}:{end}" for pool, end in sorted(ends.items()))
    share = f"{filled / live - 1:.1%}"
    return name, release, len(spans), live, filled - live, filled, outside, share, each


def main() -> None:
    """Both tables."""
    chosen = options()
    shared = required_shared_folder()
    rows = network_rows(shared, chosen.vela)
    equal = sum(row[9] == 0 for row in rows)
    near = sum(0 <= row[9] <= 0.05 * row[8] for row in rows)
    second = []
    if chosen.checkouts:
        for name, (repository, path) in REPORTS.items():
            info = read_c_info(report_bytes(chosen.checkouts, repository, path), name)
            second.append(report_row(name, info))
        columns = ("report", "compiler", "buffers", "live", "pools", "filled", "of it outside",
                   "pools/live", "each pool")  # fmt: skip
        report("compile reports, bytes", columns, second, None)
    columns = ("model", "compiler", "own lowering", "tflite-micro", "Vela", "fused", "copies",
               "partials", "live", "pools", "published", "external KiB", "pools/live")  # fmt: skip
    report(
        "published internal RAM, bytes", columns, rows, chosen.json, networks=len(rows),
        live_equals_published=equal, within_5_percent=near,
        live_above_published=sum(row[9] < 0 for row in rows),
        compile_reports=[dict(zip(("report", "compiler", "buffers", "live", "pools", "filled",
                                   "outside", "share", "each"), row, strict=True))
                         for row in second],
    )  # fmt: skip


if __name__ == "__main__":
    main()

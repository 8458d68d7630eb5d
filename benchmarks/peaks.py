"""Published internal RAM on STM32N6 beside what ST's lowering needs, item by item.

python benchmarks/peaks.py [--vela PYTHON] [--checkouts FOLDER]

First table, published networks at the newest compiler: the peak of our own lowering, the arena
that tflite-micro takes for activations, Vela's hill climb on the buffers of our lowering; then the
epochs that ST's compiler is predicted to make: `fused` is what no longer reaches memory, `copies`
and `partials` what only this lowering has, their sum `live`. The published figure adds up what
every memory is filled to: `gaps` is what the compiler's way to choose addresses adds in one memory,
`banks` what dividing it into banks adds, both predicted by `neural_art/banks.py`. `rest` is what
that does not say. Below, the variant of the rule that is best on the networks of all other
families, on those of one family.

Second table, compile reports of public projects (see planning_instances.py): live bytes and what is
filled from the compiler's own addresses; the rule on the same buffers, and how many of the places
are the compiler's.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common import csv_rows, published_models, report, required_shared_folder
from packing_models import version
from planning_instances import REPORTS, report_bytes
from rivals import vela_height

from npuforge.accelerators.neural_art.banks import (
    PREFERENCE,
    Bank,
    Fit,
    Placed,
    Tie,
    banks_of,
    filled,
    place,
)
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

BOARD = "stm32n6570-dk"
ROUNDING = 5.2
"""Bytes: figures are published in KiB with two digits."""

EXTERNAL = 0x70000000
"""Addresses from here on are outside of the chip."""


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


@dataclass(frozen=True)
class Network:
    """A published network: its row without the prediction, and what the prediction takes."""

    head: tuple[Any, ...]
    family: str
    buffers: tuple[EpochBuffer, ...]
    live: int
    published: int
    external: str


def networks(shared: Path, vela: Path | None) -> list[Network]:
    """The published networks at the newest compiler."""
    target = load_target(BOARD)
    known = {row["row_id"]: row for row in csv_rows(shared / "groundtruth" / "n6_measured.csv")}
    found = []
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
        micro = micro_bytes(path)
        head = (
            path.stem, newest["stedgeai_version"], own, "none" if micro is None else micro,
            "none" if hill is None else hill[0], tensors - own, copies, live - tensors - copies,
            live,
        )  # fmt: skip
        found.append(Network(
            head, newest["family_group"], buffers, live,
            round(float(newest["internal_ram_kib"]) * 1024), newest["external_ram_kib"],
        ))  # fmt: skip
        print(head, flush=True)
    return found


def inside(buffers: Sequence[EpochBuffer], banks: Sequence[Bank], tie: Tie, fit: Fit) -> int:
    """Bytes on the chip that a variant of the rule fills."""
    outside = {bank.name for bank in banks if bank.external}
    levels = filled(place(buffers, banks, tie=tie, fit=fit), banks)
    return sum(level for name, level in levels.items() if name not in outside)


def network_rows(found: Sequence[Network]) -> list[tuple[Any, ...]]:
    """The first table."""
    banks = banks_of(load_target(BOARD))
    whole = [Bank("all", 0, 1 << 30)]
    rows = []
    for network in found:
        one = inside(network.buffers, whole, Tie.EARLY, Fit.TIGHT)
        told = inside(network.buffers, banks, Tie.EARLY, Fit.TIGHT)
        rows.append((
            *network.head, one - network.live, told - one, told, network.published - told,
            network.published, network.external, f"{told / network.published - 1:+.1%}",
        ))  # fmt: skip
    return rows


def left_out(found: Sequence[Network]) -> list[tuple[str, str, int, int, str]]:
    """For each family: variant chosen on the others, networks, exact ones, worst error on it."""
    banks = banks_of(load_target(BOARD))
    errors = {
        (tie, fit): [inside(n.buffers, banks, tie, fit) / n.published - 1 for n in found]
        for tie in Tie for fit in Fit
    }  # fmt: skip
    rows = []
    for family in dict.fromkeys(network.family for network in found):
        mine = [i for i, network in enumerate(found) if network.family == family]
        tie, fit = min(
            errors, key=lambda key: sum(abs(e) for i, e in enumerate(errors[key]) if i not in mine)
        )
        got = [errors[tie, fit][i] for i in mine]
        exact = sum(abs(e) <= ROUNDING / found[i].published for e, i in zip(got, mine, strict=True))
        rows.append((family, f"{tie}, {fit}", len(mine), exact, f"{max(got, key=abs):+.1%}"))
    return rows


def report_buffers(info: CInfo) -> list[tuple[EpochBuffer, int]]:
    """Buffers of a report that are no part of another, with the lives of their parts; addresses."""
    found: list[tuple[EpochBuffer, int]] = []
    written = [b for b in info.buffers if not b.parameter and b.size]
    for b in sorted(written, key=lambda b: (-b.size, b.first_epoch)):
        start = info.address_of(b) or 0
        for i, (other, base) in enumerate(found):
            lies = base <= start and start + b.size <= base + other.nbytes
            if lies and b.first_epoch <= other.last and other.first <= b.last_epoch:
                first, last = min(other.first, b.first_epoch), max(other.last, b.last_epoch)
                found[i] = replace(other, first=first, last=last), base
                break
        else:
            new = EpochBuffer(str(b.id), b.size, b.first_epoch, b.last_epoch, Holds.TENSOR)
            found.append((new, start))
    return found


def report_banks(info: CInfo) -> list[Bank]:
    """The memories of a report, in the order of preference; joined ones first where they are all
    of one speed."""
    pools = [p for p in info.pools if p.size and p.writable]
    rank = {name: n for n, name in enumerate(PREFERENCE)}
    speeds = {p.ratio for p in pools if p.address < EXTERNAL}
    found = [
        Bank(p.name, p.address, p.size, bool(p.parts), p.address >= EXTERNAL)
        for p in sorted(pools, key=lambda p: rank.get(p.name, len(rank)))
    ]
    return sorted(
        found,
        key=lambda b: (
            b.external,
            not b.joined and len(speeds) == 1,
            b.name not in rank and not b.joined,
            b.joined,
        ),
    )


def report_row(name: str, info: CInfo) -> tuple[Any, ...]:
    """A compile report: bytes alive at once, what its memories are filled to, and the rule."""
    real = report_buffers(info)
    banks = report_banks(info)
    buffers = [buffer for buffer, _ in real]
    told = place(buffers, banks)
    address = {buffer.value: at for buffer, at in real}
    same = sum(one.bank is not None and one.address == address[one.buffer.value] for one in told)
    levels = filled([Placed(b, banks[0], at) for b, at in real], banks)
    live = live_bound([Span(b.value, b.nbytes, 1, b.first, b.last) for b in buffers])
    total, guess = sum(levels.values()), sum(filled(told, banks).values())
    release = info.tools[1][1].split()[0] if len(info.tools) > 1 else ""
    each = " ".join(f"{bank}:{end}" for bank, end in sorted(levels.items()))
    return (name, release, len(real), live, guess, total, f"{guess / total - 1:+.1%}", same, each)


def main() -> None:
    """Both tables, and the rule on families it was not chosen on."""
    chosen = options()
    shared = required_shared_folder()
    found = networks(shared, chosen.vela)
    rows = network_rows(found)
    second = []
    if chosen.checkouts:
        for name, (repository, path) in REPORTS.items():
            info = read_c_info(report_bytes(chosen.checkouts, repository, path), name)
            second.append(report_row(name, info))
    columns = ("report", "compiler", "buffers", "live", "predicted", "filled", "error",
               "same place", "each bank")  # fmt: skip
    report("compile reports, bytes", columns, second, None)
    families = left_out(found)
    report("variant of the rule chosen on the other families",
           ("family", "chosen", "networks", "exact", "worst error"), families, None)  # fmt: skip
    total = [n.published for n in found]
    told = [row[11] for row in rows]
    off = sorted(abs(t / p - 1) for t, p in zip(told, total, strict=True))
    before = sorted(abs(n.live / n.published - 1) for n in found)
    report(
        "published internal RAM, bytes",
        ("model", "compiler", "own lowering", "tflite-micro", "Vela", "fused", "copies", "partials",
         "live", "gaps", "banks", "predicted", "rest", "published", "external KiB", "error"),
        rows, chosen.json, networks=len(rows),
        live_equals_published=sum(abs(n.published - n.live) <= ROUNDING for n in found),
        predicted_equals_published=sum(
            abs(p - t) <= ROUNDING for t, p in zip(told, total, strict=True)
        ),
        predicted_within_10_percent=sum(value <= 0.1 for value in off),
        median_error=f"{off[len(off) // 2]:.1%}", mean_error=f"{sum(off) / len(off):.1%}",
        worst_error=f"{off[-1]:.1%}",
        mean_error_of_live=f"{sum(before) / len(before):.1%}",
        worst_error_of_live=f"{before[-1]:.1%}",
        left_out_exact=sum(row[3] for row in families),
        families=[dict(zip(("family", "chosen", "networks", "exact", "worst"), row, strict=True))
                  for row in families],
        compile_reports=[dict(zip(("report", "compiler", "buffers", "live", "predicted", "filled",
                                   "error", "same_place", "each"), row, strict=True))
                         for row in second],
    )  # fmt: skip


if __name__ == "__main__":
    main()

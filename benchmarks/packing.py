"""The challenging set of google/minimalloc: time to place it, and how low heuristics alone get.

python benchmarks/packing.py --minimalloc CHECKOUT [--abseil CHECKOUT] [--vela PYTHON] [--alone]

The instances come from the checkout; its program is built beside ours where there is a compiler and
the sources of abseil (its submodule, or --abseil). Vela's hill climb runs in the given interpreter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from common import report
from rivals import build_minimalloc, by_size_height, minimalloc_seconds, vela_height

from npuforge.artefacts.minimalloc import BufferRow, read_minimalloc
from npuforge.memory.packing import Effort, Packing, pack
from npuforge.memory.pools import Piece, Room, RoomPlace
from npuforge.memory.spans import Span
from npuforge.memory.verify_packing import verify_rooms

LIMIT = 60.0
"""Seconds for one instance."""

HEURISTIC = 10.0
"""Seconds of the heuristic stages."""

VELA = 30.0
"""Seconds of Vela's hill climb for one instance: three times ours, as it is Python."""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--minimalloc", type=Path, help="a checkout of google/minimalloc")
    parser.add_argument("--abseil", type=Path, help="sources of abseil-cpp")
    parser.add_argument("--vela", type=Path, help="a Python with ethos-u-vela")
    parser.add_argument("--build", type=Path, help="folder to build in and keep")
    parser.add_argument("--alone", action="store_true", help="nothing but the heuristics")
    return parser.parse_args()


def spans_of_rows(rows: tuple[BufferRow, ...]) -> list[Span]:
    """Buffers of a MiniMalloc file; its upper time is the first one after the life."""
    return [Span(row.id, row.size, 1, row.lower, row.upper - 1) for row in rows]


def verified_pack(
    spans: list[Span], goal: int = 0, effort: Effort | None = None
) -> tuple[Packing, float]:
    """A packing and its seconds; the independent verifier has passed the offsets."""
    begin = time.perf_counter()
    packing = pack(spans, goal, effort)
    taken = time.perf_counter() - begin
    pieces = [Piece(span, ("all",)) for span in spans]
    places = {name: RoomPlace("all", at) for name, at in packing.offsets.items()}
    verify_rooms(pieces, [Room("all", packing.height, 1.0)], places)
    return packing, taken


def main() -> None:
    """Every instance: ours on two cores and on one, the rivals, and the heuristics alone."""
    chosen = options()
    if chosen.minimalloc is None:
        sys.exit("the instances are in google/minimalloc: give a checkout with --minimalloc")
    files = sorted((chosen.minimalloc / "benchmarks" / "challenging").glob("*.csv"))
    if chosen.alone:
        heuristics(files, chosen.json)
        return
    with tempfile.TemporaryDirectory() as scratch:
        abseil = chosen.abseil or chosen.minimalloc / "external" / "abseil-cpp"
        program = None
        if (abseil / "CMakeLists.txt").is_file():
            folder = chosen.build or Path(scratch)
            program = build_minimalloc(chosen.minimalloc.resolve(), abseil.resolve(), folder)
        if program is None:
            print("MiniMalloc is not built: no compiler, or no sources of abseil")
        measure(files, program, chosen)


def heuristics(files: list[Path], out: Path | None) -> None:
    """Heights of the heuristic stages, without rivals; CPU seconds, so that others may run."""
    rows = []
    for file in files:
        spans = spans_of_rows(read_minimalloc(file.read_text(), file.name))
        begin = time.process_time()
        alone, _ = verified_pack(spans, 0, Effort(2000, True, 0, HEURISTIC))
        taken = round(time.process_time() - begin, 2)
        rows.append((file.name[0], len(spans), alone.bound, alone.height,
                     round(alone.height / alone.bound, 4), taken))  # fmt: skip
    ratios = [row[4] for row in rows]
    report(
        "MiniMalloc's challenging set, heuristics alone",
        ("instance", "buffers", "bound", "height", "ratio", "CPU seconds"), rows, out,
        mean_ratio=round(sum(ratios) / len(ratios), 4), worst=max(ratios),
    )  # fmt: skip


def measure(files: list[Path], program: Path | None, chosen: argparse.Namespace) -> None:
    """Run and report."""
    rows = []
    totals = [0.0, 0.0, 0.0]
    ratios, better = [], 0
    for file in files:
        name, capacity = file.name.split(".")[0], int(file.name.split(".")[1])
        buffers = read_minimalloc(file.read_text(), file.name)
        spans = spans_of_rows(buffers)
        fit = Effort(0, False, 1 << 40, LIMIT, 2)
        found, two = verified_pack(spans, capacity, fit)
        placed, bound = found.height <= capacity, found.bound
        one = verified_pack(spans, capacity, Effort(0, False, 1 << 40, LIMIT, 1))[1]
        theirs = minimalloc_seconds(program, file, capacity, 4 * LIMIT) if program else None
        alone, spent = verified_pack(spans, 0, Effort(2000, True, 0, HEURISTIC))
        low = alone.height
        vela = vela_height(chosen.vela, spans, VELA) if chosen.vela else None
        for i, seconds in enumerate((two, one, theirs or 0.0)):
            totals[i] += seconds
        ratios.append(low / bound)
        better += vela is not None and low < vela[0]
        hill = ("none", "none")
        if vela is not None:
            hill = (str(round(vela[0] / bound, 4)), str(round(vela[1], 1)))
        rows.append((
            name, len(spans), bound, "yes" if placed else "NO", round(two, 2), round(one, 2),
            "none" if theirs is None else round(theirs, 2), low, round(low / bound, 4),
            round(spent, 2), round(by_size_height(spans) / bound, 4), *hill,
        ))  # fmt: skip
        print(rows[-1], flush=True)
    report(
        "MiniMalloc's challenging set; seconds, heights over the bytes alive at once",
        ("instance", "buffers", "bound", "placed", "2 cores", "1 core", "MiniMalloc", "heuristic",
         "ratio", "in", "by size ratio", "Vela ratio", "Vela in"),
        rows, chosen.json,
        total_two_cores=round(totals[0], 2), total_one_core=round(totals[1], 2),
        total_minimalloc=round(totals[2], 2) if program else "not run",
        heuristic_mean_ratio=round(sum(ratios) / len(ratios), 4),
        lower_than_vela=f"{better} of {len(files)}" if chosen.vela else "not run",
    )  # fmt: skip


if __name__ == "__main__":
    main()

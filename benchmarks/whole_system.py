"""Whole applications: memory that a description says, beside the map of the linked program.

python benchmarks/whole_system.py --checkouts FOLDER

FOLDER holds a git directory OWNER+NAME for each public project of `APPLICATIONS`. Its description
(benchmarks/systems/) was written from the project's sources: frames, stacks, heap, results of
post-processing. Each item is set beside the sections of the map that hold it; what the map has and
nobody described is listed by its largest piece. Filling for alignment counts as not described.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from common import ROOT, report
from planning_instances import report_bytes

from npuforge.artefacts.map_pieces import MapPiece, read_map_pieces
from npuforge.explore.system import plan_description
from npuforge.memory.system import read_system
from npuforge.targets import load_target

Where = tuple[str, str]
"""Beginning of an input section's name, end of the object's name."""


@dataclass(frozen=True)
class Application:
    """A public application: repository, map, and the sections that hold the described items."""

    repository: str
    map: str
    items: dict[tuple[str, ...], tuple[Where, ...]]


STACK_AND_HEAP = ("heap", "main stack")
LINKED = (("._user_heap_stack", ""),)

APPLICATIONS = {
    "detection_display": Application(
        "meabdalla/STM32N6570-DK-Guide-FR",
        "Application/STM32N6570-DK/STM32CubeIDE/Debug/"
        "STM32N6570-DK_GettingStarted_ObjectDetection.map",
        {
            ("background", "foreground"): ((".psram_bss", "main.o"),),
            ("boxes",): ((".bss.out_detections", ""),),
            STACK_AND_HEAP: LINKED,
        },
    ),
    "steel_inspection": Application(
        "chen-auspice/AI_Steel_Detection",
        "STM32CubeIDE/Appli/Release/AI_Steel_Detection_Appli.map",
        {
            ("background", "foreground"): ((".EXTRAM", "app_lcd.o"),),
            ("network input", "photo"): ((".EXTRAM", "app.o"),),
            ("network output",): ((".bss.nn_output_buffers", ""),),
            ("boxes",): ((".bss.out_detections", ""),),
            ("epoch programs",): ((".bss._ec_blob", "network.o"),),
            ("main thread",): ((".bss.main_thread_stack", ""),),
            ("nn thread", "pp thread", "dp thread", "isp thread", "key thread"): (
                (".bss.nn_thread_stack", ""), (".bss.pp_thread_stack", ""),
                (".bss.dp_thread_stack", ""), (".bss.isp_thread_stack", ""),
                (".bss.key_thread_stack", ""),
            ),
            ("timer thread",): ((".bss._tx_timer_thread_stack", ""),),
            STACK_AND_HEAP: LINKED,
        },
    ),
    "hand_tracking": Application(
        "JJtan2002/x-cube-n6-ai-hand-landmarks",
        "build/Project.map",
        {
            ("background", "foreground", "screen", "network input"): ((".psram_bss", "app.o"),),
            ("boxes",): ((".bss.out_detections", ""),),
            ("main thread",): ((".bss.main_thread_stack", ""),),
            ("nn thread", "dp thread", "isp thread"): (
                (".bss.nn_thread_stack", ""), (".bss.dp_thread_stack", ""),
                (".bss.isp_thread_stack", ""),
            ),
            ("idle task",): ((".bss.Idle_Stack", ""),),
            ("timer task",): ((".bss.Timer_Stack", ""),),
            STACK_AND_HEAP: LINKED,
        },
    ),
}  # fmt: skip


def in_ram(pieces: tuple[MapPiece, ...], target: str) -> list[MapPiece]:
    """Pieces of a map that are written at run time, without code and constants that run there."""
    board = load_target(target)
    kept = []
    for piece in pieces:
        pool = board.pool_at(piece.address)
        constant = piece.section.startswith((".text", ".rodata", ".isr_vector", ".init", ".debug",
                                             ".ARM", ".eh_frame", ".fini"))  # fmt: skip
        # debugging sections have addresses from 0, which is no memory of these boards
        if pool is not None and pool.writable and not constant:
            kept.append(piece)
    return kept


def holds(where: Where, piece: MapPiece) -> bool:
    """Whether a piece belongs to an item; sections without names go by their output section."""
    name, owner = where
    named = piece.name.startswith(name) or (piece.section == name and piece.name == "*fill*")
    return named and piece.object.replace("\\", "/").rpartition("/")[2].endswith(owner)


def main() -> None:
    """Every application, item by item and in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--checkouts", type=Path, help="git directories OWNER+NAME")
    options = parser.parse_args()
    if options.checkouts is None:
        sys.exit("the maps are in public projects: give a folder with --checkouts")
    rows, totals = [], []
    for name, application in APPLICATIONS.items():
        description = read_system(ROOT / "benchmarks" / "systems" / f"{name}.toml")
        layout = plan_description(description)
        said = {block.name: block.nbytes for block in layout.blocks}
        text = report_bytes(options.checkouts, application.repository, application.map)
        pieces = in_ram(read_map_pieces(text.decode("utf-8", "replace")), description.target)
        rest = list(pieces)
        described = 0
        for items, places in application.items.items():
            mine = [piece for piece in rest if any(holds(where, piece) for where in places)]
            rest = [piece for piece in rest if piece not in mine]
            want = sum(said[item] for item in items)
            got = sum(piece.nbytes for piece in mine)
            described += want
            rows.append((name, ", ".join(items), want, got, got - want))
        linked = sum(piece.nbytes for piece in pieces)
        left = sum(piece.nbytes for piece in rest)
        largest = max(rest, key=lambda piece: piece.nbytes)
        totals.append((
            name, application.repository, described, linked, left, f"{described / linked:.2%}",
            f"{largest.name} {largest.nbytes}",
        ))  # fmt: skip
    report("RAM of whole applications, described and linked, bytes",
           ("application", "items", "described", "in the map", "difference"),
           rows, None)  # fmt: skip
    columns = ("application", "repository", "described", "in the map", "not described", "share",
               "largest of it")  # fmt: skip
    report(
        "RAM of whole applications in all, bytes", columns, totals, options.json,
        items=len(rows), items_equal=sum(row[4] == 0 for row in rows),
        rows_of_items=[dict(zip(("application", "items", "described", "linked", "difference"), row,
                                strict=True)) for row in rows],
    )  # fmt: skip


if __name__ == "__main__":
    main()

"""`npuforge plan`: everything that takes memory, in one account."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer


class Action(StrEnum):
    """What to do with the files."""

    CHECK = "check"
    EXPORT = "export"
    FIT = "fit"
    LEDGER = "ledger"
    MAP = "map"
    MEASURE = "measure"
    WRITE = "write"


def command(
    action: Action = typer.Argument(
        help="fit: does a model, or the system of a description, fit, and where does everything "
        "lie; write: the "
        "files that follow from it; check: do files that describe memory agree; ledger: every byte "
        "of a linked program; measure: build a model's firmware, account for it, run it in the "
        "emulator; map: draw a model's plan over time; export: a model's plan for "
        "tflite-micro (.tflite) or MiniMalloc (.csv)."
    ),
    paths: list[Path] = typer.Argument(
        help="fit: the description (TOML) or a model; write: the description; ledger: the ELF, and "
        "its map if elsewhere; measure, map, export: a model; check: linker scripts, ELF, map, "
        ".mpool, c_info.json, nf_mpu.c, descriptions."
    ),
    target: str | None = typer.Option(
        None,
        "--target",
        "-t",
        help="ledger: machine the program was linked for; fit (a model), measure, map, export: "
        "board (mps3-an547 when left out); check: board whose memory everything must lie in.",
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="write: folder for the files; map: .svg or .html file; export: .tflite or .csv file.",
    ),
    activations: str | None = typer.Option(
        None, help="fit (a model): bytes that its activations may take, for example 294KiB."
    ),
    tiling: bool = typer.Option(
        True, help="fit (a model): compute in stripes of rows what does not fit otherwise."
    ),
    force: bool = typer.Option(False, "--force", help="Replace existing files."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Account for the memory of a whole system: networks, program, tasks, frames and buffers."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, progress
    from npuforge.errors import UsageError
    from npuforge.report.system import (
        check_memory_document,
        ledger_document,
        measured_document,
    )

    if action is Action.FIT:
        if len(paths) != 1:
            raise UsageError("SYS-004", action=action, want=1, got=len(paths))
        if paths[0].suffix.lower() == ".toml":
            _fit(paths[0], as_json)
        else:
            _fit_model(paths[0], target or "mps3-an547", activations, tiling, as_json)
        return
    if action is Action.WRITE:
        if len(paths) != 1 or output is None:
            raise UsageError("SYS-004", action=action, want="1 (and --output)", got=len(paths))
        made = [str(path) for path in api.write_system(paths[0], output, force=force)]
        if as_json:
            print_json({"schema": "npuforge.system-files/1", "files": made})
        else:
            for name in made:
                console().print(name, markup=False, soft_wrap=True)
        return
    if action is Action.CHECK:
        checked = api.check_memory(paths, target)
        document = check_memory_document(checked.files, checked.disagreements)
        print_json(document) if as_json else _checked(document)
        if checked.disagreements:
            raise typer.Exit(1)
        return
    target = target or "mps3-an547"
    if action in (Action.MAP, Action.EXPORT):
        if len(paths) != 1 or output is None:
            raise UsageError("SYS-004", action=action, want="1 (and --output)", got=len(paths))
        make = api.draw_memory if action is Action.MAP else api.export_plan
        drawn = str(make(paths[0], target, output, force=force))
        print_json({"schema": f"npuforge.memory-{action}/1", "file": drawn}) if as_json else (
            console().print(drawn, markup=False, soft_wrap=True)
        )
        return
    if action is Action.MEASURE:
        if len(paths) != 1:
            raise UsageError("SYS-004", action=action, want=1, got=len(paths))
        with progress("building"):
            found = api.measure_memory(paths[0], target)
        document = measured_document(found)
        print_json(document) if as_json else _measured(document)
        if not found.exact:
            raise typer.Exit(1)
        return
    if len(paths) > 2:
        raise UsageError("SYS-004", action=action, want="1 or 2", got=len(paths))
    ledger = api.program_ledger(paths[0], target, map_file=paths[1] if len(paths) > 1 else None)
    document = ledger_document(ledger)
    print_json(document) if as_json else _ledger(document)


def _fit_model(
    path: Path, target: str, activations: str | None, tiling: bool, as_json: bool
) -> None:
    """The plan of one model, in stripes where need be; else why it does not fit and what helps."""
    from npuforge import api
    from npuforge.cli.common import console, print_error, print_json, print_table
    from npuforge.messages import text
    from npuforge.report import tiling_notes
    from npuforge.report.system import model_fit_document

    found = api.fit_model(path, target, activations=activations, tiling=tiling)
    refused = None if found.refused is None else str(found.refused)
    document = model_fit_document(
        found.planned, refused, found.diagnosis, found.target, found.compiler
    )
    if as_json:
        print_json(document)
    else:
        if found.refused is not None:
            print_error(found.refused)
        if found.planned is not None:
            plan = document["model"]
            print_table(
                f"{plan['name']} on {found.target.name}",
                ("memory", "holds", ">used", ">size"),
                [(r["name"], r["holds"], r["used"], r["size"]) for r in plan["regions"]],
            )
            for note in tiling_notes(found.planned, found.target, "nominal"):
                console().print(note, markup=False, soft_wrap=True)
        if document["st_compiler"] is not None:
            told = document["st_compiler"]
            each = ", ".join(f"{name} {level}" for name, level in told["banks"].items())
            note = text("SYS-st-banks", inside=told["inside"], outside=told["outside"], each=each)
            console().print(note, markup=False, soft_wrap=True)
        if document["shortfall"] is not None:
            _shortfall(document["shortfall"])
    if not document["fits"]:
        raise typer.Exit(1)


def _fit(path: Path, as_json: bool) -> None:
    """The layout, or why there is none; then networks that leave the chip, with remedies."""
    from npuforge import api
    from npuforge.cli.common import print_error, print_json
    from npuforge.errors import PlanError
    from npuforge.report.system import diagnosis_document, layout_document

    refused: PlanError | None = None
    document: dict[str, Any] = {"schema": "npuforge.system/1"}
    try:
        document = layout_document(api.fit_system(path))
    except PlanError as error:
        refused = error
    document["error"] = None if refused is None else str(refused)
    outside = any(
        line["account"] == "activations" and not on_chip
        for on_chip, line in _lines_with_place(document)
    )
    wanted = outside or (refused is not None and refused.code in ("MEM-001", "MEM-021"))
    document["shortfalls"] = [diagnosis_document(d) for d in api.shortfalls(path)] if wanted else []
    if as_json:
        print_json(document)
    elif refused is not None:
        print_error(refused)
    else:
        _fitted(document)
    if not as_json:
        for entry in document["shortfalls"]:
            _shortfall(entry)
    if refused is not None or not document["budget"]["within"]:
        raise typer.Exit(1)


def _lines_with_place(document: dict[str, Any]) -> list[tuple[bool, dict[str, Any]]]:
    ledger = document.get("ledger", {"pools": [], "lines": []})
    inside = {pool["name"]: pool["on_chip"] for pool in ledger["pools"]}
    return [(inside[line["pool"]], line) for line in ledger["lines"]]


def _shortfall(entry: dict[str, Any]) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.messages import text

    out = console()
    out.print(
        text(
            "SYS-shortfall", network=entry["network"], missing=entry["missing"],
            need=entry["need"], capacity=entry["capacity"], step=entry["peak_step"],
            node=entry["peak_node"],
        ),
        markup=False, soft_wrap=True,
    )  # fmt: skip
    if entry["peak_epoch"] is not None:
        out.print(
            text("SYS-shortfall-epoch", epoch=entry["peak_epoch"]), markup=False, soft_wrap=True
        )
    print_table(
        f"alive together at step {entry['together_at']}",
        ("buffer", ">bytes", ">first step", ">last step"),
        [(b["buffer"], b["bytes"], b["first_step"], b["last_step"]) for b in entry["together"]],
    )
    print_table(
        "what helps",
        ("remedy", "what", ">on the chip", "fits", ">outside", ">ms", ">ms added"),
        [
            (
                r["kind"], r["detail"], r["planned"], "yes" if r["fits"] else "no", r["outside"],
                "" if r["ms"] is None else f"{r['ms']:.2f}",
                "" if r["added_ms"] is None else f"{r['added_ms']:.2f}",
            )
            for r in entry["remedies"]
        ],
    )  # fmt: skip


def _fitted(document: dict[str, Any]) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.messages import text

    _ledger(document["ledger"], sizes=False)
    tiled = [(n["name"], n["tiling"]) for n in document["networks"] if n["tiling"] is not None]
    if tiled:
        print_table(
            "computed in stripes of rows",
            ("network", ">bytes before", ">after", ">calls added", ">bytes moved", ">MACs again"),
            [
                (name, t["bytes_before"], t["bytes_after"], t["kernel_calls_added"],
                 t["bytes_moved"], t["macs_recomputed"])
                for name, t in tiled
            ],
        )  # fmt: skip
    spent = document["budget"]
    out = console()
    code = "SYS-within" if spent["within"] else "SYS-over"
    out.print(
        text(
            code, total=spent["total"], allowed=spent["allowed"], ram=spent["ram"],
            limit=f"{spent['limit']:.0%}", held=spent["held"], moving=spent["moving"],
            over=spent["total"] - spent["allowed"],
        ),
        markup=False, soft_wrap=True,
    )  # fmt: skip


def _ledger(document: dict[str, Any], sizes: bool = True) -> None:
    from npuforge.cli.common import console, print_table

    print_table(
        "memory, line by line",
        ("address", ">bytes", "class", "pool", "what", "origin"),
        [
            (f"{line['address']:#010x}", line["bytes"], line["account"], line["pool"],
             line["name"], line["origin"])
            for line in document["lines"]
        ],
    )  # fmt: skip
    print_table(
        "classes",
        ("class", ">bytes", ">of them in RAM on the chip"),
        [(entry["account"], entry["bytes"], entry["in_ram"]) for entry in document["accounts"]],
    )
    print_table(
        "pools",
        ("pool", "base", ">bytes", ">used", ">free"),
        [
            (pool["name"], f"{pool['base']:#010x}", pool["bytes"], pool["used"], pool["free"])
            for pool in document["pools"]
        ],
    )
    if sizes:
        words = document["sizes"]
        console().print(
            f"text {words['text']}  data {words['data']}  bss {words['bss']}  "
            f"total {words['total']}",
            markup=False,
        )


def _measured(document: dict[str, Any]) -> None:
    from npuforge.cli.common import console, print_table

    print_table(
        "expected, linked and run",
        ("what", ">expected", ">linked", ">run", "run means"),
        [
            [
                "" if row[key] is None else row[key]
                for key in ("what", "expected", "linked", "run", "meaning")
            ]
            for row in document["rows"]
        ],
    )
    print_table(
        "from live tensors to the plan",
        ("term", ">bytes"),
        [(term["term"], f"{term['bytes']:+d}") for term in document["terms"]],
    )
    verdict = "equal to" if document["exact"] else "DIFFERENT FROM"
    console().print(
        f"ledger: text {document['sizes'][0]}, data {document['sizes'][1]}, bss "
        f"{document['sizes'][2]}, {verdict} what size prints",
        markup=False,
    )


def _checked(document: dict[str, Any]) -> None:
    from npuforge.cli.common import console
    from npuforge.messages import text

    lines = [entry["text"] for entry in document["disagreements"]]
    if not lines:
        claims = sum(entry["claims"] for entry in document["files"])
        lines = [text("SYS-agree", count=len(document["files"]), claims=claims)]
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)

"""`npuforge aton`: compiled Neural-ART programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer


class Action(StrEnum):
    """What to do with the file."""

    SHOW = "show"
    RUN = "run"
    TRACE = "trace"
    COSIM = "cosim"
    CHECK = "check"
    DIFF = "diff"
    TEXT = "text"
    ASSEMBLE = "assemble"


def command(
    action: Action = typer.Argument(
        help="show: what is in it; run: simulate it and compare with --model; trace: what every "
        "epoch moved; cosim: its CPU steps as firmware on an emulated "
        "Cortex-M55; check: what the chip would not survive; diff: against --with; text: "
        "disassemble a blob; assemble: text to blob."
    ),
    path: Path = typer.Argument(
        help="Generated network.c, the folder it is in, or an epoch-controller blob; for assemble "
        "its text form."
    ),
    inputs: list[Path] = typer.Option(
        [], "--input", "-i", help="npy, one an input; random bytes when none are given."
    ),
    model: Path | None = typer.Option(
        None, "--model", "-m", help="The network it came from: compare every buffer."
    ),
    weights: list[Path] = typer.Option(
        [], "--weights", help="Weight image (hex, or raw named ...atonbuf.POOL.raw); repeatable."
    ),
    other: Path | None = typer.Option(None, "--with", help="The second program of a diff."),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="File to write: text, blob, or npz with every buffer; cosim: folder for the "
        "firmware project.",
    ),
    seed: int = typer.Option(1, help="Of random inputs."),
    force: bool = typer.Option(False, "--force", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Show, simulate, check, compare or disassemble a compiled Neural-ART program."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, progress

    if action in (Action.TEXT, Action.ASSEMBLE):
        made = api.aton_translate(path, str(action), output, force=force)
        if as_json:
            print_json({"schema": "npuforge.aton-translation/1", "bytes": len(made)})
        elif output is None:
            console().out(made.decode("utf-8"), end="")
        return
    if action is Action.SHOW:
        document = api.aton_document(path, weights)
    elif action is Action.CHECK:
        with progress("checking"):
            document = api.aton_check(path, weights)
    elif action is Action.DIFF:
        document = api.aton_diff(path, other)
    elif action is Action.COSIM:
        with progress("running"):
            document = api.aton_cosimulate(path, inputs, weights=weights, build=output, seed=seed)
    else:
        with progress("running"):
            document = api.aton_run(
                path,
                inputs,
                model=model,
                weights=weights,
                output=output,
                trace=action is Action.TRACE,
                seed=seed,
                force=force,
            )
    if as_json:
        print_json(document)
    else:
        tables = {
            Action.SHOW: _shown,
            Action.RUN: _ran,
            Action.COSIM: _cosimulated,
            Action.CHECK: _checked,
            Action.DIFF: _differed,
        }
        tables.get(action, _traced)(document)
    compared = document.get("comparison")
    if compared is not None and not compared["explained"]:
        raise typer.Exit(1)
    if document.get("errors") or document.get("differences"):
        raise typer.Exit(1)


def _checked(document: dict[str, Any]) -> None:
    from npuforge.cli.common import print_table

    print_table(
        f"{document['name']}: {document['errors']} errors, {document['warnings']} warnings",
        ("code", "", "what is wrong", "what to do"),
        [(f["code"], f["severity"], f["message"], f["hint"]) for f in document["findings"]],
    )


def _differed(document: dict[str, Any]) -> None:
    from npuforge.cli.common import print_table

    print_table(
        f"{len(document['differences'])} differences",
        (">epoch", "unit or buffer", "what", "first", "second"),
        [
            ("" if d["epoch"] < 0 else d["epoch"], d["unit"], d["what"], d["first"], d["second"])
            for d in document["differences"]
        ],
    )


def _shown(document: dict[str, Any]) -> None:
    from npuforge.cli.common import console, print_table

    rows: list[tuple[object, ...]] = []
    for step in document["steps"]:
        if step["epochs"]:
            rows += [
                (
                    epoch["epoch"],
                    step["kind"],
                    " ".join(epoch["units"]),
                    epoch["read"],
                    epoch["written"],
                )
                for epoch in step["epochs"]
            ]
        else:
            rows.append((step["epoch"], step["kind"], " ".join(step["operators"]), "", ""))
    compiler = f", compiler {document['compiler']}" if document["compiler"] else ""
    print_table(
        f"{document['name']}: {len(rows)} epochs, {document['buffers']} buffers{compiler}",
        ("epoch", "runs on", "units or operator", ">bytes read", ">bytes written"),
        rows,
    )
    if not document["all_buffers"]:
        console().out("The compiler described only some buffers: the others cannot be compared.")
    for what, names in document["missing"].items():
        if names:
            console().out(f"Missing: {len(names)} {what}, the first is {names[0]}; it cannot run.")


def _ran(document: dict[str, Any]) -> None:
    from npuforge.cli.common import print_table

    print_table(
        f"{document['name']}: {document['hardware_epochs']} hardware epochs, "
        f"{document['macs']} multiply-accumulates",
        ("output", ">bytes"),
        list(document["outputs"].items()),
    )
    compared = document.get("comparison")
    if compared is None:
        return
    print_table(
        f"{compared['compared']} buffers compared: {compared['exact']} equal, "
        f"{compared['within_one']} within 1 step, {compared['beyond_one']} beyond; "
        f"{compared['differing']} of {compared['values']} values differ",
        (
            ">epoch",
            "buffer beyond 1 step",
            ">largest",
            ">allowed",
            ">outside",
            ">differing",
            ">16-bit saturations",
            "causes",
        ),
        [
            (
                entry["epoch"],
                entry["buffer"],
                f"{entry['largest']:g}",
                "-" if entry["bound"] is None else f"{entry['bound']:g}",
                entry["outside"],
                entry["differing"],
                entry["saturated"],
                " ".join(entry["causes"]),
            )
            for entry in compared["buffers"]
            if entry["largest"] > 1 or entry["outside"]
        ],
    )


def _cosimulated(document: dict[str, Any]) -> None:
    from npuforge.cli.common import print_table

    print_table(
        f"{document['name']} on {document['board']}: {document['handovers']} hand-overs, "
        f"{document['hardware_epochs']} hardware epochs, {document['differences']} bytes differ "
        "from the simulator",
        ("buffer", "made by", ">bytes", ">different"),
        [(b["name"], b["kind"], b["bytes"], b["different"]) for b in document["buffers"]],
    )


def _traced(document: dict[str, Any]) -> None:
    from npuforge.cli.common import print_table

    print_table(
        f"{document['name']}: {document['macs']} multiply-accumulates",
        (">epoch", ">busiest link", ">MACs", ">port 0", ">port 1", "bytes by pool", "saturated"),
        [
            (
                epoch["epoch"],
                max((link["elements"] for link in epoch["links"]), default=0),
                epoch["macs"],
                epoch["ports"]["0"],
                epoch["ports"]["1"],
                " ".join(f"{k}:{v['read']}/{v['written']}" for k, v in epoch["pools"].items()),
                " ".join(f"{k}:{v}" for k, v in epoch["saturated"].items()),
            )
            for epoch in document["epochs"]
        ],
    )

"""`npuforge aton`: compiled Neural-ART programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer


class Action(StrEnum):
    """What to do with the file."""

    SHOW = "show"
    TEXT = "text"
    ASSEMBLE = "assemble"


def command(
    action: Action = typer.Argument(
        help="show: what is in a blob; text: disassemble; assemble: text to blob."
    ),
    path: Path = typer.Argument(help="Epoch-controller blob, or its text form to assemble."),
    output: Path | None = typer.Option(None, "--output", "-o", help="File to write."),
    force: bool = typer.Option(False, "--force", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Show, disassemble or assemble a compiled Neural-ART program."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, print_table

    if action is Action.SHOW:
        document = api.aton_document(path)
        if as_json:
            print_json(document)
            return
        print_table(
            f"{path.name}: {document['instructions']} instructions",
            ("epoch", "units", ">bytes read", ">bytes written"),
            [
                (e["epoch"], " ".join(e["units"]), e["read"], e["written"])
                for e in document["epochs"]
            ],
        )
        return
    made = api.aton_translate(path, str(action), output, force=force)
    if as_json:
        print_json({"schema": "npuforge.aton-translation/1", "bytes": len(made)})
    elif output is None:
        console().out(made.decode("utf-8"), end="")

"""`npuforge lint`: what in a model will make trouble, before it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.lint import LintFinding


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    data: list[Path] = typer.Option(
        [], "--data", help="Inputs to measure on: .npz, .npy, picture."
    ),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    strict: bool = typer.Option(False, "--strict", help="Exit 1 on warnings too."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Look for what ST's compiler refuses, what hangs on the board and what costs accuracy.

    Exit code 1 when there is an error, with --strict also when there is a warning.
    """
    from npuforge import api
    from npuforge.cli.common import console, print_json
    from npuforge.report.lint import lint_document
    from npuforge.vocab import Severity

    found = api.lint_model(model, data, image_range=image_range, fix_shape=fix_shape)
    if as_json:
        print_json(lint_document(model.name, found))
    elif found:
        print_findings(found)
    else:
        console().print(f"{model.name}: nothing found", markup=False)
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    if any(finding.severity in bad for finding in found):
        raise typer.Exit(1)


def print_findings(found: Sequence[LintFinding]) -> None:
    """A table of findings, errors first."""
    from npuforge.cli.common import print_table

    print_table(
        "lint",
        ("severity", "rule", "what", "remedy"),
        [
            (
                *(f.severity.value, f.rule),
                f.message + (f" (and {f.places} more places)" if f.places else ""),
                f.remedy,
            )
            for f in found
        ],
    )

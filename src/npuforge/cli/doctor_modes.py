"""The other jobs of `npuforge doctor`: triage, SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.doctor import Diagnosis


def triage(
    model: Path | None, recorded: Path | None, image_range: str | None, *, as_json: bool
) -> None:
    """Name the cause of recorded outputs; exit code 1 unless they are right."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, progress
    from npuforge.doctor.triage import Cause
    from npuforge.errors import UsageError
    from npuforge.report.triage import triage_document, triage_lines

    if model is None or recorded is None:
        raise UsageError("TRI-004")
    with progress("triage") as tick:
        result = api.triage_recording(model, recorded, image_range=image_range, tick=tick)
    if as_json:
        print_json(triage_document(result))
    else:
        for line in triage_lines(result):
            console().print(line, markup=False, soft_wrap=True)
    if result.best.cause is not Cause.MATCH:
        raise typer.Exit(1)


def check_file(path: Path, *, force: bool) -> None:
    """Refuse to replace a file before any work is done."""
    from npuforge.report import check_writable

    check_writable(path, replace=force)


def write_sarif(path: Path, diagnosis: Diagnosis) -> None:
    """Write findings for code review tools."""
    from npuforge.report import write_file
    from npuforge.report.sarif import sarif_document

    document = json.dumps(sarif_document(diagnosis), indent=2, ensure_ascii=False)
    write_file(path, (document + "\n").encode("utf-8"))

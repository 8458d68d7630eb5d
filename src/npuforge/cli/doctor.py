"""`npuforge doctor`: from what people have to what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.doctor import Diagnosis


def command(
    paths: list[Path] = typer.Argument(
        None, help="Folders and files in any mix: sources, logs, ELF, map, reports, a model."
    ),
    explain: str | None = typer.Option(
        None, "--explain", help="Explain a finding (K11-no-reset) or a family (K11)."
    ),
    model: Path | None = typer.Option(
        None, "--model", "-m", help="Network of a failing inference; goes with --recorded."
    ),
    recorded: Path | None = typer.Option(
        None, "--recorded", help="npz or serial dump with right inputs and the device's outputs."
    ),
    image_range: str | None = typer.Option(None, help="0..1, -1..1 or 0..255 for pictures."),
    guide: bool = typer.Option(False, "--guide", help="Guided search from a symptom to causes."),
    symptom: str | None = typer.Option(
        None, "--symptom", help="Symptom of the guided search, for example hang, zeros, frozen."
    ),
    answer: list[str] = typer.Option([], "--answer", help="QUESTION=yes or QUESTION=no."),
    probe: list[str] = typer.Option(
        [], "--probe", help="C source to paste: stall, two-input, pattern, bank, clock or all."
    ),
    versions: bool = typer.Option(False, "--versions", help="Versions that belong together."),
    bundle: Path | None = typer.Option(
        None, "--bundle", help="Write a redacted archive of the files for a support request."
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="File for the probes."),
    sarif: Path | None = typer.Option(None, "--sarif", help="Write the findings as SARIF 2.1.0."),
    force: bool = typer.Option(False, "--force", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Diagnose hangs, zeros and garbage from sources, logs, binaries and reports."""
    from npuforge import api
    from npuforge.cli import doctor_modes
    from npuforge.cli.common import console, print_json
    from npuforge.report.diagnosis import diagnosis_document

    if explain is not None:
        for rule in api.explain_finding(explain):
            words = rule.words
            console().print(f"{rule.id}  {rule.severity.value}, {rule.confidence.value} confidence")
            for line in (words.message, words.cause, words.hint, words.confirm):
                console().print(f"  {line}", markup=False)
        return
    if recorded is not None or model is not None:
        doctor_modes.triage(model, recorded, image_range, as_json=as_json)
        return
    given = paths or []
    if guide or symptom is not None:
        doctor_modes.guide(given, symptom, answer, as_json=as_json)
        return
    if probe:
        doctor_modes.probe(given, probe, output, force=force)
        return
    if versions:
        doctor_modes.versions(given, as_json=as_json)
        return
    if not paths:
        raise typer.BadParameter("give a folder or a file", param_hint="PATHS")
    if bundle is not None:
        doctor_modes.bundle(paths, bundle, force=force)
        return
    if sarif is not None:
        doctor_modes.check_file(sarif, force=force)
    diagnosis = api.diagnose_project(paths)
    if sarif is not None:
        doctor_modes.write_sarif(sarif, diagnosis)
    if as_json:
        print_json(diagnosis_document(diagnosis))
    else:
        _print(diagnosis)
    if diagnosis.failed:
        raise typer.Exit(1)


def _print(diagnosis: Diagnosis) -> None:
    from rich.text import Text

    from npuforge.cli.common import console
    from npuforge.messages import text

    out = console()
    colours = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}
    for item in diagnosis.findings:
        words = item.words
        out.print(
            Text.assemble(
                (item.severity.value, colours[item.severity.value]),
                f" {item.id} ({item.confidence.value}): {words.message}",
            )
        )
        for evidence in item.evidence:
            token = f"  {evidence.token}" if evidence.token else ""
            note = f"  ({evidence.note})" if evidence.note else ""
            out.print(Text(f"    {evidence.place}{token}{note}"), soft_wrap=True)
        for premise in item.assumed:
            out.print(Text(f"    {text('DOC-assumed', what=premise.words)}"))
        for line in (words.cause, words.hint, words.confirm):
            out.print(Text(f"    {line}", style="dim"))
    for unread in diagnosis.unread:
        out.print(Text(text("DOC-unread", file=unread.file, reason=unread.reason), style="dim"))
    if not diagnosis.findings:
        out.print(text("DOC-none", count=sum(count for _, count in diagnosis.kinds)))

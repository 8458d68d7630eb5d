"""The other jobs of `npuforge doctor`: triage, guide, probes, versions, support archive, SARIF."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.doctor import Diagnosis, Finding


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


def guide(
    paths: Sequence[Path], symptom: str | None, answers: Sequence[str], *, as_json: bool
) -> None:
    """Ask what the files do not tell and rank the causes.

    With ``--symptom`` nothing is asked beyond what ``--answer`` gives, unless a terminal is there.
    """
    from npuforge import api
    from npuforge.cli.common import console, print_json
    from npuforge.doctor.guide import steps
    from npuforge.errors import UsageError
    from npuforge.messages import text
    from npuforge.report.guide import advice_document

    given: dict[str, bool] = {}
    for item in answers:
        name, _, value = item.partition("=")
        if value.lower() not in ("y", "yes", "n", "no"):
            raise UsageError("GUI-003", item=item)
        given[name] = value.lower() in ("y", "yes")
    findings = api.diagnose_project(paths).findings if paths else ()
    chosen = symptom or _ask_symptom()
    if not as_json and (sys.stdin.isatty() or symptom is None):
        given = _ask(chosen, findings, given)
    advice = api.guided_advice(chosen, findings, given)
    if as_json:
        print_json(advice_document(advice))
        return
    out = console()
    out.print(text("GUI-ranked"), markup=False)
    for number, cause in enumerate(advice.causes, 1):
        out.print(f"{number}. {cause.message} ({cause.weight})", markup=False)
        out.print(f"   {cause.action}", markup=False, soft_wrap=True)
        if cause.findings:
            out.print("   " + text("GUI-points", ids=", ".join(cause.findings)), markup=False)
    out.print(text("GUI-steps"), markup=False)
    for number, line in enumerate(steps(), 1):
        out.print(f"  {number}. {line}", markup=False, soft_wrap=True)


def _ask_symptom() -> str:
    """Ask until a symptom is named; the end of the input ends the search with the list."""
    from npuforge.doctor.guide import symptoms
    from npuforge.errors import UsageError
    from npuforge.messages import text

    table = symptoms()
    for number, (name, words) in enumerate(table, 1):
        typer.echo(f"{number:3d}  {words} ({name})")
    said = ""
    while True:
        typer.echo(text("GUI-which"))
        line = sys.stdin.readline()
        if not line:
            known = ", ".join(dict(table))
            if said:
                raise UsageError("GUI-001", name=said, known=known)
            raise UsageError("GUI-004", known=known)
        said = line.strip()
        if said.isdecimal() and 1 <= int(said) <= len(table):
            return table[int(said) - 1][0]
        if said in dict(table):
            return said


def _ask(symptom: str, findings: Sequence[Finding], given: dict[str, bool]) -> dict[str, bool]:
    from npuforge.doctor.guide import open_questions
    from npuforge.messages import text

    known = dict(given)
    for question in open_questions(symptom, tuple(findings), given):
        words, how = question.words
        typer.echo(f"{words}\n    {how}\n    [{text('GUI-yes-no')}]")
        line = sys.stdin.readline()
        if not line:
            break
        said = line.strip().lower()
        if said[:1] in ("y", "n"):
            known[question.id] = said.startswith("y")
    return known


def probe(paths: Sequence[Path], names: Sequence[str], output: Path | None, *, force: bool) -> None:
    """Write C source with probes for the network in the files."""
    from npuforge import api
    from npuforge.cli.common import console
    from npuforge.report import write_file

    if output is not None:
        check_file(output, force=force)
    source = api.probe_source(paths, names)
    if output is not None:
        write_file(output, source.encode("utf-8"))
    else:
        console().out(source, end="")


def versions(paths: Sequence[Path], *, as_json: bool) -> None:
    """What belongs together, and what the files name."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_table

    document = api.versions_document(paths)
    if as_json:
        print_json(document)
        return
    print_table(
        "releases",
        ("ST Edge AI Core", "compiler, guard, runtime", "X-CUBE-AI", "STM32Cube_FW_N6"),
        [(r["core"], r["compiler"], r["package"], r["firmware"]) for r in document["releases"]],
    )
    if document["seen"]:
        print_table(
            "named by the files",
            ("part", "version", "where"),
            [(s["part"], s["version"], s["place"]) for s in document["seen"]],
        )


def bundle(paths: Sequence[Path], output: Path, *, force: bool) -> None:
    """Write the archive for a support request."""
    from npuforge import api
    from npuforge.cli.common import console
    from npuforge.messages import text
    from npuforge.report import write_file

    check_file(output, force=force)
    data = api.support_bundle(paths)
    write_file(output, data)
    console().print(text("OUT-bundle", path=output, size=len(data)), markup=False)

"""What all verbs share: where output goes, how errors and tables look."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from npuforge.errors import NpuforgeError

if TYPE_CHECKING:
    from rich.console import Console

    from npuforge.api_st import StCompilation
    from npuforge.validate import Validation


def console(*, messages: bool = False) -> Console:
    """The terminal: results go to standard output, messages to standard error."""
    from rich.console import Console

    return Console(stderr=messages, highlight=False, soft_wrap=messages)


def print_error(error: NpuforgeError) -> None:
    """One message, its hint, and the raw output of the tool that failed, on standard error."""
    from rich.text import Text

    out = console(messages=True)
    out.print(Text.assemble((f"error {error.code}: ", "bold red"), error.message))
    if error.hint:
        out.print(Text.assemble(("  hint: ", "bold"), error.hint))
    if error.detail:
        out.print(Text(error.detail.rstrip(), style="dim"))


def print_warning(text: str) -> None:
    """A line of advice on standard error."""
    from rich.text import Text

    console(messages=True).print(Text.assemble(("note: ", "bold yellow"), text))


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output; columns whose name starts with ">" are right-aligned."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in columns:
        right = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console().print(table)


@contextmanager
def progress(label: str) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error while something takes its time; silent when not a terminal.

    Yields:
        A function that shows what is being done now.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with console(messages=True).status(label) as status:
        yield lambda stage: status.update(f"{label}: {stage}")


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error for work of known size; silent when not a terminal.

    Yields:
        A function that is told what is being done, how much of it is done, and of how much.
    """
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.progress import Progress

    with Progress(console=console(messages=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total if total > 1 else None
        )


def note_image_range(notes: Sequence[str]) -> None:
    """Say which range of real numbers was guessed for pictures."""
    from npuforge.messages import text

    for value in notes:
        print_warning(text("RPT-guessed-range", range=value))


def print_validation(validation: Validation) -> None:
    """What was compared with what, the first difference, and the verdict."""
    from npuforge.report import verdict

    print_table(
        "validation",
        ("executed on", "compared with", "result", ">tensors", ">values", ">mismatches"),
        [
            (
                check.where,
                check.reference,
                check.status.value.replace("_", " "),
                *(
                    (
                        len(check.comparison.tensors) * check.comparison.samples,
                        sum(entry.values for entry in check.comparison.tensors),
                        check.comparison.mismatches,
                    )
                    if check.comparison is not None
                    else ("", "", "")
                ),
            )
            for check in validation.checks
        ],
    )
    out = console()
    for check in validation.checks:
        first = check.comparison.first_divergence if check.comparison is not None else None
        if first is not None:
            steps = ", ".join(f"{k:+d}: {v}" for k, v in first.histogram.items())
            out.print(
                f"{check.where}: first difference in {first.tensor} ({first.op}, "
                f"{first.contract}): {first.mismatches} of {first.values} values, "
                f"steps {steps or first.largest}",
                markup=False,
            )
    out.print(verdict(validation), markup=False)


def print_st(made: StCompilation) -> None:
    """What ST's compiler made with each objective, and why it failed where it did."""
    from npuforge.api_st import st_document

    document = st_document(made)
    print_table(
        "ST's compiler",
        (
            "objective", "status", ">activation bytes", ">weight bytes", "epochs", ">est. clocks",
            ">seconds",
        ),
        [
            (
                row["objective"], row["status"], row["activation_bytes"] or "",
                row["weight_bytes"] or "",
                ", ".join(f"{kind} {count}" for kind, count in row["epochs"].items() if count),
                row["estimated_npu_clocks"] or "", row["seconds"],
            )
            for row in document["runs"]
        ],
    )  # fmt: skip
    out = console()
    for row in document["runs"]:
        for line in row["messages"][:3]:
            out.print(f"{row['objective']}: {line}", markup=False)
        for cause in row["causes"][:3]:
            out.print(
                f"{row['objective']}: {cause['message']}. {cause['cause']} {cause['remedy']}",
                markup=False,
            )
        if row["firmware"]:
            out.print(f"{row['objective']}: firmware in st/{row['firmware']}", markup=False)
        elif row["no_firmware"]:
            out.print(f"{row['objective']}: no firmware: {row['no_firmware']}", markup=False)
    for goal, objective in document["best"].items():
        out.print(f"best for {goal}: {objective}", markup=False)

"""What all verbs share: where output goes, how errors and tables look."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from npuforge.errors import NpuforgeError

if TYPE_CHECKING:
    from rich.console import Console


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
def progress(text: str, *, quiet: bool = False) -> Iterator[None]:
    """A spinner on standard error while something takes its time; silent when not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with console(messages=True).status(text):
        yield

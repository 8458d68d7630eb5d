"""Buffer lifetimes as CSV in the format of google/minimalloc: read and written.

Columns ``id,lower,upper,size`` and, where there are addresses, ``offset``; a buffer lives from time
``lower`` up to, not including, ``upper``. Source: the README of that project.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from npuforge.errors import ModelError

MAX_ROWS = 1_000_000


@dataclass(frozen=True)
class BufferRow:
    """One buffer: alive in [lower, upper), its bytes, and its address where the file has one."""

    id: str
    lower: int
    upper: int
    size: int
    offset: int | None = None


def write_minimalloc(rows: Iterable[BufferRow]) -> str:
    """The text of the file; with a column ``offset`` when every row has one."""
    listed = list(rows)
    placed = bool(listed) and all(row.offset is not None for row in listed)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "lower", "upper", "size", *(["offset"] if placed else [])])
    for row in listed:
        values = [row.id, row.lower, row.upper, row.size]
        writer.writerow([*values, *([row.offset] if placed else [])])
    return out.getvalue()


def read_minimalloc(text: str, file: str = "csv") -> tuple[BufferRow, ...]:
    """The rows of a file; further columns are skipped.

    Raises:
        ModelError: CMP-001 with the row and column that is wrong.
    """
    reader = csv.DictReader(io.StringIO(text))
    rows = []
    try:
        for number, entry in enumerate(reader, 2):
            if number > MAX_ROWS:
                raise _refuse(file, number, "id", f"more than {MAX_ROWS} rows")
            rows.append(_row(entry, file, number))
    except csv.Error as error:
        raise _refuse(file, reader.line_num, "id", str(error)) from None
    return tuple(rows)


def _row(entry: dict[str, str], file: str, number: int) -> BufferRow:
    values = {}
    for name in ("lower", "upper", "size", "offset"):
        word = entry.get(name)
        if word is None and name == "offset":
            continue
        try:
            values[name] = int(word or "")
        except ValueError:
            raise _refuse(file, number, name, f"whole number expected, {word!r} found") from None
    if values["size"] < 0 or values["upper"] < values["lower"]:
        raise _refuse(file, number, "upper", "a buffer ends before it begins, or has less than 0")
    return BufferRow(
        entry.get("id") or "", values["lower"], values["upper"], values["size"],
        values.get("offset"),
    )  # fmt: skip


def _refuse(file: str, row: int, column: str, reason: str) -> ModelError:
    return ModelError("CMP-001", path=file, field=f"row {row}, {column}", reason=reason)

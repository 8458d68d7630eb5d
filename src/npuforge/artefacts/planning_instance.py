"""Instances of memory planning over several pools, as two CSV files: read and written.

One file lists the buffers, in the columns of google/minimalloc and further ones; the other lists
the pools. `docs/reference/planning_set.md` says what every column means.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from npuforge.artefacts.minimalloc import MAX_ROWS
from npuforge.errors import ModelError

POOL_COLUMNS = ("name", "base", "size", "clocks_per_byte", "reach", "reserved")
BUFFER_COLUMNS = (
    "id", "lower", "upper", "size", "alignment", "traffic", "reach", "pools", "fixed", "view_of",
    "view_offset",
)  # fmt: skip
T = TypeVar("T")

LARGEST = 1 << 48
"""No size, address or time is larger."""


@dataclass(frozen=True)
class PoolRow:
    """A pool.

    Attributes:
        name: unique.
        base: first address; every alignment that a buffer asks for divides it.
        size: bytes.
        clocks_per_byte: price of a byte read or written there.
        reach: who can access it.
        reserved: [low, high) ranges of offsets that nothing may touch.
    """

    name: str
    base: int
    size: int
    clocks_per_byte: float
    reach: tuple[str, ...] = ()
    reserved: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class InstanceBuffer:
    """A buffer.

    Attributes:
        id: unique.
        lower: first time at which it is alive.
        upper: first time at which it no longer is.
        size: bytes.
        alignment: of its address, bytes.
        traffic: bytes read and written in its life.
        reach: who must be able to access it.
        pools: names of the only pools that it may use; empty for all that reach it.
        fixed: its offset in its pool, where that is decided; it then names exactly one pool.
        view_of: id of the buffer in whose bytes it lies, "" for bytes of its own.
        view_offset: byte of that buffer at which it begins.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    traffic: int = 0
    reach: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    fixed: int | None = None
    view_of: str = ""
    view_offset: int = 0


def write_pools(pools: Iterable[PoolRow]) -> str:
    """The file of the pools."""
    return _write(
        POOL_COLUMNS,
        (
            (p.name, p.base, p.size, repr(p.clocks_per_byte), " ".join(p.reach),
             " ".join(f"{low}-{high}" for low, high in p.reserved))
            for p in pools
        ),
    )  # fmt: skip


def write_buffers(buffers: Iterable[InstanceBuffer]) -> str:
    """The file of the buffers; columns that say nothing in any row are left out."""
    rows = [
        (b.id, b.lower, b.upper, b.size, b.alignment, b.traffic, " ".join(b.reach),
         " ".join(b.pools), "" if b.fixed is None else b.fixed, b.view_of,
         b.view_offset if b.view_of else "")
        for b in buffers
    ]  # fmt: skip
    kept = [i for i in range(len(BUFFER_COLUMNS)) if i < 6 or any(row[i] != "" for row in rows)]
    return _write([BUFFER_COLUMNS[i] for i in kept], ([row[i] for i in kept] for row in rows))


def read_pools(text: str, file: str = "pools.csv") -> tuple[PoolRow, ...]:
    """The pools of a file.

    Raises:
        ModelError: CMP-001 with the row and column that is wrong.
    """
    found = []
    for cell in _rows(text, file):
        reserved = []
        for word in cell.words("reserved"):
            low, dash, high = word.partition("-")
            pair = (cell.whole("reserved", low), cell.whole("reserved", high if dash else ""))
            if pair[0] >= pair[1]:
                raise cell.refuse("reserved", f"{word} is no range")
            reserved.append(pair)
        price = cell.text("clocks_per_byte")
        try:
            clocks = float(price)
        except ValueError:
            clocks = -1.0
        if not 0 <= clocks < 1e9:
            raise cell.refuse("clocks_per_byte", f"number expected, {price!r} found")
        found.append(
            PoolRow(
                cell.text("name"), cell.number("base"), cell.number("size"), clocks,
                cell.words("reach"), tuple(reserved),
            )
        )  # fmt: skip
    return _unique(found, [pool.name for pool in found], file, "name")


def read_buffers(text: str, file: str = "buffers.csv") -> tuple[InstanceBuffer, ...]:
    """The buffers of a file.

    Raises:
        ModelError: CMP-001 with the row and column that is wrong.
    """
    found = []
    for cell in _rows(text, file):
        made = InstanceBuffer(
            cell.text("id"), cell.number("lower"), cell.number("upper"), cell.number("size"),
            cell.number("alignment", 1), cell.number("traffic", 0), cell.words("reach"),
            cell.words("pools"), cell.optional("fixed"), cell.text("view_of", ""),
            cell.number("view_offset", 0),
        )  # fmt: skip
        if made.upper <= made.lower:
            raise cell.refuse("upper", "a buffer ends before it begins")
        if made.alignment < 1:
            raise cell.refuse("alignment", "1 or more")
        if made.fixed is not None and len(made.pools) != 1:
            raise cell.refuse("fixed", "a decided offset needs exactly one pool")
        found.append(made)
    known = {made.id for made in found}
    for number, made in enumerate(found, 2):
        if made.view_of and made.view_of not in known:
            raise _refuse(file, number, "view_of", f"there is no buffer {made.view_of}")
    return _unique(found, [made.id for made in found], file, "id")


def _write(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


@dataclass(frozen=True)
class _Cells:
    """A row that knows where it stands."""

    file: str
    row: int
    values: dict[str, str]

    def refuse(self, column: str, reason: str) -> ModelError:
        return _refuse(self.file, self.row, column, reason)

    def text(self, column: str, default: str | None = None) -> str:
        value = (self.values.get(column) or "").strip()
        if not value and default is None:
            raise self.refuse(column, "missing")
        return value or default or ""

    def words(self, column: str) -> tuple[str, ...]:
        return tuple(self.text(column, "").split())

    def whole(self, column: str, word: str) -> int:
        if not word.isascii() or not word.isdigit() or len(word) > 16 or int(word) > LARGEST:
            raise self.refuse(column, f"whole number from 0 expected, {word!r} found")
        return int(word)

    def number(self, column: str, default: int | None = None) -> int:
        word = self.text(column, "")
        if not word and default is not None:
            return default
        return self.whole(column, word)

    def optional(self, column: str) -> int | None:
        word = self.text(column, "")
        return self.whole(column, word) if word else None


def _rows(text: str, file: str) -> Iterator[_Cells]:
    reader = csv.DictReader(io.StringIO(text))
    try:
        for number, entry in enumerate(reader, 2):
            if number > MAX_ROWS:
                raise _refuse(file, number, "id", f"more than {MAX_ROWS} rows")
            # cells behind the last column come under the key None
            yield _Cells(file, number, {k: v for k, v in entry.items() if isinstance(v, str)})
    except csv.Error as error:
        raise _refuse(file, reader.line_num, "id", str(error)) from None


def _unique(found: Sequence[T], names: Sequence[str], file: str, column: str) -> tuple[T, ...]:
    seen: set[str] = set()
    for number, name in enumerate(names, 2):
        if name in seen:
            raise _refuse(file, number, column, f"{name} is taken")
        seen.add(name)
    return tuple(found)


def _refuse(file: str, row: int, column: str, reason: str) -> ModelError:
    return ModelError("CMP-001", path=file, field=f"row {row}, {column}", reason=reason)

"""The ledger: every byte of memory in one line, with its class, its place and its origin.

A ledger is made from a linked program (ELF and map) or from a layout that is not linked yet. Sums
are byte for byte: the lines of a pool and what is free make the pool, and the lines that a linked
program has make what ``size`` prints for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import PurePosixPath

from npuforge.artefacts.elf import Image, Section
from npuforge.artefacts.map_pieces import FILL, MapPiece
from npuforge.errors import PlanError
from npuforge.memory.classes import classify
from npuforge.memory.system import Account
from npuforge.targets import Target

UNEXPLAINED = "not in the map"
"""Name of a line for bytes of a section that no piece of the map covers."""


class Column(StrEnum):
    """Where ``size`` counts a line."""

    TEXT = "text"
    DATA = "data"
    BSS = "bss"
    RESERVED = "reserved"
    """Memory that no section of an ELF takes: a stack, the stored copy of initialised data, or
    anything that is not linked yet."""


@dataclass(frozen=True)
class LedgerLine:
    """A run of bytes.

    Attributes:
        account: class.
        name: what it is.
        pool: memory it lies in.
        address: its first address.
        nbytes: bytes.
        column: where ``size`` counts it.
        origin: where the number comes from.
        shared: lies over another line (arenas of networks that run one at a time): ``size``
            counts these bytes again, the sums of classes and pools do not.
    """

    account: Account
    name: str
    pool: str
    address: int
    nbytes: int
    column: Column
    origin: str
    shared: bool = False

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.nbytes


@dataclass(frozen=True)
class PoolSum:
    """A memory: taken by the lines, and left between and behind them; `on_chip` is RAM."""

    name: str
    base: int
    size: int
    used: int
    free: int
    on_chip: bool


@dataclass(frozen=True)
class Sizes:
    """What ``arm-none-eabi-size`` prints, in bytes."""

    text: int
    data: int
    bss: int

    @property
    def total(self) -> int:
        """The column ``dec``."""
        return self.text + self.data + self.bss


@dataclass(frozen=True)
class Ledger:
    """All lines in the order of their addresses.

    Attributes:
        target: name of the target.
        lines: by address.
        pools: every memory of the target.
    """

    target: str
    lines: tuple[LedgerLine, ...]
    pools: tuple[PoolSum, ...]

    def by_account(self) -> Mapping[Account, int]:
        """Bytes of every class."""
        return self._sums(self.lines)

    def in_ram(self) -> Mapping[Account, int]:
        """Bytes of every class that lie in RAM on the chip."""
        inside = {pool.name for pool in self.pools if pool.on_chip}
        return self._sums(line for line in self.lines if line.pool in inside)

    def _sums(self, lines: Iterable[LedgerLine]) -> Mapping[Account, int]:
        sums = dict.fromkeys(Account, 0)
        for line in lines:
            if not line.shared:
                sums[line.account] += line.nbytes
        return sums

    @property
    def sizes(self) -> Sizes:
        """The sums that ``size`` prints for the ELF."""
        sums = dict.fromkeys(Column, 0)
        for line in self.lines:
            sums[line.column] += line.nbytes
        return Sizes(sums[Column.TEXT], sums[Column.DATA], sums[Column.BSS])


def make_ledger(lines: Iterable[LedgerLine], target: Target) -> Ledger:
    """Sort the lines and add them up.

    Raises:
        PlanError: a line leaves the target's memory, or two share a byte.
    """
    ordered = tuple(sorted(lines, key=lambda line: (line.address, line.end)))
    for low, high in pairwise(line for line in ordered if not line.shared):
        if high.address < low.end:
            raise PlanError(
                "SYS-012", a=low.name, b=high.name, address=f"{high.address:#x}",
                end=f"{low.end:#x}",
            )  # fmt: skip
    used = dict.fromkeys((pool.name for pool in target.pools), 0)
    for line in ordered:
        used[line.pool] += 0 if line.shared else line.nbytes
    pools = tuple(
        PoolSum(
            pool.name,
            pool.base,
            pool.size,
            used[pool.name],
            pool.size - used[pool.name],
            pool.on_chip_ram,
        )
        for pool in target.pools
    )
    return Ledger(target.name, ordered, pools)


def split_by_pool(line: LedgerLine, target: Target) -> Iterator[LedgerLine]:
    """A line cut where one memory ends and the next begins.

    Raises:
        PlanError: SYS-011: a part lies in no memory of the target.
    """
    at = line.address
    while at < line.end:
        pool = target.pool_at(at)
        if pool is None:
            raise PlanError("SYS-011", name=line.name, address=f"{at:#x}", target=target.name)
        end = min(line.end, pool.end)
        yield replace(line, pool=pool.name, address=at, nbytes=end - at)
        at = end


def linked_ledger(
    image: Image,
    pieces: Sequence[MapPiece],
    target: Target,
    *,
    stack: int = 0,
    stack_top: str = "nf_stack_top",
    file: str = "elf",
) -> Ledger:
    """The ledger of a linked program.

    Args:
        image: from the ELF.
        pieces: from its map; without them every section is one line.
        target: the machine it was linked for.
        stack: bytes reserved for the stack below `stack_top`; 0 leaves the line out.
        stack_top: symbol of the stack's upper end.
        file: name of the ELF, for the origin column.

    Raises:
        PlanError: the map is not this program's, or a byte lies outside of the target's memory.
    """
    lines: list[LedgerLine] = []
    of_section: dict[str, list[MapPiece]] = {}
    for piece in pieces:
        of_section.setdefault(piece.section, []).append(piece)
    arenas: list[Section] = []
    for section in image.sections:
        found = of_section.get(section.name, [])
        if pieces and not found:
            raise PlanError("SYS-013", section=section.name, file=file)
        parts = list(_section_lines(section, found, file))
        if not section.loaded:
            parts = [piece for part in parts for piece in _cut(part, arenas)]
            arenas.append(section)
        lines += parts
        if section.loaded and section.load_address != section.address:
            lines.append(
                LedgerLine(
                    Account.READ_ONLY, f"stored copy of {section.name}", "", section.load_address,
                    section.size, Column.RESERVED, f"{file}: load address of {section.name}",
                )
            )  # fmt: skip
    top = image.symbols.get(stack_top)
    if stack and top is not None:
        lines.append(
            LedgerLine(
                Account.SYSTEM, "stack", "", top.address - stack, stack, Column.RESERVED,
                f"linker script: {stack} bytes below {stack_top}",
            )
        )  # fmt: skip
    return make_ledger((part for line in lines for part in split_by_pool(line, target)), target)


def _cut(line: LedgerLine, others: Sequence[Section]) -> Iterator[LedgerLine]:
    """An activation line cut into what lies over earlier sections and what does not."""
    if line.account is not Account.ACTIVATIONS:
        yield line
        return
    marks = {line.address, line.end}
    for other in others:
        marks |= {mark for mark in (other.address, other.end) if line.address < mark < line.end}
    for start, end in pairwise(sorted(marks)):
        over = any(other.address <= start < other.end for other in others)
        yield replace(line, address=start, nbytes=end - start, shared=over)


def _column(section: Section) -> Column:
    if section.code or not section.writable:
        return Column.TEXT
    return Column.DATA if section.loaded else Column.BSS


def _section_lines(section: Section, pieces: Sequence[MapPiece], file: str) -> Iterator[LedgerLine]:
    """Pieces that follow each other and belong together become one line; gaps are lines too."""
    column = _column(section)
    whole = MapPiece(section.name, section.name, section.address, section.size, "")
    at = section.address
    open_line: LedgerLine | None = None
    fillings: list[tuple[int, int, str]] = []
    for piece in sorted(pieces or [whole], key=lambda piece: piece.address):
        if piece.address < at or piece.address + piece.nbytes > section.end:
            raise PlanError("SYS-013", section=section.name, file=file)
        if piece.address > at:
            fillings.append((at, piece.address - at, UNEXPLAINED))
        at = piece.address + piece.nbytes
        if piece.name == FILL:
            fillings.append((piece.address, piece.nbytes, "alignment"))
            continue
        account, why = classify(piece, section)
        name = _object_name(piece.object) or section.name
        origin = f"{file}: {section.name}, {why}"
        joins = (
            open_line is not None
            and (open_line.account, open_line.name, open_line.origin) == (account, name, origin)
            and open_line.end == piece.address
        )
        if open_line is not None and joins:
            open_line = replace(open_line, nbytes=open_line.nbytes + piece.nbytes)
            continue
        if open_line is not None:
            yield open_line
        open_line = LedgerLine(account, name, "", piece.address, piece.nbytes, column, origin)
    if open_line is not None:
        yield open_line
    if at < section.end:
        fillings.append((at, section.end - at, UNEXPLAINED))
    for address, nbytes, name in fillings:
        account = classify(MapPiece(section.name, section.name, address, nbytes, ""), section)[0]
        yield LedgerLine(
            account, name, "", address, nbytes, column, f"{file}: {section.name}, filling"
        )


def _object_name(path: str) -> str:
    """Archive member or file name without its folders."""
    if path.endswith(")") and "(" in path:
        archive, _, member = path[:-1].rpartition("(")
        return f"{PurePosixPath(archive).name}({member})"
    return PurePosixPath(path).name

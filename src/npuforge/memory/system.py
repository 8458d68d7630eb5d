"""The description of a whole system in TOML: what lives in memory beside the networks.

Every field is checked; a wrong one is named with its place in the file. The page
docs/reference/system_files.md lists them all.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from npuforge.errors import UsageError
from npuforge.memory.linker import STACK_BYTES
from npuforge.memory.stages import Pipeline, Stage

SCHEMA = 1
DEFAULT_RESERVE = 0.20
DEFAULT_LIMIT = 0.70
"""Share of the on-chip RAM that fixed costs may take, and that everything together may take: the
rule of thumb of integration work on these chips; both can be changed in ``[policy]``."""

FORMATS: Mapping[str, Fraction] = {
    "grey8": Fraction(1), "raw8": Fraction(1), "raw10p": Fraction(5, 4), "raw16": Fraction(2),
    "rgb565": Fraction(2), "yuv422": Fraction(2), "yuv420": Fraction(3, 2), "rgb888": Fraction(3),
    "argb8888": Fraction(4), "argb4444": Fraction(2), "argb1555": Fraction(2),
}  # fmt: skip
"""Bytes a pixel of camera and display formats; raw10p packs four pixels into five bytes."""

_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "kb": 1000, "mb": 1_000_000}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_ .-]{0,62}")


class Account(StrEnum):
    """Classes of the ledger: the five of a deployment, and what the program itself takes."""

    WEIGHTS = "weights"
    ACTIVATIONS = "activations"
    NPU_RUNTIME = "npu runtime"
    SYSTEM = "system"
    DATA_PATH = "data path"
    CODE = "code"
    READ_ONLY = "read-only data"


class Arena(StrEnum):
    """Whether a network's activations may lie over those of the others."""

    SHARED = "shared"
    OWN = "own"


@dataclass(frozen=True)
class ModelEntry:
    """A network of the system.

    Attributes:
        file: model file, relative to the description.
        name: C name; from the file when "".
        arena: shared with the other networks (one runs at a time), or its own.
        activations: bytes that its activations may take; 0 for what is there.
        tiling: whether steps may be computed in stripes where it does not fit otherwise.
        keep_inputs: its inputs keep their bytes through an inference, for someone else who reads
            them meanwhile.
    """

    file: Path
    name: str
    arena: Arena
    activations: int = 0
    tiling: bool = True
    keep_inputs: bool = False


@dataclass(frozen=True)
class Item:
    """Something that takes memory.

    Attributes:
        name: what it is.
        kind: class of the ledger.
        nbytes: bytes of one.
        count: how many.
        dma: whether a DMA other than the NPU's touches it.
        pool: pool it must lie in; "" lets the layout choose.
        where: its place in the description, for messages and the ledger.
    """

    name: str
    kind: Account
    nbytes: int
    count: int
    dma: bool
    pool: str
    where: str


@dataclass(frozen=True)
class SystemDescription:
    """A whole system.

    Attributes:
        file: the description.
        name: of the system.
        target: board, by name or file.
        boot: boot variant of the target; "" takes its first.
        reserve: share of the on-chip RAM kept for fixed costs, 0 to 1.
        limit: share of the on-chip RAM that may be used at all, 0 to 1.
        dma_alignment: bytes; 0 takes the target's cache line.
        cached_dma: DMA buffers lie in cacheable memory and are maintained by the program.
        models: the networks.
        items: everything else, in file order.
        pipeline: the three stages; None when they run one after the other.
        cached_activations: activations lie in cacheable memory and the runtime maintains them.
        stack: bytes of the main stack.
        code: bytes of code that is not linked yet.
        read_only: bytes of constants that are not linked yet.
        elf: linked program that code, constants and static data are taken from.
        map: its linker map.
    """

    file: Path
    name: str
    target: str
    boot: str = ""
    reserve: float = DEFAULT_RESERVE
    limit: float = DEFAULT_LIMIT
    dma_alignment: int = 0
    cached_dma: bool = False
    models: tuple[ModelEntry, ...] = ()
    items: tuple[Item, ...] = ()
    pipeline: Pipeline | None = None
    cached_activations: bool = True
    stack: int = STACK_BYTES
    code: int = 0
    read_only: int = 0
    elf: Path | None = None
    map: Path | None = None


def read_system(path: Path) -> SystemDescription:
    """Read and check a description.

    Raises:
        UsageError: SYS-001 when it is no TOML file, SYS-002 with the field that is wrong.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError("SYS-001", path=path, reason=reason) from None
    return parse_system(document, path)


def parse_system(document: Mapping[str, Any], path: Path) -> SystemDescription:
    """A description from the content of its file.

    Args:
        document: the TOML document.
        path: its file; the files it names are relative to it.

    Raises:
        UsageError: SYS-002 with the field that is wrong.
    """
    top = _Table(path, "", document)
    if top.integer("schema") != SCHEMA:
        raise top.refuse("schema", f"this version reads schema {SCHEMA}")
    policy, code, linked = top.table("policy"), top.table("code"), top.table("linked")
    pipeline = _pipeline(top.table("pipeline")) if "pipeline" in document else None
    made = SystemDescription(
        file=path,
        name=top.text("name", path.stem),
        target=top.text("target"),
        boot=top.text("boot", ""),
        reserve=policy.share("reserve", DEFAULT_RESERVE),
        limit=policy.share("limit", DEFAULT_LIMIT),
        dma_alignment=policy.power("dma_alignment"),
        cached_dma=policy.flag("cached_dma"),
        models=tuple(_model(entry) for entry in top.tables("models")),
        items=tuple(_items(top, pipeline)),
        pipeline=pipeline,
        cached_activations=policy.flag("cached_activations", True),
        stack=code.size("stack", STACK_BYTES),
        code=code.size("bytes", 0),
        read_only=code.size("read_only", 0),
        elf=linked.file("elf"),
        map=linked.file("map"),
    )
    for table in (policy, code, linked, top):
        table.done()
    if made.map is not None and made.elf is None:
        raise linked.refuse("map", "a map says too little without its elf")
    if made.elf is not None and (made.code or made.read_only):
        raise code.refuse("bytes", "the linked program says how large it is; leave [code] out")
    names = [link_name(item.name) for item in made.items]
    for n, item in enumerate(made.items):
        if names[n] in names[:n]:
            raise UsageError("SYS-002", path=path, field=item.where, reason="this name is taken")
    return made


def bytes_of(text: str) -> int | None:
    """A number of bytes as people write it ("4096", "4 KiB", "1.5 MB"); None when it is none."""
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        return None
    exact = Fraction(match[1]) * unit
    return int(exact) if exact.denominator == 1 else None


def link_name(text: str) -> str:
    """A name of an item as linker scripts and C can say it."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _model(table: _Table) -> ModelEntry:
    file = table.file("file")
    if file is None:
        raise table.refuse("file", "missing")
    entry = ModelEntry(
        file, table.text("name", ""), Arena(table.one_of("arena", list(Arena))),
        table.size("activations", 0), table.flag("tiling", True), table.flag("keep_inputs"),
    )  # fmt: skip
    table.done()
    return entry


def _pipeline(table: _Table) -> Pipeline:
    made = Pipeline(
        capture_ms=table.positive("capture_ms"),
        infer_ms=table.positive("infer_ms"),
        post_ms=table.positive("post_ms"),
        period_ms=table.positive("period_ms"),
    )
    table.done()
    slowest = max(Stage, key=made.duration)
    if made.duration(slowest) > made.period_ms:
        raise table.refuse(
            "period_ms",
            f"{slowest} takes {made.duration(slowest):g} ms, longer than {made.period_ms:g} ms",
        )
    return made


def _items(top: _Table, pipeline: Pipeline | None) -> Iterator[Item]:
    for task in top.tables("tasks"):
        yield _item(task, Account.SYSTEM, "stack")
    for entry in top.tables("rtos"):
        yield _item(entry, Account.SYSTEM, "bytes")
    heap = top.table("heap")
    if heap.values:
        yield Item("heap", Account.SYSTEM, heap.size("bytes"), 1, False, heap.text("pool", ""),
                   "heap")  # fmt: skip
    heap.done()
    for entry in top.tables("npu_runtime"):
        yield _item(entry, Account.NPU_RUNTIME, "bytes")
    for entry in top.tables("buffers"):
        yield _item(entry, Account.DATA_PATH, "bytes", dma=True, pipeline=pipeline)
    for entry in top.tables("frames"):
        yield _frame(entry, pipeline)


def _item(
    table: _Table, kind: Account, size: str, dma: bool = False, pipeline: Pipeline | None = None
) -> Item:
    item = Item(
        name=table.name("name"),
        kind=kind,
        nbytes=table.size(size),
        count=_count(table, pipeline),
        dma=table.flag("dma", dma),
        pool=table.text("pool", ""),
        where=table.where,
    )
    table.done()
    return item


def _frame(table: _Table, pipeline: Pipeline | None) -> Item:
    width, height = table.integer("width"), table.integer("height")
    if not (0 < width <= 65535 and 0 < height <= 65535):
        raise table.refuse("width", "1 to 65535 pixels each way")
    pixel = FORMATS[table.one_of("format", list(FORMATS), required=True)]
    row = table.size("stride", -(-width * pixel.numerator // pixel.denominator))
    if row * pixel.denominator < width * pixel.numerator:
        raise table.refuse("stride", f"a row of {width} pixels needs more than {row} bytes")
    item = Item(
        name=table.name("name"),
        kind=Account.DATA_PATH,
        nbytes=row * height,
        count=_count(table, pipeline),
        dma=True,
        pool=table.text("pool", ""),
        where=table.where,
    )
    table.done()
    return item


def _count(table: _Table, pipeline: Pipeline | None) -> int:
    stages = list(Stage)
    first = table.one_of("from", [str(stage) for stage in stages], default="")
    last = table.one_of("until", [str(stage) for stage in stages], default=first)
    if not first:
        if last:
            raise table.refuse("until", "`from` is missing")
        count = table.integer("count", 1)
        if not 1 <= count <= 1 << 16:
            raise table.refuse("count", "1 to 65536")
        return count
    if pipeline is None:
        raise table.refuse("from", "there is no [pipeline] to compute the count from")
    if "count" in table.values:
        raise table.refuse("count", "`from` and `until` let the count be computed; give one")
    if stages.index(Stage(last)) < stages.index(Stage(first)):
        raise table.refuse("until", f"{last} comes before {first}")
    return pipeline.buffers(Stage(first), Stage(last))


@dataclass
class _Table:
    """A table of the description that knows where it stands and what was read of it."""

    path: Path
    where: str
    values: Mapping[str, Any]
    seen: set[str] = field(default_factory=set)

    def refuse(self, name: str, reason: str) -> UsageError:
        place = f"{self.where}.{name}" if self.where else name
        return UsageError("SYS-002", path=self.path, field=place, reason=reason)

    def done(self) -> None:
        """Refuse what nobody asked for: a misspelt field must not be ignored."""
        for name in self.values:
            if name not in self.seen:
                raise self.refuse(name, "unknown field")

    def _get(self, name: str) -> Any:
        self.seen.add(name)
        return self.values.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise self.refuse(name, "text expected" if name in self.values else "missing")
        return value

    def name(self, name: str) -> str:
        value = self.text(name)
        if not _NAME.fullmatch(value):
            raise self.refuse(name, "letters, digits, space, dot, - and _ only, 63 at most")
        return value

    def one_of(
        self, name: str, known: list[str], default: str | None = None, required: bool = False
    ) -> str:
        value = self.text(name, None if required else known[0] if default is None else default)
        if value not in known and value != default:
            raise self.refuse(name, f"{value} is none of {', '.join(known)}")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            reason = "whole number expected" if name in self.values else "missing"
            raise self.refuse(name, reason)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false expected")
        return value

    def positive(self, name: str) -> float:
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            reason = "number above 0 expected" if name in self.values else "missing"
            raise self.refuse(name, reason)
        return float(value)

    def share(self, name: str, default: float) -> float:
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.refuse(name, "a share from 0 to 1 expected")
        return float(value)

    def power(self, name: str) -> int:
        value = self.integer(name, 0)
        if value < 0 or value & (value - 1) or value > 1 << 20:
            raise self.refuse(name, "a power of two up to 1 MiB expected")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        value = self._get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            found = bytes_of(value)
            value = value if found is None else found
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 32:
            reason = 'bytes expected: 4096, "4 KiB" or "1 MiB"'
            raise self.refuse(name, reason if name in self.values else "missing")
        return value

    def file(self, name: str) -> Path | None:
        value = self.text(name, "")
        return self.path.parent / value if value else None

    def table(self, name: str) -> _Table:
        value = self._get(name)
        if value is not None and not isinstance(value, dict):
            raise self.refuse(name, "table expected")
        return _Table(self.path, f"{self.where}.{name}" if self.where else name, value or {})

    def tables(self, name: str) -> list[_Table]:
        value = self._get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.refuse(name, f"write [[{name}]], one block an entry")
        return [_Table(self.path, f"{name}[{n}]", entry) for n, entry in enumerate(value)]

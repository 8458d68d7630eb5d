"""Reader of measured epoch times: the table of a validation report on a board, or CSV.

Table lines hold a kind ("epoch", "epoch (SW)", "epoch (EC)", "epoch (HYBRID)"), milliseconds, CPU
clocks before, in and after the epoch in brackets where they were counted, and the name of the
epoch block ("EpochBlock_7" or "EpochBlock_1 -> 53"). CSV has a header with type, dur_ms and
optionally cyc_pre, cyc_core, cyc_post, name.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from enum import StrEnum

from npuforge.artefacts.log_text import LogText

MAX_EPOCHS = 20_000


class MeasuredKind(StrEnum):
    """What ran."""

    HARDWARE = "hardware"
    CONTROLLER = "controller"
    """A run of hardware epochs by the epoch controller."""
    SOFTWARE = "software"
    HYBRID = "hybrid"
    EXTRA = "extra"
    """Hardware that a hybrid epoch started: part of it."""


@dataclass(frozen=True)
class MeasuredEpoch:
    """One line of a report.

    Attributes:
        kind: what ran.
        ms: milliseconds.
        clocks: CPU clocks before, in and after the epoch; None where not counted.
        name: name of the block.
        count: epochs of the block; 1 when it is one.
        line: line number.
    """

    kind: MeasuredKind
    ms: float
    clocks: tuple[int, int, int] | None
    name: str
    count: int
    line: int


_ROW = re.compile(
    r"\bepoch(?:\s*\((?P<kind>[^)]*)\))?(?:\s*-\s*[\w]+)?\s+(?P<ms>\d{1,7}\.\d{1,6})\b"
)
_CLOCKS = re.compile(r"\[\s*([\d,]+)[\s,]+([\d,]+)[\s,]+([\d,]+)\s*\]")
_NAME = re.compile(r"(EpochBlock_(\d+)(?:\s*->\s*(\d+))?)")
_KINDS = {
    "": MeasuredKind.HARDWARE,
    "sw": MeasuredKind.SOFTWARE,
    "ec": MeasuredKind.CONTROLLER,
    "hybrid": MeasuredKind.HYBRID,
}


def read_epoch_times(log: LogText) -> tuple[MeasuredEpoch, ...]:
    """The epochs of a report in the order they ran; empty when the text holds none."""
    head = log.line(1).text if log.text else ""
    if "dur_ms" in head and "," in head:
        return _from_csv(log)
    found = []
    for line in log.with_literal("epoch"):
        row = _ROW.search(line.text)
        if row is None:
            continue
        kind = _kind(row["kind"] or "")
        if kind is None:
            continue
        clocks = _CLOCKS.search(line.text)
        found.append(
            MeasuredEpoch(kind, float(row["ms"]), _numbers(clocks), *_block(line.text), line.number)
        )
        if len(found) >= MAX_EPOCHS:
            break
    return tuple(found)


def _kind(text: str) -> MeasuredKind | None:
    lowered = text.strip().lower()
    return MeasuredKind.EXTRA if lowered.startswith("extra") else _KINDS.get(lowered)


def _numbers(found: re.Match[str] | None) -> tuple[int, int, int] | None:
    if found is None:
        return None
    before, core, after = (int(part.replace(",", "") or 0) for part in found.groups())
    return before, core, after


def _block(text: str) -> tuple[str, int]:
    found = _NAME.search(text)
    if found is None:
        return "", 1
    first, last = int(found[2]), int(found[3] or found[2])
    return found[1], max(1, min(last - first + 1, MAX_EPOCHS))


def _from_csv(log: LogText) -> tuple[MeasuredEpoch, ...]:
    rows = csv.DictReader(io.StringIO(log.text))
    found = []
    for number, row in enumerate(rows, start=2):
        inside = re.fullmatch(r"epoch(?:\s*\(([^)]*)\))?.*", (row.get("type") or "").strip())
        kind = _kind(inside[1] or "") if inside else None
        try:
            ms = float(row.get("dur_ms") or "nan")
            counts = tuple(int(row.get(key) or -1) for key in ("cyc_pre", "cyc_core", "cyc_post"))
        except ValueError:
            continue
        if kind is None or not 0 <= ms < 1e7:
            continue
        clocks = (counts[0], counts[1], counts[2]) if min(counts) >= 0 else None
        found.append(MeasuredEpoch(kind, ms, clocks, *_block(row.get("name") or ""), number))
        if len(found) >= MAX_EPOCHS:
            break
    return tuple(found)

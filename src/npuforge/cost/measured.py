"""Measured epochs beside expected ones: the ratio of each, and what a pattern of ratios means.

Measured lines are matched with predicted epochs in order. Runs of the epoch controller are compared
with the sum of the predicted hardware epochs up to the next CPU epoch; the parts of a hybrid epoch
are added to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from npuforge.accelerators import PlacementKind
from npuforge.artefacts.epoch_times import MeasuredEpoch, MeasuredKind
from npuforge.cost.neural_art import EpochCost, NpuCost
from npuforge.cost.timing import DEFAULT_FLASH_MHZ, FLASH_BYTES_PER_CLOCK, Bottleneck
from npuforge.errors import ValidationError
from npuforge.messages import render

MAX_PAIRS = 4_000_000
"""Cells of the alignment table."""
SKIP = 0.7
"""Cost of leaving an epoch without a partner; a factor of two between times costs as much."""
CLEAR = 1.3
"""Ratio from which on a group of epochs is called slow."""
MINIMUM = 3
"""Epochs a group needs before a pattern is named."""


class Side(StrEnum):
    """Who runs an epoch."""

    NPU = "npu"
    CPU = "cpu"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class Item:
    """One epoch or one controller run, from either side."""

    name: str
    side: Side
    ms: float
    first: int
    count: int
    waits: Bottleneck | None = None


@dataclass(frozen=True)
class Pair:
    """A measured and a predicted epoch that belong together; None where one has no partner."""

    measured: Item | None
    predicted: Item | None

    @property
    def ratio(self) -> float | None:
        """Measured over predicted time."""
        if self.measured is None or self.predicted is None or not self.predicted.ms:
            return None
        return self.measured.ms / self.predicted.ms


@dataclass(frozen=True)
class Suspicion:
    """A likely cause of a pattern of ratios.

    Attributes:
        code: message code.
        text: what was seen, with its numbers.
        remedy: what to check.
    """

    code: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Comparison:
    """A measured report against the estimate.

    Attributes:
        pairs: in the order of the report.
        measured_ms: sum of the report.
        predicted_ms: sum of the estimate.
        matched: part of the measured time whose epochs have a partner; 0 to 1.
        suspicions: likely causes, most certain first.
    """

    pairs: tuple[Pair, ...]
    measured_ms: float
    predicted_ms: float
    matched: float
    suspicions: tuple[Suspicion, ...]

    @property
    def ratio(self) -> float:
        """Measured over predicted time of the whole inference."""
        return self.measured_ms / self.predicted_ms if self.predicted_ms else math.inf


def compare_measured(cost: NpuCost, measured: Sequence[MeasuredEpoch]) -> Comparison:
    """Compare a report with an estimate.

    Args:
        cost: the estimate at the clocks the board is meant to have.
        measured: epochs of one inference in order.

    Raises:
        ValidationError: the report holds no epoch, or far too many.
    """
    if not measured:
        raise ValidationError("CST-003")
    if len(measured) * len(cost.epochs) > MAX_PAIRS:
        raise ValidationError("CST-004", measured=len(measured), predicted=len(cost.epochs))
    blocks = any(m.kind is MeasuredKind.CONTROLLER for m in measured)
    lines, expected = _measured(measured), _predicted(cost.epochs, merge=blocks)
    pairs = _align(lines, expected)
    total = sum(item.ms for item in lines)
    paired = sum(p.measured.ms for p in pairs if p.measured is not None and p.ratio is not None)
    share = paired / total if total else 0.0
    return Comparison(tuple(pairs), total, cost.ms, share, tuple(_suspicions(cost, pairs, total)))


def _measured(rows: Sequence[MeasuredEpoch]) -> list[Item]:
    items: list[Item] = []
    for index, row in enumerate(rows):
        if row.kind is MeasuredKind.EXTRA and items:
            items[-1] = replace(items[-1], ms=items[-1].ms + row.ms, count=items[-1].count + 1)
            continue
        side = {MeasuredKind.SOFTWARE: Side.CPU, MeasuredKind.HYBRID: Side.HYBRID}.get(
            row.kind, Side.NPU
        )
        items.append(Item(row.name or f"line {row.line}", side, row.ms, index, row.count))
    return items


def _predicted(epochs: Sequence[EpochCost], *, merge: bool) -> list[Item]:
    items: list[Item] = []
    longest = 0.0
    for index, epoch in enumerate(epochs):
        side = Side.NPU if epoch.kind is PlacementKind.HARDWARE else (
            Side.HYBRID if epoch.kind is PlacementKind.HYBRID else Side.CPU
        )  # fmt: skip
        if merge and side is Side.NPU and items and items[-1].side is Side.NPU:
            waits = epoch.bottleneck if epoch.ms > longest else items[-1].waits
            longest = max(longest, epoch.ms)
            items[-1] = replace(
                items[-1], ms=items[-1].ms + epoch.ms, count=items[-1].count + 1, waits=waits
            )
            continue
        longest = epoch.ms
        items.append(Item(epoch.node, side, epoch.ms, index, 1, epoch.bottleneck))
    return items


def _distance(a: Item, b: Item) -> float:
    ratio = abs(math.log(max(a.ms, 1e-4) / max(b.ms, 1e-4)))
    # A wrong clock shifts all ratios alike: the kind of an epoch says more than its time.
    kind = 0.0 if a.side is b.side else 0.6 if Side.NPU not in (a.side, b.side) else 3.0
    return min(ratio, 2.0) * 0.5 + kind


def _align(lines: list[Item], expected: list[Item]) -> list[Pair]:
    """Cheapest alignment in order, a gap costs `SKIP`."""
    rows, columns = len(lines) + 1, len(expected) + 1
    best = [[0.0] * columns for _ in range(rows)]
    for i in range(1, rows):
        best[i][0] = i * SKIP
    for j in range(1, columns):
        best[0][j] = j * SKIP
    for i in range(1, rows):
        line, above, row = lines[i - 1], best[i - 1], best[i]
        for j in range(1, columns):
            row[j] = min(
                above[j - 1] + _distance(line, expected[j - 1]), above[j] + SKIP, row[j - 1] + SKIP
            )
    pairs: list[Pair] = []
    i, j = rows - 1, columns - 1
    while i or j:
        here = best[i][j]
        if i and j and here == best[i - 1][j - 1] + _distance(lines[i - 1], expected[j - 1]):
            pairs.append(Pair(lines[i - 1], expected[j - 1]))
            i, j = i - 1, j - 1
        elif i and here == best[i - 1][j] + SKIP:
            pairs.append(Pair(lines[i - 1], None))
            i -= 1
        else:
            pairs.append(Pair(None, expected[j - 1]))
            j -= 1
    return pairs[::-1]


def _mean(pairs: Sequence[Pair]) -> float:
    """Ratio of sums: small epochs, whose time is all control, do not decide."""
    measured = sum(p.measured.ms for p in pairs if p.measured)
    predicted = sum(p.predicted.ms for p in pairs if p.predicted)
    return measured / predicted if predicted else 1.0


def _suspicions(cost: NpuCost, pairs: Sequence[Pair], total: float) -> list[Suspicion]:
    known = [p for p in pairs if p.ratio is not None and p.predicted is not None]

    def group(*waits: Bottleneck) -> list[Pair]:
        return [p for p in known if p.predicted is not None and p.predicted.waits in waits]

    flash = group(Bottleneck.FLASH)
    streams = group(Bottleneck.INPUT, Bottleneck.OUTPUT, Bottleneck.KERNEL)
    cpu = [p for p in known if p.predicted is not None and p.predicted.side is Side.CPU]
    external = group(Bottleneck.EXTERNAL_RAM)
    speeds = {name: _mean(entries) for name, entries in
              (("flash", flash), ("streams", streams), ("cpu", cpu), ("external", external))
              if len(entries) >= MINIMUM}  # fmt: skip
    stream = speeds.get("streams", 1.0)
    found: list[Suspicion] = []

    def add(code: str, **numbers: object) -> None:
        found.append(Suspicion(code, *render(code, numbers)))

    if stream > CLEAR or stream < 1 / CLEAR:
        add("CST-saw-npu-clock", ratio=f"{stream:.2f}", mhz=f"{cost.point.npu_mhz / stream:.0f}",
            stated=f"{cost.point.npu_mhz:.0f}")  # fmt: skip
    slow = speeds.get("flash", 1.0)
    if slow > CLEAR * max(stream, 1.0):
        stated = (cost.point.flash_mhz or DEFAULT_FLASH_MHZ) * FLASH_BYTES_PER_CLOCK
        add("CST-saw-flash", ratio=f"{slow:.2f}", rate=f"{stated / slow:.0f}",
            stated=f"{stated:.0f}")  # fmt: skip
    software = speeds.get("cpu", 1.0)
    if software > 3.0:
        add("CST-saw-caches", ratio=f"{software:.1f}")
    elif software > CLEAR:
        like = cost.point.cpu_mhz / software
        add("CST-saw-cpu-clock", ratio=f"{software:.2f}", mhz=f"{like:.0f}",
            stated=f"{cost.point.cpu_mhz:.0f}")  # fmt: skip
    if speeds.get("external", 1.0) > CLEAR:
        add("CST-saw-psram", ratio=f"{speeds['external']:.2f}")
    extra = [p for p in pairs if p.predicted is None and p.measured is not None
             and p.measured.side is Side.CPU]  # fmt: skip
    more = sum(p.measured.ms for p in extra if p.measured is not None)
    if total and more > 0.2 * total:
        add("CST-saw-fallback", count=len(extra), share=f"{more / total:.0%}")
    return found

"""Why a network is slower than the machine could be: every cause by what its removal would save.

A cause is removed in a copy of the epochs and the same model is asked again, so that two causes of
one epoch are not counted as if they were independent; all of them together give the best possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from npuforge.accelerators import PlacementKind
from npuforge.accelerators.neural_art.operations import KERNELS_1X1
from npuforge.accelerators.neural_art.placement import NpuPlacement
from npuforge.cost.compiler import compiler_rules
from npuforge.cost.constants import Calibration
from npuforge.cost.epochs import EpochWork, epoch_works
from npuforge.cost.neural_art import EpochCost, NpuCost, cost_of_works
from npuforge.cost.residence import Residence
from npuforge.cost.timing import Bottleneck
from npuforge.graph import Graph
from npuforge.messages import render
from npuforge.targets import OperatingPoint

ON_CPU = (PlacementKind.CPU_INTEGER, PlacementKind.CPU_FLOAT, PlacementKind.HYBRID)
SHOWN_NODES = 3


class Cause(StrEnum):
    """What keeps an epoch from the best possible."""

    ZERO_POINT = "zero point"
    FALLBACK = "fallback"
    FLASH = "flash"
    SPILL = "spill"
    CHANNELS = "channel counts"
    CONTROL = "control"
    CLOCK = "clock"


@dataclass(frozen=True)
class Saving:
    """What the removal of one cause would save.

    Attributes:
        cause: which.
        ms: milliseconds of one inference, above 0.
        share: of the present time; 0 to 1.
        epochs: number of epochs that get faster.
        nodes: the leading nodes that gain most.
        remedy: what to do about it.
    """

    cause: Cause
    ms: float
    share: float
    epochs: int
    nodes: tuple[str, ...]
    remedy: str


@dataclass(frozen=True)
class Explanation:
    """The distance to the best possible.

    Attributes:
        ms: present time.
        best_ms: time with every cause removed.
        savings: largest first.
    """

    ms: float
    best_ms: float
    savings: tuple[Saving, ...]


def why_slower(
    graph: Graph,
    placements: Sequence[NpuPlacement],
    cost: NpuCost,
    points: Sequence[OperatingPoint] = (),
) -> Explanation:
    """Rank what keeps a network from the best possible time.

    Args:
        graph: the network.
        placements: those of the estimate.
        cost: the estimate.
        points: operating points of the target; a faster one is a cause.
    """
    works = tuple(epoch.work for epoch in cost.epochs)
    fastest = max((cost.point, *points), key=lambda point: (point.npu_mhz, point.cpu_mhz))
    quiet = _without_control(cost.calibration)
    aligned = epoch_works(graph, placements, compiler_rules(cost.release), aligned=True)
    changed: dict[Cause, NpuCost] = {
        Cause.ZERO_POINT: _again(cost, aligned),
        Cause.FALLBACK: _again(cost, tuple(map(_on_npu, works))),
        Cause.FLASH: _again(cost, tuple(map(_no_flash, works))),
        Cause.SPILL: _again(cost, works, residence=Residence(peak=cost.residence.peak)),
        Cause.CHANNELS: _again(cost, tuple(_whole_groups(graph, work) for work in works)),
        Cause.CONTROL: _again(cost, works, calibration=quiet),
        Cause.CLOCK: _again(cost, works, point=fastest),
    }
    savings = []
    for cause, other in changed.items():
        gains = [(a.ms - b.ms, a.node) for a, b in zip(cost.epochs, other.epochs, strict=True)]
        total = cost.ms - other.ms
        if total <= 1e-6 * max(cost.ms, 1e-9):
            continue
        best = sorted((g for g in gains if g[0] > 1e-9), key=lambda g: -g[0])
        numbers = {"from": cost.point.name, "to": fastest.name}
        savings.append(
            Saving(
                *(cause, total, total / cost.ms, len(best)),
                nodes=tuple(node for _, node in best[:SHOWN_NODES]),
                remedy=render(f"CST-why-{cause.name.lower().replace('_', '-')}", numbers)[1],
            )
        )
    ideal = tuple(_whole_groups(graph, _no_flash(_on_npu(work))) for work in aligned)
    best_cost = _again(
        cost, ideal, residence=Residence(peak=cost.residence.peak), calibration=quiet, point=fastest
    )
    return Explanation(cost.ms, best_cost.ms, tuple(sorted(savings, key=lambda entry: -entry.ms)))


def _again(
    cost: NpuCost,
    works: Sequence[EpochWork],
    *,
    residence: Residence | None = None,
    calibration: Calibration | None = None,
    point: OperatingPoint | None = None,
) -> NpuCost:
    return cost_of_works(
        works, residence or cost.residence, point or cost.point, calibration or cost.calibration,
        cost.release, cost.controller,
    )  # fmt: skip


def _without_control(calibration: Calibration) -> Calibration:
    return calibration.with_constants(
        dict.fromkeys(
            ("epoch_clocks", "program_clocks", "program_clocks_per_channel", "setup_cpu_clocks",
             "setup_cpu_clocks_per_channel", "software_cpu_clocks", "hybrid_cpu_clocks"), 0.0)
    )  # fmt: skip


def _on_npu(work: EpochWork) -> EpochWork:
    if work.kind not in ON_CPU:
        return work
    size = float(max(work.elements, 1))
    return replace(work, kind=PlacementKind.HARDWARE, input=size, output=size)


def _no_flash(work: EpochWork) -> EpochWork:
    return replace(work, flash_bytes=0, streamed=0) if work.flash_bytes else work


def _whole_groups(graph: Graph, work: EpochWork) -> EpochWork:
    """The 1x1 convolution as if its output channels filled whole groups of kernels."""
    if work.op != "conv2d" or work.kind is not PlacementKind.HARDWARE:
        return work
    node = next((n for n in graph.nodes if n.name == work.nodes[0]), None)
    if node is None or graph.tensor(node.inputs[1]).shape[1:3] != (1, 1):
        return work
    count = graph.output_tensors(node)[0].shape[-1]
    groups = math.ceil(count / KERNELS_1X1)
    if groups >= work.passes:
        return work
    return replace(work, input=work.input * groups / work.passes, passes=groups)


@dataclass(frozen=True)
class Prefetch:
    """What weights of one epoch in on-chip RAM would save.

    Attributes:
        node: leading node.
        nbytes: RAM they take.
        ms: milliseconds saved an inference when they stay in RAM.
        ahead_ms: milliseconds saved when they are fetched during the epoch before, into a buffer.
        fits: they are among those that fit into the free RAM together, best first.
    """

    node: str
    nbytes: int
    ms: float
    ahead_ms: float
    fits: bool


@dataclass(frozen=True)
class PrefetchPlan:
    """Weights ranked by what moving them to RAM would save.

    Attributes:
        entries: most milliseconds a byte first.
        room: bytes of RAM that are free for them.
        ms: saved by those that fit.
        ahead_ms: saved by fetching each epoch's weights during the epoch before.
        buffer: bytes of the buffer that takes, the largest of `entries` that gain.
    """

    entries: tuple[Prefetch, ...]
    room: int
    ms: float
    ahead_ms: float
    buffer: int


def prefetch_plan(cost: NpuCost, room: int) -> PrefetchPlan:
    """Rank weights by what on-chip RAM would save.

    Args:
        cost: the estimate, weights in flash.
        room: bytes of on-chip RAM that hold nothing else during the whole inference.
    """
    without = _again(cost, tuple(_no_flash(epoch.work) for epoch in cost.epochs))
    found = []
    before: EpochCost | None = None
    for epoch, other in zip(cost.epochs, without.epochs, strict=True):
        gain = epoch.ms - other.ms
        if gain > 1e-9 and epoch.flash_bytes:
            ahead = 0.0
            if before is not None:
                idle = max(0.0, before.ms - before.parts.get(Bottleneck.FLASH, 0.0))
                ahead = min(gain, idle)
            found.append((epoch.node, epoch.flash_bytes, gain, ahead))
        before = epoch
    found.sort(key=lambda entry: (-entry[2] / entry[1], entry[0]))
    entries, left = [], max(room, 0)
    for node, nbytes, gain, ahead in found:
        fits = nbytes <= left
        left -= nbytes if fits else 0
        entries.append(Prefetch(node, nbytes, gain, ahead, fits))
    return PrefetchPlan(
        tuple(entries), max(room, 0), sum(e.ms for e in entries if e.fits),
        sum(e.ahead_ms for e in entries),
        max((e.nbytes for e in entries if e.ahead_ms > 0), default=0),
    )  # fmt: skip

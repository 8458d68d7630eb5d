"""Time of a network on Neural-ART, epoch by epoch; the model is in `timing.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npuforge.accelerators import PlacementKind
from npuforge.accelerators.neural_art.epochs import DEFAULT_RELEASE
from npuforge.accelerators.neural_art.placement import NpuPlacement
from npuforge.cost.compiler import compiler_rules
from npuforge.cost.constants import Calibration, load_calibration
from npuforge.cost.epochs import EpochWork, epoch_works
from npuforge.cost.residence import Residence, place_activations
from npuforge.cost.timing import Bottleneck, columns, epoch_times
from npuforge.graph import Graph
from npuforge.targets import OperatingPoint


@dataclass(frozen=True)
class EpochCost:
    """Time of one epoch.

    Attributes:
        node: graph node that leads it.
        nodes: all graph nodes of it.
        op: operator of the leading node.
        kind: hardware, hybrid or on the CPU.
        ms: milliseconds.
        bottleneck: what it waits for.
        parts: milliseconds by what takes them; the streams overlap, so they add up to more.
        macs: multiply-accumulates.
        flash_bytes: constants read.
        moved_bytes: activation bytes read and written.
        wide: the input's zero point forces 16x8-bit mode.
        work: the counts behind it.
        doubt: how far the time may be off, as a natural logarithm.
    """

    node: str
    nodes: tuple[str, ...]
    op: str
    kind: PlacementKind
    ms: float
    bottleneck: Bottleneck
    parts: Mapping[Bottleneck, float]
    macs: int
    flash_bytes: int
    moved_bytes: int
    wide: bool
    work: EpochWork
    doubt: float


@dataclass(frozen=True)
class NpuCost:
    """Time of one inference, and its epochs in execution order.

    Attributes:
        epochs: in execution order.
        calibration: the constants that were used.
        point: the clocks.
        release: compiler release the epochs were predicted for.
        controller: whether the epoch controller runs the hardware epochs.
        residence: where the activations were taken to be.
    """

    epochs: tuple[EpochCost, ...]
    calibration: Calibration
    point: OperatingPoint
    release: str
    controller: bool
    residence: Residence

    @property
    def ms(self) -> float:
        """Milliseconds of one inference."""
        return sum(epoch.ms for epoch in self.epochs)

    @property
    def interval(self) -> tuple[float, float]:
        """Milliseconds that hold 80 % of board figures: the wider, the more time rests on epochs
        that are known the least (`Doubts`); what the width rests on is the calibration's `basis`.
        """
        mean = sum(e.ms * e.doubt for e in self.epochs) / self.ms if self.ms else 0.0
        factor = math.exp(self.calibration.spread * mean)
        return self.ms / factor, self.ms * factor

    def share(self, bottleneck: Bottleneck) -> float:
        """Part of the time spent in epochs that wait for one thing; 0 to 1."""
        waiting = sum(e.ms for e in self.epochs if e.bottleneck is bottleneck)
        return waiting / self.ms if self.ms else 0.0


def npu_cost(
    graph: Graph,
    placements: Sequence[NpuPlacement],
    point: OperatingPoint,
    calibration: Calibration | None = None,
    *,
    release: str = DEFAULT_RELEASE,
    controller: bool = True,
    residence: Residence | None = None,
) -> NpuCost:
    """Time of every epoch at an operating point.

    Args:
        graph: the network.
        placements: one a node, as `map_to_npu` gives them.
        point: clocks; without a flash clock 200 MHz is assumed.
        calibration: constants; default: `load_calibration()`.
        release: of ST Edge AI Core, major and minor number.
        controller: the epoch controller runs hardware epochs; else the CPU sets each one up.
        residence: where activations are; default: `place_activations` with the chip's own RAM.

    Raises:
        UsageError: `release` is no release number.
    """
    used = calibration or load_calibration()
    works = epoch_works(graph, placements, compiler_rules(release))
    where = residence or place_activations(graph, works)
    return cost_of_works(works, where, point, used, release, controller)


def cost_of_works(
    works: Sequence[EpochWork],
    where: Residence,
    point: OperatingPoint,
    calibration: Calibration,
    release: str,
    controller: bool,
) -> NpuCost:
    """The same for epochs that are known: what-if questions change them and ask again."""
    table = columns(works, where, point, calibration, release, controller)
    total, parts = epoch_times(table, calibration.constants)
    milliseconds, doubts = (total / 1e3).tolist(), table.doubt.tolist()
    by_part = {key: (value / 1e3).tolist() for key, value in parts.items()}
    epochs = []
    for index, work in enumerate(works):
        own = {key: value[index] for key, value in by_part.items() if value[index] > 0}
        worst = max(own, key=lambda key: own[key]) if own else Bottleneck.CONTROL
        epochs.append(
            EpochCost(
                *(work.nodes[0], work.nodes, work.op, work.kind, milliseconds[index], worst, own),
                *(work.macs, work.flash_bytes, work.moved_bytes, work.wide, work, doubts[index]),
            )
        )
    return NpuCost(tuple(epochs), calibration, point, release, controller, where)

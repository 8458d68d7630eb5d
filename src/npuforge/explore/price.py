"""What a quantised network costs on a board: time, memory, share in 8x8-bit mode."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuforge.accelerators import PlacementKind
from npuforge.cost import (
    DEFAULT_RELEASE,
    activation_limits,
    compiler_rules,
    epoch_works,
    load_calibration,
    place_activations,
)
from npuforge.cost.neural_art import cost_of_works
from npuforge.errors import PlanError
from npuforge.graph import Graph
from npuforge.lowering import lower
from npuforge.mapping import map_graph, map_to_npu
from npuforge.memory import plan_memory
from npuforge.messages import text
from npuforge.quantize.price import Price
from npuforge.targets import OperatingPoint, Target, Use


@dataclass(frozen=True)
class TargetPrice:
    """A `Pricing`: asks placement, cost model and memory of one board.

    Attributes:
        target: the board.
        point: its operating point.
        release: of ST Edge AI Core, whose placement and epochs are predicted.
    """

    target: Target
    point: OperatingPoint
    release: str = DEFAULT_RELEASE

    def __call__(self, graph: Graph) -> Price:
        """The price of a network; without a Neural-ART there is no model of time."""
        constants = sum(t.nbytes for t in graph.tensors.values() if t.is_constant)
        if not self.target.has_neural_art:
            return self._planned(graph, constants)
        placements = map_to_npu(graph, release=self.release).placements
        works = epoch_works(graph, placements, compiler_rules(self.release))
        where = place_activations(graph, works, *activation_limits(self.target))
        cost = cost_of_works(works, where, self.point, load_calibration(), self.release, True)
        total = sum(epoch.macs for epoch in cost.epochs)
        narrow = sum(
            epoch.macs
            for epoch in cost.epochs
            if epoch.kind is PlacementKind.HARDWARE and not epoch.wide
        )
        share = narrow / total if total else None
        return self._checked(Price(cost.ms, constants, where.peak, share))

    def _planned(self, graph: Graph, constants: int) -> Price:
        schedule = lower(graph, map_graph(graph, self.target), self.target)
        try:
            plan = plan_memory(schedule, self.target)
        except PlanError as error:
            return Price(None, constants, None, None, error.message)
        return Price(None, constants, plan.activation_bytes, None)

    def _checked(self, price: Price) -> Price:
        room = sum(pool.size for pool in self.target.pools_for(Use.ACTIVATIONS))
        if price.activation_bytes is None or price.activation_bytes <= room:
            return price
        why = text("QNS-room", need=price.activation_bytes, room=room, target=self.target.name)
        return replace(price, why=why)

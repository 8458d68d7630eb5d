"""The order of the stages, in one place.

model file - importers -> Graph - mapping -> Mapping - lowering -> Schedule - memory -> Plan
           - cost -> Cost
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npuforge.cost import Cost, count_work
from npuforge.explore.fit import fit_schedule
from npuforge.explore.tiling import Tiling
from npuforge.graph import Graph
from npuforge.importers import Shapes, load_model
from npuforge.lowering import Schedule, lower
from npuforge.mapping import Mapping, map_graph
from npuforge.memory import Plan, verify_plan
from npuforge.memory.layout import behind_boot
from npuforge.numerics import with_contract
from npuforge.targets import Target
from npuforge.vocab import Contract


@dataclass(frozen=True)
class System:
    """What is to be deployed: models that run one at a time on one target.

    Attributes:
        models: model files.
        target: the board.
        contract: arithmetic for all integer nodes; None keeps that of each file format.
        shapes: what takes the place of free dimensions; see `load_model`.
        activations: bytes that the activations of each model may take; None for what fits.
        tiling: whether steps may be computed in stripes where a model does not fit otherwise.
    """

    models: tuple[Path, ...]
    target: Target
    contract: Contract | None = None
    shapes: Shapes | None = None
    activations: int | None = None
    tiling: bool = True


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """One model after all stages.

    Attributes:
        tiling: what is computed in stripes; None when nothing is.
    """

    path: Path
    graph: Graph
    mapping: Mapping
    schedule: Schedule
    plan: Plan
    cost: Cost
    tiling: Tiling | None = None


@dataclass(frozen=True, eq=False)
class PlannedSystem:
    """A system after all stages."""

    system: System
    models: tuple[PlannedModel, ...]


def plan_system(system: System) -> PlannedSystem:
    """Take every model of a system through the stages.

    Raises:
        NpuforgeError: whatever a stage refuses.
    """
    return PlannedSystem(system, tuple(_plan_models(system)))


def _plan_models(system: System) -> Sequence[PlannedModel]:
    planned = []
    for path in system.models:
        graph = load_model(path, system.shapes)
        if system.contract is not None:
            graph = with_contract(graph, system.contract)
        mapping = map_graph(graph, system.target)
        schedule = lower(graph, mapping, system.target)
        fitted = fit_schedule(
            schedule, behind_boot(system.target), system.activations, tiling=system.tiling
        )
        schedule, plan = fitted.schedule, fitted.plan
        verify_plan(schedule, plan, system.target)
        work = count_work(schedule)
        planned.append(PlannedModel(path, graph, mapping, schedule, plan, work, fitted.tiling))
    return planned

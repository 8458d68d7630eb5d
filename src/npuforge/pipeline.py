"""The order of the stages, in one place.

model file - importers -> Graph - mapping -> Mapping - lowering -> Schedule - memory -> Plan
           - cost -> Cost
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npuforge.cost import Cost, count_work
from npuforge.graph import Graph
from npuforge.importers import Shapes, load_model
from npuforge.lowering import Schedule, lower
from npuforge.mapping import Mapping, map_graph
from npuforge.memory import Plan, plan_memory, verify_plan
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
    """

    models: tuple[Path, ...]
    target: Target
    contract: Contract | None = None
    shapes: Shapes | None = None


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """One model after all stages."""

    path: Path
    graph: Graph
    mapping: Mapping
    schedule: Schedule
    plan: Plan
    cost: Cost


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
        plan = plan_memory(schedule, behind_boot(system.target))
        verify_plan(schedule, plan, system.target)
        planned.append(PlannedModel(path, graph, mapping, schedule, plan, count_work(schedule)))
    return planned

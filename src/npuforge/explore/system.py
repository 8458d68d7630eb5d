"""From a system description to its layout: models are read, lowered, and everything is placed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from npuforge.artefacts.elf import read_elf
from npuforge.artefacts.map_pieces import read_map_pieces
from npuforge.artefacts.text import read_text
from npuforge.errors import UsageError
from npuforge.explore.fit import fit_schedule
from npuforge.firmware import identifier
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.lowering import Schedule, lower
from npuforge.mapping import map_graph
from npuforge.memory.layout import SystemLayout, layout_system
from npuforge.memory.ledger import Ledger, linked_ledger
from npuforge.memory.linker import STACK_BYTES
from npuforge.memory.plan import Plan
from npuforge.memory.system import ModelEntry, SystemDescription
from npuforge.memory.verify import verify_plan
from npuforge.memory.verify_system import verify_layout
from npuforge.targets import Target, load_target


@dataclass(frozen=True, eq=False)
class SystemModel:
    """A model of a system, ready to be placed."""

    name: str
    graph: Graph
    schedule: Schedule


def load_models(description: SystemDescription, target: Target) -> tuple[SystemModel, ...]:
    """Read and lower the models of a description.

    Raises:
        NpuforgeError: a model cannot be read or computed, or two have the same name.
    """
    models: list[SystemModel] = []
    for number, entry in enumerate(description.models):
        graph = load_model(entry.file)
        name = identifier(entry.name or graph.name)
        if name in {model.name for model in models}:
            raise UsageError(
                "SYS-002",
                path=description.file,
                field=f"models[{number}].name",
                reason=f"{name} is taken; give one of them another name",
            )
        asked = _asked(entry, target)
        models.append(SystemModel(name, graph, lower(graph, map_graph(graph, asked), asked)))
    return tuple(models)


def _asked(entry: ModelEntry, target: Target) -> Target:
    """The target with the lifetime rules that a model of the description asks for."""
    return replace(target, keep_inputs=target.keep_inputs or entry.keep_inputs)


def plan_description(description: SystemDescription) -> SystemLayout:
    """The layout of a description.

    Raises:
        NpuforgeError: a file cannot be read, or something does not fit.
    """
    target = load_target(description.target)
    linked = None
    if description.elf is not None:
        linked = read_linked(description.elf, description.map, target, stack=0)
    models = load_models(description, target)
    entries = {model.name: entry for model, entry in zip(models, description.models, strict=True)}

    def planner(name: str, schedule: Schedule, left: Target) -> tuple[Schedule, Plan]:
        entry = entries[name]
        fitted = fit_schedule(schedule, left, entry.activations or None, tiling=entry.tiling)
        verify_plan(fitted.schedule, fitted.plan, _asked(entry, left))
        return fitted.schedule, fitted.plan

    layout = layout_system(
        description, target, [(model.name, model.schedule) for model in models], linked, planner
    )
    verify_layout(layout)
    return layout


def read_linked(
    elf: Path, map_file: Path | None, target: Target, *, stack: int = STACK_BYTES
) -> Ledger:
    """The ledger of a linked program.

    Args:
        elf: the program.
        map_file: its linker map; None for one line a section.
        target: the machine it was linked for.
        stack: bytes reserved below the symbol ``nf_stack_top``.

    Raises:
        NpuforgeError: a file cannot be read, or the two do not belong together.
    """
    try:
        data = elf.read_bytes()
        pieces = read_map_pieces(read_text(map_file)) if map_file is not None else ()
    except OSError as error:
        raise UsageError("SYS-003", path=error.filename, reason=error.strerror) from None
    return linked_ledger(read_elf(data, elf.name), pieces, target, stack=stack, file=elf.name)

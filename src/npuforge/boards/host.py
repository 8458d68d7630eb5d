"""The host as a board: the step table of a plan, run by the host build of the runtime.

The table, the offsets and the kernels are those of the firmware; only the base addresses differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuforge.graph import NUMPY_TYPES, Array, Graph
from npuforge.lowering import RowPiece, Schedule
from npuforge.memory import Plan
from npuforge.numerics import (
    CONST_SPACE,
    PlacedOperand,
    PlacedStep,
    build_program,
    check_input,
)


def placed_steps(schedule: Schedule, plan: Plan) -> list[PlacedStep]:
    """The steps of a schedule with the plan's addresses; region i is memory space i + 1."""
    nodes = {name: i for i, name in enumerate(dict.fromkeys(s.node for s in schedule.steps))}
    steps = []
    for step in schedule.steps:
        operands = []
        for operand in step.operands:
            place = plan.places[operand.buffer]
            space = CONST_SPACE if place.region < 0 else place.region + 1
            offset = place.offset + operand.view.offset
            operands.append(PlacedOperand(space, offset, operand.view))
        steps.append(PlacedStep(step.kernel, nodes[step.node], tuple(operands), step.params))
    return steps


@dataclass(frozen=True, eq=False)
class RunResult:
    """What one inference left behind.

    Attributes:
        outputs: by tensor name.
        tensors: every activation by name, when captured.
        instructions: instructions of each step, where the board counts them.
    """

    outputs: Mapping[str, Array]
    tensors: Mapping[str, Array]
    instructions: tuple[int, ...] = ()


class HostBoard:
    """A schedule and its plan made ready to run on this machine."""

    name = "host"

    def __init__(self, graph: Graph, schedule: Schedule, plan: Plan) -> None:
        self._graph = graph
        self._schedule = schedule
        self._plan = plan
        sizes = [region.used for region in plan.regions]
        self._program = build_program(placed_steps(schedule, plan), plan.image, sizes)
        self._spaces = [self._program.space(i + 1) for i in range(len(sizes))]
        self._at: dict[int, list[str]] = {}
        for name, place in schedule.tensors.items():
            self._at.setdefault(place.step, []).append(name)
        self._rows: dict[int, list[tuple[str, RowPiece]]] = {}
        for name, pieces in schedule.pieces.items():
            for piece in pieces:
                self._rows.setdefault(piece.step, []).append((name, piece))
        self.reset()

    def reset(self) -> None:
        """Give the state variables the values they have before the first inference."""
        for name, initial in self._graph.states.items():
            home = self._plan.places[name]
            raw = self._spaces[home.region][home.offset : home.offset + initial.nbytes]
            raw.view(initial.dtype).reshape(initial.shape)[...] = initial

    def run(self, inputs: Mapping[str, Array], *, capture: bool = False) -> RunResult:
        """Run one inference; with `capture`, read each tensor right after its last writer.

        A tensor of which only some rows exist at a time is put together row by row.

        Raises:
            UsageError: an input is missing or has another shape or type.
        """
        for name in self._graph.inputs:
            tensor = self._graph.tensors[name]
            value = inputs.get(name)
            check_input(tensor, value)
            assert value is not None
            self._view(name)[...] = value
        count = len(self._schedule.steps)
        tensors: dict[str, Array] = {}
        if not capture:
            self._program.run(0, count)
        else:
            for index in range(count):
                self._program.run(index, 1)
                for name in self._at.get(index, ()):
                    tensors[name] = self._view(name).copy()
                for name, piece in self._rows.get(index, ()):
                    self._put(tensors, name, piece)
        outputs = {name: self._view(name).copy() for name in self._graph.outputs}
        return RunResult(outputs, tensors)

    def _put(self, tensors: dict[str, Array], name: str, piece: RowPiece) -> None:
        if name not in tensors:
            tensor = self._graph.tensors[name]
            tensors[name] = np.empty(tensor.shape, NUMPY_TYPES[tensor.dtype])
        home = self._plan.places[piece.buffer]
        at = home.offset + piece.offset
        raw = tensors[name].reshape(-1).view(np.uint8)
        raw[piece.start : piece.start + piece.nbytes] = self._spaces[home.region][
            at : at + piece.nbytes
        ]

    def _view(self, name: str) -> Array:
        tensor = self._graph.tensors[name]
        place = self._schedule.tensors[name]
        home = self._plan.places[place.buffer]
        start = home.offset + place.offset
        raw = self._spaces[home.region][start : start + tensor.nbytes]
        view: Array = raw.view(NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)
        return view

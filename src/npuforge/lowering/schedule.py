"""The Schedule: ordered steps over buffers, before anything has an address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from npuforge.graph import Array, Shape
from npuforge.numerics import View
from npuforge.targets import Reach
from npuforge.vocab import DType


class BufferKind(StrEnum):
    """What a buffer holds."""

    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    CONSTANT = "constant"
    SCRATCH = "scratch"
    STATE = "state"


@dataclass(frozen=True, eq=False)
class Buffer:
    """A block of memory.

    Attributes:
        name: unique in the schedule.
        kind: what it holds.
        nbytes: size in bytes.
        alignment: of its address, in bytes.
        dtype: element type, None for raw tables.
        shape: shape of the tensor in it, empty for scratch.
        layout: order of the axes ("NHWC", "OHWI", ...), "" where it does not matter.
        reach: who must be able to access it.
        data: contents of a constant.
        role: what a constant is to its kernel ("weights", "bias", "multiplier", ...).
        held: nothing else may lie there at any step, whenever it is read or written.
    """

    name: str
    kind: BufferKind
    nbytes: int
    alignment: int
    dtype: DType | None = None
    shape: Shape = ()
    layout: str = ""
    reach: tuple[Reach, ...] = (Reach.CPU,)
    data: Array | None = None
    role: str = ""
    held: bool = False


@dataclass(frozen=True)
class StepOperand:
    """One operand of a step: a view of a buffer. `view.offset` counts from the buffer's start."""

    buffer: str
    view: View
    writes: bool


@dataclass(frozen=True, eq=False)
class Step:
    """One kernel call.

    Attributes:
        node: name of the graph node it belongs to.
        op: operator of that node.
        accelerator: what runs it.
        kernel: runtime kernel.
        operands: in the kernel's order.
        params: the kernel's parameters.
        macs: multiply-accumulates of the node, counted at its first step.
    """

    node: str
    op: str
    accelerator: str
    kernel: str
    operands: tuple[StepOperand, ...]
    params: Mapping[str, int | float]
    macs: int = 0


@dataclass(frozen=True)
class TensorPlace:
    """Where a graph tensor lies: a buffer, and the last step that writes it (-1: an input)."""

    buffer: str
    offset: int
    nbytes: int
    step: int


@dataclass(frozen=True)
class RowPiece:
    """Rows of a tensor that exist after a step, in a buffer that holds only some of its rows.

    Attributes:
        step: the step that makes them.
        buffer: where they are then.
        offset: byte of the buffer at which they begin.
        start: byte of the tensor at which they begin.
        nbytes: their bytes.
    """

    step: int
    buffer: str
    offset: int
    start: int
    nbytes: int


@dataclass(frozen=True)
class Lifetime:
    """First and last step in which a buffer is in use, both included; -1 is before the first."""

    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Schedule:
    """A network as steps over buffers.

    Attributes:
        name: of the network.
        steps: in execution order.
        buffers: by name.
        tensors: where each activation of the graph is.
        inputs: graph inputs in order.
        outputs: graph outputs in order.
        states: state buffers by name, with the constant buffer that holds the first value.
        pieces: where each activation is that never exists as a whole, in the order of the steps.
    """

    name: str
    steps: tuple[Step, ...]
    buffers: Mapping[str, Buffer]
    tensors: Mapping[str, TensorPlace]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: Mapping[str, str] = field(default_factory=dict)
    pieces: Mapping[str, tuple[RowPiece, ...]] = field(default_factory=dict)

    @cached_property
    def constants(self) -> tuple[Buffer, ...]:
        """Constant buffers in the order of first use."""
        return tuple(b for b in self.buffers.values() if b.kind is BufferKind.CONSTANT)

    @cached_property
    def activations(self) -> tuple[Buffer, ...]:
        """All buffers that need writable memory."""
        return tuple(b for b in self.buffers.values() if b.kind is not BufferKind.CONSTANT)

    @cached_property
    def lifetimes(self) -> Mapping[str, Lifetime]:
        """Lifetime of each writable buffer: inputs from the start, outputs to the end, states and
        held ones throughout."""
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            for operand in step.operands:
                first.setdefault(operand.buffer, index)
                last[operand.buffer] = index
        for name in self.inputs:
            first[self.tensors[name].buffer] = -1
            last.setdefault(self.tensors[name].buffer, -1)
        for name in self.outputs:
            buffer = self.tensors[name].buffer
            last[buffer] = len(self.steps)
            first.setdefault(buffer, -1)
        for state in self.activations:
            if state.kind is BufferKind.STATE or state.held:
                first[state.name], last[state.name] = -1, len(self.steps)
        return {
            buffer.name: Lifetime(first[buffer.name], last[buffer.name])
            for buffer in self.activations
        }

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(step.macs for step in self.steps)

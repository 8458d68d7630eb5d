"""(Graph, Mapping, Target) → Schedule."""

from __future__ import annotations

from collections.abc import Iterable

from npuforge.accelerators import accelerator
from npuforge.graph import Array, Graph, Tensor, is_view, macs
from npuforge.lowering.schedule import (
    Buffer,
    BufferKind,
    Schedule,
    Step,
    StepOperand,
    TensorPlace,
)
from npuforge.mapping import Mapping
from npuforge.numerics import ConstArg, KernelCall, ScratchArg, View, storage_roots
from npuforge.numerics.program import CONST_ALIGN
from npuforge.targets import Target
from npuforge.vocab import DType

_LAYOUTS = {"conv2d": "OHWI", "depthwise_conv2d": "1HWC", "fully_connected": "OI"}


def lower(graph: Graph, mapping: Mapping, target: Target) -> Schedule:
    """Turn a mapped graph into steps and buffers.

    Raises:
        UnsupportedError: a node has no kernel on the accelerator it is mapped to.
    """
    return _Lowering(graph, mapping, target).schedule()


class _Lowering:
    def __init__(self, graph: Graph, mapping: Mapping, target: Target) -> None:
        self._graph = graph
        self._mapping = mapping
        self._alignment = target.buffer_alignment
        self._held = {
            BufferKind.INPUT: target.keep_inputs, BufferKind.OUTPUT: target.reserve_outputs
        }  # fmt: skip
        self._constant_alignment = max(CONST_ALIGN, target.weight_alignment)
        self._roots = storage_roots(graph)
        self._buffers: dict[str, Buffer] = {}
        self._constants: dict[tuple[bytes, str], str] = {}
        self._steps: list[Step] = []
        self._written: dict[str, int] = {}

    def schedule(self) -> Schedule:
        graph = self._graph
        for name in graph.inputs:
            self._buffer_of(graph.tensors[name])
        for node in graph.nodes:
            if is_view(node):
                continue
            placement = self._mapping.placements[node.name]
            work = macs(graph, node)
            for call in accelerator(placement.accelerator).lower(graph, node):
                operands = tuple(self._operands(call, node.name, node.op))
                self._steps.append(
                    Step(
                        node.name,
                        node.op,
                        placement.accelerator,
                        call.kernel,
                        operands,
                        call.params,
                        work,
                    )
                )
                work = 0
                for operand in operands:
                    if operand.writes:
                        self._written[operand.buffer] = len(self._steps) - 1
        for name in graph.outputs:
            if graph.tensors[name].is_constant:
                self._copy_out(graph.tensors[name])
        return Schedule(
            name=graph.name,
            steps=tuple(self._steps),
            buffers=self._buffers,
            tensors=self._places(),
            inputs=graph.inputs,
            outputs=graph.outputs,
            states=self._states(),
        )

    def _states(self) -> dict[str, str]:
        """Each state buffer and the constant it starts from."""
        states = {}
        for name, initial in self._graph.states.items():
            buffer = self._buffer_of(self._graph.tensors[name])
            states[buffer.name] = self._constant(f"{name}/initial", "initial", initial, "")
        return states

    def _copy_out(self, tensor: Tensor) -> None:
        """An output that is a constant is copied from the weights."""
        view = View.dense((tensor.size,), tensor.dtype.nbytes)
        buffer = self._buffer_of(tensor)
        constant = self._constant(f"{tensor.name}/constant", "constant", tensor.array, "")
        operands = (StepOperand(constant, view, False), StepOperand(buffer.name, view, True))
        params = {"element": tensor.dtype.nbytes}
        self._written[buffer.name] = len(self._steps)
        self._steps.append(Step(tensor.name, "output", "cpu_m55", "copy", operands, params))

    def _places(self) -> dict[str, TensorPlace]:
        graph = self._graph
        names: Iterable[str] = (
            *graph.inputs,
            *(out for node in graph.nodes for out in node.outputs),
            *graph.outputs,
        )
        places = {}
        for name in names:
            tensor = graph.tensors[name]
            buffer = self._buffer_of(tensor)
            places[name] = TensorPlace(
                buffer.name, 0, tensor.nbytes, self._written.get(buffer.name, -1)
            )
        return places

    def _buffer_of(self, tensor: Tensor) -> Buffer:
        root = self._graph.tensors[self._roots[tensor.name]]
        if root.name not in self._buffers:
            kind = BufferKind.STATE if root.name in self._graph.states else BufferKind.ACTIVATION
            outputs = {self._roots[name] for name in self._graph.outputs}
            if root.name in self._graph.states:
                pass
            elif root.name in self._graph.inputs:
                kind = BufferKind.INPUT
            elif root.name in outputs:
                kind = BufferKind.OUTPUT
            layout = "NHWC" if len(root.shape) == 4 else ""
            self._buffers[root.name] = Buffer(
                root.name,
                kind,
                root.nbytes,
                self._alignment,
                root.dtype,
                root.shape,
                layout,
                held=self._held.get(kind, False),
            )
        return self._buffers[root.name]

    def _operands(self, call: KernelCall, node: str, op: str) -> Iterable[StepOperand]:
        for arg in call.args:
            if isinstance(arg, ConstArg):
                name = self._constant(f"{node}/{arg.role}", arg.role, arg.data, op)
                yield StepOperand(name, arg.view, False)
            elif isinstance(arg, ScratchArg):
                yield StepOperand(self._scratch(node, arg.nbytes), arg.view, True)
            else:
                buffer = self._buffer_of(self._graph.tensors[arg.name])
                yield StepOperand(buffer.name, arg.view, arg.writes)

    def _scratch(self, node: str, nbytes: int) -> str:
        name = f"{node}/scratch"
        while name in self._buffers:
            name += "'"
        self._buffers[name] = Buffer(name, BufferKind.SCRATCH, nbytes, self._alignment)
        return name

    def _constant(self, name: str, role: str, data: Array, op: str) -> str:
        """A constant buffer; equal constants are stored once."""
        key = (data.tobytes(), data.dtype.str)
        if key not in self._constants:
            while name in self._buffers:
                name += "'"
            layout = _LAYOUTS.get(op, "") if role == "weights" else ""
            known = data.dtype.name in set(DType)
            self._buffers[name] = Buffer(
                name,
                BufferKind.CONSTANT,
                data.nbytes,
                self._constant_alignment,
                DType(data.dtype.name) if known else None,
                data.shape,
                layout,
                data=data,
                role=role,
            )
            self._constants[key] = name
        return self._constants[key]

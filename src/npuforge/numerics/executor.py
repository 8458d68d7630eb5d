"""The Graph executor: a network run on the host, every tensor of it observable.

Arithmetic is that of the runtime's kernels. Tensors are given memory by a first-fit over their
lifetimes; with capture each keeps its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge import _native
from npuforge.errors import UsageError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Tensor, is_view
from npuforge.numerics.binding import bind
from npuforge.numerics.call import Arg, ConstArg, KernelCall, ScratchArg, TensorArg
from npuforge.numerics.program import (
    CONST_SPACE,
    ConstantPool,
    PlacedOperand,
    PlacedStep,
    build_program,
)
from npuforge.vocab import DType

ALIGN = 64
"""Alignment of tensors in host memory, in bytes."""


@dataclass(frozen=True, eq=False)
class BoundNode:
    """A node with its kernel calls."""

    index: int
    calls: tuple[KernelCall, ...]


def storage_roots(graph: Graph) -> dict[str, str]:
    """Each tensor -> the tensor whose bytes it shares (itself, unless a view of another)."""
    roots = {name: name for name in graph.tensors}
    for node in graph.nodes:
        if is_view(node):
            roots[node.outputs[0]] = roots[graph.tensor(node.inputs[0]).name]
    return roots


class Executor:
    """A graph made ready to run.

    Args:
        graph: verified.
        capture: whether every tensor must be readable after a run.
        variant: kernel variant, see `kernel_variant`.
        threads: threads that share large steps, see `kernel_threads`.

    Raises:
        UnsupportedError: a node has no kernel.
        UsageError: this machine has no such variant, or the number of threads is none.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        capture: bool = False,
        variant: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.graph = graph
        self._roots = storage_roots(graph)
        self._bound = [
            BoundNode(i, tuple(bind(graph, node)))
            for i, node in enumerate(graph.nodes)
            if not is_view(node)
        ]
        self._offsets, self.arena_bytes = self._place(keep_all=capture)
        self._captured = capture
        self._program, self._steps = self._build(variant, threads)
        self._arena = self._program.space(1)
        self.reset()

    def _place(self, keep_all: bool) -> tuple[dict[str, int], int]:
        roots, graph = self._roots, self.graph
        end = len(graph.nodes)
        kept = [roots[name] for name in graph.outputs if not graph.tensors[name].is_constant]
        last = dict.fromkeys([*kept, *graph.states], end)
        first = dict.fromkeys([*(roots[name] for name in graph.inputs), *graph.states], -1)
        scratch: dict[int, int] = {}
        for bound in self._bound:
            for arg in (arg for call in bound.calls for arg in call.args):
                if isinstance(arg, ScratchArg):
                    scratch[bound.index] = max(scratch.get(bound.index, 0), arg.nbytes)
                if isinstance(arg, TensorArg):
                    root = roots[arg.name]
                    first.setdefault(root, bound.index)
                    last[root] = max(last.get(root, -1), bound.index)
        spans = []
        for root, start in first.items():
            end = len(graph.nodes) if keep_all else last.get(root, start)
            spans.append((start, end, graph.tensors[root].nbytes, root))
        spans += [(i, i, nbytes, _scratch_name(i)) for i, nbytes in scratch.items()]
        return first_fit(spans)

    def _build(
        self, variant: str | None, threads: int | None
    ) -> tuple[_native.Program, list[PlacedStep]]:
        pool = ConstantPool()
        steps = []
        for bound in self._bound:
            for call in bound.calls:
                operands = tuple(self._operand(arg, pool, bound.index) for arg in call.args)
                steps.append(PlacedStep(call.kernel, bound.index, operands, call.params))
        program = build_program(steps, pool.image(), [self.arena_bytes], variant, threads)
        return program, steps

    def _operand(self, arg: Arg, pool: ConstantPool, node: int) -> PlacedOperand:
        if isinstance(arg, ConstArg):
            return PlacedOperand(CONST_SPACE, pool.add(arg.data) + arg.view.offset, arg.view)
        if isinstance(arg, ScratchArg):
            return PlacedOperand(1, self._offsets[_scratch_name(node)], arg.view)
        offset = self._offsets[self._roots[arg.name]] + arg.view.offset
        return PlacedOperand(1, offset, arg.view)

    @property
    def kernel_variants(self) -> dict[str, int]:
        """How many kernel calls each variant runs, by name."""
        return dict(Counter(self._program.variants))

    @property
    def shared_steps(self) -> int:
        """How many kernel calls the threads share."""
        return self._program.divided

    def reset(self) -> None:
        """Give the state variables the values they have before the first inference."""
        for name, initial in self.graph.states.items():
            self._view(self.graph.tensors[name])[...] = initial

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once.

        Args:
            inputs: one array an input, of the tensor's shape and type.

        Returns:
            The outputs by name.

        Raises:
            UsageError: an input is missing or has another shape or type.
        """
        for name in self.graph.inputs:
            self._write(self.graph.tensors[name], inputs.get(name))
        self._program.run(0, len(self._steps))
        return self.read(self.graph.outputs)

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Copies of tensors as the last run left them.

        Raises:
            ValueError: a tensor's memory was used again, because capture is off.
        """
        kept = set(self.graph.outputs)
        result = {}
        for name in names:
            tensor = self.graph.tensors[name]
            constant = self.graph.tensors[self._roots[name]].data
            if constant is not None:
                result[name] = constant.reshape(tensor.shape).copy()
                continue
            if not self._captured and name not in kept:
                raise ValueError(f"{name} was not captured")
            result[name] = self._view(tensor).copy()
        return result

    def activations(self) -> list[str]:
        """Names of all tensors that a run computes, in execution order."""
        return [name for node in self.graph.nodes for name in node.outputs]

    def _view(self, tensor: Tensor) -> Array:
        offset = self._offsets[self._roots[tensor.name]]
        raw = self._arena[offset : offset + tensor.nbytes]
        return raw.view(NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)

    def _write(self, tensor: Tensor, value: Array | None) -> None:
        check_input(tensor, value)
        assert value is not None
        if tensor.nbytes:
            self._view(tensor)[...] = value


def _scratch_name(node: int) -> str:
    return f"\0scratch {node}"


def check_input(tensor: Tensor, value: Array | None) -> None:
    """Refuse an array that is not what an input takes.

    Raises:
        UsageError: missing, or of another shape or element type; the message names both.
    """
    if value is None:
        raise UsageError("INP-001", tensor=tensor.name)
    if value.dtype != np.dtype(NUMPY_TYPES[tensor.dtype]):
        code = "INP-002" if value.dtype.kind != "f" or tensor.dtype.is_float else "INP-003"
        raise UsageError(code, tensor=tensor.name, want=tensor.dtype, got=value.dtype)
    if value.shape != tensor.shape:
        swapped = len(value.shape) == 4 and value.shape == tuple(
            tensor.shape[i] for i in (0, 3, 1, 2)
        )
        code = "INP-005" if swapped else "INP-004"
        raise UsageError(code, tensor=tensor.name, want=list(tensor.shape), got=list(value.shape))


def first_fit(
    spans: Iterable[tuple[int, int, int, str]], align: int = ALIGN
) -> tuple[dict[str, int], int]:
    """Offsets for (first, last, bytes, name) spans, largest first, and the bytes used.

    Names whose spans overlap in time never overlap in memory.
    """
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[str, int] = {}
    top = 0
    for start, end, nbytes, name in sorted(spans, key=lambda s: (-s[2], s[0])):
        size = -(-nbytes // align) * align
        busy = sorted((o, o + n) for s, e, o, n in placed if s <= end and start <= e)
        at = 0
        for low, high in busy:
            if at + size <= low:
                break
            at = max(at, high)
        offsets[name] = at
        placed.append((start, end, at, size))
        top = max(top, at + size)
    return offsets, top


def run_graph(
    graph: Graph, inputs: Mapping[str, Array], *, capture: bool = False
) -> dict[str, Array]:
    """Run a graph once; with `capture` the result holds every tensor, else the outputs."""
    executor = Executor(graph, capture=capture)
    outputs = executor.run(inputs)
    return executor.read(executor.activations()) if capture else outputs


def random_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Uniform random values over the whole range of each input's type; floats in [0, 1)."""
    values: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype.is_float:
            data: npt.NDArray[np.generic] = rng.random(tensor.shape, np.float32)
            values[name] = data.astype(NUMPY_TYPES[tensor.dtype])
        else:
            low, high = (0, 1) if tensor.dtype is DType.BOOL else tensor.dtype.limits
            values[name] = rng.integers(low, high + 1, tensor.shape).astype(
                NUMPY_TYPES[tensor.dtype]
            )
    return values

"""Runs a Graph as Neural-ART would: NPU nodes by the units' arithmetic, others by their rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from npuforge.errors import UnsupportedError
from npuforge.graph import (
    NUMPY_TYPES,
    Array,
    ConvAttrs,
    Graph,
    Node,
    PoolAttrs,
    ReduceAttrs,
    Tensor,
)
from npuforge.numerics.executor import Executor, check_input
from npuforge.numerics.neural_art.choices import ConvChoice, Form, Grade
from npuforge.numerics.neural_art.requant import (
    ConvConstants,
    average_constants,
    average_multiplier,
    conv_constants,
    sum_constants,
)
from npuforge.numerics.neural_art.units import (
    accumulated,
    added,
    averaged,
    requantised,
    rounded_shift,
    saturated,
)
from npuforge.numerics.ranges import activation_range
from npuforge.vocab import Activation, Contract, DType

Ints = npt.NDArray[np.int64]
CONTRACTS = (Contract.NEURAL_ART, Contract.NEURAL_ART_1_1_3)
CONV_OPS = ("conv2d", "depthwise_conv2d", "fully_connected")


@dataclass(frozen=True)
class StageCounts:
    """Values that a node's stages limited in the last run.

    Attributes:
        node: its name.
        values: outputs of the node.
        shift: 16-bit sums at their limit.
        gain: 16-bit intermediates beyond their limit.
        output: results beyond the 8-bit range of the output.
        headroom: unused bits of the 16-bit sum's largest magnitude.
    """

    node: str
    values: int
    shift: int
    gain: int
    output: int
    headroom: int


def form_of(contract: Contract) -> Form:
    """Requantisation stages of a contract's compiler version."""
    return Form.MERGED if contract is Contract.NEURAL_ART_1_1_3 else Form.TWO_STAGE


def runs_on_npu(graph: Graph, node: Node) -> bool:
    """Whether this contract defines the node; others keep the rule of the model file."""
    tensors = [t for t in (*graph.input_tensors(node), *graph.output_tensors(node)) if t]
    x, y = tensors[0], graph.tensor(node.outputs[0])
    if node.contract is Contract.EXACT or not (_int8(x) and _int8(y)):
        return False
    if node.op in CONV_OPS:
        return _is_convolution(graph, node, x)
    if node.op in ("add", "sub"):
        return len(node.inputs) == 2 and _int8(graph.tensor(node.inputs[1]))
    return _window(node, x) is not None


def _int8(tensor: Tensor) -> bool:
    quantization = tensor.quantization
    return tensor.dtype is DType.INT8 and quantization is not None and quantization.axis is None


def _is_convolution(graph: Graph, node: Node, x: Tensor) -> bool:
    w = graph.tensor(node.inputs[1])
    if w.data is None or w.dtype is not DType.INT8 or w.quantization is None:
        return False
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and graph.tensor(bias).data is None:
        return False
    grouped = isinstance(node.attrs, ConvAttrs) and node.attrs.groups != 1
    image = node.op == "fully_connected" or (len(x.shape) == 4 and x.shape[0] == 1)
    return image and not grouped and not w.quantization.zero_point.any()


def _window(node: Node, x: Tensor) -> PoolAttrs | None:
    """The pooling window of a mean or average the chip's pooling unit computes."""
    attrs = node.attrs
    if len(x.shape) != 4 or x.shape[0] != 1:
        return None
    if node.op == "mean" and isinstance(attrs, ReduceAttrs) and attrs.axes == (1, 2):
        return PoolAttrs((x.shape[1], x.shape[2]), (x.shape[1], x.shape[2]))
    if node.op == "average_pool2d" and isinstance(attrs, PoolAttrs) and not any(attrs.padding):
        return attrs
    return None


def grade(graph: Graph, node: Node) -> Grade:
    """Evidence that a node's result is the chip's."""
    if node.contract is Contract.EXACT:
        return Grade.B
    if node.contract not in CONTRACTS:
        return Grade.D
    if node.contract is Contract.NEURAL_ART_1_1_3:
        return Grade.C if node.op in ("sub", "average_pool2d") else Grade.B
    if node.op in ("conv2d", "depthwise_conv2d"):
        w, attrs = graph.tensor(node.inputs[1]), node.attrs
        assert isinstance(attrs, ConvAttrs)
        seen = attrs.stride == (1, 1) and attrs.dilation == (1, 1)
        return Grade.A if seen and w.shape[-1] == 3 else Grade.B
    if node.op == "mean":
        return Grade.A
    return Grade.B if node.op in ("add", "fully_connected") else Grade.C


def with_neural_art(graph: Graph, contract: Contract) -> Graph:
    """The same graph, every node that the contract defines put under it."""
    return graph.with_nodes(
        replace(node, contract=contract) if runs_on_npu(graph, node) else node
        for node in graph.nodes
    )


class NeuralArtExecutor:
    """A graph under a neural_art contract made ready to run; every tensor is kept.

    Args:
        graph: with nodes under the contract (`with_neural_art`).
        choices: lowering of every convolution under the contract, by node name.
        constants: of convolutions whose constants come from a program; others are computed.

    Raises:
        UnsupportedError: a node has no kernel, or the graph has state variables.
    """

    def __init__(
        self,
        graph: Graph,
        choices: Mapping[str, ConvChoice],
        constants: Mapping[str, ConvConstants] | None = None,
    ) -> None:
        if graph.states:
            name = next(iter(graph.states))
            raise UnsupportedError("NUM-018", tensor=name)
        self.graph = graph
        self.counts: dict[str, StageCounts] = {}
        self._values: dict[str, Array] = {}
        given = constants or {}
        self._steps: list[Callable[[], None]] = []
        for node in graph.nodes:
            if node.contract not in CONTRACTS:
                self._steps.append(self._cpu_step(node))
            elif node.op in CONV_OPS:
                found = given.get(node.name) or node_constants(graph, node, choices[node.name].form)
                self._steps.append(self._conv_step(node, choices[node.name], found))
            elif node.op in ("add", "sub"):
                self._steps.append(self._sum_step(node))
            else:
                self._steps.append(self._average_step(node))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once; see `Executor.run`."""
        self._values.clear()
        for name in self.graph.inputs:
            value = inputs.get(name)
            check_input(self.graph.tensors[name], value)
            assert value is not None
            self._values[name] = value
        for step in self._steps:
            step()
        return self.read(self.graph.outputs)

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Copies of tensors as the last run left them."""
        return {name: self._value(name).copy() for name in names}

    def activations(self) -> list[str]:
        """Names of all tensors that a run computes, in execution order."""
        return [name for node in self.graph.nodes for name in node.outputs]

    def _value(self, name: str | None) -> Array:
        tensor = self.graph.tensor(name)
        return self._values[tensor.name] if tensor.data is None else tensor.data

    def _cpu_step(self, node: Node) -> Callable[[], None]:
        graph = self.graph
        sources = tuple(n for n in dict.fromkeys(node.input_names) if graph.tensors[n].data is None)
        names = (*node.input_names, *node.outputs)
        tensors = {name: graph.tensors[name] for name in names}
        single = Graph(graph.name, tensors, (node,), sources, node.outputs)
        executor = Executor(single)

        def step() -> None:
            self._values.update(executor.run({name: self._value(name) for name in sources}))

        return step

    def _store(self, node: Node, values: Ints) -> int:
        """Limit to the output's range and keep; returns how many values were limited."""
        y = self.graph.tensor(node.outputs[0])
        fused = getattr(node.attrs, "activation", Activation.NONE)
        low, high = activation_range(y, fused)
        limited = np.clip(values, low, high)
        self._values[y.name] = limited.astype(NUMPY_TYPES[y.dtype]).reshape(y.shape)
        return int(np.count_nonzero(limited != values))

    def _conv_step(self, node: Node, choice: ConvChoice, c: ConvConstants) -> Callable[[], None]:
        graph, attrs = self.graph, node.attrs
        x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        y = graph.tensor(node.outputs[0])
        depthwise = node.op == "depthwise_conv2d"
        weights = w.array.astype(np.int64)
        if isinstance(attrs, ConvAttrs):
            window, out, shape = attrs, (y.shape[1], y.shape[2]), x.shape[1:]
            weights = weights[0] if depthwise else weights
        else:
            rows = x.size // w.shape[-1]
            window, out, shape = ConvAttrs(), (1, rows), (1, rows, w.shape[-1])
            weights = weights.reshape(w.shape[0], 1, 1, w.shape[-1])
        top, bottom, left, right = window.padding

        def step() -> None:
            image = self._value(x.name).astype(np.int64) - x.quant.z
            image = np.pad(image.reshape(shape), ((top, bottom), (left, right), (0, 0)))
            y1 = accumulated(
                image, weights, window.stride, window.dilation, out, depthwise, c.outshift, choice
            )
            middle, final = requantised(y1, c)
            self._count(node, y1, middle, self._store(node, final))

        return step

    def _count(self, node: Node, y1: Ints, middle: Ints, limited: int) -> None:
        shift = int(np.count_nonzero((y1 == 32767) | (y1 == -32768)))
        gain = int(np.count_nonzero((middle > 32767) | (middle < -32768)))
        room = 15 - int(np.abs(y1).max(initial=0)).bit_length()
        self.counts[node.name] = StageCounts(node.name, y1.size, shift, gain, limited, max(0, room))

    def _sum_step(self, node: Node) -> Callable[[], None]:
        graph = self.graph
        a, b = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        y = graph.tensor(node.outputs[0])
        sign = -1 if node.op == "sub" else 1
        c = sum_constants(
            *(float(a.quant.s), a.quant.z, float(b.quant.s), sign * b.quant.z),
            *(float(y.quant.s), y.quant.z),
        )

        def step() -> None:
            left = self._value(a.name).astype(np.int64)
            self._store(node, added(left, sign * self._value(b.name).astype(np.int64), c))

        return step

    def _average_step(self, node: Node) -> Callable[[], None]:
        graph = self.graph
        x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
        window = _window(node, x)
        assert window is not None
        (rows, columns), (down, across) = window.kernel, window.stride
        whole = window.kernel == x.shape[1:3]
        c = average_constants(
            rows * columns, float(x.quant.s), x.quant.z, float(y.quant.s), y.quant.z
        )
        multiplier, shift = average_multiplier(rows * columns)

        def step() -> None:
            image = self._value(x.name)[0].astype(np.int64)
            views = np.lib.stride_tricks.sliding_window_view(image, window.kernel, (0, 1))
            sums = views[::down, ::across].sum(axis=(-2, -1))
            if whole:
                self._store(node, averaged(sums, c))
            else:
                self._store(node, saturated(rounded_shift(sums * multiplier, shift), 8))

        return step


def node_constants(graph: Graph, node: Node, form: Form) -> ConvConstants:
    """Requantisation constants of a convolution or fully connected node, from the model alone."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    weights = w.array.astype(np.int64)
    if node.op == "depthwise_conv2d":
        sums = weights.reshape(-1, w.shape[-1]).sum(axis=0)
    else:
        sums = weights.reshape(w.shape[0], -1).sum(axis=1)
    bias = np.zeros(sums.size, np.int64)
    bias_scale = x.quant.s * w.quant.scale
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        stored = graph.tensor(node.inputs[2])
        bias = stored.array.astype(np.int64).reshape(-1)
        if stored.quantization is not None:
            bias_scale = stored.quantization.scale
    return conv_constants(
        in_scale=x.quant.s,
        weight_scale=w.quant.scale,
        out_scale=y.quant.s,
        out_zero=y.quant.z,
        weight_sums=sums,
        bias=bias,
        bias_scale=bias_scale,
        form=form,
    )

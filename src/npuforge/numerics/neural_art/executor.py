"""Runs a Graph as Neural-ART would: NPU nodes by the units' arithmetic, others by their rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from npuforge.errors import UnsupportedError
from npuforge.graph import Array, Graph, Node, is_view
from npuforge.numerics.executor import Executor, check_input
from npuforge.numerics.neural_art.convolution import Convolver, conv_layer, node_constants
from npuforge.numerics.neural_art.pointwise import kernel_of, limited
from npuforge.numerics.neural_art.record import Choices, StageCounts
from npuforge.numerics.neural_art.rules import CONTRACTS, CONV_OPS, output_range

Step = Callable[[], None]


class NeuralArtExecutor:
    """A graph under a neural_art contract made ready to run; every tensor is kept.

    Args:
        graph: with nodes under the contract (`with_neural_art`).
        choices: a lowering of every convolution under the contract; constants and tables where a
            program gives them.

    Raises:
        UnsupportedError: a node has no kernel, or the graph has state variables.
    """

    def __init__(self, graph: Graph, choices: Choices) -> None:
        if graph.states:
            name = next(iter(graph.states))
            raise UnsupportedError("NUM-018", tensor=name)
        self.graph = graph
        self.choices = choices
        self.counts: dict[str, StageCounts] = {}
        self._values: dict[str, Array] = {}
        self._steps: list[Step] = [self._step(node) for node in graph.nodes]

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

    def run_node(self, node: Node, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of one node from given values of the tensors it reads."""
        self._values.update(inputs)
        self._steps[self.graph.nodes.index(node)]()
        return self.read(node.outputs)

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Copies of tensors as the last run left them."""
        return {name: self._value(name).copy() for name in names}

    def activations(self) -> list[str]:
        """Names of all tensors that a run computes, in execution order."""
        return [name for node in self.graph.nodes for name in node.outputs]

    def _value(self, name: str | None) -> Array:
        tensor = self.graph.tensor(name)
        return self._values[tensor.name] if tensor.data is None else tensor.data

    def _step(self, node: Node) -> Step:
        if node.contract not in CONTRACTS:
            return self._view_step(node) if is_view(node) else self._cpu_step(node)
        return self._conv_step(node) if node.op in CONV_OPS else self._unit_step(node)

    def _view_step(self, node: Node) -> Step:
        y = self.graph.tensor(node.outputs[0])

        def step() -> None:
            self._values[y.name] = self._value(node.inputs[0]).reshape(y.shape)

        return step

    def _cpu_step(self, node: Node) -> Step:
        graph = self.graph
        sources = tuple(n for n in dict.fromkeys(node.input_names) if graph.tensors[n].data is None)
        names = (*node.input_names, *node.outputs)
        tensors = {name: graph.tensors[name] for name in names}
        executor = Executor(Graph(graph.name, tensors, (node,), sources, node.outputs))

        def step() -> None:
            self._values.update(executor.run({name: self._value(name) for name in sources}))

        return step

    def _conv_step(self, node: Node) -> Step:
        graph, choice = self.graph, self.choices.convolutions[node.name]
        x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
        constants = self.choices.constants.get(node.name)
        if constants is None:
            constants = node_constants(graph, node, choice.form)
        layer = conv_layer(graph, node)
        convolver = Convolver(layer, choice, constants, output_range(graph, node))

        def step() -> None:
            value, (shift, gain, output, largest) = convolver.run(self._value(x.name))
            self._values[y.name] = value.reshape(y.shape)
            room = max(0, 15 - largest.bit_length())
            self.counts[node.name] = StageCounts(node.name, y.size, shift, gain, output, room)

        return step

    def _unit_step(self, node: Node) -> Step:
        kernel = kernel_of(self.graph, node, self.choices)
        name, size = node.outputs[0], self.graph.tensor(node.outputs[0]).size

        def step() -> None:
            result = kernel([self._value(source) for source in node.inputs])
            self._values[name], over = limited(self.graph, node, result)
            self.counts[node.name] = StageCounts(node.name, size, 0, 0, over, 0)

        return step

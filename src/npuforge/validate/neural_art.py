"""The model against the chip: how far each tensor moves, and which stage moves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuforge.graph import Array, Graph, Node
from npuforge.numerics import Executor
from npuforge.numerics.neural_art import (
    CONTRACTS,
    CONV_OPS,
    Choices,
    NeuralArtExecutor,
    grade,
    node_constants,
    unit_of,
)
from npuforge.numerics.neural_art.explain import Stage, explain_convolution
from npuforge.validate.compare import dequantized
from npuforge.validate.metrics import all_metrics
from npuforge.validate.session import OutputMetrics


@dataclass(frozen=True)
class Deviation:
    """One node over all samples, fed with the reference's own inputs.

    Attributes:
        tensor: the node's output.
        node: its name.
        op: its operator.
        unit: what computes it on the chip.
        grade: evidence, A to D.
        values: numbers compared.
        differing: numbers that differ.
        largest: largest difference in output steps.
        stages: differing numbers by the stage that moved them.
        saturated: values that met a 16-bit limit, differing or not.
        headroom: unused bits of the largest 16-bit sum; None where there is no such sum.
    """

    tensor: str
    node: str
    op: str
    unit: str
    grade: str
    values: int
    differing: int
    largest: int
    stages: Mapping[str, int]
    saturated: int
    headroom: int | None

    @property
    def unexplained(self) -> bool:
        """More than one step off although nothing saturated."""
        return self.largest > 1 and not self.saturated


@dataclass(frozen=True)
class ChipValidation:
    """All nodes that the contract defines, and the outputs end to end.

    Attributes:
        contract: the chip's arithmetic.
        samples: inputs that were run.
        deviations: in execution order.
        outputs: metrics of each network output, chip against reference, nothing injected.
    """

    contract: str
    samples: int
    deviations: tuple[Deviation, ...]
    outputs: tuple[OutputMetrics, ...]

    @property
    def failed(self) -> bool:
        """Whether a node moves further than its arithmetic explains."""
        return any(entry.unexplained for entry in self.deviations)


class _Tally:
    """Sums over samples of one node."""

    def __init__(self) -> None:
        self.values = self.differing = self.largest = self.saturated = 0
        self.stages: dict[str, int] = {}
        self.headroom: int | None = None


def validate_against_chip(
    reference: Graph, chip: Graph, choices: Choices, samples: Sequence[Mapping[str, Array]]
) -> ChipValidation:
    """Run the model under its own contract, and each node on the chip from the same inputs.

    Args:
        reference: the model under its own contract.
        chip: the same model under a neural_art contract.
        choices: lowering of the chip's nodes.
        samples: network inputs.

    Raises:
        UnsupportedError: a node has no kernel, or the model has state.
    """
    truth = Executor(reference, capture=True)
    executor = NeuralArtExecutor(chip, choices)
    nodes = [n for n in chip.nodes if n.contract in CONTRACTS]
    tallies = {n.name: _Tally() for n in nodes}
    pairs: list[tuple[Mapping[str, Array], Mapping[str, Array]]] = []
    for sample in samples:
        outputs = truth.run(sample)
        tensors = {**truth.read(truth.activations()), **sample}
        pairs.append((outputs, executor.run(sample)))
        for node in nodes:
            _add(tallies[node.name], chip, choices, executor, node, tensors)
    metrics = []
    for name in chip.outputs if pairs else ():
        tensor = chip.tensors[name]
        both = [np.stack([dequantized(tensor, p[i][name]) for p in pairs]) for i in (0, 1)]
        metrics.append(OutputMetrics(name, all_metrics(*both)))
    contract = str(nodes[0].contract) if nodes else ""
    found = tuple(_deviation(chip, node, tallies[node.name]) for node in nodes)
    return ChipValidation(contract, len(pairs), found, tuple(metrics))


def _add(
    tally: _Tally,
    chip: Graph,
    choices: Choices,
    executor: NeuralArtExecutor,
    node: Node,
    tensors: Mapping[str, Array],
) -> None:
    inputs = {n: tensors[n] for n in node.input_names if chip.tensors[n].data is None}
    wanted = tensors[node.outputs[0]]
    found = executor.run_node(node, inputs)[node.outputs[0]]
    steps = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
    differing = int(np.count_nonzero(steps))
    tally.values += steps.size
    tally.differing += differing
    tally.largest = max(tally.largest, int(steps.max(initial=0)))
    if node.op not in CONV_OPS:
        unit = str(Stage.UNIT)
        tally.stages[unit] = tally.stages.get(unit, 0) + differing
        return
    counts = executor.counts[node.name]
    rooms = [room for room in (tally.headroom, counts.headroom) if room is not None]
    tally.headroom = min(rooms)
    tally.saturated += counts.shift + counts.gain
    if not differing:
        return
    choice = choices.convolutions[node.name]
    constants = choices.constants.get(node.name) or node_constants(chip, node, choice.form)
    x = inputs[node.inputs[0] or ""]
    stages = explain_convolution(chip, node, choice, constants, x, wanted)
    for stage, count in stages.items():
        tally.stages[str(stage)] = tally.stages.get(str(stage), 0) + count


def _deviation(chip: Graph, node: Node, tally: _Tally) -> Deviation:
    return Deviation(
        node.outputs[0],
        node.name,
        node.op,
        str(unit_of(chip, node)),
        str(grade(chip, node)),
        tally.values,
        tally.differing,
        tally.largest,
        {name: count for name, count in tally.stages.items() if count},
        tally.saturated,
        tally.headroom,
    )

"""Numbers of layers changed after the ranges are known: rounding, and biases that keep means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from npuforge.graph import Array, Graph
from npuforge.quantize.build import Double, Quantized, Tuning, layer_weights, quantize_graph
from npuforge.quantize.ranges import Range
from npuforge.quantize.rounding import bias_correction, rounded
from npuforge.quantize.scheme import Scheme
from npuforge.quantize.statistics import Statistics


@dataclass(frozen=True)
class Remedies:
    """What is done beyond choosing ranges.

    Attributes:
        equalise: balance channels across layers first.
        round: round weights for the least error of the output.
        correct: change biases so that means stay.
    """

    equalise: bool = False
    round: bool = False
    correct: bool = False

    @property
    def needs_statistics(self) -> bool:
        """Whether a second look at the data is needed."""
        return self.equalise or self.round or self.correct

    @property
    def options(self) -> tuple[str, ...]:
        """What one asks for them by on the command line, without dashes."""
        named = (("equalise", self.equalise), ("round", self.round))
        bias = "correct-bias" if self.correct else "no-correct-bias"
        return (*(name for name, used in named if used), bias)


USUAL = Remedies(correct=True)
"""What is done where nothing else is asked: it costs nothing on the target."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to quantise.

    Attributes:
        scheme: ranges, precisions, zero points.
        remedies: what is done beside.
    """

    scheme: Scheme
    remedies: Remedies = field(default_factory=Remedies)


def tuned(
    graph: Graph,
    ranges: Mapping[str, Range],
    scheme: Scheme,
    statistics: Statistics,
    remedies: Remedies,
) -> tuple[Quantized, Tuning]:
    """Build, then change the numbers of every layer as asked, and build again.

    Args:
        graph: prepared float graph, equalised already where that is asked.
        ranges: of its activations.
        scheme: widths, granularity, zero points.
        statistics: of its layers' inputs.
        remedies: what to do.
    """
    plain = quantize_graph(graph, ranges, scheme)
    if not (remedies.round or remedies.correct):
        return plain, Tuning()
    stored: dict[str, Array] = {}
    bias: dict[str, Double] = {}
    for node in graph.nodes:
        known = layer_weights(plain, node.name) if node.name in statistics else None
        if known is None:
            continue
        data, scales, bits = known
        if remedies.round:
            data = rounded(graph, node, statistics[node.name], scales, bits)
            stored[node.name] = data
        if remedies.correct:
            bias[node.name] = bias_correction(graph, node, statistics[node.name], data, scales)
    tuning = Tuning(bias=bias, stored=stored)
    return quantize_graph(graph, ranges, scheme, tuning), tuning

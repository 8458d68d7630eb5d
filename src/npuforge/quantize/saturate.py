"""How much of a tensor its readers tell apart: what lies beyond changes nothing they give.

A sigmoid of 9 and of 90 is the same 8-bit number, so a range need not hold 90.
"""

from __future__ import annotations

from collections.abc import Mapping

from npuforge.graph import Graph
from npuforge.quantize.ranges import Range

_INF = float("inf")
_TOLD_APART: Mapping[str, tuple[float, float]] = {
    "logistic": (-8.0, 8.0),
    "tanh": (-4.0, 4.0),
    "relu": (0.0, _INF),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
    "hard_swish": (-3.0, _INF),
    "elu": (-7.0, _INF),
}
"""Inputs outside of which an operator's output moves by less than half of an 8-bit step:
1 - sigmoid(8) = 3.4e-4 of a step of 1/256, 1 - tanh(4) = 6.7e-4 of 1/128, exp(-7) = 9.1e-4 of at
least 1/255 (an elu that reaches -7 reaches -0.999); the others are flat."""


def told_apart(graph: Graph, tensor: str) -> Range | None:
    """The part of a tensor's values that matters to its readers; None: all of it."""
    readers = graph.consumers.get(tensor, ())
    if not readers or tensor in graph.outputs:
        return None
    low = high = 0.0
    for node in readers:
        if node.op not in _TOLD_APART:
            return None
        a, b = _TOLD_APART[node.op]
        low, high = min(low, a), max(high, b)
    return Range(low, high)


def cut(graph: Graph, tensor: str, span: Range) -> Range:
    """A range without what no reader tells apart."""
    useful = told_apart(graph, tensor)
    if useful is None:
        return span
    return Range(max(span.low, useful.low), min(span.high, useful.high))

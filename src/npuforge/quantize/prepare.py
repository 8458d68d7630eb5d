"""A float network made ready: batch normalisation, padding and activations in their layers."""

from __future__ import annotations

from npuforge.errors import UnsupportedError
from npuforge.graph import Graph, Names, verify
from npuforge.passes import PASSES, apply_edits

_FOLDS = (
    *("fold-constants", "drop-identity", "merge-transposes", "free-transposes", "hoist-activation"),
    *("fold-pad", "fold-affine", "fuse-activation", "merge-reshapes", "merge-equal"),
    "drop-dead-code",
)
"""Rewrites that change a float network by no more than the rounding of single precision."""
_MOST_ROUNDS = 64


def prepared(graph: Graph) -> Graph:
    """The network with everything folded that a quantised layer computes at once.

    Args:
        graph: a float network.

    Raises:
        UnsupportedError: it is quantised already, or keeps state between inferences.
    """
    for tensor in graph.tensors.values():
        if tensor.quantization is not None and not tensor.dtype.is_float:
            raise UnsupportedError("QNT-001", model=graph.name, tensor=tensor.name)
    if graph.states:
        raise UnsupportedError("QNT-002", model=graph.name, state=next(iter(graph.states)))
    folds = [item for item in PASSES if item.code in _FOLDS]
    for _ in range(_MOST_ROUNDS):
        found = False
        for item in folds:
            edits = item.edits(graph, Names({*graph.tensors, *(n.name for n in graph.nodes)}))
            if edits:
                graph, found = apply_edits(graph, edits), True
        if not found:
            break
    verify(graph)
    return graph

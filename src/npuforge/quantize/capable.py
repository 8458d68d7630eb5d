"""Which operators compute on integers, and which tensors must share a scale then.

Facts of TensorFlow Lite's 8-bit and 16x8 operator specifications (tensorflow.org/lite, "8-bit
quantization specification") and of LiteRT's kernels, checked by the operator matrix in
tests/conformance.
"""

from __future__ import annotations

from collections.abc import Iterator

from npuforge.graph import Graph, Node
from npuforge.quantize.scheme import Precision

WEIGHTED = frozenset({"conv2d", "depthwise_conv2d", "fully_connected", "transpose_conv2d"})
"""Operators with constant weights and bias."""

_MOVES = frozenset(
    {
        *("reshape", "transpose", "slice", "split", "gather", "tile", "broadcast_to", "pad"),
        *("max_pool2d", "average_pool2d", "resize", "reduce_max", "reduce_min"),
    }
)
_JOINS = frozenset({"concat", "minimum", "maximum"})
FOLLOWS = _MOVES | {"concat"}
"""Operators that compute in whatever type their first input has."""

_INT8 = (
    WEIGHTED
    | _MOVES
    | _JOINS
    | {
        *("add", "sub", "mul", "squared_difference", "matmul", "mean", "sum", "softmax"),
        *("logistic", "tanh", "hard_swish", "relu", "relu6", "relu_n1_to_1", "leaky_relu", "elu"),
        *("prelu", "abs", "rsqrt", "exp", "gelu", "l2_normalization", "arg_max", "arg_min"),
    }
)
_INT16 = (WEIGHTED | _MOVES | _JOINS | {
    *("add", "sub", "mul", "matmul", "mean", "sum", "softmax", "logistic", "tanh", "relu"),
    *("relu6", "leaky_relu", "abs", "exp", "hard_swish"),
}) - {"gather"}  # fmt: skip


def computes(node: Node, precision: Precision) -> bool:
    """Whether an operator exists in a precision, in files and in our kernels' families."""
    if precision is Precision.FLOAT:
        return True
    return node.op in (_INT8 if precision is Precision.INT8 else _INT16)


def data_inputs(graph: Graph, node: Node) -> tuple[str, ...]:
    """The float inputs that are activations or constant operands, not weights, bias or indices."""
    names = node.inputs[:1] if node.op in WEIGHTED else node.inputs
    return tuple(name for name in names if name is not None and graph.tensors[name].dtype.is_float)


def tied(graph: Graph, node: Node) -> Iterator[tuple[str, str]]:
    """Pairs (input, output) that share one scale when the node computes on integers."""
    if node.op in _MOVES:
        for name in node.outputs:
            yield str(node.inputs[0]), name
    elif node.op in _JOINS:
        for name in data_inputs(graph, node):
            yield name, node.outputs[0]


def is_join(node: Node) -> bool:
    """Whether several inputs share a scale with the output."""
    return node.op in _JOINS

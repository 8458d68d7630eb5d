"""Forms of nodes that compile cleanly and are reported to hang on STM32N6 silicon.

Third-party board reports with compiler 1.1.3 (ST Edge AI 3.x and 4.0): a strided one-dimensional
depthwise convolution never finishes, nor does an activation unit that feeds a convolution unit,
which the compiler makes of an activation between a reshape and a depthwise convolution.
"""

from __future__ import annotations

from npuforge.graph import ConvAttrs, Graph, Node

ACTIVATION_OPS = frozenset({"relu", "relu6", "relu_n1_to_1", "leaky_relu", "hard_swish"})
"""Activations that the NPU's activation unit computes."""


def is_strided_line(graph: Graph, node: Node) -> bool:
    """Whether a node is a strided depthwise convolution along one axis."""
    if node.op != "depthwise_conv2d" or not isinstance(node.attrs, ConvAttrs):
        return False
    kernel = graph.tensor(node.inputs[1]).shape[1:3]
    image = graph.tensor(node.inputs[0]).shape[1:3]
    return max(node.attrs.stride) > 1 and (1 in kernel or 1 in image) and max(kernel) > 1


def is_activation_link(graph: Graph, node: Node) -> bool:
    """Whether a node is an activation behind a reshape and before a depthwise convolution."""
    if node.op not in ACTIVATION_OPS:
        return False
    before = graph.producers.get(node.inputs[0] or "")
    after = graph.consumers.get(node.outputs[0], ())
    if before is None or before.op != "reshape":
        return False
    return any(reader.op == "depthwise_conv2d" for reader in after)


def count_hazards(graph: Graph) -> int:
    """Number of nodes of a form that is known to hang."""
    return sum(is_strided_line(graph, n) or is_activation_link(graph, n) for n in graph.nodes)

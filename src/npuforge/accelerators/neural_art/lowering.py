"""Default lowering choices of Neural-ART's compiler, as seen in public compiled networks."""

from __future__ import annotations

from npuforge.graph import ConvAttrs, Graph, Node
from npuforge.numerics.neural_art import CONTRACTS, CONV_OPS, Choices, ConvChoice, form_of

MAX_CHAIN = 4
"""Convolution accelerators that can add into one sum."""
BATCH = 128
"""Input channels of one pass through one accelerator, 8-bit operands."""
BATCH_WIDE = 24
"""The same where the zero point makes operands 9 bits wide."""
SPLIT_ROWS = 3
SPLIT_COLUMNS = 6


def default_choices(graph: Graph) -> Choices:
    """What the compiler would decide for every node under a neural_art contract."""
    return Choices(
        {
            node.name: conv_choice(graph, node)
            for node in graph.nodes
            if node.contract in CONTRACTS and node.op in CONV_OPS
        }
    )


def conv_choice(graph: Graph, node: Node) -> ConvChoice:
    """Passes, chain and kernel split of one convolution."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    form = form_of(node.contract)
    channels = w.shape[-1]
    if node.op == "fully_connected":
        return ConvChoice(form, -(-channels // BATCH), 1, (1,), (1,))
    height, width = w.shape[1:3]
    # a transposed convolution runs with stride 1 over its spread input
    strided = isinstance(node.attrs, ConvAttrs) and node.attrs.stride != (1, 1)
    rows = split(height, SPLIT_ROWS)
    columns = (width,) if strided else split(width, SPLIT_COLUMNS)
    if node.op == "depthwise_conv2d":
        return ConvChoice(form, 1, 1, rows, columns)
    wide = x.quant.z not in (-128, 0)
    passes, chain = slices(channels, BATCH_WIDE if wide else BATCH)
    return ConvChoice(form, passes, chain, rows, columns)


def split(size: int, limit: int) -> tuple[int, ...]:
    """Parts of at most `limit`, full parts first.

    >>> split(7, 3), split(5, 3), split(7, 6)
    ((3, 3, 1), (3, 2), (6, 1))
    """
    return tuple(min(limit, size - at) for at in range(0, size, limit))


def slices(channels: int, batch: int) -> tuple[int, int]:
    """(passes, chain): fewest passes, then the shortest chain, of equal slices up to `batch`.

    >>> [slices(n, 128) for n in (96, 384, 576, 960, 1280)]
    [(1, 1), (1, 3), (2, 3), (2, 4), (4, 4)]
    """
    for passes in range(1, channels + 1):
        for chain in range(1, MAX_CHAIN + 1):
            count = passes * chain
            if channels % count == 0 and channels // count <= batch:
                return passes, chain
    raise AssertionError("one channel a slice always fits")

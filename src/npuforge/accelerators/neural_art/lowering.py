"""Default lowering choices of Neural-ART's compiler, as seen in public compiled networks."""

from __future__ import annotations

from npuforge.accelerators.neural_art.placement import CONV_COLUMNS, CONV_ROWS, split
from npuforge.graph import ConvAttrs, Graph, Node
from npuforge.numerics.neural_art import CONTRACTS, CONV_OPS, Choices, ConvChoice, form_of

MAX_CHAIN = 4
"""Convolution accelerators that can add into one sum."""
BATCH = 128
"""Input channels of one pass through one accelerator, 8-bit operands."""
BATCH_WIDE = 24
"""The same where the zero point makes operands 9 bits wide."""
FEW_PIXELS = (16, 64)
"""Maps below these sizes get chains of one and of two; so are the passes of 222 of 225 convolutions
in four compiled networks."""


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
    batch = BATCH if x.quant.z in (-128, 0) else BATCH_WIDE
    if node.op == "fully_connected":
        return ConvChoice(form, *few_slices(w.shape[-1], batch, 1), (1,), (1,))
    height, width = w.shape[1:3]
    # a transposed convolution runs with stride 1 over its spread input
    strided = isinstance(node.attrs, ConvAttrs) and node.attrs.stride != (1, 1)
    rows = split(height, CONV_ROWS)
    columns = (width,) if strided else split(width, CONV_COLUMNS[1])
    if node.op == "depthwise_conv2d":
        return ConvChoice(form, 1, 1, rows, columns)
    limit = longest_chain(x.shape[1] * x.shape[2])
    passes, chain = few_slices(w.shape[-1], batch, limit)
    return ConvChoice(form, passes, chain, rows, columns)


def longest_chain(pixels: int) -> int:
    """Longest chain the compiler builds over a map of so many pixels.

    >>> [longest_chain(n) for n in (1, 9, 36, 144)]
    [1, 1, 2, 4]
    """
    return 1 if pixels < FEW_PIXELS[0] else 2 if pixels < FEW_PIXELS[1] else MAX_CHAIN


def slices(channels: int, batch: int, chain_limit: int = MAX_CHAIN) -> tuple[int, int]:
    """(passes, chain): fewest passes, then the shortest chain, of equal slices up to `batch`.

    >>> [slices(n, 128) for n in (96, 384, 576, 960, 1280)]
    [(1, 1), (1, 3), (2, 3), (2, 4), (4, 4)]
    >>> slices(960, 128, 2), slices(256, 128, 1)
    ((4, 2), (2, 1))
    """
    for passes in range(1, channels + 1):
        for chain in range(1, chain_limit + 1):
            count = passes * chain
            if channels % count == 0 and channels // count <= batch:
                return passes, chain
    raise AssertionError("one channel a slice always fits")


def few_slices(channels: int, batch: int, chain_limit: int) -> tuple[int, int]:
    """`slices`; where only very small ones are equal, as few as fit, the last one shorter.

    >>> few_slices(960, 128, 2), few_slices(131, 128, 1), few_slices(262, 128, 4)
    ((4, 2), (2, 1), (1, 3))
    """
    passes, chain = slices(channels, batch, chain_limit)
    fewest = -(-channels // batch)
    if passes * chain <= 2 * fewest:
        return passes, chain
    chain = min(chain_limit, fewest)
    return -(-fewest // chain), chain

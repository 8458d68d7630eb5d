"""Buffers of a network as ST's compiler lowers it: values that one epoch leaves to a later one.

Inside of an epoch values go from unit to unit and take no memory. What crosses is a tensor of the
network, or a part of a node: the input moved to another zero point, a copy in another layout, a sum
of 16 bit whose scale is applied later. Which ones exist follows from the predicted epochs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from npuforge.accelerators.neural_art.epochs import Epoch
from npuforge.accelerators.neural_art.operations import Operation, Part
from npuforge.graph import Graph
from npuforge.graph import attrs as at


class Holds(StrEnum):
    """What such a buffer holds."""

    TENSOR = "tensor"
    """A tensor of the network, at most moved to another zero point."""
    COPY = "copy"
    """The same numbers in another layout, padded, cropped or in one piece."""
    PARTIAL = "partial"
    """A result before its scale and offset, 16 bit an element."""


PARTIALS = (Part.CONV, Part.SCALE, Part.SUM)
COPIES = (Part.COPY, Part.PAD, Part.CROP, Part.HELPER)
PARTIAL_BYTES = 2
"""Bytes of an element between the units: results are shifted to 16 bit (docs: neural-art.md)."""


@dataclass(frozen=True)
class EpochBuffer:
    """A buffer between epochs.

    Attributes:
        value: name of the value: a tensor, or a tensor and a part.
        nbytes: bytes.
        first: epoch that writes it; 0 for inputs of the network.
        last: last epoch that reads it; the number of epochs for outputs of the network.
        holds: what it is.
    """

    value: str
    nbytes: int
    first: int
    last: int
    holds: Holds


def epoch_buffers(
    graph: Graph, epochs: Sequence[Epoch], *, integer_io: bool = False
) -> tuple[EpochBuffer, ...]:
    """The buffers between epochs, by first epoch.

    Args:
        graph: the network.
        epochs: as `epochs.epochs` predicts them.
        integer_io: float inputs and outputs of the network are compiled as 8-bit ones.
    """
    made: dict[str, tuple[int, Operation]] = {}
    last: dict[str, int] = {}
    for number, epoch in enumerate(epochs):
        for op in epoch.operations:
            # of a value that several operations write in turn, the first one begins its life
            made.setdefault(op.writes, (number, op))
            for name in op.reads:
                last[name] = number
    sizes = _Sizes(graph, made)
    found = []
    for name in dict.fromkeys((*graph.inputs, *made)):
        first, maker = made.get(name, (0, None))
        end = len(epochs) if name in graph.outputs else last.get(name, -1)
        if end < 0 or (maker is not None and end <= first):
            continue
        holds = Holds.TENSOR
        if maker is not None and maker.part in COPIES:
            holds = Holds.COPY
        elif maker is not None and name not in graph.tensors and maker.part in PARTIALS:
            holds = Holds.PARTIAL
        nbytes = sizes.nbytes(name)
        if integer_io and name in (*graph.inputs, *graph.outputs):
            nbytes = math.prod(graph.tensor(name).shape)
        found.append(EpochBuffer(name, nbytes, first, end, holds))
    return tuple(sorted(found, key=lambda buffer: buffer.first))


class _Sizes:
    """Elements of a value and bytes of one, followed back to tensors."""

    def __init__(self, graph: Graph, made: Mapping[str, tuple[int, Operation]]) -> None:
        self.graph, self.made = graph, made
        self.nodes = {node.name: node for node in graph.nodes}

    def nbytes(self, name: str) -> int:
        """Bytes of a value."""
        if name in self.graph.tensors:
            return self.graph.tensor(name).nbytes
        elements, width = self._value(name)
        return elements * width

    def _value(self, name: str) -> tuple[int, int]:
        if name in self.graph.tensors:
            tensor = self.graph.tensor(name)
            elements = math.prod(tensor.shape)
            return elements, -(-tensor.nbytes // max(elements, 1))
        op = self.made[name][1]
        node = self.nodes[op.node]
        out = self.graph.output_tensors(node)[0]
        sources = [self._value(read) for read in op.reads]
        elements, width = sum(n for n, _ in sources), sources[0][1]
        dilation = node.attrs.dilation if isinstance(node.attrs, at.ConvAttrs) else (1, 1)
        spread = max(dilation) > 1
        if node.op == "resize" or op.part is Part.CROP:
            elements = math.prod(out.shape)  # nearest: spread over groups of channels first
        elif op.part is Part.PAD and spread:
            batch, height, depth, channels = self.graph.tensor(node.inputs[0]).shape
            rows, columns = (-(-n // d) * d for n, d in zip((height, depth), dilation, strict=True))
            elements = batch * rows * columns * channels
        elif op.part in PARTIALS:
            elements = elements if spread else math.prod(out.shape)
            width = PARTIAL_BYTES
        return elements, width

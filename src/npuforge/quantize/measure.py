"""How far the quantised network is from the float one: every tensor, on the same samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Graph, Node
from npuforge.numerics import Executor
from npuforge.passes.framework import real_numbers
from npuforge.passes.measure import kept_argmax
from npuforge.quantize.build import Quantized
from npuforge.quantize.engines import captured, wanted_tensors
from npuforge.tasks import Dataset
from npuforge.tasks.images import store

Double = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fidelity:
    """Error of one tensor over all samples.

    Attributes:
        tensor: as the float network calls it.
        node: the node that makes it; empty for an input.
        op: its operator.
        sqnr: signal to quantisation noise, in dB; infinite without any error.
        cosine: of the angle between float and quantised values; 1 is perfect.
        largest: largest error, in units of the tensor.
        saturated: share of the float values that lie outside of what the type can hold.
    """

    tensor: str
    node: str
    op: str
    sqnr: float
    cosine: float
    largest: float
    saturated: float


class Tally:
    """Sums over samples of one tensor."""

    def __init__(self) -> None:
        self.signal = self.noise = self.result = self.product = self.largest = 0.0
        self.outside = self.values = 0

    def add(self, real: Double, found: Double, outside: int = 0) -> None:
        """Take in one sample: float values, quantised values, how many lie outside."""
        error = found - real
        self.signal += float(np.sum(real * real))
        self.noise += float(np.sum(error * error))
        self.result += float(np.sum(found * found))
        self.product += float(np.sum(real * found))
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))
        self.outside += outside
        self.values += real.size

    @property
    def sqnr(self) -> float:
        """In dB."""
        if self.noise == 0.0:
            return math.inf
        return 10.0 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def cosine(self) -> float:
        """Of the angle; 1 when both are nothing but zeros."""
        size = math.sqrt(self.signal * self.result)
        return self.product / size if size else float(self.signal == self.result)


def quantised_inputs(
    float_graph: Graph, graph: Graph, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Inputs of the float network as the quantised one takes them."""
    pairs = zip(float_graph.inputs, graph.inputs, strict=True)
    return {
        new: store(graph.tensors[new], inputs[old].astype(np.float32))
        if graph.tensors[new].quantization is not None
        else inputs[old]
        for old, new in pairs
    }


@dataclass(frozen=True, eq=False)
class Measurement:
    """A quantised network against the float one.

    Attributes:
        tensors: one a stored activation, in execution order.
        outputs: one a network output.
        samples: samples measured on.
        agreement: share of rows of the first output (last axis) whose largest value is at the same
            place, 0..1; None where the last axis has fewer than two entries.
    """

    tensors: tuple[Fidelity, ...]
    outputs: tuple[Fidelity, ...]
    samples: int
    agreement: float | None

    @property
    def sqnr(self) -> float:
        """Of the worst output, in dB."""
        return min((f.sqnr for f in self.outputs), default=math.inf)


def measure(graph: Graph, made: Quantized, data: Dataset) -> Measurement:
    """Run both networks on the data, from the same inputs, nothing injected in between.

    Args:
        graph: prepared float graph.
        made: its quantised form.
        data: samples.
    """
    tensors = made.graph.tensors
    wanted = [name for name in wanted_tensors(graph) if made.stored_as.get(name) in tensors]
    reference, executor = Executor(graph, capture=True), Executor(made.graph, capture=True)
    tallies = {name: Tally() for name in wanted}
    ends = [Tally() for _ in graph.outputs]
    same, rows = 0.0, 0
    for sample in data:
        truth = reference.run(sample.inputs)
        fed = quantised_inputs(graph, made.graph, sample.inputs)
        found = executor.run(fed)
        for name in wanted:
            tensor = tensors[made.stored_as[name]]
            real = captured(reference, sample.inputs, name).astype(np.float64)
            stored = captured(executor, fed, tensor.name)
            low, high = tensor.quant.range_of(tensor.dtype)
            half = float(tensor.quant.s) / 2
            outside = int(np.count_nonzero((real < low - half) | (real > high + half)))
            tallies[name].add(real, real_numbers(stored, tensor.quantization), outside)
        for number, pair in enumerate(zip(graph.outputs, made.graph.outputs, strict=True)):
            old, new = pair
            real_output = real_numbers(truth[old], graph.tensors[old].quantization)
            result = real_numbers(found[new], tensors[new].quantization)
            ends[number].add(real_output, result)
            if number == 0 and real_output.ndim and real_output.shape[-1] > 1:
                kept = kept_argmax(real_output, result)
                same, rows = same + float(kept.sum()), rows + kept.size
    makers = graph.producers
    return Measurement(
        tuple(_fidelity(name, tallies[name], makers) for name in wanted),
        tuple(_fidelity(n, t, makers) for n, t in zip(graph.outputs, ends, strict=True)),
        len(data),
        same / rows if rows else None,
    )


def _fidelity(name: str, tally: Tally, makers: Mapping[str, Node]) -> Fidelity:
    node = makers.get(name)
    label, op = ("", "input") if node is None else (node.name, node.op)
    share = tally.outside / tally.values if tally.values else 0.0
    return Fidelity(name, label, op, tally.sqnr, tally.cosine, tally.largest, share)

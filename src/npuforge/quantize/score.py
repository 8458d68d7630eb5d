"""How good a quantised network is on samples: one number for a search, others beside it.

The float network runs once; its samples and outputs are kept as long as they are small, so that
many candidates can be judged by the price of their own runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Graph
from npuforge.numerics import Executor
from npuforge.passes.framework import real_numbers
from npuforge.passes.measure import kept_argmax
from npuforge.quantize.measure import Tally, quantised_inputs
from npuforge.tasks import Dataset, Sample

MOST_KEPT = 256 << 20
"""Bytes of samples and outputs that are kept; what does not fit is read or computed again."""

Double = npt.NDArray[np.float64]


class Quality(StrEnum):
    """What the one number says."""

    ACCURACY = "accuracy"
    """Share of labelled samples whose class is right."""
    AGREEMENT = "agreement"
    """Share of rows whose largest value stays where the float network has it."""
    COSINE = "cosine"
    """Cosine between float and quantised outputs, the worst output counts."""


@dataclass(frozen=True)
class Score:
    """A network on the samples of a reference.

    Attributes:
        kind: what `quality` is.
        quality: 0..1 (a cosine may be below 0).
        drop: the float network's quality less this one's.
        sqnr: of the worst output, dB; infinite when nothing differs.
        cosine: of the worst output.
        agreement: see `Quality.AGREEMENT`; None where no output has classes in its last axis.
        accuracy: see `Quality.ACCURACY`; None without labels.
        samples: samples it was measured on.
    """

    kind: Quality
    quality: float
    drop: float
    sqnr: float
    cosine: float
    agreement: float | None
    accuracy: float | None
    samples: int

    @property
    def key(self) -> tuple[float, float]:
        """The better of two scores has the larger key; noise in dB decides between equals."""
        return (self.quality, min(self.sqnr, 1e3))


@dataclass
class _Sums:
    ends: list[Tally]
    kept: float = 0.0
    rows: int = 0
    right: int = 0
    labelled: int = 0


@dataclass(frozen=True, eq=False)
class Reference:
    """The float network's outputs on samples.

    Attributes:
        graph: the float network; its first output is the one with classes.
        data: the samples.
        accuracy: of the float network; None without labels.
    """

    graph: Graph
    data: Dataset
    accuracy: float | None = None
    _kept: list[tuple[Sample, dict[str, Array]]] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, graph: Graph, data: Dataset) -> Reference:
        """Run the float network over the samples."""
        executor = Executor(graph)
        kept: list[tuple[Sample, dict[str, Array]]] = []
        used = right = labelled = 0
        for sample in data:
            outputs = executor.run(sample.inputs)
            if sample.label is not None:
                labelled += 1
                right += predicted(outputs[graph.outputs[0]]) == sample.label
            used += sum(a.nbytes for a in (*sample.inputs.values(), *outputs.values()))
            if used <= MOST_KEPT:
                kept.append((Sample(sample.inputs, sample.label, sample.source), outputs))
        return cls(graph, data, right / labelled if labelled else None, kept)

    @property
    def kind(self) -> Quality:
        """What the quality of a network is, as far as the data allows."""
        if self.accuracy is not None:
            return Quality.ACCURACY
        tensor = self.graph.tensors[self.graph.outputs[0]]
        # rows of rank 3 are candidates of a detector: their largest entry is no class
        classes = len(tensor.shape) in (2, 4) and tensor.shape[-1] > 1
        return Quality.AGREEMENT if classes else Quality.COSINE

    def score(self, made: Graph) -> Score:
        """A network with the same inputs and outputs, of whatever types, on the same samples."""
        graph = self.graph
        executor = Executor(made)
        again = Executor(graph) if len(self._kept) < len(self.data) else None
        sums = _Sums([Tally() for _ in graph.outputs])
        for number in range(len(self.data)):
            if number < len(self._kept):
                sample, truth = self._kept[number]
            else:
                assert again is not None
                sample = self.data[number]
                truth = again.run(sample.inputs)
            found = executor.run(quantised_inputs(graph, made, sample.inputs))
            self._add(sums, made, sample.label, truth, found)
        return self._score(sums)

    def _add(
        self,
        sums: _Sums,
        made: Graph,
        label: int | None,
        truth: dict[str, Array],
        found: dict[str, Array],
    ) -> None:
        for number, (old, new) in enumerate(zip(self.graph.outputs, made.outputs, strict=True)):
            real = truth[old].astype(np.float64)
            result = real_numbers(found[new], made.tensors[new].quantization)
            sums.ends[number].add(real, result)
            if number:
                continue
            if real.ndim and real.shape[-1] > 1:
                same = kept_argmax(real, result)
                sums.kept, sums.rows = sums.kept + float(same.sum()), sums.rows + same.size
            if label is not None:
                sums.labelled += 1
                sums.right += predicted(result) == label

    def _score(self, sums: _Sums) -> Score:
        agreement = sums.kept / sums.rows if sums.rows else None
        accuracy = sums.right / sums.labelled if sums.labelled else None
        cosine = min((tally.cosine for tally in sums.ends), default=1.0)
        kind = self.kind
        perfect = 1.0
        if kind is Quality.ACCURACY:
            assert accuracy is not None
            assert self.accuracy is not None
            quality, perfect = accuracy, self.accuracy
        else:
            quality = agreement if kind is Quality.AGREEMENT and agreement is not None else cosine
        sqnr = min((tally.sqnr for tally in sums.ends), default=float("inf"))
        count = len(self.data)
        return Score(kind, quality, perfect - quality, sqnr, cosine, agreement, accuracy, count)


def predicted(output: Array | Double) -> int:
    """The class a first output names: the place of its largest value, or, of a single value (a
    sigmoid), whether it is above a half."""
    flat = output.reshape(-1)
    return int(flat[0] > 0.5) if flat.size == 1 else int(np.argmax(flat))

"""Comparison layer by layer: which tensor differs first, by how many steps, how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npuforge.graph import Array, Graph, Tensor

FLOAT_TOLERANCE = 1e-5
"""Relative tolerance of float tensors, of the largest magnitude in the tensor."""


@dataclass(frozen=True)
class TensorComparison:
    """One tensor over all samples.

    Attributes:
        tensor: its name.
        node: the node that makes it.
        op: that node's operator.
        contract: that node's contract.
        values: numbers compared.
        mismatches: numbers that differ (floats: beyond the tolerance).
        largest: largest difference, in steps of the stored type (floats: absolute).
        histogram: difference in steps -> how often; zero left out; empty for floats.
    """

    tensor: str
    node: str
    op: str
    contract: str
    values: int
    mismatches: int
    largest: float
    histogram: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All compared tensors in execution order.

    Attributes:
        tensors: one entry a tensor.
        samples: inputs that were run.
        skipped: tensors the reference does not show, by name.
    """

    tensors: tuple[TensorComparison, ...]
    samples: int
    skipped: tuple[str, ...] = ()

    @property
    def mismatches(self) -> int:
        """Differing numbers in all tensors."""
        return sum(entry.mismatches for entry in self.tensors)

    @property
    def first_divergence(self) -> TensorComparison | None:
        """The first tensor in execution order that differs; None when all are equal."""
        return next((entry for entry in self.tensors if entry.mismatches), None)


class Comparer:
    """Collects differences sample by sample, so that only one sample is held at a time."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._counts: dict[str, list[int]] = {}
        self._largest: dict[str, float] = {}
        self._histograms: dict[str, dict[int, int]] = {}
        self._samples = 0
        self._skipped: dict[str, None] = {}

    def add(self, reference: Mapping[str, Array], result: Mapping[str, Array]) -> None:
        """Compare every tensor of one sample that both have."""
        self._samples += 1
        for node in self._graph.nodes:
            for name in node.outputs:
                if name not in result:
                    continue
                if name not in reference:
                    self._skipped[name] = None
                    continue
                self._compare(self._graph.tensors[name], reference[name], result[name])

    def _compare(self, tensor: Tensor, reference: Array, result: Array) -> None:
        name = tensor.name
        counts = self._counts.setdefault(name, [0, 0])
        counts[0] += result.size
        reference = np.asarray(reference).reshape(result.shape)
        if tensor.dtype.is_float:
            bad, largest = _float_difference(reference, result)
            counts[1] += bad
            self._largest[name] = max(self._largest.get(name, 0.0), largest)
            return
        if np.array_equal(reference, result):
            return
        steps = result.astype(np.int64) - reference.astype(np.int64)
        values, numbers = np.unique(steps[steps != 0], return_counts=True)
        histogram = self._histograms.setdefault(name, {})
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            histogram[value] = histogram.get(value, 0) + number
        counts[1] += int(numbers.sum())
        self._largest[name] = max(self._largest.get(name, 0.0), float(np.abs(steps).max()))

    def result(self) -> Comparison:
        """What was found so far."""
        entries = []
        for node in self._graph.nodes:
            for name in node.outputs:
                if name not in self._counts:
                    continue
                values, mismatches = self._counts[name]
                entries.append(
                    TensorComparison(
                        name,
                        node.name,
                        node.op,
                        str(node.contract),
                        values,
                        mismatches,
                        self._largest.get(name, 0.0),
                        dict(sorted(self._histograms.get(name, {}).items())),
                    )
                )
        return Comparison(tuple(entries), self._samples, tuple(self._skipped))


def _float_difference(reference: Array, result: Array) -> tuple[int, float]:
    a, b = reference.astype(np.float64), result.astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    equal = (a == b) | both_nan
    difference = np.where(equal, 0.0, np.abs(a - b))
    finite = np.abs(a[np.isfinite(a)])
    limit = FLOAT_TOLERANCE * float(finite.max() if finite.size else 0.0)
    bad = ~equal & ~(difference <= limit)
    largest = float(np.nanmax(difference, initial=0.0))
    return int(np.count_nonzero(bad)), largest


def compare_runs(
    graph: Graph,
    references: Sequence[Mapping[str, Array]],
    results: Iterable[Mapping[str, Array]],
) -> Comparison:
    """Compare the captured tensors of several samples."""
    comparer = Comparer(graph)
    for reference, result in zip(references, results, strict=True):
        comparer.add(reference, result)
    return comparer.result()


def dequantized(tensor: Tensor, values: Array) -> Array:
    """Stored values as real numbers; floats and plain integers stay."""
    if tensor.quantization is None or tensor.dtype.is_float:
        return values.astype(np.float32)
    real: Array = tensor.quant.s * (values.astype(np.float32) - np.float32(tensor.quant.z))
    return real

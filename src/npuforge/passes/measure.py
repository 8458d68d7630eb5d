"""How far two ways to compute the same tensors lie apart, measured by running both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import NUMPY_TYPES, Array, Graph, Quantization, Tensor
from npuforge.numerics import Executor, random_inputs
from npuforge.passes.framework import Edit, feeds, in_order, real_numbers, subgraph

Values = Mapping[str, Array]
SMOOTH = 8
"""Side of the grid of the smooth half of the random samples, in cells."""


@dataclass(frozen=True)
class Difference:
    """Between a reference and a rewritten tensor.

    Attributes:
        steps: largest difference: in steps of the reference's scale, on floats relative to its
            largest value.
        relative: root of the summed squares of the difference, over that of the reference.
        changed: share of values that differ; 0 to 1.
        argmax: share of rows (last axis) whose largest value stays at its place; 0 to 1.
    """

    steps: float = 0.0
    relative: float = 0.0
    changed: float = 0.0
    argmax: float = 1.0

    @property
    def is_zero(self) -> bool:
        """Whether nothing differs at all."""
        return self.changed == 0.0

    def worse(self, other: Difference) -> Difference:
        """The larger of two differences, figure by figure."""
        return Difference(
            max(self.steps, other.steps),
            max(self.relative, other.relative),
            max(self.changed, other.changed),
            min(self.argmax, other.argmax),
        )


def difference(
    reference: Array, result: Array, like: Tensor, quant: Quantization | None = None
) -> Difference:
    """Compare two arrays of one tensor.

    Args:
        reference: stored values, of the tensor `like`.
        result: stored values; on the scale `quant` where that differs from the reference's.
        like: the reference's tensor.
        quant: quantisation of the result; None: the reference's.
    """
    same_scale = quant is None or quant.same_as(like.quantization)
    if same_scale and np.array_equal(reference, result, equal_nan=like.dtype.is_float):
        return Difference()
    r = real_numbers(reference, like.quantization)
    p = real_numbers(result, quant or like.quantization)
    e = p - r
    if not np.isfinite(e).all():
        return Difference(np.inf, np.inf, 1.0, 0.0)
    size = float(np.sqrt(np.sum(r * r)))
    if like.quantization is not None and like.quantization.axis is None:
        steps = float(np.abs(e).max(initial=0.0)) / float(like.quantization.s)
    else:
        steps = float(np.abs(e).max(initial=0.0)) / max(float(np.abs(r).max(initial=0.0)), 1e-30)
    kept = kept_argmax(r, p)
    return Difference(
        # scales are single precision: a whole step comes out as one
        round(steps, 4),
        float(np.sqrt(np.sum(e * e))) / max(size, 1e-30),
        float(np.count_nonzero(e)) / max(e.size, 1),
        float(kept.mean()) if kept.size else 1.0,
    )


def kept_argmax(
    reference: npt.NDArray[np.float64], result: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """For each row (last axis): how surely the result is largest where the reference is, 0..1.

    Of equal largest values any may be the answer: a row of nothing but equal numbers, as a network
    with ranges far too wide gives, keeps one answer in as many as it has, not all of them.
    """
    rows = reference.reshape(-1, reference.shape[-1]) if reference.ndim else reference[None, None]
    found = result.reshape(rows.shape)
    true = rows == rows.max(axis=1, keepdims=True)
    largest = found == found.max(axis=1, keepdims=True)
    return np.asarray((true & largest).sum(axis=1) / np.maximum(largest.sum(axis=1), 1))


def capture(graph: Graph, samples: Sequence[Values]) -> list[dict[str, Array]]:
    """Every tensor of the graph for every sample, inputs included."""
    executor = Executor(graph, capture=True)
    taken = []
    for sample in samples:
        executor.run(sample)
        taken.append({**executor.read(executor.activations()), **sample})
    return taken


def run(graph: Graph, samples: Sequence[Values]) -> list[dict[str, Array]]:
    """The outputs of the graph for every sample; state variables go on from one to the next."""
    executor = Executor(graph)
    return [executor.run(sample) for sample in samples]


def site_difference(graph: Graph, edit: Edit, values: Sequence[Values]) -> Difference:
    """How far the tensors of one edit lie from the graph's, given the graph's own inputs there.

    Args:
        graph: the graph before the edit.
        edit: what is to be put in.
        values: every tensor of the graph, a sample an entry.
    """
    removed = [node for node in graph.nodes if node.name in set(edit.remove)]
    new = {**graph.tensors, **{tensor.name: tensor for tensor in edit.tensors}}
    written = {name for node in edit.nodes for name in node.outputs}
    old_outputs = [name for node in removed for name in node.outputs]
    pairs = [
        (name, name if name in written else edit.instead.get(name, name))
        for name in old_outputs
        if name in written or name in edit.instead
    ]
    if not pairs:
        return Difference()
    after = feeds(edit.nodes, new)
    targets = {made for _, made in pairs if made in written}
    program = None
    if targets:
        part = subgraph(graph, edit.nodes, after, sorted(targets), new)
        program = Executor(in_order(part))
    worst = Difference()
    for sample in values:
        results = dict(sample)
        if program is not None:
            results |= program.run({name: sample[name] for name in after})
        for name, made in pairs:
            tensor = new[made]
            result = results[made] if tensor.data is None else tensor.data
            found = difference(sample[name], result, graph.tensors[name], tensor.quantization)
            worst = worst.worse(found)
    return worst


def output_difference(
    graph: Graph, reference: Sequence[Values], result: Sequence[Values]
) -> Difference:
    """The worst difference over the outputs of a graph and all samples."""
    worst = Difference()
    for r, p in zip(reference, result, strict=True):
        for name in graph.outputs:
            worst = worst.worse(difference(r[name], p[name], graph.tensors[name]))
    return worst


def calibrated_inputs(graph: Graph, count: int, seed: int) -> list[dict[str, Array]]:
    """Random samples over the ranges the network was quantised for.

    Float inputs that are quantised at once cover that range, other floats [0, 1), integers their
    whole type. Every second sample is smooth, as pictures and spectra are.

    Args:
        graph: the network.
        count: number of samples.
        seed: of the generator; the same seed gives the same samples.
    """
    rng = np.random.default_rng(seed)
    samples = []
    for number in range(count):
        sample = random_inputs(graph, rng)
        for name in graph.inputs:
            tensor = graph.tensors[name]
            if number % 2:
                sample[name] = _smooth(sample[name], rng)
            if tensor.dtype.is_float:
                low, high = _range(graph, name)
                unit = sample[name].astype(np.float32)
                real = np.float32(low) + unit * np.float32(high - low)
                sample[name] = real.astype(NUMPY_TYPES[tensor.dtype])
        samples.append(sample)
    return samples


def _range(graph: Graph, name: str) -> tuple[float, float]:
    for node in graph.consumers.get(name, ()):
        if node.op == "quantize":
            y = graph.tensors[node.outputs[0]]
            return y.quant.range_of(y.dtype)
    return 0.0, 1.0


def _smooth(values: Array, rng: np.random.Generator) -> Array:
    """The same values, constant over cells of the larger axes."""
    out = values
    for axis in range(1, values.ndim):
        n = values.shape[axis]
        if n > 2 * SMOOTH:
            out = np.take(out, np.arange(n) * SMOOTH // n * (n // SMOOTH), axis=axis)
    return np.ascontiguousarray(out)

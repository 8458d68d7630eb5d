"""Which of a few ways to quantise is best, judged on calibration samples kept apart from them.

No range method is best for every network: rare large values matter to one and only widen the steps
of another. So each is built from most of the samples and judged on the others, which the float
network has to run on anyway; the one that is chosen is then built from all. Where the network is
small, equalised channels, unchanged biases and rounded weights are judged as well, one after the
other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from npuforge.graph import Graph, macs
from npuforge.numerics import Executor, all_cores
from npuforge.passes.framework import real_numbers
from npuforge.quantize.calibrate import Calibration, Held
from npuforge.quantize.equalise import equalised
from npuforge.quantize.measure import quantised_inputs
from npuforge.quantize.ranges import RangeMethod
from npuforge.quantize.statistics import Statistics
from npuforge.quantize.tune import Candidate, tuned
from npuforge.tasks import Dataset

MOST_HELD_OUT = 32
"""Samples kept apart, at most; of a network that is not small a quarter of that."""
LEAST = 32
"""Samples from which on some are kept apart; with fewer the ranges need them all."""
SMALL = 100_000_000
"""Multiplications below which the dearer remedies are tried as well."""
METHODS = (
    *((RangeMethod.MSE, 99.99), (RangeMethod.MINMAX, 99.99)),
    *((RangeMethod.PERCENTILE, 99.9), (RangeMethod.PERCENTILE, 99.99)),
)
"""Range methods that are judged, of a network that is not small the first two; the first where
nothing can be."""
_TYPICAL = 4.0
"""A sample's signal, in units of the geometric mean over the samples, from which on its error
counts relative to it; below, relative to this."""


@dataclass(frozen=True)
class Judged:
    """One way that was tried.

    Attributes:
        candidate: what it was.
        decibels: signal to noise of the outputs on the samples kept apart, mean over outputs; each
            sample counts alike.
        chosen: whether it is the one that was taken.
    """

    candidate: Candidate
    decibels: float
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class Variant:
    """A float graph with what was observed of it.

    Attributes:
        graph: prepared, equalised or not.
        calibration: from all samples; its `held` from most, and the others.
        statistics: of its layers' inputs, from samples that were not kept apart.
    """

    graph: Graph
    calibration: Calibration
    statistics: Statistics


def held_out(graph: Graph, count: int) -> int:
    """How many of so many samples are kept apart; 0: too few to."""
    if count < LEAST:
        return 0
    return min(MOST_HELD_OUT if is_small(graph) else MOST_HELD_OUT // 4, count // 4)


def is_small(graph: Graph) -> bool:
    """Whether a network is small enough to try everything."""
    return sum(macs(graph, node) for node in graph.nodes) < SMALL


def arranged(data: Dataset, hold: int) -> Dataset:
    """The samples with those that are kept apart at the end, evenly spread over all."""
    if not hold:
        return data
    apart = [int(i) for i in np.linspace(0, len(data) - 1, hold).round()]
    others = sorted(set(range(len(data))) - set(apart))
    return data.some([*others, *apart])


def decibels(graph: Graph, made: Graph, held: Held) -> float:
    """Signal to noise of a quantised network's outputs on the samples kept apart.

    Args:
        graph: the float network.
        made: its quantised form.
        held: the samples, and the float network's outputs on them.
    """
    executor = Executor(made, threads=all_cores())
    signals: list[list[float]] = [[] for _ in graph.outputs]
    noises: list[list[float]] = [[] for _ in graph.outputs]
    for inputs, outputs in zip(held.inputs, held.outputs, strict=True):
        found = executor.run(quantised_inputs(graph, made, inputs))
        for number, (name, real) in enumerate(zip(made.outputs, outputs, strict=True)):
            if real is None:
                continue
            result = real_numbers(found[name], made.tensors[name].quantization).reshape(-1)
            truth = real.astype(np.float64).reshape(-1)
            signals[number].append(float(truth @ truth))
            noises[number].append(float((result - truth) @ (result - truth)))
    levels = [_level(s, n) for s, n in zip(signals, noises, strict=True) if any(s)]
    return sum(levels) / len(levels) if levels else -math.inf


def _level(signals: list[float], noises: list[float]) -> float:
    """Of one output, in dB: a sample that a network explodes on counts like the others."""
    present = [s for s in signals if s > 0]
    typical = _TYPICAL * math.exp(sum(map(math.log, present)) / len(present))
    shares = [n / max(s, typical) for s, n in zip(signals, noises, strict=True)]
    scale = [s / max(s, typical) for s in signals]
    noise = sum(shares)
    return 10 * math.log10(sum(scale) / noise) if noise else 200.0


@dataclass(eq=False)
class Chooser:
    """State of a choice.

    Attributes:
        variants: observed graphs by whether they are equalised.
        observe: observes the equalised graph.
        moments: statistics of a graph's layers with the second moments that rounding needs.
        free: whether remedies may be chosen too, not only the range method.
        tick: told each trial.
    """

    variants: dict[bool, Variant]
    observe: Callable[[Graph], Variant]
    moments: Callable[[Graph], Statistics]
    free: bool
    tick: Callable[[int], None]
    tried: list[Judged] = field(default_factory=list)
    best: Judged | None = None

    def attempt(self, candidate: Candidate) -> None:
        """Build a candidate from the early samples, judge it on the held ones."""
        variant = self.variants[candidate.remedies.equalise]
        held = variant.calibration.held
        assert held is not None
        ranges = held.early.ranges(variant.graph, candidate.scheme)
        made, _ = tuned(
            variant.graph, ranges, candidate.scheme, variant.statistics, candidate.remedies
        )
        judged = Judged(candidate, decibels(variant.graph, made.graph, held))
        self.tried.append(judged)
        self.tick(len(self.tried))
        if self.best is None or judged.decibels > self.best.decibels:
            self.best = judged

    def methods(self, start: Candidate) -> None:
        """Every range method."""
        small = is_small(next(iter(self.variants.values())).graph)
        for method, percentile in METHODS if small else METHODS[:2]:
            scheme = replace(start.scheme, method=method, percentile=percentile)
            self.attempt(replace(start, scheme=scheme))

    def _flip(self, name: str) -> None:
        """The best so far with one remedy more or less."""
        assert self.best is not None
        candidate = self.best.candidate
        changes: Mapping[str, bool] = {name: not getattr(candidate.remedies, name)}
        self.attempt(replace(candidate, remedies=replace(candidate.remedies, **changes)))

    def run(self, start: Candidate) -> tuple[Candidate, tuple[Judged, ...]]:
        """The best candidate, and all in the order they were tried."""
        self.methods(start)
        plain = self.variants.get(False)
        if self.free and plain is not None and is_small(plain.graph):
            graph, changed = equalised(plain.graph, plain.statistics)
            if changed:
                self.variants[True] = self.observe(graph)
                self.methods(replace(start, remedies=replace(start.remedies, equalise=True)))
            self._flip("correct")
            assert self.best is not None
            equal = self.best.candidate.remedies.equalise
            variant = self.variants[equal]
            known = self.moments(variant.graph)
            self.variants[equal] = replace(variant, statistics=known)
            self._flip("round")
        assert self.best is not None
        best = self.best
        return best.candidate, tuple(replace(item, chosen=item is best) for item in self.tried)


def can_judge(held: Held | None) -> bool:
    """Whether there are samples, and outputs of real numbers, to choose by."""
    if held is None:
        return False
    return any(a is not None and bool(a.any()) for row in held.outputs for a in row)

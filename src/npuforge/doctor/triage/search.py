"""Triage of a failing inference: try what could be wrong until the bad outputs come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from npuforge.doctor.triage.alternatives import (
    Alternative,
    Source,
    Stage,
    alternatives_of,
    feed,
    source_of,
)
from npuforge.doctor.triage.causes import Cause, Verdict
from npuforge.doctor.triage.outputs import (
    Outputs,
    deviation,
    judge_outputs,
    one_class,
    same,
    saturated,
)
from npuforge.doctor.triage.recorded import Recorded
from npuforge.graph import Array, Graph
from npuforge.numerics import Executor
from npuforge.tasks.images import ImageRange
from npuforge.vocab import DType

FINALISTS = 12
"""Explanations of the first sample that are tried on all samples."""
TRIED_SAMPLES = 4
MAX_PAIRS = 700
Tick = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Triage:
    """The result.

    Attributes:
        verdicts: explanations, best first; never empty.
        samples: samples that were recorded.
        tried: ways of feeding the network that were run.
        buffer: what the recorded device buffer says: ``right``, ``wrong`` or "" when there is none.
        computed: whether the device's outputs follow from its buffer; None when unknown.
    """

    verdicts: tuple[Verdict, ...]
    samples: int
    tried: int
    buffer: str = ""
    computed: bool | None = None

    @property
    def best(self) -> Verdict:
        """The first explanation."""
        return self.verdicts[0]

    @property
    def decided(self) -> bool:
        """Whether the first explanation reproduces what was recorded, or clearly comes closest."""
        return self.best.cause not in (Cause.UNKNOWN, Cause.ONE_CLASS, Cause.SATURATED)

    @property
    def equal(self) -> tuple[Verdict, ...]:
        """Explanations that fit as well as the first: the outputs cannot tell them apart."""
        best = self.best
        return tuple(
            item
            for item in self.verdicts[1:]
            if item.causes != best.causes
            and item.reproduces
            and best.reproduces
            and abs(item.distance - best.distance) < 1e-9
        )


class _Lab:
    """A network with its recorded samples, run under changed inputs."""

    def __init__(
        self, graph: Graph, recorded: Recorded, value_range: ImageRange | None, tick: Tick
    ) -> None:
        self.graph = graph
        self.recorded = recorded
        self.executor = Executor(graph)
        self.tick = tick
        self.tried = 0
        self.name = graph.inputs[0]
        tensor = graph.tensors[self.name]
        rows = [row[self.name] for row in recorded.inputs]
        self.sources = [
            source_of(graph, tensor, row, rows[i - 1] if i else None, value_range)
            for i, row in enumerate(rows)
        ]
        self.reference = [self.run(row) for row in recorded.inputs]

    def run(self, inputs: Mapping[str, Array], executor: Executor | None = None) -> Outputs:
        chosen = executor or self.executor
        chosen.reset()
        outputs = chosen.run(inputs)
        return {name: outputs[name] for name in self.recorded.outputs[0]}

    def fed(self, index: int, chosen: tuple[Alternative, ...]) -> Outputs | None:
        """Outputs of a sample that is fed in a wrong way; None when it would be fed right."""
        stored = feed(self.sources[index], chosen)
        right = self.recorded.inputs[index]
        if np.array_equal(stored, right[self.name], equal_nan=True):
            return None
        self.tried += 1
        return self.run({**right, self.name: stored})

    def distance(self, index: int, outputs: Outputs) -> float:
        return deviation(self.graph, self.recorded.outputs[index], outputs)


def triage(
    graph: Graph,
    recorded: Recorded,
    value_range: ImageRange | None = None,
    tick: Tick = lambda _: None,
) -> Triage:
    """Explain recorded outputs.

    Args:
        graph: the network.
        recorded: right inputs and the device's outputs.
        value_range: the pictures' range the network was trained for; guessed when None.
        tick: told what is being tried.
    """
    lab = _Lab(graph, recorded, value_range, tick)
    count = len(recorded.outputs)
    buffer, computed = _buffer_says(lab)
    pairs = list(zip(recorded.outputs, lab.reference, strict=True))
    if all(same(graph, r, y, 1.01) for r, y in pairs) and not recorded.typed:
        exact = sum(same(graph, r, y) for r, y in pairs)
        return Triage((Verdict(Cause.MATCH, "", 0.0, exact, count),), count, 0, buffer, computed)
    outputs = list(judge_outputs(graph, recorded.outputs, lab.reference, recorded.typed))
    weights = _weights(lab)
    decisive = [
        *weights,
        *(item for item in outputs if item.cause is not Cause.ZEROS or not weights),
    ]
    misread = [item for item in decisive if item.cause not in (Cause.FROZEN, Cause.ZEROS)]
    if misread:
        return Triage(tuple(decisive), count, lab.tried, buffer, computed)
    fed = _inputs(lab, pairs=not decisive)
    verdicts = _rank(fed, decisive)
    if not verdicts or not _convincing(verdicts):
        verdicts = [*_hints(lab), *verdicts]
    return Triage(tuple(verdicts[:8]), count, lab.tried, buffer, computed)


def _rank(fed: list[Verdict], outputs: list[Verdict]) -> list[Verdict]:
    """A frozen output that one constant input explains is that; else the freeze comes first."""
    reproduced = [item for item in fed if item.reproduces]
    if outputs:
        constant = [item for item in reproduced if item.cause is Cause.CONSTANT]
        return [*constant, *outputs, *(item for item in fed if item not in constant)]
    return fed


def _hints(lab: _Lab) -> Iterable[Verdict]:
    recorded, count = lab.recorded.outputs, len(lab.recorded.outputs)
    ends = saturated(recorded, lab.reference)
    if ends is not None:
        yield Verdict(Cause.SATURATED, ends, 0.5, 0, count)
    winner = one_class(lab.graph, recorded, lab.reference)
    if winner is not None:
        yield Verdict(Cause.ONE_CLASS, winner, 0.5, 0, count)
    yield Verdict(Cause.UNKNOWN, "", 1.0, 0, count)


def _buffer_says(lab: _Lab) -> tuple[str, bool | None]:
    device = lab.recorded.device_inputs
    if not device:
        return "", None
    right = all(
        np.array_equal(got[name], want[name], equal_nan=True)
        for got, want in zip(device, lab.recorded.inputs, strict=True)
        for name in got
    )
    runs = [lab.run({**want, **got}) for got, want in zip(device, lab.recorded.inputs, strict=True)]
    computed = all(
        same(lab.graph, r, y, 1.01) for r, y in zip(lab.recorded.outputs, runs, strict=True)
    )
    return "right" if right else "wrong", computed


def _convincing(verdicts: Sequence[Verdict]) -> bool:
    """Whether the first explanation holds: it reproduces, or leaves all other causes far behind."""
    best = verdicts[0]
    if best.reproduces:
        return True
    others = [item.distance for item in verdicts[1:] if not item.causes & best.causes]
    return best.distance < 0.35 and all(best.distance < 0.6 * other for other in others)


def _inputs(lab: _Lab, *, pairs: bool) -> list[Verdict]:
    """Wrong ways of feeding, ranked."""
    source = lab.sources[min(1, len(lab.sources) - 1)]
    singles = [(item,) for item in alternatives_of(source)]
    scored = _scored(lab, singles)
    verdicts = _finals(lab, scored)
    if pairs and not (verdicts and verdicts[0].reproduces):
        verdicts = _best([*verdicts, *_finals(lab, _scored(lab, _pairs(source, scored)))])
    return verdicts


def _first(lab: _Lab) -> int:
    """The sample that is tried first: not the very first, which has no sample before it."""
    return min(1, len(lab.sources) - 1)


def _scored(
    lab: _Lab, ways: Iterable[tuple[Alternative, ...]]
) -> list[tuple[float, tuple[Alternative, ...]]]:
    index = _first(lab)
    base = max(lab.distance(index, lab.reference[index]), 1e-9)
    scored = []
    for way in ways:
        lab.tick(" + ".join(item.cause.value for item in way))
        outputs = lab.fed(index, way)
        if outputs is not None:
            scored.append((lab.distance(index, outputs) / base, way))
    return sorted(scored, key=lambda item: item[0])


def _pairs(
    source: Source, scored: Sequence[tuple[float, tuple[Alternative, ...]]]
) -> list[tuple[Alternative, ...]]:
    """Two wrong stages at once, the closest single ones first."""
    usable = [way[0] for _, way in scored if way[0].cause not in (Cause.CONSTANT, Cause.LATE)]
    by_stage = {stage: [a for a in usable if a.stage is stage] for stage in Stage}
    ways: list[tuple[Alternative, ...]] = []
    for low, high in (
        (Stage.CHANNELS, Stage.VALUES),
        (Stage.VALUES, Stage.BUFFER),
        (Stage.CHANNELS, Stage.BUFFER),
        (Stage.GEOMETRY, Stage.VALUES),
        (Stage.GEOMETRY, Stage.CHANNELS),
        (Stage.GEOMETRY, Stage.BUFFER),
    ):
        ways += list(product(by_stage[low][:16], by_stage[high][:16]))
    return ways[:MAX_PAIRS]


def _finals(lab: _Lab, scored: Sequence[tuple[float, tuple[Alternative, ...]]]) -> list[Verdict]:
    """The closest ways over several samples."""
    used = range(min(TRIED_SAMPLES, len(lab.sources)))
    base = max(sum(lab.distance(i, lab.reference[i]) for i in used), 1e-9)
    verdicts = []
    for _, way in scored[:FINALISTS]:
        total, exact = 0.0, 0
        for i in used:
            outputs = lab.fed(i, way)
            outputs = lab.reference[i] if outputs is None else outputs
            total += lab.distance(i, outputs)
            exact += same(lab.graph, lab.recorded.outputs[i], outputs)
        detail = " + ".join(item.detail for item in way)
        second = way[1].cause if len(way) > 1 else None
        verdicts.append(Verdict(way[0].cause, detail, total / base, exact, len(used), second))
    return _best(verdicts)


def _best(verdicts: Iterable[Verdict]) -> list[Verdict]:
    ranked = sorted(verdicts, key=lambda v: (-v.exact, v.second is not None and v.distance > 0.02,
                                             v.distance))  # fmt: skip
    kept: dict[tuple[Cause, Cause | None, str], Verdict] = {}
    for item in ranked:
        kept.setdefault((item.cause, item.second, item.detail), item)
    return list(kept.values())


def _weights(lab: _Lab) -> list[Verdict]:
    """Whether the outputs are those of a network whose weights were never loaded."""
    found = []
    count = len(lab.recorded.outputs)
    for detail, fill in (("all zero", 0), ("erased flash, all 0xFF", 0xFF)):
        broken = _filled_weights(lab.graph, fill)
        if broken is None:
            continue
        executor = Executor(broken)
        rows = [lab.run(row, executor) for row in lab.recorded.inputs[:TRIED_SAMPLES]]
        pairs = list(zip(lab.recorded.outputs, rows, strict=False))
        exact = sum(same(lab.graph, r, y) for r, y in pairs)
        if exact == len(pairs):
            found.append(Verdict(Cause.WEIGHTS, detail, 0.0, exact, count))
    return found


def _filled_weights(graph: Graph, byte: int) -> Graph | None:
    tensors = dict(graph.tensors)
    changed = False
    for name, tensor in graph.tensors.items():
        weights = tensor.data is not None and tensor.dtype in (DType.INT8, DType.UINT8, DType.INT32)
        if weights and tensor.data is not None and tensor.size > 16 and tensor.quantization:
            raw = np.frombuffer(bytes([byte]) * tensor.data.nbytes, tensor.data.dtype)
            tensors[name] = replace(tensor, data=raw.reshape(tensor.shape))
            changed = True
    return replace(graph, tensors=tensors) if changed else None

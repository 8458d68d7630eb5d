"""Validation as a whole: what was executed where, and what it was compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from npuforge.boards import HostBoard, QemuBoard, RunResult
from npuforge.graph import Array, Graph
from npuforge.validate.compare import Comparer, Comparison, dequantized
from npuforge.validate.metrics import all_metrics
from npuforge.validate.oracles import Oracle


class Status(StrEnum):
    """Outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class OutputMetrics:
    """Metrics of one network output over all samples, reference against result."""

    tensor: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Check:
    """One comparison.

    Attributes:
        where: what executed the network ("host", "qemu mps3-an547").
        reference: what it was compared with.
        status: outcome.
        tolerance: steps of the stored type that nodes of contract float32 between quantised
            tensors may differ; all other tensors must be equal.
        comparison: tensor by tensor; None when not run.
        metrics: of the network's outputs; empty when not run.
        reason: why it was not run, "" otherwise.
    """

    where: str
    reference: str
    status: Status
    tolerance: int = 0
    comparison: Comparison | None = None
    metrics: tuple[OutputMetrics, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Validation:
    """All checks of one network.

    Attributes:
        checks: in the order they were made.
        npu_executed: whether an NPU, or a bit-accurate model of it, ran any of it.
        samples: how many inputs, and where they came from.
        instructions: emulated instructions of each step, when counted; never a time.
    """

    checks: tuple[Check, ...]
    npu_executed: bool
    samples: str
    instructions: tuple[int, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(check.status is Status.FAILED for check in self.checks)


def not_run(where: str, reference: str, reason: str) -> Check:
    """A check that could not be made, and why."""
    return Check(where, reference, Status.NOT_RUN, reason=reason)


def check_host(
    graph: Graph,
    board: HostBoard,
    samples: Sequence[Mapping[str, Array]],
    oracle: Oracle,
) -> Check:
    """Compare every tensor of the host run with the oracle, sample by sample."""
    comparer = Comparer(graph)
    pairs: list[tuple[Mapping[str, Array], Mapping[str, Array]]] = []
    board.reset()
    for sample in samples:
        run = board.run(sample, capture=True)
        truth = oracle.tensors(sample, run.tensors)
        comparer.add(truth, run.tensors)
        pairs.append(({n: truth[n] for n in graph.outputs if n in truth}, run.outputs))
    return _finish(graph, board.name, oracle.name, comparer.result(), pairs)


def check_emulated(
    graph: Graph,
    board: QemuBoard,
    samples: Sequence[Mapping[str, Array]],
    host: HostBoard,
) -> Check:
    """Compare every tensor of the emulated run with the host run of the same table."""
    results = board.run(samples, capture=True)
    comparer = Comparer(graph)
    pairs = []
    host.reset()
    for sample, result in zip(samples, results, strict=True):
        reference: RunResult = host.run(sample, capture=True)
        comparer.add(reference.tensors, result.tensors)
        pairs.append((reference.outputs, result.outputs))
    return _finish(graph, board.name, f"{host.name} run", comparer.result(), pairs)


def _finish(
    graph: Graph,
    where: str,
    reference: str,
    comparison: Comparison,
    pairs: Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]],
) -> Check:
    float_nodes = {
        entry.tensor
        for entry in comparison.tensors
        if entry.contract == "float32" and not graph.tensors[entry.tensor].dtype.is_float
    }
    worst = max((e.largest for e in comparison.tensors if e.tensor in float_nodes), default=0)
    tolerance = 1 if float_nodes and "run" not in reference else 0
    wrong = any(
        entry.mismatches and entry.tensor not in float_nodes for entry in comparison.tensors
    )
    failed = wrong or worst > tolerance
    return Check(
        where,
        reference,
        Status.FAILED if failed else Status.PASSED,
        tolerance,
        comparison,
        tuple(_output_metrics(graph, pairs)),
    )


def _output_metrics(
    graph: Graph, pairs: Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]
) -> Iterable[OutputMetrics]:
    for name in graph.outputs:
        if not pairs or any(name not in reference for reference, _ in pairs):
            continue
        tensor = graph.tensors[name]
        truth = np.stack([dequantized(tensor, np.asarray(r[name])) for r, _ in pairs])
        result = np.stack([dequantized(tensor, p[name]) for _, p in pairs])
        yield OutputMetrics(name, all_metrics(truth, result))

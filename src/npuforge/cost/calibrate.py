"""Fit of the free constants to measured times: the shipped file and a user's own use this code.

Constants move away from their start only as far as the measurements pull: the loss is a robust
mean of relative errors plus a weak pull back (in logarithms), so that a handful of rows cannot
bend a constant they say nothing about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuforge.cost.constants import Calibration, CpuKernel
from npuforge.cost.epochs import EpochWork
from npuforge.cost.residence import Residence
from npuforge.cost.timing import Columns, columns, epoch_times
from npuforge.targets import OperatingPoint

FITTED = {
    "program_clocks": 0.7,
    "legacy_program_factor": 0.4,
    "hybrid_cpu_clocks_per_byte": 0.3,
    "scale": 0.05,
}
"""What whole-network times can tell apart; the others come from per-epoch logs. The number is the
uncertainty of the start value, as a natural logarithm."""
SPREAD = 0.3
"""The same for a constant that is not listed."""
HUBER = 0.05
"""Relative error from which on a row counts linearly."""
PULL = 0.0004
"""Weight of a constant's squared distance from its start, in its own uncertainties."""
STEPS = (0.3, 0.1, 0.03, 0.01)
COVERAGE = 0.8


@dataclass(frozen=True)
class Observation:
    """One measured time of a network.

    Attributes:
        name: for reports.
        group: family; rows of one family never judge a fit they took part in.
        works: its epochs.
        residence: where its activations are.
        point: clocks.
        release: of the compiler.
        controller: epoch controller in use.
        ms: measured milliseconds.
    """

    name: str
    group: str
    works: tuple[EpochWork, ...]
    residence: Residence
    point: OperatingPoint
    release: str
    controller: bool
    ms: float


@dataclass(frozen=True)
class Fit:
    """Result of a fit.

    Attributes:
        calibration: the constants, with the spread of the residuals.
        median_error: of |predicted / measured - 1| on the rows it was fitted on.
        rows: how many rows.
        groups: how many families.
    """

    calibration: Calibration
    median_error: float
    rows: int
    groups: int


@dataclass(frozen=True, eq=False)
class _Table:
    table: Columns
    starts: np.ndarray
    measured: np.ndarray
    weights: np.ndarray

    def predicted(self, calibration: Calibration) -> np.ndarray:
        return self.with_doubt(calibration)[0]

    def with_doubt(self, calibration: Calibration) -> tuple[np.ndarray, np.ndarray]:
        total, _ = epoch_times(self.table, calibration.constants)
        sums = np.add.reduceat(total, self.starts)
        return sums / 1e3, np.add.reduceat(total * self.table.doubt, self.starts) / sums


def _table(observations: Sequence[Observation], calibration: Calibration) -> _Table:
    parts = [
        columns(o.works, o.residence, o.point, calibration, o.release, o.controller)
        for o in observations
    ]
    counts = [len(o.works) for o in observations]
    weights = family_weights([o.group for o in observations])
    return _Table(
        Columns.join(parts),
        np.cumsum([0, *counts[:-1]]),
        np.array([o.ms for o in observations]),
        weights / weights.sum(),
    )


def family_weights(groups: Sequence[str]) -> np.ndarray:
    """Weight of each row: every family weighs the square root of its rows, because many variants
    of one network are not many facts."""
    return np.array([1.0 / math.sqrt(groups.count(group)) for group in groups])


def predict(observations: Sequence[Observation], calibration: Calibration) -> np.ndarray:
    """Predicted milliseconds of each observation."""
    return predict_with_doubt(observations, calibration)[0]


def predict_with_doubt(
    observations: Sequence[Observation], calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Predicted milliseconds of each observation, and the mean doubt of its epochs' times."""
    return _table(observations, calibration).with_doubt(calibration)


def fit(
    observations: Sequence[Observation],
    start: Calibration,
    names: Sequence[str] = tuple(FITTED),
    basis: str = "",
) -> Fit:
    """Fit constants to measured times.

    Args:
        observations: at least one, each with one epoch or more and a positive time.
        start: constants to start from; those not in `names` stay.
        names: of the constants to fit.
        basis: what the interval rests on, for reports.
    """
    used = [o for o in observations if o.works and o.ms > 0]
    if not used:
        raise ValueError("no observation with an epoch and a time")
    table = _table(used, start)
    best = {name: getattr(start.constants, name) for name in names}
    origin = dict(best)

    def loss(values: Mapping[str, float]) -> float:
        error = np.log(table.predicted(start.with_constants(values)) / table.measured)
        size = np.abs(error)
        robust = np.where(size < HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER))
        pull = sum(
            (math.log(values[n] / origin[n]) / FITTED.get(n, SPREAD)) ** 2
            for n in names
            if origin[n] > 0
        )
        return float(np.sum(table.weights * robust)) + PULL * pull

    lowest = loss(best)
    for step in STEPS:
        for _ in range(20):
            before = lowest
            for name in names:
                for factor in (math.exp(step), math.exp(-step)):
                    trial = {**best, name: best[name] * factor}
                    value = loss(trial)
                    if value < lowest:
                        lowest, best = value, trial
                        break
            if before - lowest < 1e-9:
                break
    fitted = start.with_constants(best)
    predicted, doubt = table.with_doubt(fitted)
    ratio = table.measured / predicted
    median = float(np.median(np.abs(1 / ratio - 1)))
    note = f"fit to {len(used)} measured networks, median error {median:.1%}"
    sources = {**start.sources, **dict.fromkeys(names, note)}
    calibration = replace(
        fitted, sources=sources, spread=spread_of(ratio, doubt, [o.group for o in used]),
        basis=basis or note, fitted=tuple(names),
    )  # fmt: skip
    return Fit(calibration, median, len(used), len({o.group for o in used}))


def spread_of(ratios: np.ndarray, doubts: np.ndarray, groups: Sequence[str]) -> float:
    """Half the width of the 80 % interval in doubts: a conformal quantile over families.

    The score of a row is the logarithm of measured over predicted time in its own doubt. A new row
    weighs as much as one family; where too few rows are known to exclude any, the largest score is
    taken, and no less than the doubt itself.

    Args:
        ratios: measured over predicted, one a row.
        doubts: mean doubt of each row.
        groups: family of each row.
    """
    scores = np.abs(np.log(ratios)) / doubts
    weights = family_weights(groups)
    order = np.argsort(scores)
    below = np.cumsum(weights[order]) / (weights.sum() + 1.0)
    reached = np.flatnonzero(below >= COVERAGE - 1e-9)
    return float(scores[order[reached[0]]]) if reached.size else max(1.0, float(scores.max()))


@dataclass(frozen=True)
class LayerTime:
    """Measured clocks of one CPU kernel.

    Attributes:
        op: operator.
        group: report it is from.
        elements: of the larger of input and output.
        macs: multiply-accumulates; 0 where the operator has none.
        clocks: Cortex-M clocks.
    """

    op: str
    group: str
    elements: int
    macs: int
    clocks: float


def fit_cpu(layers: Sequence[LayerTime], source: str) -> dict[str, CpuKernel]:
    """CPU kernels from measured layers: relative least squares, no negative term."""
    kernels = {}
    for op in sorted({layer.op for layer in layers}):
        rows = [layer for layer in layers if layer.op == op and layer.clocks > 0]
        if rows:
            kernels[op] = _fit_kernel(rows, source)
    return kernels


def _fit_kernel(rows: Sequence[LayerTime], source: str) -> CpuKernel:
    design = np.array([[1.0, row.elements, row.macs] for row in rows])
    clocks = np.array([row.clocks for row in rows])
    free = [i for i in range(3) if np.any(design[:, i] > 0)]
    while True:
        scaled = design[:, free] / clocks[:, None]
        values = np.linalg.lstsq(scaled, np.ones(len(rows)), rcond=None)[0]
        negative = [i for i, value in zip(free, values, strict=True) if value < 0]
        if not negative or len(free) == 1:
            break
        free = [i for i in free if i != negative[-1]]
    result = np.zeros(3)
    result[free] = np.maximum(values, 0.0)
    error = float(np.median(np.abs(design @ result / clocks - 1)))
    base, element, mac = (float(value) for value in result)
    return CpuKernel(base, element, mac, f"{source}; {len(rows)} layers, median error {error:.1%}")

"""The search: from cheap to dear, until the accuracy is within its bound and the time too.

Range methods cost nothing on the target, so all are tried. Equalisation, ranges of single tensors,
bias correction and rounding cost nothing there either, but time here; they are tried when the bound
is missed. What is left is paid for on the target: the most sensitive nodes get 16-bit activations
or stay float, as few as will do. In the end zero points that the NPU likes are taken where the
accuracy allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from npuforge.graph import Graph, short_name
from npuforge.quantize.build import Quantized, Tuning
from npuforge.quantize.calibrate import Calibration, calibrate
from npuforge.quantize.diagnose import Cause, Diagnosis, diagnoses
from npuforge.quantize.engines import EngineName
from npuforge.quantize.equalise import equalised
from npuforge.quantize.measure import measure
from npuforge.quantize.prepare import prepared
from npuforge.quantize.price import Price, Pricing
from npuforge.quantize.ranges import Range, RangeMethod
from npuforge.quantize.scheme import Precision, Scheme, ZeroPoints
from npuforge.quantize.score import Reference, Score
from npuforge.quantize.sensitivity import Sensitivity, sensitivities
from npuforge.quantize.session import STUDIED, Session
from npuforge.quantize.statistics import Statistics, layer_inputs
from npuforge.quantize.tune import Candidate, tuned
from npuforge.tasks import Dataset

Tick = Callable[[str, int, int], None]
METHODS = (
    *(RangeMethod.MINMAX, RangeMethod.MSE, RangeMethod.PERCENTILE, RangeMethod.ENTROPY),
    RangeMethod.MOVING,
)
PERCENTILES = (99.99, 99.9)
SHARES = (0.1, 0.0)
"""`Scheme.signed_share` under NPU zero points, in the order they are tried."""
MOST_TENSORS = 6
"""Tensors with outliers that get a range method of their own, the worst first."""
RANKED_ON = 32
"""Samples on which nodes are ranked."""
MOST_LOWERED = 12
"""Raised nodes that are tried as integers again, the least sensitive first."""


class Step(StrEnum):
    """What a trial changed; the key of its sentence."""

    METHOD = "QNS-method"
    EQUALISE = "QNS-equalise"
    TENSOR = "QNS-tensor"
    CORRECT = "QNS-correct"
    ROUND = "QNS-round"
    WIDE = "QNS-wide"
    FLOAT = "QNS-float"
    LOWER = "QNS-lower"
    ZERO_POINTS = "QNS-zero-points"


@dataclass(frozen=True)
class Bounds:
    """What is asked.

    Attributes:
        drop: most that the quality may fall below the float network's, 0..1.
        ms: most milliseconds on the target; None: any.
    """

    drop: float = 0.01
    ms: float | None = None

    def hold(self, score: Score, price: Price | None) -> bool:
        """Whether a network meets both, and fits."""
        return score.drop <= self.drop + 1e-12 and self.affords(price)

    def affords(self, price: Price | None) -> bool:
        """Whether a price is within the bound on time, and the network fits."""
        if price is None:
            return True
        in_time = self.ms is None or (price.ms is not None and price.ms <= self.ms)
        return price.fits and in_time


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate that was measured.

    Attributes:
        step: what it changed.
        detail: of the change: the method, the number of nodes, the share.
        candidate: what was tried.
        score: what came of it.
        price: on the target; None without one.
        kept: whether the search went on from it.
    """

    step: Step
    detail: str
    candidate: Candidate
    score: Score
    price: Price | None
    kept: bool


@dataclass(frozen=True, eq=False)
class Search:
    """What a search found.

    Attributes:
        trials: in the order they were made.
        best: the one that was chosen.
        bounds: what was asked.
        session: the chosen quantisation, measured.
        diagnoses: tensors that made the network hard, the worst first.
        ranking: nodes by sensitivity, the most harmful first; empty when it was not needed.
    """

    trials: tuple[Trial, ...]
    best: Trial
    bounds: Bounds
    session: Session
    diagnoses: tuple[Diagnosis, ...]
    ranking: tuple[Sensitivity, ...]

    @property
    def met(self) -> bool:
        """Whether the chosen one meets the bounds."""
        return self.bounds.hold(self.best.score, self.best.price)

    @property
    def raised(self) -> Mapping[str, Precision]:
        """Nodes with another precision than the scheme's own, by name."""
        return self.best.candidate.scheme.layers


@dataclass(eq=False)
class _Variant:
    """A float graph with what was observed of it."""

    graph: Graph
    calibration: Calibration
    statistics: Statistics


class _Searcher:
    """State of one search."""

    def __init__(
        self,
        original: Graph,
        data: Dataset,
        validation: Dataset,
        bounds: Bounds,
        pricing: Pricing | None,
        engine: EngineName,
        tick: Tick,
    ) -> None:
        self._original, self._data, self._bounds = original, data, bounds
        self._pricing, self._engine, self._tick = pricing, engine, tick
        self._few = data.spread(STUDIED)
        graph = prepared(original)
        tick("running the float network", 0, 1)
        self._reference = Reference.of(graph, validation)
        self._validation = validation
        self._variants: dict[bool, _Variant] = {False: self._observed(graph)}
        self._ranges: dict[tuple[object, ...], Mapping[str, Range]] = {}
        plain = self._variants[False]
        self.found = diagnoses(graph, plain.calibration, plain.statistics)
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.ranking: tuple[Sensitivity, ...] = ()

    def _observed(self, graph: Graph, statistics: Statistics | None = None) -> _Variant:
        calibration = calibrate(
            graph,
            self._data,
            engine=self._engine,
            tick=lambda done, total: self._tick("calibrating", done, total),
        )
        self._tick("looking at layers", 0, 1)
        known = layer_inputs(graph, self._few) if statistics is None else statistics
        return _Variant(graph, calibration, known)

    def variant(self, equal: bool) -> _Variant:
        """The plain float graph, or the equalised one; the same where that changes nothing."""
        if equal not in self._variants:
            plain = self._variants[False]
            graph, changed = equalised(plain.graph, plain.statistics)
            self._variants[True] = self._observed(graph) if changed else plain
        return self._variants[equal]

    def ranges(self, candidate: Candidate) -> Mapping[str, Range]:
        """Ranges of a candidate, chosen once a method."""
        scheme, equal = candidate.scheme, candidate.remedies.equalise
        key = (equal, scheme.method, scheme.percentile, tuple(sorted(scheme.methods.items())))
        if key not in self._ranges:
            variant = self.variant(equal)
            self._ranges[key] = variant.calibration.ranges(variant.graph, scheme)
        return self._ranges[key]

    def build(self, candidate: Candidate) -> tuple[Quantized, Tuning]:
        """The quantised network of a candidate."""
        variant = self.variant(candidate.remedies.equalise)
        return tuned(
            variant.graph,
            self.ranges(candidate),
            candidate.scheme,
            variant.statistics,
            candidate.remedies,
        )

    def attempt(self, step: Step, detail: str, candidate: Candidate) -> Trial:
        """Measure a candidate; it is kept by who asked."""
        self._tick("searching", len(self.trials), 0)
        made, _ = self.build(candidate)
        score = self._reference.score(made.graph)
        price = None if self._pricing is None else self._pricing(made.graph)
        return Trial(step, detail, candidate, score, price, False)

    def take(self, trial: Trial, better: bool) -> bool:
        """Note a trial, and go on from it when it is better."""
        trial = replace(trial, kept=better)
        self.trials.append(trial)
        if better:
            self.best = trial
        return better

    @property
    def met(self) -> bool:
        """Whether the best so far meets the bounds."""
        best = self.best
        return best is not None and self._bounds.hold(best.score, best.price)

    def _is_better(self, trial: Trial) -> bool:
        return self.best is None or trial.score.key > self.best.score.key

    # --- stages ---

    def methods(self, start: Candidate, step: Step = Step.METHOD) -> None:
        """Every range method; the best by quality, then by noise."""
        for method in METHODS:
            for percentile in PERCENTILES if method is RangeMethod.PERCENTILE else (99.99,):
                scheme = replace(start.scheme, method=method, percentile=percentile)
                detail = f"{method} {percentile:g}" if method is RangeMethod.PERCENTILE else method
                trial = self.attempt(step, detail, replace(start, scheme=scheme))
                self.take(trial, self._is_better(trial))

    def remedies(self, thorough: bool) -> None:
        """Equalisation with every method, other methods for tensors with outliers, then bias
        correction and rounding, each if it helps."""
        assert self.best is not None
        start = self.best.candidate
        if self.variant(True) is not self.variant(False):
            equal = replace(start.remedies, equalise=True)
            self.methods(replace(start, remedies=equal), Step.EQUALISE)
        if thorough or not self.met:
            self._single_tensors(thorough)
        for step, name in ((Step.CORRECT, "correct"), (Step.ROUND, "round")):
            if self.met and not thorough:
                return
            candidate = self.best.candidate
            more = replace(candidate.remedies, **{name: True})
            trial = self.attempt(step, "", replace(candidate, remedies=more))
            self.take(trial, self._is_better(trial))

    def _single_tensors(self, thorough: bool) -> None:
        """Tensors with outliers under each other method."""
        assert self.best is not None
        for tensor in [d.tensor for d in self.found if d.cause is Cause.OUTLIERS][:MOST_TENSORS]:
            for method in METHODS:
                candidate = self.best.candidate
                scheme = candidate.scheme
                if method is scheme.methods.get(tensor, scheme.method):
                    continue
                other = replace(scheme, methods={**scheme.methods, tensor: method})
                detail = f"{short_name(tensor)}: {method}"
                trial = self.attempt(Step.TENSOR, detail, replace(candidate, scheme=other))
                self.take(trial, self._is_better(trial))
                if self.met and not thorough:
                    return

    def mixed(self) -> None:
        """The most sensitive nodes in 16 bits, else in float: as few as meet the bound."""
        assert self.best is not None
        base = self.best.candidate
        ranking = self._ranked(base)
        names = [name for item in ranking for name in item.nodes]
        for step, kind in ((Step.WIDE, Precision.INT16), (Step.FLOAT, Precision.FLOAT)):
            if self._fewest(base, names, step, kind):
                self._lowered(names)
                return

    def _ranked(self, base: Candidate) -> tuple[Sensitivity, ...]:
        variant = self.variant(base.remedies.equalise)
        few = self._validation.spread(RANKED_ON)
        self.ranking = sensitivities(
            Reference.of(variant.graph, few),
            self.ranges(base),
            base.scheme,
            tick=lambda done, total: self._tick("ranking layers", done, total),
        )
        return self.ranking

    def _fewest(self, base: Candidate, names: list[str], step: Step, kind: Precision) -> bool:
        """Double the number of raised nodes until the bound is met, then halve the step."""
        low, count = 0, 1
        high: int | None = None
        while high is None or high - low > 1:
            chosen = dict.fromkeys(names[:count], kind)
            scheme = replace(base.scheme, layers={**base.scheme.layers, **chosen})
            trial = self.attempt(step, str(len(chosen)), replace(base, scheme=scheme))
            holds = self._bounds.hold(trial.score, trial.price)
            dear = not self._bounds.affords(trial.price)
            useful = holds or (not dear and not self.met and self._is_better(trial))
            self.take(trial, useful)
            if holds:
                high = count
            else:
                low = count
            if high is None:
                if dear or count >= len(names):
                    return False
                count = min(2 * count, len(names))
            else:
                count = (low + high) // 2
        return True

    def _lowered(self, names: list[str]) -> None:
        """Raised nodes one by one back to integers where the bounds still hold: a node may only
        have been raised because a worse one stood behind it."""
        assert self.best is not None
        raised = [name for name in names if name in self.best.candidate.scheme.layers]
        for name in list(reversed(raised))[1 : MOST_LOWERED + 1]:
            candidate = self.best.candidate
            layers = {k: v for k, v in candidate.scheme.layers.items() if k != name}
            scheme = replace(candidate.scheme, layers=layers)
            trial = self.attempt(Step.LOWER, short_name(name), replace(candidate, scheme=scheme))
            self.take(trial, self._bounds.hold(trial.score, trial.price))

    def friendly(self) -> None:
        """Zero points that the NPU multiplies 8 by 8 bits with, where the bounds allow it."""
        best = self.best
        assert best is not None
        if best.price is None or best.price.narrow_share is None or best.price.narrow_share >= 1:
            return
        for share in SHARES:
            scheme = replace(best.candidate.scheme, zero_points=ZeroPoints.NPU, signed_share=share)
            trial = self.attempt(
                Step.ZERO_POINTS, f"{share:g}", replace(best.candidate, scheme=scheme)
            )
            now, before = trial.price, best.price
            assert now is not None
            faster = now.ms is not None and before.ms is not None and now.ms < before.ms
            holds = self._bounds.hold(trial.score, now)
            # a network that misses the bound may become faster, not worse
            same = not self.met and trial.score.key >= best.score.key
            if self.take(trial, faster and (holds or same)):
                return

    def finished(self) -> Search:
        """Everything, with the chosen network measured tensor by tensor."""
        assert self.best is not None
        candidate = self.best.candidate
        variant = self.variant(candidate.remedies.equalise)
        made, tuning = self.build(candidate)
        session = Session(
            self._original,
            variant.graph,
            candidate.scheme,
            variant.calibration,
            self.ranges(candidate),
            made,
            measure(variant.graph, made, self._validation.spread(RANKED_ON)),
            tuning,
        )
        return Search(
            tuple(self.trials),
            self.best,
            self._bounds,
            session,
            self.found,
            self.ranking,
        )


def search(
    graph: Graph,
    data: Dataset,
    bounds: Bounds,
    scheme: Scheme | None = None,
    *,
    validation: Dataset | None = None,
    pricing: Pricing | None = None,
    thorough: bool = False,
    engine: EngineName = EngineName.OWN,
    tick: Tick | None = None,
) -> Search:
    """Find a quantisation within bounds.

    Args:
        graph: float network.
        data: calibration samples.
        bounds: on quality and time.
        scheme: types at the ends, weights, and precisions that are not to be changed downwards.
        validation: samples the quality is measured on, with labels if it is to be accuracy;
            default: the calibration samples.
        pricing: price on a target; without it nothing is known of time.
        thorough: try remedies that cost nothing on the target even when the bound is met.
        engine: who runs the float network while it is observed.
        tick: told what is being done.

    Raises:
        UnsupportedError: the network is quantised already.
        UsageError: the data does not fit.
    """
    state = _Searcher(
        *(graph, data, validation or data, bounds, pricing, engine),
        tick or (lambda what, done, total: None),
    )
    state.methods(Candidate(scheme or Scheme()))
    if thorough or not state.met:
        state.remedies(thorough)
    if not state.met:
        state.mixed()
    state.friendly()
    return state.finished()

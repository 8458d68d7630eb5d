"""One quantisation from float graph to measured integer graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from npuforge.graph import Graph
from npuforge.quantize.build import Quantized, Tuning
from npuforge.quantize.calibrate import Calibration, calibrate, needs_histograms
from npuforge.quantize.choose import (
    Chooser,
    Judged,
    Variant,
    arranged,
    can_judge,
    held_out,
    is_small,
)
from npuforge.quantize.engines import EngineName
from npuforge.quantize.equalise import equalised
from npuforge.quantize.measure import Measurement, measure
from npuforge.quantize.prepare import prepared
from npuforge.quantize.ranges import Range
from npuforge.quantize.scheme import Scheme
from npuforge.quantize.statistics import Statistics, layer_inputs
from npuforge.quantize.tools import ToolName, quantize_by
from npuforge.quantize.tune import USUAL, Candidate, Remedies, tuned
from npuforge.tasks import Dataset

STUDIED = 64
"""Samples from which means and second moments of layer inputs are taken."""
MEANS_OF = 16
"""Samples for means alone: each holds every position of a tensor."""
Tick = Callable[[str, int, int], None]
"""(what, done, of how many)."""


@dataclass(frozen=True, eq=False)
class Session:
    """Everything that came of a quantisation.

    Attributes:
        original: the float network as it was read.
        prepared: with everything folded.
        scheme: what was asked.
        calibration: what was observed.
        ranges: the range of each activation.
        made: the quantised network.
        measured: it against the float one.
        tuning: changed numbers of layers.
        tried: the ways that were judged before one was chosen; empty where none was.
        tool: who made it; of another tool only the network is known, no calibration or ranges.
    """

    original: Graph
    prepared: Graph
    scheme: Scheme
    calibration: Calibration
    ranges: Mapping[str, Range]
    made: Quantized
    measured: Measurement
    tuning: Tuning
    tried: tuple[Judged, ...] = ()
    tool: ToolName = ToolName.OWN

    def range_of(self, tensor: str) -> Range:
        """The range of a float tensor; of another tool's network what the stored type reaches."""
        known = self.ranges.get(tensor)
        if known is not None:
            return known
        stored = self.made.graph.tensors[self.made.stored_as[tensor]]
        return Range(*stored.quant.range_of(stored.dtype))


def quantize_with(
    tool: ToolName,
    graph: Graph,
    data: Dataset,
    scheme: Scheme,
    *,
    measured_on: int = 32,
    tick: Tick | None = None,
) -> Session:
    """Have another tool calibrate and build; measured as `quantize` measures.

    Args:
        tool: who does it.
        graph, data, scheme, measured_on, tick: see `quantize`.

    Raises:
        ToolError, UsageError: see `quantize_by`.
    """
    say = tick or (lambda what, done, total: None)
    ready = prepared(graph)
    found = quantize_by(
        tool, ready, data, scheme, lambda done, total: say("calibrating", done, total)
    )
    made = found.as_quantized(ready)
    say("measuring", 0, 1)
    measured = measure(ready, made, data.spread(measured_on))
    return Session(
        graph, ready, scheme, Calibration({}, len(data)), {}, made, measured, Tuning(), (), tool
    )


def quantize(
    graph: Graph,
    data: Dataset,
    scheme: Scheme,
    *,
    engine: EngineName = EngineName.OWN,
    state: Path | None = None,
    measured_on: int = 32,
    remedies: Remedies | None = None,
    choose: bool = False,
    tick: Tick | None = None,
) -> Session:
    """Calibrate, choose ranges, build and measure.

    Args:
        graph: float network.
        data: calibration samples of its inputs.
        scheme: what is asked.
        engine: who runs the float network while it is observed.
        state: file for the state of an interrupted calibration.
        remedies: what is done beyond choosing ranges; `USUAL` by default.
        choose: take the range method, and of a small network without `remedies` these as well,
            that do best on samples kept apart (`Chooser`); with fewer than `LEAST` samples the
            scheme's own.
        measured_on: samples the result is compared with the float network on; 0: none.
        tick: told what is being done.

    Raises:
        UnsupportedError: the network is quantised already.
        ToolError: the engine is missing.
        UsageError: the data does not fit.
    """
    say = tick or (lambda what, done, total: None)
    ready = prepared(graph)
    chosen = Candidate(scheme, remedies or USUAL)
    hold = held_out(ready, len(data)) if choose else 0
    ordered = arranged(data, hold)
    fit = ordered.some(range(len(data) - hold))
    free = hold > 0 and remedies is None and is_small(ready)
    thorough = free or chosen.remedies.round or chosen.remedies.equalise
    few = fit.spread(STUDIED if thorough else MEANS_OF)

    def looked(graph: Graph, *, moments: bool = chosen.remedies.round) -> Statistics:
        if not (thorough or chosen.remedies.needs_statistics):
            return {}
        say("looking at layers", 0, 1)
        return layer_inputs(graph, few, moments=moments)

    def observed(graph: Graph, statistics: Statistics, state: Path | None = None) -> Variant:
        calibration = calibrate(
            graph,
            ordered,
            histograms=choose or needs_histograms(scheme),
            engine=engine,
            state=state,
            hold=hold,
            tick=lambda done, total: say("calibrating", done, total),
        )
        return Variant(graph, calibration, statistics)

    statistics = looked(ready)
    if chosen.remedies.equalise:
        ready, changed = equalised(ready, statistics)
        statistics = looked(ready) if changed else statistics
    first = chosen.remedies.equalise
    variants = {first: observed(ready, statistics, state)}
    tried: tuple[Judged, ...] = ()
    if can_judge(variants[first].calibration.held):
        chooser = Chooser(
            variants,
            lambda graph: observed(graph, looked(graph)),
            lambda graph: looked(graph, moments=True),
            remedies is None,
            lambda done: say("choosing", done, 0),
        )
        chosen, tried = chooser.run(chosen)
    best = variants[chosen.remedies.equalise]
    ranges = best.calibration.ranges(best.graph, chosen.scheme)
    say("building", 0, 1)
    made, tuning = tuned(best.graph, ranges, chosen.scheme, best.statistics, chosen.remedies)
    say("measuring", 0, 1)
    measured = measure(best.graph, made, data.spread(measured_on))
    return Session(
        graph, best.graph, chosen.scheme, best.calibration, ranges, made, measured, tuning, tried
    )

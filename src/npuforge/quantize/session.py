"""One quantisation from float graph to measured integer graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from npuforge.graph import Graph
from npuforge.quantize.build import Quantized, Tuning
from npuforge.quantize.calibrate import Calibration, calibrate, needs_histograms
from npuforge.quantize.engines import EngineName
from npuforge.quantize.equalise import equalised
from npuforge.quantize.measure import Measurement, measure
from npuforge.quantize.prepare import prepared
from npuforge.quantize.ranges import Range
from npuforge.quantize.scheme import Scheme
from npuforge.quantize.statistics import Statistics, layer_inputs
from npuforge.quantize.tune import Remedies, tuned
from npuforge.tasks import Dataset

STUDIED = 64
"""Samples from which means and second moments of layer inputs are taken."""
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
    """

    original: Graph
    prepared: Graph
    scheme: Scheme
    calibration: Calibration
    ranges: Mapping[str, Range]
    made: Quantized
    measured: Measurement
    tuning: Tuning


def quantize(
    graph: Graph,
    data: Dataset,
    scheme: Scheme,
    *,
    engine: EngineName = EngineName.OWN,
    state: Path | None = None,
    measured_on: int = 32,
    remedies: Remedies | None = None,
    tick: Tick | None = None,
) -> Session:
    """Calibrate, choose ranges, build and measure.

    Args:
        graph: float network.
        data: calibration samples of its inputs.
        scheme: what is asked.
        engine: who runs the float network while it is observed.
        state: file for the state of an interrupted calibration.
        remedies: what is done beyond choosing ranges.
        measured_on: samples the result is compared with the float network on; 0: none.
        tick: told what is being done.

    Raises:
        UnsupportedError: the network is quantised already.
        ToolError: the engine is missing.
        UsageError: the data does not fit.
    """
    say = tick or (lambda what, done, total: None)
    ready = prepared(graph)
    remedies = remedies or Remedies()
    statistics: Statistics = {}
    if remedies.needs_statistics:
        say("looking at layers", 0, 1)
        few = data.spread(STUDIED)
        statistics = layer_inputs(ready, few)
        if remedies.equalise:
            ready, changed = equalised(ready, statistics)
            statistics = layer_inputs(ready, few) if changed else statistics
    calibration = calibrate(
        ready,
        data,
        histograms=needs_histograms(scheme),
        engine=engine,
        state=state,
        tick=lambda done, total: say("calibrating", done, total),
    )
    ranges = calibration.ranges(ready, scheme)
    say("building", 0, 1)
    made, tuning = tuned(ready, ranges, scheme, statistics, remedies)
    say("measuring", 0, 1)
    measured = measure(ready, made, data.spread(measured_on))
    return Session(graph, ready, scheme, calibration, ranges, made, measured, tuning)

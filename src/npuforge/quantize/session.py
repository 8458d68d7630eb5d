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
from npuforge.quantize.tools import ToolName, quantize_by
from npuforge.quantize.tune import USUAL, Remedies, tuned
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
        graph, ready, scheme, Calibration({}, len(data)), {}, made, measured, Tuning(), tool
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
        measured_on: samples the result is compared with the float network on; 0: none.
        tick: told what is being done.

    Raises:
        UnsupportedError: the network is quantised already.
        ToolError: the engine is missing.
        UsageError: the data does not fit.
    """
    say = tick or (lambda what, done, total: None)
    ready = prepared(graph)
    remedies = remedies or USUAL
    statistics: Statistics = {}
    if remedies.needs_statistics:
        say("looking at layers", 0, 1)
        thorough = remedies.equalise or remedies.round
        few = data.spread(STUDIED if thorough else MEANS_OF)
        statistics = layer_inputs(ready, few, moments=remedies.round)
        if remedies.equalise:
            ready, changed = equalised(ready, statistics)
            if changed:
                statistics = layer_inputs(ready, few, moments=remedies.round)
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

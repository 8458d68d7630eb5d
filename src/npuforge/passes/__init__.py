"""The passes room: Graph → Graph, verified, measured on data, kept only when it pays."""

from npuforge.passes.boundary import BoundaryPass, Cut
from npuforge.passes.catalogue import BOUNDARY, PASSES
from npuforge.passes.framework import CHANNEL_AXIS, Edit, Exactness, Pass, apply_edits, pruned
from npuforge.passes.hazards import count_hazards, is_activation_link, is_strided_line
from npuforge.passes.measure import Difference, calibrated_inputs, output_difference, run
from npuforge.passes.optimize import (
    Judge,
    Optimization,
    Outcome,
    Score,
    Site,
    Status,
    optimize,
    pays,
    run_pieces,
)

__all__ = [
    "BOUNDARY",
    "CHANNEL_AXIS",
    "PASSES",
    "BoundaryPass",
    "Cut",
    "Difference",
    "Edit",
    "Exactness",
    "Judge",
    "Optimization",
    "Outcome",
    "Pass",
    "Score",
    "Site",
    "Status",
    "apply_edits",
    "calibrated_inputs",
    "count_hazards",
    "is_activation_link",
    "is_strided_line",
    "optimize",
    "output_difference",
    "pays",
    "pruned",
    "run",
    "run_pieces",
]

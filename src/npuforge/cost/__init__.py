"""The cost room: work of each step, time of each NPU epoch. It annotates; it places nothing."""

from npuforge.cost.neural_art import (
    Bottleneck,
    Calibration,
    EpochCost,
    NpuCost,
    load_calibration,
    npu_cost,
)
from npuforge.cost.work import Cost, StepWork, count_work

__all__ = [
    "Bottleneck",
    "Calibration",
    "Cost",
    "EpochCost",
    "NpuCost",
    "StepWork",
    "count_work",
    "load_calibration",
    "npu_cost",
]

"""The cost room: work of each step, time and energy of each NPU epoch. It places nothing."""

from npuforge.accelerators.neural_art.epochs import DEFAULT_RELEASE
from npuforge.cost.compiler import Compiler, compiler_rules
from npuforge.cost.constants import (
    Calibration,
    Constants,
    CpuKernel,
    format_calibration,
    load_calibration,
    read_calibration,
)
from npuforge.cost.epochs import EpochWork, epoch_works
from npuforge.cost.neural_art import EpochCost, NpuCost, npu_cost
from npuforge.cost.residence import Memory, Residence, activation_limits, place_activations
from npuforge.cost.timing import Bottleneck
from npuforge.cost.work import Cost, StepWork, copy_ms, count_work

__all__ = [
    "DEFAULT_RELEASE",
    "Bottleneck",
    "Calibration",
    "Compiler",
    "Constants",
    "Cost",
    "CpuKernel",
    "EpochCost",
    "EpochWork",
    "Memory",
    "NpuCost",
    "Residence",
    "StepWork",
    "activation_limits",
    "compiler_rules",
    "copy_ms",
    "count_work",
    "epoch_works",
    "format_calibration",
    "load_calibration",
    "npu_cost",
    "place_activations",
    "read_calibration",
]

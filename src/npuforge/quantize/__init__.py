"""The quantize room: calibration, ranges, int8 graph, sensitivity, mixed precision."""

from npuforge.quantize.build import Quantized, Tuning, quantize_graph
from npuforge.quantize.calibrate import Calibration, calibrate
from npuforge.quantize.engines import EngineName
from npuforge.quantize.measure import Fidelity, Measurement, measure
from npuforge.quantize.prepare import prepared
from npuforge.quantize.ranges import Range, RangeMethod
from npuforge.quantize.scheme import EndType, Granularity, Precision, Scheme, ZeroPoints
from npuforge.quantize.session import Session, quantize
from npuforge.quantize.tune import Remedies

__all__ = [
    "Calibration",
    "EndType",
    "EngineName",
    "Fidelity",
    "Granularity",
    "Measurement",
    "Precision",
    "Quantized",
    "Range",
    "RangeMethod",
    "Remedies",
    "Scheme",
    "Session",
    "Tuning",
    "ZeroPoints",
    "calibrate",
    "measure",
    "prepared",
    "quantize",
    "quantize_graph",
]

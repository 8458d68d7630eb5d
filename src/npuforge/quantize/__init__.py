"""The quantize room: calibration, ranges, int8 graph, sensitivity, mixed precision."""

from npuforge.quantize.audit import AuditFinding, Fault, audit
from npuforge.quantize.build import Quantized, Tuning, quantize_graph
from npuforge.quantize.calibrate import Calibration, calibrate
from npuforge.quantize.choose import Judged
from npuforge.quantize.diagnose import Cause, Diagnosis
from npuforge.quantize.engines import EngineName
from npuforge.quantize.measure import Fidelity, Measurement, measure
from npuforge.quantize.prepare import prepared
from npuforge.quantize.price import Price, Pricing
from npuforge.quantize.ranges import Range, RangeMethod
from npuforge.quantize.restore import restored
from npuforge.quantize.scheme import EndType, Granularity, Precision, Scheme, ZeroPoints
from npuforge.quantize.score import Quality, Reference, Score
from npuforge.quantize.search import Bounds, Search, Step, Trial, search
from npuforge.quantize.sensitivity import Grouping, Sensitivity, sensitivities
from npuforge.quantize.session import Session, quantize, quantize_with
from npuforge.quantize.survey import Survey, survey
from npuforge.quantize.tools import Foreign, ToolName, quantize_by
from npuforge.quantize.tune import USUAL, Candidate, Remedies

__all__ = [
    "USUAL",
    "AuditFinding",
    "Bounds",
    "Calibration",
    "Candidate",
    "Cause",
    "Diagnosis",
    "EndType",
    "EngineName",
    "Fault",
    "Fidelity",
    "Foreign",
    "Granularity",
    "Grouping",
    "Judged",
    "Measurement",
    "Precision",
    "Price",
    "Pricing",
    "Quality",
    "Quantized",
    "Range",
    "RangeMethod",
    "Reference",
    "Remedies",
    "Scheme",
    "Score",
    "Search",
    "Sensitivity",
    "Session",
    "Step",
    "Survey",
    "ToolName",
    "Trial",
    "Tuning",
    "ZeroPoints",
    "audit",
    "calibrate",
    "measure",
    "prepared",
    "quantize",
    "quantize_by",
    "quantize_graph",
    "quantize_with",
    "restored",
    "search",
    "sensitivities",
    "survey",
]

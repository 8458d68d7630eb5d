"""The validate room: metrics, comparison layer by layer, oracles."""

from npuforge.validate.compare import Comparer, Comparison, TensorComparison, dequantized
from npuforge.validate.metrics import METRICS, all_metrics
from npuforge.validate.oracles import Oracle, oracle_for
from npuforge.validate.session import (
    Check,
    OutputMetrics,
    Status,
    Validation,
    check_emulated,
    check_host,
    not_run,
)

__all__ = [
    "METRICS",
    "Check",
    "Comparer",
    "Comparison",
    "Oracle",
    "OutputMetrics",
    "Status",
    "TensorComparison",
    "Validation",
    "all_metrics",
    "check_emulated",
    "check_host",
    "dequantized",
    "not_run",
    "oracle_for",
]

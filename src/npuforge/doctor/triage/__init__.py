"""Triage of a failing inference: which wrong input or output handling gives the bad result."""

from npuforge.doctor.triage.causes import Cause, Verdict
from npuforge.doctor.triage.recorded import Recorded, read_recorded
from npuforge.doctor.triage.search import Triage, triage

__all__ = ["Cause", "Recorded", "Triage", "Verdict", "read_recorded", "triage"]

"""The doctor: rules over the artefacts of a deployment, which give findings."""

from npuforge.doctor.catalogue import CHECKS, RULES, diagnose
from npuforge.doctor.findings import (
    Check,
    Confidence,
    Diagnosis,
    Evidence,
    Finding,
    Rule,
)
from npuforge.doctor.project import Artefact, Project, collect

__all__ = [
    "CHECKS",
    "RULES",
    "Artefact",
    "Check",
    "Confidence",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Project",
    "Rule",
    "collect",
    "diagnose",
]

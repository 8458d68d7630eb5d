"""Audits of calibration samples as sentences and documents."""

from __future__ import annotations

from collections import Counter
from typing import Any

from npuforge.messages import parts, text
from npuforge.quantize import AuditFinding, Survey
from npuforge.quantize.audit import worst_outside


def finding_words(item: AuditFinding) -> tuple[str, str]:
    """What is wrong, and the remedy."""
    found = parts(item.fault.value, item.figures)
    return found["message"], found["hint"]


def sound_words(own: Survey, reference: Survey | None) -> str:
    """What was looked at, where nothing was found."""
    classes = len(Counter(c for c in own.labels if c is not None) or Counter(own.predicted))
    if reference is None:
        return text("AUD-sound-alone", samples=own.samples, classes=classes)
    outside = f"{worst_outside(own, reference)[1]:.2%}"
    return text("AUD-sound", samples=own.samples, classes=classes, outside=outside)


def audit_document(
    model: str, own: Survey, reference: Survey | None, found: tuple[AuditFinding, ...]
) -> dict[str, Any]:
    """An audit as a JSON document."""
    return {
        "schema": "npuforge.audit/1",
        "model": model,
        "samples": own.samples,
        "reference": None if reference is None else reference.samples,
        "channel_means": own.means.mean(axis=0).tolist(),
        "limits": [own.low.tolist(), own.high.tolist()],
        "step": own.step.tolist(),
        "findings": [
            {"fault": item.fault.value, "message": finding_words(item)[0], "figures": item.figures}
            for item in found
        ],
    }

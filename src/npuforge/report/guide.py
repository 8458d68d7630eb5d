"""The document of a guided search: what `npuforge doctor --guide --json` prints."""

from __future__ import annotations

from typing import Any

from npuforge.doctor.guide import Advice


def advice_document(advice: Advice) -> dict[str, Any]:
    """Ranked causes as JSON data, schema npuforge.advice/1."""
    return {
        "schema": "npuforge.advice/1",
        "symptom": advice.symptom,
        "asked": list(advice.asked),
        "known_from_files": list(advice.known),
        "causes": [
            {
                "cause": cause.id,
                "weight": cause.weight,
                "message": cause.message,
                "action": cause.action,
                "findings": list(cause.findings),
            }
            for cause in advice.causes
        ],
    }

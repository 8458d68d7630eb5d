"""Evaluations as documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuforge.report.quantization import finite
from npuforge.validate.evaluate import Evaluation, TaskName


def evaluation_document(
    task: TaskName, samples: int, found: Sequence[Evaluation]
) -> dict[str, Any]:
    """Evaluations as a JSON document; figures that are no number are null."""
    return {
        "schema": "npuforge.evaluation/1",
        "task": task.value,
        "samples": samples,
        "networks": [
            {
                "name": item.name,
                "figures": {name: finite(value) for name, value in item.figures.items()},
                "agreement": item.agreement,
                "sqnr_db": None if item.sqnr is None else finite(item.sqnr),
                "cosine": item.cosine,
            }
            for item in found
        ],
    }

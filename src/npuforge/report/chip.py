"""The document of a comparison with the chip's arithmetic."""

from __future__ import annotations

from typing import Any

from npuforge.validate.neural_art import ChipValidation


def chip_document(validation: ChipValidation) -> dict[str, Any]:
    """Each tensor's deviation and its stages, saturation and headroom; the outputs' metrics."""
    return {
        "schema": "npuforge.chip/1",
        "contract": validation.contract,
        "samples": validation.samples,
        "failed": validation.failed,
        "tensors": [
            {
                "tensor": entry.tensor,
                "node": entry.node,
                "op": entry.op,
                "unit": entry.unit,
                "grade": entry.grade,
                "values": entry.values,
                "differing": entry.differing,
                "largest": entry.largest,
                "stages": dict(entry.stages),
                "saturated": entry.saturated,
                "headroom_bits": entry.headroom,
                "unexplained": entry.unexplained,
            }
            for entry in validation.deviations
        ],
        "outputs": [
            {"tensor": output.tensor, "metrics": dict(output.values)}
            for output in validation.outputs
        ],
    }

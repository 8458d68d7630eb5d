"""Conversions as documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npuforge.exporters import Conversion


def conversion_document(made: Conversion, output: Path) -> dict[str, Any]:
    """A summary of a conversion as a JSON document."""
    return {
        "schema": "npuforge.conversion/1",
        "model": made.graph.name,
        "output": str(output),
        "format": str(made.format),
        "bytes": len(made.content),
        "nodes": len(made.graph.nodes),
        "tensors": len(made.graph.tensors),
        "changed": [
            {"node": node.name, "op": node.op, "contract": str(node.contract)}
            for node in made.changed
        ],
    }

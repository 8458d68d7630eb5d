"""The document of a run: results in numbers, and the evidence behind the chip's arithmetic."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npuforge.errors import UsageError
from npuforge.graph import Array, Graph
from npuforge.numerics.neural_art import CONTRACTS, grade, unit_of
from npuforge.report.bundle import write_file


def run_document(
    graph: Graph, arrays: Mapping[str, Array], samples: int, output: Path | None
) -> dict[str, Any]:
    """A summary of results as a JSON document."""
    tensors = []
    for name, array in arrays.items():
        numbers = array.astype(np.float64)
        tensors.append(
            {
                "tensor": name,
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "min": float(numbers.min(initial=np.inf)),
                "max": float(numbers.max(initial=-np.inf)),
                "mean": float(numbers.mean()) if array.size else 0.0,
                "argmax": int(numbers.argmax()) if array.size else -1,
            }
        )
    return {
        "schema": "npuforge.run/1",
        "model": graph.name,
        "samples": samples,
        "output": None if output is None else str(output),
        "tensors": tensors,
        "evidence": evidence(graph),
    }


def evidence(graph: Graph) -> list[dict[str, str]]:
    """Per node, how well it is proved that its arithmetic is the NPU's; empty for other contracts.

    With the unit that computes it. Grades: A equal to outputs of a board, B compiled networks
    agree, C forced by the register header or by consistency, D best guess or the model file's rule
    in place of a CPU library.
    """
    if all(node.contract not in CONTRACTS for node in graph.nodes):
        return []
    return [
        {
            "node": node.name,
            "op": node.op,
            "contract": str(node.contract),
            "unit": str(unit_of(graph, node)),
            "grade": str(grade(graph, node)),
        }
        for node in graph.nodes
    ]


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write results as .npz, or a single result as .npy, atomically.

    Raises:
        UsageError: the file cannot be written, or .npy was asked for several arrays.
    """
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npy":
        if len(arrays) != 1:
            raise UsageError("OUT-004", path=path, count=len(arrays))
        np.save(buffer, next(iter(arrays.values())), allow_pickle=False)
    else:
        # written by hand: tensor names may be anything, np.savez takes them as keywords
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    write_file(path, buffer.getvalue())

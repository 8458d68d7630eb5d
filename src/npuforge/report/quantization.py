"""Quantised models as files and documents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from npuforge.errors import ValidationError
from npuforge.exporters import Conversion, Format, convert, format_of
from npuforge.importers import load_model
from npuforge.passes import Difference, output_difference, run
from npuforge.quantize import Fidelity, Judged, RangeMethod, Session
from npuforge.quantize.measure import quantised_inputs
from npuforge.report.bundle import check_writable, write_file
from npuforge.tasks import Dataset

COMPARED = 4
"""Samples on which the written file is compared with the graph."""


@dataclass(frozen=True, eq=False)
class QuantizedFile:
    """A quantised model on disk.

    Attributes:
        path: the model.
        conversion: what was written.
        difference: of its outputs, read again, to those of the graph.
        preprocessing: the declaration beside it, or None.
    """

    path: Path
    conversion: Conversion
    difference: Difference
    preprocessing: Path | None


def preprocessing_path(model: Path) -> Path:
    """Where the preprocessing of a model is declared."""
    return model.with_name(f"{model.stem}.preprocess.toml")


def check_outputs(path: Path, *, replace: bool) -> None:
    """Refuse a file that cannot be written or exists.

    Raises:
        UsageError: the name or the place will not do.
    """
    format_of(path)
    check_writable(path, replace=replace)
    check_writable(preprocessing_path(path), replace=replace)


def write_quantized(session: Session, data: Dataset, path: Path) -> QuantizedFile:
    """Write the model and its preprocessing; read it again and compare.

    Raises:
        UnsupportedError: the format cannot express a node.
        ValidationError: a TFLite file computes something else than the graph.
    """
    target = format_of(path)
    graph = session.made.graph
    conversion = convert(graph, target)
    with TemporaryDirectory(prefix="npuforge-") as folder:
        trial = Path(folder) / path.name
        write_file(trial, conversion.content)
        again = load_model(trial)
    samples = [
        quantised_inputs(session.prepared, graph, sample.inputs) for sample in data.spread(COMPARED)
    ]
    renamed = [dict(zip(again.inputs, sample.values(), strict=True)) for sample in samples]
    results = [
        dict(zip(graph.outputs, result.values(), strict=True)) for result in run(again, renamed)
    ]
    found = output_difference(graph, run(graph, samples), results)
    if target is Format.TFLITE and not found.is_zero:
        raise ValidationError("QNT-008", path=path, difference=f"{found.relative:.3g}")
    write_file(path, conversion.content)
    beside = None
    if any(sample.pixels is not None for sample in data.spread(1)):
        beside = preprocessing_path(path)
        write_file(beside, data.pre.to_toml().encode())
    return QuantizedFile(path, conversion, found, beside)


def finite(value: float) -> float | None:
    """A number as JSON can hold it; null for an infinite one."""
    return value if math.isfinite(value) else None


def fidelity_document(item: Fidelity) -> dict[str, Any]:
    """Error of one tensor; `sqnr_db` is null without any error."""
    return {
        "tensor": item.tensor,
        "node": item.node,
        "op": item.op,
        "sqnr_db": finite(item.sqnr),
        "cosine": item.cosine,
        "largest": item.largest,
        "saturated": item.saturated,
    }


def quantization_document(session: Session, written: QuantizedFile | None) -> dict[str, Any]:
    """A quantisation as a JSON document."""
    scheme, measured = session.scheme, session.measured
    return {
        "schema": "npuforge.quantization/1",
        "model": session.original.name,
        "tool": session.tool.value,
        "method": scheme.method.value,
        "percentile": scheme.percentile if scheme.method is RangeMethod.PERCENTILE else None,
        "tried": [_judged_document(item) for item in session.tried],
        "weights": scheme.weights.value,
        "zero_points": scheme.zero_points.value,
        "base": scheme.base.value,
        "int4": sorted(scheme.int4),
        "rounded": sorted(session.tuning.stored),
        "corrected": sorted(session.tuning.bias),
        "samples": session.calibration.samples,
        "resumed": session.calibration.resumed,
        "measured_on": measured.samples,
        "agreement": measured.agreement,
        "outputs": [fidelity_document(item) for item in measured.outputs],
        "tensors": [
            {
                **fidelity_document(item),
                "range": [(span := session.range_of(item.tensor)).low, span.high],
            }
            for item in measured.tensors
        ],
        "float_nodes": sorted(
            name for name, kind in session.made.assignment.precisions.items() if kind == "float"
        ),
        "file": None if written is None else _file_document(written),
    }


def _judged_document(item: Judged) -> dict[str, Any]:
    scheme = item.candidate.scheme
    return {
        "method": scheme.method.value,
        "percentile": scheme.percentile if scheme.method is RangeMethod.PERCENTILE else None,
        "remedies": list(item.candidate.remedies.options),
        "sqnr_db": finite(item.decibels),
        "chosen": item.chosen,
    }


def _file_document(written: QuantizedFile) -> dict[str, Any]:
    return {
        "path": str(written.path),
        "format": str(written.conversion.format),
        "bytes": len(written.conversion.content),
        "preprocessing": None if written.preprocessing is None else str(written.preprocessing),
        "steps": written.difference.steps,
        "relative": written.difference.relative,
    }

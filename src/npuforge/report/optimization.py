"""Optimised models as documents and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from npuforge.errors import UnsupportedError, UsageError, ValidationError
from npuforge.exporters import Conversion, convert, format_of
from npuforge.graph import Array, Graph
from npuforge.importers import load_model
from npuforge.messages import text
from npuforge.passes import (
    BOUNDARY,
    PASSES,
    BoundaryPass,
    Difference,
    Judge,
    Optimization,
    Outcome,
    Pass,
    Score,
    output_difference,
    run,
    run_pieces,
)
from npuforge.report.bundle import check_writable, write_file


@dataclass(frozen=True, eq=False)
class Written:
    """An optimised model as files.

    Attributes:
        path: the model.
        conversion: what was written.
        score: figures of the model as it is read again.
        difference: of its outputs, read again, to those of the graph that was written.
        parts: files of what was taken off: "head" and "tail".
        unwritten: why a part could not be written in the format, by part.
    """

    path: Path
    conversion: Conversion
    score: Score
    difference: Difference
    parts: Mapping[str, Path]
    unwritten: Mapping[str, str]


def choose_passes(
    names: Sequence[str], skip: Sequence[str], cut: bool
) -> tuple[list[Pass], list[BoundaryPass]]:
    """The passes that are wanted, in the order they are tried.

    Args:
        names: only these; all that keep inputs and outputs when empty.
        skip: none of these.
        cut: with an empty `names`, those that change the interface too.

    Raises:
        UsageError: there is no pass with one of the names.
    """
    known = [item.code for item in PASSES] + [item.code for item in BOUNDARY]
    for name in (*names, *skip):
        if name not in known:
            raise UsageError("OPT-001", name=name)
    chosen = {code for code in known if (code in names or not names) and code not in skip}
    ends = [item for item in BOUNDARY if item.code in chosen and (cut or item.code in names)]
    return [item for item in PASSES if item.code in chosen], ends


def check_outputs(path: Path, *, replace: bool) -> None:
    """Refuse a file, or a name of its parts, that cannot be written or exists.

    Raises:
        UsageError: the name or the place will not do.
    """
    format_of(path)
    for one in (path, part_path(path, "head"), part_path(path, "tail")):
        check_writable(one, replace=replace)


def write_optimized(
    made: Optimization, samples: Sequence[Mapping[str, Array]], path: Path, judge: Judge
) -> Written:
    """Write the optimised graph, and what was taken off beside it; read it again and compare.

    Args:
        made: the optimisation.
        samples: inputs of the original graph.
        path: file to write, ending in .tflite or .onnx; parts are called NAME.head and NAME.tail.
        judge: figures of the file that was written.

    Raises:
        UnsupportedError: the format cannot express a node.
        ValidationError: the file, in the model's own format, computes something else than the
            graph. Into the other format the difference is only reported.
    """
    target = format_of(path)
    conversion = convert(made.graph, target)
    with TemporaryDirectory(prefix="npuforge-") as folder:
        trial = Path(folder) / path.name
        write_file(trial, conversion.content)
        again = load_model(trial)
    found = _file_difference(made, conversion.graph, again, samples)
    if made.original.source == target.value and found.relative > 1e-5:
        raise ValidationError("OPT-002", path=path, difference=f"{found.relative:.3g}")
    write_file(path, conversion.content)
    parts: dict[str, Path] = {}
    unwritten: dict[str, str] = {}
    for label, pieces in (("head", made.heads), ("tail", made.tails)):
        for piece in pieces:
            name = part_path(path, label)
            try:
                write_file(name, convert(piece, target).content)
                parts[label] = name
            except UnsupportedError as error:
                unwritten[label] = error.message
    return Written(path, conversion, judge.score(again), found, parts, unwritten)


def part_path(path: Path, label: str) -> Path:
    """Where a part that was taken off is written."""
    return path.with_name(f"{path.stem}.{label}{path.suffix}")


def _file_difference(
    made: Optimization,
    graph: Graph,
    again: Graph,
    samples: Sequence[Mapping[str, Array]],
) -> Difference:
    """Between a graph and the graph read from the file it was written to."""
    values = run_pieces(made.heads, samples)
    inputs = [{name: value[name] for name in graph.inputs} for value in values]
    renamed = [dict(zip(again.inputs, sample.values(), strict=True)) for sample in inputs]
    results = [
        dict(zip(graph.outputs, result.values(), strict=True)) for result in run(again, renamed)
    ]
    return output_difference(graph, run(graph, inputs), results)


def optimization_document(made: Optimization, written: Written | None) -> dict[str, Any]:
    """An optimisation as a JSON document."""
    return {
        "schema": "npuforge.optimization/1",
        "model": made.original.name,
        "samples": made.samples,
        "before": score_document(made.before),
        "after": score_document(made.after),
        "difference": asdict(made.difference),
        "passes": [outcome_document(outcome) for outcome in made.outcomes],
        "inputs": list(made.graph.inputs),
        "outputs": list(made.graph.outputs),
        "file": None if written is None else _file_document(written),
    }


def _file_document(written: Written) -> dict[str, Any]:
    return {
        "path": str(written.path),
        "format": str(written.conversion.format),
        "bytes": len(written.conversion.content),
        "score": score_document(written.score),
        "difference": asdict(written.difference),
        "changed": [node.name for node in written.conversion.changed],
        "parts": {label: str(path) for label, path in written.parts.items()},
        "unwritten": dict(written.unwritten),
    }


def score_document(score: Score) -> dict[str, Any]:
    """Figures of a graph."""
    return asdict(score)


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """What became of one pass."""
    return {
        "pass": outcome.code,
        "status": outcome.status.value,
        "says": text(f"PASS-{outcome.status.value}", reason=outcome.reason),
        "exactness": outcome.exactness.value,
        "bound": outcome.bound,
        "worst_steps": outcome.worst.steps,
        "output": asdict(outcome.output),
        "refused": outcome.refused,
        "before": score_document(outcome.before),
        "after": score_document(outcome.after),
        "sites": [
            {
                "removed": list(site.removed),
                "added": list(site.added),
                "steps": site.difference.steps,
            }
            for site in outcome.sites
        ],
    }


def same(difference: Difference) -> str:
    """A difference in words for a table."""
    if difference.is_zero:
        return "0"
    return f"{difference.relative:.3%}"

"""The lint room: what in a model will make trouble on Neural-ART, before it is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from npuforge.errors import NpuforgeError, UsageError
from npuforge.graph import Array, Graph
from npuforge.importers import Shapes, load_model
from npuforge.lint.files import read_facts
from npuforge.lint.findings import LintFinding, LintRule, findings
from npuforge.lint.rules_data import RULES as DATA_RULES
from npuforge.lint.rules_data import overflow
from npuforge.lint.rules_file import RULES as FILE_RULES
from npuforge.lint.rules_graph import RULES as GRAPH_RULES
from npuforge.lint.subject import FileFacts, FileNode, Subject
from npuforge.tasks import ImageRange, load_samples

__all__ = [
    "RULES",
    "FileFacts",
    "FileNode",
    "LintFinding",
    "LintRule",
    "Subject",
    "findings",
    "lint_file",
    "lint_graph",
    "overflow",
    "read_facts",
]

RULES: tuple[LintRule, ...] = (*FILE_RULES, *GRAPH_RULES, *DATA_RULES)
"""All rules, in the order their findings are listed within a severity."""


def lint_file(
    path: Path,
    data: Sequence[Path] = (),
    *,
    shapes: Shapes | None = None,
    image_range: ImageRange | None = None,
    graph: Graph | None = None,
) -> tuple[LintFinding, ...]:
    """Findings on a model file, and on inputs where some are given.

    Args:
        path: TFLite or ONNX file.
        data: inputs; see `npuforge.tasks.load_samples`.
        shapes: what takes the place of free dimensions; see `load_model`.
        image_range: what black and white are to the network; guessed when None.
        graph: the model as it was read already.

    Raises:
        UsageError: a file is missing or cannot be read.
        ModelError: the model file is damaged.
    """
    facts = read_facts(path)
    refusal: NpuforgeError | None = None
    if graph is None:
        try:
            graph = load_model(path, shapes)
        except UsageError:
            raise
        except NpuforgeError as error:
            refusal = error
    if graph is None or not data:
        return findings(RULES, Subject(path, facts, graph, refusal))
    try:
        loaded = load_samples(data, graph, image_range=image_range)
    except UsageError as error:
        if error.code not in ("INP-004", "INP-005"):
            raise
        return findings(RULES, Subject(path, facts, graph, sample_fault=error))
    samples = [dict(sample) for sample in loaded.samples]
    given = _real_inputs(graph, samples)
    return findings(RULES, Subject(path, facts, graph, None, samples, given))


def lint_graph(graph: Graph, facts: FileFacts | None = None) -> tuple[LintFinding, ...]:
    """Findings on a graph that has no file."""
    known = facts or FileFacts(graph.name, graph.source)
    return findings(RULES, Subject(Path(graph.name), known, graph))


def _real_inputs(graph: Graph, samples: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """All samples of each input as real numbers."""
    real: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        stacked = np.stack([sample[name] for sample in samples])
        if tensor.dtype.is_float:
            real[name] = stacked
        elif tensor.quantization is not None and tensor.quantization.axis is None:
            real[name] = tensor.quant.real(stacked)
    return real

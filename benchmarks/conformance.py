"""Every model file, every tensor, three inputs, against the oracle of its format.

    python benchmarks/conformance.py --json benchmarks/results/conformance.json
    python benchmarks/conformance.py --page docs/reference/conformance.md

The first command measures and stores; `--only TEXT` measures the files whose name holds the text
and keeps the other rows. The second writes the page from the stored results, measuring nothing.

Inputs: uniform random values over the whole range of the type; a smooth picture, as cameras give;
patches of the smallest and the largest value. TFLite files are compared with LiteRT's reference
kernels in one run from the input, networks LiteRT refuses with tflite-micro's; ONNX files layer by
layer with ONNX Runtime's kernels fed with our tensors, because its own rounding differs between
processors only where kernels are not integer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from common import ROOT, every_model, report
from pictures import patches, smooth

from npuforge.errors import ToolError
from npuforge.graph import Array, Graph
from npuforge.importers import load_model, read_model_bytes
from npuforge.numerics import Executor, random_inputs, with_contract
from npuforge.validate import Comparer, Oracle, oracle_for
from npuforge.validate.onnx_layers import OnnxRuntimeLayers, cpu_features
from npuforge.vocab import Contract

STORED = ROOT / "benchmarks" / "results" / "conformance.json"


@dataclass(frozen=True)
class Row:
    """What was found in one model file.

    Attributes:
        model: file name.
        oracle: what it was compared with.
        nodes: of the graph.
        tensors: compared, of those that nodes make; summed over the inputs.
        made: tensors that nodes make, summed over the inputs.
        values: numbers compared.
        mismatches: of integers that had to be equal.
        float_mismatches: floats beyond 1e-5 of the largest magnitude in their tensor.
        float_error: largest relative difference of a float tensor.
        within: integers one step off where no integer rule exists.
        within_values: how many integers that bar was applied to.
        beyond: those more than one step off.
        first: the first tensor that differs beyond its bar, with its operator.
    """

    model: str
    oracle: str
    nodes: int
    tensors: int
    made: int
    values: int
    mismatches: int
    float_mismatches: int
    float_error: float
    within: int
    within_values: int
    beyond: int
    first: str


def inputs_of(graph: Graph, seed: int) -> Iterator[dict[str, Array]]:
    rng = np.random.default_rng(seed)
    yield random_inputs(graph, rng)
    for make in (smooth, patches):
        yield {name: make(graph.tensors[name], rng) for name in graph.inputs}


def float_error(graph: Graph, truth: Mapping[str, Array], ours: Mapping[str, Array]) -> float:
    """Largest difference of a float tensor, relative to its largest finite magnitude."""
    worst = 0.0
    for name, value in truth.items():
        if name not in ours or not graph.tensors[name].dtype.is_float:
            continue
        a, b = value.astype(np.float64).ravel(), ours[name].astype(np.float64).ravel()
        finite = np.isfinite(a) & np.isfinite(b)
        top = float(np.abs(a[finite]).max(initial=0.0))
        gap = float(np.abs(a - b)[finite].max(initial=0.0))
        worst = max(worst, gap / top if top else gap)
    return worst


def oracle_of(path: Path, graph: Graph) -> tuple[Oracle, Graph]:
    """What shows the true tensors, and the graph under that one's contract."""
    content = read_model_bytes(path)
    try:
        return oracle_for(graph, content, path.parent), graph
    except ToolError as error:
        if error.code != "VAL-004":
            raise
    # an operator LiteRT's reference resolver lacks
    graph = with_contract(graph, Contract.TFLITE_MICRO)
    return oracle_for(graph, content, path.parent), graph


def measure(path: Path) -> Row:
    """Every tensor of a file: TFLite in one run from the input, ONNX layer by layer."""
    oracle, graph = oracle_of(path, load_model(path))
    executor = Executor(graph, capture=True)
    comparer = Comparer(graph)
    relative = 0.0
    for sample in inputs_of(graph, 5):
        executor.run(sample)
        ours = executor.read(executor.activations())
        truth = oracle.tensors(sample, ours)
        comparer.add(truth, ours)
        relative = max(relative, float_error(graph, truth, ours))
    result = comparer.result()
    pieces = oracle.pieces if isinstance(oracle, OnnxRuntimeLayers) else {}
    ruleless = {name for name, piece in pieces.items() if not piece.is_qlinear}
    mismatches = floats = within = within_values = beyond = 0
    first = ""
    for entry in result.tensors:
        wrong = entry.mismatches
        if graph.tensors[entry.tensor].dtype.is_float:
            floats += wrong
        elif entry.tensor in ruleless:
            near = entry.histogram.get(-1, 0) + entry.histogram.get(1, 0)
            within_values += entry.values
            within += near
            wrong -= near
            beyond += wrong
        else:
            mismatches += wrong
        if wrong and not first:
            first = f"{entry.tensor} ({entry.op})"
    made = len(executor.activations()) * result.samples
    return Row(
        path.name, oracle.name, len(graph.nodes), len(result.tensors) * result.samples, made,
        sum(entry.values for entry in result.tensors), mismatches, floats, relative, within,
        within_values, beyond, first,
    )  # fmt: skip


def page(rows: list[Row]) -> str:
    """The documentation page of the results."""
    lines = [
        "<!-- generated by `python benchmarks/conformance.py --page`; do not edit -->",
        "",
        "# Conformance of the published models",
        "",
        f"{len(rows)} model files, three inputs each (random, smooth, patches of extremes), every",
        "tensor that a node makes and its oracle shows. TFLite files run once from the input in",
        "LiteRT with its reference kernels, in tflite-micro where LiteRT refuses the file; ONNX",
        "files layer by layer in ONNX Runtime, fed with our tensors: its integer kernels must be",
        "equal, other nodes within one step, counted here as `within a step`. Float tensors may",
        "differ by 1e-5 of their largest magnitude. Tensors an oracle does not show are inside of",
        "a piece that it runs as one kernel, or views.",
        "",
        "| model | oracle | tensors (of) | values | mismatches | float beyond | within a step |"
        " first that differs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        within = f"{row.within} of {row.within_values}" if row.within_values else ""
        bad = row.mismatches + row.beyond
        lines.append(
            f"| {row.model} | {row.oracle.partition(' on ')[0]} | {row.tensors} ({row.made}) "
            f"| {row.values:,} | {bad} | {row.float_mismatches} | {within} "
            f"| {row.first.replace('|', '/')} |"
        )
    total = sum(row.values for row in rows)
    wrong = sum(row.mismatches + row.beyond for row in rows)
    off = sum(row.within for row in rows)
    lines += [
        "",
        f"In all {total:,} values, {wrong} mismatches, {off} within a step, float tensors at most",
        f"{max((row.float_error for row in rows), default=0.0):.1e} apart.",
        "",
    ]
    return "\n".join(lines)


def load(path: Path) -> dict[str, Row]:
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["model"]: Row(**row) for row in stored}


def store(path: Path, rows: dict[str, Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"processor": cpu_features(), "rows": [asdict(rows[name]) for name in sorted(rows)]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure and store, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=STORED, help="file of the results")
    parser.add_argument("--only", default="", help="part of the file names to measure")
    parser.add_argument("--page", type=Path, help="write the page of the stored results")
    options = parser.parse_args()
    rows = load(options.json)
    if options.page is None:
        for path in every_model():
            if options.only not in path.name:
                continue
            row = measure(path)
            rows[row.model] = row
            print(row.model, row.mismatches, row.float_mismatches, row.beyond, row.first,
                  flush=True)  # fmt: skip
            store(options.json, rows)
        ordered = [rows[name] for name in sorted(rows)]
        columns = ("model", "tensors", "values", "mismatches", "float beyond", "within a step")
        cells = [
            (
                r.model[:50],
                r.tensors,
                r.values,
                r.mismatches + r.beyond,
                r.float_mismatches,
                r.within,
            )
            for r in ordered
        ]
        report("conformance", columns, cells, None, models=len(ordered))
    else:
        options.page.write_text(page([rows[name] for name in sorted(rows)]), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Compiled networks end to end, every buffer against its model, and against the Graph path.

    python benchmarks/compiled_networks.py --json benchmarks/results/compiled_networks.json
    python benchmarks/compiled_networks.py --page docs/reference/compiled_networks.md

Each network of the measurement data runs on random bytes and on a photograph. Epoch by epoch it
is fed with the reference's tensors; each value must lie within the bound that the chip's arithmetic
has there. Then the same inputs go through the Graph path with constants, passes and tables taken
from the program, nothing injected: every buffer that is a tensor must be equal. Networks of other
projects are measured too when NPUFORGE_PROGRAMS names them, as CODE=MODEL separated by the path
separator. `--page` writes the page from the stored results. The exit code is 1 when a value is
outside its bound or the two paths differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, report, shared_folder
from PIL import Image

from npuforge import api
from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.load import load_compiled
from npuforge.graph import Array
from npuforge.importers import load_model
from npuforge.numerics.neural_art import NeuralArtExecutor
from npuforge.validate.buffers import model_input
from npuforge.validate.program import (
    BufferComparison,
    ProgramComparison,
    compare_program,
    compare_with_model,
)
from npuforge.vocab import Contract

STORED = ROOT / "benchmarks" / "results" / "compiled_networks.json"
PHOTOGRAPH = ROOT / "examples" / "visual_wake_words" / "person.png"
KINDS = ("random", "photograph")
COLUMNS = (
    "network", "compiler", "input", "epochs", "buffers", "equal", "within 1", "beyond 1",
    "outside bound", "no bound", "not alone", "no tensor", "unchecked", "values", "differ %",
    "Graph path: buffers", "differing",
)  # fmt: skip
DETAILS = (
    "network", "input", "epoch", "buffer", "largest", "bound", "outside", "differing", "values",
    "saturated", "causes",
)  # fmt: skip


def programs() -> list[tuple[str, Path, Path]]:
    """Name, code and model of every network to measure."""
    shared = shared_folder()
    found = []
    if shared is not None:
        for path in sorted((shared / "aton").glob("*/network.json")):
            model = shared / "models" / load_compiled(path.parent).model
            found.append((path.parent.name, path.parent, model))
    for entry in filter(None, os.environ.get("NPUFORGE_PROGRAMS", "").split(os.pathsep)):
        code, _, model = entry.partition("=")
        found.append((Path(model).stem, Path(code), Path(model)))
    return found


def content(buffer: Buffer, kind: str) -> bytes:
    """Random bytes, or a photograph in the shape of the buffer."""
    rng = np.random.default_rng(1)
    if kind == "random":
        if buffer.real:
            return rng.uniform(-1, 1, buffer.size // 4).astype("<f4").tobytes()
        return rng.integers(0, 256, buffer.size, np.uint8).tobytes()
    shape = buffer.memory_shape[-3:]
    first = buffer.channel == "First" and shape[0] < shape[2]
    rows, columns, channels = (shape[1], shape[2], shape[0]) if first else shape
    picture = Image.open(PHOTOGRAPH).convert("RGB").resize((columns, rows))
    values = np.asarray(picture)[:, :, np.arange(channels) % 3]
    values = values.transpose(2, 0, 1) if first else values
    if buffer.real:
        return (values / 127.5 - 1).astype("<f4").tobytes()
    return (values if buffer.unsigned else values.astype(np.int16) - 128).astype(np.uint8).tobytes()


def against_graph(
    network: Compiled, code: Path, model: Path, data: Mapping[str, bytes]
) -> ProgramComparison:
    """The program against the Graph path with the program's own choices."""
    merged = tuple(int(n) for n in (network.version or "1.1.0").split(".")) >= (1, 1, 2)
    contract = Contract.NEURAL_ART_1_1_3 if merged else Contract.NEURAL_ART
    graph = api.load_graph(model, str(contract))
    executor = NeuralArtExecutor(graph, api.chip_choices(graph, code))
    same: dict[str, Array] = {
        name: model_input(buffer, graph.tensor(name), data[buffer.name])
        for buffer, name in zip(network.inputs, graph.inputs, strict=True)
    }
    executor.run(same)
    tensors = {**executor.read(executor.activations()), **same}
    return compare_program(network, data, graph, tensors)


def summary(
    name: str, network: Compiled, kind: str, found: ProgramComparison, paths: ProgramComparison
) -> tuple[object, ...]:
    """A row of the first table."""
    entries = found.buffers
    values = sum(entry.values for entry in entries)
    return (
        name, network.version or "1.1", kind, len(found.run.epochs), len(entries),
        sum(not e.differing for e in entries), sum(0 < e.largest <= 1 for e in entries),
        sum(e.largest > 1 for e in entries), sum(e.outside for e in entries),
        sum(e.bound is None for e in entries), sum(e.candidates > 1 for e in entries),
        len(found.unmatched), len(found.unchecked), values,
        f"{100 * sum(e.differing for e in entries) / max(1, values):.2f}",
        len(paths.buffers), sum(e.differing for e in paths.buffers),
    )  # fmt: skip


def detail(name: str, kind: str, entry: BufferComparison) -> tuple[object, ...]:
    """A row of the second table."""
    bound = "-" if entry.bound is None else f"{entry.bound:g}"
    return (
        name, kind, entry.epoch, entry.buffer, f"{entry.largest:g}", bound, entry.outside,
        entry.differing, entry.values, entry.saturated, " ".join(entry.causes),
    )  # fmt: skip


def measured(name: str, code: Path, model: Path) -> tuple[list[Any], list[Any]]:
    """Rows of both tables for one network."""
    network, graph = load_compiled(code), load_model(model)
    rows, details = [], []
    for kind in KINDS:
        data = {buffer.name: content(buffer, kind) for buffer in network.inputs}
        found = compare_with_model(network, graph, data)
        rows.append(summary(name, network, kind, found, against_graph(network, code, model, data)))
        details += [detail(name, kind, entry) for entry in found.buffers]
    return rows, details


def page(document: dict[str, Any]) -> str:
    """The reference page: every network, and every buffer more than a step from its tensor."""
    lines = [
        "# Compiled networks against their models",
        "",
        "<!-- generated by `python benchmarks/compiled_networks.py --page`; do not edit -->",
        "",
        "Programs of ST's compiler on the simulator, fed with the reference's tensors epoch by",
        "epoch. Each value must lie within the bound that the chip's arithmetic has at that place",
        "([how the Neural-ART computes](../explanation/neural-art.md)). *Not alone*: more than one",
        "tensor of the model can be what the buffer holds, the nearest was taken. *No tensor*:",
        "16-bit sums and other parts of layers, checked through what is computed from them. *Graph",
        "path*: the same inputs through the model with the program's constants, nothing injected.",
        "",
        *table(COLUMNS, document["rows"]),
        "",
        "## Buffers more than a step from their tensor",
        "",
        "Largest difference and bound in steps; *causes* as `npuforge aton run` names them.",
        "",
    ]
    beyond = [row for row in document["buffers"] if float(row["largest"]) > 1]
    return "\n".join([*lines, *table(DETAILS, beyond)]) + "\n"


def table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table."""
    cells = [" | ".join(str(row[column]) for column in columns) for row in rows]
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return [*head, *(f"| {cell} |" for cell in cells)]


def main() -> int:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--page", type=Path, help="page to write from the stored results")
    options = parser.parse_args()
    if options.page is not None:
        document = json.loads(STORED.read_text(encoding="utf-8"))
        options.page.write_text(page(document), encoding="utf-8")
        return 0
    rows, details = [], []
    for name, code, model in programs():
        more = measured(name, code, model)
        rows += more[0]
        details += more[1]
    if not rows:
        sys.exit("the measurement data is not present")
    kept = [dict(zip(DETAILS, row, strict=True)) for row in details]
    report("Compiled networks", COLUMNS, rows, None)
    if options.json is not None:
        document = {
            "title": "Compiled networks",
            "rows": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
            "buffers": kept,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    wrong = sum(int(row[8]) + int(row[16]) for row in rows)
    print(f"{wrong} values outside their bound or different from the Graph path")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

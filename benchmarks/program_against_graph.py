"""Compiled programs in the simulator against the Graph path with the programs' own choices.

    python benchmarks/program_against_graph.py

Needs the measurement data. Both sides get the same random and smooth inputs; constants, passes,
chains and function tables of the Graph path come from the program. Every buffer that is a tensor of
the model is compared, nothing injected from any reference; the exit code is 1 unless all are equal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np
from common import arguments, report, shared_folder
from pictures import smooth

from npuforge import api
from npuforge.aton.load import load_compiled
from npuforge.graph import Array, Graph
from npuforge.numerics import random_inputs
from npuforge.numerics.neural_art import NeuralArtExecutor
from npuforge.validate.buffers import input_bytes, model_input
from npuforge.validate.program import compare_program


def samples(graph: Graph) -> Iterator[tuple[str, Mapping[str, Array]]]:
    """Random values over the whole range, and a smooth picture."""
    yield "random", random_inputs(graph, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    yield "smooth", {name: smooth(graph.tensor(name), rng) for name in graph.inputs}


def main() -> int:
    """Print a row for each network and input."""
    options = arguments(__doc__ or "")
    shared = shared_folder()
    if shared is None:
        sys.exit("the measurement data is not present")
    rows, misses = [], []
    for path in sorted((shared / "aton").glob("*/network.json")):
        network = load_compiled(path.parent)
        graph = api.load_graph(shared / "models" / network.model, "neural_art")
        executor = NeuralArtExecutor(graph, api.chip_choices(graph, path.parent))
        for kind, inputs in samples(graph):
            ends = list(zip(network.inputs, graph.inputs, strict=True))
            data = {buffer.name: input_bytes(buffer, inputs[name]) for buffer, name in ends}
            # the steps that the program gets, as the model takes them
            same = {n: model_input(b, graph.tensor(n), data[b.name]) for b, n in ends}
            executor.run(same)
            tensors = {**executor.read(executor.activations()), **same}
            found = compare_program(network, data, graph, tensors)
            differing = [b for b in found.buffers if b.differing]
            misses += [
                f"{path.parent.name} {kind}: {b.buffer} ({b.tensor}): {b.differing} of {b.values}, "
                f"up to {b.largest:g}"
                for b in differing
            ]
            values = sum(b.values for b in found.buffers)
            rows.append(
                (path.parent.name, kind, len(found.buffers), len(found.unmatched), values,
                 len(differing), sum(b.differing for b in found.buffers))
            )  # fmt: skip
    columns = (
        "program",
        "input",
        "buffers",
        "no counterpart",
        "values",
        "buffers differ",
        "differ",
    )
    report("Program path against Graph path", columns, rows, options.json, misses=misses)
    return int(bool(misses))


if __name__ == "__main__":
    sys.exit(main())

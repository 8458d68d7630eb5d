"""Requantisation constants computed from the model alone against those in compiled programs.

    python benchmarks/requant_constants.py

Needs the measurement data: compiled networks, and the models they came from. A gain that differs
is explained: the channel is dead when no 16-bit sum can change its output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import arguments, report, required_shared_folder

from npuforge import api
from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.aton import Epoch
from npuforge.aton.choices import Matched, match_compiled, program_sums
from npuforge.aton.load import load_compiled
from npuforge.graph import Graph, Node
from npuforge.numerics.neural_art import (
    ConvConstants,
    SumConstants,
    node_constants,
    sum_constants,
)
from npuforge.numerics.neural_art.units import requantised


@dataclass(frozen=True)
class Program:
    """A compiled network, its model, and what the program decided for the model's nodes."""

    name: str
    graph: Graph
    epochs: tuple[Epoch, ...]
    matched: Matched


def programs(shared: Path) -> Iterator[Program]:
    """All compiled networks of the measurement data."""
    for path in sorted((shared / "aton").glob("*/network.json")):
        network = load_compiled(path.parent)
        graph = api.load_graph(shared / "models" / network.model, "neural_art")
        epochs = tuple(epoch for step in network.steps for epoch in step.epochs)
        matched = match_compiled(graph, default_choices(graph), network)
        yield Program(path.parent.name, graph, epochs, matched)


def shifts(c: ConvConstants) -> tuple[int, int, int, int]:
    """OUTSHIFT, R1, A2, R2."""
    return c.outshift, c.gain_shift, c.global_gain, c.global_shift


def is_dead(c: ConvConstants, channel: int) -> bool:
    """Whether a channel's output is the same for every 16-bit sum."""
    one = slice(channel, channel + 1)
    ends = np.array([[-32768], [32767]])
    only = ConvConstants(
        c.outshift, c.gain[one], c.gain_shift, c.global_gain, c.global_shift, c.offset[one], c.form
    )
    return len(set(np.clip(requantised(ends, only)[1], -128, 127).ravel())) == 1


def swapped(c: SumConstants) -> SumConstants:
    """The same addition with its operands exchanged."""
    return SumConstants(c.b, c.by, c.a, c.ax, c.c, c.cs, c.shift)


def node_sum(graph: Graph, node: Node) -> SumConstants:
    """Constants of an addition, from the model alone."""
    a, b, y = (graph.tensor(name).quant for name in (*node.inputs, *node.outputs))
    return sum_constants(float(a.s), a.z, float(b.s), b.z, float(y.s), y.z)


def equal_sums(graph: Graph, found: Sequence[SumConstants]) -> tuple[int, int]:
    """Additions of the model whose constants are in the program, and all of them."""
    left, nodes = list(found), [n for n in graph.nodes if n.op == "add"]
    equal = 0
    for node in nodes:
        ours = node_sum(graph, node)
        hit = next((c for c in (ours, swapped(ours)) if c in left), None)
        if hit is not None:
            left.remove(hit)
            equal += 1
    return equal, len(nodes)


def compare(program: Program) -> tuple[list[object], list[str]]:
    """One row of the table, and the reason of every difference."""
    graph, matched = program.graph, program.matched
    nodes = {node.name: node for node in graph.nodes}
    default = default_choices(graph)
    count = dict.fromkeys(("shift", "gain", "offset", "near", "channels", "pass", "wide"), 0)
    misses: list[str] = []
    for name, layer in matched.layers:
        ours, theirs = node_constants(graph, nodes[name], layer.constants.form), layer.constants
        where = f"{program.name}: {layer.name}"
        if shifts(ours) != shifts(theirs):
            misses.append(f"{where}: shifts {shifts(ours)}, in the program {shifts(theirs)}")
        count["shift"] += shifts(ours) == shifts(theirs)
        count["channels"] += ours.gain.size
        count["gain"] += int(np.count_nonzero(ours.gain == theirs.gain))
        count["offset"] += int(np.count_nonzero(ours.offset == theirs.offset))
        count["near"] += int(np.count_nonzero(np.abs(ours.offset - theirs.offset) <= 1))
        for c in np.flatnonzero(ours.gain != theirs.gain):
            why = "dead channel, its output never changes" if is_dead(ours, c) else "unexplained"
            misses.append(f"{where}: gain {c} is {ours.gain[c]}, there {theirs.gain[c]}: {why}")
        for c in np.flatnonzero(ours.offset != theirs.offset):
            misses.append(f"{where}: offset {c} is {ours.offset[c]}, there {theirs.offset[c]}")
        if nodes[name].op != "depthwise_conv2d":
            count["wide"] += 1
            count["pass"] += default.convolutions[name].passes == layer.passes
    total = len(matched.layers)
    sums = equal_sums(graph, program_sums(program.epochs))
    row = [program.name, total, count["shift"], count["channels"], count["gain"], count["offset"]]
    return [*row, count["near"], *sums, count["wide"], count["pass"]], misses


def main() -> int:
    """Print the table; 1 below 99 % of shifts or gains, 92 % of offsets, or beyond one unit."""
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    rows, misses = [], []
    for program in programs(shared):
        row, found = compare(program)
        rows.append(row)
        misses += found
    total = ["total", *(sum(row[i] for row in rows) for i in range(1, len(rows[0])))]
    columns = (
        *("program", "layers", "shifts equal", "channels", "gains equal", "offsets equal"),
        *("within 1", "adds equal", "adds", "choices", "passes equal"),
    )
    report("Requantisation constants", columns, [*rows, total], options.json, misses=misses)
    layers, equal, channels, gains, offsets, near = total[1:7]
    held = equal >= 0.99 * layers and gains >= 0.99 * channels and offsets >= 0.92 * channels
    return int(not held or near != channels)


if __name__ == "__main__":
    sys.exit(main())

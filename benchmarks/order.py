"""Peak bytes over all orders of the steps: file order, greedy order, and the search with its bound.

python benchmarks/order.py

tflite-micro runs operators in the order of the file. Irregular networks are built here: cells of
published architectures, and Watts-Strogatz graphs of separable convolutions. Their steps in the
better order are run and compared with the file order, byte for byte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import numpy as np
from common import arguments, every_model, report
from detector import POST, Builder

from npuforge.boards import HostBoard
from npuforge.errors import NpuforgeError
from npuforge.explore.order import Orders, best_order
from npuforge.graph import ConvAttrs, Graph, PoolAttrs, Quantization, Tensor, verify
from npuforge.graph.attrs import ElementwiseAttrs
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.shortfall import bytes_needed
from npuforge.numerics import random_inputs
from npuforge.targets import load_target
from npuforge.vocab import Activation, DType

DARTS = (
    (("sep3", 0), ("sep3", 1)), (("sep3", 0), ("sep3", 1)),
    (("sep3", 1), ("skip", 0)), (("skip", 0), ("dil3", 2)),
)  # fmt: skip
"""Normal cell of DARTS, second order: operators and inputs of each node; 0 and 1 are the cell's."""
NASNET = (
    (("sep3", 1), ("skip", 1)), (("sep3", 0), ("sep5", 1)), (("avg3", 1), ("skip", 0)),
    (("avg3", 0), ("avg3", 0)), (("sep5", 0), ("sep3", 0)),
)  # fmt: skip
"""Normal cell of NASNet-A in the same terms."""


def depthwise(b: Builder, x: Tensor, kernel: int, dilation: int = 1) -> Tensor:
    """A depthwise convolution of the input's size."""
    name, depth = f"depthwise_{len(b.nodes)}", x.shape[3]
    values = np.random.default_rng(len(b.nodes)).integers(-127, 128, (1, kernel, kernel, depth))
    quant = Quantization.per_tensor(1 / 127 / kernel)
    w = Tensor(f"{name}/weights", values.shape, DType.INT8, quant, values.astype(np.int8))
    b.tensors[w.name] = w
    pad = (kernel - 1) * dilation // 2
    attrs = ConvAttrs(dilation=(dilation, dilation), padding=(pad, pad, pad, pad))
    return b.node("depthwise_conv2d", (x, w), [x.shape], POST, attrs)[0]


def operator(b: Builder, kind: str, x: Tensor) -> Tensor:
    """One of the operators that cells are made of."""
    if kind == "skip":
        return x
    if kind == "avg3":
        attrs = PoolAttrs(kernel=(3, 3), padding=(1, 1, 1, 1))
        assert x.quant is not None
        quant = (float(x.quant.s), x.quant.z)
        return b.node("average_pool2d", (x,), [x.shape], quant, attrs)[0]
    kernel, depth = int(kind[3:]), x.shape[3]
    if kind.startswith("dil"):
        return b.conv(depthwise(b, x, kernel, 2), depth, 1)
    for _ in range(2):
        x = b.conv(depthwise(b, x, kernel), depth, 1)
    return x


def added(b: Builder, one: Tensor, other: Tensor) -> Tensor:
    attrs = ElementwiseAttrs(Activation.RELU)
    return b.node("add", (one, other), [one.shape], POST, attrs)[0]


def finished(b: Builder, name: str, inputs: Sequence[Tensor], out: Tensor) -> Graph:
    graph = Graph(name, b.tensors, tuple(b.nodes), tuple(t.name for t in inputs), (out.name,))
    verify(graph)
    return graph


def cells(name: str, cell: Sequence[Sequence[tuple[str, int]]], count: int) -> Graph:
    """Cells in a row, each fed with the two before it, on 28x28x48."""
    b = Builder()
    x = b.tensor("x", (1, 28, 28, 3), POST)
    states = [b.conv(x, 48, 3), b.conv(x, 48, 3)]
    for _ in range(count):
        inside = [b.conv(state, 48, 1) for state in states[-2:]]
        for (one, a), (other, c) in cell:
            inside.append(
                added(b, operator(b, one, inside[a]), operator(b, other, inside[c]))
            )  # fmt: skip
        states.append(b.concat(inside[2:]))
    return finished(b, f"{name} x{count}", (x,), states[-1])


def wired(seed: int, nodes: int = 32, near: int = 4, chance: float = 0.75) -> Graph:
    """A Watts-Strogatz graph as a network: each node a sum and a separable convolution."""
    rng = random.Random(seed)
    edges = {(n, (n + k) % nodes) for n in range(nodes) for k in range(1, near // 2 + 1)}
    for n, k in sorted(edges):
        if rng.random() < chance:
            free = [m for m in range(nodes) if m != n and not {(n, m), (m, n)} & edges]
            if free:
                edges.remove((n, k))
                edges.add((n, rng.choice(free)))
    into: list[list[int]] = [[] for _ in range(nodes)]
    for pair in edges:
        into[max(pair)].append(min(pair))
    b = Builder()
    x = b.tensor("x", (1, 28, 28, 3), POST)
    first = b.conv(x, 32, 3)
    made: list[Tensor] = []
    for sources in into:
        total = made[sources[0]] if sources else first
        for n in sorted(sources[1:]):
            total = added(b, total, made[n])
        made.append(b.conv(depthwise(b, total, 3), 32, 1))
    last = [t for n, t in enumerate(made) if not any(n in sources for sources in into)]
    out = last[0]
    for tensor in last[1:]:
        out = added(b, out, tensor)
    return finished(b, f"WS({nodes},{near},{chance}) seed {seed}", (x,), out)


def graphs() -> Iterator[tuple[Graph, bool]]:
    """Every network, and whether it is one of the irregular ones."""
    for path in every_model():
        try:
            yield load_model(path), False
        except NpuforgeError as error:
            print(f"{path.name}: {error}")
    yield cells("DARTS cell", DARTS, 1), True
    yield cells("DARTS cell", DARTS, 4), True
    yield cells("NASNet-A cell", NASNET, 1), True
    yield cells("NASNet-A cell", NASNET, 4), True
    for seed in range(4):
        yield wired(seed), True


def main() -> None:
    """Search an order for every network."""
    options = arguments(__doc__ or "")
    board = load_target("mps3-an547")
    rows, proved, better, same = [], 0, 0, 0
    gains = []
    for graph, irregular in graphs():
        schedule = lower(graph, map_graph(graph, board), board)
        begin = time.process_time()
        found = best_order(schedule)
        seconds = time.process_time() - begin
        greedy = Orders(schedule).greedy(1)[0]
        assert bytes_needed(found.schedule) == found.after
        proved += found.proved
        better += found.after < found.before
        if irregular:
            gains.append(found.before / found.after)
            sample = random_inputs(graph, np.random.default_rng(0))
            outputs = []
            for made in (schedule, found.schedule):
                plan = plan_memory(made, board)
                verify_plan(made, plan, board)
                outputs.append(HostBoard(graph, made, plan).run(sample).outputs)
            same += all(np.array_equal(outputs[0][n], outputs[1][n]) for n in graph.outputs)
        rows.append(
            (
                graph.name[:48], len(schedule.steps), found.before, greedy, found.after,
                found.bound, "yes" if found.proved else f"gap {found.after / found.bound - 1:.2%}",
                found.sets, f"{seconds:.2f}",
            )
        )  # fmt: skip
    report(
        "most bytes alive at once, by order of the steps",
        ("network", "steps", "file order (tflite-micro)", "greedy order", "searched order", "bound",
         "proved", "sets opened", "seconds"),
        rows, options.json, networks=len(rows), proved=proved, better_than_file_order=better,
        irregular=len(gains), irregular_same_bytes=same,
        irregular_gain=f"{np.exp(np.mean(np.log(gains))):.2f}x",
    )  # fmt: skip


if __name__ == "__main__":
    main()

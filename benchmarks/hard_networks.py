"""Networks made hard on purpose, which min-max ranges ruin, and what `tune` makes of them.

Two real architectures with labelled data: the DS-CNN of keyword spotting (Keras weights, spoken
words) and a digit classifier (trained here on MNIST). (a) The channels of every tensor between two
convolutions differ by up to 1:2000, which a ReLU lets pass, so that the function stays. (b) A tanh
layer in front of the last one is driven far beyond what it tells apart by two of its inputs; the
last layer is fitted anew by least squares. Three sets of samples that do not overlap: one to fit
and calibrate on, one to choose by, one to judge with, which the search never sees.

    python benchmarks/hard_networks.py --json benchmarks/results/hard_networks.json
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import arguments, report
from quantize_data import Case, digits, mltk, words

from npuforge.explore.price import TargetPrice
from npuforge.graph import (
    Array,
    Attrs,
    ConvAttrs,
    FullyConnectedAttrs,
    Graph,
    Node,
    Tensor,
    schema,
    verify,
)
from npuforge.graph.attrs import NO_ATTRS
from npuforge.numerics import Executor
from npuforge.quantize import Bounds, RangeMethod, Reference, Scheme, quantize, search
from npuforge.report.quality import diagnosis_words, trial_words, verdict_words
from npuforge.targets import load_target
from npuforge.tasks import Dataset, open_dataset
from npuforge.vocab import Activation, Contract, DType

RATIO = 2000.0
DRIVEN = 2
DRIVE = 500.0
DROP = 0.01


def unlike_channels(graph: Graph, rng: np.random.Generator) -> Graph:
    """Scale channels between two convolutions; the second one takes the factors back."""
    tensors = dict(graph.tensors)

    def scaled(name: str | None, factors: Array) -> None:
        assert name is not None
        data = np.ascontiguousarray(tensors[name].array * factors, np.float32)
        tensors[name] = replace(tensors[name], data=data)

    for node in graph.nodes:
        readers = graph.consumers.get(node.outputs[0], ())
        if not isinstance(node.attrs, ConvAttrs) or len(readers) != 1:
            continue
        if node.attrs.activation not in (Activation.RELU, Activation.NONE):
            continue
        if readers[0].op not in ("conv2d", "depthwise_conv2d"):
            continue
        channels = graph.tensors[node.outputs[0]].shape[3]
        factors = rng.permutation(np.geomspace(1.0, 1.0 / RATIO, channels))
        # OHWI for convolutions, 1HWC for depthwise ones
        own = factors[:, None, None, None] if node.op == "conv2d" else factors
        scaled(node.inputs[1], own)
        scaled(node.inputs[2], factors)
        scaled(readers[0].inputs[1], 1 / factors)
    return replace(graph, tensors=tensors)


def with_driven_head(graph: Graph, inputs: Array, labels: Array, classes: int) -> Graph:
    """The network up to its last dense layer, then a tanh layer and a fitted dense one."""
    last = next(node for node in reversed(graph.nodes) if node.op == "fully_connected")
    features = str(last.inputs[0])
    tensors = dict(graph.tensors)
    nodes = list(graph.nodes[: graph.nodes.index(last)])

    def constant(name: str, values: Array) -> str:
        data = np.ascontiguousarray(values, np.float32)
        tensors[name] = Tensor(name, data.shape, DType.FLOAT32, None, data)
        return name

    def add(op: str, name: str, sources: Sequence[str], attrs: Attrs = NO_ATTRS) -> str:
        shape = schema(op).infer([tensors[n] for n in sources], attrs)[0]
        tensors[name] = Tensor(name, shape, DType.FLOAT32)
        nodes.append(Node(name, op, tuple(sources), (name,), attrs, Contract.FLOAT32))
        return name

    def values(name: str) -> Array:
        made = replace(graph, tensors=tensors, nodes=tuple(nodes), outputs=(name,))
        executor = Executor(made)
        found = [executor.run({made.inputs[0]: x[None]})[name].reshape(-1) for x in inputs]
        return np.stack(found).astype(np.float64)

    seen = values(features)
    spread = seen.std(axis=0)
    gains = 1 / np.maximum(spread, spread.max() * 1e-2)
    gains[np.argsort(-spread)[:DRIVEN]] *= DRIVE
    shift = -seen.mean(axis=0) * gains
    sources = (features, constant("driven/w", np.diag(gains)), constant("driven/b", shift))
    driven = add("fully_connected", "driven", sources, FullyConnectedAttrs())
    squashed = add("tanh", "squashed", (driven,))
    rows = values(squashed)
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    target = np.eye(classes)[labels]
    damping = 1e-2 * len(rows) * np.eye(rows.shape[1])
    fitted = np.linalg.solve(rows.T @ rows + damping, rows.T @ target)
    sources = (squashed, constant("fitted/w", fitted[:-1].T), constant("fitted/b", fitted[-1]))
    answer = add("fully_connected", "fitted", sources, FullyConnectedAttrs())
    made = replace(graph, tensors=tensors, nodes=tuple(nodes), outputs=(answer,))
    verify(made)
    return made


@dataclass(frozen=True, eq=False)
class Hard:
    """A network with its three sets of samples."""

    name: str
    graph: Graph
    fit: tuple[Array, Array]
    choose: tuple[Array, Array]
    judge: tuple[Array, Array]


def made_hard(case: Case, fit: tuple[Array, Array]) -> Hard:
    """A case made hard; its evaluation samples are split in two halves."""
    assert case.labels is not None
    classes = int(case.labels.max()) + 1
    graph = unlike_channels(case.graph, np.random.default_rng(0))
    graph = with_driven_head(graph, *fit, classes)
    half = len(case.evaluation) // 2
    choose = (case.evaluation[:half], case.labels[:half])
    judge = (case.evaluation[half:], case.labels[half:])
    return Hard(case.name, graph, fit, choose, judge)


def dataset(graph: Graph, samples: tuple[Array, Array], path: Path) -> Dataset:
    """Samples with labels as a user would give them."""
    np.savez(path, **{graph.inputs[0]: samples[0][:, None]}, labels=samples[1])
    return open_dataset([path], graph)


def rows_of(hard: Hard) -> list[tuple[object, ...]]:
    """Float, min-max and what the search found, judged on samples it never saw."""
    board = load_target("stm32n6570-dk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit = dataset(hard.graph, hard.fit, folder / "fit.npz").spread(200)
        choose = dataset(hard.graph, hard.choose, folder / "choose.npz")
        judge = Reference.of(hard.graph, dataset(hard.graph, hard.judge, folder / "judge.npz"))
        plain = quantize(hard.graph, fit, Scheme(method=RangeMethod.MINMAX), measured_on=0)
        found = search(
            hard.graph,
            fit,
            Bounds(DROP),
            validation=choose,
            pricing=TargetPrice(board, board.operating_points["nominal"]),
        )
        ruined, recovered = (judge.score(m.graph) for m in (plain.made, found.session.made))
    for item in found.diagnoses[:4]:
        print("cause:", *diagnosis_words(item))
    for trial in found.trials:
        if trial.kept:
            print("kept:", trial_words(trial), f"{trial.score.quality:.4f}")
    print(verdict_words(found))
    price = found.best.price
    assert price is not None
    raised = ", ".join(f"{name}: {kind}" for name, kind in found.raised.items()) or "none"
    return [
        (hard.name, "float", f"{judge.accuracy:.2%}", "", "", ""),
        (hard.name, "min-max int8", f"{ruined.accuracy:.2%}", "", "", ""),
        (
            *(hard.name, "tune", f"{recovered.accuracy:.2%}", f"{found.best.score.quality:.2%}"),
            *(f"{price.ms:.3f}", raised),
        ),
    ]


def cases() -> list[Hard]:
    """The networks."""
    made = digits()
    assert made.calibration_labels is not None
    found = [made_hard(made, (made.calibration, made.calibration_labels))]
    spoken = words(mltk("keyword_spotting", "keyword_spotting.h5"))
    if spoken is not None:
        assert spoken.calibration_labels is not None
        found.append(made_hard(spoken, (spoken.calibration, spoken.calibration_labels)))
    return found


def main() -> None:
    """Ruin, search, judge."""
    args = arguments(__doc__ or "")
    rows = [row for hard in cases() for row in rows_of(hard)]
    columns = ("network", "by", "accuracy, unseen", "where chosen", "predicted ms", "raised")
    report("Networks made hard", columns, rows, args.json)


if __name__ == "__main__":
    main()

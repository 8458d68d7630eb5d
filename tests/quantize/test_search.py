"""The search finds what is lost, says why, and takes no more than it needs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.quantize.networks import Net, Task, classifier, small_network, write_samples
from tests.quantize.test_build import check_against_litert

from npuforge.graph import Graph
from npuforge.quantize import (
    Bounds,
    Cause,
    Grouping,
    Precision,
    Price,
    Quality,
    RangeMethod,
    Reference,
    Scheme,
    Search,
    Step,
    calibrate,
    prepared,
    search,
    sensitivities,
)
from npuforge.quantize.ranges import Range
from npuforge.quantize.saturate import cut, told_apart
from npuforge.tasks import Dataset, open_dataset
from npuforge.vocab import Activation


def parts(task: Task, folder: Path) -> tuple[Dataset, Dataset]:
    """Calibration and validation samples, apart."""
    files = task.write(folder / "c.npz", 0, 120), task.write(folder / "v.npz", 120, 360)
    return open_dataset([files[0]], task.graph), open_dataset([files[1]], task.graph)


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Dataset, Search]:
    task = classifier(hard=True)
    data, validation = parts(task, tmp_path_factory.mktemp("hard"))
    return task, data, search(task.graph, data, Bounds(0.01), validation=validation)


def test_hard_network_is_recovered(hard: tuple[Task, Dataset, Search]) -> None:
    _, _, found = hard
    first = found.trials[0]
    assert first.step is Step.METHOD
    assert first.score.drop > 0.3, "min-max must ruin it"
    assert found.met
    assert found.best.score.kind is Quality.ACCURACY
    assert found.best.score.drop <= 0.01
    assert found.best.score.samples == 240


def test_causes_name_the_tensors(hard: tuple[Task, Dataset, Search]) -> None:
    """The channels that were spread, and the layer that drives the tanh out of its range."""
    task, _, found = hard
    nodes = task.graph.nodes
    head = next(node for node in nodes if node.op == "tanh").inputs[0]
    spread = next(node for node in nodes if node.op == "conv2d").outputs[0]
    causes = {(item.cause, item.tensor) for item in found.diagnoses}
    assert (Cause.SATURATES, head) in causes
    assert (Cause.SPREAD, spread) in causes
    assert Cause.WEIGHTS in {item.cause for item in found.diagnoses}


def test_only_what_is_needed_is_raised(hard: tuple[Task, Dataset, Search]) -> None:
    task, _, found = hard
    counted = len([n for n in task.graph.nodes if n.op != "reshape"])
    assert 0 < len(found.raised) < counted / 2
    assert set(found.raised) <= {node.name for node in found.session.prepared.nodes}


def test_the_found_file_equals_litert(hard: tuple[Task, Dataset, Search], tmp_path: Path) -> None:
    _, data, found = hard
    session = found.session
    assert check_against_litert(session.made, session.prepared, data.spread(3), tmp_path) > 1000


def test_a_network_that_is_easy_stays_in_8_bits(tmp_path: Path) -> None:
    task = classifier(hard=False)
    data, validation = parts(task, tmp_path)
    found = search(task.graph, data, Bounds(0.01), validation=validation)
    assert found.met
    assert not found.raised
    assert not found.ranking
    assert not found.diagnoses
    assert {trial.step for trial in found.trials} == {Step.METHOD}
    more = search(task.graph, data, Bounds(0.01), validation=validation, thorough=True)
    assert more.best.score.key >= found.best.score.key
    assert Step.ROUND in {trial.step for trial in more.trials}


def priced(task: Task, folder: Path, slow: float, bound: float) -> Search:
    """A search in which every node that is not int8 costs `slow` milliseconds."""

    def price(graph: Graph) -> Price:
        wide = sum(
            not str(graph.tensors[node.outputs[0]].dtype).endswith("int8") for node in graph.nodes
        )
        return Price(1.0 + slow * wide, 1000, 1000, 1.0)

    data, validation = parts(task, folder)
    bounds = Bounds(0.01, bound)
    return search(task.graph, data, bounds, validation=validation, pricing=price)


def test_the_bound_on_time_is_kept(tmp_path: Path) -> None:
    task = classifier(hard=True)
    dear = priced(task, tmp_path, 10.0, 5.0)
    assert not dear.met
    assert dear.best.price is not None
    assert dear.best.price.ms is not None
    assert dear.best.price.ms <= 5.0
    assert not dear.raised
    cheap = priced(task, tmp_path, 0.5, 5.0)
    assert cheap.met
    assert cheap.best.price is not None
    assert (cheap.best.price.ms or 9) <= 5.0


def test_bounds() -> None:
    bounds = Bounds(0.01, 2.0)
    assert bounds.affords(Price(2.0, 0, 0, None))
    assert not bounds.affords(Price(2.1, 0, 0, None))
    assert not bounds.affords(Price(None, 0, 0, None))
    assert not bounds.affords(Price(1.0, 0, None, None, "too large"))
    assert bounds.affords(None)


def test_friendly_zero_points_only_when_faster(tmp_path: Path) -> None:
    """They are taken when the price says that they pay, and never at the cost of the bound."""
    net = Net((1, 8, 8, 3))
    a = net.conv("x", 8, act=Activation.NONE)
    graph = net.graph(net.dense(net.flat(net.conv(a, 4)), 5))
    data = open_dataset([write_samples(graph, tmp_path / "d.npz", 24)], graph)

    def zero(g: Graph) -> float:
        points = [t.quant.z for t in g.tensors.values() if t.quantization and not t.is_constant]
        return sum(z in (-128, 0) for z in points) / len(points)

    def price(pays: bool) -> Search:
        def asked(g: Graph) -> Price:
            return Price(2.0 - zero(g) if pays else 1.0, 0, 0, min(zero(g), 0.99))

        return search(graph, data, Bounds(0.5), pricing=asked)

    assert price(True).best.step is Step.ZERO_POINTS
    assert price(False).best.step is Step.METHOD


def test_sensitivity_finds_the_layer_that_hurts(tmp_path: Path) -> None:
    """One layer has a weight 500 times the others: it comes first, alone it does the damage."""
    net = Net((1, 8, 8, 4))
    a = net.conv("x", 8)
    b = net.conv(a, 8)
    bad = str(net.layer(b).inputs[1])
    w = net.tensors[bad].array.copy()
    w[:, 0, 0, 0] *= 500
    net.replaced(bad, w)
    graph = prepared(net.graph(net.dense(net.flat(net.conv(b, 4)), 5)))
    data = open_dataset([write_samples(graph, tmp_path / "d.npz", 12)], graph)
    scheme = Scheme(method=RangeMethod.MINMAX)
    ranges = calibrate(graph, data).ranges(graph, scheme)
    ranking = sensitivities(Reference.of(graph, data), ranges, scheme)
    assert ranking[0].nodes[0] == graph.nodes[1].name
    assert ranking[0].score.sqnr < ranking[1].score.sqnr - 3
    assert ranking[0].weight_sqnr is not None
    assert [item.score.key for item in ranking] == sorted(item.score.key for item in ranking)
    raised = replace(scheme, layers={ranking[0].nodes[0]: Precision.FLOAT})
    names = {n for item in sensitivities(Reference.of(graph, data), ranges, raised)
             for n in item.nodes}  # fmt: skip
    assert ranking[0].nodes[0] not in names


@pytest.mark.parametrize("grouping", list(Grouping))
def test_groups_hold_every_computing_node_once(grouping: Grouping, tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = open_dataset([write_samples(graph, tmp_path / "d.npz", 2)], graph)
    ranges = calibrate(graph, data).ranges(graph, Scheme())
    ranking = sensitivities(Reference.of(graph, data), ranges, Scheme(), grouping=grouping)
    names = [name for item in ranking for name in item.nodes]
    assert len(names) == len(set(names))
    single = sensitivities(Reference.of(graph, data), ranges, Scheme())
    assert set(names) == {item.nodes[0] for item in single}


def test_cutting_keeps_what_readers_tell_apart(tmp_path: Path) -> None:
    net = Net((1, 16))
    x = net.dense("x", 8)
    graph = prepared(net.graph(net.add("tanh", x), net.add("logistic", x)))
    tensor = graph.nodes[0].outputs[0]
    assert told_apart(graph, tensor) == Range(-8.0, 8.0)
    assert cut(graph, tensor, Range(-90.0, 3.0)) == Range(-8.0, 3.0)
    assert told_apart(graph, graph.outputs[0]) is None


def test_reference_without_labels_judges_agreement(tmp_path: Path) -> None:
    task = classifier(hard=False, count=40)
    np.savez(tmp_path / "x.npz", x=task.inputs[:, None])
    data = open_dataset([tmp_path / "x.npz"], task.graph)
    score = Reference.of(task.graph, data).score(task.graph)
    assert (score.kind, score.quality, score.drop) == (Quality.AGREEMENT, 1.0, 0.0)
    assert score.sqnr == math.inf
    assert score.accuracy is None

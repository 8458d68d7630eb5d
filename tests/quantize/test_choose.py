"""The choice between ways to quantise: on samples kept apart, and only where it can be made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.quantize.networks import Net, small_network, write_float, write_samples
from typer.testing import CliRunner

from npuforge import _native
from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.graph import Graph
from npuforge.numerics import Executor
from npuforge.quantize import RangeMethod, Remedies, Scheme, calibrate, prepared, quantize
from npuforge.quantize.choose import LEAST, METHODS, arranged, decibels, held_out
from npuforge.quantize.measure import quantised_inputs
from npuforge.quantize.tune import tuned
from npuforge.tasks import Dataset, open_dataset
from npuforge.vocab import Activation

COUNT = 48


def samples(graph: Graph, folder: Path, count: int = COUNT) -> Dataset:
    return open_dataset([write_samples(graph, folder / "d.npz", count)], graph)


def test_what_is_kept_apart_is_not_in_what_candidates_are_built_from(tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = samples(graph, tmp_path)
    hold = held_out(graph, COUNT)
    assert 0 < hold <= COUNT // 4
    ordered = arranged(data, hold)
    found = calibrate(graph, ordered, histograms=True, hold=hold)
    assert found.held is not None
    assert found.held.early.samples == COUNT - hold
    assert len(found.held.inputs) == hold
    alone = calibrate(graph, ordered.some(range(COUNT - hold)), histograms=True)
    everything = calibrate(graph, data, histograms=True)
    for method in RangeMethod:
        scheme = Scheme(method=method)
        assert found.held.early.ranges(graph, scheme) == alone.ranges(graph, scheme)
    assert found.ranges(graph, Scheme()) == everything.ranges(graph, Scheme())
    seen = {row.inputs["x"].tobytes() for row in ordered.some(range(COUNT - hold))}
    assert not seen & {np.asarray(row["x"]).tobytes() for row in found.held.inputs}


def test_the_best_of_all_is_taken_and_built_from_all_samples(tmp_path: Path) -> None:
    graph = small_network()
    data = samples(graph, tmp_path)
    made = quantize(graph, data, Scheme(), choose=True)
    (taken,) = [item for item in made.tried if item.chosen]
    assert taken.decibels == max(item.decibels for item in made.tried)
    assert len(made.tried) >= len(METHODS) + 2  # and remedies: the network is small
    assert made.scheme == taken.candidate.scheme
    calibration = calibrate(made.prepared, arranged(data, held_out(graph, COUNT)), histograms=True)
    assert made.ranges == calibration.ranges(made.prepared, made.scheme)


def test_decibels_are_those_of_the_samples_kept_apart(tmp_path: Path) -> None:
    graph = prepared(small_network())
    hold = held_out(graph, COUNT)
    found = calibrate(graph, arranged(samples(graph, tmp_path), hold), histograms=True, hold=hold)
    assert found.held is not None
    ranges = found.held.early.ranges(graph, Scheme())
    made, _ = tuned(graph, ranges, Scheme(), {}, Remedies())
    (name,) = graph.outputs
    step = made.graph.tensors[made.graph.outputs[0]].quantization
    assert step is not None
    ratios = []
    for row in found.held.inputs:
        real = Executor(graph).run(row)[name].astype(np.float64)
        fed = quantised_inputs(graph, made.graph, row)
        (stored,) = Executor(made.graph).run(fed).values()
        error = (stored.astype(np.float64) - int(step.zero_point[0])) * float(step.scale[0]) - real
        ratios.append((float((real**2).sum()), float((error**2).sum())))
    signal, noise = np.array(ratios).T
    weight = np.maximum(signal, 4 * np.exp(np.log(signal).mean()))
    wanted = 10 * np.log10((signal / weight).sum() / (noise / weight).sum())
    assert decibels(graph, made.graph, found.held) == pytest.approx(wanted, abs=1e-6)


def test_a_sample_that_explodes_does_not_decide_alone(tmp_path: Path) -> None:
    net = Net((1, 8, 8, 3), 3)
    graph = net.graph(net.conv(net.conv("x", 8, 3), 4, 1, act=Activation.NONE))
    data = np.random.default_rng(1).normal(size=(COUNT, 1, 8, 8, 3)).astype(np.float32)
    data[7] *= 2000.0  # is not kept apart; min-max gives all its steps to it
    np.savez(tmp_path / "d.npz", x=data)
    made = quantize(graph, open_dataset([tmp_path / "d.npz"], graph), Scheme(), choose=True)
    assert made.scheme.method is not RangeMethod.MINMAX
    (minmax, *_) = [i for i in made.tried if i.candidate.scheme.method is RangeMethod.MINMAX]
    (best,) = [item for item in made.tried if item.chosen]
    assert best.decibels > minmax.decibels + 20


def test_what_is_asked_for_is_kept(tmp_path: Path) -> None:
    graph = small_network()
    made = quantize(
        graph, samples(graph, tmp_path), Scheme(), remedies=Remedies(round=True), choose=True
    )
    assert len(made.tried) == len(METHODS)
    assert {item.candidate.remedies for item in made.tried} == {Remedies(round=True)}


def test_few_samples_leave_no_choice(tmp_path: Path) -> None:
    graph = small_network()
    data = samples(graph, tmp_path, LEAST - 1)
    made = quantize(graph, data, Scheme(), choose=True)
    plain = quantize(graph, data, Scheme())
    assert made.tried == ()
    assert made.ranges == plain.ranges


def test_a_resumed_calibration_chooses_the_same(tmp_path: Path) -> None:
    graph = small_network()
    data, state = samples(graph, tmp_path), tmp_path / "state.npz"
    whole = quantize(graph, data, Scheme(), choose=True)

    class StopError(Exception):
        pass

    def stop(what: str, done: int, total: int) -> None:
        if what == "calibrating" and done == 20:
            raise StopError

    with pytest.raises(StopError):
        quantize(graph, data, Scheme(), choose=True, state=state, tick=stop)
    assert state.is_file()
    again = quantize(graph, data, Scheme(), choose=True, state=state)
    assert again.calibration.resumed > 0
    assert [i.decibels for i in again.tried] == [i.decibels for i in whole.tried]
    assert again.ranges == whole.ranges


def test_the_command_chooses_and_says_so(tmp_path: Path) -> None:
    graph = small_network()
    model = write_float(graph, tmp_path / "net.tflite")
    data = write_samples(graph, tmp_path / "d.npz", COUNT)
    runner = CliRunner()
    shown = runner.invoke(app, ["quantize", str(model), "--data", str(data)])
    assert shown.exit_code == 0, shown.output
    assert "judged on samples kept apart" in shown.output
    told = {}
    for method in ("auto", "mse"):
        asked = ["quantize", str(model), "--data", str(data), "--method", method, "--json"]
        told[method] = json.loads(runner.invoke(app, asked).stdout)
    assert [item["chosen"] for item in told["auto"]["tried"]].count(True) == 1
    assert told["mse"]["tried"] == []
    wrong = runner.invoke(app, ["quantize", str(model), "--data", str(data), "--method", "best"])
    assert isinstance(wrong.exception, UsageError)
    assert "QNT-009" in str(wrong.exception)


@given(
    st.lists(st.floats(-100, 100, width=32), max_size=60),
    st.integers(-6, 6),
    st.integers(-40, 10),
    st.integers(1, 64),
)
def test_values_are_counted_in_their_bins(
    values: list[float], power: int, first: int, size: int
) -> None:
    width = 2.0**power
    given_values = np.array(values, np.float32)
    counts = np.zeros(size, np.int64)
    zeros = _native.count_bins(given_values, 1 / width, first, counts)
    other = given_values[given_values != 0].astype(np.float64)
    bins = np.clip(np.floor(other / width).astype(np.int64) - first, 0, size - 1)
    assert zeros == len(values) - other.size
    np.testing.assert_array_equal(counts, np.bincount(bins, minlength=size))


def test_no_bins_are_refused() -> None:
    with pytest.raises(ValueError, match="no bins"):
        _native.count_bins(np.ones(3, np.float32), 1.0, 0, np.zeros(0, np.int64))


def test_schemes_of_candidates_differ_in_the_method_only(tmp_path: Path) -> None:
    graph = small_network()
    asked = Scheme(percentile=99.5)
    made = quantize(graph, samples(graph, tmp_path), asked, choose=True)
    for item in made.tried:
        scheme = item.candidate.scheme
        assert replace(scheme, method=asked.method, percentile=asked.percentile) == asked

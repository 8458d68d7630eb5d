"""Equalisation, rounding and bias correction: each does what it promises, on the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.quantize.networks import Net, small_network, write_float, write_samples
from tests.quantize.test_build import check_against_litert
from typer.testing import CliRunner

from npuforge import api
from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.graph import Graph, PoolAttrs, ReduceAttrs
from npuforge.importers import load_model
from npuforge.numerics import Executor
from npuforge.quantize import Remedies, Scheme, measure, prepared, quantize
from npuforge.quantize.equalise import equalised
from npuforge.quantize.rounding import _compensated, bias_correction
from npuforge.quantize.statistics import layer_inputs
from npuforge.quantize.weights import stored_weights, weight_peaks, weight_scales
from npuforge.report.scales import scales_document
from npuforge.tasks import Dataset, open_dataset
from npuforge.tasks.images import store
from npuforge.vocab import Activation

NARROW = ("conv2d", "fully_connected")


def uneven(seed: int = 0) -> Graph:
    """Three layers; channels between them differ by a factor of 1000."""
    net = Net((1, 8, 8, 3), seed)
    a = net.conv("x", 16, 3, spread=1000.0)
    w = net.rng.normal(size=(8, 1, 1, 16)) / np.geomspace(1, 1000, 16)
    from npuforge.graph import ConvAttrs

    b = net.add("conv2d", a, net.constant(w), net.constant(np.zeros(8)), attrs=ConvAttrs())
    return prepared(net.graph(net.conv(b, 4, 1, act=Activation.NONE)))


def samples(graph: Graph, folder: Path, count: int = 8) -> Dataset:
    return open_dataset([write_samples(graph, folder / "d.npz", count)], graph)


def test_equalisation_keeps_the_function_and_saves_small_channels(tmp_path: Path) -> None:
    graph = uneven()
    data = samples(graph, tmp_path)
    better, changed = equalised(graph, layer_inputs(graph, data))
    assert changed
    for sample in data:
        (a,), (b,) = (Executor(g).run(sample.inputs).values() for g in (graph, better))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(a).max())
    plain = quantize(graph, data, Scheme()).measured.sqnr
    assert (
        quantize(graph, data, Scheme(), remedies=Remedies(equalise=True)).measured.sqnr > plain + 6
    )


@pytest.mark.parametrize("between", ["mean", "pools"])
def test_equalisation_goes_through_means_pools_and_reshapes(between: str, tmp_path: Path) -> None:
    net = Net((1, 8, 8, 3), 2)
    x = net.conv("x", 16, 3, spread=1000.0)
    if between == "mean":
        x = net.add("mean", x, attrs=ReduceAttrs((1, 2)))
    else:
        x = net.add("max_pool2d", x, attrs=PoolAttrs((2, 2), (2, 2)))
        x = net.flat(net.add("average_pool2d", x, attrs=PoolAttrs((4, 4), (4, 4))))
    y = net.dense(x, 6)
    net.scaled(str(net.layer(y).inputs[1]), 1 / np.geomspace(1, 1000, 16))
    graph = prepared(net.graph(y))
    data = samples(graph, tmp_path)
    better, changed = equalised(graph, layer_inputs(graph, data))
    assert len(changed) == 1
    for sample in data:
        (a,), (b,) = (Executor(g).run(sample.inputs).values() for g in (graph, better))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(a).max())
    plain, equal = (
        quantize(graph, data, Scheme(), remedies=Remedies(equalise=e)).measured.sqnr
        for e in (False, True)
    )
    assert equal > plain + 6


def test_equalisation_stops_where_channels_are_mixed(tmp_path: Path) -> None:
    net = Net((1, 4, 4, 3), 2)
    y = net.dense(net.flat(net.conv("x", 16, 3, spread=1000.0)), 6)
    graph = prepared(net.graph(y))
    _, changed = equalised(graph, layer_inputs(graph, samples(graph, tmp_path)))
    assert changed == ()


def output_error(steps: np.ndarray, found: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Mean squared error of each output row for rounded weights, in squared steps."""
    e = found - steps
    return np.einsum("oi,ij,oj->o", e, moment, e)


@pytest.mark.parametrize("bits", [4, 8])
def test_compensated_rounding_has_less_output_error(bits: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 24)) + 0.1 * rng.normal(size=(400, 24))
    moment = x.T @ x / len(x)
    most = (1 << (bits - 1)) - 1
    steps = rng.uniform(-most, most, (10, 24))
    found = _compensated(steps, moment, most)
    assert np.abs(found).max() <= most
    nearest = output_error(steps, np.rint(steps), moment).sum()
    assert output_error(steps, found, moment).sum() < 0.7 * nearest


def test_bias_correction_cancels_the_mean_error(tmp_path: Path) -> None:
    """Of a dense layer it is exact: the mean error on the same samples vanishes."""
    net = Net((1, 12))
    graph = prepared(net.graph(net.dense("x", 6)))
    data = samples(graph, tmp_path)
    node = graph.nodes[0]
    w = graph.tensor(node.inputs[1]).array
    scales = weight_scales(weight_peaks(w, 0, True), None, 1.0, bits=4)
    stored = stored_weights(w, scales, 0, bits=4)
    statistics = layer_inputs(graph, data)[node.name]
    amount = bias_correction(graph, node, statistics, stored.data, scales.astype(np.float64))
    x = np.concatenate([s.inputs["x"] for s in data]).astype(np.float64)
    error = (x @ stored.quant.real(stored.data).T + amount - x @ w.astype(np.float64).T).mean(
        axis=0
    )
    assert np.abs(amount).max() > 1e-3
    np.testing.assert_allclose(error, 0, atol=1e-6)


def test_tuned_files_equal_litert(tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = samples(graph, tmp_path)
    session = quantize(graph, data, Scheme(), remedies=Remedies(True, True, True))
    assert session.tuning.stored
    assert check_against_litert(session.made, session.prepared, data, tmp_path) > 1000
    assert measure(session.prepared, session.made, data).sqnr > 20


def test_weights_of_four_bits_by_name_and_all(tmp_path: Path) -> None:
    graph = small_network()
    model, data = (
        write_float(graph, tmp_path / "n.tflite"),
        write_samples(graph, tmp_path / "d.npz"),
    )
    layers = [n.name for n in prepared(load_model(model)).nodes if n.op in NARROW]
    for asked, expected in (["all"], layers), ([layers[1]], layers[1:2]), ([], []):
        path = tmp_path / f"{len(asked)}{len(expected)}.tflite"
        made, written = api.quantize_model(model, path, data=[data], int4=asked)
        assert written is not None
        again = load_model(path)
        types = [again.tensors[str(n.inputs[1])].dtype for n in again.nodes if n.op in NARROW]
        assert [t.bits == 4 for t in types] == [name in expected for name in layers]
        assert made.scheme.int4 == frozenset(expected)
    with pytest.raises(UsageError, match="QNT-013"):
        api.quantize_model(model, data=[data], int4=["nothing"])


def test_scales_give_the_stored_numbers(tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = samples(graph, tmp_path)
    session = quantize(graph, data, Scheme())
    document = json.loads(json.dumps(scales_document(session)))
    made = session.made.graph
    nodes = {node.name: node for node in made.nodes}
    assert len(document["weights"]) == 5

    def fake(x: np.ndarray, entry: dict[str, object], zero: int, scale: np.ndarray) -> np.ndarray:
        steps = np.clip(np.rint(x / scale) + zero, entry["low"], entry["high"])
        return (steps - zero) * scale

    for name, entry in document["weights"].items():
        real = next(n for n in graph.nodes if n.name == name).inputs[1]
        shape = [1] * graph.tensors[real].array.ndim
        shape[entry["axis"]] = -1
        scale = np.array(entry["scale"]).reshape(shape)
        stored = made.tensors[str(nodes[name].inputs[1])]
        np.testing.assert_array_equal(
            fake(graph.tensors[real].array.astype(np.float64), entry, 0, scale),
            stored.array * scale,
        )
    entry = document["activations"]["x"]
    x = data[0].inputs["x"]
    tensor = made.tensors[made.inputs[0]]
    np.testing.assert_allclose(
        fake(x.astype(np.float64), entry, entry["zero_point"], entry["scale"]),
        tensor.quant.real(store(tensor, x)),
    )
    made_by = {node.outputs[0] for node in graph.nodes if node.op == "conv2d"}
    assert made_by <= set(document["activations"])


def test_scales_and_int4_on_the_command_line(tmp_path: Path) -> None:
    model = write_float(small_network(), tmp_path / "n.tflite")
    data = write_samples(small_network(), tmp_path / "d.npz")
    scales = tmp_path / "scales.json"
    line = ["quantize", str(model), "--data", str(data), "--int4", "all", "--scales", str(scales)]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    found = json.loads(scales.read_text())["weights"]
    assert {(w["op"], w["high"]) for w in found.values()} == {
        *(("conv2d", 7), ("fully_connected", 7), ("depthwise_conv2d", 127)),
    }
    again = CliRunner().invoke(app, line)
    assert isinstance(again.exception, UsageError)  # an existing file is not replaced
    assert again.exception.code == "OUT-005"

"""Quantised graphs: what they compute is what LiteRT computes, scales obey the operators' rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.quantize.networks import Net, small_network, write_samples

from npuforge.errors import UnsupportedError
from npuforge.exporters import Format, convert
from npuforge.graph import (
    ConcatAttrs,
    ElementwiseAttrs,
    Graph,
    LeakyReluAttrs,
    PadAttrs,
    PoolAttrs,
    Tensor,
    is_view,
)
from npuforge.importers import load_model
from npuforge.numerics import Executor
from npuforge.quantize import (
    EndType,
    Granularity,
    Precision,
    Quantized,
    Range,
    RangeMethod,
    Scheme,
    ZeroPoints,
    calibrate,
    prepared,
    quantize,
    quantize_graph,
)
from npuforge.quantize.measure import quantised_inputs
from npuforge.tasks import Dataset, open_dataset
from npuforge.validate.oracles import LiteRtReference
from npuforge.vocab import Activation, DType


def dataset(graph: Graph, folder: Path, count: int = 4) -> Dataset:
    return open_dataset([write_samples(graph, folder / "d.npz", count)], graph)


def check_against_litert(made: Quantized, float_graph: Graph, data: Dataset, folder: Path) -> int:
    """Every tensor of the written file, read again and run, equals LiteRT's; values compared."""
    content = convert(made.graph, Format.TFLITE).content
    path = folder / "q.tflite"
    path.write_bytes(content)
    again = load_model(path)
    executor, oracle = Executor(again, capture=True), LiteRtReference(again, content)
    compared = 0
    for sample in data:
        inputs = dict(
            zip(
                again.inputs,
                quantised_inputs(float_graph, made.graph, sample.inputs).values(),
                strict=True,
            )
        )
        executor.run(inputs)
        ours = executor.read(executor.activations())
        for name, truth in oracle.tensors(inputs, ours).items():
            if name not in ours:
                continue
            compared += truth.size
            if truth.dtype.kind == "f":
                np.testing.assert_allclose(ours[name], truth, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(ours[name], truth, err_msg=name)
    return compared


SCHEMES = {
    "default": Scheme(),
    "minmax": Scheme(method=RangeMethod.MINMAX),
    "moving": Scheme(method=RangeMethod.MOVING),
    "percentile": Scheme(method=RangeMethod.PERCENTILE, percentile=99.0),
    "entropy": Scheme(method=RangeMethod.ENTROPY),
    "tensor": Scheme(weights=Granularity.TENSOR),
    "npu zero points": Scheme(zero_points=ZeroPoints.NPU),
    "float ends": Scheme(inputs=EndType.FLOAT, outputs=EndType.FLOAT),
    "uint8 ends": Scheme(inputs=EndType.UINT8, outputs=EndType.UINT8),
    "16x8": Scheme(base=Precision.INT16),
    "16x8 float ends": Scheme(base=Precision.INT16, inputs=EndType.FLOAT, outputs=EndType.FLOAT),
    "all float": Scheme(base=Precision.FLOAT),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_written_file_equals_litert(name: str, tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = dataset(graph, tmp_path)
    ranges = calibrate(graph, data).ranges(graph, SCHEMES[name])
    made = quantize_graph(graph, ranges, SCHEMES[name])
    assert not made.refused
    assert check_against_litert(made, graph, data, tmp_path) > 1000
    if name not in ("16x8", "16x8 float ends", "all float"):
        weights = [t for t in made.graph.tensors.values() if t.is_constant and len(t.shape) == 4]
        assert weights
        assert all(t.dtype is DType.INT8 for t in weights)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), layers=st.dictionaries(
    st.integers(0, 14), st.sampled_from(list(Precision)), max_size=6))  # fmt: skip
def test_any_mixture_equals_litert(
    tmp_path_factory: pytest.TempPathFactory, seed: int, layers: dict[int, Precision]
) -> None:
    """Whatever computes in int8, 16x8 or float: the file opens and computes the same."""
    folder = tmp_path_factory.mktemp("mix")
    graph = prepared(small_network(seed, side=8))
    data = dataset(graph, folder, 2)
    chosen = {graph.nodes[i % len(graph.nodes)].name: kind for i, kind in layers.items()}
    scheme = Scheme(layers=chosen)
    made = quantize_graph(graph, calibrate(graph, data).ranges(graph, scheme), scheme)
    check_against_litert(made, graph, data, folder)
    for name, kind in chosen.items():
        if kind is Precision.FLOAT:
            assert made.assignment.precisions[name] is Precision.FLOAT


def test_onnx_form_runs_in_onnx_runtime(tmp_path: Path) -> None:
    import onnxruntime as ort

    graph = prepared(small_network())
    data = dataset(graph, tmp_path)
    made = quantize(graph, data, Scheme(inputs=EndType.FLOAT, outputs=EndType.FLOAT)).made
    written = convert(made.graph, Format.ONNX)
    session = ort.InferenceSession(written.content, providers=["CPUExecutionProvider"])
    ours = Executor(written.graph)
    for sample in data:
        (truth,) = session.run(None, {session.get_inputs()[0].name: sample.inputs["x"]})
        (found,) = ours.run({written.graph.inputs[0]: sample.inputs["x"]}).values()
        np.testing.assert_allclose(found, truth, atol=2 / 256)


def test_scales_obey_the_operators(tmp_path: Path) -> None:
    """Tied, fixed and bias scales, looked up in the finished graph."""
    graph = prepared(small_network())
    made = quantize(graph, dataset(graph, tmp_path), Scheme()).made.graph
    seen = set()
    for node in made.nodes:
        x = made.tensor(node.inputs[0])
        y = made.tensors[node.outputs[0]]
        seen.add(node.op)
        if node.op in ("max_pool2d", "average_pool2d", "pad") or is_view(node):
            assert x.quant.same_as(y.quant)
        if node.op == "concat":
            assert all(made.tensor(n).quant.same_as(y.quant) for n in node.inputs)
        if node.op in ("softmax", "logistic"):
            assert (float(y.quant.s), y.quant.z) == (1 / 256, -128)
        if node.op in ("conv2d", "depthwise_conv2d", "fully_connected"):
            w, bias = made.tensor(node.inputs[1]), made.tensor(node.inputs[2])
            assert not w.quant.zero_point.any()
            assert np.array_equal(bias.quant.scale, x.quant.s * w.quant.scale)
            assert int(np.abs(w.array.astype(int)).max()) == 127
        if isinstance(node.attrs, PadAttrs):
            assert node.attrs.value == y.quant.z
    assert {"max_pool2d", "average_pool2d", "pad", "concat", "softmax", "logistic"} <= seen


def test_fixed_scale_in_a_concat_is_changed_in_front(tmp_path: Path) -> None:
    """A sigmoid beside wide values keeps its own scale; a change of scale stands between."""
    net = Net((1, 4, 4, 4))
    wide = net.add("mul", "x", net.constant(np.full((1, 1, 1, 4), 20.0)), attrs=ElementwiseAttrs())
    joined = net.add("concat", net.add("logistic", "x"), wide, attrs=ConcatAttrs(3))
    graph = prepared(net.graph(joined))
    data = dataset(graph, tmp_path)
    made = quantize(graph, data, Scheme()).made
    between = [n for n in made.graph.nodes if n.op == "quantize"]
    assert len(between) == 1
    assert made.graph.producers[str(between[0].inputs[0])].op == "logistic"
    check_against_litert(made, graph, data, tmp_path)


def test_two_sigmoids_joined_need_no_change(tmp_path: Path) -> None:
    net = Net((1, 4, 4, 4))
    left, right = net.add("logistic", "x"), net.add("logistic", net.add("tanh", "x"))
    graph = prepared(net.graph(net.add("concat", left, right, attrs=ConcatAttrs(3))))
    made = quantize(graph, dataset(graph, tmp_path), Scheme()).made
    assert not [n for n in made.graph.nodes if n.op == "quantize"]


def test_npu_zero_points(tmp_path: Path) -> None:
    """Under NPU every convolution reads -128 or 0; free ranges have others."""
    graph = prepared(small_network())
    data = dataset(graph, tmp_path)

    def read(scheme: Scheme) -> set[int]:
        made = quantize(graph, data, scheme).made.graph
        return {
            made.tensor(n.inputs[0]).quant.z
            for n in made.nodes
            if n.op in ("conv2d", "depthwise_conv2d", "fully_connected")
        }

    assert read(Scheme(zero_points=ZeroPoints.NPU)) <= {-128, 0}
    assert read(Scheme()) - {-128, 0}


def test_operators_without_integer_form_stay_float(tmp_path: Path) -> None:
    net = Net((1, 4, 4, 4))
    a = net.conv("x", 4)
    b = net.add("sqrt", a)
    c = net.conv(b, 4)
    graph = prepared(net.graph(net.add("leaky_relu", c, attrs=LeakyReluAttrs(0.1))))
    data = dataset(graph, tmp_path)
    made = quantize(graph, data, Scheme()).made
    assert made.assignment.precisions[b] is Precision.FLOAT
    ops = [n.op for n in made.graph.nodes]
    assert ops == ["conv2d", "dequantize", "sqrt", "quantize", "conv2d", "leaky_relu"]
    check_against_litert(made, graph, data, tmp_path)


def test_uneven_channels_and_dead_ones_fit_int32(tmp_path: Path) -> None:
    """A channel of zeros with a bias, and a bias far larger than the weights."""
    net = Net((1, 4, 4, 2))
    w = np.zeros((3, 1, 1, 2))
    w[1] = 1e-8
    w[2] = 1.0
    from npuforge.graph import ConvAttrs

    out = net.add("conv2d", "x", net.constant(w), net.constant([5.0, 2.0, -1.0]), attrs=ConvAttrs())
    graph = prepared(net.graph(out))
    data = dataset(graph, tmp_path)
    session = quantize(graph, data, Scheme())
    check_against_litert(session.made, graph, data, tmp_path)
    assert session.measured.sqnr > 35


def test_constant_network_and_unused_range(tmp_path: Path) -> None:
    """Tensors that are always zero get a scale all the same."""
    net = Net((1, 4, 4, 2))
    out = net.add("mul", "x", net.constant(np.zeros((1, 1, 1, 2))), attrs=ElementwiseAttrs())
    graph = prepared(net.graph(net.add("max_pool2d", out, attrs=PoolAttrs((2, 2), (2, 2)))))
    data = dataset(graph, tmp_path)
    made = quantize(graph, data, Scheme()).made
    check_against_litert(made, graph, data, tmp_path)


def test_quantised_networks_are_refused(tmp_path: Path) -> None:
    graph = prepared(small_network())
    made = quantize(graph, dataset(graph, tmp_path), Scheme()).made
    with pytest.raises(UnsupportedError, match="QNT-001"):
        prepared(made.graph)


def test_batch_normalisation_and_relu_fold(tmp_path: Path) -> None:
    net = Net((1, 8, 8, 3))
    a = net.conv("x", 4, act=Activation.NONE)
    b = net.add("mul", a, net.constant([0.5, 2.0, 1.0, 3.0]), attrs=ElementwiseAttrs())
    c = net.add("add", b, net.constant([0.1, 0.2, 0.3, 0.4]), attrs=ElementwiseAttrs())
    graph = net.graph(net.add("relu", c))
    ready = prepared(graph)
    assert [n.op for n in ready.nodes] == ["conv2d"]
    x = {"x": np.random.default_rng(0).normal(size=(1, 8, 8, 3)).astype(np.float32)}
    (truth,), (found,) = Executor(graph).run(x).values(), Executor(ready).run(x).values()
    np.testing.assert_allclose(found, truth, atol=1e-5)


def test_more_bits_less_error(tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = dataset(graph, tmp_path)
    sqnr = {
        kind: quantize(graph, data, Scheme(base=kind)).measured.tensors[1].sqnr
        for kind in (Precision.INT8, Precision.INT16)
    }
    assert sqnr[Precision.INT16] > sqnr[Precision.INT8]


def test_int4_weights_equal_litert(tmp_path: Path) -> None:
    graph = prepared(small_network())
    data = dataset(graph, tmp_path)
    name = next(n.name for n in graph.nodes if n.op == "conv2d")
    scheme = Scheme(int4=frozenset({name}))
    made = quantize_graph(graph, calibrate(graph, data).ranges(graph, scheme), scheme)
    node = next(n for n in made.graph.nodes if n.name == name)
    w = made.graph.tensor(node.inputs[1])
    assert w.dtype is DType.INT4
    assert int(np.abs(w.array.astype(int)).max()) == 7
    check_against_litert(made, graph, data, tmp_path)


def test_given_ranges_decide(tmp_path: Path) -> None:
    """The input's scale is that of its range, whatever the data."""
    graph = prepared(small_network())
    data = dataset(graph, tmp_path)
    ranges = dict(calibrate(graph, data).ranges(graph, Scheme()))
    ranges["x"] = Range(-1.0, 1.0)
    made = quantize_graph(graph, ranges, Scheme())
    x = made.graph.tensors[made.graph.inputs[0]]
    assert float(x.quant.s) == pytest.approx(2 / 255)
    assert replace(x, data=None).shape == graph.tensors["x"].shape


def test_scalar_constants_keep_their_rank() -> None:
    net = Net((1, 8, 8, 3))
    x = net.conv("x", 4)
    net.tensors["half"] = Tensor("half", (), DType.FLOAT32, None, np.array(0.5, np.float32))
    y = net.add("mul", x, "half", attrs=ElementwiseAttrs())
    graph = prepared(net.graph(y))
    ranges = {name: Range(-1.0, 3.0) for name in graph.tensors}
    made = quantize_graph(graph, ranges, Scheme()).graph
    scalars = [t for t in made.tensors.values() if t.is_constant and t.shape == ()]
    assert [t.array.shape for t in scalars] == [()]

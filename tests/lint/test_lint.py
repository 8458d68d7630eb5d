"""Each lint rule fires on a model made for it, and stays quiet on one without the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.passes.patterns import (
    NONE,
    Net,
    classifier,
    float_input,
    relu_behind_reshape,
    spiking_step,
    strided_line,
    unsigned_network,
)

from npuforge.errors import ModelError, UsageError
from npuforge.exporters import export_tflite
from npuforge.graph import Graph, Quantization
from npuforge.graph import attrs as at
from npuforge.lint import (
    RULES,
    FileFacts,
    Subject,
    findings,
    lint_file,
    lint_graph,
    overflow,
    read_facts,
)
from npuforge.lint.files import normalised
from npuforge.messages import catalogue
from npuforge.numerics import run_graph
from npuforge.vocab import Contract, DType, Severity


def onnx_model(
    nodes: list[Any],
    shape: list[Any],
    out: list[Any],
    constants: dict[str, Any] | None = None,
    *,
    opset: int = 17,
    ir: int = 8,
    metadata: dict[str, str] | None = None,
) -> onnx.ModelProto:
    """A model with one float input x and one output y."""
    values = constants or {}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = ir
    helper.set_model_props(model, metadata or {})
    return model


def relu(**more: Any) -> onnx.ModelProto:
    shape = more.pop("shape", [1, 8])
    return onnx_model([helper.make_node("Relu", ["x"], ["y"], "r")], shape, [1, 8], **more)


def qdq(zero: Any, **more: Any) -> onnx.ModelProto:
    """Quantise, dequantise, ReLU, quantise, dequantise, ReLU."""
    constants = {"s": np.float32(0.1), "z": zero}
    nodes, name = [], "x"
    for i in range(2):
        nodes += [
            helper.make_node("QuantizeLinear", [name, "s", "z"], [f"q{i}"], f"q{i}"),
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"], f"d{i}"),
            helper.make_node("Relu", [f"d{i}"], ["y" if i else "r0"], f"r{i}"),
        ]
        name = "r0"
    return onnx_model(nodes, [1, 8], [1, 8], constants, **more)


def one(op: str, inputs: list[str], constants: dict[str, Any], **attrs: Any) -> onnx.ModelProto:
    return onnx_model(
        [helper.make_node(op, inputs, ["y"], "n", **attrs)], [4, 8], [4, 8], constants
    )


def gemm(*, computed: bool) -> onnx.ModelProto:
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "n")]
    constants: dict[str, Any] = {"w": np.ones((8, 8), np.float32)}
    if computed:
        nodes.insert(0, helper.make_node("Relu", ["x"], ["b"], "r"))
    else:
        constants["b"] = np.ones(8, np.float32)
    return onnx_model(nodes, [4, 8], [4, 8], constants)


def clip(*, dequantized: bool) -> onnx.ModelProto:
    constants = {"s": np.float32(1), "z": np.int8(0), "q": np.int8(6), "low": np.float32(0)}
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"], "n")]
    if dequantized:
        nodes.insert(0, helper.make_node("DequantizeLinear", ["q", "s", "z"], ["high"], "d"))
    else:
        constants["high"] = np.float32(6)
    return onnx_model(nodes, [4, 8], [4, 8], constants)


def sliced(end: int) -> onnx.ModelProto:
    bounds = {"b": np.array([0]), "e": np.array([end]), "a": np.array([0])}
    return one("Slice", ["x", "b", "e", "a"], bounds)


def nms() -> onnx.ModelProto:
    return one("NonZero", ["x"], {})


def qlinear() -> onnx.ModelProto:
    scale = {"s": np.float32(0.1), "z": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "q"),
        helper.make_node(
            "QLinearAdd", ["q", "s", "z", "q", "s", "z", "s", "z"], ["a"], "n",
            domain="com.microsoft",
        ),
        helper.make_node("DequantizeLinear", ["a", "s", "z"], ["y"], "d"),
    ]  # fmt: skip
    return onnx_model(nodes, [4, 8], [4, 8], scale)


RESHAPE = {"n": np.array([8, 4])}
FILES: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[], onnx.ModelProto]]] = {
    "LINT-dynamic-shape": (lambda: relu(shape=[1, "width"]), relu),
    "LINT-dynamic-batch": (lambda: relu(shape=["N", 8]), relu),
    "LINT-opset": (lambda: relu(opset=21), relu),
    "LINT-opset-untried": (lambda: relu(opset=18), relu),
    "LINT-ir": (lambda: relu(ir=10), relu),
    "LINT-rejected-operator": (nms, relu),
    "LINT-unreadable": (nms, relu),
    "LINT-uint8": (lambda: qdq(np.uint8(3)), lambda: qdq(np.int8(3))),
    "LINT-qoperator": (qlinear, lambda: qdq(np.int8(0))),
    "LINT-allowzero": (
        lambda: one("Reshape", ["x", "n"], RESHAPE, allowzero=1),
        lambda: one("Reshape", ["x", "n"], RESHAPE),
    ),
    "LINT-gemm-bias": (lambda: gemm(computed=True), lambda: gemm(computed=False)),
    "LINT-clip-bounds": (lambda: clip(dequantized=True), lambda: clip(dequantized=False)),
    "LINT-slice-ends": (lambda: sliced(-1), lambda: sliced(3)),
    "LINT-input-metadata": (
        lambda: qdq(np.int8(-128), metadata={"input_range": "-1..1"}),
        lambda: qdq(np.int8(-128), metadata={"input_range": "0..25.5"}),
    ),
}


def codes(path: Path, model: onnx.ModelProto) -> set[str]:
    path.write_bytes(model.SerializeToString())
    return {finding.rule for finding in lint_file(path)}


@pytest.mark.parametrize("code", sorted(FILES))
def test_file_rule(code: str, tmp_path: Path) -> None:
    fires, quiet = FILES[code]
    assert code in codes(tmp_path / "fires.onnx", fires())
    assert code not in codes(tmp_path / "quiet.onnx", quiet())


def test_own_export(tmp_path: Path) -> None:
    assert "LINT-own-export" in codes(tmp_path / "net_OE_3_2_0.onnx", relu())
    assert "LINT-own-export" not in codes(tmp_path / "network.onnx", relu())


def _pieces(*scales: float, y: float = 0.1) -> Graph:
    net = Net()
    parts = [net.op("relu", [net.input(1, 4, 4, 8)], q=(s, -128)) for s in scales]
    return net.graph(net.op("concat", parts, at.ConcatAttrs(3), q=(y, -128)))


def _head(scale: float) -> Graph:
    net = Net()
    boxes = net.op("relu", [net.input(1, 4, 20)], q=(scale, -128))
    scores = net.op("logistic", [net.input(1, 2, 20)], q=(1 / 256, -128))
    moved = net.op("quantize", [scores], q=(scale, -128))
    return net.graph(net.op("concat", [boxes, moved], at.ConcatAttrs(1), q=(scale, -128)))


def _weights(per_channel: bool, zero: int = 0) -> Graph:
    net = Net()
    x = net.input(1, 4, 4, 8)
    w = net.rng.integers(-127, 128, (8, 1, 1, 8))
    w[::2] //= 20
    scale = np.full(8, 0.01, np.float32)
    quant = Quantization.per_channel(scale, 0, np.full(8, zero))
    if not per_channel:
        quant = Quantization.per_tensor(0.01, zero)
    weights = net.const(w, quant)
    return net.graph(net.op("conv2d", [x, weights], at.ConvAttrs(), q=(0.3, 0)))


def _kernel(size: int) -> Graph:
    net = Net()
    return net.graph(net.conv(net.input(1, 12, 12, 3), 4, (size, size)))


def _unary(*shape: int, dtype: DType = DType.INT8) -> Graph:
    net = Net()
    return net.graph(net.op("relu", [net.input(*shape, dtype=dtype, q=(0.05, 0))]))


def _float_conv(weights: DType) -> Graph:
    net = Net()
    x = net.input(1, 4, 4, 3, dtype=DType.FLOAT32, q=None)
    values = np.ones((4, 1, 1, 3))
    quant = Quantization.per_tensor(0.1) if weights is DType.INT8 else None
    w = net.const(values, quant, weights)
    return net.graph(net.op("conv2d", [x, w], at.ConvAttrs()))


def _no_scale() -> Graph:
    graph = _kernel(3)
    name = graph.nodes[0].outputs[0]
    bare = replace(graph.tensors[name], quantization=None)
    return replace(graph, tensors={**graph.tensors, name: bare})


def _channels_first() -> Graph:
    net = Net()
    x = net.input(1, 3, 16, 16)
    turned = net.move("transpose", x, at.TransposeAttrs((0, 2, 3, 1)))
    return net.graph(net.conv(turned, 4))


def _image() -> Graph:
    return _kernel(3)


GRAPHS: dict[str, tuple[Callable[[], Graph], Callable[[], Graph]]] = {
    "LINT-rank-refused": (lambda: _unary(1, 2, 2, 2, 2, 2), lambda: _unary(1, 2, 2, 2, 2)),
    "LINT-rank": (lambda: _unary(1, 2, 2, 2, 2), lambda: _unary(1, 2, 2, 2)),
    "LINT-dim": (lambda: _unary(1, 65_536), lambda: _unary(1, 65_535)),
    "LINT-batch": (lambda: _unary(2, 4, 4, 3), lambda: _unary(1, 4, 4, 3)),
    "LINT-int16": (lambda: _unary(1, 8, dtype=DType.INT16), lambda: _unary(1, 8)),
    "LINT-float-model": (lambda: _float_conv(DType.FLOAT32), _image),
    "LINT-float-island": (spiking_step, float_input),
    "LINT-missing-scale": (_no_scale, _image),
    "LINT-hybrid": (lambda: _float_conv(DType.INT8), lambda: _float_conv(DType.FLOAT32)),
    "LINT-weights-per-tensor": (lambda: _weights(False), lambda: _weights(True)),
    "LINT-weights-zero-point": (lambda: _weights(True, 3), lambda: _weights(True)),
    "LINT-shared-scale": (lambda: _head(1.0), lambda: _head(1 / 256)),
    "LINT-concat-scales": (lambda: _pieces(0.1, 0.02), lambda: _pieces(0.1, 0.1)),
    "LINT-hang-strided-depthwise": (strided_line, classifier),
    "LINT-hang-activation-link": (relu_behind_reshape, classifier),
    "LINT-hang-7x7": (lambda: _kernel(7), lambda: _kernel(5)),
    "LINT-input-layout": (_channels_first, _image),
}


def graph_codes(graph: Graph) -> set[str]:
    return {finding.rule for finding in lint_graph(graph)}


@pytest.mark.parametrize("code", sorted(GRAPHS))
def test_graph_rule(code: str) -> None:
    fires, quiet = GRAPHS[code]
    assert code in graph_codes(fires())
    assert code not in graph_codes(quiet())


def test_uint8_in_tflite(tmp_path: Path) -> None:
    path = tmp_path / "old.tflite"
    path.write_bytes(export_tflite(unsigned_network()))
    assert read_facts(path).unsigned
    found = {f.rule: f for f in lint_file(path)}
    assert found["LINT-uint8"].severity is Severity.ERROR


# --- measured on data ---


def _data_model(tmp_path: Path) -> Path:
    """A float input quantised for -1..1."""
    net = Net()
    x = net.input(1, 8, 8, 3, dtype=DType.FLOAT32, q=None)
    stored = net.op("quantize", [x], dtype=DType.INT8, q=(2 / 255, -1))
    path = tmp_path / "image.tflite"
    path.write_bytes(export_tflite(net.graph(net.conv(stored, 4, (3, 3)))))
    return path


@pytest.mark.parametrize(
    ("scale", "code"),
    [(255.0, "LINT-sample-range"), (0.1, "LINT-sample-narrow"), (1.0, None)],
)
def test_sample_range(scale: float, code: str | None, tmp_path: Path) -> None:
    model = _data_model(tmp_path)
    sample = np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 3)).astype(np.float32) * scale
    np.save(tmp_path / "x.npy", sample)
    found = {f.rule for f in lint_file(model, [tmp_path / "x.npy"])}
    both = {"LINT-sample-range", "LINT-sample-narrow"}
    assert found & both == ({code} if code else set())


def test_sample_shape(tmp_path: Path) -> None:
    model = _data_model(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    found = {f.rule: f for f in lint_file(model, [tmp_path / "x.npy"])}
    assert found["LINT-sample-shape"].severity is Severity.ERROR
    assert "3" in found["LINT-sample-shape"].message


def _sums(values: int) -> tuple[Graph, np.ndarray[Any, Any]]:
    """64 products of weights that cancel: their sum says nothing of the accumulator."""
    net = Net()
    x = net.input(1, 2, 2, 64, q=(0.05, 0))
    w = np.tile([100, -100], 32).reshape(1, 1, 1, 64)
    weights = net.const(w, Quantization.per_channel([0.01], 0))
    graph = net.graph(net.op("conv2d", [x, weights], at.ConvAttrs(), q=(5.0, 0)))
    data = np.tile(np.array([values, -values], np.int8), 128).reshape(1, 2, 2, 64)
    return graph, data


@pytest.mark.parametrize(("value", "saturates"), [(100, True), (5, False), (6, True)])
def test_accumulator(value: int, saturates: bool) -> None:
    graph, data = _sums(value)
    found = overflow(graph, graph.nodes[0], [data])
    assert found is not None
    # weights sum to 0, so the shift is 0 and the sum is 64 * 100 * value
    assert found[1] == pytest.approx(6400 * value / 32767)
    assert (found[0] > 0) is saturates
    subject = Subject(Path("x"), FileFacts("x", "tflite"), graph, samples=[{"x0": data}])
    fired = {f.rule for f in findings(RULES, subject)}
    assert ("LINT-accumulator" in fired) is saturates


@pytest.mark.parametrize("kind", ["conv", "depthwise", "strided", "dilated", "groups"])
def test_sums_are_those_of_the_layer(kind: str) -> None:
    """The largest sum, from our own executor with an output scale that shows sums as they are."""
    net = Net(seed=5)
    x = net.input(1, 7, 6, 8, q=(1.0, 3))
    shape = {"depthwise": (1, 3, 3, 8), "groups": (8, 3, 3, 2)}.get(kind, (8, 3, 3, 8))
    axis = 3 if kind == "depthwise" else 0
    w = net.rng.integers(-20, 21, shape)
    weights = net.const(w, Quantization.per_channel(np.ones(8), axis))
    attrs = at.ConvAttrs(
        stride=(2, 1) if kind == "strided" else (1, 1),
        dilation=(2, 1) if kind == "dilated" else (1, 1),
        padding=(1, 1, 1, 1),
        groups=4 if kind == "groups" else 1,
    )
    op = "depthwise_conv2d" if kind == "depthwise" else "conv2d"
    # eight sums of 16 bits each: too wide for int8, so read through 16384ths
    graph = net.graph(net.op(op, [x, weights], attrs, q=(1.0, 0)))
    data = net.rng.integers(-100, 101, (1, 7, 6, 8)).astype(np.int8)
    floats = _as_float(graph)
    exact = run_graph(floats, {"x0": data.astype(np.float32) - 3})[floats.outputs[0]]
    others = tuple(i for i in range(4) if i != axis)
    shift = max(0, int(np.abs(w.sum(axis=others)).max()).bit_length() - 7)
    largest = np.floor(np.abs(exact).max() / 2**shift + 0.5)
    found = overflow(graph, graph.nodes[0], [data])
    assert found is not None
    assert found[1] == pytest.approx(largest / 32767)


def _as_float(graph: Graph) -> Graph:
    tensors = {
        name: replace(
            t,
            dtype=DType.FLOAT32,
            quantization=None,
            data=None if t.data is None else t.data.astype(np.float32),
        )
        for name, t in graph.tensors.items()
    }
    nodes = tuple(replace(n, contract=Contract.FLOAT32) for n in graph.nodes)
    return replace(graph, tensors=tensors, nodes=nodes)


# --- all rules ---


def test_every_rule_is_tested_and_has_words() -> None:
    measured = {"LINT-own-export", "LINT-sample-shape", "LINT-sample-range", "LINT-sample-narrow"}
    tested = {*FILES, *GRAPHS, *measured, "LINT-accumulator"}
    assert {rule.code for rule in RULES} == tested
    for language in ("en", "zh"):
        for rule in RULES:
            assert set(catalogue(language)[rule.code]) == {"message", "cause", "hint"}


def test_many_places_are_counted() -> None:
    net = Net()
    x = net.input(1, 30, 30, 3)
    for _ in range(8):
        x = net.conv(x, 3, (7, 7), padding=(3, 3, 3, 3))
    found = [f for f in lint_graph(net.graph(x)) if f.rule == "LINT-hang-7x7"]
    assert len(found) == 5
    assert sum(1 + f.places for f in found) == 8


def test_normalisation_of_metadata() -> None:
    assert normalised([127.5], [127.5]) == (-1.0, 1.0)
    assert normalised([0.0], [1.0]) == (0.0, 1.0)
    assert normalised([], [1.0]) is None
    assert normalised([1.0], [0.0]) is None


def test_hostile_files(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    for content in (b"\x08\x07garbage", b"x" * 64, b"\x00\x00\x00\x00TFL3" + b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(ModelError):
            lint_file(path)
    with pytest.raises(UsageError):
        lint_file(tmp_path / "nothing.onnx")
    whole = relu().SerializeToString()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut] or b"\x00")
        try:
            lint_file(path)
        except ModelError:
            continue


@pytest.mark.shared
def test_no_error_on_sound_models(shared: Path) -> None:
    """Networks that ST's compiler took, or that boards ran: nothing of severity error."""
    for path in sorted((shared / "models").glob("*")):
        for finding in lint_file(path):
            assert finding.severity is not Severity.ERROR, (path.name, finding)


def test_examples_have_no_errors(example: Callable[[str], Path]) -> None:
    for name in ("keyword_spotting", "image_classification", "visual_wake_words"):
        assert all(f.severity is not Severity.ERROR for f in lint_file(example(name)))


def test_difference_of_add_is_no_fault() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    assert not lint_graph(net.graph(net.op("add", [x, x], NONE, q=(0.1, 0))))

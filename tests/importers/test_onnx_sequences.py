"""Windows over one axis: Conv1d, its transposed form and pools, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper, numpy_helper

from npuforge.errors import UnsupportedError
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.numerics import run_graph

ort = pytest.importorskip("onnxruntime")


def save(
    path: Path, nodes: Sequence[NodeProto], constants: dict[str, np.ndarray], shape: Sequence[int]
) -> None:
    """A model from x of some shape to y."""
    tensors = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_empty_tensor_value_info("y")
    y.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(nodes, "sequence", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def compare(path: Path, seed: int, tolerance: float) -> Graph:
    """Run a file here and in ONNX Runtime without its rewrites; the graph."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options)
    shape = session.get_inputs()[0].shape
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    wanted = session.run(None, {"x": x})[0]
    graph = load_model(path)
    got = run_graph(graph, {"x": x})["y"]
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max(initial=0) <= tolerance * max(np.abs(wanted).max(initial=0), 1)
    return graph


@given(
    st.sampled_from(("Conv", "depthwise", "ConvTranspose", "MaxPool", "AveragePool")),
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2),
    st.booleans(), st.integers(0, 10**6),
)  # fmt: skip
@settings(max_examples=120, derandomize=True, deadline=None)
def test_windows(
    tmp_path_factory: pytest.TempPathFactory, kind: str, kernel: int, stride: int, dilation: int,
    before: int, after: int, stated: bool, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    channels, length = int(rng.integers(2, 5)), int(rng.integers(14, 30))
    pads = [min(before, kernel - 1), min(after, kernel - 1)]
    attrs: dict[str, object] = {"strides": [stride], "pads": pads}
    inputs, constants = ["x"], {}
    if kind in ("MaxPool", "AveragePool"):
        op = kind
        attrs["kernel_shape"] = [kernel]
    else:
        op = kind if kind != "depthwise" else "Conv"
        shape = {
            "Conv": (3, channels, kernel),
            "depthwise": (channels, 1, kernel),
            "ConvTranspose": (channels, 3, kernel),
        }[kind]
        constants["w"] = rng.standard_normal(shape).astype(np.float32)
        constants["b"] = rng.standard_normal(channels if kind == "depthwise" else 3).astype("f4")
        inputs += ["w", "b"]
        if stated:
            attrs["kernel_shape"] = [kernel]
        if op == "Conv":
            attrs["dilations"] = [dilation]
            attrs["group"] = channels if kind == "depthwise" else 1
    path = tmp_path_factory.mktemp("sequence") / "m.onnx"
    save(path, [helper.make_node(op, inputs, ["y"], **attrs)], constants, (1, channels, length))
    compare(path, seed, 1e-5)


@pytest.mark.parametrize("axis", [0, -3])
def test_quantised_layers_stay_integer_and_in_one_layout(axis: int, tmp_path: Path) -> None:
    """Two quantised layers with an activation: no float between, one transpose at either end."""
    rng = np.random.default_rng(2)
    constants: dict[str, np.ndarray] = {"s": np.float32(0.02), "z": np.int8(1)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"]),
        helper.make_node("DequantizeLinear", ["q0", "s", "z"], ["d0"]),
    ]
    for i, shape in enumerate(((6, 3, 5), (4, 6, 3)), 1):
        constants |= {
            f"w{i}": rng.integers(-40, 41, shape).astype(np.int8),
            f"ws{i}": (rng.random(shape[0]) * 0.004 + 0.001).astype(np.float32),
            f"wz{i}": np.zeros(shape[0], np.int8),
        }
        nodes += [
            helper.make_node(
                "DequantizeLinear", [f"w{i}", f"ws{i}", f"wz{i}"], [f"wd{i}"], axis=axis
            ),
            helper.make_node("Conv", [f"d{i - 1}", f"wd{i}"], [f"c{i}"], pads=[1, 1]),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"]),
            helper.make_node("QuantizeLinear", [f"r{i}", "s", "z"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]),
        ]
    nodes.append(helper.make_node("Identity", ["d2"], ["y"]))
    path = tmp_path / "m.onnx"
    save(path, nodes, constants, (1, 3, 24))
    graph = compare(path, 1, 0.0)
    ops = [node.op for node in graph.nodes]
    assert ops.count("conv2d") == 2
    assert ops.count("quantize") == ops.count("dequantize") == 1
    assert "relu" not in ops
    assert graph.added_transposes == 2


def test_windows_over_three_axes_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    weights = {"w": np.ones((2, 3, 2, 2, 2), np.float32)}
    save(path, [helper.make_node("Conv", ["x", "w"], ["y"], name="cube")], weights, (1, 3, 4, 4, 4))
    with pytest.raises(UnsupportedError) as caught:
        load_model(path)
    assert caught.value.code == "IMP-031"
    assert "cube" in caught.value.message
    assert "3 axes" in caught.value.message
    assert caught.value.hint


def test_computed_weights_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [
        helper.make_node("Relu", ["x"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["y"], name="line", kernel_shape=[4]),
    ]
    save(path, nodes, {}, (3, 3, 4))
    with pytest.raises(UnsupportedError) as caught:
        load_model(path)
    assert "line" in caught.value.message
    assert "computed" in caught.value.message

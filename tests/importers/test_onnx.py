"""Quantise/dequantise pairs become integer nodes; the result is what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.importers.test_fuzz import small_onnx

from npuforge.errors import ModelError, UnsupportedError
from npuforge.importers import load_model, read_model_bytes
from npuforge.numerics import Executor, random_inputs
from npuforge.validate import oracle_for
from npuforge.validate.onnx_layers import OnnxRuntimeLayers
from npuforge.vocab import Contract

onnx = pytest.importorskip("onnx")


def test_pairs_become_integer_nodes(tmp_path: Path) -> None:
    graph = load_model(small_onnx(tmp_path / "small.onnx"))
    ops = [(node.op, node.contract) for node in graph.nodes]
    assert ops == [
        ("quantize", Contract.ONNX_QLINEAR),
        ("transpose", Contract.EXACT),
        ("conv2d", Contract.ONNX_QLINEAR),
        ("mean", Contract.ONNX_QLINEAR),
        ("reshape", Contract.EXACT),
        ("dequantize", Contract.ONNX_QLINEAR),
    ]
    assert graph.added_transposes == 1
    assert graph.inputs == ("x",)
    assert graph.outputs == ("y",)
    assert graph.tensors["x"].shape == (1, 3, 8, 8)
    assert graph.source_axes["r_q"] == (0, 2, 3, 1)


def test_layers_equal_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = small_onnx(tmp_path / "small.onnx")
    graph = load_model(path)
    oracle = oracle_for(graph, read_model_bytes(path))
    assert isinstance(oracle, OnnxRuntimeLayers)
    executor = Executor(graph, capture=True)
    rng = np.random.default_rng(5)
    for _ in range(5):
        inputs = random_inputs(graph, rng)
        executor.run(inputs)
        ours = executor.read(executor.activations())
        truth = oracle.tensors(inputs, ours)
        assert set(truth) == {"x_q", "r_q", "g_q"}
        for name, value in truth.items():
            assert np.array_equal(value, ours[name]), name
    assert oracle.pieces["r_q"].is_qlinear
    assert oracle.pieces["g_q"].is_qlinear


def edited(path: Path, change: object) -> Path:
    model = onnx.load(path)
    change(model)  # type: ignore[operator]
    onnx.save(model, path)
    return path


def test_dynamic_axis(tmp_path: Path) -> None:
    def change(model: object) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"  # type: ignore[attr-defined]

    with pytest.raises(UnsupportedError) as caught:
        load_model(edited(small_onnx(tmp_path / "m.onnx"), change))
    assert caught.value.code == "IMP-032"
    assert "x" in caught.value.message


def test_free_batch_axis_becomes_one(tmp_path: Path) -> None:
    def change(model: object) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"  # type: ignore[attr-defined]

    graph = load_model(edited(small_onnx(tmp_path / "m.onnx"), change))
    assert graph.tensors["x"].shape[0] == 1


def test_unsupported_operator(tmp_path: Path) -> None:
    def change(model: object) -> None:
        model.graph.node[4].op_type = "NonZero"  # type: ignore[attr-defined]
        model.graph.node[4].name = "culprit"  # type: ignore[attr-defined]

    with pytest.raises(UnsupportedError) as caught:
        load_model(edited(small_onnx(tmp_path / "m.onnx"), change))
    assert caught.value.code == "IMP-030"
    assert "culprit" in caught.value.message
    assert "NonZero" in caught.value.message


def test_dangling_and_cyclic(tmp_path: Path) -> None:
    def dangling(model: object) -> None:
        model.graph.node[4].input[0] = "nowhere"  # type: ignore[attr-defined]

    with pytest.raises(ModelError) as caught:
        load_model(edited(small_onnx(tmp_path / "a.onnx"), dangling))
    assert caught.value.code == "IMP-035"
    assert "nowhere" in caught.value.message

    def cyclic(model: object) -> None:
        model.graph.node[0].input[0] = "y"  # type: ignore[attr-defined]

    with pytest.raises(ModelError) as caught:
        load_model(edited(small_onnx(tmp_path / "b.onnx"), cyclic))
    assert caught.value.code == "IMP-035"


def test_nan_scale(tmp_path: Path) -> None:
    from npuforge.errors import GraphError

    def change(model: object) -> None:
        for item in model.graph.initializer:  # type: ignore[attr-defined]
            if item.name == "r_s":
                item.raw_data = np.array([np.nan], np.float32).tobytes()

    with pytest.raises(GraphError) as caught:
        load_model(edited(small_onnx(tmp_path / "m.onnx"), change))
    assert caught.value.code == "GRF-015"


def test_data_outside_of_the_file(tmp_path: Path) -> None:
    path = small_onnx(tmp_path / "m.onnx")
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name == "w")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UnsupportedError) as caught:
        load_model(path)
    assert caught.value.code == "IMP-033"
    assert "passwd" in caught.value.message


def test_unknown_opset(tmp_path: Path) -> None:
    def change(model: object) -> None:
        model.opset_import[0].version = 99  # type: ignore[attr-defined]

    with pytest.raises(UnsupportedError) as caught:
        load_model(edited(small_onnx(tmp_path / "m.onnx"), change))
    assert caught.value.code == "IMP-034"

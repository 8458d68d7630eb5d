"""Quantise/dequantise pairs become integer nodes; the result is what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.importers.test_fuzz import small_onnx
from tests.onnx_models import Layers

from npuforge.errors import ModelError, UnsupportedError, UsageError
from npuforge.importers import load_model, read_model_bytes
from npuforge.importers.onnx.importer import import_onnx
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
        assert set(truth) == {"x_q", "r_q", "g_q", "y"}
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


def test_named_dimensions_are_fixed(tmp_path: Path) -> None:
    def change(model: object) -> None:
        dims = model.graph.input[0].type.tensor_type.shape.dim  # type: ignore[attr-defined]
        dims[2].dim_param, dims[3].dim_param = "height", "width"

    path = edited(small_onnx(tmp_path / "m.onnx"), change)
    for shapes in ({"x": (1, 3, 12, 10)}, {"height": (12,), "width": (10,)}):
        graph = load_model(path, shapes)
        assert graph.tensors["x"].shape == (1, 3, 12, 10)
        assert graph.tensors["r_q"].shape == (1, 12, 10, 4)
    with pytest.raises(UsageError) as unknown:
        load_model(path, {"depth": (3,)})
    assert unknown.value.code == "IMP-037"
    with pytest.raises(UnsupportedError) as fixed:
        load_model(path, {"x": (1, 4, 12, 10)})
    assert fixed.value.code == "IMP-038"

    def minus(model: onnx.ModelProto) -> None:
        for number in (0, 2, 3):
            model.graph.input[0].type.tensor_type.shape.dim[number].dim_value = -1

    path = edited(small_onnx(tmp_path / "minus.onnx"), minus)
    assert load_model(path, {"x": (1, 3, 12, 10)}).tensors["x"].shape == (1, 3, 12, 10)


def external(tmp_path: Path, location: str) -> Path:
    """The small network with its weights in a file beside it."""
    path = small_onnx(tmp_path / "m.onnx")
    model = onnx.load(path)
    weights = next(item for item in model.graph.initializer if item.name == "w")
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "8")):
        weights.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    inside = load_model(small_onnx(tmp_path / "inside.onnx"))
    outside = load_model(external(tmp_path, "w.bin"))
    weights = {n: t.data for n, t in outside.tensors.items() if t.data is not None}
    assert weights
    for name, data in weights.items():
        assert np.array_equal(data, inside.tensors[name].array)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "sub/../../w.bin", ""])
def test_external_data_cannot_escape(tmp_path: Path, location: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load_model(external(tmp_path, location))
    assert caught.value.code == "IMP-033"


def test_external_data_cannot_escape_by_link(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = external(folder, "w.bin")
    (folder / "w.bin").rename(tmp_path / "w.bin")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(UnsupportedError) as caught:
        load_model(path)
    assert caught.value.code == "IMP-033"


def test_external_data_too_short(tmp_path: Path) -> None:
    path = external(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(b"\0" * 20)
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert caught.value.code == "IMP-008"


def test_shape_chains_are_folded() -> None:
    """Shape, Gather, Concat and Reshape, as PyTorch writes a flatten."""
    layers = Layers()
    x = layers.input((2, 3, 4), None)
    size = layers.node("Gather", [layers.node("Shape", [x]), layers.const(0, "int64")], axis=0)
    row = layers.node("Unsqueeze", [size, layers.const([0], "int64")])
    wanted = layers.node("Concat", [row, layers.const([-1], "int64")], axis=0)
    layers.output(layers.node("Relu", [layers.node("Reshape", [x, wanted])]))
    graph = import_onnx(layers.bytes(), "chain", "chain.onnx")
    assert [node.op for node in graph.nodes] == ["reshape", "relu"]
    assert graph.tensors[graph.outputs[0]].shape == (2, 12)


def test_constants_of_unreasonable_size_are_refused() -> None:
    layers = Layers()
    x = layers.input((4,), None)
    big = layers.node("Expand", [layers.const([1.0], "float32"), layers.const([1 << 40], "int64")])
    layers.output(layers.node("Add", [x, big]))
    with pytest.raises(UnsupportedError) as caught:
        import_onnx(layers.bytes(), "bomb", "bomb.onnx")
    assert caught.value.code == "IMP-031"

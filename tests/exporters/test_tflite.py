"""Graphs written as TFLite files: read back they are the same, and other runtimes open them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor
from tests.lite_cases import FAMILIES, Case

from npuforge.errors import UnsupportedError
from npuforge.exporters import export_tflite
from npuforge.graph import (
    Graph,
    HardSigmoidAttrs,
    PadAttrs,
    PoolAttrs,
    ResizeAttrs,
    SoftmaxAttrs,
    first_difference,
)
from npuforge.graph.attrs import ConvAttrs, CoordinateMode, NearestMode, ResizeMode
from npuforge.importers import load_model
from npuforge.importers.tflite.importer import import_tflite
from npuforge.numerics import Executor, random_inputs, with_contract
from npuforge.vocab import Contract, DType

F32 = DType.FLOAT32
EXAMPLES = ["visual_wake_words", "image_classification", "keyword_spotting", "anomaly_detection"]


def again(graph: Graph) -> Graph:
    return import_tflite(export_tflite(graph), graph.name, "again.tflite")


@settings(
    max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_import_of_export_is_identity(data: st.DataObject) -> None:
    """Random networks over the whole operator set."""
    case = Case(data)
    for _ in range(case.integer(1, 5)):
        FAMILIES[case.one_of(*FAMILIES)](case)
    graph = case.graph()
    assert first_difference(graph, again(graph)) is None


def test_comparison_can_fail(example: Callable[[str], Path]) -> None:
    graph = load_model(example("keyword_spotting"))
    name = next(n for n, t in graph.tensors.items() if t.data is not None and t.dtype is DType.INT8)
    data = graph.tensors[name].array.copy()
    data.reshape(-1)[0] ^= 1
    tensors = dict(graph.tensors) | {name: replace(graph.tensors[name], data=data)}
    found = first_difference(graph, again(replace(graph, tensors=tensors)))
    assert found is not None
    assert "other numbers" in found


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_open_in_litert(name: str, example: Callable[[str], Path]) -> None:
    """The written file, not mended in any way, gives our executor's numbers."""
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    graph = load_model(example(name))
    content = export_tflite(graph)
    assert first_difference(graph, import_tflite(content, graph.name, "x")) is None
    interpreter = interpreter_module.Interpreter(
        model_content=content,
        experimental_op_resolver_type=interpreter_module.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    sample = random_inputs(graph, np.random.default_rng(1))
    ours = Executor(graph).run(sample)
    for detail, key in zip(interpreter.get_input_details(), graph.inputs, strict=True):
        assert detail["name"] == key
        interpreter.set_tensor(detail["index"], sample[key])
    interpreter.invoke()
    for detail, key in zip(interpreter.get_output_details(), graph.outputs, strict=True):
        assert np.array_equal(interpreter.get_tensor(detail["index"]), ours[key])


@pytest.mark.parametrize("name", EXAMPLES[1:3])
def test_examples_open_in_tflite_micro(name: str, example: Callable[[str], Path]) -> None:
    tflm = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    graph = with_contract(load_model(example(name)), Contract.TFLITE_MICRO)
    interpreter = tflm.Interpreter.from_bytes(export_tflite(graph))
    executor = Executor(graph)
    rng = np.random.default_rng(2)
    for _ in range(5):
        sample = random_inputs(graph, rng)
        interpreter.set_input(sample[graph.inputs[0]], 0)
        interpreter.invoke()
        truth = interpreter.get_output(0)
        assert np.array_equal(executor.run(sample)[graph.outputs[0]], truth)


def test_layout_of_the_file(example: Callable[[str], Path]) -> None:
    """Identifier, an empty buffer 0, and data aligned for kernels that read it in place."""
    import tflite

    content = export_tflite(load_model(example("image_classification")))
    assert content[4:8] == b"TFL3"
    model = tflite.Model.GetRootAsModel(content, 0)
    assert model.Version() == 3
    assert model.Buffers(0).DataLength() == 0
    for i in range(1, model.BuffersLength()):
        buffer = model.Buffers(i)
        offset = buffer._tab.Vector(buffer._tab.Offset(4))
        assert offset % 16 == 0
    assert content == export_tflite(load_model(example("image_classification")))


def conv_versions(graph: Graph) -> dict[str, int]:
    import tflite

    model = tflite.Model.GetRootAsModel(export_tflite(graph), 0)
    names = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    return {names[code.BuiltinCode()]: code.Version() for code in codes}


def test_explicit_padding_becomes_a_pad() -> None:
    x, w = tensor("x", (1, 5, 5, 2)), tensor("w", (3, 3, 3, 2), data=np.ones((3, 3, 3, 2)))
    y = tensor("y", (1, 5, 6, 3))
    graph = single("conv2d", [x, w], [y], ConvAttrs(padding=(2, 0, 1, 2)))
    other = again(graph)
    assert [node.op for node in other.nodes] == ["pad", "conv2d"]
    sample = random_inputs(graph, np.random.default_rng(0))
    ours, theirs = Executor(graph).run(sample), Executor(other).run(sample)
    assert np.array_equal(ours["y"], theirs["y"])
    assert conv_versions(graph) == {"PAD": 2, "CONV_2D": 3}


def test_uneven_max_pool_pads_with_the_lowest_value() -> None:
    x, y = tensor("x", (1, 4, 4, 2)), tensor("y", (1, 4, 2, 2))
    graph = single("max_pool2d", [x], [y], PoolAttrs((3, 2), (1, 2), (2, 0, 0, 0)))
    other = again(graph)
    assert [node.op for node in other.nodes] == ["pad", "max_pool2d"]
    assert isinstance(other.nodes[0].attrs, PadAttrs)
    assert other.nodes[0].attrs.value == -128
    sample = {"x": np.full((1, 4, 4, 2), -100, np.int8)}
    assert np.array_equal(Executor(graph).run(sample)["y"], Executor(other).run(sample)["y"])


def _resize(coordinates: CoordinateMode, scale: float) -> Graph:
    attrs = ResizeAttrs((7, 7), ResizeMode.BILINEAR, coordinates, NearestMode.FLOOR, (scale, scale))
    x, y = tensor("x", (1, 3, 3, 1), F32), tensor("y", (1, 7, 7, 1), F32)
    return single("resize", [x], [y], attrs, Contract.FLOAT32)


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        (
            single(
                "hard_sigmoid",
                [tensor("x", (4,), F32)],
                [tensor("y", (4,), F32)],
                HardSigmoidAttrs(0.2),
                Contract.FLOAT32,
            ),
            "EXP-001",
        ),
        (
            single(
                "average_pool2d",
                [tensor("x", (1, 4, 4, 1))],
                [tensor("y", (1, 4, 3, 1))],
                PoolAttrs((3, 2), (1, 1), (2, 0, 0, 0)),
            ),
            "EXP-005",
        ),
        (
            single(
                "relu", [tensor("x", (4,))], [tensor("y", (4,))], contract=Contract.ONNX_QLINEAR
            ),
            "EXP-003",
        ),
        (
            single(
                "softmax",
                [tensor("x", (4, 3), F32)],
                [tensor("y", (4, 3), F32)],
                SoftmaxAttrs(0),
                Contract.FLOAT32,
            ),
            "EXP-007",
        ),
        (_resize(CoordinateMode.PYTORCH_HALF_PIXEL, 2.4), "EXP-008"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.nodes[0].op,
)
def test_refusals_name_the_node(graph: Graph, code: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        export_tflite(graph)
    assert caught.value.code == code
    assert graph.nodes[0].name in caught.value.message
    assert graph.nodes[0].op in caught.value.message
    assert caught.value.hint


@pytest.mark.shared
def test_published_models(shared: Path) -> None:
    """Every TFLite file of the collection, read, written and read again."""
    paths = sorted((shared / "models").glob("*.tflite"))
    assert len(paths) > 70
    for path in paths:
        graph = load_model(path)
        assert first_difference(graph, again(graph)) is None, path.name

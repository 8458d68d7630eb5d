"""TFLite files that leave the shapes of inner tensors open, as converters of a free batch do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lite_cases import FAMILIES, Case

from npuforge.errors import NpuforgeError
from npuforge.exporters import export_tflite
from npuforge.graph import first_difference
from npuforge.importers.tflite.importer import import_tflite

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")


def opened(content: bytes) -> bytes:
    """The file with 1 for every size of every inner tensor, and -1 in the signature."""
    import flatbuffers

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    graph = model.subgraphs[0]
    produced = {i for op in graph.operators for i in op.outputs if i >= 0}
    for index in produced:
        tensor = graph.tensors[index]
        if tensor.shape is not None and len(tensor.shape) and not tensor.isVariable:
            tensor.shape = np.ones(len(tensor.shape), np.int32)
            tensor.shapeSignature = np.full(len(tensor.shape), -1, np.int32)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def difference(content: bytes) -> str | None:
    """What the file reads as with its shapes open, against the file as it is."""
    return first_difference(
        import_tflite(content, "net", "net.tflite"), import_tflite(opened(content), "net", "open")
    )


@pytest.mark.parametrize(
    "name",
    ["anomaly_detection", "image_classification", "keyword_spotting", "visual_wake_words"],
)
def test_examples_with_open_shapes(name: str, example: Callable[[str], Path]) -> None:
    assert difference(example(name).read_bytes()) is None


@pytest.mark.parametrize("family", sorted(FAMILIES))
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_operator_with_open_shapes(family: str, data: st.DataObject) -> None:
    case = Case(data)
    FAMILIES[family](case)
    assert difference(export_tflite(case.graph())) is None


def test_models_with_open_shapes(shared: Path) -> None:
    """Real networks: shapes of both, and of LiteRT's own inference."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    compared = 0
    for path in sorted((shared / "models").rglob("*.tflite")):
        content = path.read_bytes()
        try:
            graph = import_tflite(content, path.name, path.name)
        except NpuforgeError:
            continue
        again = opened(content)
        assert difference(content) is None, path.name
        try:
            interpreter = Interpreter(
                model_content=again, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
            )
        except ValueError:
            continue  # biases with the axis of their weights, or no reference kernel
        interpreter.allocate_tensors()
        shapes = [graph.tensors[name].shape for name in graph.outputs]
        if [tuple(d["shape"]) for d in interpreter.get_output_details()] != shapes:
            interpreter.invoke()  # shapes made by operators are known only now
        assert [tuple(d["shape"]) for d in interpreter.get_output_details()] == shapes, path.name
        compared += 1
    assert compared > 30

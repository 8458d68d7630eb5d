"""From one format's arithmetic to the other's: what a format lacks is put in other words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.errors import UnsupportedError, UsageError
from npuforge.exporters import Format, convert, export_tflite, format_of
from npuforge.graph import Array, Graph, NoAttrs, ReduceAttrs, SoftmaxAttrs, verify
from npuforge.importers.onnx.importer import import_onnx
from npuforge.importers.tflite.importer import import_tflite
from npuforge.numerics import Executor, random_inputs
from npuforge.vocab import Contract, DType


def sample_of(graph: Graph) -> dict[str, Array]:
    return random_inputs(graph, np.random.default_rng(7))


@pytest.mark.parametrize(("op", "scale"), [("softmax", 1 / 255), ("logistic", 1 / 200)])
def test_a_fixed_output_scale_gets_a_change_of_scale(op: str, scale: float) -> None:
    x, y = tensor("x", (3, 7)), tensor("y", (3, 7), quant=(scale, -128))
    attrs = SoftmaxAttrs(1) if op == "softmax" else NoAttrs()
    graph = single(op, [x], [y], attrs, Contract.ONNX_QLINEAR)
    with pytest.raises(UnsupportedError) as caught:
        export_tflite(
            graph.with_nodes(
                replace(node, contract=Contract.TFLITE_REFERENCE) for node in graph.nodes
            )
        )
    assert caught.value.code == "EXP-012"
    made = convert(graph, Format.TFLITE)
    verify(made.graph)
    assert [node.op for node in made.graph.nodes] == [op, "quantize"]
    assert len(made.changed) == 2
    again = import_tflite(made.content, "again", "again.tflite")
    sample = sample_of(graph)
    written = Executor(made.graph).run(sample)["y"]
    assert np.array_equal(Executor(again).run(sample)["y"], written)
    # rounded twice instead of once: one step from the other format's result
    steps = np.abs(written.astype(int) - Executor(graph).run(sample)["y"].astype(int))
    assert steps.max() <= 1


def test_the_written_file_loads_in_litert() -> None:
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    x, y = tensor("x", (3, 7)), tensor("y", (3, 7), quant=(1 / 255, -128))
    made = convert(single("softmax", [x], [y], SoftmaxAttrs(1)), Format.TFLITE)
    interpreter = interpreter_module.Interpreter(
        model_content=made.content,
        experimental_op_resolver_type=interpreter_module.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    sample = sample_of(made.graph)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample["x"])
    interpreter.invoke()
    truth = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert np.array_equal(truth, Executor(made.graph).run(sample)["y"])


def test_integer_sum_becomes_a_float_one_in_onnx() -> None:
    x, y = tensor("x", (4, 6), quant=(0.1, 3)), tensor("y", (4,), quant=(0.4, -5))
    graph = single("sum", [x], [y], ReduceAttrs((1,)))
    made = convert(graph, Format.ONNX)
    verify(made.graph)
    assert [node.op for node in made.graph.nodes] == ["dequantize", "sum", "quantize"]
    again = import_onnx(made.content, "again", "again.onnx")
    sample = sample_of(graph)
    written = Executor(made.graph).run(sample)["y"]
    assert np.array_equal(Executor(again).run(sample)["y"], written)
    real = 0.1 * (sample["x"].astype(np.float64) - 3).sum(axis=1)
    ideal = np.clip(np.rint(real / np.float32(0.4)) - 5, -128, 127)
    assert np.abs(written - ideal).max() <= 1


def test_own_format_changes_nothing() -> None:
    graph = single("abs", [tensor("x", (4,))], [tensor("y", (4,))])
    made = convert(graph, Format.TFLITE)
    assert made.graph.nodes == graph.nodes
    assert made.changed == ()


def test_plain_floats_need_no_contract() -> None:
    x, y = tensor("x", (4,), DType.FLOAT32), tensor("y", (4,), DType.FLOAT32)
    graph = single("exp", [x], [y], contract=Contract.FLOAT32)
    for target in Format:
        assert convert(graph, target).changed == ()


def test_a_constant_output_is_kept() -> None:
    """Detection networks put their anchors out beside the results."""
    x, y = tensor("x", (4,), DType.FLOAT32), tensor("y", (4,), DType.FLOAT32)
    graph = single("exp", [x], [y], contract=Contract.FLOAT32)
    anchors = tensor("anchors", (2, 2), DType.FLOAT32, data=[[1, 2], [3, 4]])
    graph = replace(graph, tensors={**graph.tensors, "anchors": anchors}, outputs=("y", "anchors"))
    for target, read in ((Format.TFLITE, import_tflite), (Format.ONNX, import_onnx)):
        again = read(convert(graph, target).content, "again", "again")
        found = Executor(again).run(sample_of(graph))
        assert np.array_equal(found[again.outputs[1]], anchors.array)


def test_the_name_says_the_format() -> None:
    assert format_of(Path("a/B.TFLITE")) is Format.TFLITE
    assert format_of(Path("a.b.onnx")) is Format.ONNX
    for name in ("model", "model.pb", ".onnx"):
        with pytest.raises(UsageError) as caught:
            format_of(Path(name))
        assert caught.value.code == "EXP-010"

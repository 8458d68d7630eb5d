"""Graphs written as ONNX files: ONNX Runtime opens them, and they mean the same when read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor
from tests.lite_cases import FAMILIES, Case

pytest.importorskip("onnx")

import onnx

from npuforge.errors import NpuforgeError, UnsupportedError
from npuforge.exporters import Conversion, Format, convert, export_onnx
from npuforge.graph import (
    Array,
    ElementwiseAttrs,
    Graph,
    Node,
    PadAttrs,
    PadMode,
    first_difference,
    verify,
)
from npuforge.graph.attrs import ConvAttrs
from npuforge.importers import load_model
from npuforge.importers.onnx.importer import import_onnx
from npuforge.numerics import Executor, random_inputs
from npuforge.vocab import Contract, DType

EXAMPLES = ["visual_wake_words", "image_classification", "keyword_spotting", "anomaly_detection"]
# ONNX Runtime computes these in floats between a dequantise and a quantise
IN_FLOATS = {"resize", "transpose_conv2d", "prelu", "squared_difference"}
# written, but not read by our importer
NOT_READ = {"l2_normalization"}
NOT_IN_ONNX = {"detection", "state"}
# what ONNX has no operator for, or what only TFLite's own arithmetic knows
REFUSED = {"EXP-001", "EXP-002", "EXP-011"}


def same(ours: Array, truth: Array, steps: int) -> None:
    assert ours.shape == truth.shape
    if ours.dtype.kind == "f":
        finite = np.abs(truth[np.isfinite(truth)])
        limit = 1e-4 * float(finite.max(initial=0.0))
        np.testing.assert_allclose(ours, truth, rtol=1e-4, atol=limit)
        return
    difference = np.abs(ours.astype(np.int64) - truth.astype(np.int64))
    assert difference.max(initial=0) <= steps


def run_twice(
    graph: Graph, content: bytes, feeds: dict[str, Array], steps: int, read: bool
) -> None:
    from tests.onnx_models import onnx_runtime

    onnx.checker.check_model(onnx.load_from_string(content))
    ours = Executor(graph).run(feeds)
    truth = onnx_runtime(content, feeds)
    for name in graph.outputs:
        same(ours[name], truth[name], steps)
    if not read:
        return
    again = import_onnx(content, "again", "again.onnx")
    verify(again)
    theirs = Executor(again).run(feeds)
    for name, other in zip(graph.outputs, again.outputs, strict=True):
        same(ours[name], theirs[other], steps)


def converted(graph: Graph) -> tuple[Conversion | None, NpuforgeError | None]:
    try:
        return convert(graph, Format.ONNX), None
    except NpuforgeError as error:
        return None, error


@pytest.mark.parametrize("family", FAMILIES)
def test_random_layers_in_onnx_runtime(family: str) -> None:
    """Our executor, ONNX Runtime and the file read again agree on every family ONNX knows."""
    pytest.importorskip("onnxruntime")
    ran = 0

    @settings(
        max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def cases(data: st.DataObject) -> None:
        nonlocal ran
        case = Case(data, (DType.INT8, DType.FLOAT32))
        FAMILIES[family](case)
        made, error = converted(case.graph())
        if error is not None:
            assert error.code in REFUSED or error.code.startswith("NUM-"), error
            assert error.hint
            return
        assert made is not None
        steps = int(any(node.op in IN_FLOATS for node in made.graph.nodes))
        run_twice(made.graph, made.content, case.feeds(), steps, family not in NOT_READ)
        ran += 1

    cases()
    assert (ran == 0) == (family in NOT_IN_ONNX)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_open_in_onnx_runtime(name: str, example: Callable[[str], Path]) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model(example(name))
    made = convert(graph, Format.ONNX)
    assert {node.op for node in made.changed} >= {"fully_connected"}
    rng = np.random.default_rng(5)
    for _ in range(3):
        run_twice(made.graph, made.content, random_inputs(graph, rng), 0, True)


def test_one_transpose_to_channels_first(example: Callable[[str], Path]) -> None:
    """A network of convolutions changes the order of its axes where the image comes in only."""
    made = convert(load_model(example("visual_wake_words")), Format.ONNX)
    nodes = onnx.load_from_string(made.content).graph.node
    assert sum(node.op_type == "Transpose" for node in nodes) == 1


def test_round_trip_is_identity(example: Callable[[str], Path]) -> None:
    """A graph that came from an ONNX file is the same after it is written and read again."""
    for name in EXAMPLES:
        made = convert(load_model(example(name)), Format.ONNX)
        first = import_onnx(made.content, "once", "once.onnx")
        second = import_onnx(export_onnx(first), "twice", "twice.onnx")
        assert first_difference(first, second) is None
        assert second.added_transposes == first.added_transposes


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        (
            single("relu", [tensor("x", (4,))], [tensor("y", (4,))]),
            "EXP-003",
        ),
        (
            single(
                "conv2d",
                [
                    tensor("x", (1, 4, 4, 1), DType.FLOAT32),
                    tensor("w", (2, 1, 1, 1), data=np.ones((2, 1, 1, 1))),
                ],
                [tensor("y", (1, 4, 4, 2), DType.FLOAT32)],
                ConvAttrs(),
                Contract.FLOAT32,
            ),
            "EXP-011",
        ),
        (
            single(
                "abs",
                [tensor("x", (4,), DType.INT16)],
                [tensor("y", (4,), DType.INT16)],
                contract=Contract.ONNX_QLINEAR,
            ),
            "EXP-004",
        ),
        (
            single(
                "pad",
                [tensor("x", (1, 4, 4, 1))],
                [tensor("y", (1, 6, 4, 1))],
                PadAttrs((0, 1, 0, 0), (0, 1, 0, 0), PadMode.SYMMETRIC),
                Contract.EXACT,
            ),
            "EXP-002",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.nodes[0].op,
)
def test_refusals_name_the_node(graph: Graph, code: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        export_onnx(graph)
    assert caught.value.code == code
    assert graph.nodes[0].name in caught.value.message
    assert caught.value.hint


@pytest.mark.shared
def test_published_models(shared: Path) -> None:
    paths = sorted((shared / "models").glob("*.onnx"))
    assert len(paths) == 6
    for path in paths:
        graph = load_model(path)
        again = import_onnx(export_onnx(graph), graph.name, path.name)
        assert first_difference(graph, again) is None, path.name
        assert again.added_transposes == graph.added_transposes


def test_equal_constants_of_different_scales() -> None:
    """Constants of the same bytes are one initializer, and still stand for their own numbers."""
    pytest.importorskip("onnxruntime")
    x = tensor("x", (8,), quant=(0.01, 0))
    near, far = (
        tensor("near", (1,), quant=(0.002, 0), data=64),
        tensor("far", (1,), quant=(0.01, -3), data=64),
    )
    a, y = tensor("a", (8,), quant=(0.01, -3)), tensor("y", (8,), quant=(0.01, -3))
    add = ElementwiseAttrs()
    contract = Contract.ONNX_QLINEAR
    graph = Graph(
        "two",
        {t.name: t for t in (x, near, far, a, y)},
        (
            Node("a", "add", ("x", "near"), ("a",), add, contract),
            Node("y", "minimum", ("a", "far"), ("y",), add, contract),
        ),
        ("x",),
        ("y",),
    )
    content = export_onnx(graph)
    stored = [t.raw_data for t in onnx.load_from_string(content).graph.initializer]
    assert stored.count(bytes([64])) == 1
    run_twice(graph, content, {"x": np.arange(-128, 128, 32).astype(np.int8)}, 0, True)

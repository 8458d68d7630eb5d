"""Operator matrix: random TFLite layers of every family against LiteRT and tflite-micro.

Each case is one layer, written by our exporter and run by both runtimes' reference kernels.
Integers must be equal, floats within 1e-5 of the largest magnitude of the tensor. A runtime that
does not take a layer is expected to refuse it; an unexpected refusal fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.builders import single, tensor
from tests.lite_cases import FAMILIES, Case

from npuforge.exporters import export_tflite
from npuforge.graph import Array, Attrs, DetectionAttrs, Graph
from npuforge.numerics import Executor, with_contract
from npuforge.vocab import Contract, DType

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter, OpResolverType

# layers of a family that each runtime must have taken and computed, drawn in rounds of as many
CASES = 200
ROUNDS = 8
matrix = settings(
    max_examples=CASES,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
I8, U8, I16, F32 = "int8", "uint8", "int16", "float32"

# what LiteRT's reference resolver does not register or its kernels refuse: (operator, first input,
# output), None for any type
LITE_GAPS: set[tuple[str, str | None, str | None]] = {
    ("elu", F32, None),
    ("ceil", F32, None),
    ("round", F32, None),
    ("quantize", I16, U8),
    ("squared_difference", I16, None),
}
# the same for tflite-micro, beside uint8, which it has dropped nearly everywhere
MICRO_GAPS: set[tuple[str, str | None, str | None]] = {
    ("arg_max", None, "int64"),
    ("arg_min", None, "int64"),
    ("cast", None, None),
    ("exp", I8, None),
    ("gather", I16, None),
    ("gelu", None, None),
    ("log", I8, None),
    ("maximum", I16, None),
    ("pad", I16, None),
    ("minimum", I16, None),
    ("quantize", None, U8),
    ("reduce_max", I16, None),
    ("reduce_min", I16, None),
    ("relu_n1_to_1", None, None),
    ("sign", None, None),
    ("slice", I16, None),
    ("tile", None, None),
    ("transpose", None, None),
    ("conv2d", F32, None),
    ("depthwise_conv2d", F32, None),
    ("fully_connected", F32, None),
}


def is_gap(gaps: set[tuple[str, str | None, str | None]], graph: Graph) -> bool:
    for node in graph.nodes:
        names = [*node.input_names, *node.outputs]
        first, last = (str(graph.tensors[names[i]].dtype) for i in (0, -1))
        if any(g[0] == node.op and g[1] in (None, first) and g[2] in (None, last) for g in gaps):
            return True
    return False


def lite_rt(content: bytes, graph: Graph, feeds: dict[str, Array]) -> dict[str, Array]:
    interpreter: Any = Interpreter(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    for detail, name in zip(interpreter.get_input_details(), graph.inputs, strict=True):
        interpreter.set_tensor(detail["index"], feeds[name])
    interpreter.invoke()
    details = interpreter.get_output_details()
    return {
        name: interpreter.get_tensor(detail["index"])
        for name, detail in zip(graph.outputs, details, strict=True)
    }


def tflite_micro(content: bytes, graph: Graph, feeds: dict[str, Array]) -> dict[str, Array]:
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
    for index, name in enumerate(graph.inputs):
        interpreter.set_input(feeds[name], index)
    interpreter.invoke()
    return {name: interpreter.get_output(i) for i, name in enumerate(graph.outputs)}


def written_slots(graph: Graph, name: str, truth: dict[str, Array]) -> int | None:
    """How many entries of a detection's outputs are written; None for all of any other tensor."""
    node = graph.producers[name]
    if node.op != "detection_postprocess" or name == node.outputs[3]:
        return None
    found = int(truth[node.outputs[3]].reshape(-1)[0])
    regular = getattr(node.attrs, "regular", False)
    return found if regular else found * getattr(node.attrs, "max_classes_per_detection", 1)


def check(graph: Graph, ours: dict[str, Array], truth: dict[str, Array], oracle: str) -> None:
    for name in graph.outputs:
        have, want = ours[name], truth[name]
        count = written_slots(graph, name, truth)
        if count is not None:
            have, want = have[:, :count], want[:, :count]
        assert have.shape == want.shape, (oracle, name)
        assert have.dtype == want.dtype, (oracle, name)
        if have.dtype.kind != "f":
            assert np.array_equal(have, want), (oracle, name, graph.producers[name])
            continue
        finite = np.abs(want[np.isfinite(want)])
        limit = max(1e-5 * float(finite.max(initial=0.0)), 1e-12)
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=limit, err_msg=f"{oracle} {name}")


def is_wide_detection(attrs: Attrs) -> bool:
    """Several classes a box in fast mode: tflite-micro interleaves their slots with empty ones."""
    fast = isinstance(attrs, DetectionAttrs) and not attrs.regular
    return fast and getattr(attrs, "max_classes_per_detection", 1) > 1


def run_case(family: str, data: st.DataObject, taken: dict[str, int]) -> None:
    case = Case(data)
    FAMILIES[family](case)
    graph, feeds = case.graph(), case.feeds()
    content = export_tflite(graph)
    ops = {node.op for node in graph.nodes}
    # LiteRT's quantised sums overflow: stored numbers are added in the width of the type, or
    # saturate before the zero point is added; tflite-micro does what is meant
    broken_sum = "sum" in ops and graph.tensors[graph.inputs[0]].dtype is not DType.FLOAT32
    if is_gap(LITE_GAPS, graph):
        with pytest.raises((ValueError, RuntimeError)):
            lite_rt(content, graph, feeds)
    elif not broken_sum:
        taken["LiteRT"] += 1
        ours = Executor(with_contract(graph, Contract.TFLITE_REFERENCE)).run(feeds)
        check(graph, ours, lite_rt(content, graph, feeds), "LiteRT")
    if any(is_wide_detection(node.attrs) for node in graph.nodes):
        return
    types = {str(graph.tensors[name].dtype) for name in graph.inputs}
    try:
        truth = tflite_micro(content, graph, feeds)
    except Exception:
        if U8 not in types and not is_gap(MICRO_GAPS, graph):
            raise
        return
    taken["tflite-micro"] += 1
    ours = Executor(with_contract(graph, Contract.TFLITE_MICRO)).run(feeds)
    check(graph, ours, truth, "tflite-micro")


# families whose every layer tflite-micro refuses
NOT_IN_MICRO = {"tile"}


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str) -> None:
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    taken = {"LiteRT": 0, "tflite-micro": 0}
    asked = ["LiteRT"] if family in NOT_IN_MICRO else list(taken)

    for number in range(ROUNDS):

        @seed(number)
        @matrix
        @given(st.data())
        def cases(data: st.DataObject) -> None:
            run_case(family, data, taken)

        cases()
        if all(taken[oracle] >= CASES for oracle in asked):
            break
    assert all(taken[oracle] >= CASES for oracle in asked), taken


@pytest.mark.parametrize(
    ("op", "scale"),
    [
        ("logistic", 2.0**-12),
        ("logistic", 0.013),
        ("tanh", 2.0**-12),
        ("tanh", 2.0**-11),
        ("tanh", 0.0137),
    ],
)
def test_every_int16_value(op: str, scale: float) -> None:
    """The table of 256 sigmoid values, and all points between them."""
    values = np.arange(-32768, 32768).astype(np.int16)
    x = tensor("x", (65536,), DType.INT16, (scale, 0))
    graph = single(op, [x], [tensor("y", (65536,), DType.INT16, (1 / 32768, 0))])
    truth = lite_rt(export_tflite(graph), graph, {"x": values})
    assert np.array_equal(Executor(graph).run({"x": values})["y"], truth["y"])


def test_the_matrix_can_fail() -> None:
    """Under another rounding rule some results differ, and the comparison says so."""

    @settings(max_examples=CASES, derandomize=True, deadline=None, phases=[Phase.generate])
    @given(st.data())
    def cases(data: st.DataObject) -> None:
        case = Case(data, [DType.INT8])
        FAMILIES["conv"](case)
        graph, feeds = case.graph(), case.feeds()
        ours = Executor(with_contract(graph, Contract.ONNX_QLINEAR)).run(feeds)
        check(graph, ours, lite_rt(export_tflite(graph), graph, feeds), "LiteRT")

    with pytest.raises(AssertionError):
        cases()

"""Every rule of the verifier refuses the graph that breaks it, by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.errors import GraphError
from npuforge.graph import (
    ConvAttrs,
    ElementwiseAttrs,
    Graph,
    NoAttrs,
    Node,
    Quantization,
    SoftmaxAttrs,
    Tensor,
    format_graph,
    macs,
    verify,
)
from npuforge.vocab import Activation, DType


def conv_graph() -> Graph:
    return single(
        "conv2d",
        [
            tensor("x", (1, 5, 6, 3)),
            tensor("w", (4, 3, 3, 3), data=np.zeros((4, 3, 3, 3))),
            tensor("b", (4,), DType.INT32, data=np.zeros(4)),
        ],
        [tensor("y", (1, 3, 4, 4))],
        ConvAttrs(activation=Activation.RELU),
    )


def with_tensor(graph: Graph, changed: Tensor) -> Graph:
    return replace(graph, tensors={**graph.tensors, changed.name: changed})


def refused(graph: Graph, code: str, *names: str) -> None:
    with pytest.raises(GraphError) as caught:
        verify(graph)
    assert caught.value.code == code
    assert caught.value.hint
    for name in names:
        assert name in caught.value.message


def test_sound_graph_passes() -> None:
    graph = conv_graph()
    verify(graph)
    assert macs(graph, graph.nodes[0]) == 3 * 4 * 4 * 3 * 3 * 3


def test_text_form_is_stable() -> None:
    assert format_graph(conv_graph()) == (
        'graph "single" {\n'
        "  input  %x: int8[1x5x6x3] q(0.100000001, 0)\n"
        "  const  %w: int8[4x3x3x3] q(0.100000001, 0)\n"
        "  const  %b: int32[4] q(0.100000001, 0)\n"
        "  %y: int8[1x3x4x4] q(0.100000001, 0) = conv2d(%x, %w, %b) activation=relu"
        " [tflite_reference]\n"
        "  output %y\n"
        "}\n"
    )


def test_cycle() -> None:
    a, b, c = tensor("a", (1,)), tensor("b", (1,)), tensor("c", (1,))
    add = ElementwiseAttrs()
    nodes = (Node("n1", "add", ("a", "c"), ("b",), add), Node("n2", "relu", ("b",), ("c",)))
    graph = Graph("g", {t.name: t for t in (a, b, c)}, nodes, ("a",), ("c",))
    refused(graph, "GRF-003", "n1", "c")


def test_dangling_input() -> None:
    refused(replace(conv_graph(), inputs=()), "GRF-002", "x")


def test_duplicate_node_names() -> None:
    graph = conv_graph()
    refused(replace(graph, nodes=graph.nodes * 2), "GRF-001", "y")


def test_two_writers() -> None:
    graph = conv_graph()
    again = replace(graph.nodes[0], name="other")
    refused(replace(graph, nodes=(*graph.nodes, again)), "GRF-004", "other", "y")


def test_output_never_made() -> None:
    graph = with_tensor(conv_graph(), tensor("z", (1,)))
    refused(replace(graph, outputs=("z",)), "GRF-005", "z")


def test_unknown_output() -> None:
    refused(replace(conv_graph(), outputs=("nothing",)), "GRF-006", "nothing")


def test_constant_input() -> None:
    refused(replace(conv_graph(), inputs=("x", "w")), "GRF-007", "w")


def test_input_twice() -> None:
    refused(replace(conv_graph(), inputs=("x", "x")), "GRF-008", "x")


def test_no_output() -> None:
    refused(replace(conv_graph(), outputs=()), "GRF-009")


def test_misfiled_tensor() -> None:
    graph = conv_graph()
    refused(replace(graph, tensors={**graph.tensors, "q": tensor("p", (1,))}), "GRF-010", "q", "p")


@pytest.mark.parametrize("shape", [(1, -2), (1 << 20, 1 << 20)])
def test_impossible_shape(shape: tuple[int, ...]) -> None:
    refused(with_tensor(conv_graph(), Tensor("x", shape, DType.INT8)), "GRF-012", "x")


def test_rank() -> None:
    refused(with_tensor(conv_graph(), Tensor("x", (1,) * 9, DType.INT8)), "GRF-011", "x")


def test_constant_that_contradicts_itself() -> None:
    wrong = Tensor("b", (4,), DType.INT32, None, np.zeros(3, np.int32))
    refused(with_tensor(conv_graph(), wrong), "GRF-013", "b")


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 0.0, -1.0])
def test_impossible_scale(scale: float) -> None:
    refused(with_tensor(conv_graph(), tensor("x", (1, 5, 6, 3), quant=(scale, 0))), "GRF-015", "x")


def test_scales_without_axis() -> None:
    quant = Quantization(np.ones(2, np.float32), np.zeros(2, np.int64))
    refused(with_tensor(conv_graph(), tensor("x", (1, 5, 6, 3), quant=quant)), "GRF-016", "x")


def test_scales_that_do_not_fit_the_axis() -> None:
    quant = Quantization.per_channel([1.0, 2.0], 3)
    refused(with_tensor(conv_graph(), tensor("x", (1, 5, 6, 3), quant=quant)), "GRF-017", "x")


def test_scales_and_zero_points_differ() -> None:
    quant = Quantization(np.ones(1, np.float32), np.zeros(2, np.int64))
    refused(with_tensor(conv_graph(), tensor("x", (1, 5, 6, 3), quant=quant)), "GRF-014", "x")


def test_quantised_float() -> None:
    quant = Quantization.per_tensor(1.0)
    refused(
        with_tensor(conv_graph(), Tensor("x", (1, 5, 6, 3), DType.FLOAT32, quant)), "GRF-018", "x"
    )


def test_zero_point_out_of_range() -> None:
    refused(with_tensor(conv_graph(), tensor("x", (1, 5, 6, 3), quant=(0.1, 300))), "GRF-019", "x")


def test_unknown_operator() -> None:
    graph = conv_graph()
    node = replace(graph.nodes[0], op="teleport")
    refused(replace(graph, nodes=(node,)), "GRF-020", "teleport")


def test_wrong_attributes() -> None:
    graph = conv_graph()
    node = replace(graph.nodes[0], attrs=NoAttrs())
    refused(replace(graph, nodes=(node,)), "GRF-021", "NoAttrs")


def test_missing_tensor() -> None:
    graph = conv_graph()
    node = replace(graph.nodes[0], inputs=("x", "w", "bias"))
    refused(replace(graph, nodes=(node,)), "GRF-022", "bias")


@pytest.mark.parametrize("inputs", [("x",), ("x", None), ("x", "w", "b", "x")])
def test_number_of_inputs(inputs: tuple[str | None, ...]) -> None:
    graph = conv_graph()
    node = replace(graph.nodes[0], inputs=inputs)
    refused(replace(graph, nodes=(node,)), "GRF-023")


def test_wrong_rank() -> None:
    refused(with_tensor(conv_graph(), tensor("x", (5, 6, 3))), "GRF-024", "rank 3")


def test_stated_shape() -> None:
    refused(with_tensor(conv_graph(), tensor("y", (1, 3, 4, 5))), "GRF-025", "(1, 3, 4, 4)")


def test_attribute_that_is_no_number() -> None:
    graph = single(
        "softmax", [tensor("x", (1, 4))], [tensor("y", (1, 4))], SoftmaxAttrs(1, float("nan"))
    )
    refused(graph, "GRF-029", "beta")


def test_scalar_has_no_last_axis() -> None:
    refused(single("l2_normalization", [tensor("x", ())], [tensor("y", ())]), "GRF-024", "scalar")


def test_missing_scale_is_named() -> None:
    plain = Tensor("plain", (2,), DType.INT8)
    with pytest.raises(GraphError, match="plain") as caught:
        _ = plain.quant
    assert caught.value.code == "GRF-027"
    with pytest.raises(GraphError, match="plain") as caught:
        _ = plain.array
    assert caught.value.code == "GRF-028"

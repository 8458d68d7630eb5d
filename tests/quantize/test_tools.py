"""Other tools behind the same function, and float networks restored from int8 files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.quantize.networks import small_network, write_float, write_samples

from npuforge import api
from npuforge.errors import ToolError, UnsupportedError, UsageError
from npuforge.graph import Graph, PadAttrs
from npuforge.numerics import Executor
from npuforge.passes.framework import real_numbers
from npuforge.quantize import (
    Granularity,
    Precision,
    RangeMethod,
    Scheme,
    ToolName,
    prepared,
    quantize,
    quantize_by,
    quantize_with,
    restored,
)
from npuforge.quantize.measure import Tally
from npuforge.tasks import Dataset, open_dataset

GRAPH = prepared(small_network())
MINMAX = Scheme(method=RangeMethod.MINMAX)


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return open_dataset([write_samples(GRAPH, tmp_path / "d.npz", 24)], GRAPH)


def installed(tool: ToolName) -> None:
    pytest.importorskip(
        {ToolName.AI_EDGE: "ai_edge_quantizer", ToolName.ONNXRUNTIME: "onnxruntime"}[tool]
    )


@pytest.mark.parametrize("tool", [ToolName.AI_EDGE, ToolName.ONNXRUNTIME])
def test_another_tool_quantises_and_is_measured(tool: ToolName, data: Dataset) -> None:
    installed(tool)
    done: list[tuple[str, int, int]] = []
    session = quantize_with(tool, GRAPH, data, MINMAX, tick=lambda *what: done.append(what))
    integers = [n for n in session.made.graph.nodes if n.op == "conv2d"]
    types = {session.made.graph.tensors[n.outputs[0]].dtype.bits for n in integers}
    assert (len(integers), types) == (3, {8})
    assert session.measured.sqnr > 25  # our own min-max: 44 dB
    assert session.tool is tool
    assert done


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(method=RangeMethod.MSE),
        replace(MINMAX, base=Precision.INT16),
        replace(MINMAX, int4=frozenset({"x"})),
    ],
)
def test_what_a_tool_cannot_do_is_refused(scheme: Scheme, data: Dataset) -> None:
    for tool in (ToolName.AI_EDGE, ToolName.ONNXRUNTIME):
        with pytest.raises(UsageError, match="QNT-012"):
            quantize_by(tool, GRAPH, data, scheme)


def test_one_scale_a_tensor_is_not_ai_edges(data: Dataset) -> None:
    installed(ToolName.AI_EDGE)
    with pytest.raises(UsageError, match="QNT-012"):
        quantize_by(ToolName.AI_EDGE, GRAPH, data, replace(MINMAX, weights=Granularity.TENSOR))


def test_a_missing_or_failing_tool_is_named(
    data: Dataset, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import npuforge.quantize.tools as module

    def fails(*_: object) -> None:
        print("words of the tool")
        raise RuntimeError("cannot do it\nand more")

    monkeypatch.setattr(module, "_onnxruntime", fails)
    with pytest.raises(ToolError, match="cannot do it"):
        quantize_by(ToolName.ONNXRUNTIME, GRAPH, data, MINMAX)
    assert capfd.readouterr().out == ""
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="QNT-004"):
        quantize_by(ToolName.AI_EDGE, GRAPH, data, MINMAX)


def test_tool_on_the_python_side(tmp_path: Path) -> None:
    installed(ToolName.ONNXRUNTIME)
    model = write_float(small_network(), tmp_path / "net.tflite")
    samples = write_samples(small_network(), tmp_path / "d.npz", 12)
    out = tmp_path / "net8.onnx"
    options = {"data": [samples], "method": "minmax", "tool": "onnxruntime"}
    made, written = api.quantize_model(model, out, **options)
    assert written is not None
    assert out.stat().st_size == len(written.conversion.content)
    assert made.measured.sqnr > 10
    with pytest.raises(UsageError, match="QNT-012"):
        api.quantize_model(model, **options, equalise=True)
    with pytest.raises(UsageError, match="QNT-009"):
        api.quantize_model(model, data=[samples], tool="nobody")


# --- restored ---


def sqnr(a: Graph, b: Graph, inputs: np.ndarray) -> float:
    """Of b's outputs against a's, both as real numbers, dB."""
    tally = Tally()
    for x in inputs:
        results = []
        for graph in (a, b):
            tensor = graph.tensors[graph.inputs[0]]
            quant = tensor.quantization
            fed = x
            if quant is not None:
                stored = np.rint(x / quant.s) + quant.z
                fed = np.clip(stored, *tensor.dtype.limits).astype(np.int8)
            found = Executor(graph).run({tensor.name: fed})[graph.outputs[0]]
            results.append(real_numbers(found, graph.tensors[graph.outputs[0]].quantization))
        tally.add(*results)
    return tally.sqnr


def test_restored_network_computes_what_the_integers_approximate(data: Dataset) -> None:
    made = quantize(GRAPH, data, MINMAX).made.graph
    inputs = np.stack([sample.inputs["x"] for sample in data])
    back = restored(made)
    assert all(t.dtype.is_float for t in back.tensors.values() if t.quantization is None)
    assert not {"quantize", "dequantize"} & {node.op for node in back.nodes}
    # both stand for the same network: what lies between them is rounding of activations, less than
    # what lies between the float network and the int8 one
    assert sqnr(back, made, inputs) > sqnr(GRAPH, made, inputs) - 1
    assert sqnr(back, GRAPH, inputs) > 30


def test_padding_values_become_real(data: Dataset) -> None:
    made = quantize(GRAPH, data, MINMAX).made.graph
    stored = [n.attrs.value for n in made.nodes if isinstance(n.attrs, PadAttrs)]
    real = [n.attrs.value for n in restored(made).nodes if isinstance(n.attrs, PadAttrs)]
    assert stored
    assert 0.0 not in stored
    assert real == [0.0] * len(stored)


def test_an_activation_stated_by_a_range_is_fused(data: Dataset) -> None:
    from npuforge.graph import ConvAttrs
    from npuforge.vocab import Activation

    made = quantize(GRAPH, data, MINMAX).made.graph
    plain = made.with_nodes(
        replace(n, attrs=replace(n.attrs, activation=Activation.NONE))
        if isinstance(n.attrs, ConvAttrs)
        else n
        for n in made.nodes
    )
    found = [n.attrs.activation for n in restored(plain).nodes if isinstance(n.attrs, ConvAttrs)]
    assert found == [Activation.RELU, Activation.RELU, Activation.NONE, Activation.NONE]


def test_a_network_with_state_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="QNT-002"):
        restored(replace(GRAPH, states={"x": np.zeros(1)}))

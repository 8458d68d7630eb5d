"""Mutated model files: an error or a graph, never a crash, a hang or a flood of memory.

The mutations run in a child process with a time limit and a limit on its memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers.trial import survived

ROOT = Path(__file__).parents[2]
MUTATIONS = 1100
"""For each of the two formats; the bar is 2,000 a run in all."""
SECONDS = 240


def small_onnx(path: Path) -> Path:
    """A quantised network of a few layers, as an ONNX file."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    constants: list[TensorProto] = []

    def const(name: str, value: object, dtype: str) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    nodes = []

    def quantized(name: str, source: str, scale: float, zero: int) -> str:
        s, z = const(f"{name}_s", scale, "float32"), const(f"{name}_z", zero, "int8")
        nodes.append(helper.make_node("QuantizeLinear", [source, s, z], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [f"{name}_dq"]))
        return f"{name}_dq"

    x = quantized("x", "x", 0.02, 3)
    w = const("w", rng.integers(-99, 99, (4, 3, 3, 3)), "int8")
    ws, wz = const("ws", rng.uniform(0.001, 0.01, 4), "float32"), const("wz", [0] * 4, "int8")
    nodes.append(helper.make_node("DequantizeLinear", [w, ws, wz], ["w_dq"], axis=0))
    nodes.append(helper.make_node("Conv", [x, "w_dq"], ["c"], pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    r = quantized("r", "r", 0.03, -128)
    nodes.append(helper.make_node("GlobalAveragePool", [r], ["g"]))
    g = quantized("g", "g", 0.02, -100)
    nodes.append(helper.make_node("Flatten", [g], ["y"]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_mutated_files(kind: str, tmp_path: Path) -> None:
    if kind == "tflite":
        source = ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
    else:
        source = small_onnx(tmp_path / "small.onnx")
    outcome = survived("bytes", [source], MUTATIONS, SECONDS, tmp_path, largest=5_000_000)
    assert outcome.graphs > 0

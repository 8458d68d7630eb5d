"""Small ONNX models for the cases that a model file decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str]],
    constants: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    ir: int = 8,
) -> onnx.ModelProto:
    """A model of float inputs and outputs."""

    def value(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "case",
        [value(*item) for item in inputs.items()],
        [value(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = ir
    return made


def _relu(shape: list[int | str] | None = None, *, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    dims: list[int | str] = shape or [1, 8]
    return model([helper.make_node("Relu", ["x"], ["y"])], {"x": dims}, {"y": dims},
                 opset=opset, ir=ir)  # fmt: skip


def _depthwise(stride: int, kernel: list[int]) -> onnx.ModelProto:
    weights = np.ones((8, 1, *kernel), np.float32)
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], group=8, kernel_shape=kernel, strides=[1, stride]
    )
    return model([node], {"x": [1, 8, 3, 32]}, {"y": [1, 8, "h", "w"]}, {"w": weights})


def _gemm(constant: bool) -> onnx.ModelProto:
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    constants = {"w": np.ones((8, 4), np.float32)}
    inputs: dict[str, list[int | str]] = {"x": [1, 8]}
    if constant:
        constants["b"] = np.ones(4, np.float32)
    else:
        inputs["b"] = [4]
    return model([node], inputs, {"y": [1, 4]}, constants)


def _reshape(shape: list[int], *, allowzero: int = 0) -> onnx.ModelProto:
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=allowzero)
    return model([node], {"x": [1, 64]}, {"y": ["a"] * len(shape)}, {"s": np.array(shape)})


def _slice(end: int) -> onnx.ModelProto:
    node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    return model(
        [node], {"x": [1, 8]}, {"y": [1, "n"]},
        {"starts": np.array([0, 0]), "ends": np.array([1, end])},
    )  # fmt: skip


def _quantised(dtype: type, scale: float) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    return model(
        nodes, {"x": [1, 8]}, {"y": [1, 8]},
        {"s": np.array(scale, np.float32), "z": np.array(0, dtype)},
    )  # fmt: skip


def _product() -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model([node], {"x": [1, 8, 8], "w": [1, 8, 8]}, {"y": [1, 8, 8]})


MODELS: dict[str, tuple[str, Callable[[], onnx.ModelProto]]] = {
    "A02": ("K20-depthwise-1d-stride", lambda: _depthwise(2, [1, 5])),
    "A02-good": ("", lambda: _depthwise(1, [1, 5])),
    "A02-square": ("", lambda: _depthwise(2, [3, 3])),
    "D03": ("K20-unsigned", lambda: _quantised(np.uint8, 0.02)),
    "D03-good": ("", lambda: _quantised(np.int8, 0.02)),
    "D04": ("K20-narrow-range", lambda: _quantised(np.int8, 1e-7)),
    "E01": ("K20-dynamic-shape", lambda: _relu(["batch", 8])),
    "E01-good": ("", lambda: _relu()),
    "E02": ("K20-rank", lambda: _reshape([1, 2, 2, 2, 2, 4])),
    "E03": ("K20-ir-version", lambda: _relu(ir=10)),
    "E04": ("K20-gemm-bias", lambda: _gemm(False)),
    "E04-good": ("", lambda: _gemm(True)),
    "E09": ("K20-shape-inference", lambda: _slice(-1)),
    "E09-good": ("", lambda: _slice(8)),
    "E15": ("K20-allowzero", lambda: _reshape([1, 64], allowzero=1)),
    "E16": ("K20-opset", lambda: _relu(opset=21)),
    "E17": ("K20-dimension", lambda: _relu([1, 70000])),
    "F11": ("K20-product", _product),
}


def write_model(name: str, path: Path) -> None:
    """Write the model of a case."""
    onnx.save(MODELS[name][1](), path)

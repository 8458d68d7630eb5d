"""ONNX models of one layer, made by hand: QDQ, QOperator and float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Layers:
    """Collects the nodes and constants of a small ONNX model.

    `unsigned` stores activations as uint8 instead of int8.
    """

    def __init__(self, *, opset: int = 17, unsigned: bool = False) -> None:
        self.opset = opset
        self.activation = "uint8" if unsigned else "int8"
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._count = 0

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def const(self, value: object, dtype: str, stem: str = "c") -> str:
        name = self.name(stem)
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attrs: object) -> Any:
        names = [self.name(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def scale(self, scale: object, zero: object, dtype: str) -> list[str]:
        return [self.const(scale, "float32", "s"), self.const(zero, dtype, "z")]

    def zero(self, signed: int) -> int:
        return signed + 128 if self.activation == "uint8" else signed

    def input(self, shape: Sequence[int], scale: float | None, zero: int = 0) -> str:
        """A float input, quantised when there is a scale; `zero` is on the signed scale."""
        name = self.name("x")
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name if scale is None else self.quantized(name, scale, zero)

    def quantized(self, source: str, scale: float, zero: int) -> str:
        """Quantise and dequantise; returns the name of the floats."""
        grid = self.scale(scale, self.zero(zero), self.activation)
        stored = self.node("QuantizeLinear", [source, *grid])
        return str(self.node("DequantizeLinear", [stored, *grid]))

    def weights(self, values: object, scale: object, axis: int | None, dtype: str = "int8") -> str:
        shape = np.shape(scale)
        grid = self.scale(scale, np.zeros(shape), dtype)
        stored = self.const(values, dtype, "w")
        attrs = {} if axis is None else {"axis": axis}
        return str(self.node("DequantizeLinear", [stored, *grid], **attrs))

    def output(self, name: str, kind: int = TensorProto.FLOAT) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def model(self) -> Any:
        graph = helper.make_graph(self.nodes, "layers", self.inputs, self.outputs, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    def bytes(self) -> bytes:
        content: bytes = self.model().SerializeToString()
        return content


def onnx_runtime(content: bytes, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of the whole model by ONNX Runtime, with the integer kernels for int8."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


__all__ = ["Layers", "onnx", "onnx_runtime"]

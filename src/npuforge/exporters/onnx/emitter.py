"""State of one export to ONNX: values in ONNX's axis order, quantise and dequantise pairs.

Our images are channels last, ONNX's channels first. A layout is a tuple: axis i of our tensor is
axis layout[i] of the ONNX tensor. Transposes are written only where an operator needs another
order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuforge.exporters.emission import Emission
from npuforge.graph import Array, Graph, Node, Quantization, Shape, Tensor
from npuforge.vocab import Activation, DType

Layout = tuple[int, ...]
CHANNELS_LAST: Layout = (0, 2, 3, 1)
STORED = (DType.INT8, DType.UINT8)
"""Element types that quantise nodes of every opset and runtime know."""


def identity(rank: int) -> Layout:
    """Both orders are the same."""
    return tuple(range(rank))


def to_onnx(numbers: Sequence[int], layout: Layout) -> list[int]:
    """Numbers of our axes in ONNX's order."""
    out = [0] * len(layout)
    for axis, n in zip(layout, numbers, strict=True):
        out[axis] = int(n)
    return out


@dataclass(frozen=True)
class Stored:
    """What one of our tensors is in the file: an ONNX name, and the order of its axes."""

    name: str
    layout: Layout


class Emitter(Emission):
    """Collects nodes and constants of an ONNX graph."""

    format = "ONNX"

    def __init__(self, graph: Graph, opset: int) -> None:
        super().__init__(graph)
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.transposes = 0
        self.values: dict[str, Stored] = {}
        self._moved: dict[tuple[str, Layout], str] = {}
        self._real: dict[tuple[object, ...], str] = {}
        self._known: dict[tuple[str, Shape, bytes], str] = {}
        for name in graph.inputs:
            self.values[name] = Stored(name, identity(len(graph.tensors[name].shape)))

    # --- constants, nodes ---

    def constant(self, label: str, values: object, dtype: str = "int64") -> str:
        """An initializer; equal ones are stored once."""
        from onnx import numpy_helper

        array = np.array(values, dtype, order="C")
        key = (dtype, array.shape, array.tobytes())
        if key not in self._known:
            name = self.names.fresh(label)
            self._known[key] = name
            self.constants.append(numpy_helper.from_array(array, name))
        return self._known[key]

    def add(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: object) -> None:
        """Append a node."""
        from onnx import helper

        given = {key: value for key, value in attrs.items() if value is not None}
        node = helper.make_node(op, list(inputs), list(outputs), outputs[0], **given)
        self.nodes.append(node)

    def step(self, node: Node, label: str, op: str, inputs: Sequence[str], **attrs: object) -> str:
        """Append a helper node of one of our nodes; returns the name of what it makes."""
        name = self.names.fresh(f"{node.name}/{label}")
        self.add(op, inputs, [name], **attrs)
        return name

    # --- reading ---

    def tensor(self, name: str | None) -> Tensor:
        """One of our tensors."""
        return self.graph.tensor(name)

    def layout(self, name: str | None) -> Layout:
        """The order of a tensor's axes in the file; constants take any."""
        tensor = self.tensor(name)
        if tensor.is_constant:
            return identity(len(tensor.shape))
        return self.values[tensor.name].layout

    def stored(self, name: str | None, layout: Layout) -> str:
        """The ONNX name of a tensor as it is stored, in an order of axes."""
        tensor = self.tensor(name)
        if tensor.data is not None:
            return self._stored_constant(tensor, tensor.data, layout)
        value = self.values[tensor.name]
        if value.layout == layout:
            return value.name
        key = (value.name, layout)
        if key not in self._moved:
            # ONNX axis a of the result is ours with that number, which lies elsewhere now
            ours = {axis: i for i, axis in enumerate(layout)}
            perm = [value.layout[ours[axis]] for axis in range(len(layout))]
            moved = self.names.fresh(f"{value.name}/transposed")
            self.add("Transpose", [value.name], [moved], perm=perm)
            self.transposes += 1
            self._moved[key] = moved
        return self._moved[key]

    def _stored_constant(self, tensor: Tensor, data: Array, layout: Layout) -> str:
        rank = len(layout)
        array = data.reshape((1,) * (rank - data.ndim) + data.shape)
        inverse = np.argsort(layout)
        return self.constant(tensor.name + "/data", array.transpose(inverse), str(array.dtype))

    def real(self, name: str | None, layout: Layout) -> str:
        """The ONNX name of a tensor's real numbers, in an order of axes."""
        tensor = self.tensor(name)
        stored = self.stored(name, layout)
        if tensor.quantization is None:
            return stored
        quant = tensor.quantization
        axis = None
        if quant.axis is not None:
            axis = layout[quant.axis + len(layout) - len(tensor.shape)]
        # constants of equal bytes are one initializer, whatever numbers they stand for
        key = (stored, quant.scale.tobytes(), quant.zero_point.tobytes(), axis)
        if key not in self._real:
            self._real[key] = self.dequantize(stored, tensor.dtype, quant, axis)
        return self._real[key]

    def dequantize(
        self, stored: str, dtype: DType, quant: Quantization, axis: int | None, target: str = ""
    ) -> str:
        """Append a DequantizeLinear; returns the name of the real numbers."""
        name = target or self.names.fresh(f"{stored}/real")
        inputs = [stored, *self.grid(stored, dtype, quant)]
        self.add("DequantizeLinear", inputs, [name], axis=axis)
        return name

    def grid(self, label: str, dtype: DType, quant: Quantization) -> list[str]:
        """Scale and zero point of a quantise or dequantise node."""
        single = quant.axis is None
        scale = quant.scale.reshape(()) if single else quant.scale
        names = [self.constant(f"{label}/scale", scale, "float32")]
        if dtype is DType.INT32:
            return names
        zero = quant.zero_point.reshape(()) if single else quant.zero_point
        kind = "uint8" if dtype is DType.UINT8 else "int8"
        return [*names, self.constant(f"{label}/zero", zero, kind)]

    # --- results ---

    def result(self, node: Node, layout: Layout, index: int = 0) -> str:
        """The name under which an operator must write one of a node's outputs, before `finish`."""
        tensor = self.tensor(node.outputs[index])
        if tensor.quantization is not None:
            return self.names.fresh(f"{tensor.name}/result")
        return self._own_name(tensor.name, layout)

    def _own_name(self, name: str, layout: Layout) -> str:
        # an output of the network leaves in our order, whatever it is made in
        if name in self.graph.outputs and layout != identity(len(layout)):
            return self.names.fresh(f"{name}/made")
        return name

    def finish(self, node: Node, made: str, layout: Layout, index: int = 0) -> None:
        """Quantise an output if ours is quantised, and remember what it is in the file."""
        tensor = self.tensor(node.outputs[index])
        quant = tensor.quantization
        name = made
        if quant is not None:
            if tensor.dtype not in STORED or quant.axis is not None:
                raise self.refuse(node, f"{tensor.name} is {tensor.dtype}", "EXP-004")
            name = self._own_name(tensor.name, layout)
            self.add("QuantizeLinear", [made, *self.grid(name, tensor.dtype, quant)], [name])
        self.values[tensor.name] = Stored(name, layout)

    def apply(
        self,
        node: Node,
        op: str,
        inputs: Sequence[str],
        layout: Layout,
        activation: Activation = Activation.NONE,
        **attrs: object,
    ) -> None:
        """Append the operator that makes a node's only output, with its activation."""
        made = self.result(node, layout)
        if activation is Activation.NONE:
            self.add(op, inputs, [made], **attrs)
        else:
            raw = self.step(node, "linear", op, inputs, **attrs)
            self.activate(activation, raw, made)
        self.finish(node, made, layout)

    def activate(self, activation: Activation, source: str, target: str) -> None:
        """Append an activation as an operator."""
        if activation is Activation.RELU:
            self.add("Relu", [source], [target])
            return
        low, high = {Activation.RELU6: (0.0, 6.0), Activation.RELU_N1_TO_1: (-1.0, 1.0)}[activation]
        limits = [self.constant(f"limit_{v:g}", np.float32(v), "float32") for v in (low, high)]
        self.add("Clip", [source, *limits], [target])

    def alias(self, node: Node, layout: Layout) -> None:
        """A node that moves no byte of the ONNX tensor: its output has another order of axes."""
        source = self.values[str(node.inputs[0])]
        self.values[node.outputs[0]] = Stored(source.name, layout)

    def close(self) -> None:
        """Give every output of the network its own name and order."""
        for name in dict.fromkeys(self.graph.outputs):
            tensor = self.tensor(name)
            stored = self.stored(name, identity(len(tensor.shape)))
            if stored != name:
                self.add("Identity", [stored], [name])


Handler = Callable[[Emitter, Node], None]

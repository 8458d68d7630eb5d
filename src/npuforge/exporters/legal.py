"""Graph → Graph in the form a file format can say: what it lacks is put in other words, exactly.

The result computes what the written file computes. It is another graph than before, so that its
numbers can be compared, and the nodes that were made are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import Graph, Names, NoAttrs, Node, Quantization, Tensor, is_view
from npuforge.numerics import bind
from npuforge.vocab import Contract, DType

FIXED_OUTPUTS: Mapping[str, Mapping[DType, tuple[float, int]]] = {
    "softmax": {
        DType.INT8: (1 / 256, -128),
        DType.UINT8: (1 / 256, 0),
        DType.INT16: (1 / 32768, 0),
    },
    "logistic": {
        DType.INT8: (1 / 256, -128),
        DType.UINT8: (1 / 256, 0),
        DType.INT16: (1 / 32768, 0),
    },
    "tanh": {DType.INT8: (1 / 128, 0), DType.UINT8: (1 / 128, 128), DType.INT16: (1 / 32768, 0)},
    "l2_normalization": {DType.INT8: (1 / 128, 0)},
}
"""Scale and zero point that TensorFlow Lite's kernels demand of an operator's output."""


def is_quantised(graph: Graph, node: Node) -> bool:
    """Whether a node's first input or output is quantised."""
    return any(
        tensor is not None and tensor.quantization is not None
        for tensor in (*graph.input_tensors(node)[:1], *graph.output_tensors(node)[:1])
    )


def fixed_output(node: Node, y: Tensor) -> Quantization | None:
    """The quantisation TFLite demands of a node's output, when the output has another one."""
    wanted = FIXED_OUTPUTS.get(node.op, {}).get(y.dtype)
    if wanted is None or y.quantization is None:
        return None
    quant = Quantization.per_tensor(*wanted)
    return None if quant.same_as(y.quantization) else quant


class _Rewriter:
    """Collects the nodes and tensors of a rewritten graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.nodes: list[Node] = []
        self._real: dict[str, str] = {}
        self._names = Names({node.name for node in graph.nodes} | set(graph.tensors))

    def tensor(self, like: Tensor, label: str, dtype: DType, quant: Quantization | None) -> str:
        """A new computed tensor of another one's shape."""
        name = self._names.fresh(f"{like.name}/{label}")
        self.tensors[name] = Tensor(name, like.shape, dtype, quant)
        return name

    def real(self, name: str) -> str:
        """The real numbers of a tensor: itself, dequantised data, or a dequantise node."""
        tensor = self.graph.tensors[name]
        if tensor.quantization is None:
            return name
        if name not in self._real:
            made = self.tensor(tensor, "real", DType.FLOAT32, None)
            self._real[name] = made
            if tensor.data is not None:
                self.tensors[made] = replace(
                    self.tensors[made],
                    data=np.ascontiguousarray(tensor.quant.real_single(tensor.array)),
                )
            else:
                contract = Contract.ONNX_QLINEAR
                node = Node(made, "dequantize", (name,), (made,), NoAttrs(), contract)
                self.nodes.append(node)
        return self._real[name]

    def result(self) -> Graph:
        """The graph, without tensors that nobody reads any more."""
        used = {*self.graph.inputs, *self.graph.outputs, *self.graph.states}
        for node in self.nodes:
            used.update(node.input_names, node.outputs)
        tensors = {name: tensor for name, tensor in self.tensors.items() if name in used}
        return self.graph.with_nodes(self.nodes, tensors)


def for_tflite(graph: Graph) -> Graph:
    """Outputs whose scale TFLite fixes get it, and a change of scale behind.

    Returns:
        The graph itself when there is none.
    """
    if not any(_changes_scale(graph, node) for node in graph.nodes):
        return graph
    made = _Rewriter(graph)
    for node in graph.nodes:
        y = graph.tensor(node.outputs[0]) if node.outputs else None
        quant = None if y is None else fixed_output(node, y)
        if y is None or quant is None:
            made.nodes.append(node)
            continue
        name = made.tensor(y, node.op, y.dtype, quant)
        made.nodes.append(replace(node, name=name, outputs=(name,)))
        contract = node.contract
        made.nodes.append(Node(node.name, "quantize", (name,), (y.name,), NoAttrs(), contract))
    return made.result()


def _changes_scale(graph: Graph, node: Node) -> bool:
    outputs = graph.output_tensors(node)
    return bool(outputs) and fixed_output(node, outputs[0]) is not None


def for_onnx(graph: Graph) -> Graph:
    """Integer nodes that ONNX Runtime has no integer kernel for are computed as real numbers.

    That is what it does with them: dequantise, the operator, quantise.

    Returns:
        The graph itself when there is none.
    """
    outside = {node.name for node in graph.nodes if _is_outside(graph, node)}
    if not outside:
        return graph
    made = _Rewriter(graph)
    for node in graph.nodes:
        if node.name not in outside:
            made.nodes.append(node)
            continue
        y = graph.tensor(node.outputs[0])
        inputs = tuple(None if name is None else made.real(name) for name in node.inputs)
        name = made.tensor(y, "result", DType.FLOAT32, None)
        contract = Contract.FLOAT32
        made.nodes.append(Node(name, node.op, inputs, (name,), node.attrs, contract))
        rounded = Contract.ONNX_QLINEAR
        made.nodes.append(Node(node.name, "quantize", (name,), (y.name,), NoAttrs(), rounded))
    return made.result()


def _is_outside(graph: Graph, node: Node) -> bool:
    """Whether a quantised node has no integer arithmetic under its contract."""
    outputs = graph.output_tensors(node)
    integer = len(outputs) == 1 and outputs[0].dtype is DType.INT8
    if not integer or outputs[0].quantization is None or is_view(node):
        return False
    if node.op in ("quantize", "l2_normalization"):
        # a fixed-point kernel of TensorFlow Lite's own
        return node.op == "l2_normalization"
    try:
        bind(graph, node)
    except UnsupportedError:
        return True
    return False

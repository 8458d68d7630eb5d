"""The float network behind a quantised one: stored numbers as the real ones they stand for.

What rounding took away does not come back. What does is a float network with realistic weights, to
quantise again another way, or to see how much a file lost on its way through integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuforge.errors import UnsupportedError
from npuforge.graph import (
    Array,
    Attrs,
    ConvAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    Graph,
    Node,
    PadAttrs,
    Tensor,
    verify,
)
from npuforge.passes.framework import in_order, pruned
from npuforge.vocab import Activation, Contract, DType

_FUSING = (ConvAttrs, FullyConnectedAttrs, ElementwiseAttrs)
_CONVERSIONS = frozenset({"quantize", "dequantize"})


def restored(graph: Graph) -> Graph:
    """The float network whose weights are a quantised network's.

    Changes of type and scale go; every other node stays. Where a file states an activation by the
    range of the result alone, it is fused: ReLU where the smallest stored number is zero, ReLU6
    where the largest is six as well.

    Args:
        graph: quantised, wholly or in part.

    Raises:
        UnsupportedError: it keeps state between inferences.
    """
    if graph.states:
        raise UnsupportedError("QNT-002", model=graph.name, state=next(iter(graph.states)))
    instead: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(None if n is None else instead.get(n, n) for n in node.inputs)
        if node.op in _CONVERSIONS and not _is_kept(graph, node):
            instead[node.outputs[0]] = str(inputs[0])
            continue
        contract = node.contract if node.contract is Contract.EXACT else Contract.FLOAT32
        attrs = _real_attrs(node, graph.tensors[node.outputs[0]])
        nodes.append(replace(node, inputs=inputs, contract=contract, attrs=attrs))
    tensors = {name: _real(tensor) for name, tensor in graph.tensors.items()}
    outputs = tuple(instead.get(name, name) for name in graph.outputs)
    made = replace(graph, tensors=tensors, nodes=tuple(nodes), outputs=outputs)
    made = pruned(in_order(made))
    verify(made)
    return made


def _is_kept(graph: Graph, node: Node) -> bool:
    """Whether dropping a conversion would join an input and an output of the network."""
    return node.inputs[0] in graph.inputs and node.outputs[0] in graph.outputs


def _real_attrs(node: Node, result: Tensor) -> Attrs:
    """The node's attributes with real padding values, and with the activation that the result's
    range stands for."""
    attrs, quant = node.attrs, result.quantization
    if quant is None or quant.is_per_channel or result.dtype.is_float:
        return attrs
    if isinstance(attrs, PadAttrs):
        return replace(attrs, value=(attrs.value - quant.z) * float(quant.s))
    if result.dtype not in (DType.INT8, DType.UINT8):
        return attrs
    if not isinstance(attrs, _FUSING) or attrs.activation is not Activation.NONE:
        return attrs
    low, high = quant.range_of(result.dtype)
    if low < 0.0:
        return attrs
    six = abs(high - 6.0) < float(quant.s)
    return replace(attrs, activation=Activation.RELU6 if six else Activation.RELU)


def _real(tensor: Tensor) -> Tensor:
    if tensor.quantization is None or tensor.dtype.is_float:
        return tensor
    data: Array | None = None
    if tensor.data is not None:
        data = tensor.quant.real(tensor.data).astype(np.float32)
    return Tensor(tensor.name, tensor.shape, DType.FLOAT32, None, data)

"""Graph → ONNX file with quantise and dequantise pairs."""

from __future__ import annotations

from typing import Any

from npuforge.exporters.onnx.emitter import Emitter
from npuforge.exporters.onnx.operators import HANDLERS
from npuforge.graph import NUMPY_TYPES, Graph, Node, Tensor, verify
from npuforge.vocab import Contract, DType

OPSET, IR_VERSION = 17, 8
"""What ONNX Runtime 1.12 and everything later opens."""
GELU_OPSET, GELU_IR_VERSION = 20, 9
"""The first opset with an operator for GELU."""
_ALLOWED = (Contract.EXACT, Contract.ONNX_QLINEAR, Contract.FLOAT32)


def export_onnx(graph: Graph) -> bytes:
    """Write a graph as an ONNX file.

    Every quantised tensor is an integer tensor between a QuantizeLinear and a DequantizeLinear.
    Images go channels first inside; inputs and outputs keep the graph's shapes. The file read again
    computes the same numbers, and is the same graph where the graph came from an ONNX file.

    Returns:
        The file's bytes; equal graphs give equal bytes.

    Raises:
        GraphError: the graph breaks a rule.
        UnsupportedError: ONNX cannot express a node; the message names it and the reason.
    """
    from onnx import helper

    verify(graph)
    newer = any(node.op == "gelu" for node in graph.nodes)
    emitter = Emitter(graph, GELU_OPSET if newer else OPSET)
    for node in graph.nodes:
        _emit(emitter, node)
    emitter.close()
    made = helper.make_graph(
        emitter.nodes,
        graph.name,
        [_interface(graph.tensors[name]) for name in graph.inputs],
        [_interface(graph.tensors[name]) for name in graph.outputs],
        emitter.constants,
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", emitter.opset)],
        ir_version=GELU_IR_VERSION if newer else IR_VERSION,
        producer_name="npuforge",
    )
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _interface(tensor: Tensor) -> Any:
    import numpy as np
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(NUMPY_TYPES[tensor.dtype]))
    return helper.make_tensor_value_info(tensor.name, kind, list(tensor.shape))


def _emit(emitter: Emitter, node: Node) -> None:
    graph = emitter.graph
    handler = HANDLERS.get(node.op)
    if handler is None:
        raise emitter.refuse(node, code="EXP-001")
    if node.contract not in _ALLOWED:
        wanted = Contract.ONNX_QLINEAR
        raise emitter.refuse(node, code="EXP-003", contract=node.contract, wanted=wanted)
    for tensor in graph.output_tensors(node):
        if tensor.quantization is not None and tensor.dtype not in (DType.INT8, DType.UINT8):
            raise emitter.refuse(node, f"{tensor.name} is {tensor.dtype}", "EXP-004")
    handler(emitter, node)

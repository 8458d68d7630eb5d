"""Graph → TFLite file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuforge.exporters.legal import fixed_output, is_quantised
from npuforge.exporters.tflite.emitter import Emitter, out_tensor, raw_bytes
from npuforge.exporters.tflite.file import write_tflite
from npuforge.exporters.tflite.movement import (
    blocks_of,
    emit_blocks,
    handle_options,
    uses_uint8_rescaling,
)
from npuforge.exporters.tflite.operators import HANDLERS
from npuforge.exporters.tflite.records import (
    Options,
    OutModel,
    OutOperator,
    OutSubgraph,
    OutTensor,
)
from npuforge.exporters.tflite.versions import RESOURCE
from npuforge.graph import Graph, Node, verify
from npuforge.vocab import Contract

DESCRIPTION = "npuforge"
_LITE = (Contract.EXACT, Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO)


OFFLINE_PLAN = "OfflineMemoryAllocation"
"""Name of the metadata that tflite-micro takes tensor offsets from."""


def export_tflite(graph: Graph, offsets: Mapping[str, int] | None = None) -> bytes:
    """Write a graph as a TFLite file.

    The file read again is the same graph, up to names of helper tensors and to what TFLite writes
    as operators of its own: explicit padding becomes a PAD, cropped transposed convolutions a
    SLICE, and a convolution without bias gets one of zeros, which LiteRT demands. tflite_micro
    and tflite_reference are one format.

    Args:
        graph: the network.
        offsets: bytes from the start of tflite-micro's arena by tensor name, stored as its offline
            memory plan; tensors without one are left to its own planner. None writes no plan.

    Returns:
        The file's bytes; equal graphs give equal bytes.

    Raises:
        GraphError: the graph breaks a rule.
        UnsupportedError: TFLite cannot express a node; the message names it and the reason.
    """
    verify(graph)
    emitter = Emitter(graph)
    for name in graph.inputs:
        emitter.number(name)
    if graph.states:
        options = Options("CallOnceOptions", (("InitSubgraphIndex", 1),))
        emitter.operator("CALL_ONCE", [], [], options)
    position = 0
    while position < len(graph.nodes):
        position += _emit(emitter, graph, position)
    inputs, outputs = (
        tuple(emitter.number(name) for name in names) for names in (graph.inputs, graph.outputs)
    )
    operators = tuple(emitter.operators)
    main = OutSubgraph(graph.name, tuple(emitter.tensors), operators, inputs, outputs)
    subgraphs = (main, _initialisation(graph)) if graph.states else (main,)
    metadata = () if offsets is None else ((OFFLINE_PLAN, _offline_plan(main, offsets)),)
    return write_tflite(OutModel(DESCRIPTION, subgraphs, metadata))


def _offline_plan(main: OutSubgraph, offsets: Mapping[str, int]) -> bytes:
    """Version 1, subgraph 0, number of tensors, then an offset each, -1 for none; 32-bit words."""
    found = [offsets.get(t.name, -1) if t.data is None else -1 for t in main.tensors]
    return np.asarray([1, 0, len(found), *found], "<i4").tobytes()


def _emit(emitter: Emitter, graph: Graph, position: int) -> int:
    """Emit the node at a position; the number of nodes that were taken."""
    three = graph.nodes[position : position + 3]
    blocks = blocks_of(graph, three)
    if blocks is not None:
        emit_blocks(emitter, three, *blocks)
        return 3
    node = graph.nodes[position]
    _check_contract(emitter, node)
    handler = HANDLERS.get(node.op)
    if handler is None:
        raise emitter.refuse(node, code="EXP-001")
    handler(emitter, node)
    return 1


def _check_contract(emitter: Emitter, node: Node) -> None:
    """A file cannot state a contract: whoever reads it computes as its format does."""
    graph = emitter.graph
    allowed = _LITE if is_quantised(graph, node) else (*_LITE, Contract.FLOAT32)
    if node.contract not in allowed:
        contract = Contract.TFLITE_REFERENCE
        raise emitter.refuse(node, code="EXP-003", contract=node.contract, wanted=contract)
    for tensor in graph.output_tensors(node)[:1]:
        wanted = fixed_output(node, tensor)
        if wanted is not None:
            reason = f"{tensor.name} must have scale {wanted.s} and zero point {wanted.z}"
            raise emitter.refuse(node, reason, "EXP-012")
    if node.contract is Contract.EXACT and uses_uint8_rescaling(graph, node):
        raise emitter.refuse(node, "uint8 parts of other scales are rescaled there, not copied")


def _initialisation(graph: Graph) -> OutSubgraph:
    """The subgraph that gives the state variables their first values."""
    tensors: list[OutTensor] = []
    operators: list[OutOperator] = []
    for name, value in graph.states.items():
        handle = len(tensors)
        like = out_tensor(graph.tensors[name])
        data = raw_bytes(np.ascontiguousarray(value), graph.tensors[name].dtype)
        tensors.append(OutTensor(f"{name}/handle", (), RESOURCE))
        tensors.append(OutTensor(name, like.shape, like.type, like.quantization, data))
        made = OutOperator("VAR_HANDLE", 1, (), (handle,), handle_options(name))
        options = Options("AssignVariableOptions")
        assigned = OutOperator("ASSIGN_VARIABLE", 1, (handle, handle + 1), (), options)
        operators += [made, assigned]
    return OutSubgraph("initialisation", tuple(tensors), tuple(operators), (), ())

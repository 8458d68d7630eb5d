"""From a node to kernel calls: which binder serves which operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from npuforge.errors import UnsupportedError
from npuforge.graph import Graph, Node
from npuforge.numerics import bind_elementwise as elementwise
from npuforge.numerics import bind_linear as linear
from npuforge.numerics import bind_move as move
from npuforge.numerics import bind_pool as pool
from npuforge.numerics import bind_unary as unary
from npuforge.numerics.bind_resize import bind_resize
from npuforge.numerics.call import KernelCall
from npuforge.numerics.types import BINARY_OPS, COMPARE_OPS, REDUCE_OPS, UNARY_OPS
from npuforge.vocab import Contract

Binder = Callable[[Graph, Node], list[KernelCall]]

BINDERS: Mapping[str, Binder] = {
    **dict.fromkeys(BINARY_OPS, elementwise.bind_binary),
    **dict.fromkeys(COMPARE_OPS, elementwise.bind_compare),
    **{op: unary.bind_unary for op in UNARY_OPS if op != "gelu_tanh"},
    **dict.fromkeys(REDUCE_OPS, pool.bind_reduce),
    "arg_max": pool.bind_arg_extreme,
    "arg_min": pool.bind_arg_extreme,
    "assign_variable": move.bind_assign_variable,
    "average_pool2d": pool.bind_average_pool2d,
    "broadcast_to": move.bind_broadcast_to,
    "cast": unary.bind_cast,
    "concat": move.bind_concat,
    "conv2d": linear.bind_conv2d,
    "depthwise_conv2d": linear.bind_depthwise_conv2d,
    "dequantize": unary.bind_dequantize,
    "detection_postprocess": move.bind_detection,
    "fully_connected": linear.bind_fully_connected,
    "gather": move.bind_gather,
    "l2_normalization": pool.bind_l2_normalization,
    "log_softmax": pool.bind_softmax,
    "matmul": linear.bind_matmul,
    "max_pool2d": pool.bind_max_pool2d,
    "pad": move.bind_pad,
    "quantize": unary.bind_quantize,
    "read_variable": move.bind_read_variable,
    "resize": bind_resize,
    "select": elementwise.bind_select,
    "slice": move.bind_slice,
    "softmax": pool.bind_softmax,
    "split": move.bind_split,
    "tile": move.bind_tile,
    "transpose": move.bind_transpose,
    "transpose_conv2d": linear.bind_transpose_conv2d,
}

# contracts whose nodes `with_contract` may move between
_INTEGER = (Contract.TFLITE_REFERENCE, Contract.TFLITE_MICRO, Contract.ONNX_QLINEAR)


def bind(graph: Graph, node: Node) -> list[KernelCall]:
    """The kernel calls that compute a node under its contract; views need none.

    Raises:
        UnsupportedError: no kernel computes this operator with these types and attributes.
    """
    binder = BINDERS.get(node.op)
    if binder is None:
        raise UnsupportedError("NUM-014", node=node.name, op=node.op)
    if node.contract in (Contract.NEURAL_ART, Contract.NEURAL_ART_1_1_3):
        raise UnsupportedError("NUM-019", node=node.name, op=node.op, contract=node.contract)
    return binder(graph, node)


def with_contract(graph: Graph, contract: Contract) -> Graph:
    """The same graph computed under another integer contract; float and exact nodes stay.

    Raises:
        UnsupportedError: the contract is none that integer nodes can follow.
    """
    if contract not in _INTEGER:
        names = ", ".join(_INTEGER)
        raise UnsupportedError("NUM-015", contract=contract, known=names)
    return graph.with_nodes(
        replace(node, contract=contract) if node.contract in _INTEGER else node
        for node in graph.nodes
    )

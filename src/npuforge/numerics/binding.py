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
from npuforge.numerics.call import KernelCall
from npuforge.vocab import Contract

Binder = Callable[[Graph, Node], list[KernelCall]]

BINDERS: Mapping[str, Binder] = {
    "conv2d": linear.bind_conv2d,
    "depthwise_conv2d": linear.bind_depthwise_conv2d,
    "fully_connected": linear.bind_fully_connected,
    "add": elementwise.bind_add,
    "mul": elementwise.bind_mul,
    "relu": elementwise.bind_table,
    "relu6": elementwise.bind_table,
    "relu_n1_to_1": elementwise.bind_table,
    "logistic": elementwise.bind_table,
    "quantize": elementwise.bind_quantize,
    "dequantize": elementwise.bind_dequantize,
    "average_pool2d": pool.bind_average_pool2d,
    "max_pool2d": pool.bind_max_pool2d,
    "mean": pool.bind_mean,
    "softmax": pool.bind_softmax,
    "pad": move.bind_pad,
    "concat": move.bind_concat,
    "transpose": move.bind_transpose,
    "slice": move.bind_slice,
    "resize": move.bind_resize,
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

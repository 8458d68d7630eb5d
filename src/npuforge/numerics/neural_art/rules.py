"""Which unit computes a node under this contract, and how well that is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from npuforge.graph import (
    ConvAttrs,
    Graph,
    Node,
    PoolAttrs,
    ReduceAttrs,
    ResizeAttrs,
    ResizeMode,
    Tensor,
)
from npuforge.numerics.neural_art.choices import Form, Grade
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.types import is_int8
from npuforge.vocab import Activation, Contract, DType

CONTRACTS = (Contract.NEURAL_ART, Contract.NEURAL_ART_1_1_3)
CONV_OPS = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "fully_connected")


class Unit(StrEnum):
    """What computes a node."""

    CONVACC = "CONVACC"
    ARITH = "ARITH"
    ACTIV = "ACTIV"
    POOL = "POOL"
    STRENG = "STRENG"
    """Data movement: stream engines, or a copy by the CPU; exact either way."""
    CPU = "CPU"


FUNCTION_OPS: Mapping[str, Grade] = MappingProxyType(
    {
        **dict.fromkeys(("logistic", "hard_swish", "hard_sigmoid"), Grade.B),
        **dict.fromkeys(("tanh", "leaky_relu", "exp", "erf", "sqrt", "abs", "neg"), Grade.D),
        **dict.fromkeys(("square", "gelu", "elu"), Grade.D),
    }
)
"""Functions of one operand: the compiler's table when it is given, otherwise the nearest output.

Tables found in compiled networks differ from the function by at most `FUNCTION_ERROR`.
"""
FUNCTION_ERROR = 3
CLIP_OPS = ("relu", "relu6", "relu_n1_to_1")
PAIR_OPS = ("add", "sub", "mul", "minimum", "maximum")


def form_of(contract: Contract) -> Form:
    """Requantisation stages of a contract's compiler version."""
    return Form.MERGED if contract is Contract.NEURAL_ART_1_1_3 else Form.TWO_STAGE


def unit_of(graph: Graph, node: Node) -> Unit:
    """The unit that computes a node; the CPU where the chip has no rule for it.

    A node that stays on the CPU keeps the rule of the model file.
    """
    if not node.inputs or node.inputs[0] is None:
        return Unit.CPU
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if node.op == "quantize":
        return Unit.ARITH if _eight_bit(x) and _eight_bit(y) else Unit.CPU
    if not (is_int8(x) and is_int8(y)):
        exact = node.contract is Contract.EXACT and not x.dtype.is_float
        return Unit.STRENG if exact else Unit.CPU
    if node.op == "concat":
        inputs = [t for t in graph.input_tensors(node) if t is not None]
        return _concat_unit(inputs, y)
    if node.op in CONV_OPS:
        return Unit.CONVACC if _is_convolution(graph, node, x) else Unit.CPU
    if node.op in PAIR_OPS:
        both = len(node.inputs) == 2 and is_int8(graph.tensor(node.inputs[1]))
        return Unit.ARITH if both else Unit.CPU
    if node.op in FUNCTION_OPS:
        return Unit.ACTIV
    if node.op in CLIP_OPS:
        return Unit.ACTIV
    if node.op == "max_pool2d":
        return Unit.POOL
    if window(node, x) is not None:
        return Unit.POOL
    return Unit.STRENG if node.contract is Contract.EXACT else Unit.CPU


def has_rule(graph: Graph, node: Node) -> bool:
    """Whether this contract defines the node's arithmetic; others keep the model file's rule."""
    if float_resize(graph, node):
        return True
    unit = unit_of(graph, node)
    if unit is Unit.STRENG or node.op == "max_pool2d":
        return False
    return unit is not Unit.CPU


def float_resize(graph: Graph, node: Node) -> bool:
    """Whether a node is a bilinear resize of int8 values, which the CPU computes in floats."""
    bilinear = isinstance(node.attrs, ResizeAttrs) and node.attrs.mode is ResizeMode.BILINEAR
    return bilinear and all(
        is_int8(graph.tensor(name)) for name in (node.inputs[0], node.outputs[0])
    )


def with_neural_art(graph: Graph, contract: Contract) -> Graph:
    """The same graph, every node that the contract defines put under it."""
    return graph.with_nodes(
        replace(node, contract=contract) if has_rule(graph, node) else node for node in graph.nodes
    )


def output_range(graph: Graph, node: Node) -> tuple[int, int]:
    """Smallest and largest stored value of a node's output, its fused activation included."""
    fused = getattr(node.attrs, "activation", Activation.NONE)
    return activation_range(graph.tensor(node.outputs[0]), fused)


def _eight_bit(tensor: Tensor) -> bool:
    quantization = tensor.quantization
    scaled = quantization is not None and quantization.axis is None
    return scaled and tensor.dtype in (DType.INT8, DType.UINT8)


def same_scale(x: Tensor, y: Tensor) -> bool:
    """Whether both tensors store real values alike."""
    return x.quant.same_as(y.quantization)


def _concat_unit(inputs: list[Tensor], y: Tensor) -> Unit:
    if not all(is_int8(x) for x in inputs):
        return Unit.CPU
    return Unit.STRENG if all(same_scale(x, y) for x in inputs) else Unit.ARITH


def _is_convolution(graph: Graph, node: Node, x: Tensor) -> bool:
    w = graph.tensor(node.inputs[1])
    if w.data is None or w.dtype is not DType.INT8 or w.quantization is None:
        return False
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and graph.tensor(bias).data is None:
        return False
    image = node.op == "fully_connected" or len(x.shape) == 4
    return image and not w.quantization.zero_point.any()


def window(node: Node, x: Tensor) -> PoolAttrs | None:
    """The pooling window of a mean or average the chip's pooling unit computes."""
    attrs = node.attrs
    if len(x.shape) != 4:
        return None
    if node.op == "mean" and isinstance(attrs, ReduceAttrs) and attrs.axes == (1, 2):
        return PoolAttrs((x.shape[1], x.shape[2]), (x.shape[1], x.shape[2]))
    if node.op == "average_pool2d" and isinstance(attrs, PoolAttrs) and not any(attrs.padding):
        return attrs
    return None


def grade(graph: Graph, node: Node) -> Grade:
    """Evidence that a node's result is the chip's."""
    unit = unit_of(graph, node)
    if unit is Unit.STRENG:
        return Grade.B
    if node.op == "max_pool2d" and unit is Unit.POOL:
        assert isinstance(node.attrs, PoolAttrs)
        first = node.attrs.kernel == (2, 2) and not any(node.attrs.padding)
        return Grade.A if first else Grade.B
    if node.contract not in CONTRACTS:
        return Grade.D
    if unit is Unit.CONVACC:
        return _convolution_grade(graph, node)
    x = graph.tensor(node.inputs[0])
    if node.op == "mean":
        return Grade.A if node.contract is Contract.NEURAL_ART else Grade.B
    if node.op == "average_pool2d":
        return Grade.B if same_scale(x, graph.tensor(node.outputs[0])) else Grade.D
    if node.op in ("add", "mul", "concat"):
        return Grade.B
    if node.op == "sub":
        return Grade.C
    if node.op == "quantize":
        return Grade.B if x.quant.s == graph.tensor(node.outputs[0]).quant.s else Grade.C
    if node.op in CLIP_OPS:
        return Grade.B if same_scale(x, graph.tensor(node.outputs[0])) else Grade.D
    return FUNCTION_OPS.get(node.op, Grade.D)


def _convolution_grade(graph: Graph, node: Node) -> Grade:
    """Boards: kernels on 3 channels, stride 1. Compiled networks: depthwise, pointwise, dense.

    No compiled network at hand has a dense kernel above 1 x 1 on more than 8 channels, a
    transposed convolution or groups: how their sums are split is a guess.
    """
    w, attrs = graph.tensor(node.inputs[1]), node.attrs
    if node.op == "fully_connected":
        return Grade.B
    if node.op == "transpose_conv2d":
        return Grade.D
    assert isinstance(attrs, ConvAttrs)
    if attrs.groups != 1:
        return Grade.D
    plain = attrs.stride == (1, 1) and attrs.dilation == (1, 1)
    if plain and w.shape[-1] == 3 and node.contract is Contract.NEURAL_ART:
        return Grade.A
    dense = node.op == "conv2d" and w.shape[1:3] != (1, 1)
    return Grade.C if dense and w.shape[-1] > 8 else Grade.B

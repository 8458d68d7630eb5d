"""Operator schemas: what each operator takes, the shapes it makes and the work it does.

One entry a canonical operator. Importers translate into these, the verifier checks against them,
and every later room dispatches on the operator's key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from npuforge.graph import attrs as at
from npuforge.graph import shapes as sh
from npuforge.graph.shapes import Inputs, ShapeMismatch
from npuforge.graph.types import Graph, Node, Shape

__all__ = ["SCHEMAS", "OpSchema", "ShapeMismatch", "is_view", "macs", "schema"]


@dataclass(frozen=True)
class OpSchema:
    """What the verifier and the reports know of an operator.

    Attributes:
        name: key and printed name.
        attrs: class of the attribute record.
        required: inputs that must be present.
        optional: further inputs that may be absent.
        variadic: any number of inputs from `required` on.
        infer: (inputs, attributes) -> output shapes; raises ShapeMismatch.
        macs: (inputs, attributes, output shapes) -> multiply-accumulates.
        view: the output is the input's bytes under another shape.
    """

    name: str
    attrs: type[at.Attrs]
    required: int
    infer: Callable[[Inputs, at.Attrs], list[Shape]]
    optional: int = 0
    variadic: bool = False
    macs: Callable[[Inputs, at.Attrs, Sequence[Shape]], int] | None = None
    view: bool = False


_BINARY = (
    *("add", "sub", "mul", "div", "minimum", "maximum", "squared_difference"),
    *("floor_div", "floor_mod", "power"),
)
_COMPARE = (
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or"),
)
_UNARY = (
    *("relu", "relu6", "relu_n1_to_1", "logistic", "tanh", "hard_swish", "elu"),
    *("exp", "log", "sqrt", "rsqrt", "square", "abs", "neg", "round", "floor", "ceil", "sign"),
    *("sin", "cos", "erf", "softplus", "reciprocal", "logical_not"),
    *("quantize", "dequantize", "cast"),
)
_REDUCE = ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod")


def _entries() -> tuple[OpSchema, ...]:
    return (
        OpSchema("conv2d", at.ConvAttrs, 2, sh.conv2d, 1, macs=sh.conv_macs),
        OpSchema("depthwise_conv2d", at.ConvAttrs, 2, sh.depthwise, 1, macs=sh.depthwise_macs),
        OpSchema(
            "transpose_conv2d",
            at.TransposeConvAttrs,
            2,
            sh.transpose_conv,
            1,
            macs=sh.transpose_conv_macs,
        ),
        OpSchema(
            "fully_connected",
            at.FullyConnectedAttrs,
            2,
            sh.fully_connected,
            1,
            macs=sh.fully_connected_macs,
        ),
        OpSchema("matmul", at.MatMulAttrs, 2, sh.matmul, macs=sh.matmul_macs),
        *(OpSchema(name, at.ElementwiseAttrs, 2, sh.binary) for name in _BINARY),
        *(OpSchema(name, at.NoAttrs, 2, sh.binary) for name in _COMPARE),
        *(OpSchema(name, at.NoAttrs, 1, sh.same) for name in _UNARY),
        *(OpSchema(n, at.ReduceAttrs, 1, sh.reduction, macs=sh.reduce_macs) for n in _REDUCE),
        OpSchema("leaky_relu", at.LeakyReluAttrs, 1, sh.same),
        OpSchema("hard_sigmoid", at.HardSigmoidAttrs, 1, sh.same),
        OpSchema("gelu", at.GeluAttrs, 1, sh.same),
        OpSchema("prelu", at.NoAttrs, 2, sh.binary),
        OpSchema("select", at.NoAttrs, 3, sh.select),
        OpSchema("average_pool2d", at.PoolAttrs, 1, sh.pool, macs=sh.pool_macs),
        OpSchema("max_pool2d", at.PoolAttrs, 1, sh.pool),
        OpSchema("softmax", at.SoftmaxAttrs, 1, sh.softmax),
        OpSchema("log_softmax", at.SoftmaxAttrs, 1, sh.softmax),
        OpSchema("l2_normalization", at.NoAttrs, 1, sh.along_last),
        OpSchema("reshape", at.ReshapeAttrs, 1, sh.reshape, view=True),
        OpSchema("transpose", at.TransposeAttrs, 1, sh.transpose),
        OpSchema("pad", at.PadAttrs, 1, sh.padded),
        OpSchema("concat", at.ConcatAttrs, 1, sh.concat, variadic=True),
        OpSchema("split", at.SplitAttrs, 1, sh.split),
        OpSchema("resize", at.ResizeAttrs, 1, sh.resize),
        OpSchema("slice", at.SliceAttrs, 1, sh.strided_slice),
        OpSchema("gather", at.AxisAttrs, 2, sh.gather),
        OpSchema("tile", at.TileAttrs, 1, sh.tile),
        OpSchema("broadcast_to", at.ReshapeAttrs, 1, sh.broadcast_to),
        OpSchema("arg_max", at.AxisAttrs, 1, sh.arg_extreme),
        OpSchema("arg_min", at.AxisAttrs, 1, sh.arg_extreme),
        OpSchema("read_variable", at.StateAttrs, 0, sh.stated_shape),
        OpSchema("assign_variable", at.StateAttrs, 1, sh.nothing),
        OpSchema("detection_postprocess", at.DetectionAttrs, 3, sh.detection),
    )


SCHEMAS: Mapping[str, OpSchema] = {entry.name: entry for entry in _entries()}


def schema(op: str) -> OpSchema:
    """The schema of an operator; KeyError when there is none."""
    return SCHEMAS[op]


def is_view(node: Node) -> bool:
    """Whether a node's output is its input's bytes under another shape."""
    return SCHEMAS[node.op].view


def macs(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of a node for one inference; 0 for operators without any."""
    entry = SCHEMAS[node.op]
    if entry.macs is None:
        return 0
    outputs = [tensor.shape for tensor in graph.output_tensors(node)]
    return entry.macs(graph.input_tensors(node), node.attrs, outputs)

"""Operator schemas: what each operator takes, the shapes it makes and the work it does.

One entry a canonical operator. Importers translate into these, the verifier checks against them,
and every later room dispatches on the operator's key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from npuforge.graph import attrs as at
from npuforge.graph.types import Graph, Node, Shape, Tensor

Inputs = Sequence[Tensor | None]
A = TypeVar("A", bound=at.Attrs)


class ShapeMismatch(ValueError):
    """Inputs or attributes that do not fit together; the text says how."""


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


def _need(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise ShapeMismatch("a required input is absent")
    return tensor


def _as(attrs: at.Attrs, kind: type[A]) -> A:
    if not isinstance(attrs, kind):
        raise ShapeMismatch(f"attributes are {type(attrs).__name__}, not {kind.__name__}")
    return attrs


def _rank(tensor: Tensor, rank: int, what: str) -> Shape:
    if len(tensor.shape) != rank:
        raise ShapeMismatch(f"{what} has rank {len(tensor.shape)}, not {rank}")
    return tensor.shape


def window_count(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> int:
    """Number of positions of a sliding window along one axis, in elements."""
    span = (kernel - 1) * dilation + 1
    if min(kernel, stride, dilation) < 1 or before < 0 or after < 0:
        raise ShapeMismatch("kernel, stride and dilation must be positive, padding not negative")
    if size + before + after < span:
        raise ShapeMismatch(f"window of {span} does not fit into {size} + padding")
    return (size + before + after - span) // stride + 1


def _conv_hw(x: Shape, kernel: at.Pair, a: at.ConvAttrs) -> at.Pair:
    top, bottom, left, right = a.padding
    return (
        window_count(x[1], kernel[0], a.stride[0], a.dilation[0], top, bottom),
        window_count(x[2], kernel[1], a.stride[1], a.dilation[1], left, right),
    )


def _check_bias(inputs: Inputs, channels: int) -> None:
    if len(inputs) > 2 and inputs[2] is not None and inputs[2].size != channels:
        raise ShapeMismatch(f"bias has {inputs[2].size} values for {channels} channels")


def _conv2d(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.ConvAttrs)
    x = _rank(_need(inputs[0]), 4, "input")
    w = _rank(_need(inputs[1]), 4, "weights")
    if a.groups < 1 or w[0] % a.groups or x[3] != w[3] * a.groups:
        raise ShapeMismatch(
            f"input has {x[3]} channels, weights {w[3]} in {a.groups} groups of {w[0]} outputs"
        )
    _check_bias(inputs, w[0])
    return [(x[0], *_conv_hw(x, (w[1], w[2]), a), w[0])]


def _depthwise(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.ConvAttrs)
    x = _rank(_need(inputs[0]), 4, "input")
    w = _rank(_need(inputs[1]), 4, "weights")
    if w[0] != 1 or x[3] < 1 or w[3] % x[3]:
        raise ShapeMismatch(f"depthwise weights {w} do not fit {x[3]} input channels")
    _check_bias(inputs, w[3])
    return [(x[0], *_conv_hw(x, (w[1], w[2]), a), w[3])]


def _conv_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    w = _need(inputs[1]).shape
    return math.prod(outputs[0]) * w[1] * w[2] * w[3]


def _depthwise_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    w = _need(inputs[1]).shape
    return math.prod(outputs[0]) * w[1] * w[2]


def _fully_connected(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.FullyConnectedAttrs)
    x = _need(inputs[0])
    w = _rank(_need(inputs[1]), 2, "weights")
    if w[1] < 1 or x.size % w[1]:
        raise ShapeMismatch(f"{x.size} input values are no multiple of {w[1]} weights a row")
    _check_bias(inputs, w[0])
    if a.keep_dims:
        if x.shape[-1] != w[1]:
            raise ShapeMismatch(f"last input dimension {x.shape[-1]} is not {w[1]}")
        return [(*x.shape[:-1], w[0])]
    return [(x.size // w[1], w[0])]


def _fully_connected_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    return math.prod(outputs[0]) * _need(inputs[1]).shape[1]


def broadcast(a: Shape, b: Shape) -> Shape:
    """The common shape of two operands under NumPy's broadcasting rule."""
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    out = []
    for m, n in zip(left, right, strict=True):
        if m != n and 1 not in (m, n):
            raise ShapeMismatch(f"shapes {a} and {b} do not broadcast")
        out.append(n if m == 1 else m)
    return tuple(out)


def _binary(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    return [broadcast(_need(inputs[0]).shape, _need(inputs[1]).shape)]


def _pool(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.PoolAttrs)
    x = _rank(_need(inputs[0]), 4, "input")
    if max(a.padding[:2]) >= a.kernel[0] or max(a.padding[2:]) >= a.kernel[1]:
        raise ShapeMismatch(f"padding {a.padding} is not smaller than the window {a.kernel}")
    top, bottom, left, right = a.padding
    rows = window_count(x[1], a.kernel[0], a.stride[0], 1, top, bottom)
    columns = window_count(x[2], a.kernel[1], a.stride[1], 1, left, right)
    return [(x[0], rows, columns, x[3])]


def _pool_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    a = _as(attrs, at.PoolAttrs)
    return math.prod(outputs[0]) * a.kernel[0] * a.kernel[1]


def _reduce(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.ReduceAttrs)
    x = _need(inputs[0]).shape
    if any(not 0 <= axis < len(x) for axis in a.axes) or list(a.axes) != sorted(set(a.axes)):
        raise ShapeMismatch(f"axes {a.axes} do not fit rank {len(x)}")
    if a.keep_dims:
        return [tuple(1 if i in a.axes else n for i, n in enumerate(x))]
    return [tuple(n for i, n in enumerate(x) if i not in a.axes)]


def _reduce_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    return _need(inputs[0]).size


def _same(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    return [_need(inputs[0]).shape]


def _softmax(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.SoftmaxAttrs)
    x = _need(inputs[0]).shape
    if not 0 <= a.axis < len(x):
        raise ShapeMismatch(f"axis {a.axis} does not fit rank {len(x)}")
    return [x]


def _reshape(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.ReshapeAttrs)
    x = _need(inputs[0])
    if min(a.shape, default=1) < 0 or math.prod(a.shape) != x.size:
        raise ShapeMismatch(f"{x.size} elements do not fill shape {a.shape}")
    return [a.shape]


def _transpose(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.TransposeAttrs)
    x = _need(inputs[0]).shape
    if sorted(a.perm) != list(range(len(x))):
        raise ShapeMismatch(f"permutation {a.perm} does not fit rank {len(x)}")
    return [tuple(x[axis] for axis in a.perm)]


def _pad(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.PadAttrs)
    x = _need(inputs[0]).shape
    if len(a.before) != len(x) or len(a.after) != len(x):
        raise ShapeMismatch(f"padding of {len(a.before)} axes for rank {len(x)}")
    if min(*a.before, *a.after, 0) < 0:
        raise ShapeMismatch("negative padding")
    slack = {at.PadMode.CONSTANT: None, at.PadMode.REFLECT: 1, at.PadMode.SYMMETRIC: 0}[a.mode]
    if slack is not None and any(
        max(b, e) > n - slack for b, e, n in zip(a.before, a.after, x, strict=True)
    ):
        raise ShapeMismatch(f"{a.mode} padding is wider than the input {x}")
    return [tuple(n + b + e for n, b, e in zip(x, a.before, a.after, strict=True))]


def _concat(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.ConcatAttrs)
    shapes = [_need(tensor).shape for tensor in inputs]
    first = shapes[0]
    if not 0 <= a.axis < len(first):
        raise ShapeMismatch(f"axis {a.axis} does not fit rank {len(first)}")
    for other in shapes[1:]:
        if len(other) != len(first) or any(
            m != n for i, (m, n) in enumerate(zip(first, other, strict=True)) if i != a.axis
        ):
            raise ShapeMismatch(f"shapes {first} and {other} differ outside axis {a.axis}")
    return [tuple(sum(s[i] for s in shapes) if i == a.axis else n for i, n in enumerate(first))]


def _resize(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.ResizeAttrs)
    x = _rank(_need(inputs[0]), 4, "input")
    if min(a.size) < 1 or min(x) < 1:
        raise ShapeMismatch(f"resize from {x[1:3]} to {a.size}")
    return [(x[0], a.size[0], a.size[1], x[3])]


def _slice(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    a = _as(attrs, at.SliceAttrs)
    x = _need(inputs[0]).shape
    if not len(a.begin) == len(a.step) == len(a.count) == len(x):
        raise ShapeMismatch(f"slice of {len(a.begin)} axes for rank {len(x)}")
    for begin, step, count, n in zip(a.begin, a.step, a.count, x, strict=True):
        last = begin + (count - 1) * step
        if step == 0 or count < 0 or (count and not (0 <= begin < n and 0 <= last < n)):
            raise ShapeMismatch(f"slice {begin}:{last}:{step} leaves an axis of {n}")
    return [a.count]


def _entries() -> tuple[OpSchema, ...]:
    elementwise = [
        OpSchema(name, at.ElementwiseAttrs, 2, _binary) for name in ("add", "sub", "mul")
    ]
    unary = [
        OpSchema(name, at.NoAttrs, 1, _same)
        for name in ("relu", "relu6", "relu_n1_to_1", "logistic", "quantize", "dequantize")
    ]
    return (
        OpSchema("conv2d", at.ConvAttrs, 2, _conv2d, optional=1, macs=_conv_macs),
        OpSchema("depthwise_conv2d", at.ConvAttrs, 2, _depthwise, optional=1, macs=_depthwise_macs),
        OpSchema(
            "fully_connected",
            at.FullyConnectedAttrs,
            2,
            _fully_connected,
            optional=1,
            macs=_fully_connected_macs,
        ),
        *elementwise,
        *unary,
        OpSchema("average_pool2d", at.PoolAttrs, 1, _pool, macs=_pool_macs),
        OpSchema("max_pool2d", at.PoolAttrs, 1, _pool),
        OpSchema("mean", at.ReduceAttrs, 1, _reduce, macs=_reduce_macs),
        OpSchema("softmax", at.SoftmaxAttrs, 1, _softmax),
        OpSchema("reshape", at.ReshapeAttrs, 1, _reshape, view=True),
        OpSchema("transpose", at.TransposeAttrs, 1, _transpose),
        OpSchema("pad", at.PadAttrs, 1, _pad),
        OpSchema("concat", at.ConcatAttrs, 1, _concat, variadic=True),
        OpSchema("resize", at.ResizeAttrs, 1, _resize),
        OpSchema("slice", at.SliceAttrs, 1, _slice),
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

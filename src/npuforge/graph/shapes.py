"""Shape rules of the operators: (inputs, attributes) -> output shapes, and the work they do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from npuforge.graph import attrs as at
from npuforge.graph.types import Shape, Tensor

Inputs = Sequence[Tensor | None]
A = TypeVar("A", bound=at.Attrs)


class ShapeMismatch(ValueError):
    """Inputs or attributes that do not fit together; the text says how."""


def need(tensor: Tensor | None) -> Tensor:
    """An input that must be present."""
    if tensor is None:
        raise ShapeMismatch("a required input is absent")
    return tensor


def attrs_as(attrs: at.Attrs, kind: type[A]) -> A:
    """The attribute record as the class it must have."""
    if not isinstance(attrs, kind):
        raise ShapeMismatch(f"attributes are {type(attrs).__name__}, not {kind.__name__}")
    return attrs


def rank_of(tensor: Tensor, rank: int, what: str) -> Shape:
    """The shape of a tensor that must have a rank."""
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


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and behind that makes ceil(size / stride) outputs; the odd one goes behind."""
    span = (kernel - 1) * dilation + 1
    count = -(-size // stride)
    total = max((count - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def conv_hw(x: Shape, kernel: at.Pair, a: at.ConvAttrs) -> at.Pair:
    """Rows and columns of a convolution."""
    top, bottom, left, right = a.padding
    return (
        window_count(x[1], kernel[0], a.stride[0], a.dilation[0], top, bottom),
        window_count(x[2], kernel[1], a.stride[1], a.dilation[1], left, right),
    )


def check_bias(inputs: Inputs, channels: int) -> None:
    """One bias value an output channel."""
    if len(inputs) > 2 and inputs[2] is not None and inputs[2].size != channels:
        raise ShapeMismatch(f"bias has {inputs[2].size} values for {channels} channels")


def conv2d(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Convolution, weights OHWI."""
    a = attrs_as(attrs, at.ConvAttrs)
    x = rank_of(need(inputs[0]), 4, "input")
    w = rank_of(need(inputs[1]), 4, "weights")
    if a.groups < 1 or w[0] % a.groups or x[3] != w[3] * a.groups:
        raise ShapeMismatch(
            f"input has {x[3]} channels, weights {w[3]} in {a.groups} groups of {w[0]} outputs"
        )
    check_bias(inputs, w[0])
    return [(x[0], *conv_hw(x, (w[1], w[2]), a), w[0])]


def depthwise(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Depthwise convolution, weights 1HWC."""
    a = attrs_as(attrs, at.ConvAttrs)
    x = rank_of(need(inputs[0]), 4, "input")
    w = rank_of(need(inputs[1]), 4, "weights")
    if w[0] != 1 or x[3] < 1 or w[3] % x[3]:
        raise ShapeMismatch(f"depthwise weights {w} do not fit {x[3]} input channels")
    check_bias(inputs, w[3])
    return [(x[0], *conv_hw(x, (w[1], w[2]), a), w[3])]


def conv_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Multiply-accumulates of a convolution, padding included."""
    w = need(inputs[1]).shape
    return math.prod(outputs[0]) * w[1] * w[2] * w[3]


def depthwise_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Multiply-accumulates of a depthwise convolution."""
    w = need(inputs[1]).shape
    return math.prod(outputs[0]) * w[1] * w[2]


def fully_connected(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Matrix product with [outputs, depth] weights."""
    a = attrs_as(attrs, at.FullyConnectedAttrs)
    x = need(inputs[0])
    w = rank_of(need(inputs[1]), 2, "weights")
    if w[1] < 1 or x.size % w[1]:
        raise ShapeMismatch(f"{x.size} input values are no multiple of {w[1]} weights a row")
    check_bias(inputs, w[0])
    if a.keep_dims:
        if x.shape[-1] != w[1]:
            raise ShapeMismatch(f"last input dimension {x.shape[-1]} is not {w[1]}")
        return [(*x.shape[:-1], w[0])]
    return [(x.size // w[1], w[0])]


def fully_connected_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Multiply-accumulates of a fully connected layer."""
    return math.prod(outputs[0]) * need(inputs[1]).shape[1]


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


def binary(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Elementwise operators of two operands."""
    return [broadcast(need(inputs[0]).shape, need(inputs[1]).shape)]


def pool(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Pooling."""
    a = attrs_as(attrs, at.PoolAttrs)
    x = rank_of(need(inputs[0]), 4, "input")
    if max(a.padding[:2]) >= a.kernel[0] or max(a.padding[2:]) >= a.kernel[1]:
        raise ShapeMismatch(f"padding {a.padding} is not smaller than the window {a.kernel}")
    top, bottom, left, right = a.padding
    rows = window_count(x[1], a.kernel[0], a.stride[0], 1, top, bottom)
    columns = window_count(x[2], a.kernel[1], a.stride[1], 1, left, right)
    return [(x[0], rows, columns, x[3])]


def pool_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Additions of an average pool."""
    a = attrs_as(attrs, at.PoolAttrs)
    return math.prod(outputs[0]) * a.kernel[0] * a.kernel[1]


def reduction(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Reductions over axes."""
    a = attrs_as(attrs, at.ReduceAttrs)
    x = need(inputs[0]).shape
    if any(not 0 <= axis < len(x) for axis in a.axes) or list(a.axes) != sorted(set(a.axes)):
        raise ShapeMismatch(f"axes {a.axes} do not fit rank {len(x)}")
    if a.keep_dims:
        return [tuple(1 if i in a.axes else n for i, n in enumerate(x))]
    return [tuple(n for i, n in enumerate(x) if i not in a.axes)]


def reduce_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Additions of a reduction."""
    return need(inputs[0]).size


def same(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """The input's shape."""
    return [need(inputs[0]).shape]


def softmax(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """The input's shape, over an axis."""
    a = attrs_as(attrs, at.SoftmaxAttrs)
    x = need(inputs[0]).shape
    if not 0 <= a.axis < len(x):
        raise ShapeMismatch(f"axis {a.axis} does not fit rank {len(x)}")
    return [x]


def along_last(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """The input's shape, over its last axis."""
    x = need(inputs[0]).shape
    if not x:
        raise ShapeMismatch("a scalar has no last axis")
    return [x]


def reshape(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Another shape of the same elements."""
    a = attrs_as(attrs, at.ReshapeAttrs)
    x = need(inputs[0])
    if min(a.shape, default=1) < 0 or math.prod(a.shape) != x.size:
        raise ShapeMismatch(f"{x.size} elements do not fill shape {a.shape}")
    return [a.shape]


def transpose(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Permuted axes."""
    a = attrs_as(attrs, at.TransposeAttrs)
    x = need(inputs[0]).shape
    if sorted(a.perm) != list(range(len(x))):
        raise ShapeMismatch(f"permutation {a.perm} does not fit rank {len(x)}")
    return [tuple(x[axis] for axis in a.perm)]


def padded(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Padding."""
    a = attrs_as(attrs, at.PadAttrs)
    x = need(inputs[0]).shape
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


def concat(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Concatenation."""
    a = attrs_as(attrs, at.ConcatAttrs)
    shapes = [need(tensor).shape for tensor in inputs]
    first = shapes[0]
    if not 0 <= a.axis < len(first):
        raise ShapeMismatch(f"axis {a.axis} does not fit rank {len(first)}")
    for other in shapes[1:]:
        if len(other) != len(first) or any(
            m != n for i, (m, n) in enumerate(zip(first, other, strict=True)) if i != a.axis
        ):
            raise ShapeMismatch(f"shapes {first} and {other} differ outside axis {a.axis}")
    return [tuple(sum(s[i] for s in shapes) if i == a.axis else n for i, n in enumerate(first))]


def resize(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Resize of the image axes."""
    a = attrs_as(attrs, at.ResizeAttrs)
    x = rank_of(need(inputs[0]), 4, "input")
    if min(a.size) < 1 or min(x) < 1:
        raise ShapeMismatch(f"resize from {x[1:3]} to {a.size}")
    return [(x[0], a.size[0], a.size[1], x[3])]


def strided_slice(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Strided slice."""
    a = attrs_as(attrs, at.SliceAttrs)
    x = need(inputs[0]).shape
    if not len(a.begin) == len(a.step) == len(a.count) == len(x):
        raise ShapeMismatch(f"slice of {len(a.begin)} axes for rank {len(x)}")
    for begin, step, count, n in zip(a.begin, a.step, a.count, x, strict=True):
        last = begin + (count - 1) * step
        if step == 0 or count < 0 or (count and not (0 <= begin < n and 0 <= last < n)):
            raise ShapeMismatch(f"slice {begin}:{last}:{step} leaves an axis of {n}")
    return [a.count]


def split(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Pieces of `sizes` along one axis."""
    a = attrs_as(attrs, at.SplitAttrs)
    x = need(inputs[0]).shape
    if not 0 <= a.axis < len(x):
        raise ShapeMismatch(f"axis {a.axis} does not fit rank {len(x)}")
    if min(a.sizes, default=0) < 0 or sum(a.sizes) != x[a.axis]:
        raise ShapeMismatch(f"pieces {a.sizes} of an axis of {x[a.axis]}")
    return [tuple(n if i == a.axis else m for i, m in enumerate(x)) for n in a.sizes]


def gather(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Elements picked along one axis by a tensor of indices."""
    a = attrs_as(attrs, at.AxisAttrs)
    x, index = need(inputs[0]).shape, need(inputs[1]).shape
    if not 0 <= a.axis < len(x):
        raise ShapeMismatch(f"axis {a.axis} does not fit rank {len(x)}")
    return [(*x[: a.axis], *index, *x[a.axis + 1 :])]


def tile(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Each axis repeated."""
    a = attrs_as(attrs, at.TileAttrs)
    x = need(inputs[0]).shape
    if len(a.repeats) != len(x) or min(a.repeats, default=0) < 0:
        raise ShapeMismatch(f"repeats {a.repeats} for rank {len(x)}")
    return [tuple(n * r for n, r in zip(x, a.repeats, strict=True))]


def matmul(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Matrix products over broadcast leading axes."""
    a = attrs_as(attrs, at.MatMulAttrs)
    left, right = need(inputs[0]).shape, need(inputs[1]).shape
    if min(len(left), len(right)) < 2:
        raise ShapeMismatch(f"shapes {left} and {right} are no matrices")
    rows, inner = (left[-1], left[-2]) if a.transpose_a else (left[-2], left[-1])
    depth, columns = (right[-1], right[-2]) if a.transpose_b else (right[-2], right[-1])
    if inner != depth:
        raise ShapeMismatch(f"matrices {left} and {right} do not multiply")
    return [(*broadcast(left[:-2], right[:-2]), rows, columns)]


def matmul_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Multiply-accumulates of a matrix product."""
    a = attrs_as(attrs, at.MatMulAttrs)
    left = need(inputs[0]).shape
    return math.prod(outputs[0]) * left[-2 if a.transpose_a else -1]


def transpose_conv(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Transposed convolution: every input pixel adds its kernel to the output."""
    a = attrs_as(attrs, at.TransposeConvAttrs)
    x = rank_of(need(inputs[0]), 4, "input")
    w = rank_of(need(inputs[1]), 4, "weights")
    if x[3] != w[3]:
        raise ShapeMismatch(f"input has {x[3]} channels, weights {w[3]}")
    check_bias(inputs, w[0])
    spatial = []
    for axis in (0, 1):
        size = (x[axis + 1] - 1) * a.stride[axis] + w[axis + 1] + a.output_padding[axis]
        size -= a.padding[2 * axis] + a.padding[2 * axis + 1]
        if size < 1 or min(a.stride) < 1:
            raise ShapeMismatch(f"output of {size} rows or columns")
        spatial.append(size)
    return [(x[0], spatial[0], spatial[1], w[0])]


def transpose_conv_macs(inputs: Inputs, attrs: at.Attrs, outputs: Sequence[Shape]) -> int:
    """Multiply-accumulates of a transposed convolution, padding included."""
    w = need(inputs[1]).shape
    return need(inputs[0]).size * w[0] * w[1] * w[2]


def arg_extreme(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Index of the extreme value along one axis, which disappears."""
    a = attrs_as(attrs, at.AxisAttrs)
    x = need(inputs[0]).shape
    if not 0 <= a.axis < len(x) or x[a.axis] < 1:
        raise ShapeMismatch(f"axis {a.axis} of shape {x}")
    return [x[: a.axis] + x[a.axis + 1 :]]


def select(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """condition ? a : b with broadcasting."""
    condition, a, b = (need(tensor).shape for tensor in inputs[:3])
    return [broadcast(condition, broadcast(a, b))]


def stated_shape(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Operators whose output shape is an attribute."""
    return [attrs_as(attrs, at.StateAttrs).shape]


def nothing(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Operators without an output."""
    need(inputs[0])
    return []


def broadcast_to(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """One shape stretched to another."""
    a = attrs_as(attrs, at.ReshapeAttrs)
    x = need(inputs[0]).shape
    if broadcast(x, a.shape) != a.shape:
        raise ShapeMismatch(f"{x} does not broadcast to {a.shape}")
    return [a.shape]


def detection(inputs: Inputs, attrs: at.Attrs) -> list[Shape]:
    """Boxes, classes, scores and their number after non-maximum suppression."""
    a = attrs_as(attrs, at.DetectionAttrs)
    boxes = rank_of(need(inputs[0]), 3, "boxes")
    scores = rank_of(need(inputs[1]), 3, "scores")
    anchors = rank_of(need(inputs[2]), 2, "anchors")
    if not boxes[1] == scores[1] == anchors[0] or boxes[0] != 1 or anchors[1] < 4 or boxes[2] < 4:
        raise ShapeMismatch(f"boxes {boxes}, scores {scores}, anchors {anchors}")
    if not a.classes <= scores[2] <= a.classes + 1:
        raise ShapeMismatch(f"{scores[2]} scores for {a.classes} classes")
    count = a.max_detections * a.max_classes_per_detection
    return [(1, count, 4), (1, count), (1, count), (1,)]

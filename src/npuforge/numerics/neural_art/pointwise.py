"""Nodes of the arithmetic, activation and pooling units, and the CPU's float resize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import (
    NUMPY_TYPES,
    Array,
    CoordinateMode,
    Graph,
    Node,
    ResizeAttrs,
    Tensor,
)
from npuforge.numerics.neural_art.record import Choices
from npuforge.numerics.neural_art.requant import (
    average_constants,
    average_multiplier,
    product_constants,
    scale_constants,
    sum_constants,
)
from npuforge.numerics.neural_art.rules import (
    CLIP_OPS,
    FUNCTION_OPS,
    float_resize,
    output_range,
    same_scale,
)
from npuforge.numerics.neural_art.rules import window as pooling_window
from npuforge.numerics.neural_art.units import (
    Ints,
    added,
    averaged,
    multiplied,
    rescaled,
    rounded_shift,
    saturated,
)
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.tables import nearest_table
from npuforge.vocab import Activation

Reals = npt.NDArray[np.float64]
Kernel = Callable[[Sequence[Array]], Ints]
"""Stored operands to results that are not yet limited to the output's range."""


def kernel_of(graph: Graph, node: Node, choices: Choices) -> Kernel:
    """The arithmetic of a node that no convolution accelerator computes."""
    if float_resize(graph, node):
        return _resize(graph, node)
    if node.op in ("add", "sub"):
        return _sum(graph, node, choices)
    if node.op == "mul":
        return _product(graph, node, choices)
    if node.op in ("minimum", "maximum"):
        return _extreme(graph, node)
    if node.op in CLIP_OPS:
        return _clip(graph, node)
    if node.op in FUNCTION_OPS:
        return _function(graph, node, choices)
    if node.op == "quantize":
        rescale = _rescaling(graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0]))
        return lambda values: rescale(values[0])
    if node.op == "concat":
        return _concat(graph, node)
    return _average(graph, node, choices)


def _rescaling(x: Tensor, y: Tensor) -> Callable[[Array], Ints]:
    if same_scale(x, y):
        return lambda value: value.astype(np.int64)
    c = scale_constants(float(x.quant.s), x.quant.z, float(y.quant.s), y.quant.z)
    return lambda value: rescaled(value.astype(np.int64), c)


def _sum(graph: Graph, node: Node, choices: Choices) -> Kernel:
    a, b = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    sign = -1.0 if node.op == "sub" else 1.0
    c = choices.sums.get(node.name) or sum_constants(
        *(float(a.quant.s), a.quant.z, sign * float(b.quant.s), b.quant.z),
        *(float(y.quant.s), y.quant.z),
    )
    return lambda values: added(values[0].astype(np.int64), values[1].astype(np.int64), c)


def _product(graph: Graph, node: Node, choices: Choices) -> Kernel:
    """The larger operand is X: the gate of a squeeze-and-excite block arrives on Y."""
    a, b = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    first, second = (1, 0) if b.size > a.size else (0, 1)
    x, gate = (b, a) if first else (a, b)
    c = choices.products.get(node.name) or product_constants(
        *(float(x.quant.s), x.quant.z, float(gate.quant.s), gate.quant.z),
        *(float(y.quant.s), y.quant.z),
    )
    return lambda values: multiplied(
        values[first].astype(np.int64), values[second].astype(np.int64), c
    )


def _extreme(graph: Graph, node: Node) -> Kernel:
    y = graph.tensor(node.outputs[0])
    rescale = [_rescaling(graph.tensor(name), y) for name in node.inputs]
    pick = np.minimum if node.op == "minimum" else np.maximum
    return lambda values: pick(
        saturated(rescale[0](values[0]), 8), saturated(rescale[1](values[1]), 8)
    )


def _clip(graph: Graph, node: Node) -> Kernel:
    y = graph.tensor(node.outputs[0])
    rescale = _rescaling(graph.tensor(node.inputs[0]), y)
    low, high = activation_range(y, Activation(node.op))
    return lambda values: np.clip(saturated(rescale(values[0]), 8), low, high)


def function_table(graph: Graph, node: Node) -> npt.NDArray[np.int64]:
    """The nearest stored output of each stored input byte of an activation function."""
    return nearest_table(node, graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0]))


def _function(graph: Graph, node: Node, choices: Choices) -> Kernel:
    given = choices.tables.get(node.name)
    table = function_table(graph, node) if given is None else given.astype(np.int64)
    return lambda values: table[values[0].view(np.uint8)]


def _concat(graph: Graph, node: Node) -> Kernel:
    y = graph.tensor(node.outputs[0])
    rescale = [_rescaling(graph.tensor(name), y) for name in node.inputs]
    axis = node.attrs.axis  # type: ignore[attr-defined]
    return lambda values: np.concatenate(
        [saturated(r(v), 8) for r, v in zip(rescale, values, strict=True)], axis=axis
    )


def _average(graph: Graph, node: Node, choices: Choices) -> Kernel:
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    found = pooling_window(node, x)
    assert found is not None
    (rows, columns), (down, across) = found.kernel, found.stride
    count = rows * columns
    if found.kernel == x.shape[1:3]:
        c = choices.averages.get(node.name) or average_constants(
            count, float(x.quant.s), x.quant.z, float(y.quant.s), y.quant.z
        )
        return lambda values: averaged(values[0].sum(axis=(1, 2), dtype=np.int64), c)
    multiplier, shift = average_multiplier(count)
    rescale = _rescaling(x, y)

    def windows(values: Sequence[Array]) -> Ints:
        view = np.lib.stride_tricks.sliding_window_view(values[0], found.kernel, (1, 2))
        sums = view[:, ::down, ::across].sum(axis=(-2, -1), dtype=np.int64)
        return rescale(saturated(rounded_shift(sums * multiplier, shift), 8))

    return windows


def _resize(graph: Graph, node: Node) -> Kernel:
    x, y = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    attrs = node.attrs
    assert isinstance(attrs, ResizeAttrs)
    return lambda values: float_bilinear(values[0], attrs, x, y)


def float_bilinear(value: Array, attrs: ResizeAttrs, x: Tensor, y: Tensor) -> Ints:
    """Bilinear resize of real numbers, then quantised, ties to even.

    A stand-in for the closed CPU library (evidence grade D): images, rows, columns, channels.
    """
    real = (value.astype(np.float64) - x.quant.z) * float(x.quant.s)
    for axis in (1, 2):
        at = resize_coordinates(attrs.coordinates, x.shape[axis], y.shape[axis])
        real = interpolated(real, axis, taps(real.shape[axis], at))
    steps: Ints = np.rint(real / float(y.quant.s)).astype(np.int64)
    return steps + y.quant.z


@dataclass(frozen=True)
class Taps:
    """Two neighbouring positions for each output position of an axis, and the second one's part."""

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    part: Reals


def taps(size: int, at: Reals) -> Taps:
    """Neighbours of real positions on an axis of `size` elements; outside, the edge counts."""
    at = np.clip(at, 0, size - 1)
    first = np.floor(at).astype(np.int64)
    return Taps(first, np.minimum(first + 1, size - 1), at - first)


def interpolated(values: Reals, axis: int, at: Taps) -> Reals:
    """An array with four axes, resized along one of them, linear between two neighbours."""
    part = at.part.reshape(-1, *(1,) * (3 - axis))
    first, second = np.take(values, at.first, axis), np.take(values, at.second, axis)
    found: Reals = first * (1 - part) + second * part
    return found


def resize_coordinates(mode: CoordinateMode, source: int, target: int) -> Reals:
    """Input coordinate of each output position."""
    at = np.arange(target, dtype=np.float64)
    if mode is CoordinateMode.ALIGN_CORNERS:
        return at * ((source - 1) / max(1, target - 1))
    if mode is CoordinateMode.ASYMMETRIC:
        return at * source / target
    if mode is CoordinateMode.PYTORCH_HALF_PIXEL and target == 1:
        return at * 0
    return (at + 0.5) * source / target - 0.5


def limited(graph: Graph, node: Node, values: Ints) -> tuple[Array, int]:
    """Results within the output's range, of its type and shape; how many were limited."""
    y = graph.tensor(node.outputs[0])
    held = np.clip(values, *output_range(graph, node))
    count = int(np.count_nonzero(held != values))
    return held.astype(NUMPY_TYPES[y.dtype]).reshape(y.shape), count

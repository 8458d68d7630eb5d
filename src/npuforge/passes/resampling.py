"""Passes that put resizes into what Neural-ART computes itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from npuforge.graph import (
    ConvAttrs,
    Graph,
    Names,
    Node,
    Quantization,
    ReshapeAttrs,
    ResizeAttrs,
    ResizeMode,
    Tensor,
    TransposeAttrs,
    TransposeConvAttrs,
)
from npuforge.numerics import nearest_index, run_graph
from npuforge.numerics.types import is_int8
from npuforge.passes.framework import Builder, Edit, Pass, same_quant
from npuforge.passes.movement import MAX_COPIES, repeat
from npuforge.vocab import Contract, DType

MAX_DIM = 65_535
"""Largest dimension Neural-ART's compiler takes."""


def whole_factors(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Row and column factor of a resize that repeats each pixel; None for any other."""
    attrs = node.attrs
    assert isinstance(attrs, ResizeAttrs)
    x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
    sizes = (x.shape[1], x.shape[2])
    uneven = any(m % n for n, m in zip(sizes, attrs.size, strict=True))
    if not same_quant(x, y) or x.shape[0] != 1 or uneven:
        return None
    factors = (attrs.size[0] // sizes[0], attrs.size[1] // sizes[1])
    if attrs.mode is not ResizeMode.NEAREST and sizes != (1, 1):
        return None
    for axis in (0, 1):
        if sizes[axis] == 1:
            continue
        index = nearest_index(attrs, axis, sizes[axis], attrs.size[axis])
        if not np.array_equal(index, np.arange(attrs.size[axis]) // factors[axis]):
            return None
    return factors


@dataclass(frozen=True)
class NearestToTransposedConv(Pass):
    """Nearest-neighbour resize by whole factors as a transposed convolution with ones.

    Attributes:
        most: largest number of weight bytes.
    """

    code: ClassVar[str] = "nearest-to-transposed-conv"
    ops: ClassVar[frozenset[str]] = frozenset({"resize"})
    most: int = 262_144

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        factors = whole_factors(graph, node)
        x = graph.tensor(node.inputs[0])
        channels = x.shape[3]
        if factors is None or factors == (1, 1) or not is_int8(x):
            return None
        if channels * channels * factors[0] * factors[1] > self.most:
            return None
        data = np.zeros((channels, *factors, channels), np.int8)
        data[np.arange(channels), :, :, np.arange(channels)] = 1
        ones = Quantization.per_channel(np.ones(channels, np.float32), 0)
        made = Builder(graph, node, names, self.code)
        weights = made.constant("weights", Tensor("w", data.shape, DType.INT8, ones, data))
        attrs = TransposeConvAttrs(stride=factors)
        made.add("transpose_conv2d", [x.name, weights], attrs, out=node.outputs[0])
        return made.edit(node)


@dataclass(frozen=True)
class NearestToConcat(Pass):
    """Resize by whole factors as concatenations of the image with itself, columns then rows."""

    code: ClassVar[str] = "nearest-to-concat"
    ops: ClassVar[frozenset[str]] = frozenset({"resize"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        factors = whole_factors(graph, node)
        if factors is None or factors == (1, 1) or max(factors) > MAX_COPIES:
            return None
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        _, rows, columns, channels = x.shape
        line = columns * factors[1] * channels
        if max(line, rows * columns) > MAX_DIM:
            return None
        made = Builder(graph, node, names, self.code)
        source = x.name
        if factors[1] > 1:
            source = made.like("reshape", source, ReshapeAttrs((1, rows * columns, 1, channels)))
            source = repeat(made, source, 2, factors[1])
        if factors[0] > 1:
            source = made.like("reshape", source, ReshapeAttrs((1, rows, 1, line)))
            source = repeat(made, source, 2, factors[0])
        made.like("reshape", source, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class BilinearToConv(Pass):
    """Bilinear resize as two products with constant matrices: 1x1 convolutions between transposes.

    Works for any sizes and coordinate rule; exact but for the rounding of the result between.
    """

    code: ClassVar[str] = "bilinear-to-conv"
    bound: ClassVar[float] = 2.0
    ops: ClassVar[frozenset[str]] = frozenset({"resize"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        attrs = node.attrs
        assert isinstance(attrs, ResizeAttrs)
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        if attrs.mode is not ResizeMode.BILINEAR or not is_int8(x, y) or x.shape[0] != 1:
            return None
        if max(*x.shape[1:3], *attrs.size) > 1024:
            return None
        made = Builder(graph, node, names, self.code)
        source = x.name
        # columns first: [1, H, W, C] -> [1, H, C, W] -> [1, H, C, W'] -> [1, W', C, H]
        source = made.like("transpose", source, TransposeAttrs((0, 1, 3, 2)))
        source = self._product(made, source, attrs, 1, x)
        source = made.like("transpose", source, TransposeAttrs((0, 3, 2, 1)))
        source = self._product(made, source, attrs, 0, y)
        made.like("transpose", source, TransposeAttrs((0, 3, 1, 2)), out=y.name)
        return made.edit(node)

    def _product(
        self, made: Builder, source: str, attrs: ResizeAttrs, axis: int, like: Tensor
    ) -> str:
        matrix = interpolation(attrs, axis, made.tensor(source).shape[3])
        stored, scale = whole_numbers(matrix)
        quant = Quantization.per_channel(scale, 0)
        shape = (stored.shape[0], 1, 1, stored.shape[1])
        data = np.ascontiguousarray(stored.reshape(shape))
        weights = made.constant(f"weights{axis}", Tensor("w", shape, DType.INT8, quant, data))
        return made.add("conv2d", [source, weights], ConvAttrs(), quant=like.quantization)


def interpolation(attrs: ResizeAttrs, axis: int, size: int) -> npt.NDArray[np.float64]:
    """The matrix [outputs, inputs] by which a resize makes one axis, run on unit vectors."""
    wanted = attrs.size[axis]
    scale = None if attrs.scale is None else (attrs.scale[axis], 1.0)
    x = Tensor("x", (1, size, 1, size), DType.FLOAT32)
    y = Tensor("y", (1, wanted, 1, size), DType.FLOAT32)
    one = replace(attrs, size=(wanted, 1), scale=scale)
    node = Node("resize", "resize", ("x",), ("y",), one, Contract.FLOAT32)
    graph = Graph("unit", {"x": x, "y": y}, (node,), ("x",), ("y",))
    units = np.eye(size, dtype=np.float32).reshape(x.shape)
    return run_graph(graph, {"x": units})["y"].reshape(wanted, size).astype(np.float64)


def whole_numbers(
    matrix: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """int8 numbers and a scale a row for a matrix; exact where a common denominator fits."""
    for denominator in range(1, 128):
        scaled = matrix * denominator
        if np.abs(scaled - np.rint(scaled)).max() < 1e-4 and np.abs(scaled).max() <= 127:
            scale = np.full(len(matrix), 1.0 / denominator, np.float32)
            return np.rint(scaled).astype(np.int8), scale
    largest = np.maximum(np.abs(matrix).max(axis=1), 1e-12) / 127.0
    stored = np.rint(matrix / largest[:, None]).astype(np.int8)
    return stored, largest.astype(np.float32)

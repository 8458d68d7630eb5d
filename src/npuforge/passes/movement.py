"""Passes on data movement: axes, slices, concatenations, copies. All are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from npuforge.graph import (
    AxisAttrs,
    ConcatAttrs,
    Graph,
    Names,
    Node,
    ReduceAttrs,
    ReshapeAttrs,
    Shape,
    SliceAttrs,
    SplitAttrs,
    TransposeAttrs,
)
from npuforge.passes.framework import Builder, Edit, Pass
from npuforge.passes.tidy import UNARY

MAX_RANK = 4
"""Axes Neural-ART's compiler takes safely (ST's operator limits)."""
MAX_COPIES = 64
"""Copies a broadcast is spelled out to, an axis."""


def essential(shape: Shape, perm: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]]:
    """The same transpose with axes of size one dropped and axes that stay together merged.

    Returns:
        The shape of the input and the permutation, both as short as they get.
    """
    kept = [axis for axis in perm if shape[axis] != 1]
    runs: list[list[int]] = []
    inputs = [axis for axis in range(len(shape)) if shape[axis] != 1]
    follows = dict(pairwise(inputs))
    for axis in kept:
        if runs and follows.get(runs[-1][-1]) == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ordered = sorted(runs)
    sizes = tuple(math.prod(shape[axis] for axis in run) for run in ordered)
    return sizes, tuple(ordered.index(run) for run in runs)


@dataclass(frozen=True)
class LowerTransposes(Pass):
    """A transpose of many axes, or of the batch axis, as one of few axes behind a batch of one."""

    code: ClassVar[str] = "lower-transposes"
    ops: ClassVar[frozenset[str]] = frozenset({"transpose"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, TransposeAttrs)
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        rank = len(x.shape)
        if rank <= MAX_RANK and node.attrs.perm[0] == 0:
            return None
        sizes, perm = essential(x.shape, node.attrs.perm)
        if not 2 <= len(sizes) < MAX_RANK:
            return None
        made = Builder(graph, node, names, self.code)
        flat = made.like("reshape", x.name, ReshapeAttrs((1, *sizes)))
        moved = TransposeAttrs((0, *(axis + 1 for axis in perm)))
        turned = made.like("transpose", flat, moved)
        made.like("reshape", turned, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class LowerRank(Pass):
    """Elementwise nodes on more than four axes compute on four: axes are merged."""

    code: ClassVar[str] = "lower-rank"
    ops: ClassVar[frozenset[str]] = UNARY | {"add", "sub", "mul", "minimum", "maximum"}

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        y = graph.tensors[node.outputs[0]]
        if len(y.shape) <= MAX_RANK or y.dtype.is_float:
            return None
        shape = (*y.shape[:3], math.prod(y.shape[3:]))
        made = Builder(graph, node, names, self.code)
        inputs = []
        for name in node.input_names:
            x = graph.tensors[name]
            if x.size == 1 and x.is_constant:
                inputs.append(name)
            elif x.shape == y.shape and not x.is_constant:
                inputs.append(made.like("reshape", name, ReshapeAttrs(shape)))
            else:
                return None
        done = made.add(node.op, inputs, node.attrs, quant=y.quantization, dtype=y.dtype)
        made.like("reshape", done, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class HoistSlices(Pass):
    """Slices of a concatenation that give back its pieces: the pieces are used as they were.

    Detection heads concatenate boxes and scores, move axes, concatenate the levels and then cut
    boxes and scores apart again. Cut first, nothing has to be joined.
    """

    code: ClassVar[str] = "hoist-slices"
    ops: ClassVar[frozenset[str]] = frozenset({"slice", "split"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        source = str(node.inputs[0])
        made = Builder(graph, node, names, self.code)
        instead: dict[str, str] = {}
        for name, axis, begin, count in _cuts(graph, node):
            if name in graph.outputs:
                return None
            piece = _piece(graph, made, source, axis, begin, count)
            if piece is None:
                return None
            instead[name] = piece
        return made.edit(node, instead=instead) if instead else None


def _cuts(graph: Graph, node: Node) -> list[tuple[str, int, int, int]]:
    """(output, axis, begin, count) of a node that cuts along one axis; none otherwise."""
    attrs = node.attrs
    if isinstance(attrs, SplitAttrs):
        begins = np.cumsum([0, *attrs.sizes]).tolist()
        return [
            (name, attrs.axis, begin, count)
            for name, begin, count in zip(node.outputs, begins, attrs.sizes, strict=False)
        ]
    assert isinstance(attrs, SliceAttrs)
    shape = graph.tensor(node.inputs[0]).shape
    axes = [i for i, n in enumerate(shape) if attrs.count[i] != n]
    if len(axes) != 1 or any(step != 1 for step in attrs.step):
        return []
    axis = axes[0]
    return [(node.outputs[0], axis, attrs.begin[axis], attrs.count[axis])]


def _piece(graph: Graph, made: Builder, name: str, axis: int, begin: int, count: int) -> str | None:
    """The tensor that is a slice of another along an axis, built without cutting anything.

    None where the slice is no whole piece of a concatenation further up.
    """
    tensor = graph.tensors[name]
    if begin == 0 and count == tensor.shape[axis]:
        return name
    node = graph.producers.get(name)
    if node is None:
        return None
    attrs = node.attrs
    if isinstance(attrs, TransposeAttrs):
        source = _piece(graph, made, str(node.inputs[0]), attrs.perm[axis], begin, count)
        return None if source is None else made.like("transpose", source, attrs)
    if isinstance(attrs, ReshapeAttrs):
        x = graph.tensor(node.inputs[0])
        moved = _axis_before_reshape(x.shape, tensor.shape, axis)
        source = None if moved is None else _piece(graph, made, x.name, moved, begin, count)
        if source is None:
            return None
        shape = tuple(count if i == axis else n for i, n in enumerate(tensor.shape))
        return made.like("reshape", source, ReshapeAttrs(shape))
    if isinstance(attrs, ConcatAttrs):
        return _concat_piece(graph, made, node, attrs, axis, begin, count)
    return None


def _concat_piece(
    graph: Graph, made: Builder, node: Node, attrs: ConcatAttrs, axis: int, begin: int, count: int
) -> str | None:
    y = graph.tensors[node.outputs[0]]
    inputs = [graph.tensor(name) for name in node.inputs]
    if any(y.quantization is not None and not y.quantization.same_as(t.quantization)
           for t in inputs):  # fmt: skip
        return None
    if axis != attrs.axis:
        pieces = [_piece(graph, made, t.name, axis, begin, count) for t in inputs]
        if any(piece is None for piece in pieces):
            return None
        return made.add("concat", pieces, attrs, quant=y.quantization, dtype=y.dtype, exact=True)
    at = 0
    chosen: list[str] = []
    for tensor in inputs:
        size = tensor.shape[axis]
        if begin <= at and at + size <= begin + count:
            chosen.append(tensor.name)
        elif at < begin + count and begin < at + size:
            return None
        at += size
    if len(chosen) == 1:
        return chosen[0]
    return made.add("concat", chosen, attrs, quant=y.quantization, dtype=y.dtype, exact=True)


def _axis_before_reshape(before: Shape, after: Shape, axis: int) -> int | None:
    """The axis of the input that an axis of the result is, when a reshape leaves it alone."""
    outer, size = math.prod(after[:axis]), after[axis]
    found = [
        i for i, n in enumerate(before) if n == size and math.prod(before[:i]) == outer and n > 1
    ]
    return found[0] if found else None


@dataclass(frozen=True)
class GatherToSlice(Pass):
    """Picking neighbouring elements by constant indices is a slice."""

    code: ClassVar[str] = "gather-to-slice"
    ops: ClassVar[frozenset[str]] = frozenset({"gather"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, AxisAttrs)
        x, index = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        y = graph.tensors[node.outputs[0]]
        axis = node.attrs.axis
        if not index.is_constant or index.size == 0 or x.is_constant:
            return None
        picks = index.array.reshape(-1).astype(np.int64)
        picks = np.where(picks < 0, picks + x.shape[axis], picks)
        steps = np.diff(picks)
        step = int(steps[0]) if steps.size else 1
        if step < 1 or (steps != step).any() or not 0 <= picks[0] <= picks[-1] < x.shape[axis]:
            return None
        rank = len(x.shape)
        attrs = SliceAttrs(
            tuple(int(picks[0]) if i == axis else 0 for i in range(rank)),
            tuple(step if i == axis else 1 for i in range(rank)),
            tuple(picks.size if i == axis else n for i, n in enumerate(x.shape)),
        )
        made = Builder(graph, node, names, self.code)
        if y.shape == attrs.count:
            made.like("slice", x.name, attrs, out=y.name)
        else:
            cut = made.like("slice", x.name, attrs)
            made.like("reshape", cut, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class CopiesToConcat(Pass):
    """Tile and broadcast are concatenations of one tensor with itself."""

    code: ClassVar[str] = "copies-to-concat"
    ops: ClassVar[frozenset[str]] = frozenset({"tile", "broadcast_to"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        if x.is_constant or len(y.shape) > MAX_RANK or 0 in y.shape:
            return None
        shape = (1,) * (len(y.shape) - len(x.shape)) + x.shape
        made = Builder(graph, node, names, self.code)
        source = x.name
        if shape != x.shape:
            source = made.like("reshape", source, ReshapeAttrs(shape))
        todo = [(i, n // m) for i, (m, n) in enumerate(zip(shape, y.shape, strict=True)) if n != m]
        if not todo or any(count > MAX_COPIES for _, count in todo):
            return None
        for axis, count in reversed(todo):
            out = y.name if axis == todo[0][0] else None
            source = repeat(made, source, axis, count, out)
        return made.edit(node)


def repeat(made: Builder, source: str, axis: int, count: int, out: str | None = None) -> str:
    """Append a concatenation of a tensor with itself; returns its name."""
    x = made.tensor(source)
    attrs = ConcatAttrs(axis)
    return made.add(
        "concat", [source] * count, attrs, quant=x.quantization, dtype=x.dtype, out=out, exact=True
    )


@dataclass(frozen=True)
class ReduceToPool(Pass):
    """Mean and maximum over any axes as one over rows and columns, which is a global pooling."""

    code: ClassVar[str] = "reduce-to-pool"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"mean", "reduce_max"})

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, ReduceAttrs)
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        axes = node.attrs.axes
        if x.dtype.is_float or (len(x.shape) == MAX_RANK and axes == (1, 2)):
            return None
        made = Builder(graph, node, names, self.code)
        source = first_axes(made, x.name, axes)
        if source is None:
            return None
        count = math.prod(x.shape[axis] for axis in axes)
        image = made.like("reshape", source, ReshapeAttrs((1, count, 1, x.size // count)))
        attrs = ReduceAttrs((1, 2), True)
        pooled = made.add(node.op, [image], attrs, quant=y.quantization, dtype=y.dtype)
        made.like("reshape", pooled, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


def first_axes(
    made: Builder, name: str, axes: tuple[int, ...], *, last: bool = False
) -> str | None:
    """The tensor with some axes moved in front of all others (or behind), as a node if need be.

    None when the transpose has too many axes.
    """
    x = made.tensor(name)
    rest = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    perm = (*rest, *axes) if last else (*axes, *rest)
    sizes, short = essential(x.shape, perm)
    if len(sizes) <= 1 or short == tuple(range(len(short))):
        return name
    if len(sizes) >= MAX_RANK:
        return None
    flat = made.like("reshape", name, ReshapeAttrs((1, *sizes)))
    return made.like("transpose", flat, TransposeAttrs((0, *(axis + 1 for axis in short))))

"""The same network for another image size, to ask what a resolution costs before it is trained.

Every shape is worked out again from the new input; attributes that follow the image follow it here
too: SAME padding, pooling windows as large as the map, resizes by a factor, flattened maps, slices
of whole axes. A network whose weights depend on the size (a fully connected layer behind a
flattened map) is refused. Constants as large as the map (grids of a detection head) get the new
size and zeros: such a graph is for estimates, its outputs mean nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuforge.errors import UsageError
from npuforge.graph import Graph, Node, Shape, Tensor, schema
from npuforge.graph import attrs as at
from npuforge.graph.shapes import ShapeMismatch, same_padding

IMAGE_RANK = 4
MAX_SIZE = 4096


def parse_size(text: str) -> tuple[int, int]:
    """Rows and columns of "192" or "256x320".

    Raises:
        UsageError: CST-009, no such thing.
    """
    found = re.fullmatch(r"\s*(\d{1,4})(?:\s*x\s*(\d{1,4}))?\s*", text)
    if found is None:
        raise UsageError("CST-009", text=text)
    return int(found[1]), int(found[2] or found[1])


def at_resolution(graph: Graph, height: int, width: int) -> Graph:
    """The network for images of `height` x `width`; its own size gives back the same graph.

    Args:
        graph: with one image input of four axes.
        height: rows of the new input, 1 to 4096.
        width: its columns.

    Raises:
        UsageError: CST-008, no single image input, or a node that cannot follow.
    """
    images = [n for n in graph.inputs if len(graph.tensor(n).shape) == IMAGE_RANK]
    if len(images) != 1 or not (0 < height <= MAX_SIZE and 0 < width <= MAX_SIZE):
        raise _refused(height, width, graph.inputs[0] if graph.inputs else "", "no single image")
    shape, first = list(graph.tensor(images[0]).shape), _first_row(graph, images[0])
    rows, columns = shape[first : first + 2]
    if (rows, columns) == (height, width):
        return graph
    shape[first : first + 2] = height, width
    work = _Rescaling(graph, dict(graph.tensors), (rows, columns), (height, width))
    work.shape(images[0], tuple(shape))
    nodes = []
    for node in graph.nodes:
        try:
            nodes.append(work.node(node))
        except ShapeMismatch as error:
            raise _refused(height, width, node.name, str(error)) from None
    return replace(graph, tensors=work.tensors, nodes=tuple(nodes))


def image_size(graph: Graph) -> tuple[int, int] | None:
    """Rows and columns of the one image input; None without a single one."""
    images = [n for n in graph.inputs if len(graph.tensor(n).shape) == IMAGE_RANK]
    if len(images) != 1:
        return None
    first = _first_row(graph, images[0])
    rows, columns = graph.tensor(images[0]).shape[first : first + 2]
    return rows, columns


def _first_row(graph: Graph, name: str) -> int:
    """The axis of an image's rows: 2 where a transpose brings its channels behind, else 1."""
    readers = graph.consumers.get(name, ())
    while len(readers) == 1 and readers[0].op in ("quantize", "dequantize"):
        readers = graph.consumers.get(readers[0].outputs[0], ())
    moved = [r.attrs.perm for r in readers if isinstance(r.attrs, at.TransposeAttrs)]
    return 2 if moved and all(perm == (0, 2, 3, 1) for perm in moved) else 1


def _refused(height: int, width: int, node: str, reason: str) -> UsageError:
    return UsageError("CST-008", size=f"{height}x{width}", node=node, reason=reason)


@dataclass
class _Rescaling:
    """Tensors of the new network while nodes are gone through in order."""

    graph: Graph
    tensors: dict[str, Tensor]
    old: at.Pair
    new: at.Pair

    def shape(self, name: str, shape: Shape) -> None:
        self.tensors[name] = replace(self.tensors[name], shape=shape)

    def node(self, node: Node) -> Node:
        old = [None if n is None else self.graph.tensor(n) for n in node.inputs]
        self._constants(node)
        new = [None if n is None else self.tensors[n] for n in node.inputs]
        attrs = node.attrs
        if old and old[0] is not None and new[0] is not None:
            before, after = old[0].shape[-1:], new[0].shape[-1:]
            if node.op == "fully_connected" and before != after:
                raise ShapeMismatch(f"weights for {before[0]} values, {after[0]} come")
            attrs = _attrs(node.attrs, old, old[0].shape, new[0].shape)
            if isinstance(attrs, at.ResizeAttrs) and new[0].shape[1:3] == (1, 1):
                # One pixel spread over a map, as large as the image makes that.
                size = map(_scaled, attrs.size, self.old, self.new)
                attrs = replace(attrs, size=(next(size), next(size)))
        for name, shape in zip(node.outputs, schema(node.op).infer(new, attrs), strict=True):
            self.shape(name, shape)
        return replace(node, attrs=attrs)

    def _constants(self, node: Node) -> None:
        """Grids beside an activation grow with it; weights never do."""
        moving = next((n for n in node.input_names if not self.tensors[n].is_constant), None)
        if moving is None or node.op in _WEIGHTED:
            return
        before, after = self.graph.tensor(moving).shape, self.tensors[moving].shape
        for name in node.input_names:
            tensor = self.tensors[name]
            own = tensor.shape
            if not tensor.is_constant or before == after or len(own) > len(before):
                continue
            tails = zip(own, before[len(before) - len(own) :], after[-len(own) :], strict=True)
            shape = tuple(b if a != 1 and a == old else a for a, old, b in tails) if own else own
            if shape != own and tensor.data is not None:
                data = np.zeros(shape, tensor.data.dtype)
                self.tensors[name] = replace(tensor, shape=shape, data=data)


_WEIGHTED = frozenset(
    ("conv2d", "depthwise_conv2d", "transpose_conv2d", "fully_connected", "matmul", "gather",
     "prelu")
)  # fmt: skip


def _attrs(attrs: at.Attrs, inputs: Sequence[Tensor | None], old: Shape, new: Shape) -> at.Attrs:
    """Attributes that follow the image; `old` and `new` are shapes of the first input."""
    if old == new:
        return attrs
    if isinstance(attrs, at.ConvAttrs):
        weights = inputs[1]
        kernel = weights.shape[1:3] if weights is not None else (1, 1)
        return replace(attrs, padding=_same(attrs.padding, kernel, attrs.stride, attrs.dilation,
                                            old, new))  # fmt: skip
    if isinstance(attrs, at.PoolAttrs):
        if attrs.kernel == old[1:3]:
            stride = (new[1], new[2]) if attrs.stride == old[1:3] else attrs.stride
            return replace(attrs, kernel=(new[1], new[2]), stride=stride)
        return replace(attrs, padding=_same(attrs.padding, attrs.kernel, attrs.stride, (1, 1), old,
                                            new))  # fmt: skip
    if isinstance(attrs, at.ResizeAttrs):
        size = (_scaled(attrs.size[0], old[1], new[1]), _scaled(attrs.size[1], old[2], new[2]))
        return replace(attrs, size=size)
    if isinstance(attrs, at.ReshapeAttrs):
        return replace(attrs, shape=_reshaped(attrs.shape, old, new))
    if isinstance(attrs, at.SliceAttrs):
        return replace(attrs, count=tuple(map(_counted, attrs.begin, attrs.step, attrs.count,
                                              old, new)))  # fmt: skip
    if isinstance(attrs, at.SplitAttrs) and old[attrs.axis] != new[attrs.axis]:
        return replace(attrs, sizes=tuple(_scaled(n, old[attrs.axis], new[attrs.axis])
                                          for n in attrs.sizes))  # fmt: skip
    return attrs


def _same(
    padding: at.Pads, kernel: Sequence[int], stride: at.Pair, dilation: at.Pair, old: Shape,
    new: Shape,
) -> at.Pads:  # fmt: skip
    """SAME padding is worked out again for the new size; any other padding stays."""
    found: list[int] = []
    for axis in (0, 1):
        own = (padding[2 * axis], padding[2 * axis + 1])
        sides = kernel[axis], stride[axis], dilation[axis]
        is_same = own == same_padding(old[axis + 1], *sides)
        found += same_padding(new[axis + 1], *sides) if is_same else own
    return (found[0], found[1], found[2], found[3])


def _scaled(size: int, old: int, new: int) -> int:
    if size * new % old:
        raise ShapeMismatch(f"{size} of {old} has no counterpart in {new}")
    return size * new // old


def _reshaped(shape: Shape, old: Shape, new: Shape) -> Shape:
    """The target shape for the new input: in each run of axes that hold the same elements, the
    outermost axis that can follows what changed, or the innermost where the inner axes changed."""
    result = list(shape)
    for own, made in _runs(old, shape):
        before = math.prod(old[axis] for axis in own)
        after = math.prod(new[axis] for axis in own)
        if before == after:
            continue
        able = [a for a in made if shape[a] > 1 and shape[a] * after % before == 0]
        if not able:
            raise ShapeMismatch(f"no axis of the shape {shape} can follow the image")
        inner = old[own[0]] == new[own[0]] and old[own[0]] > 1
        axis = able[-1 if inner else 0]
        result[axis] = shape[axis] * after // before
    return tuple(result)


def _runs(old: Shape, shape: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of axes of two shapes that hold the same elements, outermost first.

    >>> list(_runs((1, 8, 8, 20), (1, 320, 4)))
    [([0], [0]), ([1, 2, 3], [1, 2])]
    """
    i = j = 0
    while i < len(old) and j < len(shape):
        own, made = [i], [j]
        left, right = old[i], shape[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(old):
                own.append(i)
                left, i = left * old[i], i + 1
            elif j < len(shape):
                made.append(j)
                right, j = right * shape[j], j + 1
            else:
                raise ShapeMismatch(f"{old} and {shape} hold different numbers of elements")
        yield own, made


def _counted(begin: int, step: int, count: int, old: int, new: int) -> int:
    """Whole axes stay whole; a part from the start or to a fixed place stays as it is."""
    if old == new:
        return count
    if step > 0 and count == -(-(old - begin) // step):
        return -(-(new - begin) // step)
    return count

"""Axis orders: ONNX images are channels first, ours channels last.

A layout is a tuple: axis i of our tensor is axis layout[i] of the ONNX tensor. A permutation costs
nothing until an operator needs the bytes in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from npuforge.graph import Shape

Layout = tuple[int, ...]

CHANNELS_LAST: Layout = (0, 2, 3, 1)


def identity(rank: int) -> Layout:
    """ONNX's own order."""
    return tuple(range(rank))


def onnx_shape(shape: Shape, layout: Layout) -> Shape:
    """The ONNX shape of one of our tensors."""
    out = [0] * len(shape)
    for axis, n in zip(layout, shape, strict=True):
        out[axis] = n
    return tuple(out)


def our_shape(shape: Shape, layout: Layout) -> Shape:
    """Our shape of an ONNX tensor."""
    return tuple(shape[axis] for axis in layout)


def our_axis(axis: int, layout: Layout) -> int:
    """Where an ONNX axis lies in our tensor."""
    return layout.index(axis)


def permutation(have: Layout, want: Layout) -> tuple[int, ...]:
    """The transpose that turns a tensor of one layout into another."""
    return tuple(have.index(axis) for axis in want)


def keeps_order(shape: Shape, perm: Sequence[int]) -> bool:
    """Whether a transpose of this shape moves no byte: it only moves axes of size one."""
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def transposed(layout: Layout, perm: Sequence[int]) -> Layout:
    """The layout of the same bytes after an ONNX Transpose."""
    inverse = {old: new for new, old in enumerate(perm)}
    return tuple(inverse[axis] for axis in layout)

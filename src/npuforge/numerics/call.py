"""Kernel calls: what a node becomes, as data, before anything has an address.

A `View` says which bytes of a tensor an operand covers; it is the Python side of ``nf_shape`` in
``runtime/include/nf/nf.h``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from npuforge.graph import Array, Shape, Tensor


@dataclass(frozen=True)
class View:
    """Logical shape, byte strides, held part and padding value of an operand.

    `offset` is in bytes from the start of the tensor to element (0, y0, x0, 0); `element` is the
    size of an element in bytes. Rows y0..y1-1 and columns x0..x1-1 are held.
    """

    n: int
    h: int
    w: int
    c: int
    sn: int
    sh: int
    sw: int
    sc: int
    y0: int
    y1: int
    x0: int
    x1: int
    pad: int
    element: int
    offset: int = 0

    @classmethod
    def dense(cls, shape: Shape, element: int, pad: int = 0) -> View:
        """A whole tensor, C order; ranks other than 4 are seen as one row of elements."""
        n, h, w, c = shape if len(shape) == 4 else (1, 1, 1, math.prod(shape))
        row = w * c * element
        return cls(n, h, w, c, h * row, row, c * element, element, 0, h, 0, w, pad, element)

    @classmethod
    def strided(cls, shape4: Shape, strides4: Shape, element: int, offset: int = 0) -> View:
        """Any four-dimensional view; strides in elements, 0 repeats."""
        n, h, w, c = shape4
        sn, sh, sw, sc = (s * element for s in strides4)
        return cls(n, h, w, c, sn, sh, sw, sc, 0, h, 0, w, 0, element, offset)

    @property
    def fields(self) -> tuple[int, ...]:
        """The words of nf_shape, in its order."""
        return (
            *(self.n, self.h, self.w, self.c),
            *(self.sn, self.sh, self.sw, self.sc),
            *(self.y0, self.y1, self.x0, self.x1),
            self.pad,
        )

    @property
    def extent(self) -> int:
        """Bytes from the first held byte to the end of the last; 0 when nothing is held."""
        counts = (self.n, self.y1 - self.y0, self.x1 - self.x0, self.c)
        if min(counts) <= 0:
            return 0
        strides = (self.sn, self.sh, self.sw, self.sc)
        return sum((k - 1) * s for k, s in zip(counts, strides, strict=True)) + self.element

    def padded_with(self, value: int) -> View:
        """The same view with another padding value."""
        return replace(self, pad=value)


@dataclass(frozen=True)
class TensorArg:
    """An operand that is a graph tensor."""

    name: str
    view: View
    writes: bool = False


@dataclass(frozen=True, eq=False)
class ConstArg:
    """An operand that is constant data: weights, bias, multipliers, tables.

    `role` names it in generated code and reports.
    """

    role: str
    data: Array
    layout: View | None = None

    @property
    def view(self) -> View:
        """The stated layout, or the constant as one row of elements."""
        return self.layout or View.dense((self.data.size,), self.data.dtype.itemsize)


@dataclass(frozen=True)
class ScratchArg:
    """An operand that is working memory of `nbytes` bytes, undefined before and after the call."""

    nbytes: int

    @property
    def view(self) -> View:
        """The memory as one row of bytes."""
        return View.dense((self.nbytes,), 1)


Arg = TensorArg | ConstArg | ScratchArg


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One call of a runtime kernel.

    Attributes:
        kernel: name in ``NF_KERNELS``.
        args: operands in the kernel's order, outputs last.
        params: the kernel's parameters by field name.
    """

    kernel: str
    args: tuple[Arg, ...]
    params: Mapping[str, int | float]


def reads(tensor: Tensor, view: View | None = None) -> Arg:
    """The operand that reads a tensor: data when it is a constant."""
    if tensor.data is not None:
        return ConstArg("constant", tensor.data, view)
    return TensorArg(tensor.name, view or View.dense(tensor.shape, tensor.dtype.nbytes))


def writes(tensor: Tensor, view: View | None = None) -> TensorArg:
    """The operand that writes a tensor."""
    return TensorArg(tensor.name, view or View.dense(tensor.shape, tensor.dtype.nbytes), True)


def const(role: str, data: object, dtype: type[np.generic]) -> ConstArg:
    """A constant operand of a given type."""
    return ConstArg(role, np.ascontiguousarray(np.asarray(data, dtype)))

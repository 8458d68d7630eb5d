"""What a compiler for Neural-ART decides and what changes results: one frozen record a node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """Stages of requantisation after a convolution."""

    TWO_STAGE = "two_stage"
    """Per-channel gain to a 16-bit intermediate, then global gain and offset (compiler 1.1.0)."""
    MERGED = "merged"
    """Per-channel gain and offset straight to the output (compiler 1.1.3)."""


class Grade(StrEnum):
    """Evidence that the arithmetic is the chip's."""

    A = "A"
    """Equal to outputs recorded on a board."""
    B = "B"
    """Whole compiled networks agree within the error the arithmetic must have."""
    C = "C"
    """Forced by the register header or by consistency of many compiled epochs."""
    D = "D"
    """Best guess, or the reference rule standing in for a closed CPU library."""


@dataclass(frozen=True)
class ConvChoice:
    """Lowering of one convolution, depthwise, transposed or fully connected layer.

    Attributes:
        form: requantisation stages.
        passes: partial sums over contiguous slices of the input channels; the running sum is
            rounded to 16 bit after each.
        chain: accelerators that add inside a pass, each its own slice of channels; sums handed on
            are exact up to 24 bit, where they saturate.
        rows: kernel rows of each part of a split kernel, in order; each part is rounded to 16 bit.
        columns: kernel columns of each part.
    """

    form: Form
    passes: int
    chain: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def parts(choice: ConvChoice) -> list[tuple[int, int, int, int]]:
    """Row, rows, column and columns of each part of the kernel.

    >>> parts(ConvChoice(Form.MERGED, 1, 1, (3, 2), (5,)))
    [(0, 3, 0, 5), (3, 2, 0, 5)]
    """
    found, row = [], 0
    for height in choice.rows:
        column = 0
        for width in choice.columns:
            found.append((row, height, column, width))
            column += width
        row += height
    return found


def bounds(channels: int, choice: ConvChoice) -> tuple[int, ...]:
    """Channel bounds of the slices of all links of all passes, in the order they are added.

    >>> bounds(10, ConvChoice(Form.MERGED, 2, 2, (1,), (1,)))
    (0, 3, 6, 9, 10)
    """
    count = choice.passes * choice.chain
    size = -(-channels // count)
    return tuple(min(channels, n * size) for n in range(count + 1))

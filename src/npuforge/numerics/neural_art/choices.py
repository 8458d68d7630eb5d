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
    """Lowering of one convolution, depthwise convolution or fully connected layer.

    Attributes:
        form: requantisation stages.
        passes: partial sums over contiguous slices of the input channels; the running sum is
            rounded to 16 bit after each.
        chain: accelerators that add exactly inside a pass; states the mapping, not the result.
        rows: kernel rows of each part of a split kernel, in order.
        columns: kernel columns of each part.
    """

    form: Form
    passes: int
    chain: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

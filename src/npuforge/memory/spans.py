"""Buffers as rectangles of bytes and steps, and what no packing of them can go below."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.lowering import Schedule


@dataclass(frozen=True)
class Span:
    """A buffer to be placed.

    Attributes:
        name: unique among those placed together.
        size: bytes, rounded up to the alignment where the memory is shared by lines.
        alignment: of its offset, bytes.
        first: first step of its life.
        last: last step of its life, included.
        fixed: its offset when that has been decided.
        forbidden: [low, high) ranges of offsets that it may not touch.
    """

    name: str
    size: int
    alignment: int
    first: int
    last: int
    fixed: int | None = None
    forbidden: tuple[tuple[int, int], ...] = ()


def aligned(value: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-value // alignment) * alignment


def spans_of(schedule: Schedule) -> list[Span]:
    """All writable buffers of a schedule, in its order."""
    spans = []
    for buffer in schedule.activations:
        life = schedule.lifetimes[buffer.name]
        size = aligned(buffer.nbytes, buffer.alignment)
        spans.append(Span(buffer.name, size, buffer.alignment, life.first, life.last))
    return spans


def live_bytes(spans: Iterable[Span], steps: int) -> npt.NDArray[np.int64]:
    """Bytes in use before the first step, at each of the steps, and behind the last one."""
    change = np.zeros(steps + 3, np.int64)
    for span in spans:
        change[span.first + 1] += span.size
        change[span.last + 2] -= span.size
    return np.cumsum(change)


def lower_bound(spans: Iterable[Span], steps: int) -> tuple[int, int]:
    """The largest number of bytes in use at one step, and that step."""
    live = live_bytes(spans, steps)
    peak = int(np.argmax(live))
    return int(live[peak]), max(peak - 1, 0)

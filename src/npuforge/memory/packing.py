"""Offsets for buffers with lifetimes in one memory, and a statement of how low any can be.

Four stages, each only when the one before left a gap to the bytes alive at once: greedy seeds (by
size, by area, by duration, by conflicts), a swap search on the chain that holds up the highest
buffer, a search over canonical placements with few nodes for each of falling heights, and the same
search with many nodes, which also proves that a height is impossible. The native part is in
``native/packing``. Without a time limit the answer depends on the arguments only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from npuforge import _native
from npuforge.errors import PlanError
from npuforge.memory.spans import Span

Row = tuple[int, int, int, int, int, list[tuple[int, int]]]

LIMITED_NODES = 24
"""Nodes for each buffer at one height of the first limited search: twelve orders, two each."""


class Method(StrEnum):
    """The stage that found a packing."""

    GREEDY = "greedy"
    SWAPS = "swap search"
    LIMITED = "limited search"
    EXACT = "branch and bound"


@dataclass(frozen=True)
class Effort:
    """How long to search.

    Attributes:
        tries: orders that the swap search tries.
        limited: whether the limited search runs.
        nodes: nodes of the exact search in all; 0 leaves it out.
        seconds: wall time for everything; 0 is no limit, and then results are reproducible.
        threads: of the exact search; more than one is not reproducible either.
    """

    tries: int = 1000
    limited: bool = True
    nodes: int = 20_000
    seconds: float = 0.0
    threads: int = 1


@dataclass(frozen=True)
class Packing:
    """A packing and what is known about the best one.

    Attributes:
        offsets: by name.
        height: bytes it takes from offset 0 on.
        bound: the most bytes alive at once, or the end of a fixed buffer if that is higher.
        least: no packing is lower than this: the bound, or more where a search proved it.
        method: the stage that found it.
    """

    offsets: Mapping[str, int]
    height: int
    bound: int
    least: int
    method: Method

    @property
    def proved(self) -> bool:
        """Whether no packing is lower."""
        return self.height <= self.least

    @property
    def gap(self) -> float:
        """How far it is above the bound, as a fraction."""
        return self.height / self.bound - 1 if self.bound else 0.0


def pack(spans: Sequence[Span], goal: int = 0, effort: Effort | None = None) -> Packing:
    """A packing as low as the effort finds.

    Args:
        spans: buffers; names are unique, sizes above 0 are placed apart while they live together.
        goal: bytes that are enough: the search ends at a packing that is no higher, and when it is
            certain that there is none.
        effort: how long to search; the default is under a second for a hundred buffers.

    Raises:
        PlanError: MEM-003 when fixed buffers contradict each other or their own limits.
    """
    check_fixed(spans)
    lasting, rest = _split_lasting([span for span in spans if span.size > 0])
    offsets = {}
    base = 0
    for span in lasting:
        offsets[span.name] = base
        base += span.size
    search = _Search(rest, max(goal - base, 0), effort or Effort())
    search.run()
    placed = zip(rest, search.offsets, strict=True)
    offsets |= {span.name: base + offset for span, offset in placed}
    offsets |= {span.name: span.fixed or 0 for span in spans if span.size == 0}
    return Packing(
        offsets, base + search.height, base + search.bound, base + search.least, search.method
    )


def _split_lasting(spans: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """Spans that live as long as all others together, to be laid below them, and the others.

    Whatever packing there is, they can be moved to its bottom and what was below them up: where
    their sizes are multiples of every alignment and nothing is fixed but what lies at the bottom
    already, or forbidden, no height is lost.
    """
    if any(span.forbidden for span in spans) or not spans:
        return [], list(spans)
    first, last = min(s.first for s in spans), max(s.last for s in spans)
    unit = math.lcm(*(span.alignment for span in spans))
    lasting = [s for s in spans if (s.first, s.last) == (first, last) and s.size % unit == 0]
    decided = sorted((s.fixed, i) for i, s in enumerate(lasting) if s.fixed is not None)
    below, base = [], 0
    for at, i in decided:
        if at == base:
            below.append(lasting[i])
            base += lasting[i].size
    if len(below) < sum(span.fixed is not None for span in spans):
        return [], list(spans)
    lasting = below + [span for span in lasting if span.fixed is None]
    kept = {span.name for span in lasting}
    return lasting, [span for span in spans if span.name not in kept]


def live_bound(spans: Sequence[Span]) -> int:
    """The most bytes alive at one step, or the end of a fixed buffer if that is higher."""
    most, _ = _fullest(spans)
    return max([most, *(span.fixed + span.size for span in spans if span.fixed is not None)])


def fullest_step(spans: Sequence[Span]) -> int:
    """The first step at which most bytes are alive; 0 when there are none."""
    return _fullest(spans)[1]


def _fullest(spans: Sequence[Span]) -> tuple[int, int]:
    changes: dict[int, int] = {}
    for span in spans:
        changes[span.first] = changes.get(span.first, 0) + span.size
        changes[span.last + 1] = changes.get(span.last + 1, 0) - span.size
    live = most = worst = 0
    for step in sorted(changes):
        live += changes[step]
        if live > most:
            most, worst = live, step
    return most, worst


def check_fixed(spans: Sequence[Span]) -> None:
    """Whether the fixed buffers are possible at all.

    Raises:
        PlanError: MEM-003 with the buffer and what it contradicts.
    """
    fixed = [(span, span.fixed) for span in spans if span.fixed is not None and span.size]
    for i, (span, low) in enumerate(fixed):
        high = low + span.size
        if low < 0 or low % span.alignment:
            raise PlanError("MEM-003", tensor=span.name, offset=low,
                            reason=f"not a multiple of {span.alignment}")  # fmt: skip
        for start, end in span.forbidden:
            if low < end and start < high:
                raise PlanError("MEM-003", tensor=span.name, offset=low,
                                reason=f"it may not touch {start} to {end}")  # fmt: skip
        for other, at in fixed[:i]:
            together = span.first <= other.last and other.first <= span.last
            if together and low < at + other.size and at < high:
                raise PlanError("MEM-003", tensor=span.name, offset=low,
                                reason=f"{other.name} lies there")  # fmt: skip


class _Search:
    """The stages over one set of buffers; keeps the best packing and what has been proved."""

    def __init__(self, spans: Sequence[Span], goal: int, effort: Effort) -> None:
        self.spans, self.effort = spans, effort
        self.bound = self.least = live_bound(spans)
        self.goal = max(goal, self.bound)
        self.rows: list[Row] = [
            (
                span.size, span.alignment, span.first, span.last,
                -1 if span.fixed is None else span.fixed, list(span.forbidden),
            )
            for span in spans
        ]  # fmt: skip
        self.nodes = effort.nodes
        self.end = time.monotonic() + effort.seconds if effort.seconds else math.inf
        # tops of canonical placements are multiples of what divides everything they are made of
        numbers = [n for s in spans for n in (s.size, s.alignment, s.fixed or 0)]
        numbers += [n for s in spans for pair in s.forbidden for n in pair]
        self.unit = math.gcd(*numbers) or 1
        self.offsets: list[int] = []
        self.height = 0
        self.method = Method.GREEDY

    def run(self) -> None:
        if not self.rows:
            return
        self._climb()
        if self.effort.limited:
            self._fall(LIMITED_NODES)
            # time without an exact search to spend it on goes to wider limited searches
            width = LIMITED_NODES
            while self.effort.seconds and not self.effort.nodes and self._wanting():
                width *= 2
                self._fall(width)
        if self.goal > self.bound and self._open(self.goal):
            self._probe(self.goal, self.nodes, Method.EXACT)
        elif self.goal == self.bound:
            self._close()

    def _open(self, height: int) -> bool:
        """Whether a height is neither reached nor known to be impossible."""
        return self.least <= height < self.height

    def _left(self) -> float:
        """Seconds for one native call; 0 means no limit there."""
        return 0.0 if self.end == math.inf else max(self.end - time.monotonic(), 0.001)

    def _climb(self) -> None:
        self.offsets, self.height, _ = _native.climb(self.rows, self.goal, 0, 0.0)
        if self.height > self.goal and self.effort.tries:
            seconds = self._left() / 4
            offsets, height, _ = _native.climb(self.rows, self.goal, self.effort.tries, seconds)
            if height < self.height:
                self.offsets, self.height, self.method = offsets, height, Method.SWAPS

    def _probe(self, height: int, nodes: int, method: Method) -> str:
        """Ask whether a height is possible and keep what the answer says."""
        effort = self.effort
        threads = effort.threads if method is Method.EXACT else 1
        outcome, offsets, used = _native.pack(self.rows, height, nodes, self._left(), threads)
        if method is Method.EXACT:
            self.nodes -= used
        if outcome == "found":
            self.offsets, self.method = offsets, method
            ends = (at + row[0] for at, row in zip(offsets, self.rows, strict=True))
            self.height = max(ends)
        elif outcome == "impossible":
            self.least = max(self.least, (height // self.unit + 1) * self.unit)
        return outcome

    def _wanting(self) -> bool:
        """Whether there is something lower to be found, and time."""
        return self.height > max(self.goal, self.least) and time.monotonic() < self.end

    def _fall(self, width: int) -> None:
        """Lower heights with few nodes each; the step shrinks where none is found.

        Args:
            width: nodes for each buffer at one height.
        """
        step = (self.height - self.goal) // 2
        nodes = width * len(self.rows)
        while self.height > self.goal and time.monotonic() < self.end:
            step = max(step // self.unit, 1) * self.unit
            target = max(self.height - step, self.goal)
            if target < self.least or self._probe(target, nodes, Method.LIMITED) != "found":
                if step == self.unit:
                    return
                step //= 2

    def _close(self) -> None:
        """The lowest height first, then halves of what is open; unknown heights are passed over."""
        unknown = self.least
        share = self.nodes // 2
        while self._open(unknown) and self.nodes > 0 and time.monotonic() < self.end:
            # reachable heights between those known: whole units from the bound
            units = (self.height - unknown) // self.unit
            middle = unknown if unknown == self.bound else unknown + units // 2 * self.unit
            middle = min(middle, self.height - 1)
            outcome = self._probe(middle, min(share, self.nodes), Method.EXACT)
            if outcome != "found":
                unknown = middle + self.unit
            share = max(share // 2, 1000)

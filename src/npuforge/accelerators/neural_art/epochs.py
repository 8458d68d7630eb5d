"""Hardware, hybrid and software epochs of a network: which operations run in one configuration.

Operations are taken in order and join the epoch before them while units and stream engines last.
An operation that reads a value made in the same epoch is fed by the unit that makes it; that needs
the stream's layout to be the one it wants, each frame to be read once, and no second reader on the
same stream. Where branches run side by side ST's compiler packs their operations together in ways
that this rule does not reproduce; `benchmarks/placement.py` says how often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npuforge.accelerators.neural_art.operations import Operation, Part, operations
from npuforge.accelerators.neural_art.placement import NpuPlacement
from npuforge.accelerators.protocol import PlacementKind
from npuforge.errors import UsageError
from npuforge.graph import Graph

ARITH, ACTIV, POOL, CONVACC, ENGINES = 4, 2, 2, 4, 10
"""Units of the NPU (ST's machine description of STM32N6)."""


POOL_BATCH = 8
"""Most channels of a pixel that a pooling unit was seen to take from another unit."""


DEFAULT_RELEASE = "4.0"
"""Release of ST Edge AI Core taken when the user names none."""
MERGED_FROM = (3, 0)
"""First release whose compiler (1.1.3) makes one ARITH operation of scale and offset."""


def release_number(release: str) -> tuple[int, int]:
    """Major and minor number of a release such as "2.2.0-20266" or "4.0".

    Raises:
        UsageError: CST-001, not a release number.
    """
    found = re.match(r"\s*(\d{1,3})\.(\d{1,3})", release)
    if found is None:
        raise UsageError("CST-001", release=release)
    return int(found[1]), int(found[2])


def merges_requantisation(release: str) -> bool:
    """Whether a release merges scale and offset; errors as for `release_number`."""
    return release_number(release) >= MERGED_FROM


@dataclass(frozen=True)
class Epoch:
    """Operations that run in one configuration of the NPU, or one call on the CPU.

    Attributes:
        kind: hardware, hybrid or on the CPU.
        operations: in stream order.
    """

    kind: PlacementKind
    operations: tuple[Operation, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that take part, each once."""
        return tuple(dict.fromkeys(op.node for op in self.operations))


def epochs(
    graph: Graph, placements: Sequence[NpuPlacement], *, merged: bool = False
) -> tuple[Epoch, ...]:
    """The predicted epochs in execution order.

    Args:
        graph: the network.
        placements: one a node, as `map_to_npu` gives them.
        merged: requantisation in one ARITH operation, as compiler version 1.1.3 does it.
    """
    kinds = {p.node: p.kind for p in placements}
    ops = operations(graph, placements, merged=merged)
    packer, queue = _Packer(), _Queue(ops)
    while (op := queue.next()) is not None:
        if op.part in (Part.SOFTWARE, Part.HELPER):
            helper = op.part is Part.HELPER
            split = kinds[op.node] in (PlacementKind.HYBRID, PlacementKind.HARDWARE)
            on_cpu = PlacementKind.CPU_FLOAT if split else kinds[op.node]
            packer.alone(op, PlacementKind.HYBRID if helper else on_cpu)
            queue.take(op)
        elif packer.fits(op):
            packer.add(op)
            queue.take(op)
        else:
            _fill(packer, queue)
            packer.close()
    packer.close()
    return tuple(packer.done)


def _fill(packer: _Packer, queue: _Queue) -> None:
    """Let operations of other branches use the units that an epoch leaves free."""
    while (op := next(filter(packer.fits_beside, queue.waiting(packer.ops)), None)) is not None:
        packer.add(op)
        packer.beside.add(op.writes)
        queue.pull(op)


class _Packer:
    """The epoch being filled."""

    def __init__(self) -> None:
        self.done: list[Epoch] = []
        self.ops: list[Operation] = []
        self.batch: dict[str, int] = {}
        self.taken: set[str] = set()
        self.made: dict[str, Operation] = {}
        self.beside: set[str] = set()

    def close(self) -> None:
        """End the epoch; where its chains are longer than the units, split it.

        Operations are packed before chains are formed: two convolutions of four units each were
        packed together once (movenet), and the later one then got an epoch before the rest.
        """
        while sum(op.convacc for op in self.ops) > CONVACC:
            last = [op for op in self.ops if op.convacc][-1]
            self.done.append(Epoch(PlacementKind.HARDWARE, (last,)))
            self.ops.remove(last)
        if self.ops:
            self.done.append(Epoch(PlacementKind.HARDWARE, tuple(self.ops)))
        self.ops, self.batch, self.taken, self.beside = [], {}, set(), set()

    def alone(self, op: Operation, kind: PlacementKind) -> None:
        self.close()
        self.done.append(Epoch(kind, (op,)))

    def add(self, op: Operation) -> None:
        self.ops.append(op)
        self.made[op.writes] = op
        local = [name for name in op.reads if name in self.batch]
        self.taken.update(local)
        self.batch[op.writes] = op.gives or next((self.batch[n] for n in local), 0)

    def fits(self, op: Operation) -> bool:
        """Whether an operation can run in the same configuration as those before it."""
        if not self.ops:
            return True
        ops = [*self.ops, op]
        if _joins(op) or _joins(self.ops[0]):
            return False
        if self.ops[0].part is Part.COPY and op.part is not Part.COPY:
            return False
        totals = (
            (sum(o.convacc > 0 for o in ops), CONVACC), (sum(o.arith for o in ops), ARITH),
            (sum(o.activ for o in ops), ACTIV), (sum(o.pool for o in ops), POOL),
            (self._engines(ops), ENGINES),
        )  # fmt: skip
        if any(used > limit for used, limit in totals):
            return False
        local = [name for name in op.reads if name in self.batch]
        if any(name in self.taken for name in local):
            return False
        for name in local:
            given = self.batch[name]
            pooled = op.part is Part.POOL and given <= POOL_BATCH
            if op.batch < 0 or not op.once or (op.batch and op.batch != given and not pooled):
                return False
            if Part.COPY in (op.part, self.made[name].part):
                return False
        return True

    def fits_beside(self, op: Operation) -> bool:
        """Whether an operation of another branch can join: it reads memory, not a unit."""
        return not any(name in self.batch and name not in self.beside for name in op.reads) and (
            self.fits(op)
        )

    @staticmethod
    def _engines(ops: Sequence[Operation]) -> int:
        made = {op.writes for op in ops}
        read = {name for op in ops for name in op.reads}
        count = sum(op.engines for op in ops)
        for op in ops:
            count += sum(name not in made for name in op.reads)
        return count + len(made - read)


def _joins(op: Operation) -> bool:
    """Whether an operation is the copy that makes up a concat: it has its epoch for itself."""
    return op.part is Part.COPY and op.batch < 0


class _Queue:
    """Operations that can run: the chain that was followed last comes first.

    At a fork the branch that can be followed the least far goes first.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.makers = {op.writes: op for op in ops}
        self.readers: dict[str, list[Operation]] = {}
        for op in ops:
            # An image joined with itself is read twice by one operation.
            for name in dict.fromkeys(op.reads):
                self.readers.setdefault(name, []).append(op)
        joined = {
            name for op in ops if op.part is Part.COPY and len(op.reads) > 1 for name in op.reads
        }
        self.pieces = {self.makers[name].node for name in joined if name in self.makers}
        self.done: set[str] = set()
        self.stack = [op for op in reversed(ops) if self._ready(op, self.done)]

    def next(self) -> Operation | None:
        """The operation whose turn it is; None at the end."""
        return self.stack[-1] if self.stack else None

    def waiting(self, ops: Sequence[Operation]) -> Iterator[Operation]:
        """Operations of other branches that may join an epoch, those that wait the longest first.

        Not seen there: a convolution whose result goes into a concat, and, beside an operation
        that only shifts the zero point, another one for a convolution of several units.
        """
        convolves = any(op.convacc for op in ops)
        for op in self.stack[:-1]:
            if op.part in (Part.SOFTWARE, Part.HELPER):
                continue
            behind = self.readers.get(op.writes, ())
            if op.part is Part.SHIFT and not convolves and any(o.convacc > 1 for o in behind):
                continue
            if op.part is Part.CONV and op.node in self.pieces:
                continue
            yield op

    def take(self, op: Operation) -> None:
        """Mark the operation whose turn it is as done; what it makes ready comes next."""
        self.stack.pop()
        following = self._follow(op)
        # The pieces that large pools are copied for wait until all copies are made.
        if op.part is Part.COPY and self.stack:
            self.stack[:0] = following
        else:
            self.stack.extend(following)

    def pull(self, op: Operation) -> None:
        """Mark an operation of another branch as done; its branch keeps its place in the queue."""
        at = self.stack.index(op)
        self.stack[at : at + 1] = self._follow(op)

    def _follow(self, op: Operation) -> list[Operation]:
        self.done.add(op.writes)
        following = [o for o in self.readers.get(op.writes, ()) if self._ready(o, self.done)]
        if len(following) > 1:
            following.sort(key=lambda o: (o.part is Part.COPY, -self._reach(o)))
        return following

    def _ready(self, op: Operation, held: set[str]) -> bool:
        return all(name not in self.makers or name in held for name in op.reads)

    def _reach(self, op: Operation) -> int:
        """Operations that can run after this one without anything else."""
        held, stack, count = set(self.done), [op], 0
        while stack:
            item = stack.pop()
            if item.writes in held or not self._ready(item, held):
                continue
            held.add(item.writes)
            count += 1
            stack.extend(self.readers.get(item.writes, ()))
        return count

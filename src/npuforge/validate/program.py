"""A compiled program against the network it came from, buffer by buffer.

Every epoch is fed with the reference's own tensors: after a buffer is compared it is replaced by
the reference tensor, so that differences do not add up from layer to layer. A buffer is the tensor
that can be computed from what its epoch read. Each value must lie within the bound that the chip's
arithmetic has there (`numerics.neural_art.enclosure`), derived from the network alone. Where the
tensors behind a buffer are not known, the nearest one of its shape is compared and no bound is
claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.aton.arithmetic import LIMITS
from npuforge.aton.choices import compiled_choices
from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.execute import ProgramRun, memory_for, run_program
from npuforge.aton.program import Epoch, Unit
from npuforge.aton.registers import kind_of
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError
from npuforge.graph import Array, Graph
from npuforge.numerics import Executor, storage_roots
from npuforge.numerics.neural_art import CONTRACTS, with_neural_art
from npuforge.numerics.neural_art.enclosure import Enclosure, Interval
from npuforge.validate.buffers import (
    logical,
    model_input,
    physical,
    store_bytes,
    stored_bytes,
)
from npuforge.validate.causes import causes_of, coarse_gains
from npuforge.validate.counterparts import Counterpart, References
from npuforge.vocab import Contract

_MERGED_FROM = (1, 1, 2)
"""First compiler version taken to merge the requantisation stages: 1.1.3 does, 1.1.1 not."""
_PLAUSIBLE = 8.0
"""Mean difference in steps above which a tensor only of the right shape is no counterpart."""
_TOLERANCE = 1e-6
"""For scales that program and network write with different digits."""


@dataclass(frozen=True)
class BufferComparison:
    """One buffer against its counterpart.

    Attributes:
        buffer: name.
        epoch: that wrote it.
        tensor: counterpart in the network.
        values: numbers compared.
        differing: how many differ.
        largest: largest difference in quantisation steps (floats: absolute).
        bound: the largest difference from the reference that the arithmetic allows anywhere in this
            buffer on these inputs; None where an operator has no bound.
        outside: values beyond the bound at their own place.
        saturated: values of 16 or 24 bit that met their limit on the way, in this epoch.
        causes: what else in the epoch rounds more than once: ``fused`` (two layers in one epoch,
            the tensor between them never in memory), ``passes`` (16-bit partial sums), ``table``
            (function table), ``gain`` (a per-channel multiplier of few bits, stored below 512),
            ``cpu`` (CPU kernel by its real-valued definition); also those of the epochs that wrote
            its inputs where these have no counterpart.
        candidates: different tensors that can be computed from what the epoch read and that fit the
            buffer; more than one means that the nearest was taken.
        derived: whether the bound follows from the arithmetic alone, and not from steps that were
            seen (`Enclosure.derived`); False without a bound.
    """

    buffer: str
    epoch: int
    tensor: str
    values: int
    differing: int
    largest: float
    bound: float | None
    outside: int
    saturated: int
    causes: tuple[str, ...]
    candidates: int
    derived: bool

    @property
    def unexplained(self) -> bool:
        """More than a step off, nothing saturated, and no cause in the epoch."""
        return self.largest > 1 and not self.saturated and not self.causes

    @property
    def proved(self) -> bool:
        """Whether every value is where the arithmetic of this very tensor must put it."""
        return self.bound is not None and not self.outside and self.candidates == 1


@dataclass(frozen=True)
class ProgramComparison:
    """All buffers with a counterpart, in execution order.

    Attributes:
        buffers: compared ones.
        unmatched: buffers whose tensor does not exist in the network (16-bit sums, copies): checked
            only through the buffers computed from them.
        unchecked: those of them that no compared buffer was computed from: nothing is known.
        run: the run itself.
    """

    buffers: tuple[BufferComparison, ...]
    unmatched: tuple[str, ...]
    unchecked: tuple[str, ...]
    run: ProgramRun

    @property
    def outside(self) -> tuple[BufferComparison, ...]:
        """Buffers beyond their bound; without one, beyond a step and without a stated cause."""
        return tuple(b for b in self.buffers if b.outside or (b.bound is None and b.unexplained))

    @property
    def explained(self) -> bool:
        """Whether every compared buffer lies within its bound, and every output was checked."""
        results = self.run.outputs.keys() & set(self.unchecked)
        return bool(self.buffers) and not self.outside and not results


def _covered(epoch: Epoch | None, buffer: Buffer) -> bool:
    """Whether the epoch's engines write the buffer from end to end."""
    if epoch is None:
        return True
    spans = sorted((u.pattern.low, u.pattern.high + 1) for u in epoch.writers)
    at = buffer.address
    for low, high in spans:
        if low <= at < high:
            at = high
    return at >= buffer.end


def _writer_source(epoch: Epoch | None, buffer: Buffer) -> Unit | None:
    """The unit whose stream an epoch stores in a buffer."""
    if epoch is None:
        return None
    for writer in epoch.writers:
        if writer.pattern.low < buffer.end and buffer.address <= writer.pattern.high:
            return epoch.source(writer.page, 0)
    return None


def _limits(epoch: Epoch | None, buffer: Buffer) -> tuple[float, float] | None:
    """Limits that the last unit before a buffer applies, in steps above its zero point."""
    unit = _writer_source(epoch, buffer)
    if unit is None or not _limiting(unit):
        return None
    offset = buffer.offsets[0] if buffer.offsets else 0
    return unit.signed("COEFFAC.A") - offset, unit.signed("COEFFAC.C") - offset


def _limiting(unit: Unit) -> bool:
    return kind_of(unit.page) == "ARITH" and unit["CTRL.OP"] == LIMITS


def _inner(epoch: Epoch | None, buffer: Buffer) -> bool:
    """Whether a buffer is computed from a limited stream: part of a layer, no tensor of its own."""
    unit, seen = _writer_source(epoch, buffer), set[int]()
    if epoch is None or unit is None or _limiting(unit):
        return False
    while unit is not None and unit.page not in seen:
        seen.add(unit.page)
        if _limiting(unit):
            return True
        unit = None if kind_of(unit.page) == "CONVACC" else epoch.source(unit.page, 0)
    return False


def _combined(epoch: Epoch | None, buffer: Buffer) -> bool:
    """Whether a buffer holds a sum or product of two tensors on its way."""
    unit = _writer_source(epoch, buffer)
    while epoch is not None and unit is not None and kind_of(unit.page) == "ARITH":
        if unit["CTRL.DUALIN"] or unit["CTRL.OP"]:
            return True
        unit = epoch.source(unit.page, 0)
    return False


def _upstream(epoch: Epoch, unit: Unit, through: Container[str]) -> dict[int, Unit]:
    """A unit and all that its stream is made from, through units of some kinds, by page."""
    waiting, seen = [unit], {unit.page: unit}
    while waiting:
        unit = waiting.pop()
        if kind_of(unit.page) not in through:
            continue
        for (page, _), route in epoch.routes.items():
            for source in route.sources if page == unit.page else ():
                fresh = None if source is None or source in seen else epoch.units.get(source)
                if fresh is not None:
                    seen[fresh.page] = fresh
                    waiting.append(fresh)
    return seen


def _derived(epoch: Epoch | None, buffer: Buffer, whole: Buffer) -> bool:
    """Whether a buffer is made from the very stream that the epoch stores in another one."""
    start, wanted = _writer_source(epoch, buffer), _writer_source(epoch, whole)
    if epoch is None or start is None or wanted is None:
        return False
    return wanted.page in _upstream(epoch, start, ("ARITH",))


def _returned(epoch: Epoch | None, part: Buffer, whole: Buffer) -> bool:
    """Whether an epoch reads a part that it wrote itself again, for what it stores elsewhere.

    Partial sums of accumulations go through memory like this.
    """
    start = _writer_source(epoch, whole)
    if epoch is None or start is None:
        return False
    units = _upstream(epoch, start, ("ARITH", "CONVACC", "ACTIV", "POOL")).values()
    return any(
        kind_of(unit.page) == "STRENG"
        and unit.pattern.low < part.end
        and part.address <= unit.pattern.high
        for unit in units
    )


@dataclass(frozen=True)
class _Behind:
    """What an epoch computes from, down to tensors that were put in place.

    Attributes:
        causes: of rounding more than once.
        numbers: of the epochs since then.
        known: tensors it read.
        names: of the buffers between that have no counterpart.
    """

    causes: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    known: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def joined(self, others: Iterable[_Behind]) -> _Behind:
        """Everything of all, each once."""
        every = (self, *others)
        causes = tuple(dict.fromkeys(c for b in every for c in b.causes))
        numbers = tuple(dict.fromkeys(n for b in every for n in b.numbers))
        known = tuple(dict.fromkeys(k for b in every for k in b.known))
        names = tuple(dict.fromkeys(n for b in every for n in b.names))
        return _Behind(causes, numbers, known, names)


@dataclass(frozen=True)
class _Choice:
    """A counterpart that can be computed from what was read, with what the chip may store.

    Its `array` is the reference on what memory holds, where that is not the reference throughout.
    """

    item: Counterpart
    gap: NDArray[np.float64]
    interval: Interval | None
    array: Array | None = None


@dataclass(frozen=True)
class _Compared:
    """A buffer with its counterpart, before memory goes on with the reference in its place.

    Attributes:
        buffer: it is.
        best: its counterpart.
        replaced: its counterpart is not the reference throughout.
        equals: tensors with the same values, each in its own order of axes.
        bounded: whether its own values are what the arithmetic must give.
        whole: it is the tensor itself, not what limits leave of it.
    """

    buffer: Buffer
    best: Counterpart
    replaced: bool
    equals: tuple[Counterpart, ...]
    bounded: bool
    whole: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tensors."""
        return tuple(dict.fromkeys(item.name for item in self.equals))


class _Session:
    """A comparison while the program runs."""

    def __init__(
        self,
        network: Compiled,
        graph: Graph,
        tensors: Mapping[str, Array],
        enclosure: Enclosure,
        layers: Mapping[str, frozenset[int]],
    ) -> None:
        self.network, self.tensors, self.enclosure = network, tensors, enclosure
        self.layers = layers
        self.graph = graph
        self.prelus = {n: node for node in graph.nodes if node.op == "prelu" for n in node.outputs}
        self.references = References(graph, tensors)
        self.roots = storage_roots(graph)
        self.epochs = {e.number: e for step in network.steps for e in step.epochs}
        self.work = {step.number: step.work for step in network.steps if step.work}
        self.left = Counter({number: len(work) for number, work in self.work.items()})
        self.found: list[tuple[BufferComparison, tuple[int, ...]]] = []
        self.unmatched: list[str] = []
        self.checked: set[str] = set()
        self.returned: set[str] = set()
        self.open: list[tuple[Buffer, _Behind]] = []
        self.placed: list[tuple[Buffer, tuple[str, ...]]] = [
            (buffer, self.same((name,)))
            for buffer, name in zip(network.inputs, graph.inputs, strict=False)
        ]
        self.seen: set[tuple[str, int]] = set()
        self.last = 0
        self.makers: dict[str, int] = {}
        self.own: dict[str, Array] = {}
        self.kept: list[tuple[_Compared, frozenset[str]]] = []
        self.constants = memory_for(network)

    def after(self, number: int, memory: Memory) -> None:
        """Compare what an epoch wrote; put the reference in its place."""
        if number in self.left:
            self.left[number] -= 1
            if self.left[number]:
                return  # the step has more operators to run
        epoch = self.epochs.get(number)
        behind = self.behind(number)
        fresh, renamed = self.described(number, epoch)
        spans = [(u.pattern.low, u.pattern.high + 1) for u in epoch.writers] if epoch else []
        spans += [(b.address, b.end) for b in fresh]
        self.placed = [entry for entry in self.placed if not _meets(entry[0], spans)]
        compared: list[_Compared] = []
        groups = [self.fitting(twins, behind, memory, epoch) for twins in _by_place(fresh)]
        fresh = [buffer for group in groups for buffer in group]
        for buffer in fresh:
            spans = [(buffer.address, buffer.end)]
            if not _covered(epoch, buffer):
                # the rest of it is older: what that was computed from counts too
                behind = behind.joined(b for other, b in self.open if _meets(other, spans))
            self.open = [entry for entry in self.open if not _meets(entry[0], spans)]
            self.seen.add((buffer.name, buffer.address))
            found = self.compare(buffer, behind, memory, _limits(epoch, buffer))
            compared += [] if found is None else [found]
        matched = {item.buffer.name for item in compared}
        inner = [b for b in fresh if b.name not in matched and b.bits == 16]
        kept = any(_combined(epoch, buffer) for buffer in inner)
        self.settle(memory)
        for item in compared:
            halves = kept or any(_derived(epoch, buffer, item.buffer) for buffer in inner)
            own = halves and item.bounded and item.whole
            self.returned.update(b.name for b in inner if _returned(epoch, b, item.buffer))
            self.place(item, memory, own)
            if own:
                self.kept.append((item, frozenset(b.name for b in inner)))
        for buffer in renamed:
            self.rename(buffer, number, memory)

    def described(self, number: int, epoch: Epoch | None) -> tuple[list[Buffer], list[Buffer]]:
        """Buffers that an epoch writes, and those that only name again what lies there already.

        Transposes and reshapes that move nothing leave no trace but a description. The compiler
        gives it an epoch that does not write there, or one that was left out of the program.
        """
        numbers = [number]
        if epoch is not None:
            gap = range(self.last + 1, number)
            numbers = [n for n in gap if n not in self.epochs and n not in self.work] + numbers
        self.last = max(self.last, number)
        every = [
            b
            for n in numbers
            for b in self.network.written_in(n)
            if b.size and not b.name.startswith("SCRATCH") and (b.name, b.address) not in self.seen
        ]
        if epoch is None:
            return every, []
        spans = [(u.pattern.low, u.pattern.high + 1) for u in epoch.writers]
        written = [b for b in every if _meets(b, spans) and b.epoch == number]
        return written, [b for b in every if not _meets(b, spans)]

    def rename(self, buffer: Buffer, number: int, memory: Memory) -> None:
        """Compare another description of what lies in memory, which stays as it is."""
        spans = [(buffer.address, buffer.end)]
        known = tuple(n for other, names in self.placed if _meets(other, spans) for n in names)
        behind = _Behind(numbers=(number,), known=known)
        behind = behind.joined(b for other, b in self.open if _meets(other, spans))
        self.seen.add((buffer.name, buffer.address))
        item = self.compare(buffer, behind, memory, None)
        if item is not None:
            for name in item.names:
                self.makers[name] = buffer.epoch
            if item.replaced:
                self.own.update(self.as_tensors(item, item.best.values))
            self.placed.append((buffer, self.same(item.names)))

    def fitting(
        self, twins: Sequence[Buffer], behind: _Behind, memory: Memory, epoch: Epoch | None
    ) -> Sequence[Buffer]:
        """Of several descriptions of the same bytes, those that a tensor fits best.

        Where a transpose needs no epoch of its own, the tensor before it is still described.
        """
        if len(twins) == 1:
            return twins
        beyond: dict[int, int] = {}
        for n, buffer in enumerate(twins):
            self.seen.add((buffer.name, buffer.address))
            held = _steps(buffer, memory)
            choices = []
            if held is not None:
                choices = self.choices(buffer, held, behind, _limits(epoch, buffer))
            if held is not None and choices:
                beyond[n] = _beyond(buffer, held, choices[0])
        least = min(beyond.values(), default=0)
        return [b for n, b in enumerate(twins) if beyond.get(n, least + bool(beyond)) == least]

    def place(self, item: _Compared, memory: Memory, kept: bool) -> None:
        """Go on with the reference in place of a buffer, or with its own values.

        An epoch that stores a tensor and half of a sum or product with it has computed that half
        from its own values: the other half must be computed from the same.
        """
        buffer, number = item.buffer, item.buffer.epoch
        for name in item.names:
            self.makers[name] = number
        if kept:
            held = _steps(buffer, memory)
            assert held is not None
            self.own.update(self.as_tensors(item, held))
        else:
            self.put(item, memory)
        if item.whole:
            self.placed.append((buffer, self.same(item.names)))

    def as_tensors(self, item: _Compared, steps: NDArray[np.float64]) -> dict[str, Array]:
        """Steps in the order of a buffer as stored values of every tensor that it is."""
        found: dict[str, Array] = {}
        for equal in item.equals:
            stored = equal.tensor_order(steps, self.tensors[equal.name].shape)
            for name in self.same((equal.name,)):
                like = self.tensors[name]
                found[name] = stored.reshape(like.shape).astype(like.dtype)
        return found

    def put(self, item: _Compared, memory: Memory) -> None:
        """The reference in place of a buffer."""
        buffer = item.buffer
        for name in self.same(item.names):
            self.own.pop(name, None)
        if item.replaced:
            self.own.update(self.as_tensors(item, item.best.values))
        values = logical(buffer, bytes(buffer.size))
        assert values is not None
        stored = (item.best.steps + _offset(buffer)).astype(values.dtype)
        store_bytes(buffer, memory, physical(buffer, stored))

    def settle(self, memory: Memory) -> None:
        """Go on with the reference once what was computed from own values is checked."""
        alive = {id(buffer) for buffer, _ in self.placed}
        for item, halves in list(self.kept):
            if halves <= self.checked:
                self.kept.remove((item, halves))
                if id(item.buffer) in alive:
                    span = [(item.buffer.address, item.buffer.end)]
                    # names given to its own values are no longer what lies there
                    self.placed = [
                        e for e in self.placed if e[0] is item.buffer or not _meets(e[0], span)
                    ]
                    self.put(item, memory)

    def behind(self, number: int) -> _Behind:
        """What an epoch computes from: its own causes, and those of uncompared ones before it."""
        epoch = self.epochs.get(number)
        causes = (*causes_of(epoch), *coarse_gains(epoch, self.constants))
        spans = [(u.pattern.low, u.pattern.high + 1) for u in epoch.readers] if epoch else []
        for work in self.work.get(number, ()):
            spans += [(o.address, o.address + max(1, o.count)) for o in work.operands.values()]
            spans += [(b.address, b.end) for b in work.inputs]
        known = tuple(n for buffer, names in self.placed if _meets(buffer, spans) for n in names)
        own = _Behind(causes, (number,), known)
        return own.joined(behind for buffer, behind in self.open if _meets(buffer, spans))

    def same(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Tensors that are the very bytes of others under another shape; these as well."""
        held = {self.roots[name] for name in names}
        more = (n for n in self.tensors if self.roots.get(n) in held)
        return tuple(dict.fromkeys((*names, *more)))

    def choices(
        self,
        buffer: Buffer,
        values: NDArray[np.float64],
        behind: _Behind,
        limits: tuple[float, float] | None,
    ) -> list[_Choice]:
        """Tensors that the buffer can be, nearest first; what `limits` in steps leave of them."""
        known = {name: self.own.get(name, self.tensors[name]) for name in behind.known}
        every = self.references.candidates(buffer, values.shape)
        if limits is not None:
            every = [replace(item, limits=limits) for item in every]
        found = []
        for item in every:
            interval: Interval | None
            if item.name not in known and not self.possible(item.name, buffer):
                continue
            if item.name in known:
                interval = Interval(known[item.name], known[item.name])
            elif self.computed(item.name, frozenset(known), behind.numbers):
                interval = self.interval(item.name, known, behind.numbers)
            else:
                continue
            array = self.recomputed(item.name, known)
            if array is not None:
                item = replace(item, values=replace(item, limits=None).placed(array))
            found.append(_Choice(item, np.abs(values - item.steps), interval, array))
        if not found:
            # what it was computed from is not known: the nearest, without a bound
            near = (
                _Choice(item, np.abs(values - item.steps), None)
                for item in every
                if self.possible(item.name, buffer)
            )
            found = [c for c in near if buffer.real or float(c.gap.mean()) <= _PLAUSIBLE]
        beyond = {id(choice): _beyond(buffer, values, choice) for choice in found}
        found.sort(key=lambda choice: (beyond[id(choice)], float(choice.gap.mean())))
        # what the arithmetic excludes is not what the buffer holds
        return [choice for choice in found if not beyond[id(choice)]] or found

    def possible(self, name: str, buffer: Buffer) -> bool:
        """Whether a unit before the buffer can make the tensor: a PReLU ends in a sum."""
        epoch = self.epochs.get(buffer.epoch)
        node = self.prelus.get(name)
        return node is None or epoch is None or _combined(epoch, buffer)

    def recomputed(self, name: str, known: Mapping[str, Array]) -> Array | None:
        """The reference on what memory holds; None where that is the reference throughout."""
        if name in known:
            return self.own.get(name)
        sources = self.enclosure.sources(name, frozenset(known))
        if not sources or not sources & self.own.keys():
            return None
        wanted = set(self.enclosure.between(name, frozenset(known)))
        nodes = tuple(node for node in self.graph.nodes if node.name in wanted)
        needed = {n for node in nodes for n in (*node.input_names, *node.outputs)}
        tensors = {n: t for n, t in self.graph.tensors.items() if n in needed}
        given = {n: known[n] for n in sources}
        small = Graph(self.graph.name, tensors, nodes, tuple(given), (name,))
        return Executor(small).run(given)[name]

    def computed(self, name: str, known: frozenset[str], numbers: tuple[int, ...]) -> bool:
        """Whether these epochs compute a tensor from the known ones, every convolution of it."""
        if not self.enclosure.sources(name, known):
            return False
        between = self.enclosure.between(name, known)
        held = frozenset(numbers)
        return all(self.layers.get(node, held) & held for node in between)

    def interval(
        self, name: str, known: Mapping[str, Array], numbers: tuple[int, ...]
    ) -> Interval | None:
        """The bound; for both values of a tensor that one of these epochs made and another read."""
        found = self.enclosure.of(name, known)
        made = {name for name in known if self.makers.get(name) in numbers}
        if found is None or not made & known.keys():
            return found
        fewer = {n: v for n, v in known.items() if n not in made}
        other = self.enclosure.of(name, fewer)
        return found if other is None else found.hull(other)

    def derived(self, name: str, behind: _Behind) -> bool:
        """Whether a tensor is known, or its bound follows from the arithmetic."""
        known = frozenset(behind.known)
        return name in known or self.enclosure.derived(name, known)

    def compare(
        self,
        buffer: Buffer,
        behind: _Behind,
        memory: Memory,
        limits: tuple[float, float] | None,
    ) -> _Compared | None:
        """Note how a buffer compares; None when it has no counterpart."""
        held = None
        if not _inner(self.epochs.get(buffer.epoch), buffer):
            held = _steps(buffer, memory)
        choices = [] if held is None else self.choices(buffer, held, behind, limits)
        if held is None or not choices:
            self.unmatched.append(buffer.name)
            self.open.append((buffer, behind.joined([_Behind(names=(buffer.name,))])))
            return None
        best = choices[0]
        bound = None
        if best.interval is not None:
            ends = [best.item.placed(end) for end in (best.interval.low, best.interval.high)]
            reach = np.maximum(ends[1] - best.item.steps, best.item.steps - ends[0])
            bound = float(reach.max(initial=0.0))
        outside = _beyond(buffer, held, best)
        equal, other = [], set()
        for choice in choices:
            if np.array_equal(choice.item.steps, best.item.steps):
                equal.append(choice.item)
            else:
                other.add(choice.item.name)
        comparison = BufferComparison(
            buffer=buffer.name,
            epoch=buffer.epoch,
            tensor=best.item.name,
            values=best.gap.size,
            differing=int(np.count_nonzero(best.gap)),
            largest=float(best.gap.max(initial=0.0)),
            bound=bound,
            outside=outside,
            saturated=0,
            causes=behind.causes,
            candidates=1 + len(other - {best.item.name}),
            derived=bound is not None and self.derived(best.item.name, behind),
        )
        self.found.append((comparison, behind.numbers))
        self.checked.update(behind.names)
        if limits is not None:
            self.open.append((buffer, behind))
        bounded = best.interval is not None and not outside
        replaced = best.array is not None
        return _Compared(buffer, best.item, replaced, tuple(equal), bounded, limits is None)


def _offset(buffer: Buffer) -> int:
    return 0 if buffer.real or not buffer.offsets else buffer.offsets[0]


def _steps(buffer: Buffer, memory: Memory) -> NDArray[np.float64] | None:
    """What a buffer holds, less its zero point, in logical order; None when that is not known."""
    data = stored_bytes(buffer, memory)
    values = None if data is None else logical(buffer, data)
    return None if values is None else values.astype(np.float64) - _offset(buffer)


def _beyond(buffer: Buffer, held: NDArray[np.float64], choice: _Choice) -> int:
    """Values of a buffer beyond the bound."""
    if choice.interval is None:
        return 0
    low, high = (choice.item.placed(end) for end in (choice.interval.low, choice.interval.high))
    slack = _TOLERANCE * np.abs(choice.item.steps) if buffer.real else 0.0
    return int(np.count_nonzero((held < low - slack) | (held > high + slack)))


def _by_place(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """Buffers in groups with the same bytes."""
    found: dict[tuple[int, int], list[Buffer]] = {}
    for buffer in buffers:
        found.setdefault((buffer.address, buffer.size), []).append(buffer)
    return list(found.values())


def _meets(buffer: Buffer, spans: Iterable[tuple[int, int]]) -> bool:
    return any(low < buffer.end and buffer.address < high for low, high in spans)


def _enclosure(network: Compiled, graph: Graph) -> tuple[Enclosure, dict[str, frozenset[int]]]:
    """Bounds of a network as this program computes it, and the epochs each convolution can be in.

    Convolutions with the same weights cannot be told apart by their constants.
    """
    chip = graph
    if not any(node.contract in CONTRACTS for node in graph.nodes):
        version = tuple(int(n) for n in network.version.split(".") if n.isdecimal())
        merged = version >= _MERGED_FROM
        contract = Contract.NEURAL_ART_1_1_3 if merged else Contract.NEURAL_ART
        chip = with_neural_art(graph, contract)
    matched = compiled_choices(chip, default_choices(chip), network)
    tied = {name for name, _ in matched.layers}
    kernels = {
        node.name: chip.tensor(node.inputs[1]).array.tobytes()
        for node in chip.nodes
        if node.name in tied
    }
    places: dict[bytes, set[int]] = {}
    for name, layer in matched.layers:
        places.setdefault(kernels[name], set()).add(layer.epoch)
    layers = {name: frozenset(places[kernel]) for name, kernel in kernels.items()}
    return Enclosure(chip, matched.choices), layers


def compare_program(
    network: Compiled,
    inputs: Mapping[str, bytes],
    graph: Graph,
    tensors: Mapping[str, Array],
    *,
    memory: Memory | None = None,
) -> ProgramComparison:
    """Run a program with the reference's tensors as inputs of every epoch and compare.

    Args:
        network: compiled program.
        inputs: bytes of its input buffers.
        graph: the network it came from.
        tensors: every tensor of a reference run on the same inputs.
        memory: to run on; a fresh image by default.

    Raises:
        ModelError: see `run_program`.
    """
    session = _Session(network, graph, tensors, *_enclosure(network, graph))
    run = run_program(network, inputs, memory=memory, after=session.after)
    met: dict[int, int] = {}
    for profile in run.epochs:
        for item in profile.saturations:
            if item.bits > 8:
                met[profile.number] = met.get(profile.number, 0) + item.count
    buffers = tuple(
        replace(entry, saturated=sum(met.get(number, 0) for number in numbers))
        for entry, numbers in session.found
    )
    checked = session.checked | session.returned
    unchecked = tuple(name for name in session.unmatched if name not in checked)
    return ProgramComparison(buffers, tuple(session.unmatched), unchecked, run)


def reference_tensors(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of the network by its own contract, for these inputs."""
    executor = Executor(graph, capture=True)
    executor.run(inputs)
    return executor.read([*executor.activations(), *graph.inputs])


def compare_with_model(
    network: Compiled, graph: Graph, inputs: Mapping[str, bytes], *, memory: Memory | None = None
) -> ProgramComparison:
    """Compare a program with its network on the bytes of its input buffers.

    Raises:
        ModelError: ATN-014 when program and network take different inputs; see `run_program`.
    """
    if len(network.inputs) != len(graph.inputs):
        reason = f"{len(network.inputs)} inputs, the network has {len(graph.inputs)}"
        raise ModelError("ATN-014", buffer=network.name, reason=reason)
    arrays = {
        name: model_input(buffer, graph.tensor(name), inputs[buffer.name])
        for buffer, name in zip(network.inputs, graph.inputs, strict=True)
    }
    tensors = reference_tensors(graph, arrays)
    return compare_program(network, inputs, graph, tensors, memory=memory)

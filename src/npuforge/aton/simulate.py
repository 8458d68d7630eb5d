"""Running epochs: the units of one configuration evaluated as a dataflow graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from npuforge.aton import arithmetic
from npuforge.aton.arithmetic import Result
from npuforge.aton.program import Epoch, Route, Unit
from npuforge.aton.registers import UNITS, kind_of
from npuforge.aton.streams import Frames, Memory, Stream, pattern_of, read_stream, write_stream
from npuforge.errors import ModelError


@dataclass(frozen=True)
class Link:
    """Elements one switch connection carried.

    Attributes:
        source: unit that sends.
        destination: unit that takes them.
        port: of the destination.
        elements: 24-bit elements after frame selection.
    """

    source: str
    destination: str
    port: int
    elements: int


@dataclass(frozen=True)
class Transfer:
    """Bytes one stream engine moved.

    Attributes:
        engine: name of the stream engine.
        write: towards memory.
        low, high: lowest and highest address.
        moved: bytes on the bus, re-reads counted each time.
    """

    engine: str
    write: bool
    low: int
    high: int
    moved: int


@dataclass(frozen=True)
class Saturation:
    """Values of one unit that met a limit of their number format."""

    unit: str
    count: int
    elements: int
    bits: int


@dataclass(frozen=True)
class EpochRun:
    """What an epoch did: the profile that cost models take.

    Attributes:
        number: of the epoch.
        links: elements of each connection in use.
        transfers: bytes of each engine.
        macs: multiply-accumulates of all CONVACCs, zero weights included.
        saturations: units that met a limit at least once.
        surplus: engines that hold more than anybody takes, and by how many elements.
    """

    number: int
    links: tuple[Link, ...]
    transfers: tuple[Transfer, ...]
    macs: int
    saturations: tuple[Saturation, ...]
    surplus: tuple[tuple[str, int], ...] = ()


@dataclass
class _Run:
    """One epoch while it is evaluated."""

    epoch: Epoch
    memory: Memory
    check: bool
    streams: dict[int, Stream] = field(default_factory=dict)
    active: set[int] = field(default_factory=set)
    links: dict[tuple[int, int], Link] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)
    met: dict[int, Saturation] = field(default_factory=dict)
    surplus: dict[str, int] = field(default_factory=dict)
    macs: int = 0

    def fail(self, page: int, reason: str) -> ModelError:
        return ModelError("ATN-006", epoch=self.epoch.number, unit=UNITS[page], reason=reason)

    def unit(self, page: int) -> Unit:
        unit = self.epoch.units.get(page)
        if unit is None:
            raise self.fail(page, "the switch routes it, but it is not enabled")
        return unit

    def route(self, page: int, port: int) -> Route | None:
        return self.epoch.routes.get((page, port))

    def note(self, page: int, count: int, elements: int, bits: int) -> None:
        if count:
            before = self.met.get(page, Saturation(UNITS[page], 0, 0, bits))
            self.met[page] = Saturation(
                UNITS[page], before.count + count, before.elements + elements, bits
            )

    def arriving(self, page: int, port: int) -> Stream:
        """The stream at a switch destination, frames dropped as its contexts say."""
        route = self.route(page, port)
        if route is None or route.source is None:
            raise self.fail(page, f"nothing is routed to port {port}")
        first, second = route.sources
        if first is not None and second is not None and first != second:
            raise ModelError(
                "ATN-007",
                epoch=self.epoch.number,
                unit=UNITS[page],
                reason="a port fed by two sources in turn",
            )
        stream = self.stream(route.source)
        if route.frames != (0, 0) and (first is None or second is None):
            place = np.arange(stream.frames) % sum(route.frames)
            context = (place >= route.frames[0]).astype(np.int64)
            stream = stream.picked(np.array([first is not None, second is not None])[context])
        self.links[page, port] = Link(UNITS[route.source], UNITS[page], port, stream.size)
        return stream

    def stream(self, page: int) -> Stream:
        """What a unit sends."""
        if page in self.streams:
            return self.streams[page]
        if page in self.active:
            raise self.fail(page, "the unit waits for itself")
        self.active.add(page)
        unit, kind, number = self.unit(page), kind_of(page), self.epoch.number
        if kind == "STRENG":
            if unit.is_writer:
                raise self.fail(page, "a unit listens to an engine that writes memory")
            spare = self.epoch.spares.get(page, 0)
            out = Result(read_stream(self.memory, number, unit, check=self.check, spare=spare))
            self.moved(unit, write=False)
        elif kind == "CONVACC":
            self.convolve(page)
            out = Result(self.streams[page])
        elif kind == "ARITH":
            dual = unit["CTRL.DUALIN"] or unit["CTRL.OP"] == 7
            x = self.arriving(page, 0)
            out = arithmetic.arith(number, unit, x, self.beside(page, x.size) if dual else None)
            self.note(page, out.saturated, out.stream.size, 8 * unit["CTRL.OBYTES"])
        elif kind == "ACTIV":
            out = arithmetic.activ(number, unit, self.arriving(page, 0))
            self.note(page, out.saturated, out.stream.size, 8 * unit["CTRL.OBYTES"])
        elif kind == "POOL":
            out = arithmetic.pool(number, unit, self.arriving(page, 0))
            self.note(page, out.saturated, out.stream.size, 8 * unit["RNDCTRL.OBYTES"])
        else:
            raise ModelError("ATN-007", epoch=number, unit=unit.name, reason=f"unit {kind}")
        self.active.discard(page)
        self.streams[page] = out.stream
        return out.stream

    def beside(self, page: int, wanted: int) -> Stream:
        """The second stream of a unit that takes so many elements.

        An epoch ends when its writers have: what an engine holds beyond that is never taken, and
        compiler 1.1.3 makes such engines.
        """
        route = self.route(page, 1)
        source = None if route is None or route.frames != (0, 0) else route.source
        engine = None if source is None else self.epoch.units.get(source)
        if engine is None or kind_of(engine.page) != "STRENG" or engine.page in self.streams:
            return self.arriving(page, 1)
        held = engine["LIMIT.CNT"] * engine.frame_elements
        if held <= wanted or engine.is_writer or wanted % engine.frame_elements:
            return self.arriving(page, 1)
        engine = engine.first_frames(wanted // engine.frame_elements)
        self.surplus[engine.name] = held - wanted
        self.links[page, 1] = Link(engine.name, UNITS[page], 1, wanted)
        self.moved(engine, write=False)
        return read_stream(self.memory, self.epoch.number, engine, check=self.check)

    def moved(self, unit: Unit, *, write: bool) -> None:
        pattern = pattern_of(self.epoch.number, unit)
        self.transfers.append(Transfer(unit.name, write, pattern.low, pattern.high, pattern.moved))

    def looped_through(self, reader: Unit) -> int | None:
        """Source of the writer whose memory a reader of this same epoch reads back."""
        wanted = pattern_of(self.epoch.number, reader)
        for writer in self.epoch.writers:
            held = pattern_of(self.epoch.number, writer)
            if held.low <= wanted.high and wanted.low <= held.high:
                route = self.route(writer.page, 0)
                return route.source if route else None
        return None

    def chain(self, page: int) -> tuple[list[int], int | None, Stream | None]:
        """Accumulating CONVACCs up to this one, head first; where the head's sum comes from."""
        found = [page]
        while not self.unit(found[0])["CTRL.NOSUM"]:
            route = self.route(found[0], 2)
            source = route.source if route else None
            if source is None:
                raise self.fail(found[0], "accumulation is on, but nothing is routed to it")
            if kind_of(source) == "STRENG":
                tail = self.looped_through(self.unit(source))
                if tail is None:
                    return found, None, self.arriving(found[0], 2)
                self.moved(self.unit(source), write=False)
                return found, tail, None
            if kind_of(source) != "CONVACC":
                return found, None, self.arriving(found[0], 2)
            if source in found or self.unit(found[0])["CTRL.GEN1SUM"]:
                return found, source, None
            found.insert(0, source)
        return found, None, None

    def sums(self, page: int) -> Frames:
        """Exact sums of one CONVACC before accumulation."""
        unit, number = self.unit(page), self.epoch.number
        x = arithmetic.features(number, unit, self.arriving(page, 0))
        held = max(1, unit["SAMPLE.FSTATCNT"]) if unit["CTRL.FSTAT"] else 1
        weights = arithmetic.kernels(number, unit, self.arriving(page, 1), len(x.index) * held)
        out = arithmetic.products(number, unit, x, weights)
        self.macs += out.size * weights.shape[2]
        return out

    def convolve(self, page: int) -> None:
        """Evaluate the chain that ends here, frame by frame when it feeds back."""
        chain, tail, external = self.chain(page)
        if tail is not None and tail not in chain:
            chain, tail_page = self.chain(tail)[0], tail
            if page not in chain:
                raise self.fail(page, f"its sum comes back from {UNITS[tail_page]}, no part of it")
        sums = {unit: self.sums(unit) for unit in chain}
        shape = {value.shape for value in sums.values()}
        if len(shape) != 1 or (external is not None and external.size != sums[chain[0]].size):
            raise self.fail(page, "the sums of a chain differ in size")
        for source, unit in pairwise(chain):
            self.links[unit, 2] = Link(UNITS[source], UNITS[unit], 2, sums[unit].size)
        if tail is None:
            value = None if external is None else external.all().reshape(sums[chain[0]].shape)
            for unit in chain:
                value = self.accumulated(unit, sums[unit], value)
                self.streams[unit] = Stream(value)
            return
        outputs = {unit: np.empty_like(sums[unit]) for unit in chain}
        for frames, more in self.turns(chain[0], len(sums[chain[0]])):
            value = outputs[tail][frames - 1] if more else None
            for unit in chain:
                value = self.accumulated(unit, sums[unit][frames], value)
                outputs[unit][frames] = value
        self.streams.update({unit: Stream(out) for unit, out in outputs.items()})

    def turns(self, page: int, count: int) -> list[tuple[NDArray[np.int64], bool]]:
        """Frames that can be summed at once, and whether they go on with the frame before."""
        depth = np.zeros(count, np.int64)
        for frame in range(count):
            if self.continues(page, frame):
                depth[frame] = depth[frame - 1] + 1
        return [(np.flatnonzero(depth == n), n > 0) for n in range(int(depth.max()) + 1)]

    def continues(self, page: int, frame: int) -> bool:
        """Whether a frame goes on with the sum of the one before."""
        unit = self.unit(page)
        if frame == 0:
            return False
        mode = unit["CTRL.AFILTMODE"]
        if mode in (1, 2):
            reason = f"accumulation filter mode {mode}"
            raise ModelError("ATN-007", epoch=self.epoch.number, unit=unit.name, reason=reason)
        place = frame % max(1, unit["AFILT.TOT"])
        return mode == 0 or unit["AFILT.FIRST"] <= place <= unit["AFILT.LAST"]

    def accumulated(self, page: int, total: Frames, value: Frames | None) -> Frames:
        unit = self.unit(page)
        out, met = arithmetic.requantised(self.epoch.number, unit, total, value)
        self.note(page, met, out.size, 8 * unit["DFORMAT.OBYTES"])
        return out


def run_epoch(epoch: Epoch, memory: Memory, *, check: bool = True) -> EpochRun:
    """Run one epoch on the memory.

    Convolutions, arithmetic, function tables and pools follow the decoded semantics; units and
    modes no published program uses are refused by name, never guessed.

    Args:
        epoch: the units' configuration.
        memory: read and written in place.
        check: refuse reads of bytes nothing has written.

    Raises:
        ModelError: ATN-006 a stream that starves or never drains, an unrouted port; ATN-007 a unit
            or mode that is not modelled; ATN-008 an address outside memory; ATN-011 a read of
            bytes nobody wrote.
    """
    run = _Run(epoch, memory, check)
    for writer in epoch.writers:
        try:
            write_stream(memory, epoch.number, writer, run.arriving(writer.page, 0))
        except (ValueError, IndexError, OverflowError, TypeError) as error:
            raise run.fail(writer.page, f"its stream cannot be formed: {error}") from error
        run.moved(writer, write=True)
    return EpochRun(
        epoch.number,
        tuple(run.links[key] for key in sorted(run.links)),
        tuple(run.transfers),
        run.macs,
        tuple(run.met[key] for key in sorted(run.met)),
        tuple(sorted(run.surplus.items())),
    )

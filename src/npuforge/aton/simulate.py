"""Running epochs: the units of one configuration evaluated as a dataflow graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from npuforge.aton import arithmetic
from npuforge.aton.program import Epoch, Route, Unit
from npuforge.aton.registers import UNITS, kind_of
from npuforge.aton.streams import Frames, Memory, addresses, read_stream, write_stream
from npuforge.errors import ModelError


@dataclass
class _Run:
    """One epoch while it is evaluated."""

    epoch: Epoch
    memory: Memory
    streams: dict[int, Frames] = field(default_factory=dict)
    active: set[int] = field(default_factory=set)

    def fail(self, page: int, reason: str) -> ModelError:
        return ModelError("ATN-006", epoch=self.epoch.number, unit=UNITS[page], reason=reason)

    def unit(self, page: int) -> Unit:
        unit = self.epoch.units.get(page)
        if unit is None:
            raise self.fail(page, "the switch routes it, but it is not enabled")
        return unit

    def route(self, page: int, port: int) -> Route | None:
        return self.epoch.routes.get((page, port))

    def arriving(self, page: int, port: int) -> Frames:
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
        if route.frames == (0, 0) or (first is not None and second is not None):
            return stream
        place = np.arange(len(stream)) % sum(route.frames)
        context = (place >= route.frames[0]).astype(np.int64)
        kept: Frames = stream[np.array([first is not None, second is not None])[context]]
        return kept

    def stream(self, page: int) -> Frames:
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
            out = read_stream(self.memory, number, unit)
        elif kind == "CONVACC":
            self.convolve(page)
            out = self.streams[page]
        elif kind == "ARITH":
            dual = unit["CTRL.DUALIN"] or unit["CTRL.OP"] == 7
            other = self.arriving(page, 1) if dual else None
            out = arithmetic.arith(number, unit, self.arriving(page, 0), other)
        elif kind == "ACTIV":
            out = arithmetic.activ(number, unit, self.arriving(page, 0))
        elif kind == "POOL":
            out = arithmetic.pool(number, unit, self.arriving(page, 0))
        else:
            raise ModelError("ATN-007", epoch=number, unit=unit.name, reason=f"unit {kind}")
        self.active.discard(page)
        self.streams[page] = out
        return out

    def looped_through(self, reader: Unit) -> int | None:
        """Source of the writer whose memory a reader of this same epoch reads back."""
        starts, inside = addresses(self.epoch.number, reader)
        low, high = int(starts.min()), int(starts.max() + inside.max())
        for writer in self.epoch.writers:
            starts, inside = addresses(self.epoch.number, writer)
            if int(starts.min()) <= high and low <= int(starts.max() + inside.max()):
                route = self.route(writer.page, 0)
                return route.source if route else None
        return None

    def chain(self, page: int) -> tuple[list[int], int | None, Frames | None]:
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
        frames = len(x) * (max(1, unit["SAMPLE.FSTATCNT"]) if unit["CTRL.FSTAT"] else 1)
        weights = arithmetic.kernels(number, unit, self.arriving(page, 1), frames)
        return arithmetic.products(number, unit, x, weights)

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
        if tail is None:
            value = None if external is None else external.reshape(sums[chain[0]].shape)
            for unit in chain:
                value = self.accumulated(unit, sums[unit], value)
                self.streams[unit] = value
            return
        outputs = {unit: np.empty_like(sums[unit]) for unit in chain}
        for j in range(len(sums[chain[0]])):
            value = outputs[tail][j - 1] if self.continues(chain[0], j) else None
            for unit in chain:
                value = self.accumulated(unit, sums[unit][j], value)
                outputs[unit][j] = value
        self.streams.update(outputs)

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
        if value is not None:
            total = total + (value << unit["DFORMAT.INSHIFT"])
        return arithmetic.requantised(unit, total)


def run_epoch(epoch: Epoch, memory: Memory) -> None:
    """Run one epoch on the memory.

    Convolutions, arithmetic, function tables and pools follow the decoded semantics; units and
    modes no published program uses are refused by name, never guessed.

    Raises:
        ModelError: ATN-006 a stream that starves or never drains, an unrouted port; ATN-007 a unit
            or mode that is not modelled; ATN-008 an address outside memory; ATN-011 a read of
            bytes nobody wrote.
    """
    run = _Run(epoch, memory)
    for writer in epoch.writers:
        write_stream(memory, epoch.number, writer, run.arriving(writer.page, 0))

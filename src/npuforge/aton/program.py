"""The program model: what the units hold when each epoch starts to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npuforge.artefacts.ec_blob import Blob, Instruction, Op
from npuforge.aton.registers import (
    FIRST_ENGINE,
    PORTS,
    SOURCES,
    SWITCH,
    UNITS,
    fields_of,
    kind_of,
)

_CLEAR = 1 << 30
_RUNNING = 31
_COEFFICIENTS = 256
_TRANSLATE = 11
_ENTRIES = 512


@dataclass(frozen=True)
class Route:
    """What one switch destination listens to.

    Attributes:
        sources: unit page for context 0 and 1; None when frames of that context are dropped.
        frames: frames dealt to each context in turn; (0, 0) is a plain connection.
    """

    sources: tuple[int | None, int | None]
    frames: tuple[int, int]

    @property
    def source(self) -> int | None:
        """The only source; None when nothing is routed."""
        return self.sources[0] if self.sources[0] is not None else self.sources[1]


@dataclass(frozen=True)
class Pattern:
    """Where a stream engine goes in memory: byte addresses and steps.

    Attributes:
        starts: address of each frame.
        rows, columns, depth: shape of a frame in elements.
        line, pixel: byte steps of rows and columns.
        size: bytes of an element.
    """

    starts: NDArray[np.int64]
    rows: int
    columns: int
    depth: int
    line: int
    pixel: int
    size: int

    @property
    def elements(self) -> int:
        """Elements of one frame."""
        return self.rows * self.columns * self.depth

    @property
    def span(self) -> int:
        """Bytes from the first to the last byte of one frame."""
        last = (self.rows - 1) * self.line + (self.columns - 1) * self.pixel
        return last + self.depth * self.size

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Addresses of the different frames, and for each frame its row among them.

        The rows are None when every frame comes once: then the addresses are in stream order.
        """
        if len(self.starts) == 1:
            return self.starts, None
        different, index = np.unique(self.starts, return_inverse=True)
        repeated = len(different) < len(self.starts)
        return (different, index.reshape(-1)) if repeated else (self.starts, None)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Bytes from a frame's start to each of its elements, in stream order."""
        row = np.arange(self.rows, dtype=np.int64)[:, None, None] * self.line
        column = np.arange(self.columns, dtype=np.int64)[None, :, None] * self.pixel
        return (row + column + np.arange(self.depth, dtype=np.int64) * self.size).ravel()

    @cached_property
    def low(self) -> int:
        """Lowest address touched."""
        return int(self.starts.min())

    @cached_property
    def high(self) -> int:
        """Highest address touched."""
        return int(self.starts.max()) + self.span - 1

    @property
    def moved(self) -> int:
        """Bytes moved, re-reads counted each time."""
        return len(self.starts) * self.elements * self.size

    def shape(self, sign: bool) -> NDArray[np.int64]:
        """The frame as the native code takes it."""
        return self._shapes[sign]

    @cached_property
    def _shapes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        values = (self.rows, self.columns, self.depth, self.line, self.pixel, self.size)
        return np.array((*values, 0), np.int64), np.array((*values, 1), np.int64)


@dataclass(frozen=True, eq=False)
class Unit:
    """One enabled unit.

    Attributes:
        page: register page.
        registers: word index to 32-bit value; absent registers hold 0.
        coefficients: ARITH only: entry to (A | B << 16, C) words.
    """

    page: int
    registers: Mapping[int, int]
    coefficients: Mapping[int, tuple[int, int]]

    @cached_property
    def name(self) -> str:
        """Name of the unit, for example ``STRENG3``."""
        return UNITS[self.page]

    @cached_property
    def _values(self) -> dict[str, int]:
        return {
            name: place.get(self.registers) for name, place in fields_of(kind_of(self.page)).items()
        }

    def __getitem__(self, field: str) -> int:
        """Value of a ``REGISTER.FIELD``, unsigned."""
        return self._values[field]

    def signed(self, field: str) -> int:
        """Value of a field in two's complement."""
        width = fields_of(kind_of(self.page))[field].width
        value = self._values[field]
        return value - (1 << width) if value >> width - 1 else value

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """ARITH only: the coefficient memory, 512 times A, B, C, flat."""
        table = np.zeros((_ENTRIES, 3), np.int32)
        for entry, (pair, third) in self.coefficients.items():
            table[entry] = (pair & 0xFFFF, pair >> 16, third & 0xFFFF)
        return table.reshape(-1)

    @cached_property
    def affine(self) -> NDArray[np.int32]:
        """ARITH only: its settings in the order the native code takes them.

        Of the index counters the last that ends wins, counter 3 before 2 before 1. A counter
        counts when its CNT bit is set; every program seen sets all three or none.
        """
        every, step = [self["INCCNT.INCVAL"] + 1], [self.signed("INCOFFSET.VAL")]
        for n in (1, 2, 3):
            every.append(self[f"RSTCNT{n}.RSTCNT"] + 1 if self[f"CTRL.CNT{n}"] else 0)
            step.append(self.signed(f"ADDROFFSET.OFFSET{n}"))
        values = (
            self["CTRL.OP"],
            self["INSHIFTER.FBYTESX"],
            self["INSHIFTER.FBYTESY"] or 1,
            *(self[f"SHIFT.{name}"] for name in ("AX", "BY", "C", "RES")),
            self["CTRL.ROUND"],
            self["CTRL.SAT"],
            self["CTRL.CLIPOUT"],
            self.signed("CLIPRANGE.CLIPMIN"),
            self.signed("CLIPRANGE.CLIPMAX"),
            self["CTRL.OBYTES"],
            self["CTRL.COMBINEBC"],
            *(self[f"CTRL.COEFF{name}"] for name in "ABC"),
            self["COEFFAC.A"],
            self["COEFFB.B"],
            self["COEFFAC.C"],
            *every,
            *step,
        )
        return np.array(values, np.int32)

    @cached_property
    def pattern(self) -> Pattern:
        """Stream engines only: the addresses its registers describe."""
        size, length = self.element_bytes, self.frame_elements
        k = np.arange(self["LIMIT.CNT"], dtype=np.int64)
        if self["CTRL.CONT"]:
            starts = k * length * size
        elif repeat := self["FRAME_RPT.REG"]:
            starts = k % repeat * self.signed("FOFFSET.REG")
            starts = starts + k // repeat * self.signed("FRPTOFF.REG")
        else:
            starts = k * self.signed("FOFFSET.REG")
        starts = starts + self["ADDR.REG"]
        if self["CTRL.RAW"]:
            return Pattern(starts, 1, 1, length, 0, 0, size)
        return Pattern(
            starts,
            rows=self["FSIZE.HEIGHT"],
            columns=self["FSIZE.WIDTH"],
            depth=self["DEPTH.SIZE"],
            line=self["STRD.LOFF"] | self["CID_CACHE.LOFF_MSB"] << 16,
            pixel=self["DEPTH.OFFSET"] | self["LIMITEN.DOFF_MSB"] << 16,
            size=size,
        )

    @cached_property
    def is_writer(self) -> bool:
        """Whether this is a stream engine towards memory."""
        return kind_of(self.page) == "STRENG" and self["CTRL.DIR"] == 1

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of one element of a stream engine in memory."""
        return (self["CTRL.SIZE0"] + self["CTRL.SIZE1"] + self["CTRL.SIZE2"]) // 8

    @cached_property
    def frame_elements(self) -> int:
        """Elements of one frame of a stream engine."""
        if self["CTRL.RAW"]:
            return self.registers.get(3, 0)
        return self["FSIZE.WIDTH"] * self["FSIZE.HEIGHT"] * self["DEPTH.SIZE"]

    def first_frames(self, count: int) -> Unit:
        """The same stream engine, made to stop after so many frames."""
        registers = dict(self.registers)
        fields_of("STRENG")["LIMIT.CNT"].put(registers, count)
        return Unit(self.page, registers, self.coefficients)

    @property
    def stream_bytes(self) -> int:
        """Bytes a stream engine moves in the epoch."""
        return self["LIMIT.CNT"] * self.frame_elements * self.element_bytes


@dataclass(frozen=True)
class Epoch:
    """One configuration of switch and units.

    Attributes:
        number: label the program gives it.
        units: enabled units by page.
        routes: switch destinations in use by (page, port).
        word: word offset of the poll that waits for it.
    """

    number: int
    units: Mapping[int, Unit]
    routes: Mapping[tuple[int, int], Route]
    word: int

    @cached_property
    def writers(self) -> tuple[Unit, ...]:
        """Engines towards memory, in page order."""
        return tuple(unit for _, unit in sorted(self.units.items()) if unit.is_writer)

    @cached_property
    def readers(self) -> tuple[Unit, ...]:
        """Engines from memory, in page order."""
        return tuple(
            unit
            for page, unit in sorted(self.units.items())
            if kind_of(page) == "STRENG" and not unit.is_writer
        )

    @cached_property
    def spares(self) -> Mapping[int, int]:
        """By page of a reader: bytes at the end of a frame taken only to fill its last element.

        A deep convolution takes three channels an element: the bytes of a pixel (raster) or of a
        frame (raw) need not be a multiple of three.
        """
        found: dict[int, int] = {}
        for (page, port), route in self.routes.items():
            unit = self.units.get(page)
            if unit is None or port or kind_of(page) != "CONVACC" or not unit["CTRL.DEEPMODE"]:
                continue
            for source in route.sources:
                engine = None if source is None else self.units.get(source)
                if engine is not None and kind_of(engine.page) == "STRENG":
                    found.setdefault(engine.page, _spare(engine, unit))
        return found

    def source(self, page: int, port: int) -> Unit | None:
        """The enabled unit a switch destination listens to; None when nothing is routed to it."""
        route = self.routes.get((page, port))
        return None if route is None or route.source is None else self.units.get(route.source)


def _spare(engine: Unit, unit: Unit) -> int:
    if engine.is_writer or engine.element_bytes != 3:
        return 0
    held, used = engine["DEPTH.SIZE"], unit["KFORMAT.BTCDEPTH"]
    if engine["CTRL.RAW"]:
        held = engine.frame_elements
        used = unit["FFORMAT.WIDTH"] * unit["FFORMAT.HEIGHT"]
    spare = 3 * held - used
    return spare if 0 < spare < 3 else 0


class _State:
    """Registers while the program is walked."""

    def __init__(self) -> None:
        self.registers: list[dict[int, int]] = [{} for _ in UNITS]
        self.coefficients: list[dict[int, list[int]]] = [{} for _ in UNITS]

    def put(self, unit: int, register: int, lsb: int, msb: int, value: int) -> None:
        page = self.registers[unit]
        mask = ((1 << msb - lsb + 1) - 1) << lsb
        word = page.get(register, 0) & ~mask | value << lsb & mask
        if register == 0 and word & _CLEAR:
            page.clear()
            self.coefficients[unit].clear()
            return
        page[register] = word
        if kind_of(unit) == "ARITH" and register >= _COEFFICIENTS:
            start = _COEFFICIENTS if page.get(_TRANSLATE, 0) & 1 else 0
            entry = (register - start) // 2
            if entry < _ENTRIES:
                self.coefficients[unit].setdefault(entry, [0, 0])[register & 1] = word

    def apply(self, item: Instruction) -> None:
        if item.op in (Op.WRITE, Op.BIT):
            self.put(item.unit, item.register, item.lsb, item.msb, item.values[0])
        elif item.op in (Op.BURST, Op.LOAD):
            step = 1 if item.op is Op.LOAD else 0
            for n, value in enumerate(item.values):
                self.put(item.unit, item.register + n * step, 0, 31, value)

    def snapshot(self, number: int, word: int) -> Epoch:
        units = {
            page: Unit(
                page,
                dict(self.registers[page]),
                {n: (pair[0], pair[1]) for n, pair in self.coefficients[page].items()},
            )
            for page in range(FIRST_ENGINE, UNITS.index("EPOCHCTRL0"))
            if self.registers[page].get(0, 0) & 1
        }
        routes = {}
        for n, port in enumerate(PORTS):
            value = self.registers[SWITCH].get(2 + n, 0)
            links = (value >> 1 & 31, value >> 17 & 31)
            ends = tuple(
                SOURCES[link] if value >> shift & 1 and link < len(SOURCES) else None
                for link, shift in zip(links, (0, 16), strict=True)
            )
            if ends != (None, None):
                routes[port] = Route((ends[0], ends[1]), (value >> 8 & 255, value >> 24 & 255))
        return Epoch(number, units, routes, word)


def epochs_of(blob: Blob) -> tuple[Epoch, ...]:
    """Epochs of a blob in program order.

    An epoch is what the enabled units hold at the first wait for a stream engine after a label
    (evidence grade B). Labels without such a wait start no epoch.
    """
    state = _State()
    label: int | None = None
    found: list[Epoch] = []
    for item in blob.instructions:
        if item.op is Op.LABEL:
            label = item.values[0]
        elif item.op is Op.POLL:
            engine = kind_of(item.unit) == "STRENG" and item.register == 0
            if engine and item.lsb == _RUNNING and label is not None:
                found.append(state.snapshot(label, item.word))
                label = None
        else:
            state.apply(item)
    return tuple(found)

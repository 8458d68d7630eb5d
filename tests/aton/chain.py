"""A six-epoch program made of values: convolution, add, pooling, CPU epoch, two copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from npuforge.artefacts.ihex import Segment
from npuforge.aton.compiled import (
    Buffer,
    CacheStep,
    Compiled,
    Kind,
    Operand,
    Region,
    Step,
    Work,
)
from npuforge.aton.program import Epoch, Route, Unit
from npuforge.aton.registers import UNITS, fields_of, kind_of

RAM, FLASH = 0x34000000, 0x70000000
PLACES = {"x": 0, "y": 64, "z": 128, "p": 192, "q": 224, "v": 288, "w": 352}
SIZES = {"x": 32, "y": 32, "z": 32, "p": 8, "q": 32, "v": 32, "w": 32}
WEIGHTS = np.random.default_rng(3).integers(-9, 10, 36).astype(np.int8).tobytes()


def unit(name: str, table: Mapping[int, tuple[int, int]] | None = None, **fields: int) -> Unit:
    """An enabled unit; field names with ``__`` for the dot."""
    return changed(Unit(UNITS.index(name), {0: 1}, table or {}), **fields)


def changed(old: Unit, **fields: int) -> Unit:
    """A unit with other field values."""
    words = dict(old.registers)
    for field, value in fields.items():
        fields_of(kind_of(old.page))[field.replace("__", ".")].put(words, value)
    return Unit(old.page, words, old.coefficients)


def engine(name: str, address: int, count: int, *, write: bool = False) -> Unit:
    made = unit(name, ADDR__REG=address, CTRL__RAW=1, CTRL__SIZE0=8, LIMIT__CNT=1)
    made = changed(made, CTRL__DIR=int(write), CTRL__LSBMODE=1, CTRL__SIGNEXT=int(not write))
    return Unit(made.page, {**made.registers, 3: count}, {})


def epoch(number: int, units: list[Unit], links: dict[tuple[str, int], str]) -> Epoch:
    routes = {
        (UNITS.index(name), port): Route((UNITS.index(source), None), (0, 0))
        for (name, port), source in links.items()
    }
    return Epoch(number, {item.page: item for item in units}, routes, -1)


def _buffer(name: str, number: int) -> Buffer:
    real = name == "q"
    return Buffer(
        name,
        RAM + PLACES[name],
        SIZES[name],
        number,
        2,
        (1, 1, 1, SIZES[name] // (4 if real else 1)),
        "Last",
        32 if real else 8,
        False,
        real,
        (0.5,),
        (0,),
        False,
    )


def copied(number: int, source: str, target: str) -> Epoch:
    """An epoch that copies one place to another."""
    return epoch(
        number,
        [
            engine("STRENG0", RAM + PLACES[source], 32),
            engine("STRENG1", RAM + PLACES[target], 32, write=True),
        ],
        {("STRENG1", 0): "STRENG0"},
    )


def chain() -> Compiled:
    """The program without fault."""
    sizes = {"INSHIFTER__FBYTESX": 1, "INSHIFTER__FBYTESY": 1, "CTRL__OBYTES": 1, "CTRL__SAT": 1}
    convolution = unit(
        "CONVACC0",
        CTRL__NOSUM=1,
        CTRL__SIMD=1,
        KFORMAT__WIDTH=3,
        KFORMAT__HEIGHT=3,
        KFORMAT__BTCDEPTH=2,
        KFORMAT__NR=2,
        FFORMAT__WIDTH=8,
        FFORMAT__HEIGHT=4,
        FHCROP__RIGHT=7,
        FVCROP__BOTTOM=3,
        SAMPLE__LPAD=1,
        SAMPLE__RPAD=1,
        SAMPLE__TPAD=1,
        SAMPLE__BPAD=1,
        SAMPLE__HSTRD=1,
        SAMPLE__VSTRD=1,
        DFORMAT__FBYTES=1,
        DFORMAT__OBYTES=2,
        DFORMAT__OUTSHIFT=2,
        DFORMAT__ROUND=1,
        DFORMAT__SAT=1,
    )
    scale = unit(
        "ARITH0", COEFFAC__A=3, SHIFT__RES=4, CTRL__ROUND=1, **{**sizes, "INSHIFTER__FBYTESX": 2}
    )
    first = epoch(
        1,
        [
            engine("STRENG0", RAM, 32),
            engine("STRENG2", FLASH, 36),
            convolution,
            scale,
            engine("STRENG1", RAM + PLACES["y"], 32, write=True),
        ],
        {
            ("CONVACC0", 0): "STRENG0",
            ("CONVACC0", 1): "STRENG2",
            ("ARITH0", 0): "CONVACC0",
            ("STRENG1", 0): "ARITH0",
        },
    )
    add = unit("ARITH1", CTRL__DUALIN=1, COEFFAC__A=1, COEFFB__B=1, **sizes)
    second = epoch(
        2,
        [
            engine("STRENG3", RAM, 32),
            engine("STRENG4", RAM + PLACES["y"], 32),
            add,
            engine("STRENG5", RAM + PLACES["z"], 32, write=True),
        ],
        {("ARITH1", 0): "STRENG3", ("ARITH1", 1): "STRENG4", ("STRENG5", 0): "ARITH1"},
    )
    pooling = unit(
        "POOL0",
        CTRL__FBYTES=1,
        PDIMS__WINX=2,
        PDIMS__WINY=2,
        PDIMS__STRDX=2,
        PDIMS__STRDY=2,
        PDIMS__BSIZE=2,
        FDIMS__FEATX=8,
        FDIMS__FEATY=4,
        RNDCTRL__OBYTES=1,
    )
    third = epoch(
        3,
        [
            engine("STRENG6", RAM + PLACES["z"], 32),
            pooling,
            engine("STRENG7", RAM + PLACES["p"], 8, write=True),
        ],
        {("POOL0", 0): "STRENG6", ("STRENG7", 0): "POOL0"},
    )
    small, large = (8, 8, 8, 1), (32, 32, 32, 4)
    work = Work(
        "DequantizeLinear",
        "real",
        True,
        {
            "input": Operand(RAM + PLACES["p"], (1, 1, 1, 8), small, True, 8),
            "is": Operand(FLASH + 40, (1, 1, 1, 1), (0, 0, 0, 0), True, 1),
            "izp": Operand(FLASH + 44, (1, 1, 1, 1), (0, 0, 0, 0), True, 1),
            "output": Operand(RAM + PLACES["q"], (1, 1, 1, 8), large, True, 8),
        },
        (),
        (),
        {},
    )
    constants = WEIGHTS + b"\0" * 4 + np.float32(0.5).tobytes() + b"\0"
    before = (CacheStep(False, True, RAM + PLACES["p"], 32),)
    after = (CacheStep(True, False, RAM + PLACES["q"], 32),)
    buffers = tuple(_buffer(name, n) for n, name in enumerate(PLACES))
    return Compiled(
        "chain",
        "",
        "",
        (Region("ram", RAM, 4096), Region("flash", FLASH, 4096, writable=False)),
        (Segment(FLASH, constants),),
        buffers,
        buffers[:1],
        buffers[-2:],
        (
            Step(Kind.HARDWARE, 1, "blob", (first, second, third), (), before),
            Step(Kind.SOFTWARE, 4, "real", (), (work,), (), after),
            Step(Kind.HARDWARE, 5, "blob", (copied(5, "q", "v"), copied(6, "y", "w"))),
        ),
    )


def with_epoch(network: Compiled, number: int, new: Epoch) -> Compiled:
    """The program with one epoch replaced."""
    steps = tuple(
        replace(step, epochs=tuple(new if e.number == number else e for e in step.epochs))
        for step in network.steps
    )
    return replace(network, steps=steps)


def epoch_of(network: Compiled, number: int) -> Epoch:
    return next(e for step in network.steps for e in step.epochs if e.number == number)


def with_unit(network: Compiled, number: int, name: str, **fields: int) -> Compiled:
    """The program with fields of one unit changed."""
    old = epoch_of(network, number)
    page = UNITS.index(name)
    units = {**old.units, page: changed(old.units[page], **fields)}
    return with_epoch(network, number, replace(old, units=units))


def with_count(network: Compiled, number: int, name: str, count: int) -> Compiled:
    """The program with another frame length of one raw engine."""
    old = epoch_of(network, number)
    page = UNITS.index(name)
    held = old.units[page]
    units = {**old.units, page: Unit(page, {**held.registers, 3: count}, {})}
    return with_epoch(network, number, replace(old, units=units))


def without_unit(network: Compiled, number: int, name: str) -> Compiled:
    old = epoch_of(network, number)
    page = UNITS.index(name)
    units = {key: item for key, item in old.units.items() if key != page}
    return with_epoch(network, number, replace(old, units=units))


def with_route(
    network: Compiled, number: int, name: str, port: int, route: Route | None
) -> Compiled:
    old = epoch_of(network, number)
    routes = {key: item for key, item in old.routes.items() if key != (UNITS.index(name), port)}
    if route is not None:
        routes[UNITS.index(name), port] = route
    return with_epoch(network, number, replace(old, routes=routes))

"""Snapshots of a stalled Neural-ART in a log: stream engines, epoch controller, bus, filters.

Register facts (field notes; also the names that ST's headers use): stream-engine CTRL bit 31 is
RUNNING, epoch-controller CTRL bit 31 is RUNNING and BC its opcode counter, INTREG of the interrupt
controller, ERR of the bus interface, IASR/IAESR/IADDR of a RISAF. `npuforge doctor --probe stall`
writes firmware that prints the canonical form ``nf-stall KEY=VALUE …``; other spellings of people's
own dumps are understood too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from npuforge.artefacts.log_text import Line, LogText

_PAIR = re.compile(
    r"([A-Za-z_][\w.\[\]]*)\s*(?:=|:)\s*(0x[0-9a-fA-F]{1,8}|-?\d{1,10}|[A-Z]{3,12})\b"
)
_ENGINE = re.compile(r"\b(?:streng|stream[ _-]?engine|se)[ _#\[]*(\d{1,2})\b\]?", re.IGNORECASE)
_EC = re.compile(r"\b(?:epoch[ _-]?ctrl|epoch[ _-]?controller|epochctrl|ec)\b", re.IGNORECASE)
_RISAF = re.compile(r"\brisaf[ _#]*(\d{1,2})\b", re.IGNORECASE)
_EC_IRQ = re.compile(r"\bec[_ ]irq\s*[=:]\s*(0x[0-9a-f]+|\d+)", re.IGNORECASE)
_BUSIF = re.compile(r"\bbusif\d?[ _.]*(?:err(?:or)?)?\s*[=:]?\s*(0x[0-9a-f]{1,8})\b", re.IGNORECASE)
_INTREG = re.compile(r"\bintreg\s*[=:]?\s*(0x[0-9a-f]{1,8}|\d+)\b", re.IGNORECASE)
_OPCODE = re.compile(
    r"\b(?:opcode(?:[ _]counter)?|bc)\s*(?:[=:]|stuck at|at)?\s*(\d{1,6})\b", re.IGNORECASE
)
_RUNNING = re.compile(r"\brunning\b(?!\s*[=:]\s*0)", re.IGNORECASE)
_IDLE = re.compile(r"\b(?:not running|idle|stopped)\b", re.IGNORECASE)
_HEX = re.compile(r"0x[0-9a-fA-F]{5,8}\b")
_ANCHORS = (
    "nf-stall",
    "streng",
    "stream engine",
    "stream_engine",
    "epoch controller",
    "epochctrl",
    "epoch_ctrl",
    "intreg",
    "busif",
    "risaf",
    "ec_irq",
    "ec irq",
    "iaddr",
)


@dataclass(frozen=True)
class Engine:
    """One stream engine.

    Attributes:
        number: 0..9.
        running: CTRL bit 31, or what the log says in words; None when neither is there.
        address: address register, None when not printed.
        position: frame or byte position, None when not printed.
        line: line number.
    """

    number: int
    running: bool | None
    address: int | None
    position: int | None
    line: int


@dataclass(frozen=True)
class FilterFlag:
    """Illegal-access words of one RISAF."""

    number: int
    status: int
    address: int | None
    line: int


@dataclass(frozen=True)
class Snapshot:
    """What one dump says; numbers are None where it does not.

    Attributes:
        line: first line.
        engines: stream engines in the order printed.
        filters: RISAF words.
        epoch: index of the epoch (block) that was in flight.
        ec_running: epoch controller RUNNING bit.
        opcode: epoch controller opcode counter.
        ec_irq: epoch controller interrupt word.
        intreg: interrupt controller word.
        busif_error: bus interface error word.
        nvic_pending: whether the NPU interrupt is pending at the core.
        values: every other KEY=VALUE number by lower-case key.
    """

    line: int
    engines: tuple[Engine, ...] = ()
    filters: tuple[FilterFlag, ...] = ()
    epoch: int | None = None
    ec_running: bool | None = None
    opcode: int | None = None
    ec_irq: int | None = None
    intreg: int | None = None
    busif_error: int | None = None
    nvic_pending: int | None = None
    values: dict[str, int] = field(default_factory=dict)
    text: str = ""

    @property
    def running(self) -> tuple[Engine, ...]:
        """Engines that are known to run."""
        return tuple(engine for engine in self.engines if engine.running)


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _word(text: str) -> int:
    """A register word; digits filled up with zeros are hexadecimal, as ``%08lx`` prints them."""
    number = _number(text)
    return int(text, 16) if number is None else number


def _pairs(text: str) -> dict[str, int]:
    found = {}
    for key, value in _PAIR.findall(text):
        number = _number(value)
        if number is not None:
            found[key.lower()] = number
    return found


def _first(values: dict[str, int], *names: str) -> int | None:
    return next((values[name] for name in names if name in values), None)


def _said_running(line: str, values: dict[str, int]) -> bool | None:
    ctrl = _first(values, "ctrl", "cr", "control")
    if ctrl is not None:
        return bool(ctrl >> 31 & 1)
    if "running" in values:
        return bool(values["running"])
    if _IDLE.search(line):
        return False
    return True if _RUNNING.search(line) else None


def _engine(line: Line, number: int, values: dict[str, int]) -> Engine:
    address = _first(values, "addr", "address", "src", "dst", "base", "fsrc")
    if address is None:
        wide = [int(word, 16) for word in _HEX.findall(line.text)]
        ctrl = _first(values, "ctrl", "cr", "control")
        address = next((word for word in wide if word != ctrl and word < 0xA0000000), None)
    position = _first(values, "pos", "position", "cnt", "count")
    if position is None:
        said = re.search(r"\bposition\s+(?:frozen at\s+)?(\d+)", line.text, re.IGNORECASE)
        position = int(said.group(1)) if said else None
    return Engine(number, _said_running(line.text, values), address, position, line.number)


def read_snapshots(log: LogText, limit: int = 100) -> tuple[Snapshot, ...]:
    """All snapshots of a log; lines with NPU registers within eight lines of each other are one.

    Args:
        log: the text.
        limit: snapshots to read at most.
    """
    numbers = log.lines_with(_ANCHORS, 5000)
    groups: list[list[Line]] = []
    for number in numbers:
        line = log.line(number)
        if groups and number - groups[-1][-1].number <= 8 and len(groups[-1]) < 200:
            groups[-1].append(line)
        else:
            groups.append([line])
    found = []
    for group in groups:
        snapshot = _snapshot(_with_neighbours(log, group))
        if snapshot is not None:
            found.append(snapshot)
            if len(found) >= limit:
                break
    return tuple(found)


def _with_neighbours(log: LogText, group: list[Line]) -> list[Line]:
    """Lines between and just around the anchors too: NVIC, clock and epoch lines have no anchor."""
    first, last = group[0].number, group[-1].number
    return log.window(first, 3, last - first + 3)


def _snapshot(lines: Iterable[Line]) -> Snapshot | None:
    engines: list[Engine] = []
    filters: list[FilterFlag] = []
    values: dict[str, int] = {}
    ec: dict[str, int] = {}
    ec_running: bool | None = None
    ec_irq: int | None = None
    first: Line | None = None
    for line in lines:
        pairs = _pairs(line.text)
        busif, word = _BUSIF.search(line.text), _INTREG.search(line.text)
        if busif:
            pairs["busif_err"] = int(busif.group(1), 16)
        if word:
            pairs["intreg"] = _word(word.group(1))
        engine, risaf = _ENGINE.search(line.text), _RISAF.search(line.text)
        irq = _EC_IRQ.search(line.text)
        if irq:
            ec_irq = _word(irq.group(1))
        if engine and (pairs or _RUNNING.search(line.text) or _IDLE.search(line.text)):
            engines.append(_engine(line, int(engine.group(1)), pairs))
        elif risaf and pairs.keys() & {"iasr", "iaesr", "iaddr", "iar"}:
            status = pairs.get("iasr", 0) | pairs.get("iaesr", 0)
            filters.append(
                FilterFlag(int(risaf.group(1)), status, _first(pairs, "iaddr", "iar"), line.number)
            )
        elif _EC.search(line.text):
            said = _said_running(line.text, pairs)
            ec_running = said if said is not None else ec_running
            ec |= pairs
            counter = _OPCODE.search(line.text)
            if counter:
                ec.setdefault("bc", int(counter.group(1)))
        elif not pairs:
            continue
        values |= pairs
        first = first or line
    opcode = _first(ec, "bc", "opcode", "counter") if ec else None
    snapshot = Snapshot(
        line=first.number if first else 0,
        engines=tuple(engines),
        filters=tuple(filters),
        epoch=_first(values, "epoch", "epoch_index", "eb", "epoch_block"),
        ec_running=ec_running,
        opcode=opcode if opcode is not None else _first(values, "bc", "opcode_counter"),
        ec_irq=ec_irq,
        intreg=_first(values, "intreg", "intctrl.intreg"),
        busif_error=_first(values, "busif_err", "busif.err", "busif0_err"),
        nvic_pending=_first(values, "nvic_pending", "pending", "nvic_pend", "ispr"),
        values=values,
        text=first.text.strip() if first else "",
    )
    useful = (
        snapshot.engines
        or snapshot.filters
        or snapshot.ec_irq is not None
        or snapshot.intreg is not None
        or snapshot.busif_error is not None
        or (snapshot.ec_running is not None and snapshot.opcode is not None)
    )
    return snapshot if useful else None

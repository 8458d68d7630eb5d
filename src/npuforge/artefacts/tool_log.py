"""Logs and text reports of ST's tools: analyze, generate, validate, AI Studio, CubeProgrammer.

Formats read out of public logs of ST Edge AI Core 2.2, 3.0, 4.0.0 and 4.0.1; all parts are
optional, so a pasted fragment is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from npuforge.artefacts.log_text import Line, LogText

MAX_ITEMS = 2000


@dataclass(frozen=True)
class ToolMessage:
    """An error or warning.

    Attributes:
        line: line number.
        kind: ``E103``, ``TOOL ERROR``, ``INTERNAL ERROR``, ``NOT IMPLEMENTED``, ``NETWORK ERROR``,
            ``programmer``, ``make``, ``python`` or ``warning``.
        text: what it says, after the kind.
    """

    line: int
    kind: str
    text: str


@dataclass(frozen=True)
class PoolUse:
    """One row of the memory usage table; sizes in bytes."""

    name: str
    start: int
    end: int
    used: int
    size: int
    weights: int
    activations: int
    line: int


@dataclass(frozen=True)
class UsedRange:
    """A used address range of a pool, end exclusive."""

    pool: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class EpochRow:
    """One epoch: its id, kind (HW, EC, SW, HYBRID…) and what the report adds."""

    name: str
    kind: str
    detail: str
    line: int


@dataclass(frozen=True)
class IoTensor:
    """A network input or output.

    Attributes:
        direction: ``input`` or ``output``.
        name: tensor name.
        dtype: ``int8``, ``uint8``, ``float32``…
        shape: as printed.
        nbytes: bytes, 0 when not printed.
        scale: quantisation scale, None for floats.
        zero_point: zero point, None for floats.
        line: line number.
    """

    direction: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    scale: float | None
    zero_point: int | None
    line: int


@dataclass(frozen=True)
class Metric:
    """One row of the evaluation table."""

    name: str
    values: dict[str, float]
    line: int


@dataclass(frozen=True)
class ToolLog:
    """What a tool log says; absent parts are empty or None.

    Attributes:
        version: ``4.0.1-20581``, version of ST Edge AI Core.
        compiler: ``1.1.3-262``, version of the Neural-ART compiler.
        runtime: ``1.1.1-14``, version of the runtime that the board reported.
        api: ``1.1.1``, LL_ATON version of the board.
        command: the command line or parameters.
        clocks: ``mcu_freq`` … in MHz, as the board reported.
        epochs: total, software, hybrid and hardware epochs, blobs.
        duration_ms: measured time of one inference.
    """

    version: str = ""
    compiler: str = ""
    runtime: str = ""
    api: str = ""
    command: str = ""
    command_line: int = 0
    messages: tuple[ToolMessage, ...] = ()
    warnings: tuple[ToolMessage, ...] = ()
    pools: tuple[PoolUse, ...] = ()
    ranges: tuple[UsedRange, ...] = ()
    epoch_counts: dict[str, int] = field(default_factory=dict)
    epochs: tuple[EpochRow, ...] = ()
    tensors: tuple[IoTensor, ...] = ()
    metrics: tuple[Metric, ...] = ()
    clocks: dict[str, int] = field(default_factory=dict)
    unallocated: tuple[int, ...] = ()
    not_quantized: int = 0
    duration_ms: float | None = None
    random_data: bool = False
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def recognised(self) -> bool:
        """Whether it is a tool log at all."""
        parts = (self.messages, self.pools, self.epoch_counts, self.metrics, self.unallocated)
        return bool(self.version or self.compiler or any(parts))


_VERSION = re.compile(r"ST Edge AI Core v(\d+\.\d+\.\d+(?:-\w+)?)")
_COMPILER = re.compile(r"Compiler version\s*[:=]?\s*(\d+\.\d+\.\d+-\d+)")
_RUNTIME = re.compile(r"atonn-v(\d+\.\d+\.\d+-\d+)")
_API = re.compile(r"LL_ATON api\)?\s*v(\d+\.\d+\.\d+)", re.IGNORECASE)
_COMMAND = re.compile(r"^(?:Parameters\s*:|>>>|\$|Compiler arguments:)\s*(.+)")
_CODED = re.compile(r"\b(E\d{3})\s*\(\s*(\w+)\s*\)\s*:?\s*(.*)")
_WORDED = re.compile(
    r"\b(TOOL ERROR|INTERNAL ERROR|NETWORK ERROR|LOAD ERROR|USER ERROR|NOT IMPLEMENTED|CLI ERROR|"
    r"IMPORT ERROR|PARAMETER ERROR|COMPILER ERROR)\s*(?:\([^)]*\))?\s*:?\s*(.*)",
)
_PROGRAMMER = re.compile(r"^\s*Error\s*:\s*(.{3,})", re.IGNORECASE)
_MAKE = re.compile(
    r"^(?:make(?:\[\d+\])?|mingw32-make)\s*:.*\b(?:Error|No rule)\b.*|"
    r".*\b(?:undefined reference to|ld returned \d+ exit status|overflowed by \d+ bytes|"
    r"unrecognized command[- ]line option|command not found|fatal error:|#error)\b.*"
)
_PYTHON = re.compile(r"^\s*((?:[A-Z]\w*)(?:Error|Exception|Interrupt))\s*:\s*(.*)")
_WARNING = re.compile(r"^\s*(?:WARNING|Warning|warn)\s*:?\s*(.*)")
_POOL = re.compile(
    r"^\s*(?P<name>\w+)\s+\[(?P<a>0x[0-9A-Fa-f]+)\s*-\s*(?P<b>0x[0-9A-Fa-f]+)\]\s*:\s*"
    r"(?P<used>[\d.]+)\s*(?P<uu>[kMG]?B)\s*/\s*(?P<size>[\d.]+)\s*(?P<su>[kMG]?B).*?"
    r"(?:weights:\s*(?P<w>[\d.]+)\s*(?P<wu>[kMG]?B).*?activations:\s*(?P<act>[\d.]+)\s*"
    r"(?P<au>[kMG]?B))?(?:\s*\([^)]*\))?\s*$"
)
_RANGE_ROW = re.compile(
    r"^\s*(\w+)\s+\[0x[0-9A-Fa-f]+\s*-\s*0x[0-9A-Fa-f]+\]\s*:\s*"
    r"((?:0x[0-9A-Fa-f]+-0x[0-9A-Fa-f]+[\s,]*)+)$"
)
_RANGE = re.compile(r"(0x[0-9A-Fa-f]+)-(0x[0-9A-Fa-f]+)")
_EPOCH_ROW = re.compile(
    r"^\s*\|\s*(epoch_\d+|\w*[Ee]poch\w*_\d+)\s*\|\s*([-\w. /]+?)\s*\|\s*(.*?)\s*\|\s*$"
)
_EPOCH_LINE = re.compile(r"^\s*(epoch \d+)\s+(-SW-|HW|EC|\?\?)\s*(?:\(\s*(.*?)\s*\))?\s*$")
"""Releases before 4.0 print a line an epoch, without bars."""
_COUNTS = (
    ("total", re.compile(r"Total number of epochs\s*:?\s*(\d+)")),
    (
        "sw",
        re.compile(
            r"pure software \(SW\) epochs\s*:?\s*(\d+)|"
            r"of which (\d+) (?:are )?implemented in software"
        ),
    ),
    ("hybrid", re.compile(r"hybrid epochs[^:\d]*?(?:\([^)]*\))?\s*:?\s*(\d+)")),
    ("hw", re.compile(r"pure hardware \(HW[^)]*\) epochs\s*:?\s*(\d+)")),
    ("blobs", re.compile(r"implemented in (\d+) epoch controller blobs")),
)
_IO_REPORT = re.compile(
    r"^\s*(input|output) \d+/\d+\s*:\s*'([^']*)',\s*(\w+)\(([\dx]*)\),\s*([\d.,]+)\s*(\w+)"
    r"(?:,\s*QLinear\(([\d.eE+-]+),(-?\d+),\w+\))?"
)
_IO_BOARD = re.compile(
    r"^\s*([IO])\[\d+/\d+\]\s*'([^']*)'\s*:\s*(\w+)\[([\d,]*)\],\s*(\d+) Bytes"
    r"(?:,\s*QLinear\(([\d.eE+-]+),(-?\d+),\w+\))?"
)
_CLOCK = re.compile(r"(\w+_freq)=(\d+)MHz")
_UNALLOCATED = re.compile(r"total bytes left unallocated\s*=\s*(\d+)")
_METRICS = re.compile(r"\b(acc|rmse|mae|l2r|mean|std|nse|cos|snr)=(-?[\d.]+%?|nan|inf|-inf)")
_METRIC_ROW = re.compile(
    r"^(X-cross #\d+|HOST\s?\S*|c-model #?\d*|X-cross)\s+(\S+)" + r"\s+(-?[\d.eE+-]+)" * 7
)
_DURATION = re.compile(r"duration\s*:\s*([\d.]+) ms by sample")
_UNITS = {
    "B": 1,
    "kB": 1024,
    "KB": 1024,
    "MB": 1024**2,
    "GB": 1024**3,
    "Bytes": 1,
    "KBytes": 1024,
    "MBytes": 1024**2,
}

# a literal that every line of interest holds, lower case
_ANCHORS = (
    "error",
    "warning",
    "not implemented",
    "[0x",
    "epoch",
    "qlinear",
    "edge ai core",
    "compiler version",
    "parameters  ",
    ">>> ",
    "atonn",
    "ll_aton api",
    "unallocated",
    "_freq=",
    "rmse",
    "by sample",
    "x-cross",
    "input 1/",
    "output 1/",
    "output 2/",
    "input 2/",
    "i[1/",
    "o[1/",
    "o[2/",
    "undefined reference",
    "overflowed by",
    "exit status",
    "unrecognized command",
    "not found",
    "oauto did not find",
    "does not fit",
    "random data",
    "left unallocated",
    "fatal",
    "failed",
)


def size_bytes(value: str, unit: str) -> int:
    """Bytes of a printed size such as ``12.016 kB``; 0 for a unit that is not known."""
    try:
        return round(float(value.replace(",", "")) * _UNITS.get(unit, 0))
    except ValueError:
        return 0


def read_tool_log(log: LogText) -> ToolLog:
    """Read a log or report of ST's tools."""
    lines = list(map(log.line, log.lines_with(_ANCHORS)))
    texts = [line.text for line in lines]
    command, command_line = _command(lines)
    clocks: dict[str, int] = {}
    for text in texts:
        if "_freq=" in text:
            clocks |= {key: int(value) for key, value in _CLOCK.findall(text)}
    messages, warnings, unquantized = _messages(lines)
    first = {
        key: line.number
        for key, pattern in (("version", _VERSION), ("compiler", _COMPILER), ("runtime", _RUNTIME))
        for line in reversed(lines)
        if pattern.search(line.text)
    }
    duration = next((float(m.group(1)) for m in map(_DURATION.search, texts) if m), None)
    return ToolLog(
        version=_one(_VERSION, texts),
        compiler=_one(_COMPILER, texts),
        runtime=_one(_RUNTIME, texts),
        api=_one(_API, texts),
        command=command,
        command_line=command_line,
        messages=tuple(messages),
        warnings=tuple(warnings),
        pools=tuple(_pools(lines)),
        ranges=tuple(_ranges(lines)),
        epoch_counts=_counts(texts),
        epochs=tuple(_epochs(lines)),
        tensors=tuple(_tensors(lines)),
        metrics=tuple(_metrics(lines)),
        clocks=clocks,
        unallocated=tuple(int(m.group(1)) for m in map(_UNALLOCATED.search, texts) if m),
        not_quantized=unquantized,
        duration_ms=duration,
        random_data=any("generating random data" in text for text in texts),
        lines=first,
    )


def _one(pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    return next((found.group(1) for text in texts if (found := pattern.search(text))), "")


def _command(lines: list[Line]) -> tuple[str, int]:
    best = ("", 0)
    for line in lines:
        found = _COMMAND.match(line.text.strip())
        if (
            found
            and ("stedgeai" in line.text or "--" in line.text)
            and "EXECUTING" not in line.text
        ):
            if not best[0] or "--st-neural-art" in line.text:
                best = (found.group(1).strip(), line.number)
            if "--st-neural-art" in best[0]:
                break
    return best


def _messages(lines: list[Line]) -> tuple[list[ToolMessage], list[ToolMessage], int]:
    messages: list[ToolMessage] = []
    warnings: list[ToolMessage] = []
    unquantized = 0
    for line in lines:
        text = line.text
        if text.endswith("is not quantized") or "is not quantized" in text[-40:]:
            unquantized += 1
            continue
        found = _message(line)
        if found is not None and len(messages) < MAX_ITEMS:
            messages.append(found)
            continue
        warned = _WARNING.match(text)
        if warned and len(warnings) < MAX_ITEMS:
            warnings.append(ToolMessage(line.number, "warning", warned.group(1).strip()))
    return messages, warnings, unquantized


def _message(line: Line) -> ToolMessage | None:
    text = line.text
    coded = _CODED.search(text)
    if coded:
        return ToolMessage(
            line.number, coded.group(1), f"{coded.group(2)}: {coded.group(3)}".strip()
        )
    worded = _WORDED.search(text)
    if worded:
        return ToolMessage(line.number, worded.group(1).upper(), worded.group(2).strip())
    failed = re.match(r"\s*Run failed:\s*(?:Error:\s*)?(.*)", text)
    if failed:
        return ToolMessage(line.number, "RUN FAILED", failed.group(1).strip())
    if _MAKE.match(text):
        return ToolMessage(line.number, "make", text.strip())
    python = _PYTHON.match(text)
    if python:
        return ToolMessage(line.number, "python", f"{python.group(1)}: {python.group(2)}")
    programmer = _PROGRAMMER.match(text)
    if programmer:
        return ToolMessage(line.number, "programmer", programmer.group(1).strip())
    return None


def _pools(lines: list[Line]) -> Iterator[PoolUse]:
    for line in lines:
        found = _POOL.match(line.text) if "[0x" in line.text else None
        if found:
            yield PoolUse(
                found["name"],
                int(found["a"], 16),
                int(found["b"], 16),
                size_bytes(found["used"], found["uu"]),
                size_bytes(found["size"], found["su"]),
                size_bytes(found["w"] or "0", found["wu"] or "B"),
                size_bytes(found["act"] or "0", found["au"] or "B"),
                line.number,
            )


def _ranges(lines: list[Line]) -> Iterator[UsedRange]:
    for line in lines:
        found = _RANGE_ROW.match(line.text) if "[0x" in line.text else None
        if found:
            for low, high in _RANGE.findall(found.group(2)):
                yield UsedRange(found.group(1), int(low, 16), int(high, 16), line.number)


def _counts(texts: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        if "epoch" not in text:
            continue
        for key, pattern in _COUNTS:
            found = pattern.search(text)
            if found and key not in counts:
                counts[key] = int(next(group for group in found.groups() if group))
    return counts


def _epochs(lines: list[Line]) -> Iterator[EpochRow]:
    for line in lines:
        found = (_EPOCH_ROW if "|" in line.text else _EPOCH_LINE).match(line.text)
        if found:
            kind, detail = found.group(2).strip(" -"), found.group(3) or ""
            yield EpochRow(found.group(1), kind, detail, line.number)


def _tensors(lines: list[Line]) -> Iterator[IoTensor]:
    for line in lines:
        found = _IO_REPORT.match(line.text)
        if found:
            way, name, dtype, shape, size, unit, scale, zero = found.groups()
            nbytes = size_bytes(size, unit)
        else:
            board = _IO_BOARD.match(line.text)
            if not board:
                continue
            letter, name, dtype, shape, size, scale, zero = board.groups()
            way, nbytes = ("input" if letter == "I" else "output"), int(size)
        dims = tuple(int(part) for part in re.split("[x,]", shape) if part)
        yield IoTensor(
            way,
            name,
            dtype,
            dims,
            nbytes,
            float(scale) if scale else None,
            int(zero) if zero else None,
            line.number,
        )


def _metrics(lines: list[Line]) -> Iterator[Metric]:
    names = ("rmse", "mae", "l2r", "mean", "std", "nse", "cos")
    for line in lines:
        row = _METRIC_ROW.match(line.text)
        if row:
            values = dict(zip(names, map(_float, row.groups()[2:]), strict=True))
            yield Metric(row.group(1).strip(), values, line.number)
            continue
        if "rmse=" in line.text:
            pairs = {key: _float(value) for key, value in _METRICS.findall(line.text)}
            if len(pairs) >= 3:
                yield Metric("report", pairs, line.number)


def _float(text: str) -> float:
    try:
        return float(text.rstrip("%"))
    except ValueError:
        return float("nan")

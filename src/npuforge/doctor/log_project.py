"""The logs of a project, each read once by each reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from npuforge.artefacts.fault_registers import FaultDump, read_faults
from npuforge.artefacts.log_text import FEWEST, Line, LogText, read_log
from npuforge.artefacts.npu_driver_log import DriverLog, read_driver_log
from npuforge.artefacts.recognise import LOG_NAME, Kind
from npuforge.artefacts.run_records import RunRecord, records_of_log, records_of_table
from npuforge.artefacts.stall_snapshot import Snapshot, read_snapshots
from npuforge.artefacts.tool_log import PoolUse, ToolLog, read_tool_log
from npuforge.artefacts.uart_log import UartLog, read_uart_log
from npuforge.doctor.findings import Evidence
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR
from npuforge.doctor.stm32n6 import bank_of

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".out", ".err")
_PROSE = (".md", ".rst", ".html", ".htm", ".xml", ".svg", ".adoc", ".tex", ".yml", ".yaml", ".toml",
          ".ini", ".cfg", ".css", ".js", ".ts", ".ipynb", ".license")  # fmt: skip


_NOTES = re.compile(
    r"(?:history|change|release|licen[cs]e|readme|notice|cmake(?:output|error)|todo)"
)
"""Beginnings of file names that quote errors without being logs."""


@dataclass(frozen=True, eq=False)
class LogFile:
    """A log with everything the readers found in it.

    Attributes:
        artefact: the file.
        text: its lines.
        tool: what ST's tools say.
        uart: what a firmware says.
        driver: what an NPU driver says.
        faults: processor faults.
        snapshots: NPU register dumps.
        records: runs with their outcome.
    """

    artefact: Artefact
    text: LogText
    tool: ToolLog
    uart: UartLog
    driver: DriverLog
    faults: tuple[FaultDump, ...]
    snapshots: tuple[Snapshot, ...]
    records: tuple[RunRecord, ...]

    def at(self, line: int | Line, note: str = "") -> Evidence:
        """Evidence for a line of the log."""
        number = line if isinstance(line, int) else line.number
        return self.artefact.at(number, self.text.line(number).text, note=note)

    @property
    def external_activations(self) -> PoolUse | None:
        """The first pool of a report that holds activations in external RAM (XSPI1)."""
        for pool in self.tool.pools:
            bank = bank_of(pool.start)
            if bank is not None and bank.name == "XSPI1" and pool.activations:
                return pool
        return None


def logs_of(project: Project) -> tuple[LogFile, ...]:
    """Every file of a project that is a log, a text report or a table of runs."""
    return project.once("log files", lambda: tuple(_read(project)))


ALL_AT_FULL = 4 << 20
"""Bytes of logs in a project up to which each is read with full effort."""
LINES_OF_ALL = 12_000
"""Lines with a literal that are looked at in all logs of a project with more bytes than that."""
LINES_OF_ONE = 20
"""The same in each of them, however many they are."""


def _candidates(project: Project) -> Iterator[Artefact]:
    for item in project.of(Kind.LOG, Kind.LINUX_LOG, Kind.ST_REPORT, Kind.TEXT, Kind.JSON):
        name = item.path.name.lower()
        prose = name.endswith(_PROSE) or _NOTES.match(name)
        foreign = VENDOR.search(item.name) and not _surely(item)
        table = item.kind is not Kind.JSON or name.endswith(_TABLES)
        if table and not prose and not foreign:
            yield item


def _surely(item: Artefact) -> bool:
    """Whether name and first bytes alone make a file a log."""
    return item.kind in (Kind.LINUX_LOG, Kind.ST_REPORT) or (
        item.kind is Kind.LOG and not item.path.name.lower().endswith(".txt")
    )


def _read(project: Project) -> Iterator[LogFile]:
    items = list(_candidates(project))
    total = sum(item.size for item in items)
    fewest = min(FEWEST, max(LINES_OF_ONE, LINES_OF_ALL // max(len(items), 1)))
    for item in items:
        sure = _surely(item)
        table = item.path.name.lower().endswith(_TABLES)
        try:
            text = read_log(item.path, 1.0 if total <= ALL_AT_FULL else item.size / total, fewest)
        except OSError:
            continue
        if text.binary or not text.text:
            continue
        kernel = item.kind is Kind.LINUX_LOG
        tool = ToolLog() if kernel else read_tool_log(text)
        # a report of the tools speaks of no stages and drivers; a kernel log of no tools and stages
        driver = DriverLog((), ()) if tool.version else read_driver_log(text)
        silent = kernel or bool(tool.version)
        log = LogFile(
            item,
            text,
            tool,
            UartLog((), (), (), (), None) if silent else read_uart_log(text),
            driver,
            read_faults(text),
            read_snapshots(text),
            records_of_table(text) or records_of_log(text, driver),
        )
        sure = sure and (item.path.suffix.lower() == ".log" or kernel or not _program(text))
        if sure or table or _speaks(log):
            yield log


_POINT = re.compile(
    r"^[ \t]*+(?:(?:[-*•▪▸→✅❌]|\d{1,9}[.)])[ \t]++\S|[═─━=#_*-]{8,}+[ \t]*+$)", re.MULTILINE
)


def _document(text: LogText) -> bool:
    """Whether a text is laid out with points and rules, as people write and firmware seldom."""
    points = sum(1 for _ in _POINT.finditer(text.text))
    return points >= 8 and points > 0.08 * len(text.starts)


_CODE_LINE = re.compile(
    r"^[ \t]*+(?://|/\*|\*/|#[ \t]*(?:define|include|if|else|endif|pragma)\b|</?[A-Za-z]|"
    r"import[ \t{]|(?:export|const|let|return|static|void|def|class)\b)|[;{}>]\)*+[ \t]*+$",
    re.MULTILINE,
)


def _program(text: LogText) -> bool:
    """Whether a text is written in a programming or markup language, whatever its name is."""
    head = text.text[:65536]
    lines = sum(1 for line in head.split("\n") if line.strip())
    return sum(1 for _ in _CODE_LINE.finditer(head)) > 0.3 * lines


def _speaks(log: LogFile) -> bool:
    """Whether a plain text file is a log: prose may quote an error, a log has its structure."""
    tool = log.tool
    structured = tool.version or tool.compiler or tool.pools or tool.epoch_counts or tool.metrics
    dumped = any(len(fault.registers) >= 2 for fault in log.faults) or log.snapshots
    timed = sum(event.time is not None for event in log.driver.events) >= 2
    staged = (
        len(log.uart.stages) >= 3
        and len(log.text.starts) < 5000
        and not _document(log.text)
        and not _program(log.text)
    )
    begun = any(
        log.text.line(message.line).text.lstrip().startswith((message.kind, "Run failed"))
        for message in tool.messages[:20]
    )
    name = log.artefact.path.name.lower()
    named = name.endswith((".txt", ".log", *_TABLES)) and LOG_NAME.search(name) is not None
    return bool(structured or dumped or timed or staged or begun or named)

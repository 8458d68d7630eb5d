"""Records of many runs: which run failed, at which operation, with which code.

Taken from a log (driver events, lines of a test loop), from CSV with a header or from JSON lines.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import dataclass

from npuforge.artefacts.log_text import LogText
from npuforge.artefacts.npu_driver_log import DriverLog, Kind, read_driver_log

MAX_RECORDS = 200_000


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
        run: its number, from the record or counted.
        ok: whether it succeeded.
        operation: id of the operation that failed, None when unknown.
        code: the code as written, or "".
        line: line number in the file.
        text: the line, as evidence.
    """

    run: int
    ok: bool
    operation: int | None
    code: str
    line: int
    text: str


@dataclass(frozen=True)
class RunStatistics:
    """What many runs have in common.

    Attributes:
        runs: number of runs known; 0 when only failures are recorded.
        failures: number of failures.
        operations: failing operation ids with their counts, most frequent first.
        codes: codes with their counts, most frequent first.
    """

    runs: int
    failures: int
    operations: tuple[tuple[int, int], ...]
    codes: tuple[tuple[str, int], ...]

    @property
    def same_operation(self) -> float:
        """Share of the most frequent operation among failures that name one; 0 when none does."""
        named = sum(count for _, count in self.operations)
        return self.operations[0][1] / named if named else 0.0

    @property
    def same_code(self) -> float:
        """Share of the most frequent code among failures that give one; 0 when none does."""
        named = sum(count for _, count in self.codes)
        return self.codes[0][1] / named if named else 0.0


_RUN = re.compile(
    r"\b(?:run|iteration|iter|inference|frame|loop|test)\s*[=:#]?\s*#?(\d+)\b",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\d{1,18}")
_RUN_KEYS = ("run", "iteration", "iter", "frame", "index", "n")
_OP_KEYS = ("op", "op_id", "operation", "operation_id", "layer", "node", "epoch")
_CODE_KEYS = ("code", "status", "error", "err", "ret", "rc", "errno")
_OK_KEYS = ("ok", "result", "outcome", "pass", "passed", "success")
_GOOD = {"ok", "pass", "passed", "1", "true", "yes", "success", "done"}
_BAD = {"fail", "failed", "0", "false", "no", "error", "timeout", "hang", "abort"}


def records_of_log(log: LogText, driver: DriverLog | None = None) -> tuple[RunRecord, ...]:
    """Runs that a log reports.

    Lines that speak of one failure (submit failed, job timeout, reset) are one record: a new one
    begins with a new operation failure, or after a run that succeeded.
    """
    driver = read_driver_log(log) if driver is None else driver
    records: list[RunRecord] = []
    open_failure = False
    before: Kind | None = None
    for event in driver.events:
        found = _RUN.search(event.text)
        number = int(found.group(1)) if found else len(records) + 1
        if event.kind is Kind.RUN_OK:
            records.append(RunRecord(number, True, None, "", event.line, event.text))
            open_failure = False
        elif event.kind in (Kind.OPERATION_FAILED, Kind.SESSION_FAILED):
            records.append(
                RunRecord(number, False, event.operation, event.code, event.line, event.text)
            )
            open_failure = True
        elif event.kind in (Kind.RUN_FAILED, Kind.TIMEOUT):
            # a second complaint of one kind is a second failure; of another kind, the same one
            if not open_failure or event.kind is before:
                records.append(
                    RunRecord(number, False, event.operation, event.code, event.line, event.text)
                )
                open_failure = True
            elif records and event.code and not records[-1].code:
                last = records[-1]
                records[-1] = RunRecord(
                    last.run, last.ok, last.operation, event.code, last.line, last.text
                )
        elif event.kind is Kind.RESET:
            open_failure = False
        if event.kind is not Kind.VERSION:
            before = event.kind
        if len(records) >= MAX_RECORDS:
            break
    return tuple(records)


def records_of_table(log: LogText) -> tuple[RunRecord, ...]:
    """Runs of a CSV file with a header, or of JSON lines; empty when it is neither."""
    head = log.text[:4096].lstrip()
    if head.startswith("{"):
        return _json_lines(log)
    first = head.split("\n", 1)[0].lower()
    names = {name.strip().strip('"') for name in re.split("[,;\t]", first)}
    if (
        len(names) < 2
        or not names & {*_OP_KEYS, *_CODE_KEYS}
        or not names & {*_RUN_KEYS, *_OK_KEYS}
    ):
        return ()
    delimiter = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    rows = csv.DictReader(io.StringIO(log.text.lstrip()), delimiter=delimiter)
    records: list[RunRecord] = []
    try:
        for row in rows:
            values = {
                key.strip().lower(): str(value or "").strip()
                for key, value in row.items()
                if isinstance(key, str)
            }
            record = _record(values, len(records) + 1, rows.line_num, ", ".join(values.values()))
            if record is not None:
                records.append(record)
            if len(records) >= MAX_RECORDS:
                break
    except csv.Error:
        pass
    return tuple(records)


def _json_lines(log: LogText) -> tuple[RunRecord, ...]:
    records: list[RunRecord] = []
    for line in log.lines():
        if not line.text.startswith("{"):
            continue
        try:
            value = json.loads(line.text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            values = {str(key).lower(): str(item).strip() for key, item in value.items()}
            record = _record(values, len(records) + 1, line.number, line.text.strip())
            if record is not None:
                records.append(record)
        if len(records) >= MAX_RECORDS:
            break
    return tuple(records)


def _record(values: dict[str, str], count: int, line: int, text: str) -> RunRecord | None:
    said = next((values[key].lower() for key in _OK_KEYS if values.get(key)), "")
    code = next((values[key] for key in _CODE_KEYS if values.get(key)), "")
    if said in _GOOD:
        ok = True
    elif said in _BAD:
        ok = False
    elif code and not said:
        ok = code.lower() in ("0", "0x0", "ok", "none")
    else:
        return None
    run = next((values[key] for key in _RUN_KEYS if _COUNT.fullmatch(values.get(key, ""))), "")
    operation = next((values[key] for key in _OP_KEYS if _COUNT.fullmatch(values.get(key, ""))), "")
    return RunRecord(
        int(run) if run else count,
        ok,
        int(operation) if operation and not ok else None,
        "" if ok else code,
        line,
        text,
    )


def statistics(records: tuple[RunRecord, ...]) -> RunStatistics:
    """Counts over records."""
    failed = [record for record in records if not record.ok]
    operations = Counter(record.operation for record in failed if record.operation is not None)
    codes = Counter(record.code for record in failed if record.code)
    good = len(records) - len(failed)
    return RunStatistics(
        len(records) if good else 0,
        len(failed),
        tuple(sorted(operations.items(), key=lambda item: (-item[1], item[0]))),
        tuple(sorted(codes.items(), key=lambda item: (-item[1], item[0]))),
    )

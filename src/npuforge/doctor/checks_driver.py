"""Checks over NPU driver logs and records of many runs.

What decides: whether the failure is always the same (conversion) or drifts (memory), where the
buffers lie, and the control experiment (the GPU on the same supply). Alignments: 64 bytes for
inputs and outputs, 128 for weights, unless the log names another (field notes, Linux-class NPU).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from npuforge.artefacts.npu_driver_log import DriverEvent, Kind, Region, Role
from npuforge.artefacts.run_records import RunRecord, statistics
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding
from npuforge.doctor.log_project import LogFile, logs_of
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.project import Project

_NAMES = (
    "DMA-misaligned", "DMA-misaligned-said", "DMA-sync-skipped", "DMA-page-fault", "DMA-no-memory",
    "RUN-memory", "RUN-conversion", "RUN-same-code", "RUN-session", "RUN-supply-cleared",
    "RUN-supply", "RUN-timeouts",
)  # fmt: skip
_NPU = re.compile(r"(?<!i)npu|rknn|galcore|ethos|neural|\bvip\b|\bdla\b", re.IGNORECASE)
NEEDED = {Role.WEIGHTS: 128, Role.INPUT: 64, Role.OUTPUT: 64, Role.ACTIVATIONS: 64}


def run(project: Project) -> Iterable[Finding]:
    """Findings over every driver log and table of runs."""
    for log in logs_of(project):
        if not log.driver.recognised and not log.records:
            continue
        if log.tool.version:
            continue
        yield from _regions(log)
        yield from _said(log)
        yield from _runs(log)


def _needed(region: Region) -> int:
    if region.stated in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096) and _demands(region):
        return region.stated
    return NEEDED.get(region.role, 0)


def _demands(region: Region) -> bool:
    """Whether the line demands the alignment rather than reports the one it has."""
    words = region.text.lower()
    return any(word in words for word in ("need", "requir", "must", "expect", "not ", "should"))


def _regions(log: LogFile) -> Iterator[Finding]:
    seen: set[Role] = set()
    for region in log.driver.regions:
        needed = _needed(region)
        if needed and region.alignment < needed and region.role not in seen:
            seen.add(region.role)
            yield LOG_RULES["DMA-misaligned"].at(
                log.artefact.at(region.line, region.text, address=region.address),
                role=region.role.value,
                address=f"{region.address:#x}",
                have=region.alignment,
                need=needed,
            )


def _said(log: LogFile) -> Iterator[Finding]:
    for kind, rule in (
        (Kind.MISALIGNED, "DMA-misaligned-said"),
        (Kind.SYNC_SKIPPED, "DMA-sync-skipped"),
        (Kind.PAGE_FAULT, "DMA-page-fault"),
        (Kind.ALLOCATION_FAILED, "DMA-no-memory"),
        (Kind.SUPPLY, "RUN-supply"),
    ):
        events = log.driver.of(kind)
        if events:
            yield LOG_RULES[rule].at(*_evidence(log, events[:3]), text=events[0].text)


def _evidence(log: LogFile, events: Iterable[DriverEvent | RunRecord]) -> list[Evidence]:
    return [log.artefact.at(event.line, event.text) for event in events]


def _runs(log: LogFile) -> Iterator[Finding]:
    failed = [record for record in log.records if not record.ok]
    stats = statistics(log.records)
    named = [record for record in failed if record.operation is not None]
    sessions = _npu_only(log, log.driver.of(Kind.SESSION_FAILED))
    if len(named) >= 2:
        yield from _operations(log, named, stats.runs)
        if sessions:
            yield from _sessions(log, sessions)
        yield from _control(log)
        return
    if sessions:
        yield from _sessions(log, sessions)
        yield from _control(log)
    elif len(failed) >= 2:
        timeouts = log.driver.of(Kind.TIMEOUT)
        if timeouts and not stats.codes:
            yield LOG_RULES["RUN-timeouts"].at(*_evidence(log, timeouts[:3]), count=len(failed))
        elif stats.codes:
            yield LOG_RULES["RUN-same-code"].at(
                *_evidence(log, failed[:3]),
                failures=len(failed),
                code=", ".join(code for code, _ in stats.codes[:4]),
            )
        yield from _control(log)


def _npu_only(log: LogFile, events: tuple[DriverEvent, ...]) -> tuple[DriverEvent, ...]:
    """Debug servers and editors have sessions too; the log must speak of an NPU."""
    return events if any(_NPU.search(event.text) for event in log.driver.events) else ()


def _operations(log: LogFile, named: list[RunRecord], runs: int) -> Iterator[Finding]:
    stats = statistics(tuple(named))
    distinct = len(stats.operations)
    if distinct == 1:
        code = stats.codes[0][0] if stats.codes else "-"
        # always there in every run is proof; two failures are a hint
        sure = len(named) >= 3 and not runs
        yield LOG_RULES["RUN-conversion"].at(
            *_evidence(log, named[:3]),
            confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
            failures=len(named),
            operation=stats.operations[0][0],
            code=code,
        )
    elif stats.same_operation < 0.8:
        yield LOG_RULES["RUN-memory"].at(
            *_evidence(log, _different(named)),
            confidence=Confidence.HIGH if distinct >= 3 else Confidence.MEDIUM,
            failures=len(named),
            operations=distinct,
        )
    else:
        yield LOG_RULES["RUN-conversion"].at(
            *_evidence(log, named[:3]),
            confidence=Confidence.LOW,
            failures=len(named),
            operation=stats.operations[0][0],
            code="-",
        )


def _different(named: list[RunRecord]) -> list[RunRecord]:
    first: dict[int | None, RunRecord] = {}
    for record in named:
        first.setdefault(record.operation, record)
    return list(first.values())[:4]


def _sessions(log: LogFile, sessions: tuple[DriverEvent, ...]) -> Iterator[Finding]:
    fine = len(log.driver.of(Kind.RUN_OK))
    yield LOG_RULES["RUN-session"].at(*_evidence(log, sessions[:3]), count=len(sessions), fine=fine)


def _control(log: LogFile) -> Iterator[Finding]:
    healthy, ill = log.driver.of(Kind.GPU_OK), log.driver.of(Kind.GPU_FAILED)
    if healthy and not ill:
        yield LOG_RULES["RUN-supply-cleared"].at(*_evidence(log, healthy[:1]))


CHECK = Check("driver logs and runs", tuple(LOG_RULES[name] for name in _NAMES), run)

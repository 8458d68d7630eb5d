"""Checks over UART logs: where the boot stopped, what the inferences say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.uart_log import Inference, Stage, StageMark
from npuforge.doctor.findings import Check, Finding
from npuforge.doctor.log_project import LogFile, logs_of
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.project import Project

_NAMES = (
    "K26-log-float-print", "K26-reboot-loop", "K25-lost-start", "K23-stops-runtime",
    "K23-stops-risaf",
    "K23-stops-risaf12", "K23-stops-npu", "K23-stops-network", "K23-stops-run", "K25-stops-clock",
    "K22-log-frozen", "K22-log-instant", "K22-log-zeros", "K22-log-not-finite",
    "K27-cache-inactive", "K22-probe-same", "K22-probe-random", "K22-probe-not-written",
    "K03-probe-bank",
)  # fmt: skip
_EMPTY = re.compile(
    r"\b(?:score|conf\w*|prob\w*|time|temp\w*|value|scale|loss|mean|[xywh])\s*[=:]\s*"
    r"(?:%?f\b|,|;|\)|ms\b|%|$)",
    re.IGNORECASE,
)
_PROBE = re.compile(r"nf-two-input output(\d+) .*differs=([01]) deterministic=([01])")
_PATTERN = re.compile(r"nf-pattern output\d+ bytes=(\d+) left=(\d+)")
_BANK = re.compile(r"nf-bank (\S+) base=\S+ bad=(\d+)")
_MSCR = re.compile(r"\bMSCR\s*[=:]?\s*(0x[0-9a-f]+)", re.IGNORECASE)
_CCR = re.compile(r"(?<!M)\bCCR\s*[=:]?\s*(0x[0-9a-f]+)", re.IGNORECASE)
_IMPOSSIBLE = re.compile(r"(?<![\w.])-?(?:nan|inf)(?![\w.])|\d(?:\.\d+)?e\+?\d\d\b", re.IGNORECASE)
_HUGE = 1e6
_END = {
    Stage.RUNTIME: "K23-stops-runtime",
    Stage.RIF: "K23-stops-risaf",
    Stage.NPU: "K23-stops-npu",
    Stage.NETWORK: "K23-stops-network",
    Stage.RUN: "K23-stops-run",
    Stage.CLOCK: "K25-stops-clock",
}
_GOOD = re.compile(
    r"\b(?:ok|done|ready|passed|success\w*|complete\w*|initiali[sz]ed)\b",
    re.IGNORECASE,
)


def run(project: Project) -> Iterable[Finding]:
    """Findings over every UART log."""
    for log in logs_of(project):
        if log.artefact.kind in (Kind.LINUX_LOG, Kind.ST_REPORT) or log.tool.version:
            continue
        yield from _probes(log)
        yield from _caches(log)
        yield from _printing(log)
        yield from _boots(log)
        yield from _stop(log)
        yield from _outputs(log)


def _probes(log: LogFile) -> Iterator[Finding]:
    """Results of the generated probes."""
    for line in log.text.with_literal("nf-two-input", 200):
        found = _PROBE.search(line.text)
        if found and found.group(2) == "0":
            yield LOG_RULES["K22-probe-same"].at(log.at(line))
        if found and found.group(3) == "0":
            yield LOG_RULES["K22-probe-random"].at(log.at(line))
    for line in log.text.with_literal("nf-pattern", 200):
        found = _PATTERN.search(line.text)
        # one byte in 256 equals the filling by chance
        if found and int(found.group(2)) > max(4, int(found.group(1)) // 16):
            size, left = found.groups()
            yield LOG_RULES["K22-probe-not-written"].at(log.at(line), bytes=size, left=left)
    for line in log.text.with_literal("nf-bank", 200):
        found = _BANK.search(line.text)
        if found and int(found.group(2)):
            bank, bad = found.groups()
            yield LOG_RULES["K03-probe-bank"].at(log.at(line), bank=bank, bad=bad)


def _caches(log: LogFile) -> Iterator[Finding]:
    """MSCR bit 12 (DCACTIVE) clear while CCR bit 16 (DC) is set: Cortex-M55 TRM."""
    for line in log.text.with_literal("mscr", 200):
        found = _MSCR.search(line.text)
        if not found or int(found.group(1), 16) >> 12 & 1:
            continue
        near = " ".join(one.text for one in log.text.window(line.number, 4, 4))
        ccr = _CCR.search(near)
        if ccr is None or int(ccr.group(1), 16) >> 16 & 1:
            yield LOG_RULES["K27-cache-inactive"].at(log.at(line), value=found.group(1))
            return


def _printing(log: LogFile) -> Iterator[Finding]:
    if not log.uart.inferences and len(log.uart.stages) < 2:
        return
    hits = []
    for literal in ("=", ":"):
        for line in log.text.with_literal(literal, 400):
            if "printf" not in line.text and _EMPTY.search(line.text.rstrip()):
                hits.append(line)
                if len(hits) >= 3:
                    break
    literal_f = next((x for x in log.text.with_literal("%f", 50) if "printf" not in x.text), None)
    last = log.uart.last
    cut = hits and last is not None and hits[-1].number == last.number
    if literal_f is not None or len({line.number for line in hits}) >= 2 or cut:
        place = literal_f or hits[0]
        yield LOG_RULES["K26-log-float-print"].at(log.at(place), text=place.text.strip())


def _boots(log: LogFile) -> Iterator[Finding]:
    boots = log.uart.boots
    if len(boots) >= 3 and len(log.uart.inferences) < len(boots):
        yield LOG_RULES["K26-reboot-loop"].at(
            *(log.at(line) for line in boots[:3]), count=len(boots)
        )
    first = log.uart.stages[0] if log.uart.stages else None
    begun = first is not None and first.stage in (Stage.RUN, Stage.DONE)
    head = log.text.line(1).text if log.text.text else ""
    torn = bool(re.match(r"[a-z]{1,6}[ :=]", head)) and not boots
    if begun and torn and log.uart.inferences:
        yield LOG_RULES["K25-lost-start"].at(log.at(1))


def _stop(log: LogFile) -> Iterator[Finding]:
    """The stage the log ends in, when nothing follows and nothing says that it went well."""
    uart = log.uart
    mark = uart.last_stage
    if mark is None or uart.last is None or log.faults or log.snapshots:
        return
    if uart.last.number - mark.line > 1 or len(uart.stages) < 2:
        return
    if mark.failed or uart.inferences or _finished(mark):
        return
    rule = _END.get(mark.stage)
    if rule is None:
        return
    params: dict[str, Any] = {}
    if mark.stage is Stage.RIF:
        if mark.detail == "12":
            rule = "K23-stops-risaf12"
        else:
            params["number"] = mark.detail or "?"
    yield LOG_RULES[rule].at(log.at(mark.line), **params)


def _finished(mark: StageMark) -> bool:
    return mark.stage is not Stage.RUN and _GOOD.search(mark.text) is not None


def _outputs(log: LogFile) -> Iterator[Finding]:
    runs = [item for item in log.uart.inferences if item.outputs]
    bad = next((r for r in runs if any(not math.isfinite(v) for v in r.outputs)), None)
    huge = next((r for r in runs if any(abs(v) > _HUGE for v in r.outputs)), None)
    place = bad or huge
    if place is not None:
        line = _line_with(log, place)
        if line is not None:
            yield LOG_RULES["K22-log-not-finite"].at(
                log.at(line), text=log.text.line(line).text.strip()
            )
        return
    if len(runs) < 3:
        return
    tail = runs[1:]
    same = all(item.outputs == tail[0].outputs for item in tail)
    if not same:
        return
    times = [item.milliseconds for item in runs if item.milliseconds is not None]
    if not any(tail[0].outputs):
        yield LOG_RULES["K22-log-zeros"].at(log.at(tail[0].line), log.at(tail[-1].line))
    elif len(times) >= 3 and max(times[1:]) < 0.2 * times[0]:
        yield LOG_RULES["K22-log-instant"].at(
            log.at(runs[0].line),
            log.at(tail[0].line),
            ms=f"{max(times[1:]):g}",
            first=f"{times[0]:g}",
        )
    elif len(runs) >= 4 and (len(runs[0].outputs) > 1 or "." in tail[0].text):
        yield LOG_RULES["K22-log-frozen"].at(
            log.at(tail[0].line), log.at(tail[-1].line), count=len(tail)
        )


def _line_with(log: LogFile, item: Inference) -> int | None:
    for line in log.text.window(item.line, 0, 12):
        if _IMPOSSIBLE.search(line.text):
            return line.number
    return None


CHECK = Check("UART logs", tuple(LOG_RULES[name] for name in _NAMES), run)

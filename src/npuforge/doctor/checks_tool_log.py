"""Checks over tool logs and reports: what joins several lines or needs their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from npuforge.doctor.findings import Check, Finding
from npuforge.doctor.log_project import LogFile, logs_of
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.network_facts import many_software
from npuforge.doctor.project import Project
from npuforge.vocab import Severity

_NAMES = (
    "K26-unallocated", "K26-quant-file", "K26-not-implemented", "K26-tool-error",
    "K26-undefined-runtime", "K26-oe-model", "K14-pair", "K25-swd-clock", "K25-under-reset",
    "K29-stale-firmware", "K30-weights-grow", "K19-log-software-epochs",
    "K19-log-external-activations",
    "K19-log-not-quantized", "K19-random-data", "K22-log-bias", "K27-log-clocks",
)  # fmt: skip
_RUNTIME = re.compile(
    r"undefined reference to [`'\"‘“]?((?:LL_|ll_aton|stai_|npu_|NPU|mcu_cache|aiPlatform)\w*)"
)
_LOAD_FAILED = re.compile(
    r"loading memories failed|failed to download|load(?:ing)? failed|error.{0,40}(?:loading|load) "
    r"(?:the )?(?:firmware|memories|elf)|could not load",
    re.IGNORECASE,
)
_CONNECT = re.compile(
    r"(?:unable to|cannot|can't|could not|failed to).{0,20}connect|no (?:stm32 )?target found|"
    r"dev_connect_err|dev_usb_comm_err|target is not responding|no device found|"
    r"unable to get core id",
    re.IGNORECASE,
)
_NETWORK = re.compile(r"https?:|repository|server|proxy|host name|internet", re.IGNORECASE)
_VENDOR = re.compile(
    r"internal (?:compiler|converter) (?:error|assert)|"
    r"(?:neutron|vela|rknn|convert|quantiz|nnc|mdla|delegate).{0,60}internal error",
    re.IGNORECASE,
)
_MODE = re.compile(
    r"(?:connect )?mode\s*[:=]\s*(hot[ _-]?plug|normal|under[ _-]?reset)",
    re.IGNORECASE,
)
_FREQ = re.compile(r"SWD freq\s*:\s*(\d+)\s*KHz", re.IGNORECASE)
_MODEL = re.compile(r"(?:-m|--model)[ =]+\"?([^\"\s]*_OE_\d+_\d+_\d+\.onnx)")
_NOT_THERE = re.compile(r"file does not exist|no such file|cannot find|not found", re.IGNORECASE)
# rules that explain an internal error better than the general one
_SPECIFIC = re.compile(
    r"list index out of range|computation of shapes|shape inference fail|allowzero|opset|"
    r"channel position|get_value|"
    r"unexpected combination|ir_version|unsigned integer|invalid firmware|read timeout|655",
    re.IGNORECASE,
)


def run(project: Project) -> Iterable[Finding]:
    """Findings over every tool log."""
    for log in logs_of(project):
        yield from _failed(log)
        yield from _host(log)
        if log.tool.recognised:
            yield from _versions(log)
            yield from _report(log)


def _failed(log: LogFile) -> Iterator[Finding]:
    tool = log.tool
    syntax = next(log.text.with_literal("memory pool json error"), None)
    unallocated = next(log.text.with_literal("left unallocated"), None)
    no_fit = next(log.text.with_literal("model does not fit in board"), None)
    oauto = next(log.text.with_literal("oauto did not find valid"), None)
    place = unallocated or oauto or no_fit
    if place is not None and syntax is None:
        extra = [log.at(one) for one in (oauto, no_fit) if one is not None and one is not place]
        amount = min(tool.unallocated) if tool.unallocated else "?"
        yield LOG_RULES["K26-unallocated"].at(log.at(place), *extra, bytes=amount)
    for message in tool.messages:
        if message.kind == "NOT IMPLEMENTED" and not _SPECIFIC.search(message.text):
            yield LOG_RULES["K26-not-implemented"].at(log.at(message.line), text=message.text)
            break
    for message in tool.messages:
        known = message.kind in ("TOOL ERROR", "INTERNAL ERROR", "NETWORK ERROR", "LOAD ERROR")
        coded = message.kind.startswith("E") and message.kind not in ("E103", "E700", "E801")
        if (known or coded) and not _SPECIFIC.search(message.text):
            yield LOG_RULES["K26-tool-error"].at(
                log.at(message.line), tool=_tool(log), text=f"{message.kind} {message.text}"
            )
            break
    else:
        kinds = {message.kind for message in tool.messages}
        if not tool.version and not kinds & {"TOOL ERROR", "INTERNAL ERROR"}:
            yield from _other_vendor(log)


def _tool(log: LogFile) -> str:
    return f"ST Edge AI Core {log.tool.version}" if log.tool.version else "stedgeai"


def _other_vendor(log: LogFile) -> Iterator[Finding]:
    for line in log.text.with_literal("internal", 2000):
        if _VENDOR.search(line.text):
            yield LOG_RULES["K26-tool-error"].at(log.at(line), tool="?", text=line.text.strip())
            return


def _host(log: LogFile) -> Iterator[Finding]:
    symbols = []
    first = None
    for line in log.text.with_literal("undefined reference to", 5000):
        found = _RUNTIME.search(line.text)
        if found:
            first = first or line
            symbols.append(found.group(1))
    if first is not None:
        yield LOG_RULES["K26-undefined-runtime"].at(
            log.at(first), count=len(symbols), symbol=symbols[0]
        )
    yield from _path(log)
    yield from _probe(log)


def _path(log: LogFile) -> Iterator[Finding]:
    """A file that was not found because its path is no ASCII text."""
    for literal in ("does not exist", "no such file", "not found"):
        for line in log.text.with_literal(literal, 500):
            near = " ".join(one.text for one in log.text.window(line.number, 3, 1))
            odd = re.search(r"[^\s\"']*[^\x00-\x7f][^\s\"']*", near)
            if odd and _NOT_THERE.search(line.text) and re.search(r"[\\/.]|--", line.text):
                yield LOG_RULES["K26-quant-file"].at(log.at(line), path=odd.group(0))
                return


def _probe(log: LogFile) -> Iterator[Finding]:
    mode = freq = None
    for literal in ("mode", "swd freq"):
        for line in log.text.with_literal(literal, 200):
            mode = _MODE.search(line.text) or mode
            freq = _FREQ.search(line.text) or freq
    for literal in ("connect", "target", "dev_usb", "core id", "device"):
        for line in log.text.with_literal(literal, 500):
            if not _CONNECT.search(line.text) or _NETWORK.search(line.text):
                continue
            if freq is not None and int(freq.group(1)) >= 8000:
                yield LOG_RULES["K25-swd-clock"].at(log.at(line), freq=freq.group(1))
            if mode is None or not mode.group(1).lower().startswith("under"):
                shown = mode.group(1) if mode else "?"
                yield LOG_RULES["K25-under-reset"].at(log.at(line), mode=shown)
            return


def _versions(log: LogFile) -> Iterator[Finding]:
    tool = log.tool
    if tool.compiler and tool.runtime and tool.compiler != tool.runtime:
        lines = [tool.lines[key] for key in ("compiler", "runtime") if key in tool.lines]
        yield LOG_RULES["K14-pair"].at(
            *(log.at(line) for line in lines), compiler=tool.compiler, runtime=tool.runtime
        )
    found = _MODEL.search(tool.command)
    if found and tool.command_line and "EXECUTING" not in tool.command:
        yield LOG_RULES["K26-oe-model"].at(log.at(tool.command_line), path=found.group(1))
    if tool.duration_ms is not None or tool.metrics:
        for literal in ("fail", "could not load"):
            for line in log.text.with_literal(literal, 500):
                if _LOAD_FAILED.search(line.text):
                    yield LOG_RULES["K29-stale-firmware"].at(log.at(line))
                    return


def _report(log: LogFile) -> Iterator[Finding]:
    tool = log.tool
    counts = tool.epoch_counts
    if counts.get("sw", 0) > 0 and counts.get("total"):
        line = next(log.text.with_literal("software"), None)
        if line is not None:
            yield LOG_RULES["K19-log-software-epochs"].at(
                log.at(line),
                severity=None if many_software(counts["sw"], counts["total"]) else Severity.INFO,
                count=counts["sw"],
                total=counts["total"],
            )
    pool = log.external_activations
    if pool is not None:
        yield LOG_RULES["K19-log-external-activations"].at(
            log.at(pool.line), bytes=pool.activations, pool=pool.name
        )
    if tool.not_quantized >= 5:
        line = next(log.text.with_literal("is not quantized"))
        yield LOG_RULES["K19-log-not-quantized"].at(log.at(line), count=tool.not_quantized)
    if tool.random_data and any(
        m.values.get("cos", 1) < 0.98 or m.values.get("acc", 100) < 100 for m in tool.metrics
    ):
        line = next(log.text.with_literal("generating random data"))
        yield LOG_RULES["K19-random-data"].at(log.at(line))
    for metric in tool.metrics:
        values = metric.values
        mean, rmse, cos = (values.get(key, float("nan")) for key in ("mean", "rmse", "cos"))
        if cos > 0.98 and rmse > 0 and abs(mean) > 0.6 * rmse and rmse > 0.01:
            yield LOG_RULES["K22-log-bias"].at(
                log.at(metric.line), cos=f"{cos:.4f}", mean=f"{mean:+.4g}", rmse=f"{rmse:.4g}"
            )
            break
    yield from _weights(log)
    yield from _clocks(log)


_PARAMS = re.compile(r"params\s*#\s*:\s*(\d[\d,]{0,23})\s*items", re.IGNORECASE)
_STORED = re.compile(r"weights\s*\(ro\)\s*:\s*(\d[\d,]{0,23})\s*B\b", re.IGNORECASE)
FLOAT_BYTES = 4.4
"""Stored bytes for each parameter above which even float weights have grown."""


def _weights(log: LogFile) -> Iterator[Finding]:
    found = {}
    for name, literal, pattern in (
        ("params", "params #", _PARAMS),
        ("stored", "weights (ro)", _STORED),
    ):
        for line in log.text.with_literal(literal, 20):
            match = pattern.search(line.text)
            if match and name not in found:
                found[name] = (line, int(match[1].replace(",", "")))
    if len(found) == 2 and found["stored"][1] > FLOAT_BYTES * found["params"][1] > 0:
        yield LOG_RULES["K30-weights-grow"].at(
            log.at(found["stored"][0]),
            log.at(found["params"][0]),
            stored=found["stored"][1],
            params=found["params"][1],
        )


def _clocks(log: LogFile) -> Iterator[Finding]:
    """Below ST's nominal plan: CPU 600, NPU 800, NPU RAM 800 MHz (getting-started projects)."""
    nominal = {"mcu_freq": 600, "npu_freq": 800, "nic_freq": 800}
    low = {k: v for k, v in log.tool.clocks.items() if k in nominal and v < nominal[k]}
    if low:
        line = next(log.text.with_literal(f"{next(iter(low))}="), None)
        if line is not None:
            shown = ", ".join(
                f"{key.removesuffix('_freq')} {value} MHz" for key, value in low.items()
            )
            yield LOG_RULES["K27-log-clocks"].at(log.at(line), clocks=shown)


CHECK = Check("tool logs", tuple(LOG_RULES[name] for name in _NAMES), run)

"""NPU driver and runtime lines of a Linux-class board: dmesg, journal, a runtime's own messages.

No vendor's format is assumed: an event is recognised by what it speaks of (session, operation,
timeout, reset, memory region), in the spellings of RKNPU/RKNN, galcore and Ethos-U logs and of
drivers that print ``key=value``. Addresses are taken with the role that the line gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from npuforge.artefacts.log_text import Classifier, Line, LogText, integer

MAX_EVENTS = 20_000


class Kind(StrEnum):
    """What a driver event is about."""

    SESSION_FAILED = "session_failed"
    OPERATION_FAILED = "operation_failed"
    RUN_FAILED = "run_failed"
    TIMEOUT = "timeout"
    RESET = "reset"
    PAGE_FAULT = "page_fault"
    ALLOCATION_FAILED = "allocation_failed"
    MISALIGNED = "misaligned"
    SYNC_SKIPPED = "sync_skipped"
    VERSION = "version"
    RUN_OK = "run_ok"
    SUPPLY = "supply"
    GPU_OK = "gpu_ok"
    GPU_FAILED = "gpu_failed"


class Role(StrEnum):
    """What a memory region holds."""

    INPUT = "input"
    WEIGHTS = "weights"
    OUTPUT = "output"
    ACTIVATIONS = "activations"
    COMMANDS = "commands"
    OTHER = "other"


@dataclass(frozen=True)
class DriverEvent:
    """One line about the NPU.

    Attributes:
        line: line number.
        kind: what it says.
        time: seconds since boot where stamped.
        operation: id of the operation (layer, node) it names.
        operation_name: the operation's name where given.
        code: the code as it is written ("-1", "0x80000005"), or "".
        text: the line.
    """

    line: int
    kind: Kind
    time: float | None
    operation: int | None
    operation_name: str
    code: str
    text: str


@dataclass(frozen=True)
class Region:
    """A memory region whose bus address a log gives.

    Attributes:
        line: line number.
        role: what it holds.
        address: physical, DMA or I/O virtual address.
        size: bytes, None where not given.
        stated: alignment that the line demands or names, bytes; 0 where it does not.
        text: the line.
    """

    line: int
    role: Role
    address: int
    size: int | None
    stated: int
    text: str

    @property
    def alignment(self) -> int:
        """Largest power of two that divides the address, bytes."""
        return self.address & -self.address if self.address else 1 << 40


@dataclass(frozen=True)
class DriverLog:
    """Everything a log says about an NPU driver."""

    events: tuple[DriverEvent, ...]
    regions: tuple[Region, ...]

    def of(self, *kinds: Kind) -> tuple[DriverEvent, ...]:
        """Events of some kinds in order."""
        return tuple(event for event in self.events if event.kind in kinds)

    @property
    def recognised(self) -> bool:
        """Whether there is anything about a driver at all."""
        return bool(self.events or self.regions)


_ANCHORS = (
    "npu",
    "rknn",
    "galcore",
    "ethos",
    "sess",
    "op id",
    "op_id",
    "opid",
    "operation",
    "phys",
    "dma_addr",
    "dma addr",
    "iova",
    "dma=",
    "dma:",
    "inference",
    "under-voltage",
    "undervoltage",
    "gpu",
    "mali",
    "panfrost",
    "layer",
    "cache sync",
    "fail",
    "timeout",
    "timed out",
    "fault",
    "reset",
    "sync skipped",
    "cma",
    "iommu",
)
_TIME = re.compile(r"^\s*(?:<\d>)?\[\s*(\d+\.\d+)\]|\[(\d{1,2}):(\d\d):(\d\d(?:\.\d+)?)\]")
_NPU = re.compile(
    r"(?<!i)npu|rknn|galcore|\bvip\b|ethos|neural|\bdla\b|\bapu\b|session|\bsess\b|inference|\binfer\b|"
    r"\bop(?:eration)?[ _]?id\b|\bmodel\b",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"\b(?:op(?:eration)?|oper|layer|node)(?:[ _]?(?:id|idx|index|no|"
    r"number))?\s*[=:#]?\s*[#\[(]?(\d{1,6})\b",
    re.IGNORECASE,
)
_OP_NAME = re.compile(r"\bop(?:eration)?[ _]?name\s*[=:]\s*([\w:./\-]+)", re.IGNORECASE)
_CODE = re.compile(
    r"\b(?:status|error[ _]?code|err(?:or|no)?|ret(?:urn(?:ed)?)?(?:[ _]?(?:code|val(?:ue)?))?|rc|"
    r"code|result)\s*(?:[=:]\s*|\s)(?:[A-Z][A-Z0-9_]+)?\(?(-?0x[0-9a-f]+|-?\d+)\b|"
    r"fail(?:ed|ure)?\s*\((-?\d+|-?0x[0-9a-f]+)\)",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"fail(?:ed|ure|s)?\b|\berror\b|\berr\b|abort|reject|invalid|unable|cannot|refused|(?<!de)fault\b|"
    r"\b(?:ret(?:urn(?:ed)?)?|rc|status|errno)\s*[=:]?\s*-[1-9]|"
    r"\bresponse\b.{0,80}\bstatus\s*=\s*[1-9]",
    re.IGNORECASE,
)
_SESSION = re.compile(r"session|\bsess\b|context|\binit\b", re.IGNORECASE)
_STARTS = re.compile(
    r"\b(?:open|creat\w*|start|begin|init\w*|load)\b.{0,20}\b(?:session|sess|context)\b|"
    r"\b(?:session|sess|context)\b.{0,20}\b(?:open|creat\w*|start|begin|init\w*)\b",
    re.IGNORECASE,
)
"""Where an operation is named too, the session must be said to begin."""
_SAID = re.compile(
    r"fail|err|abort|reject|invalid|unable|cannot|refused|(?<!de)fault", re.IGNORECASE
)
_FINE = re.compile(
    r"\b(?:no|0|without) (?:error|errors|failure|failures|fault)\b|"
    r"\b(?:errors?|fail(?:ed|ures?)?|status|ret|result|err)\s*[=:]\s*0x?0*\b(?!x)",
    re.IGNORECASE,
)
_PROBE = re.compile(
    r"leakage|power model|dynamic-coefficient|looking up|deferred probe|supply.*(?:property|from "
    r"device tree)|failed to get regulator",
    re.IGNORECASE,
)
_TIMEOUT = re.compile(r"time(?:d)?[ -]?out|failed to wait job", re.IGNORECASE)
_RESET = re.compile(r"soft reset|\breset(?:ting)? (?:the )?(?:npu|core)|npu reset", re.IGNORECASE)
_RUN_OK = re.compile(
    r"\b(?:inference|run|frame|iteration|infer)\b.{0,40}\b(?:ok|done|success(?:ful)?|passed|"
    r"complete[d]?)\b",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"\b(?:inference|infer|rknn_run|invoke|submit|job|run|execute|frame)\b", re.IGNORECASE
)
_MISALIGNED = re.compile(
    r"(?:not|un|mis)[ -]?(?:\d+[ -]?byte[s]?[ -]?)?align|alignment (?:error|fault|violation)|"
    r"bad align",
    re.IGNORECASE,
)
_SKIPPED = re.compile(
    r"(?:sync|flush|clean|invalidate|cache maint\w*)\b.{0,60}\b(?:skip|ignored|partial|"
    r"first and last|foreign|not (?:from|owned))|skip\w*.{0,40}\b(?:sync|flush|cache)|"
    r"external buffer.{0,40}no sync",
    re.IGNORECASE,
)
_ALLOCATION = re.compile(
    r"(?:alloc\w*|cma|dma_alloc\w*|out of memory|no memory)\b.{0,60}(?:fail|error|-12\b|enomem)|"
    r"(?:fail|error)\w*.{0,40}\b(?:alloc\w*|cma)\b|\bENOMEM\b",
    re.IGNORECASE,
)
_IOMMU = re.compile(
    r"iommu.{0,60}fault|page fault|smmu.{0,40}fault|translation fault", re.IGNORECASE
)
_SUPPLY = re.compile(
    r"under-?voltage|voltage (?:drop|low|too low)|brown-?out|over-?current|"
    r"thermal (?:throttl|shutdown)|power supply.{0,30}(?:fail|fault|low)",
    re.IGNORECASE,
)
_GPU = re.compile(r"\bgpu\b|\bmali\b|panfrost|\bglmark|panthor", re.IGNORECASE)
_GPU_OK = re.compile(
    r"\b(?:ok|stable|passed|healthy|running|no (?:error|fault)s?|score|fps|hours?)\b",
    re.IGNORECASE,
)
_GPU_BAD = re.compile(r"job fault|gpu fault|gpu hang|timed? ?out|reset", re.IGNORECASE)
_VERSION = re.compile(
    r"\b(?:driver|runtime|rknnrt|librknnrt|sdk|compiler|toolkit\w*|firmware|model)\b[^,;]{0,20}?"
    r"\bv(?:ersion)?\b\s*[=:]?\s*v?(\d+\.\d+[\w.\-]*)|Initialized rknpu (\d+\.\d+\.\d+)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"\b(?P<name>[a-z_]*(?:phys|paddr|dma|iova|bus)[a-z_]*(?:[ _-]?addr(?:ess)?)?|addr(?:ess)?|"
    r"base|pa|at)\s*(?:\[\d+\]\s*)?[=:@]?\s*(?P<value>0x[0-9a-f]{5,16})\b",
    re.IGNORECASE,
)
_SIZE = re.compile(
    r"\b(?:size|len(?:gth)?|bytes)\s*[=:]?\s*(0x[0-9a-f]+|\d+)\b|\b(\d+) bytes\b", re.IGNORECASE
)
_STATED = re.compile(
    r"(\d+)[ -]?b(?:yte)?s?[ -]?align|align(?:ment|ed)?(?:\s*(?:to|required|need(?:s|ed)?|of|"
    r"must be))?\s*[=:]?\s*(0x[0-9a-f]+|\d+)",
    re.IGNORECASE,
)
_ROLES = (
    (Role.WEIGHTS, re.compile(r"weight|param|const|\bwt\b|coef", re.IGNORECASE)),
    (Role.INPUT, re.compile(r"\binput|\bin\b|in_buf|\bifm\b|input_|feature[ _]?in", re.IGNORECASE)),
    (Role.OUTPUT, re.compile(r"\boutput|\bout\b|out_buf|\bofm\b|output_", re.IGNORECASE)),
    (Role.COMMANDS, re.compile(r"\bcmd|command|regcmd|task|descriptor", re.IGNORECASE)),
    (
        Role.ACTIVATIONS,
        re.compile(r"internal|activation|scratch|arena|feature|intermediate|tensor", re.IGNORECASE),
    ),
)


_GATES = (
    (_SUPPLY, "voltage|brown|current|thermal|power supply"),
    (_GPU, "gpu|mali|panfrost|glmark|panthor"),
    (_IOMMU, "iommu|page fault|smmu|translation fault"),
    (_PROBE, "leakage|power model|dynamic-|looking up|deferred|supply|regulator"),
    (_SKIPPED, "sync|flush|clean|invalidate|cache|skip"),
    (_MISALIGNED, "align"),
    (_ALLOCATION, "alloc|cma|out of memory|no memory|enomem"),
    (_RESET, "reset"),
    (_TIMEOUT, "timeout|time out|time-out|timed|wait job"),
    (_FAILED, "fail|err|abort|reject|invalid|unable|cannot|refused|fault|ret|rc|status"),
    (_OPERATION, "op|layer|node"),
    (_RUN_OK, "ok|done|success|passed|complete"),
    (_VERSION, "driver|runtime|rknnrt|sdk|compiler|toolkit|firmware|model|rknpu"),
)
"""Patterns with literals of which every match holds one: without them, no line needs a look."""


def read_driver_log(log: LogText) -> DriverLog:
    """Events and regions of a log, in order of lines."""
    events: list[DriverEvent] = []
    regions: list[Region] = []
    live = frozenset(pattern for pattern, words in _GATES if log.holds(*words.split("|")))
    kind_of = Classifier(lambda text: _kind(text, live))
    has_address = Classifier(lambda text: bool(_ADDRESS.search(text)))
    fine = 0
    for line in map(log.line, log.lines_with(_ANCHORS)):
        if "0x" in line.text and len(regions) < MAX_EVENTS and has_address(line.text):
            regions.extend(_regions(line))
        kind = kind_of(line.text)
        if kind is None:
            continue
        if kind is Kind.RUN_OK:
            # a test loop prints these without end; they are counted, not taken apart
            fine += 1
            if fine <= 10 * MAX_EVENTS:
                events.append(DriverEvent(line.number, kind, None, None, "", "", line.text.strip()))
        elif len(events) - fine < MAX_EVENTS:
            events.append(_event(line, kind))
    return DriverLog(tuple(events), tuple(regions))


def _given(found: re.Match[str] | None) -> str:
    """The alternative of a pattern that matched; empty when none did."""
    return next((group for group in found.groups() if group), "") if found else ""


def _time(text: str) -> float | None:
    found = _TIME.search(text[:80])
    if not found:
        return None
    if found.group(1):
        return float(found.group(1))
    return int(found.group(2)) * 3600 + int(found.group(3)) * 60 + float(found.group(4))


def _on(pattern: re.Pattern[str], text: str, live: frozenset[re.Pattern[str]]) -> bool:
    """Whether a line matches a pattern that can match in its log at all."""
    return pattern in live and pattern.search(text) is not None


def _kind(text: str, live: frozenset[re.Pattern[str]]) -> Kind | None:
    if _on(_SUPPLY, text, live):
        return Kind.SUPPLY
    if _on(_GPU, text, live):
        if _GPU_BAD.search(text) or (_FAILED.search(text) and not _FINE.search(text)):
            return Kind.GPU_FAILED
        return Kind.GPU_OK if _GPU_OK.search(text) else None
    if _on(_IOMMU, text, live):
        return Kind.PAGE_FAULT
    known = _NPU.search(text) or _on(_OPERATION, text, live) or _on(_SKIPPED, text, live)
    if not known:
        return None
    return _npu_kind(text, live)


def _npu_kind(text: str, live: frozenset[re.Pattern[str]]) -> Kind | None:
    if _on(_PROBE, text, live):
        return None
    if _on(_SKIPPED, text, live):
        return Kind.SYNC_SKIPPED
    if _on(_MISALIGNED, text, live):
        return Kind.MISALIGNED
    failed = _on(_FAILED, text, live) and not _FINE.search(text)
    if failed and _on(_ALLOCATION, text, live):
        return Kind.ALLOCATION_FAILED
    if _on(_RESET, text, live):
        return Kind.RESET
    operation = _on(_OPERATION, text, live)
    if failed and (_STARTS if operation else _SESSION).search(text):
        return Kind.SESSION_FAILED
    if operation and (failed or _on(_TIMEOUT, text, live)):
        return Kind.OPERATION_FAILED
    if _on(_TIMEOUT, text, live):
        return Kind.TIMEOUT
    if failed and (_RUN.search(text) or (_SAID.search(text) and _CODE.search(text))):
        return Kind.RUN_FAILED
    if _on(_RUN_OK, text, live):
        return Kind.RUN_OK
    return Kind.VERSION if _on(_VERSION, text, live) else None


def _event(line: Line, kind: Kind) -> DriverEvent:
    operation = _OPERATION.search(line.text)
    name = _OP_NAME.search(line.text)
    shown = _given((_VERSION if kind is Kind.VERSION else _CODE).search(line.text))
    return DriverEvent(
        line.number,
        kind,
        _time(line.text),
        int(operation.group(1)) if operation else None,
        name.group(1) if name else "",
        shown,
        line.text.strip(),
    )


def _regions(line: Line) -> Iterator[Region]:
    stated, size = _given(_STATED.search(line.text)), _given(_SIZE.search(line.text))
    for found in _ADDRESS.finditer(line.text):
        address = int(found.group("value"), 16)
        if address >= 1 << 40:
            # a kernel pointer, not what the device sees
            continue
        before = line.text[: found.start()]
        role = _role(before + found.group("name"), line.text)
        if role is Role.OTHER and not (_NPU.search(line.text) and stated):
            continue
        yield Region(
            line.number,
            role,
            address,
            integer(size) if size else None,
            integer(stated) if stated else 0,
            line.text.strip(),
        )


def _role(before: str, whole: str) -> Role:
    """The role named closest in front of the address, else anywhere in the line."""
    best, where = Role.OTHER, -1
    for role, pattern in _ROLES:
        for found in pattern.finditer(before):
            if found.start() > where:
                best, where = role, found.start()
    if best is not Role.OTHER:
        return best
    return next((role for role, pattern in _ROLES if pattern.search(whole)), Role.OTHER)

"""UART and boot logs: the stages that were reached, result codes, inferences with their outputs.

Understood: ST's getting-started applications, the validation firmware, FSBL prints, LL_ATON prints,
people's own ``printf`` lines that name a stage, and npuforge's staged log
(``nf-stage NAME result=N t_us=N [run_us=N] [status=NAME]``; docs/reference/staged_log.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from npuforge.artefacts.log_text import Classifier, Line, LogText, integer

MAX_ITEMS = 5000


class Stage(StrEnum):
    """Stages of bring-up in their natural order."""

    BOOT = "boot"
    FSBL = "fsbl"
    CLOCK = "clock"
    PSRAM = "psram"
    FLASH = "flash"
    NPU_RAM = "npu_ram"
    CACHE = "npu_cache"
    NPU = "npu"
    RIF = "rif"
    RUNTIME = "runtime_init"
    NETWORK = "network_init"
    BUFFERS = "buffers"
    CAMERA = "camera"
    RUN = "run"
    DONE = "done"


@dataclass(frozen=True)
class StageMark:
    """A line that names a stage.

    Attributes:
        line: line number.
        stage: which.
        failed: whether the line says that it failed.
        detail: a number that belongs to it (RISAF number, code), or "".
        text: the line.
    """

    line: int
    stage: Stage
    failed: bool
    detail: str
    text: str


@dataclass(frozen=True)
class Inference:
    """One inference.

    Attributes:
        line: line number.
        milliseconds: its time, None when not printed.
        outputs: the numbers printed for it, in order; empty when none are.
        text: the line.
    """

    line: int
    milliseconds: float | None
    outputs: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class ResultCode:
    """A code with the function it came from, as far as the line tells."""

    line: int
    value: int
    function: str
    text: str


@dataclass(frozen=True)
class UartLog:
    """What a UART log says."""

    stages: tuple[StageMark, ...]
    inferences: tuple[Inference, ...]
    codes: tuple[ResultCode, ...]
    boots: tuple[int, ...]
    last: Line | None

    @property
    def recognised(self) -> bool:
        """Whether it speaks of a firmware's stages at all."""
        return bool(self.stages or self.inferences or self.codes)

    @property
    def last_stage(self) -> StageMark | None:
        """The stage that was named last."""
        return self.stages[-1] if self.stages else None


_STAGES = (
    (
        Stage.BOOT,
        "reset cause|boot|===|stm32n6|application start|hello",
        r"reset cause|boot(?:ing)?\b.*\b(?:start|app|banner|v\d)|={3,}.*(?:start|boot)|"
        r"^\s*-+ ?stm32n6.*-+\s*$|application start|hello",
    ),
    (
        Stage.FSBL,
        "fsbl|first stage boot|jump",
        r"\bfsbl\b|first stage boot|jump(?:ing)? to (?:the )?app",
    ),
    (
        Stage.CLOCK,
        "clock|pll|sysclk|overdrive|cpu freq|npu freq",
        r"\b(?:clock|pll|sysclk|overdrive|cpu freq|npu freq|set[- ]?up clocks?|clocks)\b",
    ),
    (
        Stage.PSRAM,
        "psram|hyperram|hyper ram|xspi1|aps256|external ram",
        r"\bpsram\b|hyper ?ram|\bxspi1\b|aps256|external ram",
    ),
    (
        Stage.FLASH,
        "xspi2|nor|flash|memory-mapped|memory mapped",
        r"\bxspi2\b|\bnor\b|octo ?flash|external flash|\bext ?flash\b|memory[- ]mapped",
    ),
    (
        Stage.NPU_RAM,
        "npuram|npu ram|axisram|sramsd|ramcfg",
        r"\bnpu ?ram|axisram[3-6]|sramsd|\bramcfg\b",
    ),
    (Stage.CACHE, "cacheaxi|npu cache|npu_cache", r"cacheaxi|npu[ _]cache"),
    (Stage.RIF, "risaf|rif|rimc|risc|rissc", r"\brisaf|\brif(?:sc)?\b|\brimc\b|\briss?c\b"),
    (
        Stage.NETWORK,
        "network|stai_|loading",
        r"ll_aton_(?:rt_)?init_network|stai_\w*init\b|network[ _]init|init(?:ialis|"
        r"ializ)?\w* (?:of )?(?:the )?network|npu network|loading (?:the )?model",
    ),
    (
        Stage.RUNTIME,
        "runtime|ll_aton_init",
        r"ll_aton_rt_runtimeinit|ll_aton_init\b|runtime[ _]?init|ll_aton runtime",
    ),
    (
        Stage.DONE,
        "done|inference",
        r"ll_aton_rt_done|inference (?:done|complete|finished|ok)|\bdone\b.*\b(?:ms|us)\b",
    ),
    (
        Stage.RUN,
        "inference|network|npu|runepochblock|ll_aton_rt_main|epoch",
        r"run(?:ning)? (?:the )?(?:inference|network|npu)|start(?:ing)? (?:the )?(?:inference|npu)|"
        r"runepochblock|inference start|ll_aton_rt_main|epoch \d+|first inference",
    ),
    (
        Stage.NPU,
        "npu",
        r"(?:config\w*|init\w*|enabl\w*|set[- ]?up) (?:of )?(?:the )?npu|npu (?:init|"
        r"config|ready|enabled|ok)|\bnpu_?init\b",
    ),
    (Stage.CAMERA, "camera|imx|dcmipp|isp", r"\bcamera\b|\bimx\d+|\bdcmipp\b|\bisp\b"),
)
_COMPILED = tuple(
    (stage, tuple(literals.split("|")), re.compile(pattern, re.IGNORECASE))
    for stage, literals, pattern in _STAGES
)
"""Each stage with literals of which every line of it holds one, and the pattern that decides."""
_FAILED = re.compile(
    r"fail|error|\bko\b|timeout|timed out|invalid|cannot|unable|assert", re.IGNORECASE
)
_ANCHORS = (
    "boot",
    "fsbl",
    "clock",
    "pll",
    "psram",
    "hyperram",
    "hyper ram",
    "xspi",
    "nor",
    "flash",
    "npu",
    "axisram",
    "ramcfg",
    "cacheaxi",
    "risaf",
    "rif",
    "rimc",
    "network",
    "ll_aton",
    "runtime",
    "inference",
    "infer",
    "epoch",
    "camera",
    "stai_",
    "nf-stage",
    "model",
    "output",
    "class",
    "score",
    "logit",
    "prob",
    "conf",
    "pred",
    "label",
    "aton",
    "hello",
    "application",
    "top1",
    "detect",
    "freq",
    "result",
)
_OWN = re.compile(r"nf-stage\s+(\w+)\s+(?:result|code)=(-?\w+)")
_OWN_TIME = re.compile(r"\brun_us=(\d+)")
_RISAF = re.compile(r"risaf\s*#?(\d+)", re.IGNORECASE)
_TIME = re.compile(r"([\d]+(?:\.\d+)?)\s*(ms|us|µs)\b", re.IGNORECASE)
_INFERENCE = re.compile(
    r"\b(?:inference|infer|nn time|npu time|run time|invoke|frame|npu)\b", re.IGNORECASE
)
_OUTPUT = re.compile(
    r"\b(?:outputs?|out|scores?|conf(?:idence)?|prob\w*|logits?|class|label|top-?1|pred\w*|"
    r"result)\b\s*(?:\[\d+\])?\s*[=:\[(]?\s*(.*)$",
    re.IGNORECASE,
)
_REGION = re.compile(r"addr|iova|phys|\bsize\s*[=:]", re.IGNORECASE)
"""Where a buffer lies: its numbers are none of the network's."""
_NUMBER = re.compile(
    r"(?<![\w.])-?(?:\d+\.\d*|\.\d+|\d+)(?:e[+-]?\d+)?(?![\w.]*[a-z%])|-?\bnan\b|-?\binf\b",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\b(?:code|ret(?:urn(?:ed|s)?)?|err(?:or)?|status|result|rc)\b\s*(?:code)?\s*[=:]?\s*"
    r"(-?0x[0-9a-f]+|-?\d+)\b",
    re.IGNORECASE,
)
_FUNCTION = re.compile(
    r"\b((?:stai|ll_aton|aton|hal|bsp)_\w+|install\w*|\w*reloc\w*|\w*init\w*|\w*run\w*)\b",
    re.IGNORECASE,
)
_BOOT = re.compile(
    r"nf-stage boot|reset cause|\bfsbl\b.*(?:start|boot|v\d)|boot(?:ing)?\b.*\bstart|"
    r"application start|^-{2,}.*stm32n6.*-{2,}$|power[- ]on",
    re.IGNORECASE,
)


_PATHS = re.compile(
    r"[\\/][\w.+-]+[\\/][\w.+-]+|\w\.(?:c|h|s|o|obj|ld|cpp|make|cmake)\b", re.IGNORECASE
)
"""Names of files: what a build says of its sources, not what a firmware says of itself."""


def read_uart_log(log: LogText) -> UartLog:
    """Read a UART log."""
    stages: list[StageMark] = []
    inferences: list[Inference] = []
    codes: list[ResultCode] = []
    boots: list[int] = []
    patterns = tuple(
        (stage, pattern) for stage, literals, pattern in _COMPILED if log.holds(*literals)
    )
    classify = Classifier(lambda text: _traits(text, patterns))
    for line in map(log.line, log.lines_with(_ANCHORS)):
        traits = classify(line.text)
        if traits is None:
            continue
        if traits.stage is not None and len(stages) < MAX_ITEMS:
            stages.append(_mark(line, traits.stage))
        if traits.inference and len(inferences) < MAX_ITEMS:
            inference = _inference(line)
            if inference is not None:
                inferences.append(inference)
        code = _CODE.search(line.text) if traits.code and len(codes) < MAX_ITEMS else None
        if code:
            where = _FUNCTION.search(line.text[: code.start()])
            name = where.group(1) if where else ""
            codes.append(ResultCode(line.number, integer(code.group(1)), name, line.text.strip()))
        if traits.boot:
            boots.append(line.number)
    return UartLog(
        tuple(stages), tuple(_joined(inferences)), tuple(codes), tuple(boots), _last_line(log)
    )


@dataclass(frozen=True)
class _Traits:
    """What lines of one template can hold."""

    stage: Stage | None
    inference: bool
    code: bool
    boot: bool


_CODE_WORDS = ("code", "ret", "err", "status", "result", "rc")
_BOOT_WORDS = ("nf-stage boot", "reset cause", "fsbl", "boot", "start", "stm32n6", "power")
"""Literals of which every match of the pattern holds one."""


def _traits(text: str, patterns: tuple[tuple[Stage, re.Pattern[str]], ...]) -> _Traits:
    low = text.lower()
    stage = next((stage for stage, pattern in patterns if pattern.search(text)), None)
    files = ("." in text or "/" in text or "\\" in text) and _PATHS.search(text) is not None
    if files or text.lstrip().startswith("nf-"):
        # what the generated probes print is read elsewhere
        stage = None
    own = _own(text)
    if own:
        stage = next((known for known in Stage if known.value == own.group(1).lower()), None)
        # the last stage of an inference tells its time; no number of these lines is an output
        is_inference = bool(_OWN_TIME.search(text))
    else:
        timed = _TIME.search(text) and _INFERENCE.search(text)
        is_inference = bool(timed or (_OUTPUT.search(text) and not _REGION.search(text)))
    return _Traits(
        stage,
        is_inference,
        any(word in low for word in _CODE_WORDS) and bool(_CODE.search(text)),
        not files and any(word in low for word in _BOOT_WORDS) and bool(_BOOT.search(text)),
    )


def _own(text: str) -> re.Match[str] | None:
    """What the generated firmware says of a stage."""
    return _OWN.search(text) if "nf-stage" in text else None


def _last_line(log: LogText) -> Line | None:
    for number in range(len(log.starts), max(0, len(log.starts) - 200), -1):
        line = log.line(number)
        if line.text.strip():
            return line
    return None


def _mark(line: Line, stage: Stage) -> StageMark:
    own = _own(line.text)
    if own:
        result = own.group(2)
        return StageMark(line.number, stage, result not in ("0", "0x0"), result, line.text.strip())
    number = _RISAF.search(line.text)
    return StageMark(
        line.number,
        stage,
        bool(_FAILED.search(line.text)),
        number.group(1) if number else "",
        line.text.strip(),
    )


def _inference(line: Line) -> Inference | None:
    own = _OWN_TIME.search(line.text) if _own(line.text) else None
    if own:
        return Inference(line.number, int(own.group(1)) / 1000, (), line.text.strip())
    found = _TIME.search(line.text)
    timed = found and _INFERENCE.search(line.text)
    milliseconds = None
    if found and timed:
        milliseconds = float(found.group(1)) / (1 if found.group(2).lower() == "ms" else 1000)
    output = _OUTPUT.search(line.text)
    numbers: tuple[float, ...] = ()
    if output:
        rest = _TIME.sub("", output.group(1)) if found else output.group(1)
        numbers = tuple(float(word) for word in _NUMBER.findall(rest)[:64])
    if not timed and not numbers:
        return None
    return Inference(line.number, milliseconds, numbers, line.text.strip())


def _joined(found: Iterable[Inference]) -> list[Inference]:
    """A line with the time and the lines with outputs after it are one inference."""
    joined: list[Inference] = []
    for item in found:
        last = joined[-1] if joined else None
        near = last is not None and item.milliseconds is None and item.line - last.line <= 12
        if near and last is not None and (last.milliseconds is not None or not last.outputs):
            joined[-1] = Inference(
                last.line, last.milliseconds, last.outputs + item.outputs, last.text
            )
            continue
        joined.append(item)
    return joined

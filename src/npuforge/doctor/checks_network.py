"""K19, K21 and K30 from the generated network: what runs on the CPU, and over which links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.findings import Check, Confidence, Finding, Rule
from npuforge.doctor.network_facts import NetworkFacts, many_software, networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.stm32n6 import bank_of
from npuforge.vocab import Severity

SOFTWARE = Rule("K19-software-epochs", Severity.WARNING, cases=("F01", "F04", "F05"), rank=30)
SOFTWARE_CONV = Rule("K19-software-convolution", Severity.WARNING, cases=("F02",), rank=25)
EXTERNAL = Rule("K19-external-activations", Severity.WARNING, cases=("F06", "F07"), rank=28)
OPTION = Rule("K19-ignored-option", Severity.WARNING, cases=("E21",), rank=20)
LINK = Rule("K21-activation-link", Severity.WARNING, Confidence.MEDIUM, cases=("A02",), rank=15)
FLOAT_PEAK = Rule("K30-float-peak", Severity.WARNING, Confidence.MEDIUM, cases=("D07",), rank=30)
RESERVED = Rule("K30-reserved-bytes", Severity.INFO, cases=("J08",), rank=60)

_CONV = re.compile(r"ll_sw_forward_(?:\w*conv\w*|dense|gemm)\w*|LL_ATON_LIB_\w*Conv\w*")
_S = r"[ \t]{0,8}"
_LINK = re.compile(
    rf"ATONN_DSTPORT\({_S}STRSWITCH{_S},{_S}\d{{1,4}}{_S},{_S}CONVACC{_S},"
    rf"{_S}(\d{{1,4}}){_S},{_S}0{_S}\)[^}}\n]{{0,200}}?"
    rf"ATONN_SRCPORT\({_S}STRSWITCH{_S},{_S}\d{{1,4}}{_S},{_S}ACTIV{_S},{_S}(\d{{1,4}})\b"
)
"""Every part bounded: a generated line may be as long as its writer likes."""
_BUFFER = re.compile(
    r"\.offset_start = (\d{1,18}),\s*\.offset_end = (\d{1,18}),.{0,200}?\.is_param = 0,.{0,700}?"
    r"\.type = DataType_(\w+)",
    re.DOTALL,
)
_LAST = re.compile(r"\.last_epoch_num = (\d{1,6})\b")
FLOAT_TIMES = 2
"""How many times the largest quantised buffer a float one must be to set the peak by itself."""
RESERVED_BYTES = 8
"""Bytes that the compiler keeps at the end of a pool."""


def _run(project: Project) -> Iterator[Finding]:
    for facts in networks_of(project):
        yield from _software(project, facts)
        yield from _pools(facts)
        yield from _links(project, facts)
        yield from _floats(project, facts)
    yield from _options(project)


def _software(project: Project, facts: NetworkFacts) -> Iterator[Finding]:
    count = sum("pure_sw" in flag for flag in facts.flags)
    text = project.text(facts.artefact)
    # a blob holds many epochs of the NPU: blocks and epochs are not the same
    numbers = [int(number) for number in _LAST.findall(text)]
    total = max([facts.epochs, *numbers])
    known = bool(numbers) or not any("blob" in flag for flag in facts.flags)
    if count and facts.epochs:
        line = line_of(text, max(text.find("EpochBlock_Flags_pure_sw"), 0))
        yield SOFTWARE.at(
            facts.artefact.at(line, "EpochBlock_Flags_pure_sw"),
            severity=None if known and many_software(count, total) else Severity.INFO,
            count=count,
            total=total,
        )
    found = _CONV.search(text)
    if found:
        yield SOFTWARE_CONV.at(facts.artefact.at(line_of(text, found.start()), found[0]))


def _pools(facts: NetworkFacts) -> Iterator[Finding]:
    for pool in facts.pools:
        bank = bank_of(pool.base)
        if not pool.used or pool.virtual or bank is None:
            continue
        if bank.name == "XSPI1" and not pool.read_only:
            yield EXTERNAL.at(
                facts.artefact.at(pool.line, pool.name, pool.base), pool=pool.name, bytes=pool.used
            )
        short = (pool.size + RESERVED_BYTES) % 1024 == 0
        if short and not bank.external and pool.used >= pool.size:
            yield RESERVED.at(
                facts.artefact.at(pool.line, f"{pool.name} size={pool.size}", pool.base),
                pool=pool.name,
                size=pool.size,
                whole=pool.size + RESERVED_BYTES,
            )


def _links(project: Project, facts: NetworkFacts) -> Iterator[Finding]:
    text = project.text(facts.artefact)
    found = _LINK.search(text)
    if found:
        yield LINK.at(
            facts.artefact.at(line_of(text, found.start()), found[0]),
            unit=found[2],
            target=found[1],
        )


def _floats(project: Project, facts: NetworkFacts) -> Iterator[Finding]:
    """A float buffer far larger than every quantised one sets the peak."""
    text = project.text(facts.artefact)
    largest: dict[bool, tuple[int, int]] = {}
    for match in _BUFFER.finditer(text):
        size = int(match[2]) - int(match[1])
        real = match[3] in ("FLOAT", "FP32", "FLOAT32")
        if size > largest.get(real, (0, 0))[0]:
            largest[real] = (size, match.start())
    if True in largest and False in largest:
        (size, at), (other, _) = largest[True], largest[False]
        if size >= FLOAT_TIMES * other and size > 64 << 10:
            yield FLOAT_PEAK.at(
                facts.artefact.at(line_of(text, at), "DataType_FLOAT"), size=size, other=other
            )


_IGNORED = re.compile(r"\"(memory_desc)\"\s*:")


def _options(project: Project) -> Iterator[Finding]:
    for item in project.of(Kind.PROFILE):
        text = project.text(item)
        found = _IGNORED.search(text)
        if found:
            yield OPTION.at(item.at(line_of(text, found.start()), found[0]), name=found[1])


CHECKS = (
    Check(
        "generated network",
        (SOFTWARE, SOFTWARE_CONV, EXTERNAL, OPTION, LINK, FLOAT_PEAK, RESERVED),
        _run,
    ),
)

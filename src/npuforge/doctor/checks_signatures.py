"""Signatures of known messages in tool and UART logs (K26 of the check catalogue, K14, K25, K29).

A signature is a literal that every such line holds, and a pattern that decides. Facts: public logs
of ST Edge AI Core 2.2 to 4.0.1, STM32CubeProgrammer, STM32CubeIDE and GCC, public problem reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from npuforge.artefacts.log_text import Line
from npuforge.doctor.findings import Check, Finding, Rule
from npuforge.doctor.log_project import LogFile, logs_of
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.project import Project

Params = Callable[[re.Match[str], Line], dict[str, Any]]


def _nothing(found: re.Match[str], line: Line) -> dict[str, Any]:
    return {}


def _text(found: re.Match[str], line: Line) -> dict[str, Any]:
    return {"text": line.text.strip()}


def _group(name: str) -> Params:
    return lambda found, line: {name: found.group(1)}


@dataclass(frozen=True)
class Signature:
    """One known message.

    Attributes:
        rule: id of its rule.
        literals: lower case; a line with the message holds one of them.
        pattern: decides on such a line.
        params: values for the rule's words.
        unless: a pattern that clears the line.
    """

    rule: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    params: Params = field(default=_nothing)
    unless: re.Pattern[str] | None = None


def _s(
    rule: str, literals: str, pattern: str, params: Params = _nothing, unless: str = ""
) -> Signature:
    return Signature(
        rule,
        tuple(literals.split("|")),
        re.compile(pattern, re.IGNORECASE),
        params,
        re.compile(unless, re.IGNORECASE) if unless else None,
    )


SIGNATURES = (
    _s("K26-mpool-syntax", "memory pool json error", r"memory pool json error", _text),
    _s("K26-cpu-ram", "e700", r"\bE700\b", _text),
    _s("K26-unsigned", "unsigned integer", r"unsigned integer format is not supported"),
    _s("K26-quant-ignored", "quant", r"quant\w*[ _-]?(?:json|info\w*|file|table|parameters)?.{0,80}"
       r"\b(?:is |are |will be )?(?:ignored|discarded|dropped|skipped)\b", _text,
       r"not ignored|0 ignored"),
    _s("K26-dynamic-batch", "get_value", r"'NoneType' object has no attribute 'get_value'"),
    _s("K26-rank", "unexpected combination", r"unexpected combination of configuration and input "
       r"shape"),
    _s("K26-ir-version", "ir_version", r"ir_version (\d+) is higher", _group("version")),
    _s("K26-gemm-bias", "list index out of range", r"TOOL ERROR.{0,40}list index out of range"),
    _s("K26-shapes", "computation of shapes|shape inference fail",
       r"error in computation of shapes|shape inference fail"),
    _s("K26-allowzero", "allowzero", r"allowzero.{0,60}(?:not supported|unsupported|not handled)"),
    _s("K26-opset", "opset", r"opset.{0,60}(?:not supported|unsupported|greater than|higher than|"
       r"too (?:new|recent|high))|unsupported.{0,30}opset", _text),
    _s("K26-dimension", "655", r"(?:dim\w*|shape|size).{0,80}\b655(?:35|36)\b.{0,40}|"
       r"\b655(?:35|36)\b.{0,60}(?:dim|limit|exceed)", _text, r"address|0x"),
    _s("K26-channel-position", "channel position", r"mismatch in channel position"),
    _s("K26-compiler-crash", "signo 11|segmentation fault|access violation",
       r"(?:signo 11|segmentation fault|access violation)", _text),
    _s("K26-memory-desc", "memory_desc", r"memory_desc.{0,80}(?:ignored|deprecated|unknown|unused)|"
       r"(?:ignor\w*|unknown|unused).{0,60}memory_desc"),
    _s("K26-version-query", "version", r"(?:could not|unable to|cannot|failed to) "
       r"(?:parse|determine|get|read|extract).{0,40}version|invalid version string", _text),
    _s("K26-cacheaxi-type", "cacheaxi", r"(?:unknown type name|undeclared|does not name a type|"
       r"has not been declared).{0,40}CACHEAXI|CACHEAXI\w*.{0,40}(?:undeclared|unknown|"
       r"was not declared)"),
    _s("K26-gcc-option", "-fcyclomatic-complexity", r"(?:unrecognized|unknown).{0,40}"
       r"-fcyclomatic-complexity"),
    _s("K26-gcc-path", "127|command not found|"
                       "gcc_path", r"\berror 127\b|gcc: (?:command )?not found|"
       r"GCC_PATH.{0,60}(?:not|invalid|127)"),
    _s("K26-loader-symbol", "aivalidationinit|no symbol|not "
                            "defined", r"(?:no symbol|function|symbol)"
       r".{0,40}[\"'“`](\w*aiValidation\w*|\w*_Process)[\"'”`]?.{0,40}|"
       r"aiValidationInit.{0,60}not (?:defined|found)", _text),
    _s("K26-internal-overflow", "internal memories|loading "
                                "memories", r"loading (?:internal )?memories"
       r".{0,60}(?:overflow|fail|error|exceed)", _text),
    _s("K14-guard-error", "mismatch in ll_aton", r"possible mismatch in ll_aton library"),
    _s("K14-pool-signature", "signature", r"(?:memory[- ]?pools?|pool).{0,40}signature.{0,60}"
       r"(?:mismatch|differ|not match|invalid|wrong)|signature.{0,30}mismatch.{0,40}pool"),
    _s("K25-boot-pins", "unknown error 32|error 32", r"(?:target )?unknown error,? (?:code )"
                                                     r"?\(?32\b"),
    _s("K25-ap-access", "dev_ap_access_error|ap access", r"DEV_AP_ACCESS_ERROR"),
    _s("K25-external-loader", "flash loader|failed to download", r"flash loader cannot be loaded|"
       r"failed to download\s+sector", _text),
    _s("K29-no-validation-firmware", "invalid firmware", r"E801\(HwIOError\)"
                                                         r".{0,10}invalid firmware"),
    _s("K29-port-busy", "could not open port|no serial com port", r"could not open port|"
       r"no serial com port detected", _text),
    _s("K26-context", "30000", r"(?:init|stai\w*)\b.{0,80}\b0x0*30000\b"),
    _s("K26-network-init", "init", r"(?:npu )?network.{0,20}init\w*.{0,30}(?:fail|error)|"
       r"fail\w*.{0,30}init\w*.{0,20}network|stai_\w*init\w*.{0,60}0x0*60000\b", _text,
       r"0x0*30000\b|error (?:handler|callback)|no error|\b0 errors?\b|error[s]?\s*[:=]\s*0\b"),
    _s("K26-reloc", "reloc|install", r"(?:reloc|install)\w*.{0,80}\b(?:ret\w*|err\w*|status|code|"
       r"answer\w*|fail\w*)\b\D{0,20}(-[1-8])\b", _group("code")),
    _s("K26-schema", "schema", r"schema version.{0,40}(?:-1|4294967295|0xffffffff|not supported|"
       r"not equal)|unsupported model schema|(?:model|schema) (?:provided )?is schema version "),
    _s("K26-invoke", "invoke|allocatetensors", r"(?:invoke|allocatetensors)\b.{0,20}"
       r"(?:failed|error|returned error)", _text),
    _s("K26-zero-is-no-error", "0", r"(?:runtime|ll_aton|epoch|run\w*|npu).{0,40}"
       r"(?:error|failed|err)\w*[ ,:-]*(?:(?:with|code|ret\w*|value|status|rc)\b ?){0,3}"
       r"[=:(]?\s*\b0\)?\s*$|"
       r"(?:returned|ret|rc)\s*[=:]?\s*0\s*(?:=|->|:|,|\()?\s*(?:error|fail)", _nothing,
       r"errors?\s*[=:]\s*0\s*$|\b0 errors?\b|no error|success|\bok\b|fail(?:ed|ures?)\s*[=:]\s*0"),
    _s("K26-alignment-code", "40070|wrong_align", r"0x0*(40070)\b|(WRONG_ALIGN\w*)",
       lambda found, line: {"code": found.group(0)}),
    _s("K26-wrong-index", "wrong_index|wrong index", r"WRONG[_ ]INDEX"),
    _s("K26-still-running", "still running|50000", r"network.{0,20}still running|"
       r"stai\w*.{0,60}0x0*50000\b"),
    _s("K26-xspi-timeout", "xspi|ospi|nor", r"(?:xspi|ospi|\bnor\b|octo ?flash|"
                                            r"external flash).{0,80}"
       r"(?:time(?:d)?[ -]?out|busy never|stuck busy|hal_timeout)|"
       r"(?:time(?:d)?[ -]?out|stuck).{0,60}(?:xspi|ospi|\bnor\b)", _text),
    _s("K23-target-timeout", "read timeout", r"LOAD ERROR.{0,40}read timeout", _text),
    _s("K26-assert", "assert", r"assert(?:ion)?\b.{0,80}(?:ll_aton|aton\b|\bnpu\b|failed\b)|"
       r"(?:ll_aton\w*|aton)\S*.{0,60}assert", _text, r"\bgcc\b|\s-[DIWf]\w"),
    _s("K22-data-mismatch", "data mismatch", r"\bdata mismatch\b", _text),
    _s("K14-delegate", "neutron|delegate|vela|ethos", r"(?:neutron|delegate|vela|ethos).{0,80}"
       r"(?:not (?:backward )?compatible|version mismatch|incompatible|"
       r"unsupported (?:microcode |model )?version)", _text),
    _s("K22-constant-input", "min", r"(?:\bI\[\d|\binput\b|\bI\.\d|\bframe\b|\bimage\b).{0,80}"
       r"min\s*/\s*max\s*=\s*\[\s*(-?\d+(?:\.\d+)?)\s*,\s*\1\s*\]|"
       r"\b(?:input|frame|image)\b.{0,40}min\s*[=:]\s*(-?\d+)\b.{0,12}max\s*[=:]\s*\2\b", _text),
    _s("K27-flash-slow", "xspi|flash|nor", r"(?:xspi|\bnor\b|flash).{0,60}\b(?:single(?:[- ]line)?|"
       r"1[- ]line|1-1-1|1S-1S-1S|spi mode)\b", _text, r"not single|octal|8[- ]line"),
    _s("K22-memory-test", "test", r"\b(?:psram|hyper ?ram|ram|memory)\b.{0,30}\btest\b.{0,60}"
       r"(?:fail|error|mismatch|\bbad\b)", _text,
       r"\b0 (?:errors|bad|mismatch)|no error|passed|bad=0"),
    _s("K01-studio-moved", "memory area", r"(?:adjusting|raising) memory area (\w+).{0,60}?"
       r"(?:pool|memory) (\w+)", lambda found, line: {"area": found.group(1),
                                                      "pool": found.group(2)},
       r"perfect match"),
)  # fmt: skip


_CODE = re.compile(r"[;{}]\s*(?://.*|/\*.*)?$")
"""The end of a line of source code, which build logs and listings quote."""


def matches(log: LogFile, signature: Signature) -> Iterator[tuple[Line, re.Match[str]]]:
    """Lines of a log with a known message; at most one of every 200 candidates' worth."""
    for literal in signature.literals:
        for line in log.text.with_literal(literal, 5000):
            found = signature.pattern.search(line.text)
            if found is None or _CODE.search(line.text):
                continue
            if not (signature.unless and signature.unless.search(line.text)):
                yield line, found


def run(project: Project) -> Iterable[Finding]:
    """Findings for every known message, one a file and rule, with up to three lines as evidence."""
    for log in logs_of(project):
        seen: set[str] = set()
        for signature in SIGNATURES:
            if signature.rule in seen:
                continue
            hits = []
            for line, found in matches(log, signature):
                hits.append((line, found))
                if len(hits) >= 3:
                    break
            if not hits:
                continue
            seen.add(signature.rule)
            line, found = hits[0]
            if signature.rule == "K26-still-running" and len(hits) > 1:
                continue
            rule: Rule = LOG_RULES[signature.rule]
            evidence = [log.at(one) for one, _ in hits]
            yield rule.at(*evidence, **signature.params(found, line))


CHECK = Check(
    "log signatures",
    tuple(LOG_RULES[name] for name in dict.fromkeys(s.rule for s in SIGNATURES)),
    run,
)

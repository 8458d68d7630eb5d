"""Findings in SARIF 2.1.0 (OASIS standard), the format code review tools take.

Only what the standard requires and what review tools show is written; paths are relative URIs, so
that a tool can join them with its checkout.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from npuforge import __version__
from npuforge.doctor import Diagnosis, Evidence, Finding, Rule
from npuforge.messages import text
from npuforge.vocab import Severity

VERSION = "2.1.0"
SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_RANKS = {"high": 90.0, "medium": 50.0, "low": 20.0}


def sarif_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """One SARIF log with one run."""
    rules = list({item.rule.id: item.rule for item in diagnosis.findings}.values())
    index = {rule.id: number for number, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "npuforge doctor",
                        "version": __version__,
                        "rules": [_rule(rule, diagnosis) for rule in rules],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "results": [_result(item, index[item.rule.id]) for item in diagnosis.findings],
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {
                                "level": "warning",
                                "message": {"text": f"{item.file}: {item.reason}"},
                            }
                            for item in diagnosis.unread
                        ],
                    }
                ],
            }
        ],
    }


def _rule(rule: Rule, diagnosis: Diagnosis) -> dict[str, Any]:
    words = next(item.words for item in diagnosis.findings if item.rule.id == rule.id)
    name = "".join(part.capitalize() for part in re.split(r"\W+", rule.id))
    return {
        "id": rule.id,
        "name": name,
        "shortDescription": {"text": words.cause},
        "help": {"text": f"{words.hint}\n{words.confirm}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.family, *rule.cases]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    words = finding.words
    first, *others = finding.evidence
    assumed = "".join(f" ({text('DOC-assumed', what=item.words)})" for item in finding.assumed)
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "rank": _RANKS[finding.confidence.value],
        "message": {"text": f"{words.message}. {words.cause} {words.hint}{assumed}"},
        "locations": [_location(first)],
        "partialFingerprints": {"npuforge/v1": _fingerprint(finding)},
    }
    if others:
        result["relatedLocations"] = [
            _location(item) | {"id": number, "message": {"text": item.note or item.token or "-"}}
            for number, item in enumerate(others, 1)
        ]
    return result


def _fingerprint(finding: Finding) -> str:
    """Stays the same when lines move: id, file and quoted text."""
    first = finding.evidence[0]
    return "|".join((finding.id, first.file, first.token))


def _location(evidence: Evidence) -> dict[str, Any]:
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": quote(evidence.file.replace("\\", "/"), safe="/")}
    }
    if evidence.line is not None:
        physical["region"] = {"startLine": max(1, evidence.line)}
        if evidence.token:
            physical["region"]["snippet"] = {"text": evidence.token}
    elif evidence.address is not None:
        physical["address"] = {"absoluteAddress": evidence.address}
    return {"physicalLocation": physical}

"""The document of a diagnosis: what `npuforge doctor --json` prints."""

from __future__ import annotations

from typing import Any

from npuforge.doctor import Diagnosis, Evidence, Finding


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Findings, recognised kinds and unread files as JSON data, schema npuforge.diagnosis/1."""
    return {
        "schema": "npuforge.diagnosis/1",
        "failed": diagnosis.failed,
        "files": dict(diagnosis.kinds),
        "findings": [_finding(item) for item in diagnosis.findings],
        "unread": [
            {"file": item.file, "code": item.code, "reason": item.reason}
            for item in diagnosis.unread
        ],
        "skipped": diagnosis.skipped,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    words = finding.words
    return {
        "id": finding.id,
        "family": finding.rule.family,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": words.message,
        "cause": words.cause,
        "remedy": words.hint,
        "confirm": words.confirm,
        "evidence": [_evidence(item) for item in finding.evidence],
        "premises": [
            {
                "premise": item.name,
                "says": item.words,
                "seen": None if item.seen is None else _evidence(item.seen),
            }
            for item in finding.premises
        ],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    document: dict[str, Any] = {"file": item.file}
    if item.line is not None:
        document["line"] = item.line
    if item.address is not None:
        document["address"] = f"{item.address:#010x}"
    if item.token:
        document["token"] = item.token
    if item.note:
        document["note"] = item.note
    return document

"""Lint findings as documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from npuforge.lint import LintFinding
from npuforge.vocab import Severity


def lint_section(found: Sequence[LintFinding]) -> dict[str, Any]:
    """Findings with their numbers by severity."""
    return {
        "counts": {
            str(severity): sum(1 + f.places for f in found if f.severity is severity)
            for severity in Severity
        },
        "findings": [asdict(finding) for finding in found],
    }


def lint_document(model: str, found: Sequence[LintFinding]) -> dict[str, Any]:
    """The lint of one model as a JSON document."""
    return {"schema": "npuforge.lint/1", "model": model, **lint_section(found)}

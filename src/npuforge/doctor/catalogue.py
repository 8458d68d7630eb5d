"""All checks and rules, and the run over a project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npuforge.doctor import (
    checks_cache,
    checks_cache_code,
    checks_image,
    checks_ioc,
    checks_memory,
    checks_model,
    checks_network,
    checks_power,
    checks_runtime,
    checks_source,
    checks_values,
)
from npuforge.doctor.findings import Check, Diagnosis, Finding, Rule, order
from npuforge.doctor.log_checks import LOG_CHECKS
from npuforge.doctor.premises import judged
from npuforge.doctor.project import Project
from npuforge.vocab import Severity

CHECKS: tuple[Check, ...] = (
    *checks_memory.CHECKS,
    *checks_image.CHECKS,
    *checks_runtime.CHECKS,
    *checks_power.CHECKS,
    *checks_cache.CHECKS,
    *checks_cache_code.CHECKS,
    *checks_values.CHECKS,
    *checks_source.CHECKS,
    *checks_model.CHECKS,
    *checks_network.CHECKS,
    *checks_ioc.CHECKS,
    *LOG_CHECKS,
)


def _rules() -> Mapping[str, Rule]:
    rules: dict[str, Rule] = {}
    for check in CHECKS:
        for rule in check.rules:
            if rules.setdefault(rule.id, rule) is not rule:
                raise AssertionError(f"two rules are called {rule.id}")
    return dict(sorted(rules.items()))


RULES: Mapping[str, Rule] = _rules()


def diagnose(project: Project) -> Diagnosis:
    """Run every check over a project.

    The same finding at the same place is given once; one that is no error and says the same of
    several places is given once with all of them.
    """
    findings: dict[tuple[object, ...], Finding] = {}
    for check in CHECKS:
        for finding in check.run(project):
            first = finding.evidence[0]
            key = (finding.id, first.file, first.line, first.token, finding.params)
            if key not in findings:
                proved = judged(project, finding)
                if proved is not None:
                    findings[key] = proved
    return Diagnosis(
        _joined(sorted(findings.values(), key=order)),
        project.kinds,
        tuple(dict.fromkeys(project.unread)),
        project.skipped,
    )


MAX_PLACES = 20
"""Places shown of a finding that is there many times."""


def _joined(ordered: list[Finding]) -> tuple[Finding, ...]:
    joined: dict[tuple[object, ...], Finding] = {}
    for number, finding in enumerate(ordered):
        same: tuple[object, ...] = (
            finding.id,
            finding.severity,
            finding.confidence,
            finding.params,
        )
        if finding.severity is Severity.ERROR:
            same = (number,)
        if same not in joined:
            joined[same] = finding
            continue
        places = joined[same].evidence
        more = (finding.evidence[0],) if len(places) < MAX_PLACES else ()
        joined[same] = replace(joined[same], evidence=(*places, *more))
    return tuple(joined.values())

"""What the lint says: rules and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuforge.messages import render
from npuforge.vocab import Severity

if TYPE_CHECKING:
    from npuforge.lint.subject import Subject

Params = Mapping[str, object]
Hit = tuple[str, Params]
"""Name of the node or tensor, and the numbers of the message."""
Check = Callable[["Subject"], Iterator[Hit]]


@dataclass(frozen=True)
class LintRule:
    """One thing in a model that makes trouble on Neural-ART.

    Attributes:
        code: id, and key of its words: message, cause, hint (the remedy).
        severity: error: the compiler refuses it or the board hangs or computes nonsense; warning:
            slower or less exact than need be, or some compiler versions fail; info: good to know.
        reference: where the fact is from.
        check: the places where it applies.
        needs_data: it is measured on inputs that the user gives.
    """

    code: str
    severity: Severity
    reference: str
    check: Check
    needs_data: bool = False


@dataclass(frozen=True)
class LintFinding:
    """A rule that applies at a place.

    Attributes:
        rule: id of the rule.
        severity: its weight.
        where: node, tensor or file.
        message: what is there, with the numbers.
        remedy: what to do.
        reference: where the fact is from.
        places: how many more places the same rule found, which are not listed.
    """

    rule: str
    severity: Severity
    where: str
    message: str
    remedy: str
    reference: str
    places: int = 0


MOST = 5
"""Places of one rule that are listed; the rest is counted."""


def findings(rules: tuple[LintRule, ...], subject: Subject) -> tuple[LintFinding, ...]:
    """Findings of all rules, errors first."""
    found: list[LintFinding] = []
    for rule in rules:
        if rule.needs_data and subject.samples is None:
            continue
        hits = list(rule.check(subject))
        for number, (where, params) in enumerate(hits[:MOST]):
            message, remedy = render(rule.code, {"where": where, **params})
            more = len(hits) - MOST if number == MOST - 1 else 0
            found.append(
                LintFinding(
                    *(rule.code, rule.severity, where, message, remedy, rule.reference),
                    max(more, 0),
                )
            )
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))

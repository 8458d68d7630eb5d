"""What the doctor says: rules, checks and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from npuforge.messages import parts, text
from npuforge.vocab import Severity

if TYPE_CHECKING:
    from npuforge.doctor.project import Project


class _Names(dict[str, object]):
    """Every placeholder by its own name."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


class Confidence(StrEnum):
    """How sure a finding is."""

    HIGH = "high"
    """Decided by the files alone."""
    MEDIUM = "medium"
    """Decided unless something outside the files (another boot stage, a library) makes it good."""
    LOW = "low"
    """A hint worth an experiment."""


@dataclass(frozen=True)
class Evidence:
    """Where a finding shows.

    Attributes:
        file: path as shown to the user, relative to what was given.
        line: line number from 1, or ``None`` (binary files, whole-file statements).
        token: the quoted text: one line, bounded.
        address: memory address, or ``None``.
        note: why this place matters, or "".
        via: calls through which a program comes to this place, as files and lines.
    """

    file: str
    line: int | None = None
    token: str = ""
    address: int | None = None
    note: str = ""
    via: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)

    @property
    def place(self) -> str:
        """``file:line`` as editors take it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Premise:
    """One thing that has to be so for a finding to be right.

    Attributes:
        name: which; its sentence is the catalogue entry ``DOC-premise-<name>``.
        seen: where the files show it; ``None`` when it is only likely.
    """

    name: str
    seen: Evidence | None

    @property
    def words(self) -> str:
        """What is assumed, as a sentence, in the language in use."""
        return text(f"DOC-premise-{self.name}")


@dataclass(frozen=True)
class Rule:
    """One thing that can be wrong. Its words are the catalogue entry ``DOC-<id>``.

    Attributes:
        id: stable identifier, family first: ``K11-no-reset``.
        severity: weight of its findings unless a check lowers it.
        confidence: likewise.
        cases: ids of the published problem cases it stands for.
        rank: order among findings of the same severity and confidence; small comes first.
    """

    id: str
    severity: Severity
    confidence: Confidence = Confidence.HIGH
    cases: tuple[str, ...] = ()
    rank: int = 50

    @property
    def family(self) -> str:
        """Identifier of the check family, for example ``K11``."""
        return self.id.split("-", 1)[0]

    @property
    def words(self) -> Words:
        """The rule's text with its placeholders shown as ``<name>``."""
        return Words(**parts(f"DOC-{self.id}", _Names()))

    def at(
        self,
        *evidence: Evidence,
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        premises: tuple[Premise, ...] = (),
        **params: object,
    ) -> Finding:
        """A finding of this rule; ``params`` fill the placeholders of its words.

        ``premises`` are those that the check has looked up itself.
        """
        return Finding(
            self,
            severity or self.severity,
            confidence or self.confidence,
            evidence,
            tuple((key, str(value)) for key, value in params.items()),
            premises,
        )


@dataclass(frozen=True)
class Finding:
    """One rule that fired.

    Attributes:
        rule: what is wrong in general.
        severity: its weight here.
        confidence: how sure it is here.
        evidence: places, the decisive one first; never empty.
        params: values for the placeholders of the rule's words.
        premises: what has to be so for an error to be one; each with its place in the files.
    """

    rule: Rule
    severity: Severity
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    params: tuple[tuple[str, str], ...] = ()
    premises: tuple[Premise, ...] = field(default=(), compare=False)

    @property
    def assumed(self) -> tuple[Premise, ...]:
        """Premises that the files do not show."""
        return tuple(premise for premise in self.premises if premise.seen is None)

    @property
    def id(self) -> str:
        """Identifier of the rule."""
        return self.rule.id

    @property
    def words(self) -> Words:
        """Message, cause, remedy and confirmation in the language in use."""
        return Words(**parts(f"DOC-{self.rule.id}", dict(self.params)))


@dataclass(frozen=True)
class Words:
    """The text of a finding: what is seen, why it hurts, what to do, how to make sure."""

    message: str
    cause: str
    hint: str
    confirm: str


@dataclass(frozen=True)
class Check:
    """One decision procedure.

    Attributes:
        name: for messages about the check itself.
        rules: every rule whose findings ``run`` may give.
        run: gives findings about a project; raises nothing about the contents of files.
    """

    name: str
    rules: tuple[Rule, ...]
    run: Callable[[Project], Iterable[Finding]]


@dataclass(frozen=True)
class Unread:
    """A file that was recognised but could not be read."""

    file: str
    code: str
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything the doctor found.

    Attributes:
        findings: most severe and most certain first.
        kinds: number of files of each recognised kind.
        unread: files that could not be read, with the reason.
        skipped: files left out because a limit on number or size was reached.
    """

    findings: tuple[Finding, ...]
    kinds: tuple[tuple[str, int], ...]
    unread: tuple[Unread, ...] = field(default=())
    skipped: int = 0

    @property
    def failed(self) -> bool:
        """Whether a finding has severity error."""
        return any(item.severity is Severity.ERROR for item in self.findings)


_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_CONFIDENCES = (Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW)


def order(finding: Finding) -> tuple[object, ...]:
    """Sort key: severity, confidence, rank, id, place."""
    first = finding.evidence[0]
    return (
        _SEVERITIES.index(finding.severity),
        _CONFIDENCES.index(finding.confidence),
        finding.rule.rank,
        finding.rule.id,
        first.file,
        first.line or 0,
    )

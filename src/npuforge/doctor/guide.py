"""The guided search: from a symptom to ranked causes, asking only what the files do not tell.

The table is `guide.toml`; its words are the catalogue entries ``GUI-…``. A search is a pure
function of the symptom, the findings and the answers, so a script can run it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from npuforge.doctor.findings import Finding
from npuforge.errors import UsageError
from npuforge.messages import render, text


@dataclass(frozen=True)
class Question:
    """A yes-or-no question.

    Attributes:
        id: its name in answers.
        symptoms: when it is worth asking.
        yes: weights added for yes.
        no: weights added for no.
        files: finding ids or families that answer it.
    """

    id: str
    symptoms: tuple[str, ...]
    yes: Mapping[str, int]
    no: Mapping[str, int]
    files: tuple[str, ...]

    @property
    def words(self) -> tuple[str, str]:
        """The question, and how to find the answer."""
        return render(f"GUI-ask-{self.id}", {})


@dataclass(frozen=True)
class Cause:
    """One ranked cause.

    Attributes:
        id: its name.
        weight: sum of everything that speaks for it.
        findings: ids of findings of the files that point to it.
    """

    id: str
    weight: int
    findings: tuple[str, ...]

    @property
    def message(self) -> str:
        """What may be wrong."""
        return render(f"GUI-cause-{self.id}", {})[0]

    @property
    def action(self) -> str:
        """What to do first, and the experiment that decides."""
        return render(f"GUI-cause-{self.id}", {})[1]


@dataclass(frozen=True)
class Advice:
    """The end of a search: causes, most likely first, and the steps to go through."""

    symptom: str
    causes: tuple[Cause, ...]
    asked: tuple[str, ...]
    known: tuple[str, ...]


@dataclass(frozen=True)
class _Table:
    symptoms: Mapping[str, Mapping[str, int]]
    questions: tuple[Question, ...]
    evidence: Mapping[str, Mapping[str, int]]


@cache
def _table() -> _Table:
    document = tomllib.loads(Path(__file__).with_name("guide.toml").read_text("utf-8"))
    questions = tuple(
        Question(
            row["id"],
            tuple(row["symptoms"]),
            dict(row["yes"]),
            dict(row["no"]),
            tuple(row.get("files", ())),
        )
        for row in document["questions"]
    )
    return _Table(document["symptoms"], questions, document["evidence"])


def symptoms() -> tuple[tuple[str, str], ...]:
    """Symptom names with their words."""
    return tuple((name, text(f"GUI-symptom-{name}")) for name in _table().symptoms)


def steps() -> tuple[str, ...]:
    """The seven steps of the search, in order."""
    return tuple(text(f"GUI-step-{number}") for number in range(1, 8))


def _points(name: str, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Findings with this id, or of this family."""
    return tuple(i for i in ids if i == name or i.split("-", 1)[0] == name)


def open_questions(
    symptom: str, findings: tuple[Finding, ...], answers: Mapping[str, bool]
) -> Iterator[Question]:
    """Questions that neither the files nor earlier answers decide.

    Raises:
        UsageError: GUI-001 when the symptom is not known.
    """
    table = _table()
    if symptom not in table.symptoms:
        raise UsageError("GUI-001", name=symptom, known=", ".join(table.symptoms))
    ids = tuple(finding.id for finding in findings)
    for question in table.questions:
        if symptom not in question.symptoms or question.id in answers:
            continue
        if not any(_points(name, ids) for name in question.files):
            yield question


def advise(symptom: str, findings: tuple[Finding, ...], answers: Mapping[str, bool]) -> Advice:
    """Rank the causes.

    Args:
        symptom: one of `symptoms`.
        findings: what the doctor found in the files; each speaks for its cause.
        answers: yes or no by question id.

    Raises:
        UsageError: GUI-001 or GUI-002 when the symptom or a question is not known.
    """
    table = _table()
    if symptom not in table.symptoms:
        raise UsageError("GUI-001", name=symptom, known=", ".join(table.symptoms))
    known = {question.id: question for question in table.questions}
    for name in answers:
        if name not in known:
            raise UsageError("GUI-002", name=name, known=", ".join(known))
    weights = dict(table.symptoms[symptom])
    ids = tuple(dict.fromkeys(finding.id for finding in findings))
    speaking: dict[str, list[str]] = {}
    for name, causes in table.evidence.items():
        for found in _points(name, ids):
            for cause, weight in causes.items():
                weights[cause] = weights.get(cause, 0) + weight
                speaking.setdefault(cause, []).append(found)
    for name, yes in answers.items():
        for cause, weight in (known[name].yes if yes else known[name].no).items():
            weights[cause] = weights.get(cause, 0) + weight
    ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    decided = tuple(
        question.id
        for question in table.questions
        if symptom in question.symptoms and any(_points(n, ids) for n in question.files)
    )
    return Advice(
        symptom,
        tuple(
            Cause(name, weight, tuple(dict.fromkeys(speaking.get(name, ()))))
            for name, weight in ranked[:5]
        ),
        tuple(answers),
        decided,
    )

"""The doctor's part of the Python side of the command line; `npuforge.api` offers all of it.

The doctor compiles hundreds of patterns when it is imported, so its functions import it themselves:
every other verb goes through `npuforge.api` too and need not wait for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuforge.errors import UsageError

if TYPE_CHECKING:
    from npuforge.doctor import Diagnosis, Finding, Rule
    from npuforge.doctor.guide import Advice

PathLike = str | os.PathLike[str]


def diagnose_project(paths: Iterable[PathLike]) -> Diagnosis:
    """Find what is wrong in the files of a deployment (`npuforge doctor`).

    Args:
        paths: folders and files in any mix: sources, linker scripts, ELF, logs, reports, models.

    Raises:
        UsageError: DOC-001 when a path does not exist.
    """
    from npuforge.doctor import collect, diagnose

    return diagnose(collect(Path(path) for path in paths))


def explain_finding(name: str) -> tuple[Rule, ...]:
    """Rules by id (K11-no-reset) or family (K11).

    Raises:
        UsageError: DOC-003 when there is none.
    """
    from npuforge.doctor import RULES

    wanted = name.lower()
    found = tuple(r for r in RULES.values() if wanted in (r.id.lower(), r.family.lower()))
    if not found:
        raise UsageError("DOC-003", id=name)
    return found


def guided_advice(
    symptom: str, findings: Sequence[Finding] = (), answers: Mapping[str, bool] | None = None
) -> Advice:
    """Rank the causes of a symptom (`npuforge doctor --guide`).

    Args:
        symptom: see `npuforge.doctor.guide.symptoms`.
        findings: what `diagnose_project` found.
        answers: yes or no by question id.

    Raises:
        UsageError: the symptom or a question is not known.
    """
    from npuforge.doctor.guide import advise

    return advise(symptom, tuple(findings), answers or {})


def probe_source(paths: Iterable[PathLike], names: Sequence[str]) -> str:
    """C source with probes for the network that the files describe (`npuforge doctor --probe`).

    Args:
        paths: generated code and reports; may be empty.
        names: probes, or "all".

    Raises:
        UsageError: a path or a probe does not exist.
    """
    from npuforge.doctor import collect
    from npuforge.doctor.probes import PROBES, probe_target, write_probes

    project = collect(Path(path) for path in paths)
    chosen = PROBES if "all" in names else tuple(dict.fromkeys(names))
    return write_probes(probe_target(project), chosen)


def versions_document(paths: Iterable[PathLike] = ()) -> dict[str, Any]:
    """Versions that belong together and those that files name (`npuforge doctor --versions`).

    Raises:
        UsageError: a path does not exist.
    """
    from npuforge.doctor import collect
    from npuforge.doctor.versions import releases, versions_of

    seen = versions_of(collect(Path(path) for path in paths))
    return {
        "schema": "npuforge.versions/1",
        "releases": [
            {
                "core": row.core,
                "compiler": row.compiler,
                "package": row.package,
                "firmware": row.firmware,
                "evidence": row.evidence,
            }
            for row in releases()
        ],
        "seen": [
            {"part": item.part, "version": item.version, "place": item.place.place} for item in seen
        ],
    }


def support_bundle(paths: Iterable[PathLike]) -> bytes:
    """A redacted archive of files with their diagnosis (`npuforge doctor --bundle`).

    Raises:
        UsageError: a path does not exist.
    """
    from npuforge.doctor import collect, diagnose
    from npuforge.doctor.bundle import bundle
    from npuforge.report.diagnosis import diagnosis_document

    project = collect(Path(path) for path in paths)
    return bundle(project, {"diagnosis.json": diagnosis_document(diagnose(project))})

"""Which compiler, runtime, header guard and firmware package belong together, and whether they do.

All four parts of the version must match between the generated network and the runtime; the table is
`versions.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from npuforge.artefacts.recognise import Kind
from npuforge.doctor.findings import Check, Evidence, Finding
from npuforge.doctor.log_project import logs_of
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.network_facts import dotted, networks_of
from npuforge.doctor.project import Project


@dataclass(frozen=True)
class Release:
    """One release whose parts belong together; "" where no source names a part.

    Attributes:
        core: ST Edge AI Core.
        compiler: Neural-ART compiler, guard of network.c and runtime.
        package: X-CUBE-AI pack.
        firmware: STM32Cube_FW_N6 package seen with it.
        evidence: ``report`` or ``joined``.
    """

    core: str
    compiler: str
    package: str
    firmware: str
    evidence: str


@dataclass(frozen=True)
class Seen:
    """A version found in the project: which part, its number, and where."""

    part: str
    version: str
    place: Evidence


@cache
def _document() -> dict[str, list[dict[str, str]]]:
    path = Path(__file__).with_name("versions.toml")
    document: dict[str, list[dict[str, str]]] = tomllib.loads(path.read_text("utf-8"))
    return document


def releases() -> tuple[Release, ...]:
    """The table, oldest first."""
    return tuple(
        Release(
            row["core"], row["compiler"], row.get("package", ""), row.get("firmware", ""),
            row["evidence"],
        )
        for row in _document()["release"]
    )  # fmt: skip


def known_guards() -> frozenset[str]:
    """Every compiler version met in public."""
    return frozenset(row["compiler"] for key in ("release", "guard") for row in _document()[key])


_HEADER = re.compile(r"#\s*define\s+LL_ATON_VERSION_(MAJOR|MINOR|MICRO|DEV)\s+\(?(\d+)")
_NAME = re.compile(r"LL_ATON_VERSION_NAME\s+\"?atonn-v(\d+\.\d+\.\d+-\d+)")


def versions_of(project: Project) -> tuple[Seen, ...]:
    """Every version that the files name."""
    return project.once("versions", lambda: tuple(_collect(project)))


def _collect(project: Project) -> Iterator[Seen]:
    for facts in networks_of(project):
        if facts.version:
            yield Seen("guard", dotted(facts.version), facts.artefact.at(facts.version_line))
    for item in project.of(Kind.C_HEADER):
        if "version" not in item.path.name.lower() or "aton" not in item.path.name.lower():
            continue
        text = project.text(item)
        parts = dict(_HEADER.findall(text))
        if len(parts) >= 3:
            version = ".".join(parts[key] for key in ("MAJOR", "MINOR", "MICRO") if key in parts)
            version += f"-{parts['DEV']}" if "DEV" in parts else ""
            yield Seen("runtime", version, item.at(1))
    for log in logs_of(project):
        tool = log.tool
        for part, value in (("core", tool.version), ("compiler", tool.compiler),
                            ("runtime", tool.runtime)):  # fmt: skip
            if value:
                line = tool.lines.get("version" if part == "core" else part, 1)
                yield Seen(part, value, log.at(line))


def run(project: Project) -> Iterable[Finding]:
    """Findings where two parts are named that do not belong together."""
    seen = versions_of(project)
    compilers = [item for item in seen if item.part in ("guard", "compiler")]
    runtimes = [item for item in seen if item.part == "runtime"]
    if any(item.part == "guard" for item in seen):
        # the library's own header against the guards is K14-guard, also where that stays silent
        runtimes = [item for item in runtimes if Path(item.place.file).suffix != ".h"]
    if any(not _differ(made.version, run.version) for made in compilers for run in runtimes):
        # a folder with runs of several releases holds right pairs too
        return
    for made in compilers:
        for runtime in runtimes:
            if made.place.file != runtime.place.file and _differ(made.version, runtime.version):
                yield LOG_RULES["VER-pair"].at(
                    made.place, runtime.place, made=made.version, runtime=runtime.version
                )
                return
    table = {release.core: release.compiler for release in releases()}
    for core in (item for item in seen if item.part == "core"):
        for made in compilers:
            near = made.part == "guard" or made.place.file == core.place.file
            if near and core.version in table and _differ(table[core.version], made.version):
                yield LOG_RULES["VER-tool"].at(
                    made.place,
                    core.place,
                    core=core.version,
                    want=table[core.version],
                    have=made.version,
                )
                return


def _differ(a: str, b: str) -> bool:
    """Whether two versions differ in a part that both give."""
    left, right = re.findall(r"\d+", a), re.findall(r"\d+", b)
    return any(x != y for x, y in zip(left, right, strict=False))


CHECK = Check("version pairs", (LOG_RULES["VER-pair"], LOG_RULES["VER-tool"]), run)

"""What has to be so for an error to be one, and where the files show it.

Every rule of severity error names its premises here. A finding stays an error when the files show
each of them; with one that is only likely it is a warning that names it. Premises that a check
knows itself (is the data cache on) come with its finding, the others are looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from npuforge.artefacts.recognise import LOG_NAME, Kind
from npuforge.doctor.builds import built
from npuforge.doctor.chip import families_near
from npuforge.doctor.conditions import compiled
from npuforge.doctor.findings import Confidence, Evidence, Finding, Premise
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.reach import function_at, hidden_calls, reached, reached_in, the_entry
from npuforge.doctor.sources import VENDOR, sources_of
from npuforge.vocab import Severity

_C = (Kind.C_SOURCE, Kind.C_HEADER)
_CODE = ("compiled", "program", "chip")
_NET = (*_CODE, "network")

NEEDS: Mapping[str, tuple[str, ...]] = {
    "K01-overlap": ("chip", "network"),
    "K01-noload-context": _CODE,
    "K02-no-memory": ("chip",),
    "K02-other-family": ("chip", "script"),
    "K02-off-at-reset": ("chip", "boot"),
    "K04-psram-off": (*_NET, "whole"),
    "K04-no-psram": ("chip", "network"),
    "K04-mapped-late": _NET,
    "K06-sleep-disabled": _CODE,
    "K07-input-not-cleaned": (*_NET, "whole"),
    "K07-dirty-invalidated": _NET,
    "K07-output-stale": (*_NET, "whole"),
    "K08-no-effect": ("compiled", "chip", "built"),
    "K08-size-for-end": _CODE,
    "K08-end-for-size": _CODE,
    "K08-all-dropped": ("compiled", "built"),
    "K09-stack-buffer": _CODE,
    "K09-freed-early": _CODE,
    "K11-no-runtime-init": (*_CODE, "whole"),
    "K11-init-in-loop": _CODE,
    "K11-single-epoch": _CODE,
    "K11-zero-is-no-error": _CODE,
    "K11-no-reset": (*_CODE, "whole"),
    "K11-relocation-lost": _CODE,
    "K12-set-ignored": _NET,
    "K12-unbound": (*_NET, "whole"),
    "K13-irq-early": _CODE,
    "K13-own-handler": ("compiled", "chip", "built", "runtime"),
    "K13-blobs-polling": ("compiled", "chip", "network"),
    "K13-irq-priority": _CODE,
    "K14-guard": ("network",),
    "K15-slot": ("chip",),
    "K15-copy-size": ("chip",),
    "K15-header": (),
    "K15-flash-address": ("chip",),
    "K16-base": ("chip", "network"),
    "K18-bytes-into-float": (*_NET, "whole"),
    "K20-depthwise-1d-stride": ("model",),
    "K22-null-result": _CODE,
    "K29-hal-module": ("compiled", "chip", "built"),
}
"""Premises of each rule of severity error, apart from those that its check brings along. The rules
of logs need a file that surely is a log."""
LOG_NEEDS = ("log",)

Prover = Callable[[Project, Finding], Evidence | None]


def _file(project: Project, name: str) -> Artefact | None:
    return project.once(
        "artefacts by name", lambda: {item.name: item for item in project.artefacts}
    ).get(name)


def _sources(project: Project, finding: Finding) -> list[Evidence]:
    """Evidence that is code of the project."""
    found = []
    for evidence in finding.evidence:
        item = _file(project, evidence.file)
        if item is not None and item.kind in _C and evidence.line:
            found.append(evidence)
    return found


def _compiled(project: Project, finding: Finding) -> Evidence | None:
    for evidence in finding.evidence:
        places = [(evidence.file, evidence.line), *evidence.via]
        if any(line and compiled(project, file, line) is not True for file, line in places):
            return None
    return finding.evidence[0]


def _built(project: Project, finding: Finding) -> Evidence | None:
    """Every source of the evidence is named by a build, or linked into the only program."""
    shown: Evidence | None = None
    for evidence in _sources(project, finding) or finding.evidence[:1]:
        item = _file(project, evidence.file)
        if item is None:
            return None
        if item.kind not in (*_C, Kind.NETWORK_C):
            shown = shown or evidence
            continue
        where = built(project, item) or _only_program(project, evidence)
        if where is None:
            return None
        shown = shown or where
    return shown


def _only_program(project: Project, evidence: Evidence) -> Evidence | None:
    """With a single entry point, a file with a function that it calls and that is there once."""
    entry = the_entry(project)
    if entry is None or evidence.line is None:
        return None
    functions = sources_of(project).functions
    name = function_at(project, evidence.file, evidence.line)
    if name is not None:
        live = reached(project, evidence.file, evidence.line) is not None
        return entry if live and len(functions.get(name, ())) == 1 else None
    # a variable: it is there when anything of its file is
    linked = any(len(functions[other]) == 1 for other in reached_in(project, evidence.file))
    return entry if linked else None


def _program(project: Project, finding: Finding) -> Evidence | None:
    """A start-up reaches the code, in a build that takes it."""
    places = _sources(project, finding)
    shown: Evidence | None = None
    for evidence in places:
        if evidence.line is None or function_at(project, evidence.file, evidence.line) is None:
            continue  # a variable or a macro
        entry = reached(project, evidence.file, evidence.line)
        if entry is None:
            return None
        shown = shown or entry
    return shown if shown is not None and _built(project, finding) is not None else None


def _chip(project: Project, finding: Finding) -> Evidence | None:
    """The files nearest to the finding are of this chip and of no other.

    Where no file names any chip, its memory and the runtime of its NPU do.
    """
    first = finding.evidence[0]
    found = families_near(project, first.file)
    if set(found) == {"stm32n6"}:
        return found["stm32n6"]
    if found:
        return None
    of_its_own = any(
        _ITS_OWN.search(item.token) or (item.address is not None and item.address >> 24 == 0x34)
        for item in finding.evidence
    )
    return first if of_its_own else None


_ITS_OWN = re.compile(r"\bLL_ATON_|\b0x34[0-9a-f]{6}\b", re.IGNORECASE)
"""The runtime of the NPU, and RAM where no other STM32 has any."""


def _network(project: Project, finding: Finding) -> Evidence | None:
    """The project holds one generated network, and a build or the program takes it."""
    networks = networks_of(project)
    if len(networks) != 1:
        return None
    facts = networks[0]
    used = re.compile(
        rf"\b(?:NN_Instance_|NN_Interface_){facts.name}\b|stai_{facts.name}_|"
        rf"NN_INSTANCE\w*\s*\(\s*{facts.name}\b|_Buffers_Info_{facts.name}\b"
    )
    if built(project, facts.artefact) is None and (
        the_entry(project) is None or not sources_of(project).text_mentions(used)
    ):
        return None
    return facts.artefact.at(facts.version_line)


def _whole(project: Project, finding: Finding) -> Evidence | None:
    """No function whose code is not in the files is called that could do what is missed."""
    return None if hidden_calls(project) else the_entry(project)


def _boot(project: Project, finding: Finding) -> Evidence | None:
    """What runs before the program is in the files."""
    for item in project.of(Kind.C_SOURCE):
        own = not VENDOR.search(item.name) and re.search(r"fsbl|boot", item.name, re.IGNORECASE)
        if own and re.search(r"\bint\s+main\s*\(", project.text(item)):
            return item.at(1)
    return None


def _runtime(project: Project, finding: Finding) -> Evidence | None:
    """The vendor's runtime is there."""
    for item in project.artefacts:
        if re.fullmatch(r"ll_aton_(?:runtime|osal\w*)\.[ch]", item.path.name, re.IGNORECASE):
            return item.at(1)
    for item in project.of(Kind.BUILD):
        match = re.search(r"ll_aton\w*|LL_ATON_\w+", project.text(item))
        if match:
            return item.at(project.text(item).count("\n", 0, match.start()) + 1, match[0])
    return None


def _script(project: Project, finding: Finding) -> Evidence | None:
    """A build takes the linker script, or there is no other."""
    script = finding.evidence[0].file
    name = re.compile(rf"(?:(?<![\w.-])|(?<=-T)){re.escape(script.split('/')[-1])}(?![\w.-])")
    for item in project.of(Kind.BUILD):
        match = name.search(project.text(item))
        if match:
            return item.at(project.text(item).count("\n", 0, match.start()) + 1, match[0])
    return None


def _model(project: Project, finding: Finding) -> Evidence | None:
    """There is one model."""
    models = project.of(Kind.ONNX, Kind.TFLITE, Kind.KERAS)
    return finding.evidence[0] if len(models) == 1 else None


_TEXTS = re.compile(
    r"(?:^|/)(?:docs?|documentation|examples?|samples?|tests?|fixtures?|node_modules|web|www)/",
    re.IGNORECASE,
)
"""Folders whose logs are shown to somebody: what they tell is not the state of this project."""


def _log(project: Project, finding: Finding) -> Evidence | None:
    """The place is in a log, by its name, its kind or because the user gave it."""
    first = finding.evidence[0]
    item = _file(project, first.file)
    if item is None:
        return None
    if item.given:
        return first
    if _TEXTS.search(item.name) or VENDOR.search(item.name):
        return None
    name = item.path.name.lower()
    sure = (
        item.kind in (Kind.LINUX_LOG, Kind.ST_REPORT, Kind.C_INFO, Kind.PROFILE)
        or name.endswith((".log", ".csv"))
        or (item.kind is Kind.LOG and LOG_NAME.search(name) is not None)
        or item.kind in (Kind.NETWORK_C, Kind.C_HEADER)
    )
    return first if sure else None


PROVERS: Mapping[str, Prover] = {
    "compiled": _compiled, "built": _built, "program": _program, "chip": _chip,
    "network": _network, "whole": _whole, "boot": _boot, "runtime": _runtime, "script": _script,
    "model": _model, "log": _log,
}  # fmt: skip
"""How each premise is looked up."""
_UNSURE = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


def judged(project: Project, finding: Finding) -> Finding | None:
    """A finding with its premises, and the severity that follows from them.

    One that is no error is dropped where its code is surely left out of the build.
    """
    if finding.severity is not Severity.ERROR:
        first = finding.evidence[0]
        left_out = first.line and compiled(project, first.file, first.line) is False
        return None if left_out else finding
    needs = NEEDS.get(finding.id, LOG_NEEDS)
    premises = (
        *finding.premises,
        *(Premise(name, PROVERS[name](project, finding)) for name in needs),
    )
    finding = replace(finding, premises=premises)
    if not finding.assumed:
        return finding
    confidence = min((finding.confidence, Confidence.MEDIUM), key=_UNSURE.index)
    return replace(finding, severity=Severity.WARNING, confidence=confidence)

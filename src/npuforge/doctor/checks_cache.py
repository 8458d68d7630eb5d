"""K07 to K10: the order of cache maintenance, what the helpers do, alignment, the NPU's cache.

The automaton follows each network's input and output along a program's trace: a CPU write makes the
input dirty, a clean writes it back, a run needs it clean; after a run on hardware the output is
stale in the CPU's cache until it is invalidated. Accepted: ST's order with the invalidation after
post-processing, no invalidation where the last epoch runs in software under generated cache
maintenance, and no clean where the first one does: then the CPU itself reads the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from npuforge.doctor import names
from npuforge.doctor.buffers import IN, OUT, Effects, base_of, roles_of
from npuforge.doctor.checks_power import npu_programs
from npuforge.doctor.cpu_cache import CpuCache, cache_in
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding, Premise, Rule
from npuforge.doctor.network_facts import networks_of, on_npu
from npuforge.doctor.project import Project
from npuforge.doctor.sources import Program, Sources, Step, sources_of
from npuforge.vocab import Severity

NOT_CLEANED = Rule("K07-input-not-cleaned", Severity.ERROR, cases=("B03", "B06", "B18"), rank=25)
DIRTY_LOST = Rule("K07-dirty-invalidated", Severity.ERROR, cases=("B01",), rank=20)
STALE = Rule("K07-output-stale", Severity.ERROR, cases=("B03", "B04", "B18"), rank=26)
EARLY = Rule("K07-invalidated-early", Severity.WARNING, cases=("B14",), rank=20)
ALIAS = Rule(
    "K07-input-shadows-output", Severity.WARNING, Confidence.MEDIUM, cases=("B19",), rank=18
)
REDUNDANT = Rule("K07-redundant", Severity.INFO, Confidence.MEDIUM)

_CLEAN = re.compile(
    r"SCB_CleanDCache(?:_by_Addr)?|mcu_cache_clean(?:_range)?|LL_ATON_Cache_MCU_Clean_Range"
)
_INVALIDATE = re.compile(
    r"SCB_InvalidateDCache(?:_by_Addr)?|mcu_cache_invalidate(?:_range)?|"
    r"LL_ATON_Cache_MCU_Invalidate_Range"
)
_BOTH = re.compile(
    r"SCB_CleanInvalidateDCache(?:_by_Addr)?|mcu_cache_clean_invalidate(?:_range)?|"
    r"LL_ATON_Cache_MCU_Clean_Invalidate_Range"
)
_GENERIC = re.compile(
    r"\w*(?:[Dd]_?[Cc]ache|DCACHE)\w*|(?:stai_ext_)?cache_mcu_\w+|\w*cache_(?:clean|flush|inv)\w*"
)


def operation(name: str) -> str:
    """``clean``, ``invalidate``, ``both`` or "" for a function name."""
    for pattern, word in ((_BOTH, "both"), (_CLEAN, "clean"), (_INVALIDATE, "invalidate")):
        if pattern.fullmatch(name):
            return word
    if _GENERIC.fullmatch(name) and not re.search(r"npu_|axi|[Ee]nable|[Dd]isable", name):
        low = name.lower()
        clean = "clean" in low or "flush" in low
        invalid = "inv" in low
        return (
            "both" if clean and invalid else "clean" if clean else "invalidate" if invalid else ""
        )
    return ""


def exclusive(one: Step, other: Step) -> bool:
    """Whether two steps lie in different arms of the same structure, so that never both run."""
    arms = {frame.at: frame.arm for frame in one.frames if frame.kind != "loop"}
    return any(arms.get(f.at, f.arm) != f.arm for f in other.frames if f.kind != "loop")


def inside(one: Step, other: Step) -> bool:
    """Whether a step runs whenever another of the same pass does: no condition of its own."""
    around = {(frame.at, frame.arm) for frame in other.frames}
    return all(frame.kind == "loop" or (frame.at, frame.arm) in around for frame in one.frames)


# -- the automaton


@dataclass
class _State:
    dirty: Step | None = None
    cleaned: Step | None = None
    only_clean: Step | None = None
    ran: Step | None = None
    invalidated: bool = False
    invalidated_before: Step | None = None
    read: Step | None = None
    early: Step | None = None
    last: tuple[str, str] = ("", "")
    findings: list[Finding] = field(default_factory=list)


def _order(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    effects = project.once("effects", lambda: Effects(sources))
    software_end = any(n.last_software and n.maintenance for n in networks_of(project))
    software_start = any(n.first_software for n in networks_of(project))
    for program, _ in npu_programs(project):
        if cache_in(project, program)[0] is CpuCache.OFF:
            continue
        walker = _Walker(project, sources, effects, program, software_start, software_end)
        yield from walker.run()


class _Walker:
    def __init__(
        self,
        project: Project,
        sources: Sources,
        effects: Effects,
        program: Program,
        software_start: bool,
        software_end: bool,
    ) -> None:
        self.sources = sources
        self.effects = effects
        self.program = program
        self.software_start = software_start
        self.software_end = software_end
        self.project = project
        self.roles = roles_of(project, program)
        self.cache, self.switch = cache_in(project, program)
        self.state = _State()
        self.looked: set[int] = set()
        # without its epochs a network may begin or end in software
        self.epochs = any(facts.flags for facts in networks_of(project))
        self.npu = all(on_npu(project, step.name) for step in program.calls(names.RUN))
        self.invalidations = [
            step for step in program.steps if step.event.kind == "call"
            and operation(step.name) in ("invalidate", "both")
        ]  # fmt: skip

    def run(self) -> list[Finding]:
        for step in self.program.steps:
            self._conditions(step)
            if step.event.kind == "call":
                self._call(step)
            elif step.event.kind == "assign":
                self._assign(step)
        self._finish()
        return self.state.findings

    # events

    def _conditions(self, step: Step) -> None:
        """What the conditions around a step read, once for each."""
        for frame in step.frames:
            if frame.kind in ("if", "loop") and frame.condition and frame.at not in self.looked:
                self.looked.add(frame.at)
                words = {"if": "if", "loop": "while"}
                event = step.event._replace(
                    kind="call", name=words[frame.kind], args=(frame.condition,), line=frame.line
                )
                self._reads(replace(step, event=event), frame.condition)

    def _call(self, step: Step) -> None:
        event = step.event
        defined = self.sources.resolve(event.name, step.source) is not None
        word = "" if defined else operation(event.name)
        if word:
            self._maintain(step, word)
            return
        if names.RUN.fullmatch(event.name):
            if not defined:
                self._run(step)
            return
        if defined or names.SET_USER.fullmatch(event.name):
            found = self.sources.resolve(event.name, step.source)
            if found is None or self.sources.reaches(*found):
                return  # its own steps follow
        reads, writes = self.effects.of_call(event, step.source)
        for at, argument in enumerate(event.args):
            role = self.roles.of(argument)
            if role == IN and at in writes:
                self._write(step)
            elif role == OUT and at in reads:
                self._read(step)

    def _assign(self, step: Step) -> None:
        event = step.event
        if re.search(r"[\[*]", event.name) and self.roles.of(event.name) == IN:
            bare = base_of(event.name) == event.name.strip("* ")
            copied = event.args[0] == "=" and self.roles.meaning(event.args[1]) == IN
            if not copied and (not bare or event.name.startswith("*")):
                self._write(step)
        self._reads(step, event.args[1])

    def _reads(self, step: Step, text: str) -> None:
        """Elements of the output that an expression takes."""
        for name in re.findall(r"([A-Za-z_][\w>.-]*)\s*\[|\*\s*([A-Za-z_]\w*)", text):
            if self.roles.of(name[0] or name[1]) == OUT:
                element = re.search(rf"{re.escape(name[0] or name[1])}\s*\[[^\]]*\]", text)
                if not (element and self._pointers(name[0])):
                    self._read(step)

    def _pointers(self, name: str) -> bool:
        """Whether a variable is an array of pointers: indexing it reads no tensor."""
        return any(
            variable.dims and (variable.pointer or variable.type.rstrip().endswith("_ptr"))
            for _, variable in self.sources.variables.get(name.split("->")[-1].split(".")[-1], ())
        )

    def _found(
        self, rule: Rule, *evidence: Evidence, always: bool = True, hardware: bool = True
    ) -> None:
        """A finding that needs the data cache on: its switch is part of the evidence."""
        if self.switch is not None:
            evidence = (*evidence, self.switch.at())
        first = evidence[0]
        switch = self.switch.at() if self.switch is not None else first
        premises = (
            Premise("cache", switch if self.cache is CpuCache.ON else None),
            Premise("npu", first if self.npu else None),
            Premise("hardware", first if hardware else None),
            Premise("path", first if always else None),
        )
        self.state.findings.append(rule.at(*evidence, premises=premises))

    def _write(self, step: Step) -> None:
        self.state.dirty = step
        self.state.last = ("", "")

    def _read(self, step: Step) -> None:
        state = self.state
        if state.ran is not None and exclusive(state.ran, step):
            return
        if state.ran is not None and not state.invalidated and state.read is None:
            state.read = step
            state.early = state.invalidated_before

    def _maintain(self, step: Step, word: str) -> None:
        state = self.state
        role = self.roles.of(step.args[0]) if step.args else "all"
        if role == "all" or role == IN:
            if word == "invalidate" and state.dirty is not None and role == IN:
                # a write on one path only may be followed by a return, or by no inference
                always = inside(state.dirty, step)
                self._found(DIRTY_LOST, step.at(), state.dirty.at(), always=always)
            if word in ("clean", "both"):
                if role == IN and state.last == (step.name, " ".join(step.args)):
                    state.findings.append(REDUNDANT.at(step.at()))
                state.last = (step.name, " ".join(step.args))
                state.cleaned = step
                state.only_clean = step if word == "clean" else None
            state.dirty = None
        if role in ("all", OUT) and word != "clean":
            state.invalidated = True
            state.invalidated_before = step

    def _run(self, step: Step) -> None:
        state = self.state
        if state.dirty is not None and exclusive(state.dirty, step):
            state.dirty = None
        if state.dirty is not None:
            evidence = [state.dirty.at(), step.at()]
            if state.cleaned is not None:
                evidence.append(state.cleaned.at("cleaned here, before the write"))
            if not self.software_start:
                self._found(NOT_CLEANED, *evidence, hardware=self.epochs)
            state.dirty = None
        state.ran = step
        state.invalidated = False
        state.last = ("", "")

    # verdict on the output

    def _finish(self) -> None:
        state = self.state
        read, run = state.read, state.ran
        if read is None or run is None or self.software_end:
            return
        if self._unknown_invalidation():
            return
        loops = {frame.at for frame in read.loops}
        seen = False
        for step in self.program.steps:
            seen = seen or step is read
            if step.event.kind != "call" or not seen:
                continue
            outside = self.sources.resolve(step.name, step.source) is None
            if outside and operation(step.name) in ("invalidate", "both"):
                role = self.roles.of(step.args[0]) if step.args else OUT
                if role == OUT and (not loops or loops & {f.at for f in step.loops}):
                    return  # ST's order: discarded after post-processing
        if state.early is not None:
            state.findings.append(EARLY.at(read.at(), state.early.at()))
            return
        alias = self._alias()
        if alias is not None and state.only_clean is not None:
            state.findings.append(ALIAS.at(state.only_clean.at(), read.at(), alias))
            return
        self._found(STALE, read.at(), run.at(), hardware=self.epochs)

    def _unknown_invalidation(self) -> bool:
        """An invalidation of something that may be the output under another name."""
        for step in self.invalidations:
            role = self.roles.of(step.args[0]) if step.args else OUT
            outside = self.sources.resolve(step.name, step.source) is None
            word = " ".join(step.args).lower()
            if (
                outside
                and role not in (IN, OUT)
                and re.search(r"out|result|pred|score|nn_|ai_", word)
            ):
                return True
        return False

    def _alias(self) -> Evidence | None:
        for facts in networks_of(self.project):
            for one in facts.inputs:
                for other in facts.outputs:
                    if one.address is None or other.address is None:
                        continue
                    if one.address < other.address + other.size and (
                        other.address < one.address + one.size
                    ):
                        return facts.artefact.at(
                            other.line, f'.name = "{other.name}"', other.address
                        )
        return None


CHECKS = (Check("cache order", (NOT_CLEANED, DIRTY_LOST, STALE, EARLY, ALIAS, REDUNDANT), _order),)

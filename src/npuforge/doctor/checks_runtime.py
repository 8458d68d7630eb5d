"""K11 and K13: the order of runtime calls, the NPU interrupt and the operating-system layer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.c_source import Frame, constant
from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor import names
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding, Rule
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.sources import (
    ENTRIES,
    VENDOR,
    Program,
    Sources,
    Step,
    programs_of,
    sources_of,
)
from npuforge.vocab import Severity

NO_RUNTIME_INIT = Rule("K11-no-runtime-init", Severity.ERROR, cases=("A05",), rank=10)
INIT_IN_LOOP = Rule("K11-init-in-loop", Severity.ERROR, cases=("A06",), rank=20)
INIT_TWICE = Rule("K11-init-twice", Severity.WARNING, Confidence.MEDIUM, cases=("A06", "I01"))
SINGLE_EPOCH = Rule("K11-single-epoch", Severity.ERROR, cases=("A17",), rank=10)
ZERO_IS_NO_ERROR = Rule("K11-zero-is-no-error", Severity.ERROR, cases=("A17",), rank=15)
NO_RESET = Rule("K11-no-reset", Severity.ERROR, cases=("I05", "A48"), rank=10)
RESET_IN_FLIGHT = Rule("K11-reset-in-flight", Severity.WARNING, Confidence.MEDIUM)
EPOCH_CAP = Rule("K11-epoch-cap", Severity.WARNING, Confidence.MEDIUM, cases=("A17",))
RELOC_LOST = Rule("K11-relocation-lost", Severity.ERROR, cases=("A50",), rank=20)
IRQ_EARLY = Rule("K13-irq-early", Severity.ERROR, cases=("A43",), rank=20)
OWN_HANDLER = Rule("K13-own-handler", Severity.ERROR, cases=("A43",), rank=20)
OSAL_KERNEL = Rule("K13-osal-kernel", Severity.WARNING, Confidence.MEDIUM, cases=("A35",), rank=10)
BLOBS_POLLING = Rule("K13-blobs-polling", Severity.ERROR, rank=20)
IRQ_PRIORITY = Rule("K13-irq-priority", Severity.ERROR, rank=20)


def _done_known(step: Step, sources: Sources) -> bool:
    """Whether the function around an epoch call looks at DONE, or hands the value on."""
    if step.event.target == "return":
        return True
    body = sources.body(step.source, step.function)
    # a start value is no look at it
    if re.search(r"\b\w*DONE\b", re.sub(r"(?<![=!<>])=\s*\w*DONE\b", "", body)):
        return True
    target = step.event.target
    return bool(target) and re.search(rf"\breturn\b[^;]*\b{re.escape(target)}\b", body) is not None


def _epoch_loop(step: Step, program: Program) -> Frame | None:
    """The innermost loop around an epoch call, if that loop waits for the end of the network."""
    loops = step.loops
    if not loops:
        return None
    inner = loops[-1]
    target = step.event.target
    ends = re.compile(rf"DONE|\b(?:{re.escape(target) or 'DONE'})\b")
    if ends.search(inner.condition) or re.search(
        r"\b(?:ret|rt_ret|status|st|done|finished|running)\b", inner.condition, re.IGNORECASE
    ):
        return inner
    for other in program.steps:
        if other.event.kind in ("break", "return", "goto") and inner in other.frames:
            inside = other.frames[other.frames.index(inner) + 1 :]
            if any(ends.search(frame.condition) for frame in inside if frame.kind != "loop"):
                return inner
    return inner if step.event.loops and len(loops) > 1 else None


def _runs(program: Program) -> list[Step]:
    return list(program.calls(names.RUN_EPOCH))


def _sequence(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for program in programs_of(project):
        runs = _runs(program)
        yield from _runtime_init(project, sources, program)
        for run in runs:
            if not _done_known(run, sources):
                yield SINGLE_EPOCH.at(run.at())
        yield from _zero(program, runs)
        yield from _reset(program, runs)
        yield from _in_flight(program, runs)
        yield from _cap(sources, runs)
        yield from _relocation(program)


def _runtime_init(project: Project, sources: Sources, program: Program) -> Iterator[Finding]:
    inits = list(program.calls(names.RUNTIME_INIT))
    uses = [step for step in program.calls(names.RUN) if not names.MAIN_RUN.fullmatch(step.name)]
    if uses and not inits and not sources.text_mentions(names.RUNTIME_INIT):
        started = program.entry.name in ENTRIES
        if started or not any(sources.functions.get(name) for name in ENTRIES):
            yield NO_RUNTIME_INIT.at(uses[0].at())
    plain = [step for step in inits if not names.MAIN_RUN.fullmatch(step.name)]
    ends = list(program.calls(names.RUNTIME_DEINIT))
    for step in plain:
        loops = {frame.at for frame in step.loops}
        with_run = [
            u
            for u in uses
            if loops & {frame.at for frame in u.loops} and not _stays(program, step, u)
        ]
        undone = not any(loops & {frame.at for frame in end.loops} for end in ends)
        if loops and with_run and undone and not _once(step):
            yield INIT_IN_LOOP.at(step.at(), with_run[0].at())
    straight = [step for step in plain if step.thread == 0 and not _branched(step)]
    if len(straight) > 1 and not ends:
        first, second = straight[0], straight[1]
        if (first.source, first.event.line) != (second.source, second.event.line):
            yield INIT_TWICE.at(second.at(), first.at())


_FOREVER = re.compile(r"(?:wh|do) [( ]*(?:1U?|true)[ )]*|fo(?: [( ]*(?:1U?|true)?[ )]*)?")


def _stays(program: Program, init: Step, run: Step) -> bool:
    """Whether a run lies in an endless loop that an initialisation is in front of."""
    own = set(init.loops)
    return any(
        loop not in own
        and _FOREVER.fullmatch(loop.condition.strip())
        and not any(_leaves(step, loop, init) for step in program.steps)
        for loop in run.loops
    )


def _leaves(step: Step, loop: Frame, init: Step) -> bool:
    """Whether an event ends a loop of the function that an initialisation is in."""
    if loop not in step.frames or step.function is not init.function:
        return False
    if step.event.kind == "break":
        around = [frame for frame in step.frames if frame.kind in ("loop", "case")]
        return around[-1] == loop
    return step.event.kind in ("return", "goto")


def _optional(step: Step) -> bool:
    return any(frame.kind == "pp" for frame in step.frames)


def _branched(step: Step) -> bool:
    return any(frame.kind in ("if", "else", "case", "pp") for frame in step.frames)


def _once(step: Step) -> bool:
    """Whether a call in a loop is guarded by a condition of its own (first pass, error path)."""
    inside = False
    for frame in step.frames:
        if frame.kind == "loop":
            inside = True
        elif inside and frame.kind in ("if", "else", "case"):
            return True
    return False


_ZERO = r"\b{0}\s*==\s*(?:0\b|LL_ATON_OK)|!\s*{0}\b(?!\s*=)"


def _zero(program: Program, runs: list[Step]) -> Iterator[Finding]:
    """Zero, which means "call again", taken for an error."""
    seen = {step.event.target for step in runs if step.event.target.isidentifier()}
    places = {(step.source.artefact.name, step.function.line) for step in runs}
    for step in program.steps:
        if (step.source.artefact.name, step.function.line) not in places:
            continue
        if step.event.kind == "call" and not re.search(r"printf|puts|LOG|[Ee]rror", step.name):
            continue
        for frame in step.frames:
            for target in seen:
                if frame.kind == "if" and re.search(
                    _ZERO.format(re.escape(target)), frame.condition
                ):
                    words = " ".join(step.args) + step.name
                    if re.search(r"err|fail", words, re.IGNORECASE):
                        yield ZERO_IS_NO_ERROR.at(
                            step.source.at(frame.line, f"if {frame.condition}"), step.at()
                        )


def _reset(program: Program, runs: list[Step]) -> Iterator[Finding]:
    resets = list(program.calls(names.RESET))
    for run in runs:
        loop = _epoch_loop(run, program)
        around = [frame for frame in run.loops if frame != loop]
        if not around or (loop is None and not _state_machine(run)):
            continue
        places = {frame.at for frame in around}
        if any(places & {frame.at for frame in step.loops} for step in resets):
            continue
        outer = around[-1]
        yield NO_RESET.at(run.at(), line=outer.line)
        return


def _state_machine(run: Step) -> bool:
    return bool(run.event.target)


def _in_flight(program: Program, runs: list[Step]) -> Iterator[Finding]:
    for run in runs:
        loop = _epoch_loop(run, program)
        if loop is None:
            continue
        for step in program.calls(re.compile(r"LL_ATON_RT_Reset_Network")):
            if loop not in step.frames:
                continue
            inner = step.frames[step.frames.index(loop) + 1 :]
            if not any("DONE" in frame.condition for frame in inner):
                yield RESET_IN_FLIGHT.at(step.at(), run.at())


def _cap(sources: Sources, runs: list[Step]) -> Iterator[Finding]:
    for run in runs:
        loops = run.event.loops
        if not loops or not loops[-1].condition.startswith("fo"):
            continue
        condition = loops[-1].condition
        match = re.search(r"<=?\s*([\w()+* ]+?)\s*(?:&&|$|\))", condition)
        limit = constant(match[1], sources.values) if match else None
        if limit is not None and limit > 0 and "DONE" not in condition:
            yield EPOCH_CAP.at(
                run.source.at(loops[-1].line, condition.removeprefix("fo ")), limit=limit
            )


_INSTALL = re.compile(r"ll_aton_reloc_install")
_CONTEXT = re.compile(r"(?:->|\.)\s*inst_reloc\b")


def _relocation(program: Program) -> Iterator[Finding]:
    installs = [
        (index, step)
        for index, step in enumerate(program.steps)
        if (step.event.kind == "call" and _INSTALL.fullmatch(step.name))
        or (step.event.kind == "assign" and _CONTEXT.search(step.name))
    ]
    if not installs:
        return
    for index, step in enumerate(program.steps):
        if step.event.kind != "call" or step.name != "LL_ATON_RT_Init_Network":
            continue
        loops = {frame.at for frame in step.loops}
        later = any(at > index for at, _ in installs)
        in_loop = any(loops & {frame.at for frame in put.loops} for _, put in installs)
        earlier = [put for at, put in installs if at < index]
        previous = any(
            s.event.kind == "call" and s.name == step.name for s in program.steps[:index]
        )
        if earlier and not later and not in_loop and (previous or loops):
            yield RELOC_LOST.at(step.at(), earlier[-1].at())
            return


# -- K13


def _interrupts(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for program in programs_of(project):
        yield from _early(program)
        yield from _priority(project, sources, program)
    yield from _handlers(project, sources)


def _early(program: Program) -> Iterator[Finding]:
    started = False
    has_init = any(True for _ in program.calls(names.RUNTIME_INIT))
    for step in program.steps:
        if step.event.kind != "call":
            continue
        if names.RUNTIME_INIT.fullmatch(step.name):
            started = True
        if (
            not started
            and has_init
            and names.ENABLE_IRQ.fullmatch(step.name)
            and names.NPU_IRQ.search(" ".join(step.args))
        ):
            first = next(program.calls(names.RUNTIME_INIT))
            yield IRQ_EARLY.at(step.at(), first.at())
            return


def _handlers(project: Project, sources: Sources) -> Iterator[Finding]:
    if defines(project, r"LL_ATON_OSAL_(?:ZEPHYR|USER_IMPL)|LL_ATON_RT_POLLING"):
        return
    uses = sources.text_mentions(re.compile(r"LL_ATON_RT_|stai_\w+_run|MX_X_CUBE_AI"))
    for name, found in sources.functions.items():
        if not uses or not re.fullmatch(
            r"(?:NPU0|NPU_END_OF_EPOCH|CDNN0|ATON_STD)_IRQHandler", name
        ):
            continue
        for source, function in found:
            weak = re.search(r"weak", function.head, re.IGNORECASE)
            if not weak and not any(f.condition == "0" for f in function.frames):
                line = project.text(source.artefact).split("\n")[function.line - 1]
                if "weak" not in line.lower():
                    yield OWN_HANDLER.at(source.at(function.line, f"void {name}(void)"))


def defines(project: Project, pattern: str) -> Evidence | None:
    """Where a compiler option or a user header sets something matching, or ``None``."""

    def look() -> Evidence | None:
        expression = re.compile(rf"=\s*(?:{pattern})\b|#define\s+\w+\s+(?:{pattern})\b")
        for item in project.of(Kind.BUILD, Kind.C_HEADER, Kind.JSON):
            if VENDOR.search(item.name):
                continue
            match = expression.search(project.text(item))
            if match:
                return item.at(line_of(project.text(item), match.start()), match[0])
        return None

    return project.once(("defines", pattern), look)


def _osal(project: Project) -> Iterator[Finding]:
    bare = defines(project, "LL_ATON_OSAL_BARE_METAL")
    for program in programs_of(project):
        run = next(program.calls(names.RUN), None)
        if run is None:
            continue
        for kernel, pattern in names.KERNEL.items():
            start = next((s for s in program.calls(pattern) if not _optional(s)), None)
            if start is None or bare is None:
                continue
            if defines(project, f"LL_ATON_OSAL_(?:{kernel}|USER_IMPL)"):
                continue
            yield OSAL_KERNEL.at(bare, start.at(), kernel=kernel)
            return
    polling = defines(project, "LL_ATON_RT_POLLING")
    blobs = [facts for facts in networks_of(project) if facts.blobs]
    if polling is not None and blobs and not defines(project, "LL_ATON_RT_ASYNC"):
        yield BLOBS_POLLING.at(polling, blobs[0].artefact.at(None, '#include "…_ecblobs.h"'))


def _priority(project: Project, sources: Sources, program: Program) -> Iterator[Finding]:
    ceiling = _ceiling(sources)
    if ceiling is None or not defines(project, "LL_ATON_OSAL_FREERTOS"):
        return
    value, where = ceiling
    for step in program.calls(names.SET_PRIORITY):
        if len(step.args) < 2 or not names.NPU_IRQ.search(step.args[0]):
            continue
        level = constant(step.args[1], sources.values)
        if level is not None and level < value:
            yield IRQ_PRIORITY.at(step.at(), where, level=level, ceiling=value)


def _ceiling(sources: Sources) -> tuple[int, Evidence] | None:
    for source, macro in sources.macros.get("configLIBRARY_MAX_SYSCALL_INTERRUPT_PRIORITY", ()):
        value = constant(macro.body, sources.values)
        if value is not None:
            return value, source.at(macro.line, f"#define {macro.name} {macro.body}")
    for source, macro in sources.macros.get("configMAX_SYSCALL_INTERRUPT_PRIORITY", ()):
        value = constant(macro.body, sources.values)
        if value is not None:
            shown = source.at(macro.line, f"#define {macro.name} {macro.body}")
            return value >> (8 - PRIORITY_BITS), shown
    return None


PRIORITY_BITS = 4
"""Bits of an interrupt priority of the STM32N6 (__NVIC_PRIO_BITS in the device header); FreeRTOS
takes the ceiling as the register holds it, in the upper bits."""


CHECKS = (
    Check(
        "runtime sequence",
        (
            NO_RUNTIME_INIT, INIT_IN_LOOP, INIT_TWICE, SINGLE_EPOCH, ZERO_IS_NO_ERROR, NO_RESET,
            RESET_IN_FLIGHT, EPOCH_CAP, RELOC_LOST,
        ),
        _sequence,
    ),
    Check("NPU interrupt", (IRQ_EARLY, OWN_HANDLER, IRQ_PRIORITY), _interrupts),
    Check("operating-system layer", (OSAL_KERNEL, BLOBS_POLLING), _osal),
)  # fmt: skip

"""K14, K16 to K18: versions, quantisation constants and the frame against the descriptors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from npuforge.artefacts.c_source import constant
from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.buffers import IN, Effects, Roles, base_of, roles_of
from npuforge.doctor.checks_power import npu_programs
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding, Rule
from npuforge.doctor.network_facts import NetworkFacts, Tensor, dotted, networks_of
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR, Sources, Step, sources_of
from npuforge.vocab import Severity

GUARD = Rule("K14-guard", Severity.ERROR, cases=("G01",), rank=5)
REGISTER = Rule("K14-register-r9", Severity.WARNING, Confidence.MEDIUM, cases=("A49",), rank=10)
NAMES = Rule("K14-same-name", Severity.WARNING, Confidence.MEDIUM, cases=("I14",), rank=10)
DUMMY = Rule("K16-dummy-cycles", Severity.WARNING, Confidence.MEDIUM, cases=("C33",), rank=10)
LITERAL = Rule("K17-literal-scale", Severity.WARNING, cases=("D32",), rank=20)
OTHER_SCALE = Rule("K17-scale-differs", Severity.WARNING, Confidence.MEDIUM, cases=("D02",), rank=8)
BY_ORDER = Rule("K17-by-order", Severity.WARNING, Confidence.MEDIUM, cases=("D34",), rank=25)
SHARED = Rule("K17-shared-scale", Severity.WARNING, Confidence.MEDIUM, cases=("D01",), rank=15)
FRAME_SIZE = Rule("K18-frame-size", Severity.WARNING, Confidence.MEDIUM, cases=("C24",), rank=8)
FLOAT_INPUT = Rule("K18-bytes-into-float", Severity.ERROR, cases=("D27",), rank=8)
LAYOUT = Rule("K18-layout-fixed", Severity.WARNING, Confidence.MEDIUM, cases=("D14",), rank=10)


# -- K14


def _versions(project: Project) -> Iterator[Finding]:
    headers: dict[tuple[int, ...], Evidence] = {}
    for item in project.of(Kind.C_HEADER):
        if item.path.name == "ll_aton_version.h":
            text = project.text(item)
            parts = dict(re.findall(r"#define\s+LL_ATON_VERSION_(\w+)\s+\(?(\d{1,9})\b", text))
            version = tuple(int(parts[k]) for k in _PARTS if k in parts)
            headers.setdefault(version, item.at(1, "LL_ATON_VERSION " + dotted(version)))
    networks = networks_of(project)
    if not headers:
        return
    for facts in networks:
        if not facts.version or _fits(facts.version, headers):
            continue
        fits = [other for other in networks if _fits(other.version, headers)]
        if fits:
            continue  # several boards or products: cannot say which library belongs to which
        version, where = next(iter(headers.items()))
        yield GUARD.at(
            facts.artefact.at(facts.version_line, "#if LL_ATON_VERSION_MAJOR != …"), where,
            wanted=dotted(facts.version), found=dotted(version),
        )  # fmt: skip


def _fits(version: tuple[int, ...], headers: Iterable[tuple[int, ...]]) -> bool:
    return any(header[: len(version)] == version for header in headers)


_PARTS = ("MAJOR", "MINOR", "MICRO", "DEV")


def _build_mode(project: Project) -> Iterator[Finding]:
    for source, _, event in sources_of(project).all_events():
        if event.kind == "asm" and re.search(
            r"\b(?:mov|ldr|movw|movt)\w*\s+r9\b|\"r9\"", event.args[0], re.IGNORECASE
        ):
            yield REGISTER.at(source.at(event.line, event.args[0]))


def _same_names(project: Project) -> Iterator[Finding]:
    seen: dict[tuple[str, str], Artefact] = {}
    excluded = {
        PurePosixPath(name).name
        for item in project.of(Kind.BUILD)
        for names in re.findall(r'excluding="([^"]*)"', project.text(item))
        for name in names.split("|")
    }
    for facts in networks_of(project):
        if facts.artefact.path.name in excluded:
            continue
        folder = facts.artefact.name.rpartition("/")[0]
        other = seen.setdefault((folder, facts.name), facts.artefact)
        if other is not facts.artefact:
            symbol = f"LL_ATON_Set_User_Input_Buffer_{facts.name}"
            yield NAMES.at(facts.artefact.at(None, symbol), other.at(None, symbol), name=facts.name)


def _dummy(project: Project) -> Iterator[Finding]:
    values: dict[tuple[str, str], dict[str, Evidence]] = {}
    for item in project.of(Kind.C_HEADER, Kind.C_SOURCE):
        if VENDOR.search(item.name):
            continue
        for match in re.finditer(
            r"^[ \t]*#define[ \t]+(\w*DUMMY_C\w*(?:OCTAL|OPI|OCTA|DTR)\w*)[ \t]+\(?(\d+)",
            project.text(item), re.MULTILINE,
        ):  # fmt: skip
            line = line_of(project.text(item), match.start())
            part = re.match(
                r"mx\w+?_|aps\w+?_|mt\d\w+?_|is25\w+?_|w\d+\w+?_", item.path.name.lower()
            )
            key = (part[0] if part else "", match[1])
            values.setdefault(key, {}).setdefault(match[2], item.at(line, match[0]))
    for (_, name), found in values.items():
        if len(found) > 1:
            yield DUMMY.at(*found.values(), name=name, values=", ".join(sorted(found)))


# -- K17


_SCALE_NAME = re.compile(r"scale", re.IGNORECASE)
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?f?\b")


def _literals(project: Project, sources: Sources) -> Iterator[tuple[str, float, Evidence]]:
    for name, found in sources.macros.items():
        for source, macro in found:
            if _SCALE_NAME.search(name) and macro.params is None:
                for text in _FLOAT.findall(macro.body)[:1]:
                    where = source.at(macro.line, f"#define {name} {macro.body}")
                    yield name, float(text.rstrip("f")), where
    for name, variables in sources.variables.items():
        for source, variable in variables:
            if _SCALE_NAME.search(name) and variable.initial:
                for text in _FLOAT.findall(variable.initial)[:4]:
                    where = source.at(variable.line, f"{name} = {variable.initial}")
                    yield name, float(text.rstrip("f")), where


def _scales(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    networks = networks_of(project)
    outputs = [t for facts in networks for t in facts.outputs if t.scale is not None]
    tensors = [t for facts in networks for t in (*facts.inputs, *facts.outputs) if t.scale]
    for name, value, where in _literals(project, sources):
        if value <= 0 or VENDOR.search(where.file):
            continue
        wanted = _tensor_named(name, networks)
        if wanted is not None and wanted.scale and not _close(value, wanted.scale):
            facts = next(f for f in networks if wanted in f.outputs or wanted in f.inputs)
            yield OTHER_SCALE.at(
                where, facts.artefact.at(wanted.line, wanted.name),
                literal=value, scale=wanted.scale, tensor=wanted.name,
            )  # fmt: skip
            continue
        if tensors and any(_close(value, t.scale or 0) for t in tensors):
            tensor = next(t for t in tensors if _close(value, t.scale or 0))
            facts = next(f for f in networks if tensor in f.outputs or tensor in f.inputs)
            yield LITERAL.at(where, facts.artefact.at(tensor.line, tensor.name), literal=value)
    if outputs:
        yield from _shared(networks)


def _close(a: float, b: float) -> bool:
    return b > 0 and abs(a - b) <= 2e-4 * b


def _tensor_named(name: str, networks: tuple[NetworkFacts, ...]) -> Tensor | None:
    """The output a constant's name means: OUT0_SCALE, output_1_scale, SCALE_OUT_0."""
    match = re.search(r"out(?:put)?_?(\d)(?!\d)", name, re.IGNORECASE)
    if match and len(networks) == 1 and int(match[1]) < len(networks[0].outputs):
        return networks[0].outputs[int(match[1])]
    return None


def _shared(networks: tuple[NetworkFacts, ...]) -> Iterator[Finding]:
    """A detection head in one int8 tensor whose step is larger than a score."""
    for facts in networks:
        for tensor in facts.outputs:
            if tensor.bits == 8 and tensor.scale is not None and tensor.scale > 0.5:
                channels = [d for d in tensor.shape if d > 4]
                if len(channels) >= 2:
                    yield SHARED.at(
                        facts.artefact.at(tensor.line, tensor.name), scale=tensor.scale,
                        tensor=tensor.name,
                    )  # fmt: skip


_ORDER = re.compile(
    r"(?:(?:buffer|out)[\w\[\]]*(?:_size|_len|\.size|->size|_bytes|\]\.size)|LL_Buffer_len\([^)]*\)|"
    r"offset_end[^=]*offset_start)[^=]*==\s*(\w+)", re.IGNORECASE,
)  # fmt: skip


def _by_order(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for source, _, event in sources.all_events():
        if event.kind != "assign" or not re.search(r"\bout\w*|\bbuf\w*", event.args[1]):
            continue
        if re.search(r"(?:size|len|length|bytes)$", event.args[1]):
            continue  # a packet or a frame by its size, not an output
        for frame in event.frames:
            match = _ORDER.search(frame.condition) if frame.kind in ("if", "else") else None
            if match and (constant(match[1], sources.values) or 0) > 16:
                yield BY_ORDER.at(source.at(frame.line, f"if {frame.condition}"))
                break


# -- K18


def _frames(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    networks = networks_of(project)
    if len(networks) != 1:
        return
    facts = networks[0]
    if len(facts.inputs) != 1:
        return
    tensor = facts.inputs[0]
    place = facts.artefact.at(tensor.line, tensor.name, tensor.address)
    for program, _ in npu_programs(project):
        roles = roles_of(project, program)
        for step in program.calls(re.compile(r"memcpy|memmove|\w*Pipe\w*Start\w*|\w*PIPE_Start")):
            if roles.of(step.args[0] if step.args else "") != IN:
                pipe = next((a for a in step.args if roles.of(a) == IN), None)
                if pipe is None:
                    continue
            if step.name.startswith("mem"):
                size = constant(step.args[2], sources.values) if len(step.args) > 2 else None
                if size is not None and size != tensor.size and size > tensor.size // 4:
                    yield FRAME_SIZE.at(step.at(), place, given=size, wanted=tensor.size)
            elif tensor.type.startswith("FLOAT"):
                given = next(base_of(a) for a in step.args if roles.of(a) == IN)
                if not _converted(project, given):
                    yield FLOAT_INPUT.at(step.at(), place)
        break
    yield from _macros(sources, facts, tensor, place)


def _converted(project: Project, given: str) -> bool:
    """Whether the CPU writes into the input too: bytes may become floats in place."""
    sources = sources_of(project)
    effects = project.once("effects", lambda: Effects(sources))
    if given.isidentifier() and sources.text_mentions(
        re.compile(rf"\(\s*float\w*\s*\*\s*\)\s*&?\s*{given}\b")
    ):
        return True
    for source in sources.files:
        for function in source.code.functions:
            roles = Roles()
            for event in function.events:
                roles.learn(Step(event, source, function, event.frames, 0, None))
                if event.kind == "assign" and re.search(r"[\[*]", event.name):
                    pointer = event.args[0] == "=" and base_of(event.name) == given
                    if not pointer and roles.of(event.name) in (IN, given):
                        return True
                elif event.kind == "call":
                    _, writes = effects.of_call(event, source)
                    given_to = [a for at, a in enumerate(event.args) if at in writes]
                    if any(roles.of(argument) in (IN, given) for argument in given_to):
                        return True
    return False


_WIDTH = re.compile(r"(?:NN|MODEL|NETWORK|AI)_?(?:IN(?:PUT)?_)?WIDTH", re.IGNORECASE)
_HEIGHT = re.compile(r"(?:NN|MODEL|NETWORK|AI)_?(?:IN(?:PUT)?_)?HEIGHT", re.IGNORECASE)


def _macros(
    sources: Sources, facts: NetworkFacts, tensor: Tensor, place: Evidence
) -> Iterator[Finding]:
    """Width and height macros of the pipeline against the input's shape."""
    sizes: dict[str, tuple[int, Evidence]] = {}
    for word, pattern in (("width", _WIDTH), ("height", _HEIGHT)):
        for name, found in sources.macros.items():
            if pattern.fullmatch(name) and len(found) == 1:
                source, macro = found[0]
                value = constant(macro.body, sources.values)
                if value:
                    sizes[word] = (value, source.at(macro.line, f"#define {name} {macro.body}"))
    if len(sizes) < 2 or len(tensor.shape) < 3:
        return
    width, height = sizes["width"][0], sizes["height"][0]
    dims = [d for d in tensor.shape if d > 1]
    if width not in dims or height not in dims:
        # the frame may still be resized on its way
        yield FRAME_SIZE.at(
            sizes["width"][1], place, severity=Severity.WARNING, given=f"{width}x{height}",
            wanted="x".join(map(str, tensor.shape)),
        )  # fmt: skip


def _layout(project: Project) -> Iterator[Finding]:
    """An index rows·columns that is the transpose of the input's shape."""
    sources = sources_of(project)
    networks = networks_of(project)
    if len(networks) != 1 or len(networks[0].inputs) != 1:
        return
    facts, tensor = networks[0], networks[0].inputs[0]
    dims = [d for d in tensor.shape if d > 1]
    if len(dims) != 2 or dims[0] == dims[1]:
        return
    for source, _, event in sources.all_events():
        if event.kind != "assign" or "[" not in event.name:
            continue
        match = re.search(r"\[\s*\(?\w+\s*\*\s*(\w+)\)?\s*\+\s*\w+\s*\]", event.name)
        if match is None:
            continue
        stride = constant(match[1], sources.values)
        if stride == dims[0] and re.search(r"in|feat|buf", event.name):
            yield LAYOUT.at(
                source.at(event.line, event.name), facts.artefact.at(tensor.line, tensor.name),
                stride=stride, shape="x".join(map(str, tensor.shape)),
            )  # fmt: skip
            return


CHECKS = (
    Check("versions", (GUARD,), _versions),
    Check("build mode", (REGISTER,), _build_mode),
    Check("network names", (NAMES,), _same_names),
    Check("flash dummy cycles", (DUMMY,), _dummy),
    Check("scales", (LITERAL, OTHER_SCALE, SHARED), _scales),
    Check("outputs by order", (BY_ORDER,), _by_order),
    Check("input frame", (FRAME_SIZE, FLOAT_INPUT), _frames),
    Check("input layout", (LAYOUT,), _layout),
)

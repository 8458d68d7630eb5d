"""K08 to K10: what cache helpers really do, alignment and lifetime of buffers, the NPU's cache."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.c_source import Event, Function, Variable, constant
from npuforge.artefacts.mpool import read_mpool
from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor import names
from npuforge.doctor.buffers import IN, OUT, Roles, base_of, roles_of
from npuforge.doctor.checks_cache import operation
from npuforge.doctor.checks_power import npu_programs
from npuforge.doctor.cpu_cache import CpuCache, cache_anywhere, cache_in
from npuforge.doctor.findings import Check, Confidence, Finding, Premise, Rule
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import Program, Source, Sources, Step, sources_of
from npuforge.doctor.stm32n6 import bank_of
from npuforge.vocab import Severity

NO_EFFECT = Rule("K08-no-effect", Severity.ERROR, cases=("B16",), rank=10)
SIZE_FOR_END = Rule("K08-size-for-end", Severity.ERROR, cases=("B16",), rank=15)
END_FOR_SIZE = Rule("K08-end-for-size", Severity.ERROR, rank=15)
ALL_DROPPED = Rule("K08-all-dropped", Severity.ERROR, cases=("B09",), rank=15)
UNALIGNED = Rule("K09-unaligned", Severity.WARNING, cases=("B01",), rank=30)
PARTIAL = Rule("K09-partial-line", Severity.WARNING, Confidence.MEDIUM)
STACK = Rule("K09-stack-buffer", Severity.ERROR, rank=20)
FREED = Rule("K09-freed-early", Severity.ERROR, rank=20)
NPU_CACHE = Rule("K10-npu-cache-stale", Severity.WARNING, cases=("B15",), rank=10)
INTERNAL = Rule("K10-internal-cacheable", Severity.WARNING, cases=("B08", "B07"), rank=10)

LINE = 32
"""Bytes of a line of the Cortex-M55's data cache."""
_HELPER = re.compile(
    r"mcu_cache_(?:clean|invalidate|clean_invalidate)(?:_range)?|LL_ATON_Cache_MCU_\w+|"
    r"ethosu_(?:flush|invalidate)_dcache|\w*[Dd][Cc]ache_(?:clean|flush|invalidate)\w*|"
    r"\w*(?:[Cc]lean|[Ff]lush|[Ii]nvalidate)\w*D[Cc]ache\w*"
)
_RANGE = re.compile(r"mcu_cache_(?:clean|invalidate|clean_invalidate)_range")
_REGISTER = re.compile(r"SCB\s*->\s*DC(?:C|I)\w+")


def _operates(sources: Sources, source: Source, function: Function, depth: int = 0) -> bool:
    for event in function.events:
        if not _live(sources, event):
            continue
        if event.kind == "assign" and _REGISTER.search(event.name):
            return True
        if event.kind == "asm" and re.search(r"\bmcr\b|\bdc\b", event.args[0], re.IGNORECASE):
            return True
        if event.kind != "call" or depth > 8:
            continue
        found = sources.resolve(event.name, source) or sources.macro_body(event.name, source)
        if found is not None and found[1] is not function:
            if _operates(sources, *found, depth + 1):
                return True
        elif (
            operation(event.name)
            or re.match(r"(?:HAL_|LL_|sys_cache|SCB_)", event.name)
            or (found is None and re.search(r"cache", event.name, re.IGNORECASE))
        ):
            return True
    return False


def _live(sources: Sources, event: Event) -> bool:
    """Whether the preprocessor conditions around an event can hold in this project."""
    for frame in event.frames:
        match = re.match(r"defined\((\w+)\)$", frame.condition) if frame.kind == "pp" else None
        if match is None:
            match = re.match(r"^(\w+)$", frame.condition) if frame.kind == "pp" else None
        if match is None or match[1] == "else":
            continue
        name = match[1]
        if not re.search(r"CACHE_PRESENT|__ARM|__GNUC__|STM32", name) and not sources.defines(name):
            return False
    return True


def _helpers(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    if not cache_anywhere(project):
        return
    sure = any(cache_in(project, one)[0] is CpuCache.ON for one, _ in npu_programs(project))
    for name, found in sources.functions.items():
        if not _HELPER.fullmatch(name):
            continue
        for source, function in found:
            here = source.at(function.line, name)
            if not _operates(sources, source, function):
                yield NO_EFFECT.at(
                    source.at(function.line, f"{function.head} {name}"),
                    premises=(
                        Premise("cache", here if sure else None),
                        Premise("linked", here if _used(project, name) else None),
                    ),
                    name=name,
                )
            elif _RANGE.fullmatch(name) and len(function.params) == 2:
                yield from _pair(sources, source, function)
            if name.startswith("ethosu_"):
                yield from _whole(source, function)


def _used(project: Project, name: str) -> bool:
    """Whether a cache function ends up in the program: by its map, else by who calls it.

    Functions that the linker dropped stand in front of the memory configuration. Without a map,
    the vendor's runtime counts as a caller of the functions it expects.
    """
    maps = [project.text(item).partition("\nMemory Configuration") for item in project.of(Kind.MAP)]
    maps = [parts for parts in maps if f".{name}" in parts[0] or f".{name}" in parts[2]]
    if maps:
        return any(f".{name}" in linked for _, _, linked in maps)
    return bool(re.match(r"mcu_cache_|LL_ATON_Cache|ethosu_", name)) or any(
        step.event.kind == "call" and step.name == name
        for program, _ in npu_programs(project)
        for step in program.steps
    )


def _pair(sources: Sources, source: Source, function: Function) -> Iterator[Finding]:
    """The library passes (start, end); a second parameter used as a size is wrong."""
    second = function.params[1]
    for event in function.events:
        if event.kind != "call" or not re.fullmatch(r"SCB_\w+_by_Addr", event.name):
            continue
        if len(event.args) == 2 and base_of(event.args[1]) == second and "-" not in event.args[1]:
            yield SIZE_FOR_END.at(
                source.at(event.line, event.text),
                source.at(function.line, f"{function.name}({', '.join(function.types)})"),
            )
            return


def _whole(source: Source, function: Function) -> Iterator[Finding]:
    for event in function.events:
        if event.kind == "call" and re.fullmatch(r"SCB_InvalidateDCache", event.name):
            yield ALL_DROPPED.at(
                source.at(event.line, f"{event.name}()"),
                source.at(function.line, f"{function.head} {function.name}"),
            )


def _takes_size(sources: Sources, source: Source, event: Event) -> bool:
    """Whether the project's own function of that name takes a size, and its calls are meant so."""
    found = sources.resolve(event.name, source)
    if found is None or len(found[1].params) != 2:
        return False
    return re.search(r"size|len|bytes|count", found[1].params[1], re.IGNORECASE) is not None


def _arguments(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for source, _, event in sources.all_events():
        if event.kind != "call" or len(event.args) != 2:
            continue
        place = source.at(event.line, event.text)
        second = event.args[1]
        if _RANGE.fullmatch(event.name) and not _takes_size(sources, source, event):
            length = re.search(r"\bsizeof\b|size|len\b|length|bytes|_LEN\b", second, re.IGNORECASE)
            ends = "+" in second or re.search(r"end|limit|last", second, re.IGNORECASE)
            number = constant(second, sources.values)
            if (length and not ends) or (number is not None and number < 0x1000_0000):
                yield SIZE_FOR_END.at(place)
        elif re.fullmatch(r"SCB_\w+DCache_by_Addr", event.name):
            first = base_of(event.args[0])
            bare = re.sub(r"\bsizeof\s*(?:\([^()]*\)|\w+)", "sizeof", second)
            ends = re.search(rf"\b{re.escape(first)}\b[^-]*\+", bare) if first else None
            if (ends and "-" not in bare) or re.fullmatch(
                r"(?:\(\w+\s*\*?\)\s*)?\w*(?:end|END)_?(?:addr(?:ess)?)?", second
            ):
                yield END_FOR_SIZE.at(place)


# -- alignment and lifetime


def _alignment(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    if not cache_anywhere(project):
        return
    done: set[tuple[str, int]] = set()
    for source, function, event in sources.all_events():
        word = operation(event.name) if event.kind == "call" and event.args else ""
        if word not in ("invalidate", "both") or sources.resolve(event.name, source) is not None:
            continue
        variable = _variable(sources, source, function, event.args[0])
        if variable is None or not variable.dims or variable.pointer:
            continue
        place = source.at(event.line, event.text)
        key = (source.artefact.name, variable.line)
        if key in done or word == "both":
            continue
        aligned = variable.aligned
        if aligned is None or (isinstance(aligned, int) and aligned < LINE):
            done.add(key)
            yield UNALIGNED.at(
                source.at(variable.line, f"{variable.type} {variable.name}"), place,
                name=variable.name,
            )  # fmt: skip
            continue
        size = _size(sources, variable)
        if size is not None and size % LINE:
            done.add(key)
            yield PARTIAL.at(
                source.at(variable.line, f"{variable.type} {variable.name}"), place,
                name=variable.name, size=size, rest=size % LINE,
            )  # fmt: skip


_WIDTH = re.compile(r"\b(u?int(8|16|32|64)_t|char|float|float32_t|double)\b")


def _size(sources: Sources, variable: Variable) -> int | None:
    match = _WIDTH.search(variable.type)
    if match is None:
        return None
    size = int(match[2]) // 8 if match[2] else {"char": 1, "double": 8}.get(match[1], 4)
    for text in variable.dims:
        count = constant(text, sources.values)
        if count is None:
            return None
        size *= count
    return size


def _variable(
    sources: Sources, source: Source, function: Function | None, text: str
) -> Variable | None:
    """The array whose start an argument is; ``None`` for pointers, elements and unknown names."""
    if "+" in text or ("[" in text and not re.search(r"&\s*\w+\s*\[0\]", text)):
        return None
    name = base_of(text)
    found = [
        pair
        for pair in sources.variables.get(name, ())
        if pair[0] is source
        and pair[1].function in ("", function.name if function is not None else "")
    ]
    found.sort(key=lambda pair: pair[1].function == "")
    return found[0][1] if found else None


def _lifetime(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for program, _ in npu_programs(project):
        yield from _stack(sources, program)
        yield from _freed(program, roles_of(project, program))


def _stack(sources: Sources, program: Program) -> Iterator[Finding]:
    for step in program.calls(names.SET_USER):
        if len(step.args) < 2 or step.function.name in ("main", "app_main"):
            continue
        argument = step.event.args[1]
        variable = _variable(sources, step.source, step.function, argument)
        if variable is None or variable.static or variable.pointer or not variable.dims:
            continue
        if re.search(r"\*|_ptr\b", variable.type):
            continue  # a list of addresses, which the runtime copies
        if any(_inside(run, step.function) for run in program.calls(names.RUN)):
            continue
        yield STACK.at(
            step.at(), step.source.at(variable.line, f"{variable.type} {variable.name}"),
            name=variable.name,
        )  # fmt: skip


def _inside(step: Step | None, function: Function) -> bool:
    while step is not None:
        if step.function is function:
            return True
        step = step.outer
    return False


def _freed(program: Program, roles: Roles) -> Iterator[Finding]:
    bound: dict[str, Step] = {}
    freed: dict[str, Step] = {}
    for step in program.steps:
        if step.event.kind != "call":
            continue
        if names.SET_USER.fullmatch(step.name) and len(step.args) > 1:
            bound[base_of(step.args[1])] = step
            freed.pop(base_of(step.args[1]), None)
        elif re.fullmatch(r"free|vPortFree|tx_byte_release|k_free", step.name) and step.args:
            name = base_of(step.args[0])
            if name in bound or roles.of(name) in (IN, OUT):
                freed[name] = step
        elif names.RUN.fullmatch(step.name) and freed:
            name, where = next(iter(freed.items()))
            yield FREED.at(where.at(), step.at(), name=name)
            return


# -- the NPU's own cache


def _npu_cache(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for facts in networks_of(project):
        cacheable = [p for p in facts.pools if p.cacheable and not p.read_only]
        for pool in facts.pools:
            bank = bank_of(pool.base)
            if pool.cacheable and bank and not bank.external and pool.size and not pool.virtual:
                yield INTERNAL.at(
                    facts.artefact.at(pool.line, f"name={pool.name} cacheable=ON", pool.base),
                    pool=pool.name, bank=bank.name,
                )  # fmt: skip
        for tensor in facts.inputs:
            pool_of = next(
                (
                    p
                    for p in cacheable
                    if tensor.address is not None and p.base <= tensor.address < p.base + p.size
                ),
                None,
            )
            if pool_of is None or sources.text_mentions(_NPU_OPERATION):
                continue
            for _, run in npu_programs(project)[:1]:
                yield NPU_CACHE.at(
                    facts.artefact.at(tensor.line, f'.name = "{tensor.name}"', tensor.address),
                    run.at(),
                    pool=pool_of.name,
                )
    for item, pools in project.parsed(mpool_of, Kind.MPOOL):
        yield from _declared(project, item, pools)


_NPU_OPERATION = re.compile(
    r"npu_cache_(?:clean|invalidate)\w*\s*\(|HAL_CACHEAXI_(?:Clean|Invalid)\w*\s*\(|"
    r"LL_ATON_Cache_NPU_\w+\s*\(|stai_ext_cache_npu\w*\s*\("
)


def mpool_of(artefact: Artefact, text: str) -> tuple[tuple[str, int, bool], ...]:
    """Name, address and cacheable flag of the absolute pools in use; reader for a project."""
    file = read_mpool(text.encode(), artefact.name)
    return tuple(
        (pool.name, pool.address, pool.cacheable)
        for pool in file.pools
        if pool.size and pool.absolute
    )


def _declared(
    project: Project, item: Artefact, pools: tuple[tuple[str, int, bool], ...]
) -> Iterator[Finding]:
    text = project.text(item)
    for name, base, cacheable in pools:
        bank = bank_of(base)
        if cacheable and bank is not None and not bank.external:
            at = text.find(f'"{name}"')
            line = line_of(text, max(at, 0))
            yield INTERNAL.at(
                item.at(line, f'"{name}": CACHEABLE_ON', base), pool=name, bank=bank.name
            )


CHECKS = (
    Check("cache helpers", (NO_EFFECT, SIZE_FOR_END, ALL_DROPPED), _helpers),
    Check("cache arguments", (SIZE_FOR_END, END_FOR_SIZE), _arguments),
    Check("cache alignment", (UNALIGNED, PARTIAL), _alignment),
    Check("buffer lifetime", (STACK, FREED), _lifetime),
    Check("NPU cache", (NPU_CACHE, INTERNAL), _npu_cache),
)

"""The C sources of a project as programs: what runs from each entry point, in order.

A *program* starts at a ``main``. Its trace is the sequence of events with calls to the project's
own functions and macros expanded, arguments substituted and loops kept as frames; the tasks that
``main`` creates follow it. Vendor code (HAL, CMSIS, middleware) is not expanded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from npuforge.artefacts.c_source import CSource, Event, Frame, Function, Macro, Variable, read_c
from npuforge.artefacts.recognise import Kind
from npuforge.doctor.findings import Evidence
from npuforge.doctor.project import Artefact, Project

MAX_PARSED = 24 << 20
"""Bytes of C text parsed in one project."""
MAX_FILE = 1 << 20
"""Longer files are data tables; they are searched as text only."""
MAX_TRACE = 20_000
MAX_STEPS = 200_000
"""Events of all programs together; those from a start-up come first."""
MAX_CALL_DEPTH = 14

VENDOR = re.compile(
    r"(?:^|/)(?:STM32N6xx_HAL_Driver|CMSIS\w*|ll_aton|Npu(?=/(?:ll_aton|Devices))|AI_Runtime|stedgeai-lib|Third_?Party|"
    r"FreeRTOS[\w-]*|threadx[\w-]*|usbx|netxduo|filex|levelx|USB_Device|STM32_USB\w*|lvgl|Components|Utilities|"
    r"TouchGFX|touchgfx|ISP_Library|STM32_ISP_Library|STM32_ExtMem_Manager|mbedtls|lwip|LwIP|"
    r"uvcl|openblt|tinyusb|zephyr|tensorflow|tflite-micro|edge-impulse-sdk|arm_math|CMSIS-DSP|"
    r"NPU_Validation|AI_Validation|Middlewares/(?:ST|AI)|st_ai_ws|st_ai_output|SystemPerformance|opencv|littlefs|FatFs|wolfssl|nuttx|"
    r"mtk3bsp2|mtkernel_3|stm32-mw-\w+|Camera_Middleware|ThirdParty|cmsis_\w+|STM32Cube_FW\w*|"
    r"(?:stai|ll_aton|ll_sw)_\w+\.[ch])(?:/|$)",
    re.IGNORECASE,
)
_PORT = re.compile(r"(?:/STM32N6\w*|(?<!/Devices)/(?!STM32)\w+)/mcu_cache\.c$", re.IGNORECASE)
"""The functions that the runtime calls for the CPU's cache: a port, to be checked like own code."""
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*+\*/|//[^\n]*")
_WORDS_OF_INTEREST = (
    "ll_aton", "ll_buffer", "stai_", "ramcfg", "risaf", "rimc", "risc_", "xspi", "bsec_",
    "otp", "vtor", "ethosu", "pp_params", "postprocess", "xtaskcreate", "tx_thread_create",
    "osthread", "nvic_enableirq", "sramsd", "camerapipeline", "_sbrk", "dwt", "hardfault_handler",
    "app_main", "extmem", "inference", "network", "hal_inctick", "float16", "configlibrary_max",
    "configmax_syscall",
    "tx_byte_pool", "mpu_", "zeropoint", "zero_point", "dcache", "d-cache",
)  # fmt: skip
_PATTERNS_OF_INTEREST = tuple(
    (gate, re.compile(pattern))
    for gate, pattern in (
        ("ai_", r"\bai_\w{1,80}?_(?:run|init|create)"),
        ("cache", r"scb_\w{0,40}cache|[mn][cp]u_cache_"),
        ("rcc_", r"rcc_(?:npu|axisram|cacheaxi|ramcfg|xspi|rif|risaf)"),
        ("npu", r"\bnpu\d?_"),
        ("int main", r"\bint main\b"),
        ("0x", r"0x(?:34[0-9a-f]{6}|[79][0-9a-f]{7})"),
        ("nn_", r"nn_\w{0,60}(?:width|height)"),
        ("_end", r"&\s*_end\b"),
    )
)
"""A literal without which the pattern cannot match, and the pattern, both for lower case."""


def interesting(text: str) -> bool:
    """Whether a C file says anything that a check looks at."""
    low = text.lower()
    return any(word in low for word in _WORDS_OF_INTEREST) or any(
        gate in low and pattern.search(low) is not None for gate, pattern in _PATTERNS_OF_INTEREST
    )


_BY_NAME = re.compile(
    r"(?:HAL|LL|MX|BSP|stai|ll|tx|os|npu|mcu|ARM)_\w+|v[A-Z]\w+|_\w+|SystemInit\w*|"
    r"\w*(?:Handler|Callback|Cb|Hook|_cb|MspInit|MspDeInit|_isr|ISR|constructor)",
)
"""Functions that something outside of the sources calls by their name."""
_SETS_UP = re.compile(r"_CLK_|EnableClock|RAMCFG|Mapped|RIMC|RISC|RISAF|RIFSC|ENS?R\b|EXTMEM_|XSPI")
_TYPE = re.compile(r"[ \t]*(?:(?!(?:return|else|do|case)\b)[A-Za-z_]\w*[ \t*]+)+")
"""What stands before the name of a function where it is declared."""
_CPP = re.compile(r"\.(?:cpp|cc|hpp|cxx|hh)$", re.IGNORECASE)
PRIMITIVE = re.compile(
    r"LL_ATON\w*|LL_Buffer\w*|stai_\w+|SCB_\w*Cache\w*|[mn][cp]u_cache\w*|\w*D[Cc]ache\w*|"
    r"__HAL_RCC_\w+|HAL_RAMCFG\w*|HAL_RIF\w*|BSP_XSPI\w*|HAL_XSPI\w*|EXTMEM\w*|MX\d+\w*Map\w*|"
    r"APS256\w*|(?:HAL|LL|ARM)_MPU\w*|mem(?:cpy|set|move)|HAL_NVIC\w*|NVIC\w*|HAL_BSEC\w*|HAL_CACHEAXI\w*|ethosu\w*|"
    r"HAL_DMA\w*|HAL_DCMIPP\w*|CMW_\w+|tx_\w+|x(?:Task|Queue|Semaphore)\w+|os[A-Z]\w+|"
    r"v(?:Task|Queue)\w+|HAL_Delay|\w*[Pp]ost_?[Pp]rocess\w*|ai_\w+|__DSB|__WFE|__WFI|ll_aton\w+"
)
_REGISTER = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\s*->|inst_reloc")
_TASK_CREATORS = {
    "xTaskCreate": 0, "xTaskCreateStatic": 0, "osThreadNew": 0, "tx_thread_create": 2,
    "osThreadCreate": 0, "k_thread_create": 3, "xTaskCreatePinnedToCore": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A parsed file."""

    artefact: Artefact
    code: CSource

    def at(self, line: int | None, token: str = "", note: str = "") -> Evidence:
        """Evidence in this file."""
        return self.artefact.at(line, token, note=note)


@dataclass(frozen=True)
class Step:
    """An event of a program's trace.

    Attributes:
        event: the event, with names and arguments as written in its own function, macro
            parameters and function parameters replaced by the caller's arguments.
        source: file it stands in.
        function: function it stands in.
        frames: control structures around it, those of the callers first.
        thread: 0 for main, then tasks.
        outer: the call that led here, in the caller, or ``None``.
    """

    event: Event
    source: Source
    function: Function
    frames: tuple[Frame, ...]
    thread: int
    outer: Step | None

    @property
    def name(self) -> str:
        """Name of the event."""
        return self.event.name

    @property
    def args(self) -> tuple[str, ...]:
        """Arguments of the event."""
        return self.event.args

    @property
    def loops(self) -> tuple[Frame, ...]:
        """Loops around it, outermost first."""
        return tuple(frame for frame in self.frames if frame.kind == "loop")

    def at(self, note: str = "") -> Evidence:
        """Evidence for this step."""
        via, outer = [], self.outer
        while outer is not None:
            via.append((outer.source.artefact.name, outer.event.line))
            outer = outer.outer
        return replace(self.source.at(self.event.line, self.event.text, note), via=tuple(via))


@dataclass(frozen=True)
class Program:
    """A ``main`` (or a lone function) and everything that runs from it."""

    source: Source
    entry: Function
    steps: tuple[Step, ...]

    def calls(self, pattern: re.Pattern[str]) -> Iterator[Step]:
        """Calls whose whole name matches, in order."""
        return (s for s in self.steps if s.event.kind == "call" and pattern.fullmatch(s.event.name))


class Sources:
    """All parsed C files of a project, with name resolution."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.files: list[Source] = []
        budget = MAX_PARSED
        for item in project.of(Kind.C_SOURCE, Kind.C_HEADER):
            if VENDOR.search(item.name) and not _PORT.search(item.name):
                continue
            if item.size > MAX_FILE or item.size > budget:
                continue
            text = project.text(item)
            if interesting(text):
                budget -= item.size
                self.files.append(Source(item, read_c(text)))
        self._rest(project, budget)
        self.functions: dict[str, list[tuple[Source, Function]]] = defaultdict(list)
        self.macros: dict[str, list[tuple[Source, Macro]]] = defaultdict(list)
        self.variables: dict[str, list[tuple[Source, Variable]]] = defaultdict(list)
        for source in self.files:
            for function in source.code.functions:
                self.functions[function.name].append((source, function))
            for macro in source.code.macros:
                self.macros[macro.name].append((source, macro))
            for variable in source.code.variables:
                self.variables[variable.name].append((source, variable))
        self._reach: dict[tuple[str, int, str], bool] = {}
        self._bodies: dict[tuple[str, int], Function | None] = {}
        self._resolved: dict[tuple[str, str], tuple[Source, Function] | None] = {}

    def _rest(self, project: Project, budget: int) -> None:
        """Also parse files that define or call what the interesting files call or define."""
        names = {
            name
            for source in self.files
            for function in source.code.functions
            for name in (function.name, *(event.name for event in function.calls))
        }
        done = {source.artefact.path for source in self.files}
        for item in project.of(Kind.C_SOURCE):
            if item.path in done or VENDOR.search(item.name) or item.size > min(MAX_FILE, budget):
                continue
            words = set(re.findall(r"\b([A-Za-z_]\w{3,})\s*\(", project.text(item)))
            if words & names:
                budget -= item.size
                self.files.append(Source(item, read_c(project.text(item))))

    def reaches(self, source: Source, function: Function) -> bool:
        """Whether a function does anything that a check looks at, itself or in what it calls."""
        key = (source.artefact.name, function.line, function.name)
        if key not in self._reach:
            self._reach[key] = False  # recursion adds nothing
            self._reach[key] = any(self._counts(source, event) for event in function.events)
        return self._reach[key]

    def _counts(self, source: Source, event: Event) -> bool:
        if event.kind == "call":
            if PRIMITIVE.fullmatch(event.name) or event.name in _TASK_CREATORS:
                return True
            found = self.resolve(event.name, source) or self.macro_body(event.name, source)
            return found is not None and self.reaches(*found)
        return event.kind == "asm" or (
            event.kind == "assign" and _REGISTER.search(event.name) is not None
        )

    @property
    def values(self) -> Mapping[str, str]:
        """Bodies of object-like macros by name; a name with several bodies is left out."""

        def make() -> Mapping[str, str]:
            values: dict[str, str] = {}
            for name, found in self.macros.items():
                bodies = {macro.body for _, macro in found if macro.params is None and macro.body}
                if len(bodies) == 1:
                    values[name] = next(iter(bodies))
            return values

        return self.project.once("macro_values", make)

    def resolve(self, name: str, near: Source) -> tuple[Source, Function] | None:
        """The definition a call means: the file's own, else the nearest in the tree of folders."""
        if name not in self.functions:
            return self._method(name, near)
        key = (name, near.artefact.name)
        if key not in self._resolved:
            self._resolved[key] = self._nearest(name, near)
        return self._resolved[key]

    def _method(self, name: str, near: Source) -> tuple[Source, Function] | None:
        """A call of a C++ method, or of a function in a namespace, where only one has its name."""
        tail = re.split(r"\.|->|::", name)[-1]
        if tail == name or not _CPP.search(near.artefact.name):
            return None
        found = [
            pair for pair in self.functions.get(tail, ()) if _CPP.search(pair[0].artefact.name)
        ]
        return found[0] if len(found) == 1 else None

    def _nearest(self, name: str, near: Source) -> tuple[Source, Function] | None:
        found = self.functions[name]
        for pair in found:
            if pair[0] is near:
                return pair
        found = [pair for pair in found if not pair[1].static or _is_header(pair[0])]
        if not found:
            return None
        here = near.artefact.name.split("/")
        return max(found, key=lambda pair: _shared(here, pair[0].artefact.name))

    def macro_body(self, name: str, near: Source) -> tuple[Source, Function] | None:
        """A function-like macro as a function."""
        found = [pair for pair in self.macros.get(name, ()) if pair[1].params is not None]
        if not found:
            return None
        here = near.artefact.name.split("/")
        source, macro = max(
            found, key=lambda pair: (pair[0] is near, _shared(here, pair[0].artefact.name))
        )
        key = (source.artefact.name, macro.line)
        if key not in self._bodies:
            code = read_c(f"void macro(void) {{ {macro.body}; }}")
            events = code.functions[0].events if code.functions else ()
            self._bodies[key] = Function(
                name, macro.params or (), (), True, "", macro.line, macro.line,
                tuple(event._replace(line=macro.line) for event in events),
            )  # fmt: skip
        body = self._bodies[key]
        return None if body is None else (source, body)

    def text_mentions(self, pattern: re.Pattern[str]) -> bool:
        """Whether the code of any file that is not the vendor's, parsed or not, has a match."""

        def look() -> bool:
            return any(
                pattern.search(self._code(item))
                for item in self.project.once("own C files", self._own_files)
            )

        return self.project.once(("mentions", pattern), look)

    def _own_files(self) -> tuple[Artefact, ...]:
        files = self.project.of(Kind.C_SOURCE, Kind.C_HEADER)
        return tuple(item for item in files if not VENDOR.search(item.name))

    def _code(self, item: Artefact) -> str:
        """A file without its comments."""

        def make() -> str:
            text = self.project.text(item)
            dead = self.project.once("dead functions", self._dead).get(item.path)
            if dead:
                lines = text.split("\n")
                for first, last in reversed(dead):
                    del lines[first - 1 : last]
                text = "\n".join(lines)
            return _COMMENT.sub(" ", text)

        return self.project.once(("without comments", item.path), make)

    def _dead(self) -> Mapping[Path, list[tuple[int, int]]]:
        """Lines of functions that nothing names: what they do, nobody does.

        Only where an entry point is known; what start-up code, libraries and linkers may call by
        its name counts as used.
        """
        if not any(name in self.functions for name in ENTRIES):
            return {}
        named: set[str] = set()
        for _, function, event in self.all_events():
            words = _words(" ".join((event.name, *event.args)))
            named.update(word for word in words if word != function.name)
        for variables in self.variables.values():
            for _, variable in variables:
                named.update(_words(variable.initial))
        for macros in self.macros.values():
            for _, macro in macros:
                named.update(_words(macro.body))
        # only what sets hardware up is asked for in texts
        suspects = {
            function.name: (source, function)
            for source in self.files
            for function in source.code.functions
            if function.name not in named
            and function.name not in ENTRIES
            and not _BY_NAME.fullmatch(function.name)
            and _SETS_UP.search(self.body(source, function))
        }
        for item in self.project.once("own C files", self._own_files) if suspects else ():
            text = self.project.text(item)
            here = [name for name in suspects if name in text]
            if here:
                text = _COMMENT.sub(" ", text)
            for name in here:
                if _taken(name, text):
                    del suspects[name]
        dead: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        for source, function in sorted(suspects.values(), key=lambda pair: pair[1].line):
            dead[source.artefact.path].append((function.line, function.end))
        return dead

    def defines(self, name: str) -> bool:
        """Whether a source defines a macro, or a build file names it."""

        def look() -> bool:
            word = re.compile(rf"\b{name}\b")
            builds = self.project.of(Kind.BUILD)
            return any(word.search(self.project.text(item)) for item in builds)

        return name in self.macros or self.project.once(("build names", name), look)

    def body(self, source: Source, function: Function) -> str:
        """The lines of a function as they are written."""
        lines = self.project.text(source.artefact).split("\n")
        return "\n".join(lines[function.line - 1 : function.end])

    def all_events(self) -> Iterator[tuple[Source, Function, Event]]:
        """Every event of every function."""
        for source in self.files:
            for function in source.code.functions:
                for event in function.events:
                    yield source, function, event


def _taken(name: str, text: str) -> bool:
    """Whether a text has a name in another place than in front of its parameters."""
    for match in re.finditer(rf"\b{re.escape(name)}\b", text):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not (
            _TYPE.fullmatch(before) and text[match.end() : match.end() + 8].lstrip()[:1] == "("
        ):
            return True
    return False


def _is_header(source: Source) -> bool:
    return source.artefact.kind is Kind.C_HEADER


def _shared(here: list[str], name: str) -> int:
    count = 0
    for a, b in zip(here, name.split("/"), strict=False):
        if a != b:
            break
        count += 1
    return count


def sources_of(project: Project) -> Sources:
    """The parsed sources of a project, once."""
    return project.once("sources", lambda: Sources(project))


def programs_of(project: Project) -> tuple[Program, ...]:
    """One program for each ``main``; without any, one for each function nobody calls."""
    return project.once("programs", lambda: tuple(_programs(sources_of(project))))


ENTRIES = ("main", "app_main", "usermain")
"""Functions that a start-up code calls."""


def _programs(sources: Sources) -> Iterator[Program]:
    entries = [
        pair for name in ENTRIES for pair in sources.functions.get(name, ()) if pair[1].events
    ]
    reached: set[tuple[str, int]] = set()
    left = MAX_STEPS
    for source, function in entries:
        steps = _Tracer(sources, min(MAX_TRACE, left)).run(source, function)
        left -= len(steps)
        reached |= {(s.source.artefact.name, s.function.line) for s in steps}
        yield Program(source, function, steps)
    called = {event.name for _, _, event in sources.all_events() if event.kind == "call"} | {
        m for names in map(_words, _arguments(sources)) for m in names
    }
    for source in sources.files:
        for function in source.code.functions:
            place = (source.artefact.name, function.line)
            if place in reached or function.name in called or function.name in ENTRIES:
                continue
            steps = _Tracer(sources, min(MAX_TRACE, left)).run(source, function)
            left -= len(steps)
            yield Program(source, function, steps)


def _arguments(sources: Sources) -> Iterator[str]:
    for _, _, event in sources.all_events():
        if event.kind == "call" and event.name in _TASK_CREATORS:
            yield " ".join(event.args)


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


class _Tracer:
    def __init__(self, sources: Sources, limit: int) -> None:
        self.sources, self.limit = sources, limit
        self.steps: list[Step] = []
        self.tasks: list[tuple[Source, Function]] = []
        self.instances = 0

    def run(self, source: Source, entry: Function) -> tuple[Step, ...]:
        self._expand(source, entry, {}, (), 0, None, ())
        for thread, (where, task) in enumerate(self.tasks, 1):
            self._expand(where, task, {}, (), thread, None, ())
        return tuple(self.steps)

    def _expand(
        self,
        source: Source,
        function: Function,
        names: Mapping[str, str],
        frames: tuple[Frame, ...],
        thread: int,
        outer: Step | None,
        stack: tuple[int, ...],
    ) -> None:
        self.instances += 1
        base = self.instances << 32
        inner: dict[tuple[Frame, ...], tuple[Frame, ...]] = {}
        for event in function.events:
            if len(self.steps) >= self.limit:
                return
            if event.frames not in inner:
                inner[event.frames] = frames + tuple(
                    frame._replace(at=base + frame.at) for frame in event.frames
                )
            around = inner[event.frames]
            if names:
                event = _substituted(event, names)
            step = Step(event, source, function, around, thread, outer)
            self.steps.append(step)
            if event.kind != "call":
                continue
            if event.name in _TASK_CREATORS:
                self._task(source, event)
                continue
            if event.name == "tx_kernel_enter":
                self._start("tx_application_define", source)
                continue
            found = self.sources.resolve(event.name, source) or self.sources.macro_body(
                event.name, source
            )
            if found is None or len(stack) >= MAX_CALL_DEPTH or id(found[1]) in stack:
                continue
            if not self.sources.reaches(*found):
                continue
            params = dict(zip(found[1].params, event.args, strict=False))
            self._expand(
                found[0], found[1], {k: _grouped(v) for k, v in params.items() if k},
                around, thread, step, (*stack, id(found[1])),
            )  # fmt: skip

    def _task(self, source: Source, event: Event) -> None:
        place = _TASK_CREATORS[event.name]
        if place < len(event.args):
            for word in _words(event.args[place]):
                self._start(word, source)

    def _start(self, name: str, near: Source) -> None:
        """A function that a kernel calls runs after what is there so far."""
        found = self.sources.resolve(name, near)
        if found is not None and found not in self.tasks and len(self.tasks) < 12:
            self.tasks.append(found)


def _grouped(value: str) -> str:
    return value if re.fullmatch(r"[\w.\->\[\]&*\"]+|\(.*\)", value) else f"({value})"


def _substituted(event: Event, names: Mapping[str, str]) -> Event:
    def word(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    def put(text: str) -> str:
        return re.sub(r"(?<![\w.>])[A-Za-z_]\w*", word, text)[:600]

    if event.kind in ("call", "return", "assign", "asm"):
        name = put(event.name) if event.kind == "assign" else event.name
        return event._replace(name=name, args=tuple(map(put, event.args)), target=put(event.target))
    return event

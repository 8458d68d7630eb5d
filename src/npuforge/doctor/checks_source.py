"""K16, K22 to K30: what else a source tree shows by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.artefacts.c_source import Event, constant
from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor import names
from npuforge.doctor.buffers import OUT, Roles, base_of, roles_of
from npuforge.doctor.checks_cache_code import mpool_of
from npuforge.doctor.checks_image import images_of
from npuforge.doctor.checks_power import npu_programs
from npuforge.doctor.checks_runtime import defines
from npuforge.doctor.findings import Check, Confidence, Evidence, Finding, Premise, Rule
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.sources import VENDOR, Program, Source, Sources, Step, programs_of, sources_of
from npuforge.vocab import Severity

ETHOS_BASE = Rule("K12-ethos-base", Severity.WARNING, Confidence.MEDIUM, cases=("C12",), rank=10)
NULL_RESULT = Rule("K22-null-result", Severity.ERROR, cases=("C35",), rank=8)
HALF_LOG = Rule("K22-half-log", Severity.WARNING, cases=("D15",), rank=10)
NO_RANGE = Rule("K22-no-range-check", Severity.INFO, Confidence.MEDIUM, cases=("D35",), rank=20)
NO_WATCHDOG = Rule("K23-no-watchdog", Severity.INFO, cases=("A40",), rank=20)
SILENT = Rule("K24-silent-fault", Severity.INFO, cases=("A18",), rank=70)
ENDLESS_IAC = Rule("K23-endless-iac", Severity.INFO, cases=("A18",), rank=60)
OTP = Rule("K25-otp-write", Severity.WARNING, cases=("H09",), rank=5)
INHERITED = Rule("K25-pins-inherited", Severity.WARNING, Confidence.MEDIUM, cases=("H25",), rank=20)
FLOAT_PRINT = Rule("K26-float-print", Severity.WARNING, cases=("A16",), rank=10)
COUNTER = Rule("K27-counter-misuse", Severity.WARNING, cases=("F13",), rank=10)
SMPS = Rule("K27-smps", Severity.WARNING, Confidence.MEDIUM, cases=("H22",), rank=10)
ASYNC_READ = Rule("K28-read-before-done", Severity.WARNING, cases=("I01",), rank=8)
IRQ_RACE = Rule("K28-irq-race", Severity.WARNING, Confidence.MEDIUM, cases=("I02",), rank=10)
FIXED_DELAY = Rule("K28-fixed-delay", Severity.WARNING, Confidence.MEDIUM, cases=("I04",), rank=10)
POLLING = Rule("K28-polling", Severity.WARNING, Confidence.MEDIUM, cases=("F16",), rank=15)
WINDOW = Rule("K28-flash-window", Severity.WARNING, cases=("I10", "C34"), rank=8)
SMALL_STACK = Rule("K28-small-stack", Severity.WARNING, cases=("I12",), rank=8)
TICK = Rule("K28-hal-tick", Severity.WARNING, Confidence.MEDIUM, cases=("H27",), rank=10)
MSP_CLOCK = Rule("K29-msp-clock", Severity.WARNING, cases=("H29",), rank=10)
HAL_MODULE = Rule("K29-hal-module", Severity.ERROR, cases=("G14",), rank=8)
LINKED = Rule("K29-linked-sources", Severity.WARNING, Confidence.MEDIUM, cases=("E26",), rank=8)
FFT = Rule("K30-fft-tables", Severity.WARNING, cases=("J07",), rank=10)
POOL_LEFT_OUT = Rule("K30-pool-left-out", Severity.WARNING, cases=("J10",), rank=10)


# -- values


def _values(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    yield from _null(project, sources)
    yield from _half(sources)
    if networks_of(project) or npu_programs(project):
        yield from _range(sources)
    yield from _ethos(sources)


def _null(project: Project, sources: Sources) -> Iterator[Finding]:
    """A post-processing result structure whose buffer is never given."""
    process = re.compile(r"_process\b|postprocess_run")
    calls: list[Event] | None = None
    for name, found in sources.variables.items():
        for source, variable in found:
            if not re.search(r"\b\w*_pp_out_t\b", variable.type) or variable.pointer:
                continue
            if "pOutBuff" in variable.initial:
                continue
            text = re.compile(rf"\b{re.escape(name)}\s*\.\s*pOutBuff\s*=")
            if calls is None:
                calls = [
                    event
                    for _, _, event in sources.all_events()
                    if event.kind == "call" and process.search(event.name)
                ]
            passed = [e for e in calls if any(base_of(argument) == name for argument in e.args)]
            library = re.compile(r"pOutBuff\s*=\s*(?!NULL)")
            if passed and not sources.text_mentions(text) and not _vendor(project, library):
                # a library that is not here may give the buffer itself
                seen = all(sources.functions.get(event.name) for event in passed)
                here = source.at(variable.line, f"{variable.type} {name}")
                yield NULL_RESULT.at(
                    here,
                    premises=(Premise("callee", here if seen else None),),
                    name=name,
                )


def _vendor(project: Project, pattern: re.Pattern[str]) -> bool:
    return any(
        pattern.search(project.text(item))
        for item in project.of(Kind.C_SOURCE, Kind.C_HEADER)
        if re.search(r"postprocess|_pp_|vision_models", item.name)
    )


def _half(sources: Sources) -> Iterator[Finding]:
    tiny = re.compile(r"FLT_MIN|1e-?(?:[89]|[1-3]\d)f?|1\.1754\w*e-38f?", re.IGNORECASE)
    for source, function, event in sources.all_events():
        words = " ".join((event.name, *event.args))
        if not re.search(r"\blogf?\w*\s*\(|\blog\w*", words) or not tiny.search(words):
            continue
        if re.search(r"float16|_Float16|__fp16|\bf16\b|half", sources.body(source, function)):
            yield HALF_LOG.at(source.at(event.line, words))
            return


_THRESHOLD = re.compile(
    r"(?:conf|score|prob)\w*(?:\[[^\]]*\])?\s*(?:>=?)\s*[\w.>-]*(?:thr|THR|conf|CONF|\d)", re.I
)
_UPPER = re.compile(
    r"(?:conf|score|prob)\w*(?:\[[^\]]*\])?\s*(?:<=?)\s*(?:1|MAX)|isfinite|isnan", re.I
)


def _range(sources: Sources) -> Iterator[Finding]:
    for source in sources.files:
        for function in source.code.functions:
            first = None
            for event in function.events:
                for frame in event.frames:
                    if frame.kind == "if" and _THRESHOLD.search(frame.condition):
                        first = first or frame
            if first is None or not re.search(r"float|f32", " ".join(function.types)):
                continue
            if not _UPPER.search(sources.body(source, function)):
                yield NO_RANGE.at(source.at(first.line, f"if {first.condition}"))
                return


def _ethos(sources: Sources) -> Iterator[Finding]:
    """Base addresses given to the Ethos-U driver that are not where the arena lies."""
    for source, function, event in sources.all_events():
        if event.kind != "call" or not re.match(r"ethosu_invoke(?:_v\d|_async)?$", event.name):
            continue
        sizes = [
            other
            for other in function.events
            if other.kind == "assign" and re.search(r"base_addr\w*\s*\[", other.name)
        ]
        for other in sizes:
            match = re.search(r"0x[0-9a-fA-F]{8}", other.args[1])
            if match:
                yield ETHOS_BASE.at(
                    source.at(other.line, f"{other.name} = {other.args[1]}"),
                    source.at(event.line, event.name),
                    address=match[0],
                )
                return


# -- bring-up


def _bring_up(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    if npu_programs(project):
        ndebug = _build_match(project, r"-DNDEBUG\b|(?<![\w!])NDEBUG(?!\w)")
        if ndebug is not None and not sources.text_mentions(
            re.compile(r"\w*[Ww]atchdog\w*|IWDG|HAL_WWDG|dump_stall|npu_timeout")
        ):
            yield NO_WATCHDOG.at(ndebug)
        for source, function in sources.functions.get("HardFault_Handler", ()):
            if not any(event.kind in ("call", "assign", "asm") for event in function.events):
                yield SILENT.at(source.at(function.line, "void HardFault_Handler(void)"),
                                name="HardFault_Handler")  # fmt: skip
        for source, function in sources.functions.get("IAC_IRQHandler", ()):
            calls = [event for event in function.events if event.kind in ("call", "assign")]
            if not calls:
                yield ENDLESS_IAC.at(source.at(function.line, "void IAC_IRQHandler(void)"))
    for source, function, event in sources.all_events():
        if event.kind == "call" and re.fullmatch(r"HAL_BSEC_OTP_(?:Program|Write)", event.name):
            guarded = any(frame.kind in ("if", "else") for frame in event.frames)
            reads = any(
                e.kind == "call"
                and re.match(r"HAL_BSEC_OTP_(?:Read|Reload)|HAL_BSEC_OTP_Get", e.name)
                for e in function.events
            )
            yield OTP.at(
                source.at(event.line, event.text),
                severity=Severity.INFO if guarded and reads else None,
            )
    yield from _print(project, sources)
    yield from _counters(sources)
    yield from _smps(project, sources)
    yield from _pins(sources)


def _build_match(project: Project, pattern: str) -> Evidence | None:
    expression = re.compile(pattern, re.MULTILINE)
    for item in project.of(Kind.BUILD):
        if VENDOR.search(item.name):
            continue
        match = expression.search(project.text(item))
        if match:
            return item.at(line_of(project.text(item), match.start()), match[0])
    return None


def _print(project: Project, sources: Sources) -> Iterator[Finding]:
    nano = _build_match(project, r"-?-specs=nano\.specs|nano\.specs|runtimelibrary_c\.nano")
    if nano is None or _build_match(
        project, r"_printf_float|nanoprintffloat|printf_float|fp_printf|USE_NEWLIB_FLOAT"
    ):
        return
    for source, _, event in sources.all_events():
        if event.kind == "call" and re.search(r"printf$", event.name):
            text = next((a for a in event.args if '"' in a), "")
            if re.search(r"%[-+ 0#]*\d*(?:\.\d+)?[feg]\b|%[-+ 0#]*\d*(?:\.\d+)?[feg]", text):
                yield FLOAT_PRINT.at(source.at(event.line, f"{event.name}({text})"), nano)
                return


def _counters(sources: Sources) -> Iterator[Finding]:
    for source in sources.files:
        for function in source.code.functions:
            dwt = [e for e in function.events if "DWT" in " ".join((e.name, *e.args))]
            pmu = [
                e
                for e in function.events
                if re.search(r"\bPMU\b|ARM_PMU", " ".join((e.name, *e.args)))
            ]
            reads = [e for e in dwt if e.kind == "assign" and "DWT->CYCCNT" in e.args[1]]
            resets = [e for e in dwt if e.kind == "assign" and "DWT->CYCCNT" in e.name]
            mixed = (
                dwt and pmu and any(e.kind == "assign" and "PMU" in " ".join(e.args) for e in pmu)
            )
            inside = reads and any(reads[0].line < e.line < reads[-1].line for e in resets)
            if (mixed and reads) or inside:
                event = (resets or dwt)[0] if inside else pmu[0]
                words = f"{event.name} {' '.join(event.args)}"
                yield COUNTER.at(source.at(event.line, words), source.at(dwt[0].line, "DWT"))
                return


def _smps(project: Project, sources: Sources) -> Iterator[Finding]:
    """CPU at overdrive (voltage scale 0 needed) without the external supply's pin or scale."""
    for source, function, event in sources.all_events():
        if event.kind != "assign" or not re.search(r"PLL1\.PLLN$", event.name):
            continue
        numbers: dict[str, int] = {}
        other_source = False
        for other in function.events:
            if other.kind == "assign":
                match = re.search(
                    r"PLL1\.PLL(M|N|P1|P2)$|(IC1)Selection\.ClockDivider$", other.name
                )
                value = constant(other.args[1], sources.values)
                if match and value:
                    numbers[match[1] or match[2]] = value
                selected = other.name.endswith("IC1Selection.ClockSelection")
                other_source = other_source or (selected and "PLL1" not in other.args[1])
        if not {"M", "N"} <= set(numbers) or other_source:
            return
        # the CPU is clocked by IC1, which divides the PLL
        mhz = 64 / numbers["M"] * numbers["N"]
        for divider in ("P1", "P2", "IC1"):
            mhz /= numbers.get(divider, 1)
        if mhz > 650 and not sources.text_mentions(
            re.compile(r"VOLTAGE_SCALE0|SMPS|SMPS_Init|GPIO_PIN_12|GPIO_PIN_4\b")
        ):
            yield SMPS.at(source.at(event.line, f"{event.name} = {event.args[1]}"), mhz=round(mhz))
        return


def _pins(sources: Sources) -> Iterator[Finding]:
    """A peripheral's init without any pin set up in the whole program."""
    for name in ("HAL_UART_MspInit", "HAL_I2C_MspInit", "HAL_SPI_MspInit"):
        for source, function in sources.functions.get(name, ()):
            calls = [event.name for event in function.calls]
            pins = any(call in ("HAL_GPIO_Init", "LL_GPIO_Init") for call in calls)
            clocked = any("CLK_ENABLE" in call for call in calls)
            if clocked and not pins and not any("FORCE_RESET" in call for call in calls):
                yield INHERITED.at(source.at(function.line, f"void {name}"), name=name)


# -- concurrency


def _concurrency(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    for program, run in npu_programs(project):
        yield from _async(program, roles_of(project, program))
        yield from _delay(program.steps)
        yield from _window(program.steps, run)
        yield from _stacks(sources, program)
        kernel = any(True for p in names.KERNEL.values() for _ in program.calls(p))
        polling = defines(project, "LL_ATON_RT_POLLING")
        if kernel and polling is not None:
            yield POLLING.at(polling, run.at())
    yield from _race(sources)
    yield from _tick(project, sources)


def _async(program: Program, roles: Roles) -> Iterator[Finding]:
    """Outputs read in the thread that only starts or wakes the one that runs."""
    runner = {step.thread for step in program.calls(names.RUN)}
    if not runner or 0 in runner:
        return
    started = None
    for step in program.steps:
        if step.thread in runner or step.event.kind not in ("call", "assign"):
            continue
        words = " ".join((step.name, *step.args))
        read = any(roles.of(n) == OUT for n in re.findall(r"([A-Za-z_]\w*)\s*\[", words))
        if step.event.kind == "call":
            if _STARTS.search(step.name):
                started = step
                continue
            if _WAITS.search(step.name):
                started = None
                continue
            read = any(roles.of(argument) == OUT for argument in step.args)
        if started is not None and read:
            yield ASYNC_READ.at(step.at(), started.at())
            return


_STARTS = re.compile(
    r"xTaskNotifyGive|xSemaphoreGive|xTaskCreate|tx_semaphore_put|osThreadNew|tx_thread_create|"
    r"osSemaphoreRelease|xQueueSend"
)
_WAITS = re.compile(r"Take|[Ww]ait|tx_semaphore_get|Acquire|Receive|Join|Suspend")
_CAPTURE = re.compile(r"Pipe_?\w*Start|PIPE_Start|DCMIPP\w*Start|CMW_CAMERA_Start|Camera\w*Start")


def _delay(steps: tuple[Step, ...]) -> Iterator[Finding]:
    start = None
    for step in steps:
        if step.event.kind != "call":
            continue
        if _CAPTURE.search(step.name):
            if "SNAPSHOT" in " ".join(step.args).upper():
                start = step
        elif start is not None and re.search(r"Delay|sleep|osDelay", step.name):
            yield FIXED_DELAY.at(step.at(), start.at())
            return
        elif (
            names.RUN.fullmatch(step.name)
            or re.search(r"[Ww]ait|Take|_get\b", step.name)
            or step.event.kind == "endloop"
        ):
            start = None


def _window(steps: tuple[Step, ...], run: Step) -> Iterator[Finding]:
    indirect = re.compile(
        r"BSP_XSPI_NOR_(?:DisableMemoryMappedMode|Erase\w*|Write|Read)|EXTMEM_(?:Write|Erase\w*)|"
        r"HAL_XSPI_Abort"
    )
    lock = re.compile(r"\w*(?:[Mm]utex|[Ll]ock|Semaphore|CRITICAL)\w*|tx_mutex_\w+")
    for step in steps:
        if step.event.kind != "call":
            continue
        if indirect.fullmatch(step.name) and step.thread != run.thread and step.loops:
            near = [
                s
                for s in steps
                if s.event.kind == "call" and s.thread == step.thread and lock.fullmatch(s.name)
            ]
            if not near and any(s.thread for s in (step, run)):
                yield WINDOW.at(step.at(), run.at())
                return


_STACK_ARGUMENT = {
    "xTaskCreate": 2, "xTaskCreateStatic": 2, "tx_thread_create": 5, "osThreadNew": 2
}  # fmt: skip
_WIDTHS = {"UCHAR": 1, "uint8_t": 1, "CHAR": 1, "char": 1, "ULONG": 4, "uint32_t": 4,
           "StackType_t": 4, "uint64_t": 8}  # fmt: skip


def _stack_size(sources: Sources, text: str, *, attributes: bool) -> int | None:
    """Size argument of a task: a number, ``sizeof`` of an array, or a member of its attributes."""
    match = re.fullmatch(r"\(*(?:sizeof\s*\(?|&)\s*(\w+)\)*", text.strip())
    found = sources.variables.get(match[1], []) if match else []
    if attributes:
        bodies = [re.search(r"\.stack_size\s*=\s*([^,}]+)", v.initial) for _, v in found]
        numbers = [constant(body[1], sources.values) for body in bodies if body]
        return numbers[0] if len(numbers) == 1 else None
    if len(found) == 1:
        variable = found[0][1]
        width = next((w for name, w in _WIDTHS.items() if name in variable.type.split()), None)
        count = constant(variable.dims[0], sources.values) if len(variable.dims) == 1 else None
        return None if width is None or count is None else width * count
    return constant(text, sources.values)


def _stacks(sources: Sources, program: Program) -> Iterator[Finding]:
    for step in program.calls(names.TASK_CREATE):
        place = _STACK_ARGUMENT.get(step.name)
        if place is None or place >= len(step.args):
            continue
        size = _stack_size(sources, step.args[place], attributes=step.name.startswith("os"))
        if size is None:
            continue
        words = 4 if step.name.startswith("x") else 1
        function = re.findall(r"[A-Za-z_]\w*", step.args[2 if place == 5 else 0])
        runs = any(s.thread and _started_by(s, function) for s in program.calls(names.RUN))
        if runs and size * words < 4096:
            yield SMALL_STACK.at(step.at(), bytes=size * words)


def _started_by(step: Step, function: list[str]) -> bool:
    while step.outer is not None:
        step = step.outer
    return step.function.name in function


def _race(sources: Sources) -> Iterator[Finding]:
    """An interrupt handler or callback that runs the network's event loop."""
    for source in sources.files:
        for function in source.code.functions:
            if not re.search(r"IRQHandler$|Callback$|_ISR$|_isr$", function.name):
                continue
            for event in function.calls:
                if names.RUN_EPOCH.fullmatch(event.name):
                    yield IRQ_RACE.at(
                        source.at(event.line, event.name), source.at(function.line, function.name)
                    )
                    return


def _tick(project: Project, sources: Sources) -> Iterator[Finding]:
    """A kernel that owns SysTick, and nobody who advances the HAL's tick."""
    for program in programs_of(project):
        start = next(
            (
                step
                for pattern in names.KERNEL.values()
                for step in program.calls(pattern)
                if not any(frame.kind == "pp" for frame in step.frames)
            ),
            None,
        )
        if start is None or not any(s.name == "HAL_Init" for s in program.steps):
            continue
        handler = sources.functions.get("SysTick_Handler", [])
        feeds = sources.text_mentions(
            re.compile(r"HAL_IncTick|HAL_GetTick\s*\(\s*(?:void\s*\)|\)\s*\{)|uwTick")
        )
        if not feeds:
            where = [source.at(f.line, "SysTick_Handler") for source, f in handler[:1]]
            yield TICK.at(start.at(), *where)
            return


# -- environment


def _environment(project: Project) -> Iterator[Finding]:
    sources = sources_of(project)
    yield from _msp(sources)
    yield from _modules(project, sources)
    yield from _linked(project)
    yield from _tables(project)


def _msp(sources: Sources) -> Iterator[Finding]:
    """A clock choice in user code that the generated MSP code makes again, differently."""
    chosen: dict[str, list[tuple[str, Evidence, bool]]] = {}
    for source, function, event in sources.all_events():
        if event.kind != "assign":
            continue
        match = re.search(r"\.(\w+ClockSelection)$", event.name)
        if match and match[1] != "PeriphClockSelection" and event.args[0] == "=":
            chosen.setdefault(match[1], []).append(
                (event.args[1], source.at(event.line, f"{event.name} = {event.args[1]}"),
                 function.name.endswith("MspInit"))
            )  # fmt: skip
    for name, found in chosen.items():
        generated = [entry for entry in found if entry[2]]
        own = [entry for entry in found if not entry[2]]
        for value, where, _ in generated:
            other = next((entry for entry in own if entry[0] != value), None)
            if other is not None and _same_tree(other[1].file, where.file):
                yield MSP_CLOCK.at(other[1], where, name=name, value=value)
                break


def _same_tree(a: str, b: str) -> bool:
    return a.rpartition("/")[0].split("/")[:2] == b.rpartition("/")[0].split("/")[:2]


_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)


def _without_comments(project: Project, source: Source) -> str:
    """Text of a file with its lines and without its comments."""

    def make() -> str:
        return _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), project.text(source.artefact))

    return project.once(("without comments", source.artefact.path), make)


def _modules(project: Project, sources: Sources) -> Iterator[Finding]:
    off = re.compile(
        r"^[ \t]*/\*[ \t]*#define[ \t]+HAL_(CACHEAXI|XSPI|RAMCFG|RIF)_MODULE_ENABLED", re.M
    )
    for item in project.of(Kind.C_HEADER):
        if item.path.name != "stm32n6xx_hal_conf.h" or VENDOR.search(item.name):
            continue
        text = project.text(item)
        for match in off.finditer(text):
            module = match[1]
            if re.search(rf"^[ \t]*#define[ \t]+HAL_{module}_MODULE_ENABLED", text, re.M):
                continue
            use = re.compile(rf"\b(?:{module}_HandleTypeDef|HAL_{module}_\w+\s*\()")
            folder = item.name.rpartition("/")[0].rpartition("/")[0]
            for source in sources.files:
                if not source.artefact.name.startswith(folder):
                    continue
                if source.artefact.kind is not Kind.C_SOURCE:
                    continue
                body = _without_comments(project, source)
                hit = use.search(body)
                if hit:
                    line = line_of(body, hit.start())
                    yield HAL_MODULE.at(
                        item.at(line_of(text, match.start()), match[0]),
                        source.at(line, hit[0]), module=module,
                    )  # fmt: skip
                    break


def _linked(project: Project) -> Iterator[Finding]:
    """Eclipse: linked run-time sources outside every source path are not compiled."""
    for item in project.artefacts:
        if item.path.name != ".project":
            continue
        text = project.text(item)
        links = re.findall(r"<link>\s*<name>([^<]+)</name>", text)
        settings = next(
            (
                other
                for other in project.of(Kind.BUILD)
                if other.path.name == ".cproject" and other.path.parent == item.path.parent
            ),
            None,
        )
        if settings is None:
            continue
        paths = re.findall(
            r"<entry[^>]*kind=\"sourcePath\"[^>]*name=\"([^\"]*)\"", project.text(settings)
        )
        paths += re.findall(
            r"<entry[^>]*name=\"([^\"]*)\"[^>]*kind=\"sourcePath\"", project.text(settings)
        )
        for name in links:
            if not re.search(r"ll_aton|Npu|AI_Runtime", name) or not paths:
                continue
            top = name.split("/")[0]
            if top not in {path.split("/")[0] for path in paths} and "" not in paths:
                line = line_of(text, text.find(name))
                yield LINKED.at(item.at(line, name), settings.at(None, ", ".join(paths)), name=name)
                return


def _tables(project: Project) -> Iterator[Finding]:
    pattern = re.compile(
        r"twiddleCoef\w*|armBitRevIndexTable\w*|sinTable_\w+|realCoef\w+|rfft\w*|dct4\w*"
    )
    for item, image in images_of(project):
        total = sum(s.size for n, s in image.symbols.items() if pattern.fullmatch(n))
        if total > 32 << 10:
            yield FFT.at(item.at(None, f"{total} bytes"), bytes=total)
    for item in project.of(Kind.MAP):
        text = project.text(item)
        total = sum(
            int(size, 16)
            for name, size in re.findall(
                r"^ \.(?:rodata|data)\.(\w+)\s*\n?\s+0x[0-9a-fA-F]+\s+(0x[0-9a-fA-F]+)", text, re.M
            )
            if pattern.fullmatch(name)
        )
        if total > 32 << 10:
            yield FFT.at(item.at(None, f"{total} bytes"), bytes=total)


def _pools(project: Project) -> Iterator[Finding]:
    """NPU RAM that the firmware powers, and that the pool file does not offer."""
    sources = sources_of(project)
    for item, pools in project.parsed(mpool_of, Kind.MPOOL):
        present = {base for _, base, _ in pools}
        missing = [
            f"npuRAM{number}"
            for number, base in ((3, 0x3420_0000), (4, 0x3427_0000), (5, 0x342E_0000),
                                 (6, 0x3435_0000))
            if base not in present
            and sources.text_mentions(re.compile(rf"AXISRAM{number}_MEM_CLK_ENABLE"))
        ]  # fmt: skip
        if missing and present:
            yield POOL_LEFT_OUT.at(item.at(None, "mempools"), missing=", ".join(missing))


CHECKS = (
    Check("values", (NULL_RESULT, HALF_LOG, NO_RANGE, ETHOS_BASE), _values),
    Check(
        "bring-up",
        (NO_WATCHDOG, ENDLESS_IAC, SILENT, OTP, FLOAT_PRINT, COUNTER, SMPS, INHERITED),
        _bring_up,
    ),
    Check(
        "concurrency",
        (ASYNC_READ, IRQ_RACE, FIXED_DELAY, POLLING, WINDOW, SMALL_STACK, TICK),
        _concurrency,
    ),
    Check("environment", (MSP_CLOCK, HAL_MODULE, LINKED, FFT), _environment),
    Check("pools left out", (POOL_LEFT_OUT,), _pools),
)

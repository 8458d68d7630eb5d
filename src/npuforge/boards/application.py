"""A user's own application on the virtual board: its mistakes by source line.

The application is compiled for the host against headers of this package that declare what
inference code calls (LL_ATON's life cycle, cache maintenance, clocks). Each of its loads and stores
is seen; memory lies at the addresses of the part; the numbers of an inference come from this
process. Needs gcc and binutils on Linux x86-64.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

from npuforge.boards.application_network import BoardNetwork, tables
from npuforge.boards.application_stai import stai_header, stai_source
from npuforge.boards.toolchain import BUILD_SECONDS, run_tool
from npuforge.errors import ToolError
from npuforge.messages import render
from npuforge.vocab import Severity

_BOARD = Path(__file__).parent / "virtual"
_HEADERS = _BOARD / "application" / "include"
_BOARD_FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-pie")
_BOARD_COMMAND = (
    "gcc", *_BOARD_FLAGS, f"-I{_BOARD}", f"-I{_HEADERS}", f"-I{_BOARD / 'application'}",
    "-Wa,--noexecstack",
)  # fmt: skip
_APPLICATION_FLAGS = (
    # every access is a call, at the line that makes it
    "-std=gnu11", "-O1", "-g", "-w", "-fno-inline", "-fno-builtin", "-fno-common", "-fno-pie",
    "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0",
)  # fmt: skip
_RISKS = frozenset(("speculative_refill", "dropped_frame"))
"""Kinds that accepted code can show: a risk is told, but it is no failure."""


_DETAIL = 6000
"""Most characters of a tool's or the application's words that an error keeps."""


class FrameFault(StrEnum):
    """What is injected into the frames of the virtual camera."""

    DROPPED = "dropped"
    TORN = "torn"
    LATE = "late"


_COUPLED = re.compile(r"(?:^|[._])[di]?tcm(?![a-z])", re.IGNORECASE)
_FAULT_BITS = {FrameFault.DROPPED: 1, FrameFault.TORN: 2, FrameFault.LATE: 4}


@dataclass(frozen=True)
class Application:
    """The sources of an application.

    Attributes:
        sources: C files, without the network's generated code.
        includes: folders of headers, searched after the board's own headers.
        defines: macros, ``NAME`` or ``NAME=VALUE``.
        uncached: sections of memory that the MPU keeps out of the cache.
        coupled: sections in tightly coupled memory, which no cache holds and only the CPU
            reaches; those whose name says so (``.dtcm``, ``.RAM_DTCM``, …) are taken as such.
    """

    sources: tuple[Path, ...]
    includes: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    uncached: tuple[str, ...] = ()
    coupled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A line of the application; an empty file: code that is not the application's."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})" if self.file else "?"


@dataclass(frozen=True)
class Violation:
    """A broken rule.

    Attributes:
        kind: of `cache.h`, for example ``missing_clean``.
        severity: an error, or a warning for what accepted code can show.
        buffer: name of the variable or buffer, with an offset in bytes; else of the memory.
        size: bytes of the whole variable or buffer; 0 when it is not known.
        address: of the first cache line or byte.
        lines: cache lines of one inference.
        inference: number of the first inference that showed it, from 1; 0: before the first.
        times: how often it was seen.
        cause: the access or call at fault.
        effect: where it showed.
        written: for a lost write, the write.
    """

    kind: str
    severity: Severity
    buffer: str
    size: int
    address: int
    lines: int
    inference: int
    times: int
    cause: Place
    effect: Place
    written: Place

    @property
    def message(self) -> str:
        """What happened, where, to which buffer."""
        return self._words()[0]

    @property
    def hint(self) -> str:
        """The missing call, or what else to do."""
        return self._words()[1]

    def _words(self) -> tuple[str, str]:
        address = f"{self.address:#010x}"
        return render(
            f"VBD-{self.kind}",
            {
                "buffer": self.buffer or address,
                "whole": self.buffer.split("+")[0] or address,
                "bytes": self.size or "?",
                "address": address,
                "cause": self.cause,
                "effect": self.effect,
                "written": self.written,
            },
        )


def errors_of(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Violations that are no mere risk."""
    return tuple(v for v in violations if v.severity is Severity.ERROR)


@dataclass(frozen=True)
class ApplicationRun:
    """What a run showed.

    Attributes:
        inferences: how many the application started.
        violations: in the order they were met.
        said: what the application printed.
    """

    inferences: int
    violations: tuple[Violation, ...]
    said: str

    @property
    def errors(self) -> tuple[Violation, ...]:
        """Violations that are no mere risk."""
        return errors_of(self.violations)


@dataclass(frozen=True)
class _Raw:
    kind: str
    address: int
    lines: int
    inference: int
    places: tuple[int, int, int]
    times: int
    memory: str


@dataclass
class _Talk:
    inferences: int = 0
    ended: bool = False
    found: list[_Raw] = field(default_factory=list)


def _build(command: list[str], folder: Path) -> None:
    result = run_tool(command, BUILD_SECONDS, folder)
    if result.returncode != 0:
        detail = result.stdout + result.stderr
        lacking = sorted(set(re.findall(r"undefined reference to `(\w+)'", detail)))
        if lacking:
            raise ToolError("BRD-038", names=", ".join(lacking))
        raise ToolError("BRD-030", code=result.returncode, detail=detail[-_DETAIL:])


def _missing_headers(command: list[str], folder: Path) -> list[str]:
    """Headers that a source asks for and no folder has, all at once, where a compiler stops."""
    listed = run_tool([*command, "-MM", "-MG"], BUILD_SECONDS, folder).stdout
    names = listed.replace("\\\n", " ").partition(":")[2].split()
    return [name for name in dict.fromkeys(names) if not (folder / name).exists()]


@cache
def _board_objects() -> tempfile.TemporaryDirectory[str]:
    """The board itself, compiled once in the life of this process."""
    folder = tempfile.TemporaryDirectory(prefix="npuforge-")
    sources = [*(_BOARD / "application").glob("*.c"), _BOARD / "cache.c"]
    _build([*_BOARD_COMMAND, "-c", *map(str, sources)], Path(folder.name))
    return folder


class ApplicationBoard:
    """An application built for the virtual board.

    Args:
        application: its sources.
        networks: by the name the application calls them, for example ``Default``.
        folder: an empty folder for the build.
        user_buffers: inputs and outputs are bound by the application
            (``LL_ATON_Set_User_Input_Buffer``), not given by the network.

    Raises:
        ToolError: gcc is missing, or the application does not compile or link.
    """

    def __init__(
        self,
        application: Application,
        networks: Mapping[str, BoardNetwork],
        folder: Path,
        *,
        user_buffers: bool = False,
    ) -> None:
        tools = {name: shutil.which(name) for name in ("gcc", "objcopy", "addr2line")}
        missing = [name for name, path in tools.items() if path is None]
        if missing:
            raise ToolError("BRD-001", tools=", ".join(missing), packages="gcc binutils")
        self._folder = folder
        self._networks = tuple(networks.values())
        self._program = folder / "board"
        made = folder / "made"
        made.mkdir(exist_ok=True)
        for name, network in networks.items():
            (made / f"stai_{name}.h").write_text(stai_header(name, network), "utf-8")
        objects = [
            self._compile(application, source, number)
            for number, source in enumerate(application.sources)
        ]
        uncached = self._gather(objects, application)
        table = folder / "tables.c"
        text = [tables(networks, uncached, user_buffers=user_buffers), '#include "stai_board.h"']
        text += [line for name, net in networks.items() for line in stai_source(name, net)]
        table.write_text("\n".join(text) + "\n", "utf-8")
        ends = [self._edge(at) for at in ("begin", "end")]
        board = sorted(Path(_board_objects().name).glob("*.o"))
        command = [*_BOARD_COMMAND, "-no-pie", str(ends[0]), *map(str, objects), str(ends[1])]
        command += [*map(str, board), str(table), "-Wl,-z,noexecstack"]
        _build([*command, "-o", str(self._program), "-lm"], folder)

    def _compile(self, application: Application, source: Path, number: int) -> Path:
        built = self._folder / f"{number}_{source.stem}.o"
        command = ["gcc", *_APPLICATION_FLAGS, f"-I{_HEADERS}"]
        command += ["-include", str(_HEADERS / "npuforge_prefix.h")]
        command += [f"-I{self._folder.resolve() / 'made'}"]
        command += [f"-I{path.resolve()}" for path in application.includes]
        command += [f"-D{text}" for text in application.defines]
        try:
            _build([*command, "-c", str(source.resolve()), "-o", str(built)], self._folder)
        except ToolError:
            missing = _missing_headers([*command, str(source.resolve())], self._folder)
            if missing:
                names = ", ".join(missing)
                raise ToolError("BRD-037", file=source.name, headers=names) from None
            raise
        return built

    def _gather(self, objects: Sequence[Path], application: Application) -> dict[str, bool]:
        """Put the application's variables into one section, each uncached section apart.

        Returns:
            Those sections, in the order of their numbers; True: tightly coupled memory.
        """
        found: dict[str, bool] = {}
        for path in objects:
            command = ["objcopy"]
            for name in _writable(path):
                coupled = name in application.coupled or bool(_COUPLED.search(name))
                if coupled or name in application.uncached:
                    found.setdefault(name, coupled)
                    to = f"app_uncached_{list(found).index(name)}"
                else:
                    to = "app_data"
                # zeros take room too: .bss would stay apart
                command += ["--rename-section", f"{name}={to},alloc,load,data,contents"]
            if len(command) > 1:
                _build([*command, str(path)], self._folder)
        return found

    def _edge(self, at: str) -> Path:
        """An object that begins or ends the section, so that no line is shared with the board."""
        path = self._folder / f"{at}.c"
        place = '__attribute__((section("app_data"), aligned(4096)))'
        path.write_text(f"{place} char vb_data_{at}[4096] = {{0}};\n", "utf-8")
        return path

    def run(
        self,
        inferences: int = 8,
        *,
        seed: int = 1,
        frames: Sequence[FrameFault] = (),
        seconds: int = 60,
    ) -> ApplicationRun:
        """Run the application until it has made so many inferences or returns from main.

        Args:
            inferences: the next one ends the run.
            seed: of evictions, refills, delays and frames.
            frames: what is injected into the camera's frames.
            seconds: after which the application counts as hanging.

        Raises:
            ToolError: the board's program fails.
        """
        bits = sum(_FAULT_BITS[fault] for fault in frozenset(frames))
        command = [str(self._program), str(seed), str(inferences), str(bits), str(seconds)]
        talk = _Talk()
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
            guard = threading.Timer(seconds + 30.0 * len(self._networks) + 30, process.kill)
            guard.start()
            try:
                self._serve(process, talk)
            finally:
                guard.cancel()
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()
            log.seek(0)
            said = log.read().decode("utf-8", "replace")
        if not talk.ended:
            raise ToolError("BRD-031", code=process.returncode, detail=said[-_DETAIL:])
        return ApplicationRun(talk.inferences, self._violations(talk.found), said)

    def _serve(self, process: subprocess.Popen[bytes], talk: _Talk) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        for row in iter(process.stdout.readline, b""):
            words = row.decode("ascii", "replace").split()
            if words[:1] == ["run"]:
                network = self._networks[int(words[1])]
                inputs = [process.stdout.read(size) for size in network.input_sizes]
                try:
                    process.stdin.write(b"".join(network.run(inputs)))
                    process.stdin.flush()
                except BrokenPipeError:
                    return
            elif words[:1] == ["finding"]:
                numbers = [int(word, 16) for word in words[5:8]]
                talk.found.append(
                    _Raw(
                        kind=words[1],
                        address=int(words[2], 16),
                        lines=int(words[3]),
                        inference=int(words[4]),
                        places=(numbers[0], numbers[1], numbers[2]),
                        times=int(words[8]),
                        memory=words[9],
                    )
                )
            elif words[:1] == ["end"]:
                talk.inferences, talk.ended = int(words[1]), True

    def _violations(self, found: Sequence[_Raw]) -> tuple[Violation, ...]:
        places = self._places(sorted({p for raw in found for p in raw.places if p}))
        name_of = self._names()
        return tuple(
            Violation(
                kind=raw.kind,
                severity=Severity.WARNING if raw.kind in _RISKS else Severity.ERROR,
                buffer=name or ("" if raw.memory == "-" else raw.memory),
                size=size,
                address=raw.address,
                lines=raw.lines,
                inference=raw.inference,
                times=raw.times,
                cause=places.get(raw.places[0], _NOWHERE),
                effect=places.get(raw.places[1], _NOWHERE),
                written=places.get(raw.places[2], _NOWHERE),
            )
            for raw in found
            for name, size in (name_of(raw.address),)
        )

    def _places(self, addresses: Sequence[int]) -> dict[int, Place]:
        if not addresses:
            return {}
        command = ["addr2line", "-f", "-e", str(self._program), *map(hex, addresses)]
        rows = run_tool(command, 60).stdout.splitlines()
        found = {}
        for address, function, place in zip(addresses, rows[::2], rows[1::2], strict=False):
            match = re.match(r"(.+):(\d+)", place)
            if match is None or Path(match[1]).is_relative_to(_BOARD):
                continue
            name = "main" if function == "npuforge_application_main" else function
            found[address] = Place(_short(match[1]), int(match[2]), name)
        return found

    def _names(self) -> Callable[[int], tuple[str, int]]:
        """Name with offset, and size, of the variable or buffer at an address."""
        spans = []
        for network in self._networks:
            # inputs and outputs may lie over each other: the smaller one says more
            buffers = sorted(network.buffers, key=lambda b: b.size)
            spans += [(b.address, b.address + b.size, b.name) for b in buffers]
        with self._program.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            for symbol in table.iter_symbols() if table is not None else ():
                if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_size"]:
                    base = symbol["st_value"]
                    spans.append((base, base + symbol["st_size"], symbol.name.split(".")[0]))

        def name_of(address: int) -> tuple[str, int]:
            line_end = address - address % 32 + 32
            for low, high, name in spans:
                if low < line_end and address < high:
                    at = max(address, low) - low
                    return (f"{name}+{at}" if at else name), high - low
            return "", 0

        return name_of


_NOWHERE = Place("", 0, "")


def _short(path: str) -> str:
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative


def _writable(path: Path) -> list[str]:
    """Sections with variables."""
    with path.open("rb") as file:
        return [
            section.name
            for section in ELFFile(file).iter_sections()
            if section["sh_flags"] & 3 == 3  # writable, takes memory
            and not section["sh_flags"] & 0x400  # a thread's own
            and not re.match(r"\.(init|fini)_array|\.ctors|\.dtors", section.name)
        ]

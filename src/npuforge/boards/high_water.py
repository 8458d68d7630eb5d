"""What a program really touched: stack and arenas painted before an emulated run, read after it.

The program is that of the project with one more object around `main` and the exit. It runs twice
with two patterns: a byte that was written differs from at least one of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npuforge.artefacts.elf import Image, read_elf
from npuforge.boards.qemu import QemuBoard
from npuforge.boards.toolchain import BUILD_SECONDS, Toolchain, run_tool
from npuforge.errors import ToolError
from npuforge.graph import Array
from npuforge.memory.gap import PeakBreakdown
from npuforge.memory.ledger import Ledger
from npuforge.memory.system import Account

PATTERNS = (0xA5, 0x5A)


@dataclass(frozen=True)
class AreaUse:
    """A piece of memory after a run.

    Attributes:
        name: section, or "stack".
        nbytes: its size.
        touched: bytes that were written.
        high: bytes from the end that is used first to the last one written.
    """

    name: str
    nbytes: int
    touched: int
    high: int


@dataclass(frozen=True)
class HighWater:
    """The stack and every activation section after one inference."""

    stack: AreaUse
    arenas: tuple[AreaUse, ...]


@dataclass(frozen=True)
class MeasuredMemory:
    """Expected, linked and run: the memory of one generated program.

    Attributes:
        breakdown: from live tensors to planned bytes.
        weights: bytes of the planned weights.
        ledger: every byte of the linked program.
        printed: what ``size`` of the tool chain prints for it: text, data, bss.
        stack_reserved: bytes the linker script keeps for the stack.
        stack_room: bytes between static data and the top of the stack.
        run: what one inference wrote.
    """

    breakdown: PeakBreakdown
    weights: int
    ledger: Ledger
    printed: tuple[int, int, int]
    stack_reserved: int
    stack_room: int
    run: HighWater

    @property
    def exact(self) -> bool:
        """Whether the ledger is what ``size`` prints and every class is what was planned."""
        sizes, sums = self.ledger.sizes, self.ledger.by_account()
        return (
            (sizes.text, sizes.data, sizes.bss) == self.printed
            and sums[Account.WEIGHTS] == self.weights
            and sums[Account.ACTIVATIONS] == self.breakdown.planned
        )


def measure_high_water(
    build: Path,
    project: Path,
    board: QemuBoard,
    sample: dict[str, Array],
    stack: int,
    tools: Toolchain,
) -> HighWater:
    """Run one inference of a built project and count what it wrote.

    Args:
        build: folder that `build_project` filled.
        project: folder of the project.
        board: the network in the emulator; its input is fed as `validate` does.
        sample: input of the network.
        stack: bytes reserved below ``nf_stack_top``.
        tools: cross compiler and emulator.

    Raises:
        ToolError: it does not link, or the run fails.
    """  # fmt: skip
    image = read_elf((build / "validate.elf").read_bytes(), "validate.elf")
    areas = [
        (section.name, section.address, section.size)
        for section in image.sections
        if "_region_" in section.name and not section.loaded
    ]
    images: list[np.ndarray[tuple[int], np.dtype[np.uint8]]] = []
    with tempfile.TemporaryDirectory(prefix="npuforge-") as name:
        folder = Path(name)
        for pattern in PATTERNS:
            _link(folder, build, project, areas, stack, pattern, tools)
            raw = board.run_image(folder, "high_water.elf", sample, "nf_high.bin")
            images.append(np.frombuffer(raw, np.uint8))
    want = stack + sum(size for _, _, size in areas)
    if any(image.size != want for image in images):
        raise ToolError("BRD-012", want=want, got=min(image.size for image in images))
    written = np.zeros(want, bool)
    for dump, pattern in zip(images, PATTERNS, strict=True):
        written |= dump != pattern
    stack_use = _use("stack", written[:stack][::-1])
    at, arenas = stack, []
    for name, _, size in areas:
        arenas.append(_use(name, written[at : at + size]))
        at += size
    return HighWater(stack_use, tuple(arenas))


def _use(name: str, written: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> AreaUse:
    found = np.flatnonzero(written)
    return AreaUse(name, written.size, found.size, int(found[-1]) + 1 if found.size else 0)


def _link(
    folder: Path, build: Path, project: Path, areas: Sequence[tuple[str, int, int]], stack: int,
    pattern: int, tools: Toolchain,
) -> None:  # fmt: skip
    rows = ",".join(f"{{{address:#x}u,{size}u}}" for _, address, size in areas)
    objects = sorted(
        str(path)
        for path in (build / "CMakeFiles").rglob("*.obj")
        if "known_answer.dir" not in path.parts
    )
    machine = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O2"]
    command = [
        tools.compiler, *machine, f"-DNF_AREAS={rows}", f"-DNF_STACK={stack}u",
        f"-DNF_PATTERN={pattern}u", f"-I{project / 'board'}",
        str(Path(__file__).with_name("high_water.c")), *objects, "-nostartfiles",
        "--specs=nosys.specs", f"-T{project / 'board' / 'link.ld'}", "-Wl,--gc-sections",
        "-Wl,--wrap=main,--wrap=sh_exit", "-Wl,--no-warn-rwx-segments", "-lm", "-o",
        str(folder / "high_water.elf"),
    ]  # fmt: skip
    done = run_tool(command, BUILD_SECONDS)
    if done.returncode:
        raise ToolError("BRD-004", folder=folder, code=done.returncode, detail=done.stderr)


def stack_room(image: Image) -> int:
    """Bytes from the end of static data to the top of the stack, 0 when the symbols are missing."""
    top, end = image.symbols.get("nf_stack_top"), image.symbols.get("nf_bss_end")
    return top.address - end.address if top and end else 0


def printed_sizes(elf: Path, tools: Toolchain) -> tuple[int, int, int]:
    """What the tool chain's ``size`` prints for a program: text, data, bss.

    Raises:
        ToolError: it cannot be run, or prints something else.
    """
    done = run_tool([tools.compiler.replace("-gcc", "-size"), str(elf)], 60)
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    words = lines[1].split()[:3] if len(lines) > 1 else []
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        raise ToolError("BRD-004", folder=elf, code=done.returncode, detail=done.stderr)
    return int(words[0]), int(words[1]), int(words[2])

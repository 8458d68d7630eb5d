"""Memory of a whole system in the Python side of the command line; `npuforge.api` offers it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from npuforge.artefacts.elf import read_elf
from npuforge.artefacts.minimalloc import write_minimalloc
from npuforge.boards import QemuBoard, build_project, find_toolchain
from npuforge.boards.high_water import MeasuredMemory, measure_high_water, printed_sizes, stack_room
from npuforge.errors import PlanError, UsageError
from npuforge.explore.claims import read_claims
from npuforge.explore.compiler import FilledBanks, compiler_banks
from npuforge.explore.fit import limited, on_chip, on_the_chip
from npuforge.explore.shortfall import Diagnosis, diagnose, diagnose_system
from npuforge.explore.system import plan_description, read_linked
from npuforge.firmware import capture_order
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory.check import Disagreement, FileClaims, compare_files
from npuforge.memory.gap import peak_breakdown
from npuforge.memory.layout import SystemLayout
from npuforge.memory.ledger import Ledger
from npuforge.memory.linker import STACK_BYTES
from npuforge.memory.shortfall import minimalloc_rows
from npuforge.memory.system import bytes_of, read_system
from npuforge.memory.writers.files import layout_files
from npuforge.memory.writers.tflm import offline_file
from npuforge.pipeline import PlannedModel
from npuforge.report import check_writable, memory_document, write_file
from npuforge.report.memory_map import memory_page, memory_svg
from npuforge.targets import Target, load_target

PathLike = str | os.PathLike[str]


def parse_bytes(value: str | int | None) -> int | None:
    """A number of bytes, also as text ("294 KiB"); None stays None.

    Raises:
        UsageError: it is no positive number of bytes.
    """
    if value is None:
        return None
    found = value if isinstance(value, int) else bytes_of(value)
    if found is None or found <= 0:
        raise UsageError("MEM-022", value=value)
    return found


def fit_system(description: PathLike) -> SystemLayout:
    """Give everything of a system description an address.

    Args:
        description: TOML file; docs/reference/system_files.md lists its fields.

    Raises:
        NpuforgeError: a file cannot be read, a field is wrong, or something does not fit.
    """
    return plan_description(read_system(Path(description)))


@dataclass(frozen=True, eq=False)
class ModelFit:
    """Whether a model fits on a board, and how.

    Attributes:
        target: the board.
        planned: the model with its plan; None when there is none.
        refused: why there is none.
        diagnosis: why it does not fit on the chip as it is and what helps; None when it fits, be
            it in stripes.
        compiler: what ST's compiler is predicted to fill; None without a Neural-ART.
    """

    target: Target
    planned: PlannedModel | None
    refused: PlanError | None
    diagnosis: Diagnosis | None
    compiler: FilledBanks | None = None


def fit_model(
    model: PathLike,
    target: str,
    *,
    activations: str | int | None = None,
    tiling: bool = True,
    fix_shape: Sequence[str] = (),
) -> ModelFit:
    """Plan one model on a board; where it does not fit, say why and what helps.

    Args:
        model: TFLite or ONNX file.
        target: board name or description file.
        activations: bytes that the activations may take; see `api.analyze_model`.
        tiling: whether steps may be computed in stripes where they do not fit.
        fix_shape: see `api.run_model`.

    Raises:
        NpuforgeError: the model cannot be read or computed, or its weights do not fit.
    """
    from npuforge import api

    board, limit = load_target(target), parse_bytes(activations)
    graph = api.load_graph(model, None, fix_shape)
    banks = compiler_banks(graph, board)
    planned: PlannedModel | None = None
    refused: PlanError | None = None
    try:
        planned, _ = api.analyze_model(
            model, target, activations=limit, tiling=tiling, fix_shape=fix_shape
        )
        if on_the_chip(planned.plan, board):
            return ModelFit(board, planned, None, None, banks)
    except PlanError as error:
        if error.code == "MEM-002":
            raise
        refused = error
    schedule = lower(graph, map_graph(graph, board), board)
    asked = board if limit is None else limited(on_chip(board), limit)
    diagnosis = diagnose(graph.name, graph, schedule, asked)
    return ModelFit(board, planned, refused, diagnosis, banks)


def shortfalls(description: PathLike) -> tuple[Diagnosis, ...]:
    """The networks of a description that do not fit on the chip, why, and what would help.

    Raises:
        NpuforgeError: a file cannot be read, or even the rest of the system does not fit.
    """
    return diagnose_system(read_system(Path(description)))


def draw_memory(model: PathLike, target: str, output: PathLike, *, force: bool = False) -> Path:
    """Draw which buffer of a model lies where at which step.

    Args:
        model: TFLite or ONNX file.
        target: board the plan is made for.
        output: file to write: .svg for a picture, .html for a page with a cursor.
        force: replace an existing file.

    Raises:
        NpuforgeError: the model cannot be used, or the file not written.
    """
    from npuforge import api

    path = Path(output)
    draw = {".svg": memory_svg, ".html": memory_page}.get(path.suffix.lower())
    if draw is None:
        raise UsageError("SYS-051", path=path)
    check_writable(path, replace=force)
    planned, board = api.analyze_model(model, target)
    document = memory_document(planned.schedule, planned.plan)
    nodes = [step.node for step in planned.schedule.steps]
    write_file(path, draw(document, nodes, f"{planned.graph.name} on {board.name}").encode())
    return path


def export_plan(model: PathLike, target: str, output: PathLike, *, force: bool = False) -> Path:
    """Write a model's plan for another tool.

    Args:
        model: TFLite or ONNX file.
        target: board the plan is made for.
        output: .tflite for a file of the network that carries the plan as tflite-micro's offline
            memory plan, .csv for lifetimes, sizes and offsets in MiniMalloc's format.
        force: replace an existing file.

    Raises:
        NpuforgeError: the model cannot be used or expressed, or the file not written.
    """
    from npuforge import api

    path = Path(output)
    suffix = path.suffix.lower()
    if suffix not in (".tflite", ".csv"):
        raise UsageError("SYS-054", path=path)
    check_writable(path, replace=force)
    planned, _ = api.analyze_model(model, target, tiling=False)
    if suffix == ".csv":
        content = write_minimalloc(minimalloc_rows(planned.schedule, planned.plan)).encode()
    else:
        content = offline_file(planned.graph, planned.schedule, planned.plan)
    write_file(path, content)
    return path


def program_ledger(
    elf: PathLike, target: str, *, map_file: PathLike | None = None, stack: int = STACK_BYTES
) -> Ledger:
    """Every byte of a linked program in one line.

    Args:
        elf: the program.
        target: the machine it was linked for.
        map_file: its linker map; the file beside the ELF with the ending .map when None and there.
        stack: bytes reserved for the stack below the symbol ``nf_stack_top``.

    Raises:
        NpuforgeError: a file cannot be read, they do not belong together, or a byte lies outside
            of the target's memory.
    """
    path = Path(elf)
    beside = path.with_suffix(".map")
    chosen = Path(map_file) if map_file is not None else beside if beside.is_file() else None
    return read_linked(path, chosen, load_target(target), stack=stack)


def write_system(
    description: PathLike, folder: PathLike, *, force: bool = False
) -> tuple[Path, ...]:
    """Write the files that follow from a system description.

    Args:
        description: TOML file.
        folder: where they go; it is made if need be.
        force: replace existing files.

    Returns:
        The files, in the order of their names.

    Raises:
        NpuforgeError: as for `fit_system`; a file exists, or cannot be written.
    """
    files = layout_files(fit_system(description))
    paths = {Path(folder) / name: content for name, content in sorted(files.items())}
    for path in paths:
        check_writable(path, replace=force)
    for path, content in paths.items():
        write_file(path, content)
    return tuple(paths)


def measure_memory(model: PathLike, target: str) -> MeasuredMemory:
    """Build the firmware of a model, account for it, and run it in the emulator.

    Args:
        model: TFLite or ONNX file.
        target: board the plan is made for.

    Raises:
        NpuforgeError: the model cannot be used, or a tool is missing or fails.
    """
    from npuforge import api

    planned, board = api.analyze_model(model, target)
    tools = find_toolchain()
    inputs = api.validation_inputs(planned.graph, random_samples=1)
    machine = board.emulated_by or board.name
    with TemporaryDirectory(prefix="npuforge-") as name:
        project = Path(name) / "firmware"
        build = project / "build"
        api.write_project(project, planned, inputs, board)
        build_project(project, build, tools)
        elf = build / "validate.elf"
        ledger = program_ledger(elf, machine)
        emulated = QemuBoard(
            planned.graph, planned.schedule, capture_order(planned.schedule), build, 0, tools
        )
        run = measure_high_water(
            build, project, emulated, dict(inputs.samples[-1]), STACK_BYTES, tools
        )
        return MeasuredMemory(
            peak_breakdown(planned.schedule, planned.plan),
            int(planned.plan.image.size),
            ledger,
            printed_sizes(elf, tools),
            STACK_BYTES,
            stack_room(read_elf(elf.read_bytes(), elf.name)),
            run,
        )


@dataclass(frozen=True)
class MemoryCheck:
    """What several files say about memory, and in which points they disagree."""

    files: tuple[FileClaims, ...]
    disagreements: tuple[Disagreement, ...]


def check_memory(paths: Sequence[PathLike], target: str | None = None) -> MemoryCheck:
    """Compare files that describe memory: overlap, place, containment and, with a target, reach.

    Args:
        paths: linker scripts, ELF files, maps, ``.mpool`` files, ``c_info.json`` reports, generated
            memory protection tables, system descriptions.
        target: board whose memory everything must lie in.

    Raises:
        NpuforgeError: a file cannot be read or says nothing about memory.
    """
    files = tuple(read_claims(Path(path)) for path in paths)
    board = load_target(target) if target else None
    return MemoryCheck(files, tuple(compare_files(files, board)))

"""The Python side of the command line: one function a verb, same names, same options."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from npuforge import api_aton, api_board, api_doctor, api_memory, api_optimize, api_quantize
from npuforge.accelerators.neural_art.epochs import DEFAULT_RELEASE
from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.aton.choices import match_compiled
from npuforge.aton.load import load_compiled
from npuforge.boards import (
    HostBoard,
    QemuBoard,
    Toolchain,
    build_project,
    find_toolchain,
    missing_tools,
    write_sources,
)
from npuforge.boards.virtual_board import FaultResult, StressResult, VirtualBoard
from npuforge.cost import NpuCost, npu_cost
from npuforge.errors import ToolError, UsageError
from npuforge.explore.boards import compare_targets as compare_targets
from npuforge.explore.models import compare_models as compare_models
from npuforge.exporters import Conversion, convert, format_of
from npuforge.firmware import KnownAnswer, Network, capture_order, identifier, project_files
from npuforge.graph import Array, Graph
from npuforge.importers import Shapes, load_model, read_model_bytes
from npuforge.mapping import NpuMapping, map_to_npu
from npuforge.mapping import read_compiled as read_compiled
from npuforge.mapping import read_vela as read_vela
from npuforge.messages import text
from npuforge.numerics import Executor, kernel_threads, random_inputs, with_contract
from npuforge.numerics.neural_art import (
    CONTRACTS,
    Choices,
    NeuralArtExecutor,
    with_neural_art,
)
from npuforge.pipeline import PlannedModel, System, plan_system
from npuforge.report import check_writable, new_folder, tiling_notes, write_file
from npuforge.report.deployment import deployment_files, write_deployment
from npuforge.report.run import evidence as evidence
from npuforge.report.run import run_document as run_document
from npuforge.report.run import save_arrays as save_arrays
from npuforge.targets import Target, load_target, target_names
from npuforge.tasks import ImageRange, Samples, load_samples
from npuforge.validate import (
    Check,
    Status,
    Validation,
    check_emulated,
    check_host,
    dequantized,
    not_run,
    oracle_for,
)
from npuforge.validate.neural_art import ChipValidation, validate_against_chip
from npuforge.vocab import Contract

if TYPE_CHECKING:
    from npuforge.doctor.triage import Triage

PathLike = str | os.PathLike[str]
Tick = Callable[[str], None]

aton_check = api_aton.aton_check
aton_cosimulate = api_aton.aton_cosimulate
aton_diff = api_aton.aton_diff
aton_document = api_aton.aton_document
aton_run = api_aton.aton_run
aton_translate = api_aton.aton_translate
diagnose_project = api_doctor.diagnose_project
fit_model = api_memory.fit_model
fit_system = api_memory.fit_system
check_memory = api_memory.check_memory
measure_memory = api_memory.measure_memory
program_ledger = api_memory.program_ledger
draw_memory = api_memory.draw_memory
export_plan = api_memory.export_plan
shortfalls = api_memory.shortfalls
write_system = api_memory.write_system
explain_finding = api_doctor.explain_finding
guided_advice = api_doctor.guided_advice
probe_source = api_doctor.probe_source
support_bundle = api_doctor.support_bundle
versions_document = api_doctor.versions_document
optimize_model = api_optimize.optimize_model
lint_model = api_optimize.lint_model
quantize_model = api_quantize.quantize_model
tune_model = api_quantize.tune_model
layer_sensitivity = api_quantize.layer_sensitivity
stress_application = api_board.stress_application

RANDOM_SAMPLES = 10
SEED = 42
"""Number of random samples and seed that validation uses when no input is given."""


def parse_contract(name: str | None) -> Contract | None:
    """A contract by name; None stays None.

    Raises:
        UsageError: there is none with this name.
    """
    if name is None:
        return None
    try:
        return Contract(name)
    except ValueError:
        raise UsageError("NUM-016", contract=name, known=", ".join(Contract)) from None


def parse_shapes(entries: Sequence[str]) -> Shapes | None:
    """Shapes from entries like "input=1x3x224x224" or "batch=1".

    Raises:
        UsageError: an entry has another form.
    """
    shapes = {}
    for entry in entries:
        name, _, numbers = entry.rpartition("=")
        parts = re.split("[x,]", numbers)
        if not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise UsageError("IMP-039", entry=entry)
        shapes[name] = tuple(int(part) for part in parts)
    return shapes or None


def load_graph(
    model: PathLike, contract: str | None = None, fix_shape: Sequence[str] = ()
) -> Graph:
    """Read a model, fix its free dimensions and put it under a contract, if one is named."""
    return under_contract(load_model(model, parse_shapes(fix_shape)), contract)


def under_contract(graph: Graph, contract: str | None) -> Graph:
    """A graph under a contract by name; as it is when None."""
    chosen = parse_contract(contract)
    if chosen in CONTRACTS:
        return with_neural_art(graph, chosen)
    return graph if chosen is None else with_contract(graph, chosen)


def make_executor(
    graph: Graph,
    *,
    capture: bool = False,
    program: PathLike | None = None,
    threads: int | None = None,
) -> Executor | NeuralArtExecutor:
    """The executor of a graph: the NPU's arithmetic when a node is under a neural_art contract.

    Args:
        graph: the network.
        capture: whether every tensor must be readable after a run.
        program: compiled network whose choices and constants are taken instead of the defaults.
        threads: threads that share large layers, see `kernel_threads`.

    Raises:
        UsageError: a program is given, but the graph is under another contract or is not its model;
            threads are given for the NPU's arithmetic, or are no number of threads.
    """
    chip = next((node.contract for node in graph.nodes if node.contract in CONTRACTS), None)
    if chip is not None:
        if threads is not None and kernel_threads(threads) > 1:
            raise UsageError("NUM-024", contract=chip)
        return NeuralArtExecutor(graph, chip_choices(graph, program))
    if program is not None:
        raise UsageError("NUM-022", program=program)
    return Executor(graph, capture=capture, threads=threads)


def chip_choices(graph: Graph, program: PathLike | None = None) -> Choices:
    """Lowering choices and constants of a graph under a neural_art contract.

    Args:
        graph: the network.
        program: compiled network to take them from; the compiler's defaults when None.

    Raises:
        NpuforgeError: the program cannot be read, or was compiled from another model.
    """
    base = default_choices(graph)
    if program is None:
        return base
    return match_compiled(graph, base, load_compiled(Path(program))).choices


def run_model(
    model: PathLike,
    inputs: Sequence[PathLike],
    *,
    contract: str | None = None,
    capture: str | Sequence[str] = (),
    real: bool = False,
    image_range: str | None = None,
    fix_shape: Sequence[str] = (),
    program: PathLike | None = None,
    threads: int | None = None,
) -> dict[str, Array]:
    """Run a model on the host and return its outputs.

    Args:
        model: TFLite or ONNX file.
        inputs: one .npz, or one .npy, .csv or picture an input, in the model's order.
        contract: arithmetic for all integer nodes; None keeps that of the file format.
        capture: names of further tensors to return, or "all".
        real: arrays hold real numbers; outputs are returned as real numbers too.
        image_range: "0..1", "-1..1" or "0..255": what black and white are to the network.
        fix_shape: entries like "input=1x3x224x224" that fix free dimensions.
        program: see `make_executor`.
        threads: see `make_executor`.

    Returns:
        Arrays by tensor name, outputs first in the model's order. Where the input had a sample
        axis, so have the results.

    Raises:
        NpuforgeError: the model or an input cannot be used.
    """
    graph = load_graph(model, contract, fix_shape)
    samples = load_samples(
        [Path(path) for path in inputs],
        graph,
        real=real,
        image_range=parse_image_range(image_range),
    )
    return run_samples(graph, samples, capture=capture, real=real, program=program, threads=threads)


def parse_image_range(name: str | None) -> ImageRange | None:
    """An image range by name; None stays None.

    Raises:
        UsageError: there is none with this name.
    """
    if name is None:
        return None
    try:
        return ImageRange(name)
    except ValueError:
        raise UsageError("INP-013", value=name, known=", ".join(ImageRange)) from None


def run_samples(
    graph: Graph,
    samples: Samples,
    *,
    capture: str | Sequence[str] = (),
    real: bool = False,
    tick: Tick | None = None,
    program: PathLike | None = None,
    threads: int | None = None,
) -> dict[str, Array]:
    """Run a graph on samples; see `run_model`."""
    wanted = _wanted(graph, capture)
    many = len(wanted) > len(graph.outputs)
    executor = make_executor(graph, capture=many, program=program, threads=threads)
    results = []
    for number, sample in enumerate(samples.samples):
        executor.run(sample)
        found = executor.read(wanted)
        if real:
            found = {n: dequantized(graph.tensors[n], a) for n, a in found.items()}
        results.append(found)
        if tick is not None:
            tick(f"{number + 1} / {len(samples.samples)}")
    return samples.join(results)


def convert_model(
    model: PathLike,
    output: PathLike,
    *,
    fix_shape: Sequence[str] = (),
    force: bool = False,
) -> Conversion:
    """Write a model as a TFLite or ONNX file; the name says which.

    The file holds the graph as npuforge reads it: constants folded, shapes static. It is computed
    under its own format's arithmetic; `changed` of the result lists the nodes for which that is
    another one than before.

    Args:
        model: TFLite or ONNX file.
        output: file to write, ending in .tflite or .onnx; it appears complete or not at all.
        fix_shape: see `run_model`.
        force: replace an existing file.

    Raises:
        UsageError: the output's name or place will not do, or it exists.
        UnsupportedError: the format cannot express a node; the message names it and the reason.
    """
    path = Path(output)
    target = format_of(path)
    check_writable(path, replace=force)
    made = convert(load_graph(model, None, fix_shape), target)
    write_file(path, made.content)
    return made


def conversion_document(made: Conversion, output: Path) -> dict[str, Any]:
    """A summary of a conversion as a JSON document."""
    return {
        "schema": "npuforge.conversion/1",
        "model": made.graph.name,
        "output": str(output),
        "format": str(made.format),
        "bytes": len(made.content),
        "nodes": len(made.graph.nodes),
        "tensors": len(made.graph.tensors),
        "changed": [
            {"node": node.name, "op": node.op, "contract": str(node.contract)}
            for node in made.changed
        ],
    }


def _wanted(graph: Graph, capture: str | Sequence[str]) -> list[str]:
    known = [name for node in graph.nodes for name in node.outputs]
    names: Iterable[str] = [capture] if isinstance(capture, str) else capture
    if "all" in names and "all" not in known:
        names = known
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError("INP-014", tensor=unknown[0], model=graph.name)
    return list(dict.fromkeys([*graph.outputs, *names]))


def analyze_model(
    model: PathLike,
    target: str,
    *,
    contract: str | None = None,
    fix_shape: Sequence[str] = (),
    activations: str | int | None = None,
    tiling: bool = True,
) -> tuple[PlannedModel, Target]:
    """Everything that is known of a deployment without running anything.

    Args:
        model: TFLite or ONNX file.
        target: board name or description file.
        contract: see `run_model`.
        fix_shape: see `run_model`.
        activations: bytes that the activations may take, as a number or like "294 KiB"; None for
            what the target has.
        tiling: whether steps may be computed in stripes where the activations do not fit.

    Raises:
        NpuforgeError: the model cannot be read, computed or placed on the target.
    """
    board = load_target(target)
    system = System(
        (Path(model),), board, parse_contract(contract), parse_shapes(fix_shape),
        api_memory.parse_bytes(activations), tiling,
    )  # fmt: skip
    return plan_system(system).models[0], board


def npu_mapping(
    graph: Graph,
    target: Target,
    *,
    cpu: Sequence[str] = (),
    integer_io: bool = False,
    release: str = DEFAULT_RELEASE,
) -> NpuMapping | None:
    """The predicted placement on the target's Neural-ART; None when it has none.

    Raises:
        UsageError: a name in `cpu` fits no node and no operator of the graph, or `release` is no
            release of ST Edge AI Core.
    """
    if not target.has_neural_art:
        return None
    return map_to_npu(graph, cpu=cpu, integer_io=integer_io, release=release)


def npu_time(
    graph: Graph, target: Target, npu: NpuMapping, clock: str, *, release: str = DEFAULT_RELEASE
) -> NpuCost:
    """Estimated time of every Neural-ART epoch at an operating point of the target.

    Raises:
        UsageError: the target has no such operating point, or `release` is no release.
    """
    point = target.operating_points[check_clock(target, clock)]
    return npu_cost(graph, npu.placements, point, release=release)


def check_clock(target: Target, clock: str) -> str:
    """The name of an operating point that the target has.

    Raises:
        UsageError: it has none with this name.
    """
    if clock not in target.operating_points:
        known = ", ".join(target.operating_points)
        raise UsageError("TGT-003", target=target.name, point=clock, known=known)
    return clock


@dataclass(frozen=True, eq=False)
class ValidationInputs:
    """Samples for a validation, and in words where they came from."""

    samples: tuple[Mapping[str, Array], ...]
    origin: str


def validation_inputs(
    graph: Graph,
    valinput: Sequence[PathLike] = (),
    *,
    random_samples: int | None = None,
    image_range: str | None = None,
    real: bool = False,
) -> ValidationInputs:
    """Random samples with a fixed seed, then the given ones.

    Args:
        graph: the network.
        valinput: input files; see `run_model`.
        random_samples: how many random ones; 10 when None.
        image_range: see `run_model`.
        real: see `run_model`.
    """
    count = RANDOM_SAMPLES if random_samples is None else random_samples
    rng = np.random.default_rng(SEED)
    samples = [random_inputs(graph, rng) for _ in range(count)]
    parts = [text("VAL-random", count=count, seed=SEED)] if count else []
    if valinput:
        given = load_samples(
            [Path(path) for path in valinput],
            graph,
            real=real,
            image_range=parse_image_range(image_range),
        )
        samples += [dict(sample) for sample in given.samples]
        names = ", ".join(Path(path).name for path in valinput)
        parts.append(text("VAL-given", count=len(given.samples), files=names))
    if not samples:
        raise UsageError("VAL-002")
    return ValidationInputs(tuple(samples), "; ".join(parts))


def host_check(model: PlannedModel, inputs: ValidationInputs) -> Check:
    """Compare the host run of a plan with the oracle of the model's format."""
    host = HostBoard(model.graph, model.schedule, model.plan)
    try:
        oracle = oracle_for(model.graph, read_model_bytes(model.path), model.path.parent)
    except ToolError as error:
        return not_run(host.name, text("VAL-oracle"), error.message)
    return check_host(model.graph, host, inputs.samples, oracle)


def validate_model(
    model: PathLike,
    target: str = "mps3-an547",
    *,
    mode: str = "host",
    valinput: Sequence[PathLike] = (),
    random_samples: int | None = None,
    image_range: str | None = None,
    real: bool = False,
    contract: str | None = None,
    fix_shape: Sequence[str] = (),
    activations: str | int | None = None,
    tiling: bool = True,
) -> tuple[PlannedModel, Validation]:
    """Compare every tensor of a model with its oracle, on the host and if asked in the emulator.

    Args:
        model: TFLite or ONNX file.
        target: board the plan is made for.
        mode: "host", or "target" for the emulated Cortex-M55 too.
        valinput: input files beside the random samples.
        random_samples: number of random samples; 10 when None.
        image_range: see `run_model`.
        real: see `run_model`.
        contract: see `run_model`.
        fix_shape: see `run_model`.
        activations: see `analyze_model`.
        tiling: see `analyze_model`.

    Raises:
        NpuforgeError: the model cannot be used, or in mode "target" a tool is missing.
    """
    planned, board = analyze_model(
        model, target, contract=contract, fix_shape=fix_shape, activations=activations,
        tiling=tiling,
    )  # fmt: skip
    inputs = validation_inputs(
        planned.graph,
        valinput,
        random_samples=random_samples,
        image_range=image_range,
        real=real,
    )
    checks = [host_check(planned, inputs)]
    instructions: tuple[int, ...] = ()
    if mode == "target":
        tools = find_toolchain()
        with TemporaryDirectory(prefix="npuforge-") as name:
            project = Path(name) / "firmware"
            write_project(project, planned, inputs, board)
            build_project(project, project / "build", tools)
            check, instructions = emulated_check(planned, inputs, project / "build", tools)
            checks.append(check)
    elif mode != "host":
        raise UsageError("VAL-003", mode=mode)
    return planned, Validation(tuple(checks), False, inputs.origin, instructions)


def validate_against(
    model: PathLike,
    against: str,
    *,
    valinput: Sequence[PathLike] = (),
    random_samples: int | None = None,
    image_range: str | None = None,
    contract: str | None = None,
    fix_shape: Sequence[str] = (),
    program: PathLike | None = None,
) -> ChipValidation:
    """How far the chip's arithmetic moves each tensor of a model, and which stage moves it.

    Args:
        model: TFLite or ONNX file.
        against: "neural_art" or "neural_art@1.1.3".
        valinput: see `validate_model`.
        random_samples: see `validate_model`.
        image_range: see `run_model`.
        contract: arithmetic of the reference; None is that of the file format.
        fix_shape: see `run_model`.
        program: see `make_executor`.

    Raises:
        NpuforgeError: the model cannot be used, or `against` is no contract of the chip.
    """
    if parse_contract(against) not in CONTRACTS:
        raise UsageError("VAL-005", contract=against, known=", ".join(CONTRACTS))
    graph = load_graph(model, None, fix_shape)
    chip = under_contract(graph, against)
    inputs = validation_inputs(
        chip, valinput, random_samples=random_samples, image_range=image_range
    )
    reference = under_contract(graph, contract)
    return validate_against_chip(reference, chip, chip_choices(chip, program), inputs.samples)


def _project(model: PlannedModel, sample: Mapping[str, Array], board: Target) -> dict[str, bytes]:
    machine = load_target(board.emulated_by or board.name)
    outputs = HostBoard(model.graph, model.schedule, model.plan).run(sample).outputs
    network = Network(identifier(model.graph.name), model.graph, model.schedule, model.plan)
    title = f"{model.graph.name} on {machine.name}"
    return project_files([network], [KnownAnswer(sample, outputs)], machine, title)


def stress_model(
    model: PathLike, target: str, *, inferences: int = 1000, trials: int = 0, seed: int = SEED
) -> tuple[StressResult, tuple[FaultResult, ...]]:
    """Run a model's firmware on the virtual board with random buffers, evictions and delays.

    Args:
        model: TFLite or ONNX file.
        target: board whose memory plan is taken.
        inferences: how many to run without a fault.
        trials: how often to inject each fault; 0 injects none.
        seed: of everything random.

    Raises:
        ToolError: there is no gcc, or the firmware does not build or run.
    """
    board = load_target(target)
    planned = plan_system(System((Path(model),), board)).models[0]
    sample = random_inputs(planned.graph, np.random.default_rng(seed))
    with TemporaryDirectory(prefix="npuforge-") as folder:
        virtual = VirtualBoard(_project(planned, sample, board), Path(folder))
        result = virtual.stress(inferences, seed)
        return result, virtual.inject(trials, seed=seed) if trials else ()


def write_project(
    folder: Path, model: PlannedModel, inputs: ValidationInputs, board: Target
) -> None:
    """Write the firmware project of a model for the machine that can run it here."""
    write_sources(folder, _project(model, inputs.samples[-1], board))


def emulated_check(
    model: PlannedModel, inputs: ValidationInputs, build: Path, tools: Toolchain
) -> tuple[Check, tuple[int, ...]]:
    """Run the built firmware in the emulator: known answer, every tensor, instruction counts."""
    order = capture_order(model.schedule)
    board = QemuBoard(model.graph, model.schedule, order, build, 0, tools)
    host = HostBoard(model.graph, model.schedule, model.plan)
    board.known_answer()
    check = check_emulated(model.graph, board, inputs.samples, host)
    return check, board.count_instructions(inputs.samples[-1])


@dataclass(frozen=True, eq=False)
class Deployment:
    """The result of `deploy_model`.

    Attributes:
        folder: the bundle.
        model: the planned model.
        target: the board.
        validation: what was executed and compared.
        notes: what the user should know, in words.
    """

    folder: Path
    model: PlannedModel
    target: Target
    validation: Validation
    notes: tuple[str, ...]


def deploy_model(
    model: PathLike,
    target: str,
    output: PathLike,
    *,
    clock: str = "nominal",
    valinput: Sequence[PathLike] = (),
    random_samples: int | None = None,
    image_range: str | None = None,
    contract: str | None = None,
    fix_shape: Sequence[str] = (),
    activations: str | int | None = None,
    tiling: bool = True,
    emulate: str = "auto",
    force: bool = False,
    tick: Tick | None = None,
) -> Deployment:
    """The main job: from a model file to a validated firmware project and a report.

    Args:
        model: TFLite or ONNX file.
        target: board name or description file.
        output: folder of the bundle; it appears complete or not at all.
        clock: operating point.
        valinput: input files beside the random samples; the last sample becomes the known answer.
        random_samples: number of random samples; 10 when None.
        image_range: see `run_model`.
        contract: see `run_model`.
        fix_shape: see `run_model`.
        activations: see `analyze_model`.
        tiling: see `analyze_model`.
        emulate: "auto" runs the emulator where its tools are, "on" insists, "off" skips it.
        force: replace an existing folder.
        tick: called with the name of each stage as it begins.

    Raises:
        NpuforgeError: whatever a stage refuses; nothing is left behind then.
    """
    say = tick or (lambda _: None)
    tools = _emulator(emulate)
    folder = Path(output)
    with new_folder(folder, replace=force) as work:
        say(text("DEP-plan"))
        planned, board = analyze_model(
            model, target, contract=contract, fix_shape=fix_shape, activations=activations,
            tiling=tiling,
        )  # fmt: skip
        check_clock(board, clock)
        inputs = validation_inputs(
            planned.graph,
            valinput,
            random_samples=random_samples,
            image_range=image_range,
        )
        say(text("DEP-host"))
        checks = [host_check(planned, inputs)]
        write_project(work / "firmware", planned, inputs, board)
        instructions: tuple[int, ...] = ()
        notes = list(tiling_notes(planned, board, clock))
        if tools is None:
            reason = _no_emulator(emulate)
            notes.append(reason)
            checks.append(not_run("qemu mps3-an547", "host run", reason))
        else:
            say(text("DEP-build"))
            with TemporaryDirectory(prefix="npuforge-") as build:
                build_project(work / "firmware", Path(build), tools)
                say(text("DEP-emulate"))
                check, instructions = emulated_check(planned, inputs, Path(build), tools)
                checks.append(check)
                copy_images(Path(build), work / "firmware" / "images")
        validation = Validation(tuple(checks), False, inputs.origin, instructions)
        say(text("DEP-report"))
        files = deployment_files(planned, board, clock, validation)
        write_deployment(work, files, planned, board, clock, validation, tools)
    notes += [check.reason for check in checks if check.status is Status.NOT_RUN]
    return Deployment(folder, planned, board, validation, tuple(dict.fromkeys(notes)))


def copy_images(build: Path, folder: Path) -> None:
    """Keep the linked images and their maps."""
    folder.mkdir()
    for path in sorted(build.glob("*.elf")):
        shutil.copy2(path, folder / path.name)
        shutil.copy2(path.with_suffix(".map"), folder / path.with_suffix(".map").name)


def _emulator(emulate: str) -> Toolchain | None:
    if emulate not in ("auto", "on", "off"):
        raise UsageError("DEP-001", value=emulate)
    if emulate == "off" or (emulate == "auto" and missing_tools()):
        return None
    return find_toolchain()


def _no_emulator(emulate: str) -> str:
    if emulate == "off":
        return text("DEP-off")
    return text("DEP-missing", tools=", ".join(missing_tools()))


def iter_targets() -> Iterator[Target]:
    """All targets that come with npuforge."""
    for name in target_names():
        yield load_target(name)


def triage_recording(
    model: PathLike,
    recorded: PathLike,
    *,
    image_range: str | None = None,
    fix_shape: Sequence[str] = (),
    tick: Tick = lambda _: None,
) -> Triage:
    """Name what makes a deployed network give the outputs that were recorded.

    Args:
        model: the network that was deployed.
        recorded: npz with the right inputs (``input``), the device's outputs (``output``) and,
            where it was recorded, its input buffer (``device_input``); or a serial dump.
        image_range: what black and white are to the network; guessed when None.
        fix_shape: see `run_model`.
        tick: told what is being tried.

    Raises:
        NpuforgeError: the network or the recording cannot be used.
    """
    from npuforge.doctor.triage import read_recorded, triage

    graph = load_graph(model, None, fix_shape)
    chosen = parse_image_range(image_range)
    return triage(graph, read_recorded(Path(recorded), graph, chosen), chosen, tick)

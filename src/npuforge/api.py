"""The Python side of the command line: one function a verb, same names, same options."""

from __future__ import annotations

import io
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.artefacts.ec_blob import read_blob, write_blob
from npuforge.aton import assemble, disassemble, epochs_of
from npuforge.boards import (
    HostBoard,
    QemuBoard,
    Toolchain,
    build_project,
    find_toolchain,
    missing_tools,
)
from npuforge.cost import NpuCost, npu_cost
from npuforge.doctor import RULES, Diagnosis, Rule, collect, diagnose
from npuforge.errors import ToolError, UsageError
from npuforge.explore.judge import TargetJudge
from npuforge.exporters import Conversion, convert, format_of
from npuforge.firmware import KnownAnswer, Network, capture_order, identifier, project_files
from npuforge.graph import Array, Graph
from npuforge.importers import Shapes, load_model, read_model_bytes
from npuforge.lint import LintFinding, lint_file
from npuforge.mapping import NpuMapping, map_to_npu
from npuforge.messages import text
from npuforge.numerics import Executor, random_inputs, with_contract
from npuforge.numerics.neural_art import (
    CONTRACTS,
    NeuralArtExecutor,
    grade,
    unit_of,
    with_neural_art,
)
from npuforge.passes import Optimization, calibrated_inputs, optimize
from npuforge.pipeline import PlannedModel, System, plan_system
from npuforge.report import check_writable, new_folder, write_file
from npuforge.report.conversion import conversion_document as conversion_document
from npuforge.report.deployment import deployment_files, write_deployment
from npuforge.report.optimization import (
    Written,
    check_outputs,
    choose_passes,
    write_optimized,
)
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
from npuforge.vocab import Contract

PathLike = str | os.PathLike[str]
Tick = Callable[[str], None]

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
    graph = load_model(model, parse_shapes(fix_shape))
    chosen = parse_contract(contract)
    if chosen in CONTRACTS:
        return with_neural_art(graph, chosen)
    return graph if chosen is None else with_contract(graph, chosen)


def make_executor(graph: Graph, *, capture: bool = False) -> Executor | NeuralArtExecutor:
    """The executor of a graph: the NPU's arithmetic when a node is under a neural_art contract."""
    if any(node.contract in CONTRACTS for node in graph.nodes):
        return NeuralArtExecutor(graph, default_choices(graph))
    return Executor(graph, capture=capture)


def run_model(
    model: PathLike,
    inputs: Sequence[PathLike],
    *,
    contract: str | None = None,
    capture: str | Sequence[str] = (),
    real: bool = False,
    image_range: str | None = None,
    fix_shape: Sequence[str] = (),
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
    return run_samples(graph, samples, capture=capture, real=real)


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
) -> dict[str, Array]:
    """Run a graph on samples; see `run_model`."""
    wanted = _wanted(graph, capture)
    executor = make_executor(graph, capture=len(wanted) > len(graph.outputs))
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


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write results as .npz, or a single result as .npy, atomically.

    Raises:
        UsageError: the file cannot be written, or .npy was asked for several arrays.
    """
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npy":
        if len(arrays) != 1:
            raise UsageError("OUT-004", path=path, count=len(arrays))
        np.save(buffer, next(iter(arrays.values())), allow_pickle=False)
    else:
        # written by hand: tensor names may be anything, np.savez takes them as keywords
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    write_file(path, buffer.getvalue())


def run_document(
    graph: Graph, arrays: Mapping[str, Array], samples: int, output: Path | None
) -> dict[str, Any]:
    """A summary of results as a JSON document."""
    tensors = []
    for name, array in arrays.items():
        numbers = array.astype(np.float64)
        tensors.append(
            {
                "tensor": name,
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "min": float(numbers.min(initial=np.inf)),
                "max": float(numbers.max(initial=-np.inf)),
                "mean": float(numbers.mean()) if array.size else 0.0,
                "argmax": int(numbers.argmax()) if array.size else -1,
            }
        )
    return {
        "schema": "npuforge.run/1",
        "model": graph.name,
        "samples": samples,
        "output": None if output is None else str(output),
        "tensors": tensors,
        "evidence": evidence(graph),
    }


def evidence(graph: Graph) -> list[dict[str, str]]:
    """Per node, how well it is proved that its arithmetic is the NPU's; empty for other contracts.

    With the unit that computes it. Grades: A equal to outputs of a board, B compiled networks
    agree, C forced by the register header or by consistency, D best guess or the model file's rule
    in place of a CPU library.
    """
    if all(node.contract not in CONTRACTS for node in graph.nodes):
        return []
    return [
        {
            "node": node.name,
            "op": node.op,
            "contract": str(node.contract),
            "unit": str(unit_of(graph, node)),
            "grade": str(grade(graph, node)),
        }
        for node in graph.nodes
    ]


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


def optimize_model(
    model: PathLike,
    output: PathLike | None = None,
    *,
    target: str = "stm32n6570-dk",
    clock: str = "nominal",
    passes: Sequence[str] = (),
    skip: Sequence[str] = (),
    cut: bool = False,
    data: Sequence[PathLike] = (),
    random_samples: int | None = None,
    image_range: str | None = None,
    limit: float = 0.05,
    insist: bool = False,
    contract: str | None = None,
    fix_shape: Sequence[str] = (),
    force: bool = False,
    tick: Tick | None = None,
) -> tuple[Optimization, Written | None]:
    """Rewrite a model so that more of it runs on the NPU, each rewrite measured on data.

    Args:
        model: TFLite or ONNX file.
        output: file to write, ending in .tflite or .onnx; None only reports.
        target: board, whose placement and time say what pays.
        clock: its operating point.
        passes: only these passes; all that keep inputs and outputs when empty.
        skip: none of these passes.
        cut: also move conversions and CPU work at the network's ends into the application.
        data: input files everything is measured on too; see `run_model`.
        random_samples: number of random samples over the quantised ranges; 4, or 2 beside data.
        image_range, contract, fix_shape: see `run_model`.
        limit: largest relative difference of the outputs that bounded passes may add up to.
        insist: apply passes whether they pay or not.
        force: replace existing files.
        tick: called with the name of each pass as it begins.

    Raises:
        NpuforgeError: the model, the data or the output cannot be used.
    """
    board = load_target(target)
    judge = TargetJudge(board, board.operating_points[check_clock(board, clock)])
    choice = choose_passes(passes, skip, cut)
    path = None if output is None else Path(output)
    if path is not None:
        check_outputs(path, replace=force)
    graph = load_graph(model, contract, fix_shape)
    count = (2 if data else 4) if random_samples is None else random_samples
    samples = calibrated_inputs(graph, count, SEED)
    if data:
        span = parse_image_range(image_range)
        given = load_samples([Path(item) for item in data], graph, image_range=span)
        samples += [dict(sample) for sample in given.samples]
    if not samples:
        raise UsageError("VAL-002")
    made = optimize(graph, *choice, samples, judge, limit=limit, insist=insist, tick=tick)
    return made, None if path is None else write_optimized(made, samples, path, judge)


def lint_model(
    model: PathLike,
    data: Sequence[PathLike] = (),
    *,
    image_range: str | None = None,
    fix_shape: Sequence[str] = (),
    graph: Graph | None = None,
) -> tuple[LintFinding, ...]:
    """What in a model will make trouble on Neural-ART, errors first.

    A model that npuforge cannot read is looked at as far as its file goes.

    Args:
        model: TFLite or ONNX file.
        data: inputs on which ranges and accumulators are measured; see `run_model`.
        image_range, fix_shape: see `run_model`.
        graph: the model as it was read already.
    """
    paths = [Path(item) for item in data]
    span, shapes = parse_image_range(image_range), parse_shapes(fix_shape)
    return lint_file(Path(model), paths, shapes=shapes, image_range=span, graph=graph)


def _program_bytes(path: PathLike) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError("ATN-009", path=path, reason=error.strerror or str(error)) from None


def aton_document(path: PathLike) -> dict[str, Any]:
    """Epochs of an epoch-controller blob as a JSON document; bytes are what the engines move.

    Raises:
        ModelError: the file is no blob; the message names the word offset.
    """
    blob = read_blob(_program_bytes(path))
    return {
        "schema": "npuforge.aton/1",
        "path": str(path),
        "instructions": len(blob.instructions),
        "relocatable": bool(blob.prefix),
        "epochs": [
            {
                "epoch": epoch.number,
                "units": [unit.name for _, unit in sorted(epoch.units.items())],
                "read": sum(unit.stream_bytes for unit in epoch.readers),
                "written": sum(unit.stream_bytes for unit in epoch.writers),
            }
            for epoch in epochs_of(blob)
        ],
    }


def aton_translate(
    path: PathLike, action: str, output: PathLike | None = None, *, force: bool = False
) -> bytes:
    """Blob to text (``text``) or text to blob (``assemble``), byte-exact both ways.

    Args:
        path: blob, or text as this function writes it.
        action: ``text`` or ``assemble``.
        output: file to write; needed to assemble.
        force: replace an existing file.

    Raises:
        ModelError: what does not decode or parse, with its word offset or line number.
        UsageError: a path that cannot be read or written.
    """
    data = _program_bytes(path)
    if action == "assemble":
        if output is None:
            raise UsageError("ATN-010")
        made = write_blob(assemble(data.decode("utf-8", "replace")))
    else:
        made = disassemble(read_blob(data)).encode()
    if output is not None:
        check_writable(Path(output), replace=force)
        write_file(Path(output), made)
    return made


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
) -> tuple[PlannedModel, Target]:
    """Everything that is known of a deployment without running anything.

    Raises:
        NpuforgeError: the model cannot be read, computed or placed on the target.
    """
    board = load_target(target)
    planned = plan_system(
        System((Path(model),), board, parse_contract(contract), parse_shapes(fix_shape))
    )
    return planned.models[0], board


def npu_mapping(
    graph: Graph, target: Target, *, cpu: Sequence[str] = (), integer_io: bool = False
) -> NpuMapping | None:
    """The predicted placement on the target's Neural-ART; None when it has none.

    Raises:
        UsageError: a name in `cpu` fits no node and no operator of the graph.
    """
    if "neural_art" not in target.accelerators:
        return None
    return map_to_npu(graph, cpu=cpu, integer_io=integer_io)


def npu_time(graph: Graph, target: Target, npu: NpuMapping, clock: str) -> NpuCost:
    """Estimated time of every Neural-ART epoch at an operating point of the target.

    Raises:
        UsageError: the target has no such operating point.
    """
    point = target.operating_points[check_clock(target, clock)]
    return npu_cost(graph, npu.placements, point)


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

    Raises:
        NpuforgeError: the model cannot be used, or in mode "target" a tool is missing.
    """
    planned, board = analyze_model(model, target, contract=contract, fix_shape=fix_shape)
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


def write_project(
    folder: Path, model: PlannedModel, inputs: ValidationInputs, board: Target
) -> None:
    """Write the firmware project of a model for the machine that can run it here."""
    machine = load_target(board.emulated_by or board.name)
    sample = inputs.samples[-1]
    outputs = HostBoard(model.graph, model.schedule, model.plan).run(sample).outputs
    network = Network(identifier(model.graph.name), model.graph, model.schedule, model.plan)
    title = f"{model.graph.name} on {machine.name}"
    files = project_files([network], [KnownAnswer(sample, outputs)], machine, title)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


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
        planned, board = analyze_model(model, target, contract=contract, fix_shape=fix_shape)
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
        notes = []
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


def diagnose_project(paths: Iterable[PathLike]) -> Diagnosis:
    """Find what is wrong in the files of a deployment (`npuforge doctor`).

    Args:
        paths: folders and files in any mix: sources, linker scripts, ELF, logs, reports, models.

    Raises:
        UsageError: DOC-001 when a path does not exist.
    """
    return diagnose(collect(Path(path) for path in paths))


def explain_finding(name: str) -> tuple[Rule, ...]:
    """Rules by id (K11-no-reset) or family (K11).

    Raises:
        UsageError: DOC-003 when there is none.
    """
    wanted = name.lower()
    found = tuple(r for r in RULES.values() if wanted in (r.id.lower(), r.family.lower()))
    if not found:
        raise UsageError("DOC-003", id=name)
    return found

"""The Python side of `deploy`: from a model file to a validated firmware project."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from npuforge.api_st import StCompilation, compile_with_st, st_document, st_firmware
from npuforge.boards import (
    HostBoard,
    Toolchain,
    build_project,
    find_toolchain,
    missing_tools,
    write_sources,
)
from npuforge.boards.stedgeai import COMPILE_SECONDS
from npuforge.errors import UsageError
from npuforge.firmware import KnownAnswer, identifier
from npuforge.firmware.preprocess import PictureInput
from npuforge.firmware.stm32n6 import board_layout, board_project, has_board_project
from npuforge.graph import Array
from npuforge.messages import text
from npuforge.pipeline import PlannedModel
from npuforge.report import new_folder, tiling_notes
from npuforge.report.bundle import json_bytes
from npuforge.report.deployment import deployment_files, write_deployment
from npuforge.report.quantization import preprocessing_path
from npuforge.targets import Target
from npuforge.tasks import Preprocessing, image_geometry, load_preprocessing
from npuforge.tasks.images import guess_range
from npuforge.validate import Status, Validation, not_run

PathLike = str | os.PathLike[str]
Tick = Callable[[str], None]


def frame_inputs(
    model: PlannedModel, preprocess: PathLike | None, frame: str | None, image_range: str | None
) -> tuple[PictureInput, ...]:
    """The input of a model that takes a camera's frames, with what is declared for it; see
    `deploy_model`. None when its first input is no picture.

    Raises:
        UsageError: a declaration or a frame size that cannot be used.
    """
    from npuforge import api

    graph = model.graph
    size = parse_frame(frame)
    beside = preprocessing_path(model.path)
    path = Path(preprocess) if preprocess is not None else beside if beside.is_file() else None
    declared = path is not None or size is not None or image_range is not None
    geometry = image_geometry(graph.tensors[graph.inputs[0]])
    if geometry is None and (preprocess is not None or size is not None):
        raise UsageError("DEP-003", tensor=graph.inputs[0])
    # one channel may as well be sound: only what is declared counts
    if geometry is None or (geometry.channels == 1 and not declared):
        return ()
    if path is not None:
        pre, source = load_preprocessing(path), path.name
    elif image_range is not None:
        span = api.parse_image_range(image_range)
        assert span is not None
        pre, source = Preprocessing.of_range(span), text("DEP-range", range=span.value)
    else:
        span = guess_range(graph, graph.tensors[graph.inputs[0]])
        pre, source = Preprocessing.of_range(span), text("DEP-guessed", range=span.value)
    picture = PictureInput(identifier(graph.name), 0, graph, pre, size, source)
    picture.pre.values(picture.geometry.channels)
    return (picture,)


def parse_frame(value: str | None) -> tuple[int, int] | None:
    """Columns and rows from "640x480".

    Raises:
        UsageError: it is written otherwise.
    """
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", value.strip().lower())
    if match is None:
        raise UsageError("DEP-002", value=value)
    return int(match[1]), int(match[2])


def _board_project(
    model: PlannedModel,
    sample: Mapping[str, Array],
    board: Target,
    clock: str,
    pictures: Sequence[PictureInput],
) -> dict[str, bytes]:
    """The project of a board; for a target without one, that of the machine that emulates it."""
    from npuforge import api

    if not has_board_project(board):
        return api.emulated_project(model, sample, board)
    name = identifier(model.graph.name)
    layout = board_layout([(name, model.schedule)], board, model.graph.name)
    plan = layout.networks[0].plan
    outputs = HostBoard(model.graph, model.schedule, plan).run(sample).outputs
    answer = KnownAnswer(sample, outputs)
    return board_project(layout, {name: model.graph}, {name: answer}, clock, pictures)


@dataclass(frozen=True, eq=False)
class Deployment:
    """The result of `deploy_model`.

    Attributes:
        folder: the bundle.
        model: the planned model.
        target: the board.
        validation: what was executed and compared.
        notes: what the user should know, in words.
        st: what ST's compiler made of it; None for backend "cpu".
    """

    folder: Path
    model: PlannedModel
    target: Target
    validation: Validation
    notes: tuple[str, ...]
    st: StCompilation | None = None


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
    preprocess: PathLike | None = None,
    frame: str | None = None,
    backend: str = "cpu",
    st_seconds: float = COMPILE_SECONDS,
    st_network: PathLike | None = None,
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
        preprocess: declaration of what turns a camera's frame into the input, as `quantize_model`
            writes it; None takes the file beside the model, else `image_range`.
        frame: "WIDTHxHEIGHT" of the camera's frames; None is the size of the input.
        backend: "cpu"; "st" compiles the network with ST's compiler too, where it is installed, for
            latency and for memory, and leaves folder `st` ready to run where it is not.
        st_seconds: time limit of one run of ST's compiler.
        st_network: with backend "st", a network that ST's compiler has made already (its C file, or
            the folder of it): the compiler is not run, and `st/firmware` is the project around it.
        force: replace an existing folder.
        tick: called with the name of each stage as it begins.

    Raises:
        NpuforgeError: whatever a stage refuses; nothing is left behind then.
    """
    from npuforge import api

    say = tick or (lambda _: None)
    if backend not in ("cpu", "st"):
        raise UsageError("DEP-004", value=backend)
    if st_network is not None and backend != "st":
        raise UsageError("DEP-006")
    tools = _emulator(emulate)
    folder = Path(output)
    with new_folder(folder, replace=force) as work:
        say(text("DEP-plan"))
        planned, board = api.analyze_model(
            model, target, contract=contract, fix_shape=fix_shape, activations=activations,
            tiling=tiling,
        )  # fmt: skip
        api.check_clock(board, clock)
        inputs = api.validation_inputs(
            planned.graph,
            valinput,
            random_samples=random_samples,
            image_range=image_range,
        )
        say(text("DEP-host"))
        checks = [api.host_check(planned, inputs)]
        frames = frame_inputs(planned, preprocess, frame, image_range)
        files = _board_project(planned, inputs.samples[-1], board, clock, frames)
        write_sources(work / "firmware", files)
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
                check, instructions = api.emulated_check(planned, inputs, Path(build), tools)
                checks.append(check)
                copy_images(Path(build), work / "firmware" / "images")
        validation = Validation(tuple(checks), False, inputs.origin, instructions)
        st = None
        if st_network is not None:
            st_firmware(Path(st_network), board, clock, work / "st" / "firmware")
        elif backend == "st":
            say(text("DEP-st"))
            st = _compile_with_st(planned, board, work / "st", clock, st_seconds, say)
            if st.tool is None:
                notes.append(text("DEP-no-st"))
        say(text("DEP-report"))
        documents = deployment_files(planned, board, clock, validation)
        if st is not None:
            documents["st.json"] = json_bytes(st_document(st))
        write_deployment(work, documents, planned, board, clock, validation, tools)
    notes += [check.reason for check in checks if check.status is Status.NOT_RUN]
    return Deployment(folder, planned, board, validation, tuple(dict.fromkeys(notes)), st)


def _compile_with_st(
    model: PlannedModel, board: Target, folder: Path, clock: str, seconds: float, tick: Tick
) -> StCompilation:
    if not board.has_neural_art:
        raise UsageError("DEP-005", target=board.name)
    name = identifier(model.graph.name)
    layout = board_layout([(name, model.schedule)], board, model.graph.name)
    return compile_with_st(model, layout, name, folder, clock=clock, seconds=seconds, tick=tick)


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

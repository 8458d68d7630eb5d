"""The project that `deploy` writes for an STM32N6 board: complete, built by its own script."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import single, tensor
from tests.tools import needs_cmake, needs_compiler, needs_emulator

from npuforge import api
from npuforge.artefacts.elf import read_elf
from npuforge.errors import PlanError, UsageError
from npuforge.exporters import Format, convert
from npuforge.firmware.flash_layout import check_flash, flash_layout
from npuforge.firmware.network import Network
from npuforge.firmware.stm32n6 import board_layout
from npuforge.targets import load_target
from npuforge.vocab import Severity

BOARDS = ["stm32n6570-dk", "nucleo-n657x0-q"]


@pytest.fixture(scope="module", params=BOARDS)
def project(
    request: pytest.FixtureRequest,
    example: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Firmware folder of a deployment with a camera of another size."""
    out = tmp_path_factory.mktemp("deploy") / "bundle"
    api.deploy_model(
        example("visual_wake_words"), request.param, out, emulate="off", frame="160x120",
        random_samples=1,
    )  # fmt: skip
    return out / "firmware"


def test_manifest_names_every_byte(project: Path) -> None:
    document = json.loads((project / "flash" / "manifest.json").read_text())
    parts = document["parts"]
    weights = next(part for part in parts if "file" in part)
    content = (project / weights["file"]).read_bytes()
    assert len(content) == weights["bytes"]
    assert int(weights["crc32"], 16) == zlib.crc32(content)
    source = (project / "network" / "visual_wake_words.c").read_text()
    assert f"{zlib.crc32(content):#010x}" in source
    assert f"{int(weights['address'], 16):#010x}" in (project / "board" / "link.ld").read_text()


def test_preprocessing_is_for_the_camera(project: Path) -> None:
    header = (project / "app" / "preprocess.h").read_text()
    assert "FRAME_WIDTH 160u" in header
    assert "FRAME_HEIGHT 120u" in header


def test_nothing_of_this_machine(project: Path) -> None:
    for path in project.rglob("*"):
        if path.suffix in (".c", ".h", ".txt", ".json", ".md", ".ld", ".S"):
            assert str(Path.cwd()) not in path.read_text(encoding="utf-8"), path


@pytest.fixture(scope="module")
def built(project: Path) -> Path:
    """The project built as its README says."""
    generator = ["-G", "Ninja"] if shutil.which("ninja") else ["-G", "Unix Makefiles"]
    for command in (
        ["cmake", "--preset", "default", *generator],
        ["cmake", "--build", "--preset", "default"],
    ):
        run = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=300, check=False
        )
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
        assert "warning" not in run.stdout + run.stderr
    return project / "build"


@needs_compiler
@needs_cmake
def test_built_by_its_own_script(built: Path, project: Path) -> None:
    parts = json.loads((project / "flash" / "manifest.json").read_text())["parts"]
    image = read_elf((built / "app.elf").read_bytes())
    sections = {section.name: section for section in image.sections}
    for part in parts:
        address = int(part["address"], 16)
        if part["name"] == "image":
            size = (built / "app.bin").stat().st_size
            assert 0 < size + 0x400 <= part["at_most_bytes"]
        elif part["name"] == "known answers":
            assert sections[".nf_answers"].address == address
        else:
            weights = sections[".nf_visual_wake_words_weights"]
            assert (weights.address, weights.size) == (address, part["bytes"])
    # the vector table is first: stack pointer, then the reset handler
    head = (built / "app.bin").read_bytes()[:8]
    assert int.from_bytes(head[:4], "little") == image.symbols["nf_stack_top"].address
    assert int.from_bytes(head[4:], "little") | 1 == image.symbols["Reset_Handler"].address | 1
    assert (built / "app_constants.hex").stat().st_size > 0


@needs_compiler
@needs_cmake
def test_doctor_finds_nothing_wrong(built: Path, project: Path) -> None:
    result = api.diagnose_project([project])
    errors = [f for f in result.findings if f.severity is Severity.ERROR]
    assert not errors, errors


@pytest.mark.qemu
@needs_emulator
def test_the_same_objects_run(built: Path) -> None:
    run = subprocess.run(
        ["qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none", "-serial",
         "none", "-semihosting-config", "enable=on,target=native", "-kernel", "known_answer.elf"],
        cwd=built, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def test_plan_is_that_of_the_board(example: Callable[[str], Path]) -> None:
    planned, board = api.analyze_model(example("keyword_spotting"), BOARDS[0])
    layout = board_layout([("net", planned.schedule)], board, "test")
    assert layout.networks[0].plan.weights == planned.plan.weights
    assert layout.networks[0].plan.regions == planned.plan.regions
    assert planned.plan.weights.base == board.boot().weights


def test_flash_is_checked(example: Callable[[str], Path]) -> None:
    planned, board = api.analyze_model(example("keyword_spotting"), BOARDS[0])
    layout = board_layout([("net", planned.schedule)], board, "test")
    placed = layout.networks[0]
    flash = flash_layout(layout, [Network("net", planned.graph, placed.schedule, placed.plan)])
    weights = flash.part("weights of net")
    others = tuple(part for part in flash.parts if part is not weights)
    for address, code in (
        (flash.part("image").address, "FLS-001"),
        (board.pool("octoFlash").end - 16, "FLS-002"),
        (weights.address + 4096, "FLS-003"),
    ):
        moved = replace(weights, address=address)
        parts = tuple(sorted((*others, moved), key=lambda part: part.address))
        with pytest.raises(PlanError) as caught:
            check_flash(replace(flash, parts=parts), layout)
        assert caught.value.code == code


@pytest.mark.parametrize("frame", ["640", "axb", "640x", "0x10", "9000x10"])
def test_bad_frame(frame: str, example: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        api.deploy_model(
            example("visual_wake_words"), BOARDS[0], tmp_path / "out", emulate="off", frame=frame,
            random_samples=1,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_no_picture_no_frame(tmp_path: Path) -> None:
    graph = single("relu", [tensor("x", (1, 64))], [tensor("y", (1, 64))])
    (tmp_path / "flat.tflite").write_bytes(convert(graph, Format.TFLITE).content)
    with pytest.raises(UsageError):
        api.deploy_model(
            tmp_path / "flat.tflite", BOARDS[0], tmp_path / "out", emulate="off", frame="64x64",
            random_samples=1,
        )  # fmt: skip


def test_sound_is_no_picture(example: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    api.deploy_model(example("anomaly_detection"), BOARDS[0], out, emulate="off", random_samples=1)
    assert not (out / "firmware" / "app" / "preprocess.c").exists()
    application = (out / "firmware" / "app" / "application.c").read_text()
    assert "nf_known_answers" in application


def test_boards_without_a_project_get_the_emulated_one(
    example: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    api.deploy_model(
        example("anomaly_detection"), "mps3-an547", out, emulate="off", random_samples=1
    )
    assert not (out / "firmware" / "flash").exists()
    assert load_target("mps3-an547").name in (out / "firmware" / "README.md").read_text()

"""The safe runtime on the host: every status code on purpose, and its log read back."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from tests.tools import needs_compiler

from npuforge.artefacts.log_text import LogText
from npuforge.artefacts.uart_log import Stage, read_uart_log
from npuforge.firmware.project import SMALL_SOURCES

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime"
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-pedantic"]
WEIGHTS = bytes([1, 2, 3, 4, *((i * 7) & 255 for i in range(4, 64))])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the checks with sanitizers, run them; the staged log they leave."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not on the PATH")
    program = tmp_path_factory.mktemp("runtime") / "check"
    sources = [str(RUNTIME / "src" / f"{name}.c") for name in SMALL_SOURCES]
    strict = ["gcc", *WARNINGS, f"-I{RUNTIME / 'include'}", "-fsyntax-only", *sources]
    subprocess.run(strict, check=True)
    subprocess.run(
        [
            *["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1"],
            *["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            f"-I{RUNTIME / 'include'}",
            str(Path(__file__).with_name("check_runtime.c")),
            *sources,
            "-o",
            str(program),
        ],
        check=True,
    )
    run = subprocess.run(
        [str(program), f"{zlib.crc32(WEIGHTS):x}"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_every_call_refuses_what_it_should(log: str) -> None:
    assert "line" not in log


def test_log_is_read_back(log: str) -> None:
    read = read_uart_log(LogText("uart.log", log))
    stages = [(mark.stage, mark.failed) for mark in read.stages]
    start = [
        (Stage.RUNTIME, False),
        (Stage.NETWORK, False),
        (Stage.NETWORK, False),
        (Stage.BUFFERS, False),
    ]
    assert stages[:4] == start
    assert (Stage.RUN, False) in stages
    assert stages[-2:] == [(Stage.RUNTIME, False), (Stage.NETWORK, True)]
    assert read.stages[-1].detail == "5"
    # a done line is an inference with its time; other stage lines are none
    done = [line for line in log.splitlines() if line.startswith("nf-stage done")]
    assert len(read.inferences) == len(done)
    for inference, line in zip(read.inferences, done, strict=True):
        found = re.search(r"run_us=(\d+)", line)
        assert found is not None
        assert inference.milliseconds == pytest.approx(int(found.group(1)) / 1000)
        assert inference.outputs == ()
    times = [int(m.group(1)) for m in re.finditer(r"t_us=(\d+)", log)]
    assert times == sorted(times)


def test_status_numbers_are_dense_and_fixed() -> None:
    """The numbers are a log format: these never change."""
    header = (RUNTIME / "include/nf/status.h").read_text(encoding="utf-8")
    rows = re.findall(r"X\((NF_\w+), (\d+), \"([^\"]+)\"\)", header)
    assert [int(number) for _, number, _ in rows] == list(range(len(rows)))
    assert len({text for _, _, text in rows}) == len(rows)
    known = {"NF_OK": 0, "NF_PENDING": 1, "NF_E_MISALIGNED": 12, "NF_E_IN_FLIGHT": 19}
    assert known.items() <= {name: int(number) for name, number, _ in rows}.items()


@pytest.mark.qemu
@needs_compiler
def test_code_size_on_cortex_m55(tmp_path: Path) -> None:
    """The runtime without kernels stays within 8 KiB of code and constants."""
    total = 0
    for name in SMALL_SOURCES:
        target = tmp_path / f"{name}.o"
        subprocess.run(
            [
                *["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-Os"],
                *["-ffunction-sections", "-fdata-sections", "-c"],
                f"-I{RUNTIME / 'include'}",
                str(RUNTIME / "src" / f"{name}.c"),
                "-o",
                str(target),
            ],
            check=True,
        )
        out = subprocess.run(
            ["arm-none-eabi-size", str(target)], capture_output=True, text=True, check=True
        ).stdout
        total += sum(map(int, out.splitlines()[1].split()[:2]))
    assert total <= 8192, f"{total} bytes"

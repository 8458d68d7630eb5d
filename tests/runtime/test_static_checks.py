"""Static checks of generated firmware: runtime around the kernels, board, application, network."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools import needs_clang_tidy, needs_cppcheck

from npuforge import api
from npuforge.firmware.project import SMALL_SOURCES

ROOT = Path(__file__).parents[2]
# port->now_us() is taken for a function without effect: two calls are not the same value
ACCEPTED = ("duplicateExpression:*runtime.c", "unsignedLessThanZero:*runtime.c")
INCLUDES = ("-Iruntime/include", "-Iboard", "-Inetwork", "-Iapp")
# memcpy_s is not there; two numbers side by side are the way of C; names of the compiler's own
TIDY = (
    "-*,bugprone-*,cert-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,"
    "-bugprone-reserved-identifier,-cert-dcl37-c,-cert-dcl51-cpp,"
    "-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"
)


@pytest.fixture(scope="module")
def firmware(
    example: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """Folder of a board project and the sources that are checked."""
    out = tmp_path_factory.mktemp("static") / "bundle"
    api.deploy_model(
        example("visual_wake_words"), "stm32n6570-dk", out, emulate="off", frame="160x120",
        random_samples=1,
    )  # fmt: skip
    folder = out / "firmware"
    sources = [f"runtime/src/{name}.c" for name in SMALL_SOURCES]
    for part in ("board", "app", "network"):
        sources += sorted(f"{part}/{path.name}" for path in (folder / part).glob("*.c"))
    # programs of the emulator
    return folder, [s for s in sources if not s.endswith(("known_answer.c", "validate.c"))]


def cppcheck(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["cppcheck", "-q", "--std=c11", "--suppress=missingIncludeSystem"]
    return subprocess.run(
        [*command, *INCLUDES, *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@needs_cppcheck
def test_cppcheck_is_clean(firmware: tuple[Path, list[str]]) -> None:
    folder, sources = firmware
    run = cppcheck(
        folder, "--error-exitcode=1", "--enable=warning,style,performance,portability",
        "--suppress=unusedStructMember", *(f"--suppress={item}" for item in ACCEPTED), *sources,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


@needs_clang_tidy
def test_clang_tidy_is_clean(firmware: tuple[Path, list[str]]) -> None:
    folder, sources = firmware
    headers = Path("/usr/lib/arm-none-eabi/include")
    if not headers.is_dir():
        pytest.skip("newlib's headers are not where Debian puts them")
    run = subprocess.run(
        ["clang-tidy", "-quiet", f"-checks={TIDY}", "-warnings-as-errors=*", *sources, "--",
         "--target=arm-none-eabi", "-mcpu=cortex-m55", "-mthumb", "-std=c11",
         "-isystem", str(headers), *INCLUDES],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout


def documented_rules() -> set[str]:
    """Rules that the page says are not kept."""
    page = (ROOT / "docs" / "explanation" / "c-subset.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| (\d+\.\d+) \|", page, re.MULTILINE))


@needs_cppcheck
def test_misra_rules_are_those_of_the_page(firmware: tuple[Path, list[str]]) -> None:
    folder, sources = firmware
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=True)
    if "2.10" not in version.stdout:
        pytest.skip(f"the page speaks of cppcheck 2.10, not of {version.stdout.strip()}")
    run = cppcheck(folder, "--addon=misra", *sources)
    if "misra-c2012" not in run.stderr:
        pytest.skip("cppcheck comes without its MISRA addon")
    named = set(re.findall(r"misra-c2012-(\d+\.\d+)", run.stderr))
    assert named == documented_rules()

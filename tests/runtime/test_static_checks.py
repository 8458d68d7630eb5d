"""Static checks of the runtime that surrounds the kernels."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from npuforge.firmware.project import SMALL_SOURCES

RUNTIME = Path(__file__).parents[2] / "runtime"
# port->now_us() is taken for a function without effect: two calls are not the same value
ACCEPTED = ("duplicateExpression:*runtime.c", "unsignedLessThanZero:*runtime.c")


@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is not on the PATH")
def test_cppcheck_is_clean() -> None:
    command = ["cppcheck", "-q", "--std=c11", "--error-exitcode=1"]
    command += ["--enable=warning,style,performance,portability"]
    command += ["--suppress=missingIncludeSystem", "--suppress=unusedStructMember"]
    command += [f"--suppress={item}" for item in ACCEPTED]
    command += [f"-I{RUNTIME / 'include'}"]
    command += [str(RUNTIME / "src" / f"{name}.c") for name in SMALL_SOURCES]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr

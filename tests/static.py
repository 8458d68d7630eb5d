"""cppcheck and clang-tidy as the tests of generated C call them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

STYLE = "--enable=warning,style,performance,portability"
# memcpy_s is not there; two numbers side by side are the way of C; names of the compiler's own
TIDY = (
    "-*,bugprone-*,cert-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,"
    "-bugprone-reserved-identifier,-cert-dcl37-c,-cert-dcl51-cpp,"
    "-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"
)
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "c-subset.md"


def cppcheck(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run in a folder."""
    command = ["cppcheck", "-q", "--std=c11", "--suppress=missingIncludeSystem", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def clang_tidy(
    folder: Path, sources: Iterable[str], *flags: str
) -> subprocess.CompletedProcess[str]:
    """A run in a folder that fails with every finding."""
    command = ["clang-tidy", "-quiet", f"-checks={TIDY}", "-warnings-as-errors=*", *sources, "--"]
    return subprocess.run(
        [*command, *flags], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def chip_flags() -> list[str]:
    """Flags of clang for code of the chip, with newlib's headers."""
    headers = Path("/usr/lib/arm-none-eabi/include")
    if not headers.is_dir():
        pytest.skip("newlib's headers are not where Debian puts them")
    return ["--target=arm-none-eabi", "-mcpu=cortex-m55", "-mthumb", "-std=c11",
            "-isystem", str(headers)]  # fmt: skip


def documented_rules() -> set[str]:
    """Rules that the page says are not kept."""
    page = PAGE.read_text(encoding="utf-8")
    return set(re.findall(r"^\| (\d+\.\d+) \|", page, re.MULTILINE))


def misra_rules(folder: Path, *arguments: str, without: str = "") -> set[str]:
    """Rules that the addon names, but for findings in files of the folder `without`; skips without
    the addon and with another version of cppcheck than the page's.
    """
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=True)
    if "2.10" not in version.stdout:
        pytest.skip(f"the page speaks of cppcheck 2.10, not of {version.stdout.strip()}")
    run = cppcheck(folder, "--addon=misra", *arguments)
    if "misra-c2012" not in run.stderr:
        pytest.skip("cppcheck comes without its MISRA addon")
    findings = re.findall(r"^(\S+?):\d+:.*misra-c2012-(\d+\.\d+)", run.stderr, re.MULTILINE)
    return {rule for path, rule in findings if not without or not path.startswith(without)}

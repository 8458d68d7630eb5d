"""The external tools of an emulated run: cross compiler, CMake, QEMU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npuforge.errors import ToolError

BUILD_SECONDS = 300
"""Time limit of one configure or build."""

_NEEDED = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "cmake": "cmake",
    "qemu-system-arm": "qemu-system-arm",
}


@dataclass(frozen=True)
class Toolchain:
    """Paths and versions of the tools."""

    compiler: str
    cmake: str
    generator: str
    qemu: str
    versions: tuple[tuple[str, str], ...]


def missing_tools() -> list[str]:
    """Names of the needed tools that are not on the PATH."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if not (shutil.which("ninja") or shutil.which("make")):
        missing.append("ninja")
    return missing


def find_toolchain() -> Toolchain:
    """The tools on the PATH.

    Raises:
        ToolError: one is missing; the hint names the Debian packages.
    """
    missing = missing_tools()
    if missing:
        packages = " ".join(_NEEDED.get(name, "ninja-build") for name in missing)
        raise ToolError("BRD-001", tools=", ".join(missing), packages=packages)
    paths = {name: shutil.which(name) or name for name in _NEEDED}
    return Toolchain(
        compiler=paths["arm-none-eabi-gcc"],
        cmake=paths["cmake"],
        generator="Ninja" if shutil.which("ninja") else "Unix Makefiles",
        qemu=paths["qemu-system-arm"],
        versions=tuple((name, _version(path)) for name, path in paths.items()),
    )


def _version(path: str) -> str:
    output = run_tool([path, "--version"], 30).stdout
    return output.splitlines()[0].strip() if output else "unknown"


def run_tool(
    command: Sequence[str], seconds: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool with a time limit, its output captured.

    Raises:
        ToolError: it cannot be started or does not end in time.
    """
    try:
        return subprocess.run(
            list(command),
            cwd=folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            "BRD-002", tool=Path(command[0]).name, seconds=seconds, detail=_text(error.stdout)
        ) from None
    except OSError as error:
        raise ToolError("BRD-003", tool=command[0], reason=error.strerror) from None


def _text(output: str | bytes | None) -> str | None:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output


def write_sources(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a generated project by relative path, folders included."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def build_project(folder: Path, build: Path, tools: Toolchain) -> None:
    """Configure and build a generated firmware project.

    Raises:
        ToolError: it does not configure, compile or link; the tool's output is kept.
    """
    # CMake would look for a relative toolchain file in the build folder
    folder, build = folder.resolve(), build.resolve()
    configure = [
        tools.cmake,
        "-S",
        str(folder),
        "-B",
        str(build),
        "-G",
        tools.generator,
        f"-DCMAKE_TOOLCHAIN_FILE={folder / 'cmake' / 'arm-none-eabi.cmake'}",
    ]
    for command in (configure, [tools.cmake, "--build", str(build), "--parallel", "4"]):
        result = run_tool(command, BUILD_SECONDS)
        if result.returncode != 0:
            detail = _first_error(result.stdout + result.stderr)
            raise ToolError("BRD-004", folder=folder, code=result.returncode, detail=detail)


def _first_error(output: str, lines: int = 25) -> str:
    """The output from its first error line on: that one is the cause."""
    rows = output.splitlines()
    for i, row in enumerate(rows):
        if "error" in row.lower():
            return "\n".join(rows[max(0, i - 2) : i + lines])
    return "\n".join(rows[-lines:])

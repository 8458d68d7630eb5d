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


_COMPILE = (
    "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-std=gnu11", "-O2", "-Wall", "-Wextra",
    "-Werror", "-ffunction-sections", "-fdata-sections", "-ffp-contract=off",
)  # fmt: skip
_LINK = (
    "-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections", "-Wl,--fatal-warnings",
    "-Wl,--no-warn-rwx-segments", "-lm",
)  # fmt: skip


def compile_runtime(runtime: Path, folder: Path) -> list[Path]:
    """Objects of the runtime for a Cortex-M55, made in an empty folder; warnings are errors.

    Raises:
        ToolError: see `build_project`.
    """
    sources = sorted((runtime / "src").glob("*.c"))
    _compile(["-c", f"-I{runtime / 'include'}", *map(str, sources)], folder)
    return sorted(folder.glob("*.o"))


def link_board(folder: Path, main: Path, runtime: Path, objects: Sequence[Path]) -> Path:
    """The linked program of a board's generated files and `main`, without CMake.

    Args:
        folder: with `app/setup.c`, `board` and `network`.
        main: source with the main function.
        runtime: folder of the runtime's headers and sources.
        objects: from `compile_runtime`.

    Raises:
        ToolError: see `build_project`; a warning counts as an error.
    """
    folder = folder.resolve()
    sources = [main.resolve(), folder / "app" / "setup.c", *(folder / "board").glob("*.c")]
    sources += (folder / "network").glob("*.[cS]")
    places = (*(folder / name for name in ("app", "board", "network")), runtime / "include")
    image = folder / "image.elf"
    command = [*(f"-I{place}" for place in places), *map(str, [*sources, *objects]), *_LINK]
    script = folder / "board" / "link.ld"
    # weights are read from the folder that the assembler runs in
    _compile([*command, f"-T{script}", "-o", str(image)], folder / "network")
    return image


def _compile(arguments: Sequence[str], folder: Path) -> None:
    result = run_tool(["arm-none-eabi-gcc", *_COMPILE, *arguments], BUILD_SECONDS, folder)
    if result.returncode != 0 or result.stderr:
        detail = _first_error(result.stdout + result.stderr)
        raise ToolError("BRD-004", folder=folder, code=result.returncode, detail=detail)


def _first_error(output: str, lines: int = 25) -> str:
    """The output from its first error line on: that one is the cause."""
    rows = output.splitlines()
    for i, row in enumerate(rows):
        if "error" in row.lower():
            return "\n".join(rows[max(0, i - 2) : i + lines])
    return "\n".join(rows[-lines:])

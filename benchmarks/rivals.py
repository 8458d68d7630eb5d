"""Other packers, each in a process of its own, where they are present."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from npuforge.artefacts.minimalloc import BufferRow

BUILD = """
cmake_minimum_required(VERSION 3.22)
project(rival LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(ABSL_PROPAGATE_CXX_STD ON)
add_subdirectory("{abseil}" abseil EXCLUDE_FROM_ALL)
add_executable(minimalloc {files})
target_link_libraries(minimalloc absl::flags absl::flags_parse absl::log absl::log_initialize
                      absl::statusor)
"""

VELA = """
import json, sys, time
from types import SimpleNamespace
from ethosu.vela.hillclimb_allocation import HillClimbAllocator
rows, iterations = json.load(sys.stdin)
def live(row):
    first, last, size, alignment = row
    return SimpleNamespace(start_time=first, end_time=last, size=size,
                           get_alignment=lambda: alignment)
# times are renumbered: it keeps a list for every time
cuts = sorted({t for first, last, _, _ in rows for t in (first, last + 1)})
at = {t: i for i, t in enumerate(cuts)}
ranges = [live((at[f], at[l + 1] - 1, s, a)) for f, l, s, a in rows]
begin = time.perf_counter()
bound = HillClimbAllocator(ranges, iterations, 0).min_required_size
allocator = HillClimbAllocator(ranges, iterations, bound)
addresses = allocator.allocate()
top = max(a + r.size for a, r in zip(addresses, ranges))
print(json.dumps([top, time.perf_counter() - begin]))
"""


def build_minimalloc(source: Path, abseil: Path, folder: Path) -> Path | None:
    """The program of google/minimalloc, built from a checkout; None without a compiler."""
    if not shutil.which("cmake") or not (shutil.which("g++") or shutil.which("clang++")):
        return None
    program = folder / "build" / "minimalloc"
    if not program.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        names = ("converter", "main", "minimalloc", "solver", "sweeper", "validator")
        files = " ".join(f'"{source / "src" / name}.cc"' for name in names)
        (folder / "CMakeLists.txt").write_text(BUILD.format(abseil=abseil, files=files))
        setup = ["cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run(setup, check=True, capture_output=True)
        build = ["cmake", "--build", folder / "build", "--target", "minimalloc", "-j", "2"]
        subprocess.run(build, check=True, capture_output=True)
    return program


def minimalloc_seconds(program: Path, file: Path, capacity: int, limit: float) -> float | None:
    """Wall time until it has placed the buffers of a file; None when it has not."""
    command = [program, f"--capacity={capacity}", f"--input={file}", "--output=/dev/null",
               f"--timeout={limit:g}s"]  # fmt: skip
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * limit + 10)
    taken = time.perf_counter() - begin
    return taken if done.returncode == 0 and taken < limit else None


def vela_height(
    python: Path, rows: Sequence[BufferRow], iterations: int = 99999, alignment: int = 1
) -> tuple[int, float] | None:
    """Height and seconds of the hill climb of Arm's Vela; None when that Python has none.

    Args:
        python: an interpreter with ethos-u-vela.
        rows: the buffers.
        iterations: its own default for a memory limit that is not met.
        alignment: of every offset.
    """
    data = [(row.lower, row.upper - 1, row.size, alignment) for row in rows]
    done = subprocess.run(
        [python, "-c", dedent(VELA)], input=json.dumps([data, iterations]), text=True,
        capture_output=True,
    )  # fmt: skip
    if done.returncode:
        return None
    height, seconds = json.loads(done.stdout)
    return int(height), float(seconds)

"""Other packers, each in a process of its own, where they are present."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from npuforge.memory.spans import Span, aligned

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
rows, seconds = json.load(sys.stdin)
class Late(Exception):
    pass
class Timed(HillClimbAllocator):
    def attempt_bottleneck_fix(self, *args):
        if time.perf_counter() > end:
            raise Late
        super().attempt_bottleneck_fix(*args)
def live(row):
    first, last, size, alignment = row
    return SimpleNamespace(start_time=first, end_time=last, size=size,
                           get_alignment=lambda: alignment)
# times are renumbered: it keeps a list for every time
cuts = sorted({t for first, last, _, _ in rows for t in (first, last + 1)})
at = {t: i for i, t in enumerate(cuts)}
ranges = [live((at[f], at[l + 1] - 1, s, a)) for f, l, s, a in rows]
begin = time.perf_counter()
end = begin + seconds
# a memory limit of 0 is never met: it uses all its iterations, as when it is asked for the least
allocator = Timed(ranges, None, 0)
try:
    allocator.allocate()
except Late:
    pass
# what it has kept as its best
top = max(a + r.size for a, r in zip(allocator.allocated_addresses, ranges))
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


def vela_height(python: Path, spans: Sequence[Span], seconds: float) -> tuple[int, float] | None:
    """Height and seconds of the hill climb of Arm's Vela; None when that Python has none.

    Args:
        python: an interpreter with ethos-u-vela.
        spans: buffers without fixed offsets or forbidden ranges.
        seconds: after which its best so far counts; it ends sooner at its own iteration limit or
            at the bound.
    """
    data = [(span.first, span.last, span.size, span.alignment) for span in spans]
    done = subprocess.run(
        [python, "-c", dedent(VELA)], input=json.dumps([data, seconds]), text=True,
        capture_output=True,
    )  # fmt: skip
    if done.returncode:
        return None
    # a warning about the memory limit comes first
    height, taken = json.loads(done.stdout.splitlines()[-1])
    return int(height), float(taken)


def by_size_height(spans: Sequence[Span]) -> int:
    """Height of first fit by falling size, the rule of TensorFlow Lite Micro's greedy planner."""
    placed: list[tuple[int, Span]] = []
    for span in sorted(spans, key=lambda span: -span.size):
        at = 0
        for other, low in sorted(((o, at) for at, o in placed), key=lambda pair: pair[1]):
            if other.last < span.first or span.last < other.first:
                continue
            if at + span.size <= low:
                break
            at = max(at, aligned(low + other.size, span.alignment))
        placed.append((at, span))
    return max((at + span.size for at, span in placed), default=0)

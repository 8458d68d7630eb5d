"""The virtual board: networks and runtime of a project on a machine with a modelled cache.

Needs gcc on a Linux host. Memory has a CPU view and a bus view; the accelerator
sees only the bus, lines are evicted at random and completion is late at random.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from npuforge.boards.toolchain import BUILD_SECONDS, run_tool, write_sources
from npuforge.errors import ToolError

_SOURCES = Path(__file__).parent / "virtual"
_FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")


_OBSERVED = ("runtime.c", "network.c", "buffer.c")
"""Sources of the safe runtime that touch memory of the networks: their copies are observed."""


@dataclass(frozen=True)
class StressResult:
    """What a stress run showed.

    Attributes:
        inferences: how many ran.
        failures: how many ended wrong: a status, a wrong output byte or a broken cache rule.
        low: lower end of the 95 % interval of the failure rate (Wilson).
        high: its upper end.
        cleans: cache cleans of all inferences together, with `cleaned` bytes.
        invalidates: cache invalidates, with `invalidated` bytes.
        first: the first failure in words; empty when there is none.
    """

    inferences: int
    failures: int
    low: float
    high: float
    cleans: int
    cleaned: int
    invalidates: int
    invalidated: int
    first: str


@dataclass(frozen=True)
class FaultResult:
    """How often an injected fault was caught, how often under its right name, and the name."""

    fault: str
    trials: int
    caught: int
    named: int
    name: str


def interval(failures: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate."""
    if trials == 0:
        return 0.0, 1.0
    z, rate = 1.959964, failures / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if failures == 0 else (middle - spread) / scale
    high = 1.0 if failures == trials else (middle + spread) / scale
    return low, high


class VirtualBoard:
    """The first network of a project, built for the modelled machine.

    Args:
        files: a firmware project, from `project_files`.
        folder: an empty folder for the build.
        sanitize: whether with AddressSanitizer and UndefinedBehaviorSanitizer.

    Raises:
        ToolError: there is no gcc, or the project does not compile.
    """

    def __init__(self, files: Mapping[str, bytes], folder: Path, *, sanitize: bool = False) -> None:
        gcc = shutil.which("gcc")
        if gcc is None:
            raise ToolError("BRD-001", tools="gcc", packages="gcc")
        parts = ("network/", "runtime/")
        write_sources(folder, {n: data for n, data in files.items() if n.startswith(parts)})
        sources = [*(folder / "network").glob("*.[cS]"), *(folder / "runtime/src").glob("*.c")]
        sources += sorted(_SOURCES.glob("*.c"))
        self._program = folder / "stress"
        common = [gcc, *_FLAGS, f"-I{_SOURCES}"]
        common += [f"-I{path}" for path in (folder / "runtime/include", folder / "network")]
        if sanitize:
            common += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        seen = [path for path in sources if path.name in _OBSERVED]
        rest = [str(path) for path in sorted(sources) if path not in seen]
        objects = [str(path.with_suffix(".o")) for path in seen]
        for path, built in zip(seen, objects, strict=True):
            command = [*common, "-Dmemcpy=machine_memcpy", "-c", str(path), "-o", built]
            self._build(command, folder)
        # -no-pie: the same addresses, and so the same cache sets, in every run
        link = ["-Wa,--noexecstack", "-no-pie", *rest, *objects, "-o", str(self._program), "-lm"]
        self._build([*common, *link], folder)

    @staticmethod
    def _build(command: list[str], folder: Path) -> None:
        result = run_tool(command, BUILD_SECONDS, folder / "network")
        if result.returncode != 0:
            detail = result.stdout + result.stderr
            raise ToolError("BRD-004", folder=folder, code=result.returncode, detail=detail)

    def stress(self, inferences: int, seed: int = 1) -> StressResult:
        """Run inferences with random buffers, evictions and delays."""
        rows = self._start(seed, inferences, "none").splitlines()
        words = rows[-1].split()
        failures, cleans, cleaned, invalidates, invalidated = map(int, words[1::2])
        low, high = interval(failures, inferences)
        return StressResult(
            inferences=inferences,
            failures=failures,
            low=low,
            high=high,
            cleans=cleans,
            cleaned=cleaned,
            invalidates=invalidates,
            invalidated=invalidated,
            first=rows[0] if len(rows) > 1 else "",
        )

    def inject(self, trials: int, fault: str = "all", seed: int = 1) -> tuple[FaultResult, ...]:
        """Inject a fault, or each there is, in so many trials."""
        found = []
        for row in self._start(seed, trials, fault).splitlines():
            name, _, caught, _, named, _, seen = row.split(maxsplit=6)
            found.append(FaultResult(name, trials, int(caught), int(named), seen))
        return tuple(found)

    def _start(self, seed: int, count: int, fault: str) -> str:
        result = run_tool([str(self._program), str(seed), str(count), fault], 60 + 2 * count)
        if result.returncode not in (0, 1) or not result.stdout:
            detail = result.stdout + result.stderr
            raise ToolError("BRD-011", image="stress", code=result.returncode, detail=detail)
        return result.stdout

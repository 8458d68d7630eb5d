"""Peak resident memory of `npuforge run`, every model in a process of its own.

The bar is the model file twice, the arena twice and 120 MiB, where the arena is the executor's.
Inputs are random. Linux only: the peak is what the kernel reports for the process.

    python benchmarks/run_memory.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import arguments, every_model, report

from npuforge.errors import NpuforgeError
from npuforge.importers import load_model
from npuforge.numerics import Executor, random_inputs

MIB = 1 << 20


# A child starts with the largest size of the process that forked it, so a small one must fork.
WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak(command: list[str]) -> int:
    """Largest resident size of a child process, in bytes."""
    watched = subprocess.run(
        [sys.executable, "-S", "-c", WATCH, *command], check=True, capture_output=True, text=True
    )
    return int(watched.stdout) * 1024


def measure(path: Path, folder: Path) -> tuple[str, float, float, float, float, float]:
    """Name, and in MiB: file, arena, peak, limit, and the peak as a part of the limit."""
    graph = load_model(path)
    inputs = random_inputs(graph, np.random.default_rng(0))
    sample = folder / "inputs.npz"
    np.savez(sample, **inputs)
    arena = Executor(graph).arena_bytes
    used = peak([sys.executable, "-m", "npuforge.cli.main", "run", str(path), "-i", str(sample),
                 "-o", str(folder / "out.npz")])  # fmt: skip
    limit = 2 * path.stat().st_size + 2 * arena + 120 * MIB
    mib = [round(n / MIB, 1) for n in (path.stat().st_size, arena, used, limit)]
    return path.stem, mib[0], mib[1], mib[2], mib[3], round(used / limit, 3)


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in every_model():
            try:
                rows.append(measure(path, Path(folder)))
            except (NpuforgeError, subprocess.CalledProcessError) as error:
                failed.append(f"{path.stem}: {error}")
    report(
        "peak resident memory of npuforge run, MiB",
        ("model", "file", "arena", "peak", "limit", "of limit"),
        rows,
        options.json,
        models=len(rows),
        worst=max((r[5], r[0]) for r in rows),
        within=sum(r[5] <= 1 for r in rows),
        not_measured=failed,
    )


if __name__ == "__main__":
    main()

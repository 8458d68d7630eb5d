"""User time of `npuforge --help` and `import npuforge`; the bar is 0.3 s each.

python benchmarks/startup.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from common import arguments, report

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import npuforge": [sys.executable, "-c", "import npuforge"],
    "npuforge --help": [sys.executable, "-m", "npuforge.cli.main", "--help"],
}


def user_seconds(command: list[str]) -> float:
    """User time of one child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    runs = max(options.runs, 5)
    rows = [
        (name, f"{statistics.median(user_seconds(command) for _ in range(runs)):.3f}")
        for name, command in COMMANDS.items()
    ]
    report("start-up, median user time", ("command", "user s"), rows, options.json, runs=runs)


if __name__ == "__main__":
    main()

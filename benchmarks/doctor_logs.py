"""How long the doctor takes for 20 MB of logs, of three kinds, in 1, 20 and 400 files."""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from common import arguments, median_seconds, report

from npuforge.doctor import collect, diagnose

SIZE = 20_000_000
REPEATED = (
    "[  12.5] npu: inference 17 done in 3.690 ms\n"
    "output: 0.1 0.2 0.3 class 4 score 0.5\n"
    "some unrelated line of text that a firmware prints every now and then ....\n"
    "WARNING: conv2d_13 is not quantized\n"
)


def kernel_log(rng: np.random.Generator) -> str:
    """Messages of many drivers, a few of them of the NPU."""
    words = ["usb", "eth0", "mmc1", "systemd", "audit", "link", "register", "state", "queue", "irq"]
    lines = []
    for i in range(SIZE // 90):
        picked = " ".join(words[j] for j in rng.integers(0, len(words), 8))
        lines.append(f"[{i / 50:12.6f}] {picked}: value {rng.integers(0, 1 << 31):#x} seq {i}")
        if i % 400 == 0:
            lines.append(f"[{i / 50:12.6f}] npu: operation {i % 37} failed, status=-5")
    return "\n".join(lines)


def main() -> int:
    options = arguments(__doc__ or "")
    rng = np.random.default_rng(0)
    unique = "".join(
        f"npu inference {rng.integers(1 << 60):x} output {i} score\n" for i in range(SIZE // 50)
    )
    rows = []
    kinds = (
        ("repeated lines", REPEATED * (SIZE // len(REPEATED))),
        ("kernel log", kernel_log(rng)),
        ("every line different", unique),
    )
    for (name, text), files in product(kinds, (1, 20, 400)):
        with tempfile.TemporaryDirectory() as folder:
            part = len(text) // files
            for i in range(files):
                path = Path(folder, f"run{i}.log")
                path.write_text(text[i * part : (i + 1) * part], encoding="utf-8")
            begin = time.process_time()
            found = diagnose(collect([folder]))
            cpu = time.process_time() - begin
            seconds = median_seconds(lambda p=folder: diagnose(collect([p])), options.runs)
            count = len(found.findings)
            rows.append((name, files, part * files, f"{seconds:.2f}", f"{cpu:.2f}", count))
    columns = ("log", "files", "bytes", "seconds", "cpu seconds", "findings")
    report("20 MB of logs", columns, rows, options.json)
    return 0 if all(float(row[4]) < 3 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

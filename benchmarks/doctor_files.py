"""How long the doctor takes for a project of 500 files, wall and processor time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import ROOT, arguments, report

sys.path.insert(0, str(ROOT))

from tests.doctor.case_files import BASE, CASES
from tests.doctor.model_cases import write_model

FILES = 500
WORDS = (
    "frame",
    "buffer",
    "network",
    "inference",
    "XSPI",
    "score",
    "NPU",
    "input",
    "output",
    "tick",
)


def module(rng: np.random.Generator, number: int) -> str:
    """A C file of about 3.5 kB: helpers that call each other and modules before it."""
    lines = ['#include "app.h"', "", f"static uint32_t m{number}_state[64];", ""]
    for part in range(8):
        a, b = (WORDS[i] for i in rng.integers(0, len(WORDS), 2))
        other = f"m{rng.integers(0, number + 1)}_{WORDS[rng.integers(0, len(WORDS))]}_{part}"
        lines += [
            f"/* {a} and {b} of part {part}. */",
            f"int m{number}_{a}_{part}(uint8_t *{b}, uint32_t size)",
            "{",
            "  for (uint32_t i = 0; i < size; i++) {",
            f"    {b}[i] = (uint8_t)(m{number}_state[i & 63] >> {part});",
            f"    if ({b}[i] > 0x{rng.integers(0, 255):02x}) {{",
            f"      m{number}_state[i & 63] += {other}({b}, i);",
            "    }",
            "  }",
            f'  printf("{a} %lu\\r\\n", (unsigned long)size);',
            f"  return HAL_OK == m{number}_state[0];",
            "}",
            "",
        ]
    return "\n".join(lines)


def project(folder: Path) -> None:
    """An application with its modules, headers, build files, logs, models and a network."""
    rng = np.random.default_rng(1)
    for path in BASE.iterdir():
        shutil.copyfile(path, folder / path.name)
    network = (folder / "network.c").read_text(encoding="utf-8")
    table = "\n".join(f"  /* scheduling epoch={i} */ 0x{i * 4096:08x}," for i in range(20_000))
    (folder / "network.c").write_text(
        f"{network}\nconst uint32_t t[] = {{\n{table}\n}};\n", "utf-8"
    )
    write_model("E01-good", folder / "net.onnx")
    logs = sorted(CASES.glob("Z0*-log/*.log"))
    for i in range(20):
        (folder / f"run{i}.log").write_bytes(logs[i % len(logs)].read_bytes())
        (folder / f"board{i}.mk").write_bytes((BASE / "Makefile").read_bytes())
        (folder / f"variant{i}.ld").write_bytes((BASE / "app.ld").read_bytes())
    (folder / "Src").mkdir()
    (folder / "Inc").mkdir()
    left = FILES - sum(1 for path in folder.rglob("*") if path.is_file())
    for i in range(left):
        if i % 5:
            (folder / "Src" / f"module{i}.c").write_text(module(rng, i), encoding="utf-8")
        else:
            body = "\n".join(f"#define M{i}_{word.upper()} {i}" for word in WORDS * 20)
            (folder / "Inc" / f"module{i}.h").write_text(body, encoding="utf-8")


def children_seconds() -> float:
    """Processor time of the finished child processes."""
    used = os.times()
    return used.children_user + used.children_system


def main() -> int:
    options = arguments(__doc__ or "")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        project(Path(name))
        files = [path for path in Path(name).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        command = [sys.executable, "-m", "npuforge.cli.main", "doctor", name, "--json"]
        for run in range(options.runs):
            wall, cpu = time.perf_counter(), children_seconds()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            wall, cpu = time.perf_counter() - wall, children_seconds() - cpu
            count = len(json.loads(done.stdout)["findings"])
            rows.append((run + 1, len(files), size, f"{wall:.2f}", f"{cpu:.2f}", count))
    columns = ("run", "files", "bytes", "seconds", "cpu seconds", "findings")
    report("A project of 500 files", columns, rows, options.json)
    return 0 if max(float(row[3]) for row in rows) < 10 else 1


if __name__ == "__main__":
    sys.exit(main())

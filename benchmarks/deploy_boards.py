"""`deploy` of networks of different families for both STM32N6 boards.

Each project is configured and built by its own CMake script (-Wall -Wextra -Werror, linker warnings
are errors): the board's program and, from the same objects of runtime and network, the one for
QEMU's mps3-an547. There every tensor and the known answer are compared with the host. No vendor
source.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from common import arguments, model_files, report
from firmware_networks import NAMES

from npuforge import api
from npuforge.artefacts.elf import read_elf
from npuforge.errors import NpuforgeError
from npuforge.validate import Status

BOARDS = ("stm32n6570-dk", "nucleo-n657x0-q")


def deploy(path: Path, board: str) -> tuple[str | int, ...]:
    """What came of one deployment."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as text:
        out = Path(text) / "bundle"
        try:
            done = api.deploy_model(path, board, out, emulate="on", random_samples=2)
        except NpuforgeError as error:
            return (path.stem, board, error.message.splitlines()[-1][:60], 0, 0, 0, 0, 0, 0)
        image = read_elf((out / "firmware" / "images" / "app.elf").read_bytes())
        code = sum(s.size for s in image.sections if s.name in (".text", ".data", ".ARM.exidx"))
        check = next(c for c in done.validation.checks if c.where.startswith("qemu"))
    assert check.comparison is not None
    equal, tensors = check.status is Status.PASSED, check.comparison.tensors
    return (
        path.stem, board, "equal" if equal else check.status.value, code,
        done.model.plan.activation_bytes, len(tensors),
        sum(t.values for t in tensors), sum(t.mismatches for t in tensors),
        round(time.perf_counter() - begin),
    )  # fmt: skip


def main() -> None:
    options = arguments(__doc__)
    rows = []
    for path in model_files(*NAMES):
        for board in BOARDS:
            rows.append(deploy(path, board))
            print(rows[-1], flush=True)
    report(
        "deployments for both boards, the same objects run in QEMU",
        (
            "network", "board", "against the host", "program bytes", "activation bytes", "tensors",
            "values", "mismatches", "seconds",
        ),
        rows,
        options.json,
        projects=len(rows),
        networks=len({row[0] for row in rows}),
        built_and_equal=sum(row[2] == "equal" for row in rows),
        values=sum(int(row[6]) for row in rows),
        mismatches=sum(int(row[7]) for row in rows),
    )  # fmt: skip


if __name__ == "__main__":
    main()

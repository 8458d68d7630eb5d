"""Files of a size that nobody wrote do not stall the doctor: long lines, many functions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from npuforge.artefacts.npu_driver_log import Kind
from npuforge.doctor import collect, diagnose
from npuforge.doctor.log_project import ALL_AT_FULL, logs_of


@pytest.mark.parametrize("piece", ["a", "a.b/", "-DA=1 ", "-", "SigningTool_CLI -bin ", "(", "\\"])
def test_long_line(piece: str, tmp_path: Path) -> None:
    (tmp_path / "flash.sh").write_text(piece * (300_000 // len(piece)), encoding="utf-8")
    begin = time.process_time()
    diagnose(collect([tmp_path]))
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    "text",
    ["def f(a):\n    x = np.random.rand(3)\n" * 20_000, "def f(" + "np.random.rand(3), " * 40_000],
    ids=["functions", "one line"],
)
def test_much_noise(text: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    begin = time.process_time()
    diagnose(collect([tmp_path]))
    assert time.process_time() - begin < 5


HEAD = '#include "ll_aton_NN_interface.h"\nEpochBlock_ItemTypeDef x[] = {'
PORT = "ATONN_DSTPORT(STRSWITCH, 0, CONVACC, 0, 0) "


@pytest.mark.parametrize(
    "piece", [PORT, "ATONN_DSTPORT(" + " " * 500, ".offset_start = 1, .offset_end = 2, "]
)
def test_long_line_of_a_network(piece: str, tmp_path: Path) -> None:
    text = HEAD + piece * (1_000_000 // len(piece)) + "};\n"
    (tmp_path / "network.c").write_text(text, encoding="utf-8")
    begin = time.process_time()
    diagnose(collect([tmp_path]))
    assert time.process_time() - begin < 5


def test_the_end_of_each_of_many_logs_is_read(tmp_path: Path) -> None:
    """Many long logs share the effort; what stopped a board stands at the end of its log."""
    for number in range(60):
        lines = [f"npu frame {i} value {i * number:x}" for i in range(3000)]
        end = "npu: operation 7 failed, status=-5\n" if number == 41 else "npu frame ok\n"
        (tmp_path / f"run{number}.log").write_text("\n".join([*lines, end]), encoding="utf-8")
    project = collect([tmp_path])
    assert sum(item.size for item in project.artefacts) > ALL_AT_FULL
    failed = [log for log in logs_of(project) if log.driver.of(Kind.OPERATION_FAILED)]
    assert [log.artefact.name for log in failed] == ["run41.log"]

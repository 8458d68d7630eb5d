"""Files of a size that nobody wrote do not stall the doctor: long lines, many functions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from npuforge.doctor import collect, diagnose


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

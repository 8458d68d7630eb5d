"""Build files with lines of a size that nobody wrote do not stall the doctor."""

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

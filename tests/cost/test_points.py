"""Operating points a user writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuforge.cost.points import operating_point
from npuforge.errors import UsageError
from npuforge.targets import load_target

TARGET = load_target("stm32n6570-dk")


def test_names_lists_and_files_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('base = "nominal"\nflash_mhz = 50\nnpu_mhz = 700.5\n', encoding="utf-8")
    written = operating_point(TARGET, "nominal,flash=50,npu=700.5")
    stored = operating_point(TARGET, str(file))
    for point in (written, stored):
        assert (point.cpu_mhz, point.npu_mhz, point.flash_mhz) == (600, 700.5, 50)
        assert point.core_millivolt == 800
    assert stored.name == "own"
    assert operating_point(TARGET, "overdrive").npu_mhz == 1000
    assert operating_point(TARGET, "flash=50").cpu_mhz == 600


@pytest.mark.parametrize(
    "text",
    ["fast", "nominal,gpu=3", "nominal,npu=zero", "nominal,npu=-1", "nominal,npu=nan", "none.toml",
     "fast,npu=3", "nominal,npu=1e9", ""],
)  # fmt: skip
def test_what_is_no_operating_point_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        operating_point(TARGET, text)


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    for content in ("cpu_mhz = [1]", "cpu_mhz =", 'base = "fast"', "watt = 3"):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(UsageError, match="CST-005"):
            operating_point(TARGET, str(file))

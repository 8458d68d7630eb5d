"""Target descriptions are validated data."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npuforge.errors import UsageError
from npuforge.targets import load_target, parse_target, target_names
from npuforge.targets.load import _FOLDER


def document() -> dict[str, Any]:
    return tomllib.loads((_FOLDER / "stm32n6570-dk.toml").read_text(encoding="utf-8"))


def test_known_targets() -> None:
    assert {"stm32n6570-dk", "nucleo-n657x0-q", "mps3-an547"} <= set(target_names())
    for name in target_names():
        target = load_target(name)
        assert target.name == name
        if target.emulated_by:
            assert not load_target(target.emulated_by).has_npu


def test_stm32n6_facts() -> None:
    target = load_target("stm32n6570-dk")
    contiguous = [p for p in target.pools if 0x34100000 <= p.base < 0x343C0000]
    assert sum(p.size for p in contiguous) == 2_883_584
    assert target.operating_points["overdrive"].npu_mhz == 1000
    assert target.operating_points["nominal"].cpu_mhz == 600
    assert target.units["convacc"] == 4
    assert "hyperRAM" not in {p.name for p in load_target("nucleo-n657x0-q").pools}


def test_a_path_works(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((_FOLDER / "mps3-an547.toml").read_text(encoding="utf-8"), encoding="utf-8")
    assert load_target(str(path)).name == "mps3-an547"


def test_unknown_target() -> None:
    with pytest.raises(UsageError) as caught:
        load_target("stm32z9")
    assert caught.value.code == "TGT-001"
    assert "stm32n6570-dk" in caught.value.hint


def set_pool(key: str, value: object, index: int = 2) -> Callable[[dict[str, Any]], None]:
    def change(doc: dict[str, Any]) -> None:
        doc["pools"][index][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_pool("size", 0), "cpuRAM2"),
        (set_pool("base", 0x34100001), "aligned"),
        (set_pool("base", 0x34200000), "overlap"),
        (set_pool("reach", []), "reach"),
        (set_pool("reach", ["gpu"]), "gpu"),
        (set_pool("use", "lunch"), "lunch"),
        (set_pool("writable", False), "not writable"),
        (set_pool("colour", "red"), "colour"),
        (set_pool("name", "npuRAM3"), "same name"),
        (lambda d: d.pop("core"), "core"),
        (lambda d: d.update(schema=9), "schema"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d.update(cache_line=24), "powers of two"),
        (lambda d: d.update(pools=[]), "no pools"),
        (lambda d: d["operating_points"].pop(0), "nominal"),
        (lambda d: d["operating_points"][0].update(cpu_mhz=0), "CPU clock"),
    ],
)
def test_rules(change: Callable[[dict[str, Any]], None], words: str) -> None:
    doc = document()
    change(doc)
    with pytest.raises(UsageError) as caught:
        parse_target(doc, "x.toml")
    assert caught.value.code == "TGT-002"
    assert words in caught.value.message


def test_broken_toml(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("name = ", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_target(str(path))
    assert caught.value.code == "TGT-002"

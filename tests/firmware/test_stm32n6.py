"""Board projects of the STM32N6: compiled without vendor sources, linked where the plan says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor
from tests.tools import needs_compiler

from npuforge.artefacts.elf import read_elf
from npuforge.boards import HostBoard, compile_runtime, link_board, write_sources
from npuforge.firmware import KnownAnswer
from npuforge.firmware.project import runtime_folder, template_files
from npuforge.firmware.stm32n6 import board_config, board_files, board_layout, pll
from npuforge.graph import NoAttrs
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory.writers.link_script import network_sections
from npuforge.memory.writers.mpu import mpu_header
from npuforge.targets import load_target

MAIN = b"""
#include "setup.h"
int main(void)
{
    return start() == NF_OK && nf_run(&runtime, 0, 1000u) == NF_OK ? 0 : 1;
}
"""


@pytest.mark.parametrize("mhz", [600, 800, 900, 1000, 1200])
def test_pll(mhz: int) -> None:
    m, n, p1, p2 = pll(mhz)
    assert 64 / m * n / (p1 * p2) == mhz
    assert 64 / m >= 5
    assert 800 <= 64 / m * n <= 3200


def test_no_pll() -> None:
    with pytest.raises(ValueError, match="no PLL"):
        pll(601.37)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The runtime, compiled once."""
    return compile_runtime(runtime_folder(), tmp_path_factory.mktemp("runtime"))


@needs_compiler
@pytest.mark.parametrize("board", ["stm32n6570-dk", "nucleo-n657x0-q"])
@pytest.mark.parametrize("clock", ["nominal", "overdrive"])
def test_project_links_where_the_plan_says(
    board: str, clock: str, objects: list[Path], tmp_path: Path
) -> None:
    target = load_target(board)
    graph = single(
        "relu", [tensor("x", (1, 64), quant=(0.5, 3))], [tensor("y", (1, 64))], NoAttrs()
    )
    schedule = lower(graph, map_graph(graph, target), target)
    layout = board_layout([("net", schedule)], target, "test")
    sample = {"x": np.arange(64, dtype=np.int8)[None]}
    outputs = HostBoard(graph, schedule, layout.networks[0].plan).run(sample).outputs
    files = board_files(layout, {"net": graph}, {"net": KnownAnswer(sample, outputs)}, clock)
    files |= template_files("board", "stm32n6") | template_files("app", "app")
    write_sources(tmp_path, files | {"main.c": MAIN})
    image = link_board(tmp_path, tmp_path / "main.c", runtime_folder(), objects)
    linked = read_elf(image.read_bytes())
    found = {section.name: section for section in linked.sections}
    for section in network_sections(layout):
        assert found[section.section].address == section.address
        assert found[section.section].size == section.nbytes
    weights = found[".nf_net_weights"]
    assert weights.address >= target.boot().weights
    code = target.pool(target.boot().code)
    # the vector table lies behind the boot header, and a reset begins in Reset_Handler
    assert found[".text"].address == code.base + target.boot().header
    assert linked.entry | 1 == linked.symbols["Reset_Handler"].address | 1
    assert linked.symbols["nf_stack_top"].address <= target.pool(target.boot().data[0]).end


RCC, RAMCFG, CACHEAXI, XSPI2 = 0x56028000, 0x52023000, 0x580DFC00, 0x5802A000
CPU_ON = 0xE000ED14


@pytest.fixture(scope="module")
def bringup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the board's sources with the modelled chip; the plan uses banks 2, 3 and 6."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    folder = tmp_path_factory.mktemp("bringup")
    target = load_target("stm32n6570-dk")
    point = target.operating_points["overdrive"]
    board = template_files("board", "stm32n6")
    config = board_config(target, point, ["cpuRAM2", "npuRAM3", "npuRAM6"])
    write_sources(folder, board | {"board/board_config.h": config.encode()})
    (folder / "board" / "nf_mpu.h").write_text(mpu_header())
    return folder


def run_model(folder: Path, source: str, program: str) -> subprocess.CompletedProcess[str]:
    """The whole bring-up on the modelled chip, with `source` in place of bringup.c."""
    (folder / "board" / f"{program}.c").write_text(source)
    names = (program, "flash", "cache", "console")
    sources = [str(folder / "board" / f"{name}.c") for name in names]
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DNF_REG_MODEL",
         f"-I{folder / 'board'}", f"-I{runtime_folder() / 'include'}", *sources,
         str(Path(__file__).parent / "n6_model.c"), "-o", str(folder / program)],
        check=True, timeout=60,
    )  # fmt: skip
    return subprocess.run(
        [str(folder / program)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def trace(bringup: Path) -> list[tuple[int, int]]:
    """Register writes of the whole bring-up on the modelled chip, in order."""
    source = (bringup / "board" / "bringup.c").read_text()
    result = run_model(bringup, source, "whole")
    assert result.returncode == 0, result.stdout[-300:]
    rows = [line.split() for line in result.stdout.splitlines()]
    return [(int(a, 16), int(b, 16)) for a, b in (r for r in rows if len(r[0]) == 8)]


def first(trace: list[tuple[int, int]], address: int, mask: int = 0xFFFFFFFF) -> int:
    """Position of the first write to a register with one of the bits."""
    return next(i for i, (at, value) in enumerate(trace) if at == address and value & mask)


def test_order_of_bring_up(trace: list[tuple[int, int]]) -> None:
    voltage = first(trace, 0x56020000 + 5 * 0x400 + 0x18)
    pll1 = first(trace, RCC + 0x800, 0x100)
    switch = first(trace, RCC + 0x20, 0x03000000)
    assert voltage < pll1 < switch
    ramcfg_clock = first(trace, RCC + 0xA54, 1 << 12)
    bank_clock = first(trace, RCC + 0xA4C, 1 << 8)
    power = next(i for i, (at, _) in enumerate(trace) if at == RAMCFG + 0x80)
    touched = next(i for i, (at, _) in enumerate(trace) if at == 0x34100000)
    assert ramcfg_clock < bank_clock < power < touched
    npu = first(trace, RCC + 0xA60, 1 << 31)
    cache_ram, cache_on = first(trace, RCC + 0xA4C, 1 << 10), first(trace, CACHEAXI)
    mapped = trace.index((XSPI2 + 0x110, 0xEE11))
    caches = first(trace, CPU_ON, 1 << 16)
    assert switch < npu < cache_ram < cache_on < caches
    assert mapped < caches


def test_only_banks_of_the_plan_are_powered(trace: list[tuple[int, int]]) -> None:
    powered = {(at - RAMCFG) // 0x80 + 1 for at, _ in trace if RAMCFG <= at < RAMCFG + 0x400}
    assert powered == {2, 3, 6}


ORDERED = [
    ("voltage", "clocks", "core voltage"),
    ("clocks", "npu", "IC6"),
    ("ram_banks", "board_caches_on", "data cache"),
    ("flash", "board_caches_on", "before it is mapped"),
    ("isolation", "interrupts", "illegal access"),
]
"""A stage, one that needs it, and how the model names what is missing then."""


def moved(source: str, name: str, behind: str) -> str:
    """Bring-up with a stage of the table moved behind a later one."""
    head, table = source.split("const board_stage board_stages[] = {")

    def row(stage: str) -> str:
        shown = stage.removeprefix("board_").removesuffix("_on")
        return f'    {{"{shown}", {stage}}},\n'

    assert row(name) in table
    assert table.index(row(name)) < table.index(row(behind))
    table = table.replace(row(name), "").replace(row(behind), row(behind) + row(name))
    return head + "const board_stage board_stages[] = {" + table


@pytest.mark.parametrize(("stage", "behind", "word"), ORDERED)
def test_stage_in_the_wrong_place_is_caught(
    stage: str, behind: str, word: str, bringup: Path
) -> None:
    source = (bringup / "board" / "bringup.c").read_text()
    result = run_model(bringup, moved(source, stage, behind), f"{stage}_{behind}")
    assert result.returncode == 2
    assert word in result.stdout.splitlines()[-1]


def test_stages_that_do_not_need_each_other_may_change_places(bringup: Path) -> None:
    source = (bringup / "board" / "bringup.c").read_text()
    assert run_model(bringup, moved(source, "npu_cache", "isolation"), "free").returncode == 0

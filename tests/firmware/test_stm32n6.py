"""Board projects of the STM32N6: compiled without vendor sources, linked where the plan says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.artefacts.elf import read_elf
from npuforge.boards import HostBoard, write_sources
from npuforge.firmware.project import runtime_folder, template_files
from npuforge.firmware.stm32n6 import answer_bytes, board_files, board_layout, pll
from npuforge.graph import NoAttrs
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory.writers.link_script import network_sections
from npuforge.targets import load_target

CC = "arm-none-eabi-gcc"
FLAGS = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-std=gnu11", "-O2", "-Wall",
         "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections"]  # fmt: skip
MAIN = """
#include "board.h"
#include "memory.h"
#include "networks.h"
static nf_runtime runtime;
static nf_config config;
int main(void)
{
    board_init();
    config.port = &nf_board_port;
    config.pools = nf_pools;
    config.pool_count = nf_pool_count;
    config.zones = nf_zones;
    config.zone_count = nf_zone_count;
    config.models = nf_models;
    config.model_count = nf_model_count;
    return nf_init(&runtime, &config) == NF_OK && nf_run(&runtime, 0, 1000u) == NF_OK ? 0 : 1;
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


@pytest.mark.skipif(shutil.which(CC) is None, reason=f"no {CC}")
@pytest.mark.parametrize("board", ["stm32n6570-dk", "nucleo-n657x0-q"])
@pytest.mark.parametrize("clock", ["nominal", "overdrive"])
def test_project_links_where_the_plan_says(board: str, clock: str, tmp_path: Path) -> None:
    target = load_target(board)
    graph = single(
        "relu", [tensor("x", (1, 64), quant=(0.5, 3))], [tensor("y", (1, 64))], NoAttrs()
    )
    schedule = lower(graph, map_graph(graph, target), target)
    layout = board_layout([("net", schedule)], target, "test")
    sample = {"x": np.arange(64, dtype=np.int8)[None]}
    outputs = HostBoard(graph, schedule, layout.networks[0].plan).run(sample).outputs
    files = board_files(
        layout, {"net": graph}, {"net": answer_bytes(graph, sample, outputs)}, clock
    )
    write_sources(tmp_path, files | template_files("board", "stm32n6"))
    (tmp_path / "main.c").write_text(MAIN)
    runtime = runtime_folder()
    sources = [tmp_path / "main.c", *(tmp_path / "board").glob("*.c")]
    sources += [*(tmp_path / "network").glob("*.[cS]"), *(runtime / "src").glob("*.c")]
    includes = [f"-I{p}" for p in (tmp_path / "board", tmp_path / "network", runtime / "include")]
    image = tmp_path / "image.elf"
    command = [CC, *FLAGS, *includes, *map(str, sources), "-o", str(image), "-nostartfiles",
               "--specs=nosys.specs", f"-T{tmp_path / 'board' / 'link.ld'}", "-Wl,--gc-sections",
               "-Wl,--fatal-warnings", "-Wl,--no-warn-rwx-segments", "-lm"]  # fmt: skip
    result = subprocess.run(
        command, cwd=tmp_path / "network", capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
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

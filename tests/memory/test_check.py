"""Files that describe memory agree when they come from one layout, and each fault is found."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.tools import needs_compiler
from typer.testing import CliRunner

from npuforge import api
from npuforge.artefacts.mpool import read_mpool
from npuforge.cli.main import app
from npuforge.errors import NpuforgeError
from npuforge.explore.system import plan_description
from npuforge.memory.check import Conflict
from npuforge.memory.system import Account, read_system
from npuforge.memory.writers.mpool import npu_ranges
from npuforge.report.system import disagreement_text
from npuforge.targets import load_target

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "camera_classifier" / "system.toml"
BOARD = "stm32n6570-dk"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    api.write_system(EXAMPLE, tmp_path)
    return tmp_path


def all_files(folder: Path) -> list[Path]:
    return [folder / "link.ld", folder / "npu.mpool", folder / "nf_mpu.c", EXAMPLE]


def found(paths: list[Path], target: str | None = BOARD) -> list[tuple[Conflict, str, str]]:
    checked = api.check_memory(paths, target)
    return [
        (d.conflict, d.one.name, d.other.name if d.other else "") for d in checked.disagreements
    ]


def test_one_layout_agrees(written: Path) -> None:
    assert found(all_files(written)) == []


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_pools_are_what_the_layout_leaves(written: Path) -> None:
    layout = plan_description(read_system(EXAMPLE))
    read = read_mpool((written / "npu.mpool").read_bytes())
    target = load_target(BOARD)
    assert [pool.name for pool in read.pools] == [pool.name for pool in target.pools]
    mine = (Account.WEIGHTS, Account.ACTIVATIONS)
    for pool, home in zip(read.pools, target.pools, strict=True):
        assert (pool.address, pool.end) == npu_ranges(layout)[pool.name]
        assert (pool.width, pool.ratio, pool.writable) == (home.width, home.ratio, home.writable)
        # ST's tool may use the NPU cache for memory outside of the chip only
        assert pool.cacheable == home.external
        for block in layout.blocks:
            if block.account not in mine:
                assert not (pool.address < block.end and block.address < pool.end), block.name
    used = {pool.name: pool.size for pool in read.pools}
    assert used["cpuRAM1"] == used["flexMEM"] == 0
    assert used["npuRAM3"] == 0x70000
    assert used["cpuRAM2"] == 0x100000 - 2 * 480 * 480 * 2
    profile = json.loads((written / "neural_art.json").read_text())
    assert profile["Profiles"]["default"]["memory_pool"] == "npu.mpool"


def test_a_stock_pool_that_covers_a_frame(written: Path) -> None:
    """The fault of practice: the pool file still has the whole of cpuRAM2."""
    document = json.loads((written / "npu.mpool").read_text())
    pool = next(p for p in document["memory"]["mempools"] if p["name"] == "cpuRAM2")
    pool["size"] = {"value": "1", "magnitude": "MBYTES"}
    (written / "npu.mpool").write_text(json.dumps(document))
    assert (Conflict.OVERLAP, "cpuRAM2", "camera frame") in found(all_files(written))
    assert (Conflict.OVERLAP, "DMA_CAMERA_FRAME", "cpuRAM2") in found(all_files(written))
    checked = api.check_memory(all_files(written))
    words = disagreement_text(checked.disagreements[0])
    assert "link.ld" in words
    assert "npu.mpool" in words
    assert "0x3411f000" in words


def test_a_section_that_moved(written: Path) -> None:
    change(
        written / "link.ld",
        ".mem_data_camera_frame 0x3411f000",
        ".mem_data_camera_frame 0x34110000",
    )
    assert (Conflict.MOVED, ".mem_data_camera_frame", "camera frame") in found(all_files(written))


def test_weights_that_moved(written: Path) -> None:
    change(
        written / "link.ld",
        ".nf_image_classification_weights 0x71000000",
        ".nf_image_classification_weights 0x71001000",
    )
    kinds = found(all_files(written))
    assert any(k is Conflict.MOVED and "weights" in one for k, one, _ in kinds)


def test_alignment_is_that_of_the_target(written: Path, tmp_path: Path) -> None:
    """Weights at a multiple of 32: right for this board, wrong for one that asks for 128."""
    moved = ".nf_image_classification_weights 0x71000010"
    change(written / "link.ld", ".nf_image_classification_weights 0x71000000", moved)
    wrong = (Conflict.MISALIGNED, ".nf_image_classification_weights", "")
    assert wrong in found([written / "link.ld"])
    change(written / "link.ld", moved, ".nf_image_classification_weights 0x71000060")
    assert found([written / "link.ld"]) == []
    text = (ROOT / "src/npuforge/targets/data" / f"{BOARD}.toml").read_text(encoding="utf-8")
    board = tmp_path / "board.toml"
    board.write_text(
        text.replace("buffer_alignment", "weight_alignment = 128\nbuffer_alignment", 1)
    )
    assert found([written / "link.ld"], str(board)) == [wrong]
    checked = api.check_memory([written / "link.ld"], str(board)).disagreements
    assert "0x71000080" in disagreement_text(checked[0])


def test_protection_that_misses_a_block(written: Path) -> None:
    text = (written / "nf_mpu.c").read_text()
    row = next(line for line in text.splitlines() if "camera frame" in line)
    (written / "nf_mpu.c").write_text(text.replace(row + "\n", ""))
    assert (Conflict.NOT_OFFERED, "camera frame", "region 0") in found(all_files(written))


def test_memory_that_is_not_there(written: Path) -> None:
    change(written / "link.ld", "DMA_CAMERA_FRAME (rw) : ORIGIN = 0x3411f000, LENGTH = 0xe1000",
           "DMA_CAMERA_FRAME (rw) : ORIGIN = 0x34400000, LENGTH = 0xe1000")  # fmt: skip
    kinds = found([written / "link.ld"])
    assert kinds == [(Conflict.NO_MEMORY, "DMA_CAMERA_FRAME", "")]
    assert found([written / "link.ld"], None) == []


def test_npu_buffers_out_of_reach(tmp_path: Path) -> None:
    path = tmp_path / "x.mpool"
    pool = {"name": "p", "offset": {"value": "0x0", "magnitude": "BYTES"},
            "size": {"value": "64", "magnitude": "KBYTES"}}  # fmt: skip
    path.write_text(json.dumps({"memory": {"mempools": [pool]}}))
    assert found([path]) == [(Conflict.NO_MEMORY, "p", "")]
    text = (ROOT / "src/npuforge/targets/data" / f"{BOARD}.toml").read_text(encoding="utf-8")
    board = tmp_path / "board.toml"
    board.write_text(re.sub(r'reach = \["cpu", "npu", "dma"\]', 'reach = ["cpu"]', text, count=1))
    pool["offset"] = {"value": "0x34000000", "magnitude": "BYTES"}
    path.write_text(json.dumps({"memory": {"mempools": [pool]}}))
    assert found([path], str(board)) == [(Conflict.OUT_OF_REACH, "p", "")]


@needs_compiler
def test_two_programs(written: Path) -> None:
    """A boot loader and an application that lie over each other, and one that left its script."""

    def link(name: str, origin: int) -> Path:
        script = written / f"{name}.ld"
        script.write_text(
            f"ENTRY(m)\nMEMORY {{ R (rwx) : ORIGIN = {origin:#x}, LENGTH = 4K }}\n"
            "SECTIONS {\n .text : { *(.text*) } > R\n .data : { *(.data*) } > R\n}\n"
        )
        (written / "m.c").write_text("int d[8] = {1}; void m(void) { d[0]++; }")
        subprocess.run(
            ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-nostdlib", "-nostartfiles", "m.c",
             f"-T{script.name}", f"-Wl,-Map={name}.map", "-Wl,--no-warn-rwx-segments", "-o",
             f"{name}.elf"],
            cwd=written, check=True, timeout=60,
        )  # fmt: skip
        return written / f"{name}.elf"

    first, second = link("fsbl", 0x34180000), link("app", 0x34180010)
    assert found([first, written / "fsbl.ld"]) == []
    assert found([first, written / "fsbl.map"]) == []
    kinds = {kind for kind, _, _ in found([first, second])}
    assert kinds == {Conflict.MOVED, Conflict.OVERLAP}
    late = link("late", 0x34190000)
    assert (Conflict.NOT_OFFERED, ".text", "R") in found([late, written / "fsbl.ld"])


def test_command_line(written: Path) -> None:
    arguments = ["plan", "check", *(str(path) for path in all_files(written)), "-t", BOARD]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert "4 files agree" in shown.output
    change(written / "link.ld", ".mem_sys_heap 0x340f05f0", ".mem_sys_heap 0x340f05e0")
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 1
    assert "0x340f05f0" in shown.output
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert [d["conflict"] for d in document["disagreements"]] == ["moved"]
    (written / "x.bin").write_bytes(b"\1\0\2")
    shown = CliRunner().invoke(app, ["plan", "check", str(written / "x.bin")])
    assert isinstance(shown.exception, NpuforgeError)
    assert shown.exception.code == "SYS-050"

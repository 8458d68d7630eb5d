"""Linker scripts and protection tables of a layout: read back, linked, and run."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tools import needs_compiler, needs_emulator

from npuforge import api
from npuforge.artefacts.elf import read_elf
from npuforge.artefacts.linker_script import read_linker_script
from npuforge.boards import HostBoard, write_sources
from npuforge.errors import PlanError
from npuforge.explore.system import load_models, plan_description
from npuforge.firmware import KnownAnswer, Network, project_files
from npuforge.memory.layout import SystemLayout
from npuforge.memory.ledger import Column
from npuforge.memory.system import Account, parse_system, read_system
from npuforge.memory.writers.files import layout_files
from npuforge.memory.writers.link_script import block_section, link_regions, network_sections
from npuforge.memory.writers.mpu import Access, mpu_regions, read_mpu_source
from npuforge.numerics import random_inputs
from npuforge.targets import Reach, load_target

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "camera_classifier" / "system.toml"
TEMPLATES = ROOT / "src" / "npuforge" / "firmware" / "templates" / "mps3-an547"
FLAGS = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O1", "-std=gnu11", "-Wall", "-Wextra",
         "-Werror", "-ffunction-sections", "-fdata-sections"]  # fmt: skip


def document(target: str, boot: str, arenas: list[str]) -> dict[str, Any]:
    names = ["keyword_spotting", "image_classification"][: len(arenas)]
    return {
        "schema": 1,
        "target": target,
        **({"boot": boot} if boot else {}),
        "models": [
            {"file": str(EXAMPLES / name / f"{name}.tflite"), "name": name, "arena": arena}
            for name, arena in zip(names, arenas, strict=True)
        ],
        "tasks": [{"name": "task a", "stack": "3 KiB"}],
        "heap": {"bytes": 5000},
        "buffers": [{"name": "ring", "bytes": 100, "count": 3}],
        "frames": [{"name": "frame", "width": 160, "height": 120, "format": "rgb565", "count": 2}],
    }


def laid(target: str, boot: str = "", arenas: list[str] | None = None) -> SystemLayout:
    made = document(target, boot, arenas if arenas is not None else ["shared"])
    return plan_description(parse_system(made, Path("s.toml")))


CASES = [
    ("stm32n6570-dk", "lrun", ["shared", "shared"]),
    ("stm32n6570-dk", "xip", ["own", "own"]),
    ("nucleo-n657x0-q", "lrun", ["own"]),
    ("mps3-an547", "", ["shared", "own"]),
]


@pytest.mark.parametrize(("target", "boot", "arenas"), CASES)
def test_scripts_read_back(target: str, boot: str, arenas: list[str]) -> None:
    layout = laid(target, boot, arenas)
    script = read_linker_script(layout_files(layout)["link.ld"].decode())
    for region in link_regions(layout):
        read = script.regions[region.name]
        assert (read.origin, read.length) == (region.origin, region.length)
    ordered = sorted(script.regions.values(), key=lambda region: region.origin or 0)
    for low, high in pairwise(ordered):
        assert low.end is not None
        assert low.end <= (high.origin or 0), f"{low.name} reaches into {high.name}"
    sections = {section.name: section for section in script.sections}
    for planned in network_sections(layout):
        assert sections[planned.section].address == planned.address
        assert sections[planned.section].noload != planned.load
    for name in ("ring", "frame", "heap", "task a"):
        block = layout.block(name)
        assert sections[block_section(block)].address == block.address


@pytest.mark.parametrize(("target", "boot", "arenas"), CASES)
def test_protection_covers_every_block(target: str, boot: str, arenas: list[str]) -> None:
    """Looked up as the hardware does: one region an address, attributes from its number."""
    layout = laid(target, boot, arenas)
    regions = mpu_regions(layout)
    ranges = read_mpu_source(layout_files(layout)["nf_mpu.c"].decode())
    assert list(ranges) == [(region.base, region.limit + 1) for region in regions]
    for block in layout.blocks:
        if block.name == "stored image":
            continue
        for address in (block.address, block.end - 1):
            hits = [r for r in regions if r.rbar & ~31 <= address <= r.rlar | 31]
            assert len(hits) == 1, f"{block.name} at {address:#x}: {hits}"
            attribute = 0x00AA44FF >> 8 * (hits[0].rlar >> 1 & 7) & 0xFF
            read_only, never = hits[0].rbar >> 1 & 3 == 3, hits[0].rbar & 1
            if block.account in (Account.CODE, Account.READ_ONLY):
                assert read_only
                assert not never
            elif block.account is Account.WEIGHTS:
                assert read_only
                assert never
            else:
                assert not read_only
                assert never
                assert attribute == (0x44 if Reach.DMA in block.reach else 0xFF)


def test_protection_refuses_what_it_cannot_say() -> None:
    made = document("stm32n6570-dk", "lrun", [])
    pools = ["cpuRAM1", "cpuRAM2", "npuRAM3", "npuRAM4", "npuRAM5", "npuRAM6", "hyperRAM"]
    made["buffers"] = [{"name": f"d{n}", "bytes": 100, "pool": pool, "dma": dma}
                       for n, (pool, dma) in enumerate((p, d) for p in pools for d in (True, False))
                       ] + [{"name": f"e{n}", "bytes": 40, "pool": pool, "dma": False}
                            for n, pool in enumerate(pools)]  # fmt: skip
    layout = plan_description(parse_system(made, Path("s.toml")))
    with pytest.raises(PlanError) as caught:
        mpu_regions(layout)
    assert caught.value.code == "SYS-041"


STARTUP = """
#include <stdint.h>
extern uint32_t nf_stack_top[];
int main(void);
void Reset_Handler(void);
void Reset_Handler(void) { main(); for (;;) { } }
__attribute__((section(".vectors"), used)) static const void *const vectors[2] = {
    nf_stack_top, (const void *)Reset_Handler};
"""
MAIN = """
#include "networks.h"
#include "nf_mpu.h"
#include <string.h>
static volatile uint8_t text[7] = "abc", zero[130];
__attribute__((section("FRAME"))) uint8_t frames[2][160 * 120 * 2];
__attribute__((section("RING"))) uint8_t ring[3][100];
int main(void)
{
    memset(frames, 1, sizeof frames);
    memset(ring, 2, sizeof ring);
    if (nf_mpu_init() != 0)
        return 1;
    for (uint32_t i = 0; i < nf_known_answer_count; ++i)
        nf_network_run(nf_known_answers[i].network, 0, 0);
    return text[0] + zero[1];
}
"""


@needs_compiler
@pytest.mark.parametrize(("target", "boot", "arenas"), CASES[:3])
def test_firmware_links(target: str, boot: str, arenas: list[str], tmp_path: Path) -> None:
    """A program for the chip: every section at its planned place, the ledger equal to `size`."""
    layout = laid(target, boot, arenas)
    models = load_models(layout.description, layout.target)
    networks, answers = [], []
    for model, placed in zip(models, layout.networks, strict=True):
        sample = random_inputs(model.graph, np.random.default_rng(1))
        outputs = HostBoard(model.graph, model.schedule, placed.plan).run(sample).outputs
        networks.append(Network(placed.name, model.graph, model.schedule, placed.plan))
        answers.append(KnownAnswer(sample, outputs))
    files = project_files(networks, answers, load_target("mps3-an547"), "test")
    main = MAIN.replace("FRAME", block_section(layout.block("frame")))
    main = main.replace("RING", block_section(layout.block("ring")))
    wanted = {name: data for name, data in files.items() if name.startswith(("network", "runtime"))}
    wanted |= dict(layout_files(layout))
    wanted |= {"startup.c": STARTUP.encode(), "main.c": main.encode()}
    write_sources(tmp_path, wanted)
    sources = [name for name in wanted if name.endswith((".c", ".S"))]
    subprocess.run(
        ["arm-none-eabi-gcc", *FLAGS, "-Inetwork", "-Iruntime/include", "-I.", "-Wa,-Inetwork",
         *sources, "-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections,--fatal-warnings",
         "-Wl,--no-warn-rwx-segments", "-Wl,-Map=x.map", "-Tlink.ld", "-lm", "-o", "x.elf"],
        cwd=tmp_path, check=True, timeout=300,
    )  # fmt: skip
    image = read_elf((tmp_path / "x.elf").read_bytes())
    found = {section.name: section for section in image.sections}
    for planned in network_sections(layout):
        section = found[planned.section]
        assert (section.address, section.size) == (planned.address, planned.nbytes)
    for name in ("ring", "frame"):
        block = layout.block(name)
        assert image.symbols[f"nf_mem_{name}_start"].address == block.address
        assert image.symbols[f"nf_mem_{name}_end"].address == block.end
    start = layout.target.pool(layout.boot.code).base + layout.boot.offset + 0x400
    assert found[".text"].address == start
    assert found[".text"].end <= found[".data"].load_address < found[".text"].end + 64
    ledger = api.program_ledger(tmp_path / "x.elf", target)
    shown = subprocess.run(
        ["arm-none-eabi-size", "x.elf"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()[1].split()  # fmt: skip
    sizes = ledger.sizes
    assert [sizes.text, sizes.data, sizes.bss] == [int(word) for word in shown[:3]]
    sums = ledger.by_account()
    assert sums[Account.WEIGHTS] == sum(net.plan.weights.used for net in layout.networks)
    arenas_bytes = sum(b.nbytes for b in layout.blocks if b.account is Account.ACTIVATIONS)
    assert sums[Account.ACTIVATIONS] == arenas_bytes
    assert sums[Account.DATA_PATH] == sum(layout.block(n).nbytes for n in ("ring", "frame"))
    reserved = [line for line in ledger.lines if line.column is Column.RESERVED]
    assert {line.name for line in reserved} == {"stored copy of .data", "stack"}


@needs_compiler
def test_what_was_not_planned_does_not_link(tmp_path: Path) -> None:
    layout = laid("stm32n6570-dk", "lrun", [])
    for name, data in layout_files(layout).items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "startup.c").write_text(STARTUP)
    section = block_section(layout.block("ring"))
    body = f'__attribute__((section("{section}"))) char r[%d]; int main(void) {{ return r[1]; }}'
    for size, code in ((384, 0), (385, 1)):
        (tmp_path / "main.c").write_text(body % size)
        done = subprocess.run(
            ["arm-none-eabi-gcc", *FLAGS, "startup.c", "main.c", "-nostartfiles", "-nostdlib",
             "-Tlink.ld", "-Wl,--no-warn-rwx-segments", "-o", "x.elf"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert min(done.returncode, 1) == code, done.stderr


PROBE = """
#include "nf_mpu.h"
#include "semihosting.h"
static volatile uint32_t data = 5;
static void jump(volatile uint32_t *to) __attribute__((unused));
extern volatile uint32_t nf_mem_ring_start[];
static void jump(volatile uint32_t *to)
{
    *to = 0x4770u; /* bx lr */
    ((void (*)(void))((uintptr_t)to | 1u))();
}
int main(void);
int main(void)
{
    if (nf_mpu_init() != 0)
        return 50;
    data = 6;
    nf_mem_ring_start[0] = data;
    switch (CASE) {
    case 1: *(volatile uint32_t *)((uintptr_t)main & ~3u) = 1; break;
    case 2: jump(&data); break;
    case 3: jump(nf_mem_ring_start); break;
    case 4: *(volatile uint32_t *)WEIGHTS = 1; break;
    case 5: return *(volatile uint32_t *)WEIGHTS == 12345u ? 1 : 7;
    }
    return 7;
}
"""


@needs_emulator
@pytest.mark.parametrize(("case", "code"), [(0, 7), (1, 99), (2, 99), (3, 99), (4, 99), (5, 7)])
def test_protection_works_in_the_emulator(case: int, code: int, tmp_path: Path) -> None:
    """Writes to constants and weights and jumps into data fault; everything planned does not."""
    layout = laid("mps3-an547", "", ["shared"])
    for name, data in layout_files(layout).items():
        (tmp_path / name).write_bytes(data)
    for path in TEMPLATES.glob("s*.[ch]"):
        shutil.copy(path, tmp_path / path.name)
    (tmp_path / "main.c").write_text(PROBE)
    plan = layout.networks[0].plan
    script = (tmp_path / "link.ld").read_text()
    # the probe links no network: nothing fills the planned sections
    script = "\n".join(line for line in script.splitlines() if "not the size" not in line)
    (tmp_path / "link.ld").write_text(script)
    sources = sorted(path.name for path in tmp_path.glob("*.c"))
    subprocess.run(
        ["arm-none-eabi-gcc", *FLAGS, f"-DCASE={case}", f"-DWEIGHTS={plan.weights.base:#x}",
         *sources, "-nostartfiles", "--specs=nosys.specs", "-Tlink.ld",
         "-Wl,--no-warn-rwx-segments", "-o", "x.elf"],
        cwd=tmp_path, check=True, timeout=60,
    )  # fmt: skip
    done = subprocess.run(
        ["qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none", "-serial",
         "none", "-semihosting-config", "enable=on,target=native", "-kernel", "x.elf"],
        cwd=tmp_path, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr.decode()


def test_one_attribute_for_each_kind() -> None:
    assert {access.slot for access in Access} == {0, 1, 2}
    assert read_system(EXAMPLE).cached_activations

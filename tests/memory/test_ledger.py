"""The ledger of a linked program: byte for byte what `size` and the map say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tools import needs_compiler, needs_emulator

from npuforge import api
from npuforge.artefacts.elf import Section, read_elf
from npuforge.artefacts.map_pieces import FILL, MapPiece, read_map_pieces
from npuforge.boards import build_project, find_toolchain
from npuforge.errors import NpuforgeError, PlanError
from npuforge.memory.classes import classify
from npuforge.memory.ledger import UNEXPLAINED, Column, linked_ledger
from npuforge.memory.linker import linker_script
from npuforge.memory.system import Account
from npuforge.targets import Use, load_target


def printed_sizes(elf: Path) -> tuple[int, int, int]:
    shown = subprocess.run(
        ["arm-none-eabi-size", elf], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    text, data, bss = (int(word) for word in shown.splitlines()[1].split()[:3])
    return text, data, bss


def section_sums(elf: Path) -> dict[str, int]:
    """Sizes of the sections that are loaded or reserved, from readelf."""
    shown = subprocess.run(
        ["arm-none-eabi-readelf", "-SW", elf], capture_output=True, text=True, check=True,
        timeout=60,
    ).stdout  # fmt: skip
    rows = re.findall(
        r"\]\s+(\.\S+)\s+\S+\s+[0-9a-f]{8} [0-9a-f]+ ([0-9a-f]+) \S+\s+(\S*A\S*)", shown
    )
    return {name: int(size, 16) for name, size, _ in rows if int(size, 16)}


def check(elf: Path) -> None:
    """The lines of a program against two other tools."""
    ledger = api.program_ledger(elf, "mps3-an547")
    sizes = ledger.sizes
    assert (sizes.text, sizes.data, sizes.bss) == printed_sizes(elf)
    sums: dict[str, int] = {}
    for line in ledger.lines:
        if line.column is not Column.RESERVED:
            section = line.origin.split(": ", 1)[1].split(",")[0]
            sums[section] = sums.get(section, 0) + line.nbytes
    assert sums == section_sums(elf)
    assert not [line for line in ledger.lines if line.name == UNEXPLAINED]
    for pool in ledger.pools:
        used = sum(line.nbytes for line in ledger.lines if line.pool == pool.name)
        assert used + pool.free == pool.size


@needs_emulator
@pytest.mark.parametrize("name", ["keyword_spotting", "image_classification"])
def test_generated_firmware(name: str, example: Callable[[str], Path], tmp_path: Path) -> None:
    planned, board = api.analyze_model(example(name), "stm32n6570-dk")
    inputs = api.validation_inputs(planned.graph, random_samples=1)
    api.write_project(tmp_path / "firmware", planned, inputs, board)
    build = tmp_path / "build"
    build_project(tmp_path / "firmware", build, find_toolchain())
    for image in ("validate", "known_answer"):
        check(build / f"{image}.elf")
    ledger = api.program_ledger(build / "validate.elf", "mps3-an547")
    sums = ledger.by_account()
    assert sums[Account.WEIGHTS] == planned.plan.image.size
    assert sums[Account.ACTIVATIONS] == planned.plan.activation_bytes
    assert sums[Account.NPU_RUNTIME] > 0
    assert sums[Account.CODE] > 1000


@needs_emulator
def test_expected_linked_and_run(example: Callable[[str], Path]) -> None:
    found = api.measure_memory(example("visual_wake_words"), "stm32n6570-dk")
    assert found.exact
    parts = found.breakdown
    assert parts.tensors + sum(value for _, value in parts.terms) == parts.planned
    assert parts.planned == sum(area.nbytes for area in found.run.arenas)
    # every tensor of this network is written, so the run reaches the last planned byte
    assert parts.planned - 32 < sum(area.high for area in found.run.arenas) <= parts.planned
    assert 100 < found.run.stack.high < found.stack_reserved <= found.stack_room
    assert found.run.stack.touched <= found.run.stack.high


SOURCE = """
#include <stdint.h>
__attribute__((section(".vectors"), used)) static const void *const vectors[4] = {0};
struct odd { char c; } ;
int64_t initialised = 7, other[5] = {1, 2, 3};
static char text[3] = "ab";
char zeroed[1001];
const char *const words[] = {"one", "two", "onetwo"};
const double table[] = {1.5, 2.5};
void Reset_Handler(void);
void Reset_Handler(void) { for (;;) { ++initialised; zeroed[text[0] & 7] += words[1][0]; } }
"""


def link(folder: Path, sources: dict[str, str]) -> Path:
    for name, content in sources.items():
        (folder / name).write_text(content)
    (folder / "link.ld").write_text(linker_script([], load_target("mps3-an547"), "test"))
    flags = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O1", "-fdata-sections",
             "-nostartfiles", "--specs=nosys.specs", "-Wl,-Map=x.map", "-Tlink.ld",
             "-Wl,--no-warn-rwx-segments"]  # fmt: skip
    subprocess.run(
        ["arm-none-eabi-gcc", *flags, *sources, "-o", "x.elf"],
        cwd=folder,
        check=True,
        timeout=60,
    )
    return folder / "x.elf"


@needs_compiler
def test_initialised_data_and_libraries(tmp_path: Path) -> None:
    """Data that is stored in one memory and used in another counts once for `size`, twice here."""
    more = (
        "#include <string.h>\n#include <stdlib.h>\nchar big[300];\n"
        "__attribute__((used)) void g(char *p) { memcpy(big, p, 77); qsort(p, 3, 1, (void *)g); }\n"
    )
    elf = link(tmp_path, {"a.c": SOURCE, "b.c": more})
    check(elf)
    image = read_elf(elf.read_bytes())
    data = next(section for section in image.sections if section.name == ".data")
    assert data.size == 8 * 6
    assert data.load_address < 0x20000000 <= data.address
    ledger = api.program_ledger(elf, "mps3-an547")
    copies = [line for line in ledger.lines if line.name == "stored copy of .data"]
    assert [(line.pool, line.nbytes, line.column) for line in copies] == [
        ("ITCM", data.size, Column.RESERVED)
    ]


@needs_compiler
def test_map_of_another_program(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    one = link(first, {"a.c": SOURCE})
    two = link(second, {"a.c": SOURCE.replace("1001", "100").replace("5]", "50]")})
    with pytest.raises(PlanError) as caught:
        api.program_ledger(two, "mps3-an547", map_file=one.with_suffix(".map"))
    assert caught.value.code == "SYS-013"
    with pytest.raises(PlanError) as caught:
        api.program_ledger(one, "linux-npu-generic")
    assert caught.value.code == "SYS-011"
    with pytest.raises(NpuforgeError) as other:
        api.program_ledger(tmp_path / "none.elf", "mps3-an547")
    assert other.value.code == "SYS-003"


def test_map_pieces() -> None:
    text = """Archive member included

Linker script and memory map

.text           0x08000000       0x30
 *(.text)
 .text          0x08000000       0x10 a.o
                0x08000000                main
 .text.with_a_long_name
                0x08000010        0xe lib dir/libc.a(m.o)
 *fill*         0x0800001e        0x2 00
 .rodata.str1.4
                0x08000020       0x10 b.o
                                 0x14 (size before relaxing)
 .empty         0x08000030        0x0 b.o

.bss            0x20000000        0x8
 COMMON         0x20000000        0x8 c.o
OUTPUT(x.elf)
"""
    assert read_map_pieces(text) == (
        MapPiece(".text", ".text", 0x8000000, 16, "a.o"),
        MapPiece(".text", ".text.with_a_long_name", 0x8000010, 14, "lib dir/libc.a(m.o)"),
        MapPiece(".text", FILL, 0x800001E, 2, ""),
        MapPiece(".text", ".rodata.str1.4", 0x8000020, 16, "b.o"),
        MapPiece(".bss", "COMMON", 0x20000000, 8, "c.o"),
    )


def test_hostile_maps() -> None:
    """Any text gives pieces or nothing, in bounded time."""
    rng = np.random.default_rng(3)
    base = (" .text 0x10 0x20 a.o\n.x\n *fill* 0x1 0x2\n .y\n" * 30).encode()
    for _ in range(200):
        data = bytearray(base)
        for at in rng.integers(0, len(data), 20):
            data[at] = int(rng.integers(0, 256))
        read_map_pieces(data.decode("latin-1"))
    assert read_map_pieces("") == ()


def test_lines_that_share_a_byte_are_refused() -> None:
    from npuforge.artefacts.elf import Image, Section

    image = Image(0, (Section(".a", 0, 64, True, True), Section(".b", 32, 64, True, True)), {}, 96)
    with pytest.raises(PlanError) as caught:
        linked_ledger(image, (), load_target("mps3-an547"))
    assert caught.value.code == "SYS-012"


@needs_compiler
def test_known_answers_may_be_larger_than_the_code_memory(tmp_path: Path) -> None:
    """They are linked behind the weights, not among the constants of the program."""
    answer = (
        '__attribute__((section(".nf_answers"), used)) const unsigned char answer[700000] = {1};\n'
    )
    elf = link(tmp_path, {"a.c": SOURCE, "b.c": answer})
    check(elf)
    machine = load_target("mps3-an547")
    section = next(s for s in read_elf(elf.read_bytes()).sections if s.name == ".nf_answers")
    pool = machine.pool_at(section.address)
    assert pool is not None
    assert (pool.use, section.size) == (Use.WEIGHTS, 700000)
    assert machine.pool("ITCM").size < section.size


@pytest.mark.parametrize(
    ("section", "name", "source", "account"),
    [
        (".psram_section", ".psram_bss", "build/Src/app.o", Account.DATA_PATH),
        (".bss", ".bss.nn_output_buffers", "./Src/app.o", Account.DATA_PATH),
        (".bss", ".bss.lcd_fg_buffer", "./Src/app.o", Account.DATA_PATH),
        (".bss", ".bss.venc_out_buffer", "./Src/app.o", Account.DATA_PATH),
        (".data", ".data.g_Anchors", "app_postprocess_mpe_pd_uf.o", Account.DATA_PATH),
        (".bss", ".bss._ec_blob_1", "./Model/network.o", Account.NPU_RUNTIME),
        (".data", ".data.x", "build/Model/stai_network.o", Account.NPU_RUNTIME),
        (".bss", ".bss.nn_thread_stack", "./Src/app.o", Account.SYSTEM),
        (".bss", ".bss.ucHeap", "./Src/app.o", Account.SYSTEM),
        (".noinit", ".noinit", "mtkernel/kernel/tkernel/task.o", Account.SYSTEM),
        (".bss", ".bss.x", "build/isp.o", Account.DATA_PATH),
        # what nothing is known of stays with the system
        (".bss", ".bss.counter", "/tmp/ccisp0Q1.o", Account.SYSTEM),  # gcc's random letters
        (".bss", ".bss.counter", "./Src/main.o", Account.SYSTEM),
        (".bss", ".bss.framework_state", "./Src/thing.o", Account.SYSTEM),
    ],
)
def test_items_are_known_by_name(section: str, name: str, source: str, account: Account) -> None:
    piece = MapPiece(section, name, 0x34000000, 64, source)
    found, why = classify(piece, Section(section, 0x34000000, 64, False, False, True))
    assert found is account
    assert (why == "static data") == (name in (".bss.counter", ".bss.framework_state"))

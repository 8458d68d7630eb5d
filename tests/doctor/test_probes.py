"""Generated probes compile for the Cortex-M55 without a warning and print what the doctor reads."""

from __future__ import annotations

import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from tests.doctor.rewritten import applications, copy
from tests.tools import needs_compiler

from npuforge.artefacts.log_text import log_from_text
from npuforge.artefacts.stall_snapshot import read_snapshots
from npuforge.doctor import collect
from npuforge.doctor.probes import PROBES, ProbeTarget, probe_target, write_probes
from npuforge.errors import UsageError

REPORT = """\
ST Edge AI Core v2.2.0-20266 2adc00962
 input 1/1          :   'Input "0"*/ out', int8(1x64x64x3), 12.00 KBytes, QLinear(0.0078,0,int8), activations
 output 1/2         :   'Quantize_9', int8(1x16), 16 Bytes, QLinear(0.00066,-128,int8), activations
 output 2/2         :   'scores', float32(1x16), 64 Bytes, activations
\tnpuRAM5    [0x342E0000 - 0x34350000]: 0x342E0000-0x342E3010
\tnpuRAM3    [0x34200000 - 0x34270000]: 0x34200000-0x34201000
"""  # noqa: E501
FLAGS = ["-mcpu=cortex-m55", "-mthumb", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2",
         "-ffreestanding", "-c", "-x", "c", "-", "-o"]  # fmt: skip
STUB = """\
#include <stdint.h>
typedef struct { volatile uint32_t IAESR, IADDR; } IAR_TypeDef;
typedef struct { volatile uint32_t IASR; IAR_TypeDef IAR[2]; } RISAF_TypeDef;
#define RISAF4_S ((RISAF_TypeDef *)0x54029000u)
#define RISAF5_S ((RISAF_TypeDef *)0x5402A000u)
#define RISAF6_S ((RISAF_TypeDef *)0x5402B000u)
#define RISAF11_S ((RISAF_TypeDef *)0x54030000u)
#define RISAF12_S ((RISAF_TypeDef *)0x54031000u)
#define HAL_RCC_MODULE_ENABLED
#define STM32N657xx
uint32_t HAL_RCC_GetNPUClockFreq(void);
uint32_t HAL_RCC_GetNPURAMSClockFreq(void);
"""


@pytest.fixture
def target(tmp_path: Path) -> ProbeTarget:
    (tmp_path / "network_generate_report.txt").write_text(REPORT)
    return probe_target(collect([tmp_path]))


def build(source: str, out: Path, *options: str) -> None:
    done = subprocess.run(
        ["arm-none-eabi-gcc", *options, *FLAGS, str(out)],
        input=source, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_target_of_a_report(target: ProbeTarget) -> None:
    assert [(t.bytes, t.elements, t.type) for t in target.inputs] == [(12288, 12288, "int8")]
    assert [(t.bytes, t.elements, t.type) for t in target.outputs] == [
        (16, 16, "int8"),
        (64, 16, "float32"),
    ]
    assert [bank.name for bank in target.banks] == ["AXISRAM3", "AXISRAM5"]
    assert '"' not in target.inputs[0].name
    assert "*/" not in target.inputs[0].name


@needs_compiler
@pytest.mark.parametrize("count", [1, 2, len(PROBES)])
def test_every_combination_compiles(count: int, target: ProbeTarget, tmp_path: Path) -> None:
    for names in combinations(PROBES, count):
        build(write_probes(target, names), tmp_path / "probe.o")


@needs_compiler
def test_compiles_with_vendor_headers(target: ProbeTarget, tmp_path: Path) -> None:
    """Pasted into a file that has the headers, or alone where the compiler finds them."""
    build(STUB + write_probes(target, PROBES), tmp_path / "probe.o")
    (tmp_path / "stm32n6xx_hal.h").write_text("#pragma once\n" + STUB, encoding="utf-8")
    build(write_probes(target, PROBES), tmp_path / "alone.o", f"-I{tmp_path}")
    symbols = b"HAL_RCC_GetNPUClockFreq"
    assert symbols in (tmp_path / "alone.o").read_bytes(), "the NPU's clock is read"
    build(write_probes(target, PROBES), tmp_path / "without.o")
    assert symbols not in (tmp_path / "without.o").read_bytes()


@needs_compiler
@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("base", applications(), ids=lambda base: base.name)
def test_compiles_for_the_network_of_an_application(base: Path, name: str, tmp_path: Path) -> None:
    copy(base, tmp_path / "app")
    target = probe_target(collect([tmp_path / "app"]))
    assert target.inputs[0].address == 0x342E0000
    assert (target.inputs[0].bytes, target.outputs[0].bytes) == (9216, 1024)
    source = write_probes(target, (name,))
    assert "0x342E0000u" in source
    build(source, tmp_path / "probe.o", "-Wshadow", "-Wconversion")


@needs_compiler
def test_placeholders_compile(tmp_path: Path) -> None:
    bare = probe_target(collect([tmp_path]))
    assert len(bare.notes) == 3
    assert len(bare.banks) == 4
    build(write_probes(bare, PROBES), tmp_path / "probe.o")


def test_unknown_probe(target: ProbeTarget) -> None:
    with pytest.raises(UsageError, match="PRB-001"):
        write_probes(target, ("heat",))


def test_stall_format_is_what_the_reader_reads(target: ProbeTarget) -> None:
    """The printf formats of the template, filled in, are a snapshot for the doctor."""
    source = write_probes(target, ("stall",))
    assert "0x580FE000u" in source, "epoch controller: page 30"
    lines = [
        "nf-stall epoch=3",
        "nf-stall STRENG4 CTRL=0x80000001 ADDR=0x34100000 POS=0x00000024",
        "nf-stall EC CTRL=0x80000000 BC=148",
        "nf-stall EC_IRQ = 0x00000000",
        "nf-stall INTREG=0x00000010",
        "nf-stall NVIC pending=0 enabled=1",
    ]
    for line in lines:
        head = line.split("=")[0].replace("STRENG4", "STRENG%lu")
        assert head in source, head
    (snap,) = read_snapshots(log_from_text("\n".join(lines)))
    assert (snap.epoch, snap.opcode, snap.intreg, snap.nvic_pending) == (3, 148, 16, 0)
    assert snap.engines[0].running
    assert snap.engines[0].address == 0x34100000

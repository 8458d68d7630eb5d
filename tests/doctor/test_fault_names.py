"""Addresses of a fault dump get the names that images and networks of the project give them."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.case_files import BASE

from npuforge.doctor import collect, diagnose

MAP = """Memory Configuration

Name             Origin             Length             Attributes
RAM              0x34000400         0x00080000         xrw

Linker script and memory map

.isr_vector     0x34000400      0x400
.text           0x34000800     0x8000
                0x34003900                SysTick_Handler
                0x34003a00                xTimerListUpdate
                0x34004000                memcpy
.bss            0x34020000     0x1000
                0x34020100                xActiveTimerList
"""
DUMP = "HardFault\nCFSR=0x00008200 BFAR=0x342E0010 PC=0x34003A11 LR=0x34003905\n"


def test_symbols_and_pool(tmp_path: Path) -> None:
    (tmp_path / "app.map").write_text(MAP, encoding="utf-8")
    (tmp_path / "uart.log").write_text(DUMP, encoding="utf-8")
    (tmp_path / "network.c").write_bytes((BASE / "network.c").read_bytes())
    found = diagnose(collect([tmp_path])).findings
    fault = next(f for f in found if f.id == "K24-bank-off")
    named = {(e.note, e.token) for e in fault.evidence[1:]}
    assert ("PC", "xTimerListUpdate+0x10") in named
    assert ("LR", "SysTick_Handler+0x4") in named
    assert any(e.file == "network.c" and e.token == "npuRAM5" for e in fault.evidence)


def test_no_image_no_names(tmp_path: Path) -> None:
    (tmp_path / "uart.log").write_text(DUMP, encoding="utf-8")
    fault = next(f for f in diagnose(collect([tmp_path])).findings if f.id == "K24-bank-off")
    assert len(fault.evidence) == 1

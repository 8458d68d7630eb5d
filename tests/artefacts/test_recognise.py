"""Files are recognised by content first, then by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuforge.artefacts.recognise import Kind, recognise
from npuforge.artefacts.text import decode

CASES = [
    ("firmware.bin", b"\x7fELF\x01\x01", Kind.ELF),
    ("app.bin", b"STM2" + bytes(60), Kind.BOOT_IMAGE),
    ("weights.bin", bytes(64), Kind.RAW_IMAGE),
    ("m.tflite", b"\x1c\0\0\0TFL3", Kind.TFLITE),
    ("m.bin", b"\x1c\0\0\0TFL3", Kind.TFLITE),
    ("network.c", b'#include "ll_aton_NN_interface.h"\nEpochBlock_ItemTypeDef', Kind.NETWORK_C),
    ("main.c", b"int main(void) { LL_ATON_RT_RuntimeInit(); }", Kind.C_SOURCE),
    ("x.mpool", b'{"memory": 1}', Kind.MPOOL),
    ("a.json", b'{"Globals": {}, "Profiles": {}}', Kind.PROFILE),
    ("network_c_info.json", b"{}", Kind.C_INFO),
    ("Makefile", b"all:\n", Kind.BUILD),
    ("boot.txt", b"[   12.345678] galcore: boot\n", Kind.LINUX_LOG),
    ("uart.txt", b"hello\n", Kind.LOG),
    ("boot.log.1", b"NPU init\n", Kind.LOG),
    ("network.c.aed", b"# error mismatch, LL_ATON\n", Kind.OTHER),
    ("log_mel.dot", b"digraph {}\n", Kind.OTHER),
    ("network_generate_report.txt", b"ST Edge AI Core v4.0.0\n", Kind.ST_REPORT),
    ("firmware.out.txt", b"Memory Configuration\n\nName", Kind.MAP),
]


@pytest.mark.parametrize(("name", "head", "kind"), CASES, ids=[c[0] for c in CASES])
def test_kinds(name: str, head: bytes, kind: Kind) -> None:
    assert recognise(Path(name), head, len(head)) is kind


@pytest.mark.parametrize("name", ["main.d", "app.ewp", "main.su", "app.launch", "graph.dot"])
def test_build_files_are_no_logs(name: str) -> None:
    assert recognise(Path(name), b"[00:00:01] reset\nreset\nHardFault\n", 34) is Kind.OTHER


def test_encodings() -> None:
    assert decode("缓存".encode("gb18030")) == "缓存"
    assert decode("缓存".encode()) == "缓存"
    assert decode(b"\xff\xfe" + "ab".encode("utf-16-le")) == "ab"
    assert decode(b"\xff\xff\x81") == "ÿÿ\x81"

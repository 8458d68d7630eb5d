"""Every reader of foreign files, fed with damaged ones: an answer or a refusal, nothing else."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.artefacts.spoiling import spoil
from tests.artefacts.test_compiled_files import info

from npuforge import artefacts
from npuforge.artefacts.boot_image import read_boot_image
from npuforge.artefacts.c_info import read_c_info
from npuforge.artefacts.c_source import constant, read_c
from npuforge.artefacts.c_values import calls, definitions, without_comments
from npuforge.artefacts.ec_blob import (
    Blob,
    Instruction,
    Op,
    read_blob,
    relocated,
    relocations,
    write_blob,
)
from npuforge.artefacts.elf import read_elf, read_map
from npuforge.artefacts.epoch_times import read_epoch_times
from npuforge.artefacts.fault_registers import read_faults
from npuforge.artefacts.fields import read_json
from npuforge.artefacts.ihex import read_ihex
from npuforge.artefacts.ioc import read_ioc
from npuforge.artefacts.linker_script import read_linker_script
from npuforge.artefacts.log_text import log_from_bytes
from npuforge.artefacts.map_pieces import read_map_pieces
from npuforge.artefacts.minimalloc import read_minimalloc
from npuforge.artefacts.mpool import read_mpool
from npuforge.artefacts.network_c import (
    is_network,
    read_blobs,
    read_network_c,
    read_word_arrays,
)
from npuforge.artefacts.npu_driver_log import read_driver_log
from npuforge.artefacts.planning_instance import read_buffers, read_pools
from npuforge.artefacts.recognise import HEAD, recognise
from npuforge.artefacts.run_records import records_of_log, records_of_table, statistics
from npuforge.artefacts.serial_dump import read_dumps
from npuforge.artefacts.stall_snapshot import read_snapshots
from npuforge.artefacts.text import decode, read_text
from npuforge.artefacts.tool_log import read_tool_log
from npuforge.artefacts.uart_log import read_uart_log
from npuforge.artefacts.vela_report import read_vela_layers
from npuforge.errors import NpuforgeError

CASES = Path(__file__).parents[1] / "doctor" / "cases"
DUMP = b"nf-dump input int8 8\n00 01 02 03\n04 05 06 07\nnf-end\noutput: 1, 2, 3\n"
TABLE = b"run,result,operation,code\n1,ok,,\n2,fail,17,-5\n3,fail,9,-5\n"
VELA = (
    b"TFLite_operator,NNG Operator,SRAM Usage,Peak%,Op Cycles,Network%,NPU,SRAM AC,DRAM AC,"
    b"OnFlash AC,OffFlash AC,MAC Count,Network%,Util%,Name\n"
    b"CONV_2D,Conv2DBias,4608,10,2304,5,2304,100,0,0,50,110592,3,18.75,conv\n"
)
MINIMALLOC = b"id,lower,upper,size\nb0,0,3,128\nb1,2,5,64\n"
PLANNED = (
    b"id,lower,upper,size,alignment,traffic,reach,pools,fixed,view_of,view_offset\n"
    b"x,0,3,128,32,256,npu cpu,ram,64,,\ny,1,5,64,8,0,,,,x,16\n"
)
POOLS = (
    b"name,base,size,clocks_per_byte,reach,reserved\nram,872415232,4096,0.5,npu cpu,0-64 96-128\n"
)
C_INFO = json.dumps(info()).encode()
HEX = b":020000042000DA\n:10000000000102030405060708090A0B0C0D0E0F78\n:00000001FF\n"
IOC = b"#MicroXplorer\nMcu.CPN=STM32N657X0H3Q\nPA0.Signal=XSPIM_P1_IO0\nRCC.CPUFreq=800000000\n"
MAP = (
    b"Discarded input sections\n .text.a 0x0 0x4 ./a.o\n\nMemory Configuration\n\n"
    b"RAM 0x34000400 0x1000 xrw\n\nLinker script and memory map\n\n.text  0x34000400  0x100\n"
    b" .text.main 0x34000400 0x40 ./main.o\n                0x34000400                main\n"
    b".bss\n                0x34000800       0x10\n"
)
BLOB_H = b"static const uint64_t _ec_blob_1[] = {\n  0x00000001ca057a7aUL,\n  0x2, 3ULL,\n};\n"
PROGRAM = (
    Instruction(Op.LOAD, 1, 2, 0, 31, (7, 8, 9)),
    Instruction(Op.BIT, 1, 3, 4, 4, (1,)),
    Instruction(Op.POLL, 2, 5, 0, 7, (1, 2)),
    Instruction(Op.IRQ),
)
BLOB = write_blob(Blob((), PROGRAM, ()))
BOOT = b"STM2" + bytes(68) + struct.pack("<I", 0x00020300) + bytes(0x30) + bytes(0x400)


def elf() -> bytes:
    """A small ELF file with one segment, a code section and a symbol table."""
    names = b"\0.text\0.symtab\0.strtab\0"
    symbols = bytes(16) + struct.pack("<IIIBBH", 1, 0x34000400, 4, 18, 0, 1)
    at = 52 + 32
    body = b"\0\xbf\0\xbf" + symbols + b"\0main\0" + names
    header = struct.pack(
        "<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 40, 1, 0x34000400, 52, at + len(body), 0, 52, 32,
        1, 40, 4, 3,
    )  # fmt: skip
    segment = struct.pack("<8I", 1, at, 0x34000400, 0x70100400, 4, 4, 5, 4)
    sections = (
        bytes(40)
        + struct.pack("<10I", 1, 1, 6, 0x34000400, at, 4, 0, 0, 4, 0)
        + struct.pack("<10I", 7, 2, 0, 0, at + 4, 32, 3, 1, 4, 16)
        + struct.pack("<10I", 15, 3, 0, 0, at + 36, 6 + len(names), 0, 0, 1, 0)
    )
    return header + segment + body + sections


def sample(*parts: str) -> bytes:
    return CASES.joinpath(*parts).read_bytes()


LOGS = tuple(sorted(path.read_bytes() for path in CASES.glob("*/*.log")))
NETWORK = sample("_base", "network.c")
Reader = Callable[[bytes], object]


def of_log(reader: Callable[..., object]) -> Reader:
    return lambda data: reader(log_from_bytes(data))


def listed(reader: Callable[..., object], *rest: str) -> Reader:
    return lambda data: list(reader(decode(data), "file", *rest))  # type: ignore[call-overload]


READERS: dict[str, tuple[Reader, tuple[bytes, ...]]] = {
    "boot_image": (read_boot_image, (BOOT,)),
    "c_info": (read_c_info, (C_INFO,)),
    "c_source": (lambda data: read_c(decode(data)), (sample("_base", "main.c"),)),
    "c_source constant": (lambda d: constant(decode(d), {"A": "(B+1)"}), (b"(A*2)<<3|0x10", b"A")),
    "c_values": (listed(definitions), (NETWORK,)),
    "c_values calls": (listed(calls, r"LL_\w+"), (NETWORK,)),
    "c_values comments": (lambda data: without_comments(decode(data)), (NETWORK,)),
    "ec_blob": (read_blob, (BLOB,)),
    "ec_blob relocations": (relocations, (BLOB,)),
    "ec_blob relocated": (lambda d: relocated(d, {}), (BLOB,)),
    "elf": (read_elf, (elf(),)),
    "elf map": (lambda data: read_map(decode(data)), (MAP,)),
    "epoch_times": (of_log(read_epoch_times), LOGS),
    "fault_registers": (of_log(read_faults), LOGS),
    "fields": (lambda data: read_json(data, "file"), (C_INFO,)),
    "ihex": (read_ihex, (HEX,)),
    "ioc": (lambda data: read_ioc(decode(data)), (IOC,)),
    "linker_script": (lambda data: read_linker_script(decode(data)), (sample("_base", "app.ld"),)),
    "log_text": (log_from_bytes, LOGS),
    "map_pieces": (lambda data: read_map_pieces(decode(data)), (MAP,)),
    "minimalloc": (lambda data: read_minimalloc(decode(data)), (MINIMALLOC,)),
    "mpool": (read_mpool, (sample("J10", "app.mpool"),)),
    "network_c": (read_network_c, (NETWORK,)),
    "network_c blobs": (read_blobs, (BLOB_H,)),
    "network_c words": (lambda data: read_word_arrays(data, "file"), (BLOB_H,)),
    "network_c name": (is_network, (NETWORK,)),
    "npu_driver_log": (of_log(read_driver_log), LOGS),
    "planning_instance": (lambda data: read_buffers(decode(data)), (PLANNED,)),
    "planning_instance pools": (lambda data: read_pools(decode(data)), (POOLS,)),
    "recognise": (lambda d: recognise(Path("a"), d[:HEAD], len(d)), (NETWORK, elf(), MAP, *LOGS)),
    "run_records": (of_log(lambda log: statistics(records_of_log(log))), LOGS),
    "run_records table": (of_log(lambda log: statistics(records_of_table(log))), (TABLE,)),
    "serial_dump": (of_log(read_dumps), (DUMP,)),
    "stall_snapshot": (of_log(read_snapshots), LOGS),
    "text": (decode, (NETWORK, b"\xff\xfea\0b\0")),
    "tool_log": (of_log(read_tool_log), LOGS),
    "uart_log": (of_log(read_uart_log), LOGS),
    "vela_report": (lambda data: read_vela_layers(data, "file"), (VELA,)),
}


def answers(reader: Reader, data: bytes) -> None:
    """Run a reader; only the refusals of the house may come out."""
    with suppress(NpuforgeError):
        reader(data)


@pytest.mark.parametrize("name", READERS)
def test_the_samples_are_read(name: str) -> None:
    """What is damaged below is fine before: the readers get past its first bytes."""
    reader, samples = READERS[name]
    for data in samples:
        reader(data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_damaged(name: str, seed: int) -> None:
    reader, samples = READERS[name]
    rng = random.Random(seed)
    answers(reader, spoil(rng.choice(samples), rng))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=20, deadline=None)
@given(data=st.binary(max_size=400))
def test_noise(name: str, data: bytes) -> None:
    answers(READERS[name][0], data)


@pytest.mark.parametrize("name", READERS)
def test_cut_anywhere(name: str) -> None:
    reader, samples = READERS[name]
    data = samples[0][:4000]
    for end in range(0, len(data), max(1, len(data) // 60)):
        answers(reader, data[:end])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        read_text(tmp_path / "gone")


def test_every_reader_is_here() -> None:
    """A module of the room without a row in the table above is not tested."""
    covered = {name.split()[0] for name in READERS}
    modules = {module.name for module in pkgutil.iter_modules(artefacts.__path__)}
    assert modules == covered
    for name in modules:
        module = importlib.import_module(f"npuforge.artefacts.{name}")
        public = [
            found
            for found, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
            and found.startswith(("read_", "records_"))
        ]  # fmt: skip
        text = Path(__file__).read_text(encoding="utf-8")
        assert [found for found in public if found not in text] in (
            [],
            ["read_log"],
            ["read_bytes"],
        )


@pytest.mark.parametrize("filler", [" " * 60_000, "\n" * 60_000, "x" * 60_000, "9" * 60_000])
@pytest.mark.parametrize("name", READERS)
def test_long_runs(name: str, filler: str) -> None:
    """A run of one character in front of each kind of token takes no more than linear time."""
    reader, samples = READERS[name]
    data = samples[0]
    middle = data.find(b"\n", len(data) // 2) + 1
    for token in (b"int ", b"a = ", b"0x", b'"', b"npu "):
        answers(reader, data[:middle] + token + filler.encode() + data[middle:])

"""Log readers: text of any kind, fault registers, snapshots, driver logs, tool logs, UART logs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.fault_registers import read_faults
from npuforge.artefacts.log_text import MAX_BYTES, MAX_LINE, log_from_bytes, log_from_text
from npuforge.artefacts.npu_driver_log import Kind, Role, read_driver_log
from npuforge.artefacts.run_records import records_of_log, records_of_table, statistics
from npuforge.artefacts.stall_snapshot import read_snapshots
from npuforge.artefacts.tool_log import read_tool_log
from npuforge.artefacts.uart_log import Stage, read_uart_log

READERS = (
    read_faults,
    read_snapshots,
    read_driver_log,
    records_of_log,
    records_of_table,
    read_tool_log,
    read_uart_log,
)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030"]
)
def test_encodings(encoding: str) -> None:
    text = "启动 boot start\r\nHardFault CFSR=0x400\r\n" * (1 if "16" not in encoding else 40)
    log = log_from_bytes(text.encode(encoding))
    assert log.line(2).text == "HardFault CFSR=0x400"
    if "16" not in encoding:
        assert "启动" in log.line(1).text


def test_text_is_cleaned() -> None:
    log = log_from_bytes(b"\x1b[31mred\x1b[0m\x07 text\r10%\r20%\nlast")
    assert [line.text for line in log.lines()] == ["red text", "10%", "20%", "last"]


def test_binary_and_huge_lines() -> None:
    assert log_from_bytes(bytes(range(256)) * 64).binary
    log = log_from_bytes(b"x" * 3_000_000 + b" HardFault\nnext\n")
    assert len(log.line(1).text) == MAX_LINE
    assert log.line(2).text == "next"
    assert [line.number for line in log.with_literal("hardfault")] == [1]


def test_noise_at_reset_is_no_binary_file() -> None:
    log = log_from_bytes(
        b"\xff\xfe\x80\x00".replace(b"\xff\xfe", b"\xf8\xf0") + b"boot start\n" * 50
    )
    assert not log.binary
    assert "boot start" in log.text


def test_large_files_are_cut(tmp_path_factory: pytest.TempPathFactory) -> None:
    from npuforge.artefacts.log_text import read_log

    path = tmp_path_factory.mktemp("big") / "big.log"
    path.write_bytes(b"line\n" * ((MAX_BYTES // 5) + 100))
    log = read_log(path)
    assert log.cut == path.stat().st_size - MAX_BYTES
    assert len(log.text) == MAX_BYTES


@given(st.binary(max_size=600))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_readers_survive_anything(data: bytes) -> None:
    for log in (log_from_bytes(data), log_from_bytes(b"NPU error 0x1 op id 3 CFSR=" + data)):
        for reader in READERS:
            reader(log)


FRAGMENTS = (
    *("CFSR", "=", "0x", "ffffffffffffffff", "RISAF4", "IASR", "STRENG", "[", "op id", ":", "9"),
    *("npu", "failed", "\n", "|", "epoch_1", " HW ", "weights:", "MB", "/", "E103(", ")", "input"),
    *("dma", "0x8000", "inference", "3.5", "ms", "score", "nan", "1e400", "QLinear("),
)


@given(
    st.lists(
        st.sampled_from(FRAGMENTS),
        max_size=60,
    )
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_readers_survive_broken_lines(words: list[str]) -> None:
    log = log_from_text(" ".join(words))
    for reader in READERS:
        reader(log)


def test_ten_megabytes_cost_little() -> None:
    block = (
        "[  12.5] npu: inference 17 done in 3.690 ms\n"
        "output: 0.1 0.2 0.3 class 4 score 0.5\n"
        "some unrelated line of text that a firmware prints every now and then ....\n"
        "WARNING: conv2d_13 is not quantized\n"
    )
    log = log_from_text(block * (10_000_000 // len(block)))
    begin = time.process_time()
    for reader in READERS:
        reader(log)
    # twice the size in three seconds is the aim; the limit leaves room for a slow machine
    assert time.process_time() - begin < 5


def test_fault_in_several_spellings() -> None:
    for text in (
        "HardFault!\nCFSR = 0x00000400\nHFSR = 0x40000000\nBFAR = 0xE000ED38\nPC = 0x34001234\n",
        "hard fault: cfsr:0x400 hfsr:0x40000000 bfar:0xe000ed38 pc:0x34001234",
        "[F] Hard Fault SCB->CFSR=0x00000400, SCB->HFSR=0x40000000 SCB->BFAR 0xE000ED38\n"
        "PC=34001234",
    ):
        (dump,) = read_faults(log_from_text(text))
        assert dump.cfsr == 0x400, text
        assert dump.flags == ("IMPRECISERR", "FORCED"), text
        assert dump.imprecise
        assert dump.address is None, "an imprecise fault has no valid address"
        assert dump.pc == 0x34001234


def test_fault_parts_and_address() -> None:
    (dump,) = read_faults(log_from_text("BusFault BFSR=0x82 UFSR=0x0001 BFAR=0x71037160"))
    assert dump.flags == ("PRECISERR", "BFARVALID", "UNDEFINSTR")
    assert dump.address == 0x71037160


def test_two_faults_are_two() -> None:
    text = (
        "HardFault CFSR=0x1 PC=0x10\n" + "boot\n" * 30 + "HardFault CFSR=0x8200 BFAR=0x10 PC=0x20\n"
    )
    first, second = read_faults(log_from_text(text))
    assert (first.pc, second.pc) == (0x10, 0x20)
    assert (first.line, second.line) == (1, 32)


def test_absent_fault() -> None:
    assert not read_faults(log_from_text("fault handler installed\nno hard fault since boot\n"))


SNAPSHOT = """\
timeout after 2000 ms in epoch=7
STRENG0 CTRL=0x80000001 ADDR=0x342E0000 POS=0
STRENG3 CTRL=0x80000011 ADDR=0x71037160 POS=36
STRENG4 CTRL=0x00000001 ADDR=0x34200000 POS=100
EC CTRL=0x80000000 BC=148
INTREG=0x0
BUSIF ERR 0x10630703
RISAF4 IASR=0x0 IAESR=0x0 IADDR=0x0
RISAF12 IASR=0x1 IAESR=0x30 IADDR=0x71000000
NVIC pending=0
"""


def test_snapshot() -> None:
    (snap,) = read_snapshots(log_from_text(SNAPSHOT))
    assert [engine.number for engine in snap.running] == [0, 3]
    assert snap.engines[1].address == 0x71037160
    assert snap.engines[1].position == 36
    assert snap.epoch == 7
    assert snap.ec_running is True
    assert snap.opcode == 148
    assert snap.busif_error == 0x10630703
    assert snap.intreg == 0
    assert snap.nvic_pending == 0
    assert [(flag.number, flag.status) for flag in snap.filters] == [(4, 0), (12, 0x31)]


def test_snapshot_in_words() -> None:
    text = (
        "stream engine 2 RUNNING, position frozen at 36, address 0x71037160\n"
        "stream engine 5 idle\n"
        "epoch controller RUNNING, opcode counter stuck at 148\n"
        "EC_IRQ = 0x00000008\n"
    )
    (snap,) = read_snapshots(log_from_text(text))
    assert [e.number for e in snap.running] == [2]
    assert snap.engines[0].position == 36
    assert snap.opcode == 148
    assert snap.ec_irq == 8


RKNN = """\
[  605.159276] RKNPU: failed to wait job, task counter: 0, flags: 0x5, ret = 0
E RKNN: [13:49:52.175] failed to submit!, op id: 21, op name: Conv:/model.6/cv2/conv/Conv
rknn_run fail! ret=-1
[  605.375257] RKNPU: soft reset
E RKNN: [13:49:58.175] failed to submit!, op id: 63, op name: Conv:/model.17/cv3/conv/Conv
rknn_run fail! ret=-1
[    2.501015] RKNPU fde40000.npu: RKNPU: rknpu iommu is disabled, using non-iommu mode
[    2.503000] [drm] Initialized rknpu 0.9.3 20231121 for fde40000.npu on minor 1
[    2.503800] RKNPU fde40000.npu: Failed to get leakage
"""


def test_driver_log_of_a_public_driver() -> None:
    log = log_from_text(RKNN)
    driver = read_driver_log(log)
    failed = driver.of(Kind.OPERATION_FAILED)
    assert [event.operation for event in failed] == [21, 63]
    assert failed[0].operation_name == "Conv:/model.6/cv2/conv/Conv"
    assert failed[0].time == 13 * 3600 + 49 * 60 + 52.175
    assert len(driver.of(Kind.RESET)) == 1
    assert not [e for e in driver.events if "leakage" in e.text], "probe messages are no failures"
    records = records_of_log(log, driver)
    assert [record.operation for record in records if not record.ok][-2:] == [21, 63]


def test_regions_with_roles() -> None:
    text = (
        "[ 1.0] npu: region input phys=0x8f3a1010 size=24576\n"
        "[ 1.1] npu: weights dma_addr 0x90000080, 128-byte aligned, 1048576 bytes\n"
        "[ 1.2] npu: output buffer iova: 0x3c2f5000 len 0x400\n"
        "[ 1.3] npu: mmio base ffffffc008e80000\n"
    )
    regions = read_driver_log(log_from_text(text)).regions
    assert [(r.role, r.address, r.size, r.stated) for r in regions] == [
        (Role.INPUT, 0x8F3A1010, 24576, 0),
        (Role.WEIGHTS, 0x90000080, 1048576, 128),
        (Role.OUTPUT, 0x3C2F5000, 0x400, 0),
    ]
    assert [r.alignment for r in regions] == [16, 128, 4096]


def test_numbers_filled_up_with_zeros() -> None:
    (region,) = read_driver_log(
        log_from_text("npu: input buffer phys=0x8f3a1040 size=0100 must be 064-byte aligned")
    ).regions
    assert (region.size, region.stated) == (100, 64)
    (snap,) = read_snapshots(log_from_text("STRENG4 CTRL=0x80000001\nINTREG=00000010\nEC_IRQ=008"))
    assert (snap.intreg, snap.ec_irq) == (0x10, 8)


def test_records_of_tables() -> None:
    text = "run,result,op,code\n1,ok,,0\n2,fail,17,-5\n3,fail,44,-5\n"
    records = records_of_table(log_from_text(text))
    assert [(r.run, r.ok, r.operation, r.code) for r in records] == [
        (1, True, None, ""),
        (2, False, 17, "-5"),
        (3, False, 44, "-5"),
    ]
    stats = statistics(records)
    assert (stats.runs, stats.failures, stats.same_code, stats.same_operation) == (3, 2, 1.0, 0.5)
    lines = '{"run": 1, "status": 0}\n{"run": 2, "op_id": 3, "status": "0x80000005"}\nnot json\n'
    records = records_of_table(log_from_text(lines))
    assert [(r.ok, r.operation, r.code) for r in records] == [
        (True, None, ""),
        (False, 3, "0x80000005"),
    ]
    assert not records_of_table(log_from_text("a,b\n1,2\n"))


STUDIO = """\
Generate Project
Run failed: Error: E103(CliRuntimeError): failed. Output: ST Edge AI Core v4.0.1-20581

PASS:   0%|          | 0/103 [00:00<?, ?it/s]\r
WARNING: conv2d_2 is not quantized
      Warning: Oauto did not find valid compile options: aborting
      total bytes left unallocated=33554432
   E103(CliRuntimeError): Error calling the Neural Art compiler
"""


def test_tool_log_of_a_failed_compilation() -> None:
    log = read_tool_log(log_from_text(STUDIO))
    assert log.version == "4.0.1-20581"
    assert [message.kind for message in log.messages] == ["E103", "E103"]
    assert log.unallocated == (33554432,)
    assert log.not_quantized == 1
    assert log.warnings[0].text == "Oauto did not find valid compile options: aborting"


REPORT = """\
ST Edge AI Core v2.2.0-20266 2adc00962
Parameters            : validate --target stm32n6 -m m.tflite --st-neural-art n6-extflash@user_neuralart.json --mode target
 generating random data, size=10, seed=42, range=(0, 1)
  I[1/1] 'Input_0_out_0'      :   int8[1,64,64,3], 12288 Bytes, QLinear(0.007843122,0,int8), activations
  O[1/1] 'Quantize_9_out_0'   :   int8[1,32], 32 Bytes, QLinear(0.000424027,-128,int8), activations
  tools                       :   ST Neural ART (LL_ATON api) v1.1.1
  runtime lib                 :   atonn-v1.1.1-14-ge619e860 (optimized SW lib v10.1.0-ae536891 GCC)
  device.attrs                :   fpu,npu_cache=1,mcu_freq=800MHz,noc_freq=400MHz,npu_freq=1000MHz,nic_freq=900MHz
  duration       :   0.462 ms by sample (0.461/0.473/0.004)
Compiler version: 1.1.1-14
\tcpuRAM2    [0x34100000 - 0x34200000]:          0  B /      1.000 MB  (  0.00 % used) -- weights:          0  B (  0.00 % used)  activations:          0  B (  0.00 % used)
\tnpuRAM5    [0x342E0000 - 0x34350000]:     12.016 kB /    448.000 kB  (  2.68 % used) -- weights:          0  B (  0.00 % used)  activations:     12.016 kB (  2.68 % used)
\thyperRAM   [0x90000000 - 0x92000000]:     1.500 MB /     32.000 MB  (  4.69 % used) -- weights:          0  B (  0.00 % used)  activations:      1.500 MB (  4.69 % used)
\tnpuRAM5    [0x342E0000 - 0x34350000]: 0x342E0000-0x342E3010
Total number of epochs                               14
>> pure software (SW) epochs                         3
>> hybrid epochs (using both software and hardware)  1
>> pure hardware (HW or EC) epochs                   10  (implemented in 2 epoch controller blobs/meta epochs)
| epoch_2  |  HW  |         |
| epoch_3  |  -SW-  | Softmax |
X-cross #1   n.a.   0.000074958   0.000013251   0.000799048   0.000011   0.000074   0.999690   1.000000   'conv2d_0', 10 x int8(1x1x1x32), m_id=[1]
"""  # noqa: E501


def test_tool_report() -> None:
    log = read_tool_log(log_from_text(REPORT))
    assert (log.compiler, log.runtime, log.api) == ("1.1.1-14", "1.1.1-14", "1.1.1")
    assert log.clocks == {"mcu_freq": 800, "noc_freq": 400, "npu_freq": 1000, "nic_freq": 900}
    assert "n6-extflash" in log.command
    assert log.random_data
    assert log.duration_ms == 0.462
    assert [(p.name, p.used, p.size) for p in log.pools] == [
        ("cpuRAM2", 0, 1 << 20),
        ("npuRAM5", 12304, 448 * 1024),
        ("hyperRAM", 1572864, 32 << 20),
    ]
    assert log.pools[2].activations == 1572864
    assert [(r.pool, r.start, r.end) for r in log.ranges] == [("npuRAM5", 0x342E0000, 0x342E3010)]
    assert log.epoch_counts == {"total": 14, "sw": 3, "hybrid": 1, "hw": 10, "blobs": 2}
    assert [(e.name, e.kind) for e in log.epochs] == [("epoch_2", "HW"), ("epoch_3", "SW")]
    first, second = log.tensors
    assert (first.direction, first.dtype, first.nbytes) == ("input", "int8", 12288)
    assert first.shape == (1, 64, 64, 3)
    assert (second.scale, second.zero_point) == (0.000424027, -128)
    assert log.metrics[0].values["rmse"] == 0.000074958
    assert log.metrics[0].values["cos"] == 1.0
    assert not log.messages


UART = """\
FSBL start
Setting up clocks: CPU 800 MHz
Configuring NPU
Configuring RISAF 7
LL_ATON_RT_RuntimeInit
stai_network_init returned 0x030000
inference 1: 3.69 ms
output: 0.12 0.34 0.54
inference 2: 0.02 ms
output: 0.12 0.34 0.54
"""


def test_uart_log() -> None:
    log = read_uart_log(log_from_text(UART))
    assert [mark.stage for mark in log.stages][:6] == [
        Stage.FSBL, Stage.CLOCK, Stage.NPU, Stage.RIF, Stage.RUNTIME, Stage.NETWORK,
    ]  # fmt: skip
    assert log.stages[3].detail == "7"
    assert (log.codes[0].value, log.codes[0].function) == (0x30000, "stai_network_init")
    assert [(i.milliseconds, i.outputs) for i in log.inferences] == [
        (3.69, (0.12, 0.34, 0.54)),
        (0.02, (0.12, 0.34, 0.54)),
    ]
    assert log.last is not None
    assert log.last.number == 10


def test_staged_log() -> None:
    text = "nf-stage npu result=0 t_us=12\nnf-stage network_init result=0x60000 t_us=99\n"
    log = read_uart_log(log_from_text(text))
    assert [(mark.stage, mark.failed, mark.detail) for mark in log.stages] == [
        (Stage.NPU, False, "0"),
        (Stage.NETWORK, True, "0x60000"),
    ]

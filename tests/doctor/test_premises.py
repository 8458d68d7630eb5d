"""What must hold before a finding is an error: causes of wrong errors met in public projects."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.doctor.case_files import BASE

from npuforge.doctor import collect, diagnose
from npuforge.vocab import Severity

CLEAN = "    SCB_CleanDCache_by_Addr(input, input_bytes);\n"
ENABLE = "  SCB_EnableDCache();\n"
MPU = """
static void MPU_Config(void)
{
  MPU_Region_InitTypeDef region = {0};
  MPU_Attributes_InitTypeDef kind = {0};
  region.BaseAddress = %s;
  region.LimitAddress = %s;
  HAL_MPU_ConfigRegion(&region);
  kind.Attributes = INNER_OUTER(%s);
  HAL_MPU_ConfigMemoryAttributes(&kind);
}

int main(void)
{
  MPU_Config();
"""


def build(folder: Path, *edits: tuple[str, str, str], **more: str) -> dict[str, Severity]:
    for path in BASE.iterdir():
        shutil.copyfile(path, folder / path.name)
    for name, old, new in edits:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    for name, text in more.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return {item.id: item.severity for item in diagnose(collect([folder])).findings}


STALE = ("main.c", "    SCB_InvalidateDCache_by_Addr(output, output_bytes);\n", "")
DIRTY = ("main.c", CLEAN, "")


def test_errors_of_the_cache_order(tmp_path: Path) -> None:
    found = build(tmp_path, DIRTY)
    assert found["K07-input-not-cleaned"] is Severity.ERROR
    found = build(tmp_path, STALE)
    assert found["K07-output-stale"] is Severity.ERROR


def test_the_switch_is_part_of_the_evidence(tmp_path: Path) -> None:
    build(tmp_path, DIRTY)
    found = [f for f in diagnose(collect([tmp_path])).findings if f.id == "K07-input-not-cleaned"]
    assert any(place.token == "SCB_EnableDCache()" for place in found[0].evidence)


@pytest.mark.parametrize(
    ("boot", "severity"),
    [
        ("int main(void) { SCB_EnableDCache(); jump(0x34000400); }\n", Severity.WARNING),
        ("int main(void) { SCB_EnableDCache(); BOOT_Application(); }\n", None),
        ("int main(void) { SCB_EnableDCache(); SCB_DisableDCache(); jump(0); }\n", None),
        ("int mcu_cache_enable(void) { SCB_EnableDCache(); return 0; }\n", None),
        ("void SystemInit(void) { SCB_EnableDCache(); }\n", Severity.ERROR),
        ("int unused;\n", None),
    ],
)
def test_cache_switched_on_elsewhere(boot: str, severity: Severity | None, tmp_path: Path) -> None:
    found = build(tmp_path, DIRTY, ("main.c", ENABLE, ""), boot__c=boot)
    assert found.get("K07-input-not-cleaned") is severity


def test_cache_switched_on_under_a_condition(tmp_path: Path) -> None:
    guarded = f"#if WITH_CACHE\n{ENABLE}#endif\n"
    found = build(tmp_path, DIRTY, ("main.c", ENABLE, guarded), o__h="#define WITH_CACHE 0\n")
    assert "K07-input-not-cleaned" not in found
    found = build(tmp_path, DIRTY, ("main.c", ENABLE, guarded), o__h="#define WITH_CACHE 1\n")
    assert found["K07-input-not-cleaned"] is Severity.ERROR


@pytest.mark.parametrize(
    ("region", "severity"),
    [
        (("0x34200000", "0x343FFFFF", "MPU_NOT_CACHEABLE"), Severity.WARNING),
        (("0x24200000 + 0", "0x243FFFFF", "MPU_NOT_CACHEABLE"), Severity.WARNING),
        (("(uint32_t)&start", "(uint32_t)&end", "MPU_NOT_CACHEABLE"), Severity.WARNING),
        (("0x90000000", "0x90000000 + (8U * 1024U) - 1U", "MPU_NOT_CACHEABLE"), Severity.ERROR),
        (("0x34200000", "0x343FFFFF", "MPU_WRITE_BACK"), Severity.ERROR),
    ],
)
def test_memory_without_cache(
    region: tuple[str, str, str], severity: Severity, tmp_path: Path
) -> None:
    found = build(tmp_path, DIRTY, ("main.c", "int main(void)\n{\n", MPU % region))
    assert found["K07-input-not-cleaned"] is severity


def test_an_input_that_the_cpu_reads(tmp_path: Path) -> None:
    found = build(
        tmp_path, DIRTY, ("network.c", "EpochBlock_Flags_pure_hw", "EpochBlock_Flags_pure_sw")
    )
    assert "K07-input-not-cleaned" not in found


FLOAT = (
    "network.c",
    ".type = DataType_INT8,\n      .nbits = 8,\n      .shape = buff_info__shape_1_48_64_3",
    ".type = DataType_FLOAT,\n      .nbits = 32,\n      .shape = buff_info__shape_1_48_64_3",
)
CAMERA = (
    "main.c",
    "    capture(camera);\n    memcpy(input, camera, input_bytes);\n" + CLEAN,
    "    CameraPipeline_NNPipe_Start(input, CMW_MODE_SNAPSHOT);\n    wait_frame();\n",
)


def test_bytes_into_a_float_input(tmp_path: Path) -> None:
    assert build(tmp_path, FLOAT, CAMERA)["K18-bytes-into-float"] is Severity.ERROR
    grow = (
        "extern void *input;\nvoid grow(void) {\n  unsigned char *from = (unsigned char *)input;\n"
        "  float *to = (float *)input;\n  for (int i = 9215; i >= 0; i--) {\n"
        "    to[i] = from[i] / 255.0f;\n  }\n}\n"
    )
    assert "K18-bytes-into-float" not in build(tmp_path, FLOAT, CAMERA, grow__c=grow)


SCRIPT = (
    "MEMORY\n{\n  RAM (xrw) : ORIGIN = 0x24000000, LENGTH = 0x20000\n"
    "  FLASH (xrw) : ORIGIN = 0x08000000, LENGTH = 0x10000\n}\n"
    "SECTIONS { .text : { *(.text*) } > FLASH }\n"
)


@pytest.mark.parametrize("name", ["stm32h7r3xx_flash.ld", "app.ld"])
def test_a_script_of_another_chip(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    found = {f.id for f in diagnose(collect([tmp_path])).findings}
    assert ("K02-no-memory" in found) == (name == "app.ld")


PAGE = "export function Page() {\n" + "".join(
    f"  <p className='text-sm output'>{word} 0</p>\n  const status = output[0];\n"
    for word in ("boot", "clock", "npu init", "network init", "class", "result", "output")
)
HEADER = "".join(
    f"//   <o>{word} class <0=>Off <1=>Errors <2=>All\n#define {word}_OUTPUT 1\n"
    for word in ("core", "driver", "npu", "boot", "clock", "error", "output")
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.tsx", PAGE),
        ("debug.h.base@8.0.0", HEADER),
        ("debug_log.h.1", HEADER),
        ("a.txt", PAGE),
    ],
)
def test_programs_are_no_logs(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert not [f for f in diagnose(collect([tmp_path])).findings if "log" in f.id]


def test_one_mismatch_is_said_once(tmp_path: Path) -> None:
    version = "".join(
        f"#define LL_ATON_VERSION_{part} ({number})\n"
        for part, number in (("MAJOR", 1), ("MINOR", 1), ("MICRO", 0), ("DEV", 31))
    )
    report = "ST Edge AI Core v2.1.0\n\nCompiler version: 1.1.1-14\n"
    found = build(tmp_path, ll_aton_version__h=version, network_generate_report__txt=report)
    assert found["K14-guard"] is Severity.ERROR
    assert "VER-pair" not in found


def test_a_list_of_addresses_on_the_stack(tmp_path: Path) -> None:
    bind = (
        '#include "stai.h"\nstatic uint8_t frame[9216];\nstatic stai_network *net;\n'
        "static void bind(void) {\n  %s list[%s];\n  %s\n"
        "  stai_network_set_inputs(net, list, 1);\n}\n"
        "int main(void) {\n  stai_runtime_init();\n  bind();\n"
        "  stai_network_run(net, STAI_MODE_SYNC);\n}\n"
    )
    (tmp_path / "main.c").write_text(bind % ("stai_ptr", "1", "list[0] = frame;"))
    assert not [f for f in diagnose(collect([tmp_path])).findings if f.id == "K09-stack-buffer"]
    (tmp_path / "main.c").write_text(bind % ("uint8_t", "9216", "list[0] = frame[0];"))
    assert [f for f in diagnose(collect([tmp_path])).findings if f.id == "K09-stack-buffer"]


THREADS = """
static void thread(unsigned long nothing)
{
  SCB_CleanDCache_by_Addr(input, 64);
  LL_ATON_RT_Main(&NN_Instance_Default);
}

void tx_application_define(void *memory)
{
  tx_thread_create(&worker, "nn", thread, 0, stack, 4096, 1, 1, 0, 1);
}

int main(void)
{
  SCB_EnableDCache();
  tx_kernel_enter();
}
"""


def test_threadx_starts_its_application(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(f'#include "ll_aton_runtime.h"\n{THREADS}')
    found = {f.id: f for f in diagnose(collect([tmp_path])).findings}
    assert found["K03-npu-clock"].evidence[0].line == 6


@pytest.mark.parametrize(
    "address",
    ["LL_Buffer_addr_start(LL_ATON_Input_Buffers_Info_Default())", "LL_Buffer_addr_start(&in[0])"],
)
def test_addresses_in_arguments(address: str, tmp_path: Path) -> None:
    write = f"    memset((void *){address}, 0, 64);\n    infer();\n"
    info = (
        "  const LL_Buffer_InfoTypeDef *in = LL_ATON_Input_Buffers_Info_Default();\n  while (1) {"
    )
    found = build(tmp_path, ("main.c", "    infer();\n", write), ("main.c", "  while (1) {", info))
    assert found["K07-input-not-cleaned"] is Severity.ERROR


def test_a_start_value_is_no_look_at_the_end(tmp_path: Path) -> None:
    once = (
        '#include "ll_aton_runtime.h"\nvoid run(void) {\n'
        "  LL_ATON_RT_RetValues_t state = LL_ATON_RT_DONE;\n"
        "  state = LL_ATON_RT_RunEpochBlock(&net);\n"
    )
    (tmp_path / "a.c").write_text(once + "}\n")
    assert "K11-single-epoch" in {f.id for f in diagnose(collect([tmp_path])).findings}
    (tmp_path / "a.c").write_text(once + "  if (state == LL_ATON_RT_DONE) { ready = 1; }\n}\n")
    assert "K11-single-epoch" not in {f.id for f in diagnose(collect([tmp_path])).findings}


def test_comments_are_no_code(tmp_path: Path) -> None:
    power = (
        "main.c",
        "  ramcfg.Instance = RAMCFG_SRAM5_AXI;\n",
        "  /* RAMCFG_SRAM5_AXI later */\n",
    )
    assert "K03-bank-power" in build(tmp_path, power)


@pytest.mark.parametrize(
    ("device", "wrong"), [("STM32N6XX", True), ("SR6P3E", False), ("STM32H7xx", False)]
)
def test_ports_of_the_cache_functions(device: str, wrong: bool, tmp_path: Path) -> None:
    folder = tmp_path / "Middlewares/ST/AI/Npu/Devices" / device
    folder.mkdir(parents=True)
    port = "int mcu_cache_clean_range(uint32_t a, uint32_t b) { (void)a; (void)b; return 0; }\n"
    (folder / "mcu_cache.c").write_text(port)
    assert ("K08-no-effect" in build(tmp_path)) == wrong


def test_an_end_after_a_size_in_brackets(tmp_path: Path) -> None:
    call = "SCB_CleanDCache_by_Addr(camera, (uint32_t)camera + sizeof(camera));\n    infer();\n"
    assert "K08-end-for-size" in build(tmp_path, ("main.c", "    infer();\n", call))
    good = "SCB_CleanDCache_by_Addr(camera, sizeof(camera) + 32);\n    infer();\n"
    assert "K08-end-for-size" not in build(tmp_path, ("main.c", "    infer();\n", good))


@pytest.mark.parametrize("tool", ["STM32_SigningTool_CLI", "${SIGNING_TOOL}", "$(SIGNER_CLI)"])
def test_signing_by_a_variable(tool: str, tmp_path: Path) -> None:
    (tmp_path / "sign.cmake").write_text(
        f"COMMAND {tool} -bin a.bin -nk -t fsbl -o b.bin -hv 2.3\n"
    )
    assert "K15-no-align" in {f.id for f in diagnose(collect([tmp_path])).findings}

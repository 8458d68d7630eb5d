"""What must hold before a finding is an error: causes of wrong errors met in public projects."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.doctor.case_files import BASE

from npuforge.doctor import RULES, collect, diagnose
from npuforge.doctor.builds import built
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.premises import LOG_NEEDS, NEEDS, PROVERS
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
    assert build(tmp_path, FLOAT, CAMERA)["K18-bytes-into-float"] is Severity.WARNING
    camera = (
        "void CameraPipeline_NNPipe_Start(void *to, int mode) {\n"
        "  HAL_DCMIPP_PIPE_Start(&hdcmipp, 2, (uint32_t)to, mode);\n}\n"
        "void wait_frame(void) { while (!HAL_DCMIPP_GetState(&hdcmipp)) { } }\n"
    )
    seen = build(tmp_path, FLOAT, CAMERA, camera__c=camera)
    assert seen["K18-bytes-into-float"] is Severity.ERROR
    grow = (
        "extern void *input;\nvoid grow(void) {\n  unsigned char *from = (unsigned char *)input;\n"
        "  float *to = (float *)input;\n  for (int i = 9215; i >= 0; i--) {\n"
        "    to[i] = from[i] / 255.0f;\n  }\n}\n"
    )
    assert "K18-bytes-into-float" not in build(tmp_path, FLOAT, CAMERA, grow__c=grow)


def assumed(folder: Path, rule: str) -> set[str]:
    """Premises of a finding that the files do not show."""
    (finding,) = (f for f in diagnose(collect([folder])).findings if f.id == rule)
    return {premise.name for premise in finding.assumed}


def test_every_error_names_its_premises() -> None:
    logs = set(LOG_RULES)
    errors = {rule.id for rule in RULES.values() if rule.severity is Severity.ERROR}
    assert errors - logs == set(NEEDS)
    for needs in (*NEEDS.values(), LOG_NEEDS):
        assert set(needs) <= set(PROVERS)


def test_each_premise_of_an_error_has_a_place(tmp_path: Path) -> None:
    build(tmp_path, STALE)
    (finding,) = (f for f in diagnose(collect([tmp_path])).findings if f.id == "K07-output-stale")
    names = {premise.name for premise in finding.premises}
    assert {"cache", "npu", "hardware", "compiled", "program", "chip", "network", "whole"} <= names
    for premise in finding.premises:
        assert premise.seen is not None
        assert (tmp_path / premise.seen.file).is_file()


@pytest.mark.parametrize(
    ("premise", "edits", "more"),
    [
        ("whole", [("main.c", "    infer();\n", "    infer();\n    tidy_up(output);\n")], {}),
        ("program", [], {"other__c": "int main(void) { SCB_EnableDCache(); }\n"}),
        ("chip", [], {"stm32h7xx_hal_conf__h": "#define HAL_MODULE_ENABLED\n"}),
        (
            "compiled",
            [("main.c", "    show_result(", "#if WITH_RESULT\n    show_result("),
             ("main.c", "output_bytes);\n  }\n}", "output_bytes);\n#endif\n  }\n}")],
            {"o__h": "#if FANCY\n#define WITH_RESULT 1\n#else\n#define WITH_RESULT 0\n#endif\n"},
        ),
    ],
)  # fmt: skip
def test_an_assumed_premise_makes_a_warning(
    premise: str, edits: list[tuple[str, str, str]], more: dict[str, str], tmp_path: Path
) -> None:
    shown = build(tmp_path, STALE, *edits, **more)
    assert shown["K07-output-stale"] is Severity.WARNING
    assert premise in assumed(tmp_path, "K07-output-stale")


def test_a_network_without_its_epochs(tmp_path: Path) -> None:
    build(tmp_path, STALE)
    network = tmp_path / "network.c"
    network.write_text(network.read_text().replace("EpochBlock_Flags_", "Flags_"))
    assert assumed_severity(tmp_path, "K07-output-stale") is Severity.WARNING
    assert assumed(tmp_path, "K07-output-stale") == {"hardware"}


def test_a_hidden_function_that_the_vendor_defines_is_none(tmp_path: Path) -> None:
    edit = ("main.c", "    infer();\n", "    infer();\n    tidy_up();\n")
    assert build(tmp_path, STALE, edit)["K07-output-stale"] is Severity.WARNING
    (tmp_path / "Middlewares" / "ST").mkdir(parents=True)
    (tmp_path / "Middlewares" / "ST" / "tidy.c").write_text("void tidy_up(void)\n{\n}\n")
    assert assumed_severity(tmp_path, "K07-output-stale") is Severity.ERROR


def assumed_severity(folder: Path, rule: str) -> Severity:
    (finding,) = (f for f in diagnose(collect([folder])).findings if f.id == rule)
    return finding.severity


LIST = "int helper(void) { return 0; }\n"


@pytest.mark.parametrize(
    ("build_file", "text", "source", "taken"),
    [
        ("Makefile", "SRCS = main.c Src/helper.c\n", "Src/helper.c", True),
        ("Makefile", "SRCS = Src/helper.c\n", "Old/helper.c", False),
        ("Makefile", "# SRCS = Src/helper.c\n", "Src/helper.c", False),
        ("Makefile", "ifeq ($(X),1)\nSRCS = Src/helper.c\nendif\n", "Src/helper.c", False),
        ("Makefile", "SRCS = $(wildcard Src/*.c)\n", "Src/helper.c", True),
        ("Makefile", "SRCS = $(wildcard Src/*.c)\n", "Src/deep/helper.c", False),
        ("Makefile", "%.o: %.c\n\tgcc -c $<\n", "helper.c", False),
        ("Makefile", "D = Src\nSRCS = $(wildcard $(D)/*.c)\n", "Src/helper.c", True),
        ("CMakeLists.txt", "file(GLOB_RECURSE S app/*.c)\n", "app/deep/helper.c", True),
        ("CMakeLists.txt", "add_executable(a ${CMAKE_SOURCE_DIR}/app/helper.c)\n", "app/helper.c",
         True),
        ("a.uvprojx", "<FilePath>..\\Src\\helper.c</FilePath>", "Src/helper.c", True),
        (".cproject", '<entry excluding="Old|a.c" kind="sourcePath" name="Src"/>', "Src/helper.c",
         True),
        (".cproject", '<entry excluding="Old|a.c" kind="sourcePath" name="Src"/>',
         "Src/Old/helper.c", False),
        ("app.map", "Linker script and memory map\n .text 0 Src/helper.o\n", "Src/helper.c", True),
    ],
)  # fmt: skip
def test_which_build_takes_a_source(
    build_file: str, text: str, source: str, taken: bool, tmp_path: Path
) -> None:
    path = tmp_path / source
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LIST)
    (tmp_path / build_file).write_text(text)
    project = collect([tmp_path])
    (item,) = (item for item in project.artefacts if item.name == source)
    assert (built(project, item) is not None) is taken


def test_linked_sources_of_an_ide(tmp_path: Path) -> None:
    for name in ("Core/Src/helper.c", "Core/Src/left_out.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(LIST)
    ide = tmp_path / "STM32CubeIDE" / "Appli"
    ide.mkdir(parents=True)
    link = "<link><name>App/{0}</name><type>1</type><locationURI>PARENT-2-PROJECT_LOC/Core/Src/{0}"
    (ide / ".project").write_text(
        "".join(link.format(n) + "</locationURI></link>" for n in ("helper.c", "left_out.c"))
    )
    (ide / ".cproject").write_text(
        '<entry excluding="left_out.c" kind="sourcePath" name="App"/><entry kind="sourcePath" '
        'name="Drivers"/>'
    )
    project = collect([tmp_path])
    found = {i.path.name: built(project, i) for i in project.artefacts if i.path.suffix == ".c"}
    assert found["helper.c"] is not None
    assert found["left_out.c"] is None


@pytest.mark.parametrize(
    ("name", "severity"),
    [("run.log", Severity.ERROR), ("docs/run.log", Severity.WARNING)],
)
def test_a_log_that_is_shown_to_somebody(name: str, severity: Severity, tmp_path: Path) -> None:
    log = (
        "boot\nepoch 3\nHardFault\nCFSR=0x00008200\nHFSR=0x40000000\nBFAR=0x70380000\n"
        "PC=0x34001230\n"
    )
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(log)
    found = diagnose(collect([tmp_path])).findings
    errors = [f for f in found if f.rule.severity is Severity.ERROR]
    assert errors
    assert {f.severity for f in errors} == {severity}
    given = [f for f in diagnose(collect([path])).findings if f.rule.severity is Severity.ERROR]
    assert {f.severity for f in given} == {Severity.ERROR}, "the user says that it is one"


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


H7_STARTUP = "Reset_Handler:\n  bl SystemInit\n"
RUN_ANYWHERE = """
#include "main.h"
int main(void)
{
  stai_network_run(network, STAI_MODE_SYNC);
}
"""


def test_a_network_on_a_chip_without_an_npu(tmp_path: Path) -> None:
    """The stai interface is the same on every chip; only one of these has an NPU to clock."""
    for chip, expected in (("n6", True), ("u3", False), ("h7", False)):
        folder = tmp_path / chip
        folder.mkdir()
        (folder / "main.c").write_text(RUN_ANYWHERE, encoding="utf-8")
        (folder / f"stm32{chip}xx_it.c").write_text("void SysTick_Handler(void) {}\n", "utf-8")
        found = {item.id for item in diagnose(collect([folder])).findings}
        assert ("K03-npu-clock" in found) is expected, chip


def test_linker_script_of_the_chip_that_the_project_is_for(tmp_path: Path) -> None:
    """Middleware for every chip names the STM32N6; the start-up says which one it is."""
    middleware = "#if defined(STM32N6)\n#include <stdio.h>\n#endif\n"
    script = "MEMORY\n{\n  FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 128K\n}\n"
    for name, expected in (("startup_stm32h750xx.s", False), ("startup_stm32n657xx.s", True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(H7_STARTUP, encoding="utf-8")
        (folder / "adaptor.c").write_text(middleware, encoding="utf-8")
        (folder / "app_flash.ld").write_text(script, encoding="utf-8")
        found = {item.id for item in diagnose(collect([folder])).findings}
        assert ("K02-other-family" in found) is expected, name


def test_a_stack_in_a_bank_that_the_start_up_switches_on(tmp_path: Path) -> None:
    """Assembler before the first push may do what main would do too late."""
    script = (
        "MEMORY\n{\n  RAM (xrw) : ORIGIN = 0x34080000, LENGTH = 3328K\n}\n"
        "_estack = ORIGIN(RAM) + LENGTH(RAM);\n"
    )
    switched = "  ldr r0, =0x52023100\n  ldr r2, [r0]\n  bic r2, r2, #0x00100000\n  str r2, [r0]\n"
    for name, code, expected in (
        ("plain", "", True),
        ("comment", "/* RAMCFG is set up in main */\n", True),
        ("switched", switched, False),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "app.ld").write_text(script, encoding="utf-8")
        start = f"Reset_Handler:\n{code}  bl SystemInit\n"
        (folder / "startup_stm32n657xx.s").write_text(start, encoding="utf-8")
        found = {item.id for item in diagnose(collect([folder])).findings}
        assert ("K02-off-at-reset" in found) is expected, name


def test_warnings_about_code_that_is_left_out(tmp_path: Path) -> None:
    text = (
        "#include <stdio.h>\n{define}void log_time(float us)\n{{\n#ifdef MEASURE\n"
        '  printf("%.3f us", us); /* LL_ATON */\n#endif\n}}\n'
    )
    for name, define, expected in (("off", "", False), ("on", "#define MEASURE\n", True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "log.c").write_text(text.format(define=define), encoding="utf-8")
        (folder / "Makefile").write_text("LDFLAGS = -specs=nano.specs\n", encoding="utf-8")
        found = {item.id for item in diagnose(collect([folder])).findings}
        assert ("K26-float-print" in found) is expected, name


OPEN = """
static void open_filter(RISAF_TypeDef *filter)
{
  RISAF_BaseRegionConfig_t region = {0};
  region.StartAddress = 0x0;
  region.EndAddress = 0xFFFFF;
  region.ReadWhitelist = %s;
  region.WriteWhitelist = RIF_CID_MASK;
  HAL_RIF_RISAF_ConfigBaseRegion(filter, 0, &region);
}

int main(void)
{
  open_filter(RISAF2_S);
"""


@pytest.mark.parametrize(("readers", "expected"), [("RIF_CID_MASK", False), ("RIF_CID_2", True)])
def test_a_filter_opened_for_everybody(tmp_path: Path, readers: str, expected: bool) -> None:
    found = build(tmp_path, ("main.c", "int main(void)\n{\n", OPEN % readers))
    assert ("K05-own-ram" in found) is expected


def test_the_tick_of_the_hal_may_be_the_kernels(tmp_path: Path) -> None:
    text = (
        '#include "main.h"\n{tick}int main(void)\n{{\n  HAL_Init();\n  network_start();\n'
        "  vTaskStartScheduler();\n}}\n"
    )
    tick = "uint32_t HAL_GetTick()\n{\n  return xTaskGetTickCount();\n}\n"
    for name, body, expected in (("none", "", True), ("own", tick, False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "main.c").write_text(text.format(tick=body), encoding="utf-8")
        found = {item.id for item in diagnose(collect([folder])).findings}
        assert ("K28-hal-tick" in found) is expected, name


def test_packets_have_sizes_too(tmp_path: Path) -> None:
    text = (
        "#define RX_PACKET_SIZE 512\nvoid received(uint8_t *buffer, uint32_t buffer_size)\n{{\n"
        "  if (buffer_size == RX_PACKET_SIZE) {{\n    packet.{what};\n  }}\n  LL_ATON_LIB();\n}}\n"
    )
    for what, expected in (("size = buffer_size", False), ("boxes = buffer[0]", True)):
        folder = tmp_path / what.split()[0]
        folder.mkdir()
        (folder / "com.c").write_text(text.format(what=what), encoding="utf-8")
        found = {item.id for item in diagnose(collect([folder])).findings}
        assert ("K17-by-order" in found) is expected, what


def test_blocks_with_a_blob_hold_many_epochs(tmp_path: Path) -> None:
    """Two of three blocks on the CPU are two of seventy epochs when the blob holds the rest."""
    block = (
        "    {{\n      .start_epoch_block = NULL,\n"
        "      .flags = EpochBlock_Flags_epoch_start | {flag},\n"
        "{number}    }},\n"
    )

    def network(numbers: tuple[int, ...]) -> str:
        flags = ("EpochBlock_Flags_blob | EpochBlock_Flags_pure_hw",) + (
            "EpochBlock_Flags_pure_sw",
        ) * 2
        blocks = "".join(
            block.format(flag=flag, number=f"      .last_epoch_num = {n},\n" if n else "")
            for flag, n in zip(flags, numbers, strict=True)
        )
        return (
            '#include "ll_aton_NN_interface.h"\n'
            "static const EpochBlock_ItemTypeDef ll_atonn_rt_epoch_block_array[] = {\n"
            f"{blocks}}};\n"
        )

    for name, numbers, severity in (
        ("numbers", (68, 69, 70), Severity.INFO),
        ("few", (1, 2, 3), Severity.WARNING),
        ("unknown", (0, 0, 0), Severity.INFO),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "network.c").write_text(network(numbers), encoding="utf-8")
        found = [f for f in diagnose(collect([folder])).findings if f.id == "K19-software-epochs"]
        assert [f.severity for f in found] == [severity], name


def test_the_same_note_of_several_places_is_one(tmp_path: Path) -> None:
    fuse = "void program(void)\n{\n  HAL_BSEC_OTP_Program(&handle, 124, value, 0);\n}\n"
    for board in ("one", "two", "three"):
        (tmp_path / board).mkdir()
        (tmp_path / board / "fuses.c").write_text(fuse, encoding="utf-8")
    found = [f for f in diagnose(collect([tmp_path])).findings if f.id == "K25-otp-write"]
    assert [sorted(place.file for place in item.evidence) for item in found] == [
        ["one/fuses.c", "three/fuses.c", "two/fuses.c"]
    ]


STAI = """
int main(void)
{
  SCB_EnableDCache();
  stai_runtime_init();
  stai_%(name)s_init(context);
  stai_%(name)s_get_inputs(context, data_in, &count);
  int8_t *input = (int8_t *)data_in[0];
  for (int i = 0; i < 9216; i++) {
    input[i] = samples[i];
  }
  stai_%(name)s_run(context, STAI_MODE_SYNC);
}
"""


@pytest.mark.parametrize(
    ("name", "severity"), [("Default", Severity.ERROR), ("fall", Severity.WARNING)]
)
def test_a_network_that_may_be_one_for_the_cpu(
    tmp_path: Path, name: str, severity: Severity
) -> None:
    """Cache order matters for the NPU; only the generated file says that a network is for it."""
    base = BASE / "network.c"
    (tmp_path / "network.c").write_text(base.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "stm32n6xx_it.c").write_text("void SysTick_Handler(void) {}\n", encoding="utf-8")
    (tmp_path / "main.c").write_text(STAI % {"name": name}, encoding="utf-8")
    found = {item.id: item.severity for item in diagnose(collect([tmp_path])).findings}
    assert found["K07-input-not-cleaned"] is severity


def test_what_nothing_calls_is_not_done(tmp_path: Path) -> None:
    """A function that maps the flash is no help when nobody names it; a table of functions does."""
    unused = ("main.c", "  flash_init();\n", "")
    assert "K04-flash-unmapped" not in build(tmp_path)
    assert "K04-flash-unmapped" in build(tmp_path, unused)
    table = "static void (*const steps[])(void) = {flash_init};\n\nint main(void)\n{\n"
    found = build(tmp_path, unused, ("main.c", "int main(void)\n{\n", table))
    assert "K04-flash-unmapped" not in found


CLOCKS = """
#include "stm32n6xx_hal.h"
void SystemClock_Config(void)
{
  osc.PLL1.PLLM = 4;
  osc.PLL1.PLLN = %s;
  osc.PLL1.PLLP1 = 1;
  osc.PLL1.PLLP2 = 1;
  clk.IC1Selection.ClockSelection = %s;
  clk.IC1Selection.ClockDivider = %s;
}

int main(void)
{
  SystemClock_Config();
}
"""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("75", "RCC_ICCLKSOURCE_PLL1", "2"), False),
        (("75", "RCC_ICCLKSOURCE_PLL2", "1"), False),
        (("50", "RCC_ICCLKSOURCE_PLL1", "1"), True),
    ],
)
def test_the_clock_of_the_cpu_is_the_divided_one(
    tmp_path: Path, values: tuple[str, str, str], expected: bool
) -> None:
    """600 MHz is 1200 MHz by two; 800 MHz needs the voltage of overdrive."""
    (tmp_path / "main.c").write_text(CLOCKS % values, encoding="utf-8")
    found = {item.id for item in diagnose(collect([tmp_path])).findings}
    assert ("K27-smps" in found) is expected


def test_a_command_in_a_comment_is_none(tmp_path: Path) -> None:
    sign = "STM32_SigningTool_CLI -bin app.bin -nk -t ssbl -hv 2.3%s -o signed.bin\n"
    (tmp_path / "flash.sh").write_text("# " + sign % "" + sign % " -align", encoding="utf-8")
    (tmp_path / "flash.bat").write_text("REM " + sign % "" + sign % " -align", encoding="utf-8")
    found = {item.id for item in diagnose(collect([tmp_path])).findings}
    assert "K15-no-align" not in found
    (tmp_path / "flash.sh").write_text(sign % "", encoding="utf-8")
    found = {item.id for item in diagnose(collect([tmp_path])).findings}
    assert "K15-no-align" in found


@pytest.mark.parametrize(("mark", "expected"), [("# ", False), ("", True)])
def test_an_address_in_a_comment_flashes_nothing(tmp_path: Path, mark: str, expected: bool) -> None:
    """An image at an address without flash is an error only where a command writes it."""
    line = f"\t{mark}STM32_Programmer_CLI -c port=SWD -w app_signed.bin 0x07000000\n"
    old = "\tSTM32_Programmer_CLI -c port=SWD -w app_signed.bin 0x70100000\n"
    found = build(tmp_path, ("Makefile", old, old + line))
    assert bool({"K15-slot", "K15-flash-address"} & set(found)) is expected, found

"""The Zephyr module of a project: Zephyr's Kconfig and devicetree libraries, and stand-ins."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.builders import single, tensor
from tests.static import STYLE, clang_tidy, cppcheck, documented_rules, misra_rules
from tests.tools import (
    needs_clang_tidy,
    needs_cmake,
    needs_compiler,
    needs_cppcheck,
    needs_gcc,
)

from npuforge import api
from npuforge.artefacts.elf import read_elf
from npuforge.exporters import Format, convert
from npuforge.firmware.stm32n6 import board_layout
from npuforge.firmware.zephyr import PROGRAM, zephyr_memories
from npuforge.targets import load_target

HERE = Path(__file__).parent / "zephyr"
BOARDS = ["stm32n6570-dk", "nucleo-n657x0-q"]

SOC = """/dts-v1/;
/ {{
    #address-cells = <1>;
    #size-cells = <1>;
    chosen {{ zephyr,sram = &axisram2; }};
    axisram2: memory@34180400 {{
        compatible = "zephyr,memory-region";
        reg = <0x34180400 0x7fc00>;
        zephyr,memory-region = "RAM";
    }};
    {banks}
}};
{overlay}
"""
REGION = """description: A memory that becomes a linker region.
compatible: "zephyr,memory-region"
properties:
  reg:
    type: array
    required: true
  status:
    type: string
  zephyr,memory-region:
    type: string
    required: true
"""
DEVICETREE = """#define DT_CAT_(a, b) a##b
#define DT_CAT(a, b) DT_CAT_(a, b)
#define DT_INST(n, compat) N##n##_##compat
#define DT_CHOSEN(name) N##name
#define DT_NODE_EXISTS(node) 1
#define DT_PROP_BY_IDX_(node, prop, i) node##_##prop##_##i
#define DT_PROP_BY_IDX(node, prop, i) DT_PROP_BY_IDX_(node, prop, i)
#define DT_PHANDLE_BY_IDX(node, prop, i) DT_PROP_BY_IDX_(node, prop, i)
#define DT_REG_ADDR(node) DT_CAT(node, _ADDR)
#define DT_REG_SIZE(node) DT_CAT(node, _SIZE)
#define DT_NODE_FULL_NAME(node) DT_CAT(node, _NAME)
"""
MAIN = """mainmenu "test"
config CPU_HAS_FPU
    def_bool y
config CPU_HAS_DCACHE
    def_bool y
config FPU
    bool
config CACHE_MANAGEMENT
    bool
config THREAD_STACK_INFO
    bool
config PRINTK
    bool "print"
source "{kconfig}"
"""


def deployed(board: str, model: Path, out: Path) -> Path:
    """Firmware folder of a deployment."""
    api.deploy_model(model, board, out, emulate="off", random_samples=1)
    return out / "firmware"


@pytest.fixture(scope="module")
def kit(example: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the discovery kit."""
    out = tmp_path_factory.mktemp("zephyr") / "bundle"
    return deployed(BOARDS[0], example("visual_wake_words"), out)


@pytest.fixture(scope="module", params=BOARDS)
def project(
    request: pytest.FixtureRequest,
    kit: Path,
    example: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The project of each board."""
    if request.param == BOARDS[0]:
        return kit
    out = tmp_path_factory.mktemp("zephyr") / "bundle"
    return deployed(request.param, example("visual_wake_words"), out)


def configured(project: Path, folder: Path, lines: str = "") -> dict[str, str]:
    """The module's Kconfig with the sample's prj.conf, by Zephyr's library: values by name."""
    kconfiglib = pytest.importorskip("kconfiglib")
    folder.mkdir(exist_ok=True)
    main = folder / "Kconfig"
    main.write_text(MAIN.format(kconfig=project / "zephyr" / "Kconfig"))
    read = kconfiglib.Kconfig(str(main), warn_to_stderr=False)
    read.warn_assign_override = False
    extra = folder / "extra.conf"
    extra.write_text(lines)
    own = "\n".join(
        line
        for line in (project / "zephyr" / "app" / "prj.conf").read_text().splitlines()
        if "MAIN_STACK" not in line  # Zephyr's own option
    )
    (folder / "prj.conf").write_text(own)
    read.load_config(str(folder / "prj.conf"))
    read.load_config(str(extra), replace=False)
    assert not read.warnings
    return {s.name: s.str_value for s in read.unique_defined_syms if s.str_value not in ("n", "")}


def devicetree(project: Path, folder: Path) -> Any:
    """Zephyr's devicetree library on the module's overlay and binding."""
    edtlib: ModuleType = pytest.importorskip("devicetree.edtlib")
    folder.mkdir(exist_ok=True)
    bindings = folder / "bindings"
    bindings.mkdir(exist_ok=True)
    (bindings / "region.yaml").write_text(REGION)
    target = load_target(BOARDS[0])
    banks = [
        (f"axisram{n}", f"AXISRAM{n}", target.pool(f"npuRAM{n}").base, 0x70000) for n in range(3, 7)
    ]
    nodes = "\n".join(
        f'{label}: memory@{base:x} {{ compatible = "zephyr,memory-region"; '
        f'reg = <{base:#x} {size:#x}>; zephyr,memory-region = "{name}"; status = "disabled"; }};'
        for label, name, base, size in banks
    )
    overlay = (project / "zephyr" / "app" / "app.overlay").read_text()
    path = folder / "board.dts"
    path.write_text(SOC.format(banks=nodes, overlay=overlay))
    own = project / "zephyr" / "dts" / "bindings"
    return edtlib.EDT(str(path), [str(bindings), str(own)], warn_reg_unit_address_mismatch=False)


def generated(tree: Any, config: dict[str, str], folder: Path, *, host: bool = False) -> None:
    """What Zephyr's build would make of options and devicetree, as far as the module reads it."""
    lines = [f"#define CONFIG_{k} {1 if v == 'y' else v}" for k, v in config.items()]
    (folder / "autoconf.h").write_text("\n".join(lines) + "\n")
    lines = [f"set(CONFIG_{k} {v})" for k, v in config.items()]
    (folder / "config.cmake").write_text("\n".join(lines) + "\n")
    node = tree.compat2okay["npuforge,memories"][0]
    memories = node.props["memories"].val
    sram = tree.chosen_node("zephyr,sram")
    flash = node.props["flash"].val
    me = "N0_npuforge_memories"
    uses = " ".join(f"fn({me}, memories, {i})" for i in range(len(memories)))
    out = [DEVICETREE, f"#define DT_FOREACH_PROP_ELEM(node, prop, fn) {uses}"]
    named = [(f"{me}_memories_{i}", m) for i, m in enumerate(memories)] + [("Nzephyr_sram", sram)]
    for token, item in named:
        address, size = item.regs[0].addr, item.regs[0].size
        if host:  # every address of a program on a PC is in the first memory
            address, size = 0, 1 << 62
        out += [f"#define {token}_ADDR {address}u{'ll' if host else ''}",
                f"#define {token}_SIZE {size}u{'ll' if host else ''}",
                f'#define {token}_NAME "{item.name}"']  # fmt: skip
    out += [f"#define {me}_flash_{i} {value:#x}u" for i, value in enumerate(flash)]
    (folder / "devicetree_generated.h").write_text("\n".join(out) + "\n")
    regions = [
        (n.props["zephyr,memory-region"].val, n.regs[0])
        for n in tree.compat2okay["zephyr,memory-region"]
    ]
    (folder / "memory.ld").write_text(
        "".join(
            f"    {name} (rwx) : ORIGIN = {r.addr:#x}, LENGTH = {r.size:#x}\n"
            for name, r in regions
        )
    )


def test_module_file(project: Path) -> None:
    text = (project / "zephyr" / "module.yml").read_text()
    yaml = pytest.importorskip("yaml")
    module = yaml.safe_load(text)
    assert re.fullmatch(r"[a-z0-9_]+", module["name"])
    assert set(module) <= {"name", "build", "samples", "tests", "boards"}
    build = module["build"]
    assert (project / build["cmake"] / "CMakeLists.txt").is_file()
    assert (project / build["kconfig"]).is_file()
    assert list((project / build["settings"]["dts_root"] / "dts" / "bindings").glob("*.yaml"))
    for sample in module["samples"]:
        assert (project / sample / "CMakeLists.txt").is_file()
        assert yaml.safe_load((project / sample / "sample.yaml").read_text())["tests"]


def test_options(project: Path, tmp_path: Path) -> None:
    values = configured(project, tmp_path / "a")
    assert values["NPUFORGE_WEIGHTS_IN_FLASH"] == "y"
    for name in ("FPU", "CACHE_MANAGEMENT", "THREAD_STACK_INFO", "NPUFORGE_LOG"):
        assert values[name] == "y"
    assert values["NPUFORGE_CACHE_LINE"] == "32"
    other = configured(project, tmp_path / "b", "CONFIG_NPUFORGE_WEIGHTS_IN_IMAGE=y\n")
    assert "NPUFORGE_WEIGHTS_IN_FLASH" not in other
    off = configured(project, tmp_path / "c", "CONFIG_NPUFORGE=n\n")
    assert not [name for name in off if name.startswith("NPUFORGE")]


def test_devicetree(project: Path, tmp_path: Path) -> None:
    tree = devicetree(project, tmp_path / "dt")
    node = tree.compat2okay["npuforge,memories"][0]
    memories = node.props["memories"].val
    assert memories
    for memory in memories:
        assert memory.status == "okay"
        assert "zephyr,memory-region" in memory.compats
        register = memory.regs[0]
        assert register.addr + register.size <= PROGRAM[0] or register.addr >= PROGRAM[1]


@needs_compiler
@needs_cmake
@pytest.mark.parametrize("weights", ["IN_FLASH", "IN_IMAGE"])
def test_builds_against_the_stand_in(kit: Path, tmp_path: Path, weights: str) -> None:
    project = kit
    config = configured(project, tmp_path, f"CONFIG_NPUFORGE_WEIGHTS_{weights}=y\n")
    tree = devicetree(project, tmp_path)
    generated(tree, config, tmp_path)
    built = build(project, tmp_path)
    image = read_elf((built / "zephyr.elf").read_bytes())
    sections = {section.name: section for section in image.sections}
    regions = {
        n.props["zephyr,memory-region"].val: n.regs[0]
        for n in tree.compat2okay["zephyr,memory-region"]
    }
    memory = regions["AXISRAM3"]
    for name in (".nf_visual_wake_words_region_0", ".nf_buffers"):
        place = sections[name]
        assert memory.addr <= place.address
        assert place.address + place.size <= memory.addr + memory.size
    assert sections[".nf_buffers"].size == int(config["NPUFORGE_BUFFER_BYTES"])
    symbol = image.symbols["nf_visual_wake_words_weights"].address
    raw = subprocess.run(
        ["arm-none-eabi-objcopy", "-O", "ihex", "zephyr.elf", "zephyr.hex"],
        cwd=built, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert raw.returncode == 0, raw.stderr
    loaded = (built / "zephyr.hex").read_text()
    if weights == "IN_FLASH":
        assert symbol == 0x71000000
        assert sections[".nf_answers"].address == regions["NF_FLASH"].addr
        assert ":020000047100" not in loaded, "weights are part of the image"
    else:
        assert PROGRAM[0] <= symbol < PROGRAM[1]
        assert symbol % 32 == 0


def build(project: Path, folder: Path) -> Path:
    """The sample, built with the stand-in for Zephyr."""
    out = folder / "build"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else ["-G", "Unix Makefiles"]
    for command in (
        ["cmake", "-S", str(project / "zephyr" / "app"), "-B", str(out), *generator,
         f"-DZephyr_DIR={HERE}", f"-DNF_STAND_IN={HERE}", f"-DNF_GENERATED={folder}",
         "-DCMAKE_C_FLAGS=-mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
         "-DCMAKE_ASM_FLAGS=-mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
         "-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_C_COMPILER=arm-none-eabi-gcc",
         "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"],
        ["cmake", "--build", str(out)],
    ):  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
        assert "warning" not in run.stdout
    return out


@needs_gcc
def test_runs_on_threads(kit: Path, tmp_path: Path) -> None:
    """Port and sample on a PC, the kernel's calls on POSIX threads: known answer, then frames."""
    config = configured(kit, tmp_path, "CONFIG_NPUFORGE_WEIGHTS_IN_IMAGE=y\n")
    generated(devicetree(kit, tmp_path), config, tmp_path, host=True)
    root, app = kit, kit / "zephyr" / "app"
    names = re.findall(r"\.\./\.\./(\S+\.c)", (app / "CMakeLists.txt").read_text())
    sources = [HERE / "kernel.c", root / "zephyr" / "port" / "port.c", app / "start.c"]
    sources += [root / name for name in names] + sorted((root / "runtime" / "src").glob("*.c"))
    sources += sorted((root / "network").glob("*.c")) + sorted((root / "network").glob("*.S"))
    folders = [HERE / "include", tmp_path, root / "runtime" / "include", root / "network",
               root / "zephyr" / "port", root / "app"]  # fmt: skip
    run = subprocess.run(
        ["gcc", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
         "-include", tmp_path / "autoconf.h", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", *(f"-I{folder}" for folder in folders), *sources, "-lm",
         "-lpthread", "-o", tmp_path / "sample"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    done = subprocess.run(
        [tmp_path / "sample"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("nf-stage self_test result=0") for line in lines), lines
    assert sum(line.startswith("largest output") for line in lines) >= 8
    assert "exit 0" in lines


@needs_cppcheck
@needs_clang_tidy
def test_static_checks(kit: Path, tmp_path: Path) -> None:
    """Port and start of the sample: both tools find nothing, MISRA rules are among the page's."""
    config = configured(kit, tmp_path, "CONFIG_NPUFORGE_WEIGHTS_IN_IMAGE=y\n")
    generated(devicetree(kit, tmp_path), config, tmp_path, host=True)
    sources = [str(kit / "zephyr" / "port" / "port.c"), str(kit / "zephyr" / "app" / "start.c")]
    options = tmp_path / "autoconf.h"
    folders = [f"-I{folder}" for folder in (
        HERE / "include", tmp_path, kit / "runtime" / "include", kit / "network",
        kit / "zephyr" / "port", kit / "app")]  # fmt: skip
    found = cppcheck(
        kit, "--error-exitcode=1", STYLE, "--suppress=unusedStructMember",
        f"--include={options}", *folders, *sources,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    found = clang_tidy(kit, sources, "-std=gnu11", "-include", str(options), *folders)
    assert found.returncode == 0, found.stdout
    assert misra_rules(kit, f"--include={options}", *folders, *sources) <= documented_rules()


def test_a_region_over_several_banks_is_one_memory(tmp_path: Path) -> None:
    """Its own node spans them, and Zephyr's nodes of all of them are switched on."""
    shape = (1, 128, 640, 4)  # 320 KiB each in banks of 448
    graph = single("relu", [tensor("x", shape)], [tensor("y", shape)])
    model = tmp_path / "joined.tflite"
    model.write_bytes(convert(graph, Format.TFLITE).content)
    planned, _ = api.analyze_model(model, BOARDS[0])
    (region,) = planned.plan.regions
    assert region.used > 448 * 1024
    tree = devicetree(deployed(BOARDS[0], model, tmp_path / "bundle"), tmp_path / "dt")
    (memory,) = tree.compat2okay["npuforge,memories"][0].props["memories"].val
    (register,) = memory.regs
    assert register.addr == region.base
    assert register.addr + register.size >= region.base + region.used
    banks = [
        other
        for other in tree.compat2okay["zephyr,memory-region"]
        if other is not memory and other.regs
        and other.regs[0].addr < register.addr + register.size
        and register.addr < other.regs[0].addr + other.regs[0].size
    ]  # fmt: skip
    assert sum(bank.regs[0].size for bank in banks) == register.size


def test_a_plan_in_the_way_of_zephyr_gets_no_module(tmp_path: Path) -> None:
    """cpuRAM2 from Zephyr's program on belongs to Zephyr."""
    shape = (1, 512, 512, 4)  # 1 MiB each, so that one of them reaches beyond the lower half
    graph = single("relu", [tensor("x", shape)], [tensor("y", shape)])
    (tmp_path / "large.tflite").write_bytes(convert(graph, Format.TFLITE).content)
    planned, board = api.analyze_model(tmp_path / "large.tflite", BOARDS[0])
    layout = board_layout([("net", planned.schedule)], board, "test")
    memories = zephyr_memories(layout)
    taken = [
        r for r in planned.plan.regions if r.base < PROGRAM[1] and r.base + r.used > PROGRAM[0]
    ]
    assert (memories is None) == bool(taken)

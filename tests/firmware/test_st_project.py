"""The project around a network of ST's compiler, against stand-ins of ST's code written here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.aton.networks import write_network
from tests.tools import needs_application_board, needs_cmake, needs_compiler

from npuforge import api
from npuforge.artefacts.elf import read_elf
from npuforge.artefacts.ihex import Segment
from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.execute import run_program
from npuforge.aton.load import load_compiled
from npuforge.boards import write_sources
from npuforge.boards.application import Application, ApplicationBoard
from npuforge.boards.application_network import BoardNetwork, compiled_network, planned_network
from npuforge.errors import PlanError, UsageError
from npuforge.firmware.st_project import st_network_source, st_project
from npuforge.targets import load_target

BOARDS = ["stm32n6570-dk", "nucleo-n657x0-q"]
HEADERS = Path(api.__file__).parent / "boards" / "virtual" / "application" / "include"

ATON = """
#include "ll_aton_runtime.h"
/* ST's runtime of the test: it links, it runs nothing */
void LL_ATON_RT_RuntimeInit(void) {}
void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *i) { (void)i; }
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *i) { (void)i; }
LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *i)
{
    return i ? LL_ATON_RT_DONE : LL_ATON_RT_WFE;
}
void LL_ATON_OSAL_WFE(void) {}
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info(const NN_Instance_TypeDef *i)
{
    return i->network->input_buffers_info();
}
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info(const NN_Instance_TypeDef *i)
{
    return i->network->output_buffers_info();
}
"""
NETWORK = """
#include "ll_aton_runtime.h"
struct npuforge_network { int unused; } npuforge_network_Default;
static const LL_Buffer_InfoTypeDef none[1];
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_Default(void) { return 0; }
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_Default(void) { return none; }
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_Default(void) { return none; }
const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_Default(void) { return none; }
"""
DRIVER = """
#include "nf_st.h"
#include <stdio.h>
#include <string.h>

static void maintain(uintptr_t address, uintptr_t bytes, int clean)
{
    if (clean)
        SCB_CleanDCache_by_Addr((void *)address, (int32_t)bytes);
    else
        SCB_InvalidateDCache_by_Addr((void *)address, (int32_t)bytes);
}
static void clean(uintptr_t a, uintptr_t n) { maintain(a, n, 1); }
static void invalidate(uintptr_t a, uintptr_t n) { maintain(a, n, 0); }
static void barrier(void) {}
static uint64_t now_us(void) { return HAL_GetTick(); }
static const nf_port board = {.cache_line = 32u, .clean = clean, .invalidate = invalidate,
                              .barrier = barrier, .now_us = now_us};
static const nf_pool pools[] = {
    {"all", 0x34000000u, 0x3d000000u, 0u, 0u,
     NF_REACH_CPU | NF_REACH_NPU | NF_REACH_DMA | NF_CACHEABLE | NF_WRITABLE}};
static nf_runtime runtime;
static nf_config config;

static int run(uint32_t n)
{
    const nf_network *network = nf_models[0].network;
    void *place;
    const void *result;
    if (nf_input_place(&runtime, 0u, 0u, &place) != NF_OK)
        return 1;
    for (uint32_t i = 0u; i < network->inputs[0].bytes; ++i)
        ((uint8_t *)place)[i] = (uint8_t)(i * 7u + n);
    if (nf_submit(&runtime, 0u) != NF_OK)
        return 4;
    if (nf_input_place(&runtime, 0u, 0u, &place) != NF_E_IN_FLIGHT)
        return 2;
    if (nf_wait(&runtime, 100000000u) != NF_OK || nf_output(&runtime, 0u, 0u, &result) != NF_OK)
        return 3;
    for (uint32_t i = 0u; i < network->outputs[0].bytes; ++i)
        printf("%02x", ((const uint8_t *)result)[i]);
    printf("\\n");
    return 0;
}

int main(void)
{
    nf_status status = nf_st_start(&board);
    config.port = &nf_st_port;
    config.pools = pools;
    config.pool_count = 1u;
    config.models = nf_models;
    config.model_count = nf_model_count;
    config.alignment = 32u;
    if (status == NF_OK)
        status = nf_init(&runtime, &config);
    printf("start %s\\n", nf_status_name(status));
    for (uint32_t n = 0u; status == NF_OK; ++n) {
        const int failed = run(n);
        if (failed) {
            printf("failed %d\\n", failed);
            return 0;
        }
    }
    return 0;
}
"""


def buffer(name: str, address: int, size: int, **more: object) -> Buffer:
    made = Buffer(name, address, size, 0, 1, (1, size), "", 8, False, False, (0.5,), (3,), False)
    return replace(made, **more)  # type: ignore[arg-type]


def example_network(inputs: int = 1000, outputs: int = 64) -> Compiled:
    """A network as the reader of generated code gives it."""
    ins = (buffer("in", 0x34200000, inputs),)
    outs = (buffer("out", 0x34210000, outputs),)
    weights = Segment(0x71000000, bytes(range(256)) * 4)
    return Compiled("network", "1.1.3-275", "", (), (weights,), (*ins, *outs), ins, outs)


@needs_compiler
@needs_cmake
@pytest.mark.parametrize("board", BOARDS)
def test_builds_and_links(board: str, tmp_path: Path) -> None:
    """By its own script, with ST's folders given."""
    project, aton, made = tmp_path / "project", tmp_path / "aton", tmp_path / "made"
    files = st_project("Default", example_network(), load_target(board), "overdrive", "network.c")
    write_sources(project, files)
    aton.mkdir()
    made.mkdir()
    for path in HEADERS.glob("*.h"):
        shutil.copy(path, aton / path.name)
    (aton / "ll_aton_runtime.c").write_text(ATON, "utf-8")
    (made / "network.c").write_text(NETWORK, "utf-8")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else ["-G", "Unix Makefiles"]
    configure = ["cmake", "--preset", "default", *generator, f"-DNF_ST_RUNTIME={aton}"]
    missing = subprocess.run(
        [*configure, f"-DNF_ST_NETWORK={aton}"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode != 0
    assert "NF_ST_NETWORK: no network.c" in missing.stderr
    for command in (
        [*configure, f"-DNF_ST_NETWORK={made}"],
        ["cmake", "--build", "--preset", "default"],
    ):
        run = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=300, check=False
        )
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
        assert "warning" not in run.stdout + run.stderr
    image = read_elf((project / "build" / "app.elf").read_bytes())
    assert {"nf_st_start", "LL_ATON_RT_RunEpochBlock", "Reset_Handler"} <= set(image.symbols)
    assert not any(section.address == 0x71000000 for section in image.sections)
    assert (project / "build" / "app.bin").stat().st_size < 64 * 1024


def board_network(example: Callable[[str], Path]) -> tuple[Compiled, BoardNetwork]:
    """A planned network, and the same as ST's compiler would have described it."""
    planned, _ = api.analyze_model(example("anomaly_detection"), BOARDS[0])
    made = planned_network(planned.graph, planned.schedule, planned.plan)
    ins = tuple(buffer(b.name, b.address, b.size, memory_shape=b.shape) for b in made.inputs)
    outs = tuple(buffer(b.name, b.address, b.size, memory_shape=b.shape) for b in made.outputs)
    return Compiled("network", "", "", (), (), (*ins, *outs), ins, outs), made


def built(network: Compiled, made: BoardNetwork, folder: Path) -> ApplicationBoard:
    """The project's runtime and port, with a driver, on the virtual board."""
    files = st_project("Default", network, load_target(BOARDS[0]), "nominal", "network.c")
    project = folder / "project"
    write_sources(project, files)
    (project / "driver.c").write_text('#include "stm32n6xx_hal.h"\n' + DRIVER, "utf-8")
    sources = [project / "driver.c", project / "st" / "nf_st.c", project / "st" / "network.c"]
    sources += sorted((project / "runtime" / "src").glob("*.c"))
    application = Application(
        tuple(sources),
        (project / "st", project / "runtime" / "include", project / "runtime" / "src"),
    )
    work = folder / "work"
    work.mkdir()
    return ApplicationBoard(application, {"Default": made}, work)


@needs_application_board
def test_runs_on_the_virtual_board(example: Callable[[str], Path], tmp_path: Path) -> None:
    """Caches, life cycle and ownership by the runtime: no violation, the host's bytes."""
    network, made = board_network(example)
    board = built(network, made, tmp_path)
    for seed in (1, 2, 3):
        run = board.run(6, seed=seed)
        assert run.violations == ()
        assert run.inferences == 6
        lines = run.said.splitlines()
        assert lines[0] == "start NF_OK"
        size = made.inputs[0].size
        for n, line in enumerate(lines[1:6]):
            data = ((np.arange(size) * 7 + n) % 256).astype(np.uint8).tobytes()
            assert line == b"".join(made.run([data])).hex()


@needs_application_board
def test_other_generated_code_is_refused(example: Callable[[str], Path], tmp_path: Path) -> None:
    network, made = board_network(example)
    moved = replace(network.outputs[0], address=network.outputs[0].address + 32)
    run = built(replace(network, outputs=(moved,)), made, tmp_path).run(2)
    assert run.said.splitlines() == ["start NF_E_STALE_FIRMWARE"]
    assert run.inferences == 0


def test_a_buffer_in_the_program_is_refused() -> None:
    network = example_network()
    low = replace(network.inputs[0], address=0x34000400)
    with pytest.raises(PlanError) as caught:
        st_project(
            "Default", replace(network, buffers=(low,), inputs=(low,)), load_target(BOARDS[0]),
            "nominal", "network.c",
        )  # fmt: skip
    assert caught.value.code == "FST-002"


def test_an_unknown_type_is_refused() -> None:
    network = example_network()
    odd = replace(network.inputs[0], bits=4)
    with pytest.raises(PlanError) as caught:
        st_network_source("Default", replace(network, inputs=(odd,)), 32)
    assert caught.value.code == "FST-001"


def test_a_network_needs_the_backend(example: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        api.deploy_model(
            example("anomaly_detection"), BOARDS[0], tmp_path / "out", emulate="off",
            st_network=tmp_path,
        )  # fmt: skip
    assert caught.value.code == "DEP-006"


def test_deploy_around_generated_code(example: Callable[[str], Path], tmp_path: Path) -> None:
    """Code in the generator's shape, a folder given: the project beside that of the CPU."""
    write_network(tmp_path / "made")
    out = tmp_path / "out"
    api.deploy_model(
        example("anomaly_detection"), BOARDS[0], out, emulate="off", random_samples=1, backend="st",
        st_network=tmp_path / "made",
    )  # fmt: skip
    project = out / "st" / "firmware"
    text = (project / "st" / "network.c").read_text()
    assert "0x342e0000u" in text
    assert "NF_FLOAT32" in text
    readme = (project / "README.md").read_text()
    assert "0x71000000" in readme
    assert (out / "firmware" / "CMakeLists.txt").is_file()
    assert not (out / "st.json").exists()


@needs_application_board
def test_a_compiled_network_runs_behind_the_runtime(shared: Path, tmp_path: Path) -> None:
    """A real program: the simulator's bytes through nf_submit and nf_output."""
    network = load_compiled(shared / "aton" / "mobilenet_v1_025_96")
    made = compiled_network(network)
    # the board's flash holds no weights: the simulator has them
    run = built(replace(network, images=()), made, tmp_path).run(3)
    assert run.violations == ()
    lines = run.said.splitlines()
    assert lines[0] == "start NF_OK"
    size = made.inputs[0].size
    for n, line in enumerate(lines[1:3]):
        data = ((np.arange(size) * 7 + n) % 256).astype(np.uint8).tobytes()
        done = run_program(network, {network.inputs[0].name: data})
        assert line == done.outputs[network.outputs[0].name].hex()


def test_a_line_that_is_shared_is_the_networks() -> None:
    network = example_network()
    odd = replace(network.outputs[0], address=0x342103F0, size=20)
    text = st_network_source("Default", replace(network, outputs=(odd,)), 32)
    assert "(uint8_t *)0x342103e0u" in text
    assert '{"out", NF_INT8, 2u, 2u, 16u, 20u' in text


def test_table_has_what_the_compiler_placed() -> None:
    text = st_network_source("Default", example_network(), 32)
    assert "(uint8_t *)0x34200000u" in text
    assert "(uint8_t *)0x71000000u" in text
    assert "{1024u, 1024u, 64u}" in text  # whole lines
    assert '{"in", NF_INT8, 1u, 2u, 0u, 1000u, {1, 1000}, 0x1.0000000000000p-1f, 3}' in text

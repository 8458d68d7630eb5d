"""Applications with the "stai" interface on the virtual board: right ones clean, mistakes named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tools import needs_application_board

from npuforge import api
from npuforge.api_board import board_network
from npuforge.boards.application import Application, ApplicationBoard, ApplicationRun
from npuforge.boards.application_network import BoardNetwork
from npuforge.errors import ToolError

pytestmark = needs_application_board

MAIN = """\
#include "ll_aton_runtime.h"
#include "stai_network.h"
#include "stm32n6xx_hal.h"
#include <stdio.h>

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_NETWORK_CONTEXT_SIZE)

static uint8_t own_input[STAI_NETWORK_IN_1_SIZE_BYTES + 32] __attribute__((aligned(32)));
static uint8_t own_output[STAI_NETWORK_OUT_1_SIZE_BYTES] __attribute__((aligned(32)));
static stai_ptr in[STAI_NETWORK_IN_NUM], out[STAI_NETWORK_OUT_NUM];

static void infer(void)
{
#ifdef ASYNC
    stai_return_code code;
    do {
        code = stai_network_run(context, STAI_MODE_ASYNC); /* run */
        if (code == STAI_RUNNING_WFE)
            LL_ATON_OSAL_WFE();
#ifdef WRITE_IN_FLIGHT
        if (code == STAI_RUNNING_WFE)
            in[0][0] = 1; /* write */
#endif
    } while (code == STAI_RUNNING_WFE || code == STAI_RUNNING_NO_WFE);
#ifndef NO_NEW
    stai_ext_network_new_inference(context);
#endif
#else
    stai_network_run(context, STAI_MODE_SYNC); /* run */
#endif
}

int main(void)
{
    stai_size count;
    stai_network_info info;
#ifndef NO_RUNTIME
    stai_runtime_init();
#endif
    stai_network_init(context); /* init */
    stai_network_get_info(context, &info);
    printf("%s %u %u %u\\n", info.c_model_name, info.n_inputs, info.inputs[0].size_bytes,
           info.outputs[0].size_bytes);
#ifdef USER
    in[0] = own_input + OFFSET;
    out[0] = own_output;
    printf("%x\\n", stai_network_set_inputs(context, in, 1u)); /* bind */
    stai_network_set_outputs(context, out, 1u);
#endif
    stai_network_get_inputs(context, in, &count);
    stai_network_get_outputs(context, out, &count);
    printf("first %x\\n", stai_ext_network_new_inference(context));
    for (uint32_t n = 0;; ++n) {
        for (uint32_t i = 0; i < STAI_NETWORK_IN_1_SIZE_BYTES; ++i)
            in[0][i] = (uint8_t)(i * 7u + n);
#ifndef NO_CLEAN
        SCB_CleanDCache_by_Addr(in[0], STAI_NETWORK_IN_1_SIZE_BYTES);
#endif
        infer();
        SCB_InvalidateDCache_by_Addr(out[0], STAI_NETWORK_OUT_1_SIZE_BYTES);
        for (uint32_t i = 0; i < STAI_NETWORK_OUT_1_SIZE_BYTES; ++i)
            printf("%02x", out[0][i]);
        printf("\\n");
    }
}
"""


@pytest.fixture(scope="module")
def network(example: Callable[[str], Path]) -> BoardNetwork:
    return board_network(example("anomaly_detection"), "stm32n6570-dk")


def run(network: BoardNetwork, folder: Path, *defines: str, user: bool = False) -> ApplicationRun:
    source = folder / "main.c"
    source.write_text(MAIN, "utf-8")
    work = folder / "work"
    work.mkdir()
    application = Application((source,), defines=defines)
    board = ApplicationBoard(application, {"network": network}, work, user_buffers=user)
    return board.run(4, seconds=10)


def line_of(mark: str) -> int:
    return 1 + next(i for i, row in enumerate(MAIN.splitlines()) if row.endswith(f"/* {mark} */"))


@pytest.mark.parametrize(
    "defines", [(), ("ASYNC",), ("USER", "OFFSET=0"), ("USER", "OFFSET=0", "ASYNC")]
)
def test_right_applications_are_clean(
    defines: tuple[str, ...], network: BoardNetwork, tmp_path: Path
) -> None:
    shown = run(network, tmp_path, *defines, user="USER" in defines)
    assert shown.violations == ()
    assert shown.inferences == 4
    lines = shown.said.splitlines()
    size = network.inputs[0].size
    assert lines[0] == f"network 1 {size} {network.outputs[0].size}"
    assert "first 50000" in lines  # benign, as on the part
    results = lines[lines.index("first 50000") + 1 :]
    for n, row in enumerate(results[:3]):
        data = ((np.arange(size) * 7 + n) % 256).astype(np.uint8).tobytes()
        assert row == b"".join(network.run([data])).hex()


@pytest.mark.parametrize(
    ("defines", "kind", "mark"),
    [
        (("NO_CLEAN",), "missing_clean", ""),
        (("ASYNC", "NO_NEW"), "not_reset", "run"),
        (("ASYNC", "WRITE_IN_FLIGHT"), "write_in_flight", "write"),
        (("NO_RUNTIME",), "not_initialised", "init"),
        (("USER", "OFFSET=4"), "misaligned", "bind"),
    ],
)
def test_mistakes_are_named(
    defines: tuple[str, ...], kind: str, mark: str, network: BoardNetwork, tmp_path: Path
) -> None:
    shown = run(network, tmp_path, *defines, user="USER" in defines)
    found = [v for v in shown.violations if v.kind == kind]
    assert found
    if mark:
        assert line_of(mark) in {found[0].cause.line, found[0].effect.line}


def test_the_networks_name_is_read_from_the_calls(
    example: Callable[[str], Path], tmp_path: Path
) -> None:
    source = tmp_path / "main.c"
    source.write_text(MAIN, "utf-8")
    shown = api.stress_application(
        example("anomaly_detection"), "stm32n6570-dk", Application((source,)), inferences=2
    )
    assert shown.violations == ()
    assert shown.inferences == 2


def test_all_that_is_missing_is_named_at_once(network: BoardNetwork, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    for text, code, names in (
        ('#include "lcd.h"\n#include "camera.h"\nint main(void) { return 0; }\n',
         "BRD-037", "lcd.h, camera.h"),
        ("int one(void);\nint two(void);\nint main(void) { return one() + two() + one(); }\n",
         "BRD-038", "one, two"),
    ):  # fmt: skip
        source.write_text(text, "utf-8")
        work = tmp_path / code
        work.mkdir()
        with pytest.raises(ToolError) as caught:
            ApplicationBoard(Application((source,)), {"network": network}, work)
        assert caught.value.code == code
        assert names in str(caught.value)

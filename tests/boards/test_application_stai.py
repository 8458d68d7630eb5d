"""Applications with the "stai" interface on the virtual board: right ones clean, mistakes named."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import pytest
from tests.tools import needs_application_board

from npuforge import api
from npuforge.api_board import board_network
from npuforge.boards.application import Application, ApplicationBoard, ApplicationRun
from npuforge.boards.application_network import BoardBuffer, BoardNetwork
from npuforge.boards.application_stai import stai_header
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


CALLS = """\
#include "stai_network.h"
#include "stai_debug.h"
#include <stdio.h>

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_NETWORK_CONTEXT_SIZE)
static uint8_t input[STAI_NETWORK_IN_1_SIZE_BYTES];

static void on_runtime(void *cookie, const stai_event_type event, const void *payload)
{
    printf("runtime %s %d %d\\n", (const char *)cookie, (int)event, payload != NULL);
}

static void on_network(void *cookie, const stai_event_type event, const void *payload)
{
    const EpochBlock_ItemTypeDef *block = payload;
    printf("network %s %d %d\\n", (const char *)cookie, (int)event,
           block ? (int)block->epoch_num : -1);
}

static void say(const char *what, stai_return_code code)
{
    printf("%s %s\\n", what, stai_get_return_code_name(code));
}

int main(void)
{
    static const int32_t shape[] = STAI_NETWORK_IN_1_SHAPE;
    static const float scales[] = STAI_NETWORK_OUT_1_SCALES;
    stai_network_info info;
    stai_runtime_info runtime;
    stai_ptr in[STAI_NETWORK_IN_NUM], out[STAI_NETWORK_OUT_NUM];
    stai_size n = 9;
    stai_runtime_set_callback(on_runtime, "r");
    say("init", stai_runtime_init());
    stai_network_set_callback(context, on_network, "n");
    say("network", stai_network_init(context));
    say("again", stai_network_init(context));
    say("info", stai_network_get_info(context, &info));
    printf("%d %d %d %d\\n", info.inputs[0].format == STAI_NETWORK_IN_1_FORMAT,
           info.inputs[0].shape.data[0] == shape[0], info.outputs[0].scale.data[0] == scales[0],
           (int)info.outputs[0].flags == STAI_NETWORK_OUT_1_FLAGS);
    printf("%d %d\\n", STAI_FORMAT_GET_BITS(info.inputs[0].format),
           STAI_FORMAT_GET_SIGN(info.inputs[0].format));
    say("runtime info", stai_runtime_get_info(&runtime));
    say("weights", stai_network_get_weights(context, NULL, &n));
    printf("%u\\n", (unsigned)n);
    say("set weights", stai_network_set_weights(context, in, 1));
    say("error", stai_network_get_error(context));
    say("inputs", stai_network_get_inputs(context, in, &n));
    say("outputs", stai_network_get_outputs(context, out, &n));
    say("same inputs", stai_network_set_inputs(context, in, 1));
    in[0] = input;
    say("other inputs", stai_network_set_inputs(context, in, 1)); /* bind */
    say("run", stai_network_run(context, STAI_MODE_SYNC));
    say("wrong mode", stai_network_run(context, (stai_run_mode)7));
    say("start", stai_network_run(context, STAI_MODE_ASYNC));
    say("early", stai_network_deinit(context));
    say("early", stai_ext_network_new_inference(context));
    while (stai_ext_network_get_nn_run_status(context) != STAI_DONE) {
        if (stai_ext_network_get_nn_run_status(context) == STAI_RUNNING_WFE)
            stai_ext_wfe();
        stai_ext_network_run_continue(context);
    }
    say("new", stai_ext_network_new_inference(context));
    say("deinit", stai_network_deinit(context));
    say("gone", stai_network_get_inputs(context, in, &n)); /* gone */
    stai_runtime_deinit();
    return 0;
}
"""


@pytest.fixture
def scaled() -> BoardNetwork:
    def buffer(name: str, address: int, scale: float) -> BoardBuffer:
        return BoardBuffer(name, address, 64, (1, 4, 4, 4), "INT8", scale=scale, zero_point=3)

    return BoardNetwork(
        inputs=(buffer("in", 0x3420_0000, 0.25),),
        outputs=(buffer("out", 0x3420_1000, 0.1),),
        scratch=(),
        memories=(("npuRAM3", 0x3420_0000, 0x3420_8000),),
        run=lambda data: list(data),
    )


def test_calls_answer_as_on_the_part(scaled: BoardNetwork, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text(CALLS, "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    shown = ApplicationBoard(Application((source,)), {"network": scaled}, work).run(seconds=10)
    lines = [line for line in shown.said.splitlines() if not line.startswith("network n")]
    assert lines == [
        "runtime r 6 0", "init STAI_SUCCESS", "network STAI_SUCCESS",
        "again STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE", "info STAI_SUCCESS", "1 1 1 1",
        "8 1", "runtime info STAI_SUCCESS", "weights STAI_SUCCESS", "0",
        "set weights STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM",
        "error STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE",  # the first is kept
        "inputs STAI_SUCCESS", "outputs STAI_SUCCESS", "same inputs STAI_SUCCESS",
        "other inputs STAI_ERROR_NETWORK_INVALID_IN_PTR", "run STAI_SUCCESS",
        "wrong mode STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS", "start STAI_RUNNING_WFE",
        "early STAI_ERROR_NETWORK_STILL_RUNNING", "early STAI_ERROR_NETWORK_STILL_RUNNING",
        "new STAI_SUCCESS", "deinit STAI_SUCCESS",
        "gone STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE", "runtime r 7 0",
    ]  # fmt: skip
    told = [line for line in shown.said.splitlines() if line.startswith("network n")]
    epoch = [f"network n {event} 1" for event in range(4)]
    assert told == ["network n 4 -1", *epoch, *epoch, "network n 5 -1"]
    marks = {1 + i: row for i, row in enumerate(CALLS.splitlines()) if row.endswith("*/")}
    assert {(v.kind, marks[v.cause.line].split("/* ")[1]) for v in shown.violations} == {
        ("not_bound", "bind */"), ("not_initialised", "gone */"),
    }  # fmt: skip


def test_a_context_that_nobody_zeroed_is_refused(scaled: BoardNetwork, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    text = CALLS.replace("int main(void)\n{", "int main(void)\n{\n    context[0] = 1;")
    source.write_text(text, "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    shown = ApplicationBoard(Application((source,)), {"network": scaled}, work).run(seconds=10)
    assert "network STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE" in shown.said


def test_axes_of_a_tensor_are_told_by_its_layout() -> None:
    def header(shape: tuple[int, ...], *, first: bool = False, user: bool = False) -> str:
        buffer = BoardBuffer(
            "x", 0, 4 * prod(shape), shape, "FLOAT", channel_first=first, user=user
        )
        return stai_header("od", BoardNetwork((buffer,), (), (), (), lambda data: []))

    for shape, first, expected in (
        ((1, 4, 6, 3), False, (1, 4, 6, 3)),
        ((1, 3, 4, 6), True, (1, 4, 6, 3)),
        ((1, 512, 16), True, (1, 512, 16, 1)),
        ((1, 128), False, (1, 1, 128, 1)),
        ((7,), False, (1, 1, 7, 1)),
    ):
        text = header(shape, first=first)
        for axis, extent in zip(("BATCH", "HEIGHT", "WIDTH", "CHANNEL"), expected, strict=True):
            assert f"#define STAI_OD_IN_1_{axis} ({extent})\n" in text
    assert "PREALLOCATED" in header((1, 2))
    assert "PREALLOCATED" not in header((1, 2), user=True)

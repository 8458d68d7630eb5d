"""`npuforge stress --application`: a bug of a user's, and its corrected form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools import needs_application_board
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.errors import UsageError

pytestmark = needs_application_board

MAIN = """\
#include "ll_aton_runtime.h"
#include "stm32n6xx_hal.h"

#include <stdio.h>

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Keywords);

int main(void)
{
    const LL_Buffer_InfoTypeDef *in = LL_ATON_Input_Buffers_Info_Keywords();
    const LL_Buffer_InfoTypeDef *out = LL_ATON_Output_Buffers_Info_Keywords();
    int8_t *input = (int8_t *)LL_Buffer_addr_start(in);
    int8_t *output = (int8_t *)LL_Buffer_addr_start(out);

    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_Keywords);
    for (int n = 0;; ++n) {
        LL_ATON_RT_RetValues_t answer;
        for (uint32_t i = 0; i < LL_Buffer_len(in); ++i)
            input[i] = (int8_t)(i * 3u + n);
#ifdef FIXED
        for (uint32_t i = 0; i < LL_Buffer_len(in); ++i)
            input[i] ^= (int8_t)0x80;
        SCB_CleanDCache_by_Addr(input, LL_Buffer_len(in));
#else
        SCB_CleanDCache_by_Addr(input, LL_Buffer_len(in));
        for (uint32_t i = 0; i < LL_Buffer_len(in); ++i)
            input[i] ^= (int8_t)0x80;
        SCB_InvalidateDCache_by_Addr(input, LL_Buffer_len(in));
#endif
        LL_ATON_RT_Reset_Network(&NN_Instance_Keywords);
        do {
            answer = LL_ATON_RT_RunEpochBlock(&NN_Instance_Keywords);
            if (answer == LL_ATON_RT_WFE)
                LL_ATON_OSAL_WFE();
        } while (answer != LL_ATON_RT_DONE);
        SCB_InvalidateDCache_by_Addr(output, LL_Buffer_len(out));
        printf("class scores from %d\\n", output[0]);
    }
}
"""


@pytest.fixture
def command(example: Callable[[str], Path], tmp_path: Path) -> list[str]:
    source = tmp_path / "main.c"
    source.write_text(MAIN, "utf-8")
    model = str(example("keyword_spotting"))
    return ["stress", model, "--target", "stm32n6570-dk", "--application", str(source)]


def line(text: str) -> int:
    return [text in row for row in MAIN.splitlines()].index(True) + 1


def test_a_lost_write_is_named(command: list[str]) -> None:
    run = CliRunner().invoke(app, [*command, "--runs", "3"])
    assert run.exit_code == 1, run.output
    first = run.stdout.splitlines()[1]
    invalidate = line("SCB_InvalidateDCache_by_Addr(input")
    assert f"main.c:{invalidate} (main): error lost_write" in first
    assert f"main.c:{invalidate - 1} (main)" in run.stdout  # the write
    assert "missing call: SCB_CleanDCache_by_Addr(" in run.stdout
    assert "cache line 0x3" in run.stdout


def test_the_corrected_form_is_clean(command: list[str]) -> None:
    run = CliRunner().invoke(app, [*command, "--define", "FIXED", "--runs", "3", "--json"])
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["violations"] == []
    assert document["inferences"] == 24
    assert len(document["said"].splitlines()) == 8


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--frame-fault", "green"], "BRD-033"),
        (["--application", "absent.c"], "BRD-032"),
        (["--faults", "3"], "BRD-036"),
        (["--profile", "linux"], "BRD-036"),
        (["--driver-fault", "scattered_pages"], "BRD-036"),
    ],
)
def test_bad_options(command: list[str], options: list[str], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        CliRunner().invoke(app, [*command, *options], catch_exceptions=False)

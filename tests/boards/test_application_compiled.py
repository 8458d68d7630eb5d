"""An application around a compiled program: its numbers are the simulator's."""

from __future__ import annotations

from pathlib import Path

from tests.tools import needs_application_board

from npuforge import api
from npuforge.aton.execute import run_program
from npuforge.aton.load import load_compiled
from npuforge.boards.application import Application

pytestmark = [
    needs_application_board,
]

MAIN = """\
#include "ll_aton_runtime.h"
#include "stm32n6xx_hal.h"
#include <stdio.h>

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Default);

int main(void)
{
    const LL_Buffer_InfoTypeDef *in = LL_ATON_Input_Buffers_Info_Default();
    const LL_Buffer_InfoTypeDef *out = LL_ATON_Output_Buffers_Info_Default();
    uint8_t *input = LL_Buffer_addr_start(in), *output = LL_Buffer_addr_start(out);
    for (uint32_t n = 0;; ++n) {
        for (uint32_t i = 0; i < LL_Buffer_len(in); ++i)
            input[i] = (uint8_t)(i * 31u + n * 7u + i / 96u);
        SCB_CleanInvalidateDCache_by_Addr(input, LL_Buffer_len(in));
        LL_ATON_RT_Main(&NN_Instance_Default);
        for (uint32_t i = 0; i < LL_Buffer_len(out); ++i)
            printf("%02x", output[i]);
        printf("\\n");
    }
}
"""


def test_outputs_are_the_simulators(shared: Path, tmp_path: Path) -> None:
    program = shared / "aton" / "mobilenet_v1_025_96"
    source = tmp_path / "main.c"
    source.write_text(MAIN, "utf-8")
    shown = api.stress_application(program, "stm32n6570-dk", Application((source,)), inferences=2)
    assert shown.violations == ()
    network = load_compiled(program)
    size = network.inputs[0].size
    wanted = []
    for n in range(2):
        data = bytes((i * 31 + n * 7 + i // 96) % 256 for i in range(size))
        done = run_program(network, {network.inputs[0].name: data})
        wanted.append(done.outputs[network.outputs[0].name].hex())
    assert len(set(wanted)) == 2
    assert shown.said.split() == wanted

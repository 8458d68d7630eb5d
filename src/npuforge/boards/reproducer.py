"""The smallest thing that shows a fault: one 3x3 convolution, a program with one mistake."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuforge.graph import Array, ConvAttrs, Graph, Node, Quantization, Tensor
from npuforge.vocab import Contract, DType

SIDE, CHANNELS = 32, 8
INPUT_BYTES = SIDE * SIDE * CHANNELS
SEED = 1


def single_convolution() -> Graph:
    """One 3x3 int8 convolution of a 32x32x8 image with random weights; 8,192 bytes in and out."""
    rng = np.random.default_rng(SEED)

    def add(
        name: str, shape: tuple[int, ...], dtype: DType, step: float, data: Array | None
    ) -> None:
        quantization = Quantization.per_tensor(step, 0)
        tensors[name] = Tensor(name, shape, dtype, quantization, data)

    tensors: dict[str, Tensor] = {}
    image, kernel = (1, SIDE, SIDE, CHANNELS), (CHANNELS, 3, 3, CHANNELS)
    add("image", image, DType.INT8, 0.02, None)
    add("kernel", kernel, DType.INT8, 0.01, rng.integers(-127, 128, kernel).astype(np.int8))
    bias = rng.integers(-900, 900, CHANNELS).astype(np.int32)
    add("bias", (CHANNELS,), DType.INT32, 0.02 * 0.01, bias)
    add("result", image, DType.INT8, 0.1, None)
    node = Node(
        "result",
        "conv2d",
        ("image", "kernel", "bias"),
        ("result",),
        ConvAttrs(padding=(1, 1, 1, 1)),
        Contract.TFLITE_REFERENCE,
    )
    return Graph("single_convolution", tensors, (node,), ("image",), ("result",))


@dataclass(frozen=True)
class _Piece:
    """Lines of the program: right, and wrong for the kinds of faults that they cause."""

    right: str
    wrong: dict[str, str]


_CLEAN = "        SCB_CleanDCache_by_Addr(input, BYTES);\n"
_INVALIDATE = "        SCB_InvalidateDCache_by_Addr(output, BYTES);\n"
_CLOCK, _BANKS = "    __HAL_RCC_RAMCFG_CLK_ENABLE();\n", "    switch_banks_on();\n"
_PIECES = (
    _Piece(_CLOCK + _BANKS, {"unclocked_bank": _BANKS + _CLOCK}),
    _Piece("    LL_ATON_RT_RuntimeInit();\n", {"not_initialised": ""}),
    _Piece("    LL_ATON_RT_Init_Network(&NN_Instance_Default);\n", {}),
    _Piece(
        "    int8_t *input = input_buffer;\n",
        {
            "misaligned": "    int8_t *input = input_buffer + 4;\n",
            "stack_buffer": "    int8_t on_stack[BYTES] __attribute__((aligned(32)));\n"
            "    int8_t *input = on_stack;\n",
            "freed": "    int8_t *input = aligned_alloc(32, BYTES);\n",
            "unreachable":
                "    static int8_t coupled[BYTES]\n"
                "        __attribute__((section(\".dtcm\"), aligned(32)));\n"
                "    int8_t *input = coupled;\n",
            "no_memory": "    int8_t *input = (int8_t *)0xA0000000u;\n",
        },
    ),
    _Piece(
        "    LL_ATON_Set_User_Input_Buffer_Default(0, input, BYTES);\n"
        "    LL_ATON_Set_User_Output_Buffer_Default(0, output, BYTES);\n",
        {"not_bound": ""},
    ),
    _Piece("    for (int n = 0; n < 100; ++n) {\n", {}),
    _Piece("        for (uint32_t i = 0; i < BYTES; ++i)\n"
           "            input[i] = (int8_t)(i * 7u + n);\n", {}),
    _Piece(
        _CLEAN,
        {
            "missing_clean": "",
            "lost_write": _CLEAN + "        for (uint32_t i = 0; i < BYTES; ++i)\n"
            "            input[i] ^= (int8_t)0x80;\n"
            "        SCB_InvalidateDCache_by_Addr(input, BYTES);\n",
            "end_not_size": "        mcu_cache_clean_range((uint32_t)(uintptr_t)input, BYTES);\n",
            "dirty_over_result": _CLEAN + "        output[0] = 0;\n",
            "speculative_refill": _CLEAN + _INVALIDATE,
        },
    ),
    _Piece("        LL_ATON_RT_Reset_Network(&NN_Instance_Default);\n", {"not_reset": ""}),
    _Piece(
        "        for (;;) {\n"
        "            const LL_ATON_RT_RetValues_t answer =\n"
        "                LL_ATON_RT_RunEpochBlock(&NN_Instance_Default);\n"
        "            if (answer == LL_ATON_RT_DONE)\n"
        "                break;\n", {},
    ),
    _Piece(
        "",
        {
            "write_in_flight": "            input[0] = 1;\n",
            "read_in_flight": "            sum += output[0];\n",
            "reset_in_flight": "            LL_ATON_RT_Reset_Network(&NN_Instance_Default);\n",
            "freed": "            free(input);\n            return 1;\n",
        },
    ),
    _Piece(
        "            if (answer == LL_ATON_RT_WFE)\n"
        "                LL_ATON_OSAL_WFE();\n",
        {
            "hang": "            while (answer == LL_ATON_RT_WFE)\n"
            "                LL_ATON_OSAL_WFE();\n",
        },
    ),
    _Piece("        }\n", {}),
    _Piece(_INVALIDATE, {"missing_invalidate": "", "speculative_refill": ""}),
    _Piece("        for (uint32_t i = 0; i < BYTES; ++i)\n"
           "            sum += output[i];\n"
           "    }\n"
           "    return 0;\n", {}),
)  # fmt: skip

_SLOW = "        HAL_Delay(63);\n"
_CAMERA_PIECES = (
    _Piece(_CLOCK + _BANKS + "    LL_ATON_RT_RuntimeInit();\n"
           "    LL_ATON_RT_Init_Network(&NN_Instance_Default);\n"
           "    LL_ATON_Set_User_Output_Buffer_Default(0, output, BYTES);\n", {}),
    _Piece(
        "    npuforge_camera_start(frames[0], frames[1], BYTES, 64, frame_done);\n",
        {
            "dma_overlap":
                "    npuforge_camera_start(frames[0], frames[0], BYTES, 64, frame_done);\n",
        },
    ),
    _Piece("    for (uint32_t last = 0;;) {\n", {}),
    _Piece(
        "        while (ready == last)\n"
        "            __WFE();\n"
        "        last = ready;\n",
        {"repeated_frame": "        last = ready;\n"},
    ),
    _Piece(
        "        int8_t *input = frames[(last + 1u) & 1u]; /* the one that is whole */\n",
        {
            "dma_overlap": "        int8_t *input = frames[0];\n",
            "torn_frame":
                "        HAL_Delay(32);\n"
                "        int8_t *input = frames[last & 1u]; /* the one being filled */\n",
        },
    ),
    _Piece("        LL_ATON_Set_User_Input_Buffer_Default(0, input, BYTES);\n"
           "        LL_ATON_RT_Reset_Network(&NN_Instance_Default);\n"
           "        for (;;) {\n"
           "            const LL_ATON_RT_RetValues_t answer =\n"
           "                LL_ATON_RT_RunEpochBlock(&NN_Instance_Default);\n"
           "            if (answer == LL_ATON_RT_DONE)\n"
           "                break;\n"
           "            if (answer == LL_ATON_RT_WFE)\n"
           "                LL_ATON_OSAL_WFE();\n"
           "        }\n" + _INVALIDATE +
           "        for (uint32_t i = 0; i < BYTES; ++i)\n"
           "            sum += output[i];\n", {}),
    _Piece("", {"dropped_frame": "        /* slower than the camera */\n" + 4 * _SLOW}),
    _Piece("    }\n", {}),
)  # fmt: skip


def _kinds(pieces: tuple[_Piece, ...]) -> frozenset[str]:
    return frozenset(kind for piece in pieces for kind in piece.wrong)


CAMERA_KINDS = _kinds(_CAMERA_PIECES)
KINDS = _kinds(_PIECES) | CAMERA_KINDS
"""Kinds of violations that a program exists for."""

_HEAD = """\
/* The smallest program that shows {kind}: one convolution, LL_ATON's life cycle. Compiled with
 * FIXED it is the form without the mistake. */
#include "ll_aton_runtime.h"
{include}#include "stm32n6xx_hal.h"

#include <stdlib.h>

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Default);

#define BYTES {bytes}u /* of the input and of the output */

{buffers}static int8_t output_buffer[BYTES] __attribute__((aligned(32)));
static volatile int32_t sum;

static void switch_banks_on(void)
{{
    RAMCFG_HandleTypeDef bank3 = {{RAMCFG_SRAM3_AXI}}, bank4 = {{RAMCFG_SRAM4_AXI}};
    RAMCFG_HandleTypeDef bank5 = {{RAMCFG_SRAM5_AXI}}, bank6 = {{RAMCFG_SRAM6_AXI}};
    __HAL_RCC_AXISRAM3_MEM_CLK_ENABLE();
    __HAL_RCC_AXISRAM4_MEM_CLK_ENABLE();
    __HAL_RCC_AXISRAM5_MEM_CLK_ENABLE();
    __HAL_RCC_AXISRAM6_MEM_CLK_ENABLE();
    HAL_RAMCFG_EnableAXISRAM(&bank3);
    HAL_RAMCFG_EnableAXISRAM(&bank4);
    HAL_RAMCFG_EnableAXISRAM(&bank5);
    HAL_RAMCFG_EnableAXISRAM(&bank6);
}}

{functions}int main(void)
{{
    int8_t *const output = output_buffer;
"""
_ONE_BUFFER = "static int8_t input_buffer[BYTES + 32u] __attribute__((aligned(32)));\n"
_FRAMES = "static int8_t frames[2][BYTES] __attribute__((aligned(32)));\n"
_FRAME_DONE = """\
static volatile uint32_t ready; /* number of the last whole frame */

static void frame_done(void *buffer, uint32_t number)
{
    (void)buffer;
    ready = number;
}

"""


def reproducer(kind: str) -> str:
    """C source of the program for a kind of `KINDS`.

    Raises:
        KeyError: there is none for this kind.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    camera = kind in CAMERA_KINDS
    text = _HEAD.format(
        kind=kind,
        bytes=INPUT_BYTES,
        include='#include "npuforge_board.h"\n' if camera else "",
        buffers=_FRAMES if camera else _ONE_BUFFER,
        functions=_FRAME_DONE if camera else "",
    )
    for piece in _CAMERA_PIECES if camera else _PIECES:
        if kind not in piece.wrong:
            text += piece.right
        elif not piece.wrong[kind]:
            text += f"#ifdef FIXED\n{piece.right}#endif\n"
        elif not piece.right:
            text += f"#ifndef FIXED\n{piece.wrong[kind]}#endif\n"
        else:
            text += f"#ifdef FIXED\n{piece.right}#else\n{piece.wrong[kind]}#endif\n"
    return text + "}\n"

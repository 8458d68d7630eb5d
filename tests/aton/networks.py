"""A small compiled network written by the tests: the same program as blobs and as descriptors.

Eight int8 values are scaled (epoch 2, hardware) and turned into real numbers (epoch 3, CPU). The
text has the shape generators give it; none of it is theirs.
"""

from __future__ import annotations

import struct
from pathlib import Path

from npuforge.artefacts.ec_blob import write_blob
from npuforge.aton import assemble

RAM, FLASH = 0x342E0000, 0x71000000
SCALE, ZERO = 0.25, -3

PROGRAM = """
label 2
  write STRENG0.ADDR 0x342e0000
  load STRENG0.FSIZE 0x8
  write STRENG0.LIMIT 0x1
  write STRENG0.CTRL 0x8c101
  write STRENG1.ADDR 0x342e0020
  load STRENG1.FSIZE 0x8
  write STRENG1.LIMIT 0x1
  write STRENG1.CTRL 0x80109
  write ARITH0.COEFFAC 0x20003
  write ARITH0.SHIFT 0x8000
  write ARITH0.INSHIFTER 0x1
  write ARITH0.CTRL 0x5000061
  write STRSWITCH0.STRENG1_0 0x25
  write STRSWITCH0.ARITH0_0 0x1
  poll STRENG1.CTRL[31] 0x64 0x0
  irq
"""

HEAD = """/* generated
 * GIT_DESCRIPTION "atonn-v1.1.0-7-gabc"
 *
 * --all-buffers-info = true
 * --onnx-input = "somewhere/tiny_OE_3_2_0.onnx"
 */
#include "tiny_ecblobs.h"
/* index=1 file postfix=AXISRAM5 name=npuRAM5 offset=0x342e0000  absolute_mode size=4096 \
READ_WRITE THROUGHPUT=HIGH byte width=8 freq ratio=1.25 cacheable=OFF */
/* index=8 file postfix=xSPI2 name=octoFlash offset=0x71000000  absolute_mode size=65536 \
READ_ONLY THROUGHPUT=MID byte width=1 freq ratio=6 cacheable=ON */
/* index=9 file postfix=AXISRAM5_6 name=joined offset=0x342e0000  absolute_mode size=8192 \
vpool READ_WRITE cacheable=OFF */
"""

CPU = """
/* scheduling epoch=3    nodes=1   --- */
static void LL_ATON_End_EpochBlock_3(const void *epoch_block)
{
  LL_ATON_Cache_MCU_Invalidate_Range(((uintptr_t)(PHYSICAL(0x342e0000UL + 32))) /* hex */, 32);
  LL_ATON_LIB_UNUSED(epoch_block);
/* kind=DequantizeLinear node=Dequantize_9 */
  Dequantizelinear_sw_info info3 = {
    .general.input.dim.tensor_b = 1,
    .general.input.dim.tensor_h = 1,
    .general.input.dim.tensor_w = 1,
    .general.input.dim.tensor_c = 8,
    .general.input.dim.num_elem = 8,
    .general.input.stride.b = 8,
    .general.input.stride.h = 8,
    .general.input.stride.w = 8,
    .general.input.stride.c = 1,
    .general.input.mem.start_offset = ((unsigned char *)(PHYSICAL(0x342e0000UL + 32))),
    .general.input.format.is_signed = 1,
    .is.mem.start_offset = ((unsigned char *)(PHYSICAL(0x71000000UL + 16))),
    .is.dim.num_elem = 1,
    .izp.mem.start_offset = ((unsigned char *)(PHYSICAL(0x71000000UL + 20))),
    .izp.format.is_signed = 1,
    .izp.dim.num_elem = 1,
    .general.output.dim.tensor_b = 1,
    .general.output.dim.tensor_h = 1,
    .general.output.dim.tensor_w = 1,
    .general.output.dim.tensor_c = 8,
    .general.output.dim.num_elem = 8,
    .general.output.stride.b = 32,
    .general.output.stride.h = 32,
    .general.output.stride.w = 32,
    .general.output.stride.c = 4,
    .general.output.mem.start_offset = ((unsigned char *)(PHYSICAL(0x342e0000UL + 64))),
    .general.output.format.is_signed = 1,
    .general.type = LL_SW_DEQUANTIZELINEAR,
  };
  ll_sw_forward_dequantizelinear(&info3);
  LL_ATON_Cache_MCU_Clean_Range(((uintptr_t)(PHYSICAL(0x342e0000UL + 64))), 32);
}
"""

CLEAR = """
/* scheduling epoch=2    nodes=1   --- */
static void LL_ATON_Start_EpochBlock_2(const void *epoch_block)
{
  LL_ATON_LIB_UNUSED(epoch_block);
  /* kind=Mul node=Scale_4 */
  static const LL_Arithacc_InitTypeDef scale_init2 = {
    .inbytes_x = 1, .outbytes_x = 1, .shift_x = 0, .inbytes_y = 1, .outbytes_y = 1,
    .combinebc = 0, .clipout = 0, .rounding_o = 1, .saturation_o = 1, .round_mode_o = 1,
    .outbytes_o = 1, .shift_o = 1, .scalar = SCALAR, .dualinput = 0,
    .operation = ARITH_AFFINE, .bcast = ARITH_BCAST_CHAN,
    .Ax_shift = 0, .By_shift = 0, .C_shift = 0,
    .fWidth = 1, .fHeight = 1, .fChannels = 8, .batchDepth = 8,
    .A_scalar = 3, .B_scalar = 0, .C_scalar = (short)2,
    .A_vector = {VECTOR}, .B_vector = {0}, .C_vector = {0},
    .vec_precision = {16, 16, 16},
  };
  LL_Arithacc_Init(0, &scale_init2);
  static const LL_Streng_TensorInitTypeDef in_2 = {
    .dir = 0, .raw = 1, .align_right = 1, .nbits_unsigned = 0,
    .addr_base = {(unsigned char *)(0x342e0000UL) /* hex */}, .offset_start = 0,
    .offset_end = 8, .offset_limit = 72, .frame_offset = 8, .frame_tot_cnt = 1,
    .nbits_in = 8, .nbits_out = 8,
  };
  LL_Streng_TensorInit(0, &in_2, 1);
  static const LL_Streng_TensorInitTypeDef out_2 = {
    .dir = 1, .raw = 0, .addr_base = {(unsigned char *)(0x342e0000UL)}, .offset_start = 32,
    .offset_end = 40, .fwidth = 2, .fheight = 2, .batch_depth = 2, .batch_offset = 2,
    .line_offset = 0, .frame_offset = 8, .frame_tot_cnt = 1, .nbits_in = 8, .nbits_out = 8,
  };
  LL_Streng_TensorInit(1, &out_2, 1);
  static const LL_Switch_InitTypeDef switch_2[] = {
    { LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, ARITH, 0, 0),
      LL_Switch_Init_Source(0) = ATONN_SRCPORT(STRSWITCH, 0, STRENG, 0, 0),
      LL_Switch_Init_Context(0) = 1, LL_Switch_Init_Frames(0) = 0, },
    { LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, STRENG, 1, 0),
      LL_Switch_Init_Source(0) = ATONN_SRCPORT(STRSWITCH, 0, ARITH, 0, 0),
      LL_Switch_Init_Context(0) = 1, LL_Switch_Init_Frames(0) = 0, },
  };
  LL_Switch_Init(switch_2, 2);
  static const LL_ATON_EnableUnits_InitTypeDef units_2[] = {
    { {STRENG, 1} }, { {ARITH, 0} }, { {STRENG, 0} },
  };
  LL_ATON_EnableUnits_Init(units_2, 3);
}
"""


def _entry(number: int, fields: str, flags: str) -> str:
    return (
        f"    {{ {fields} .wait_mask = 0x0, .flags = EpochBlock_Flags_epoch_start | {flags},\n"
        f"#ifdef DEBUG\n      .epoch_num = {number},\n      .last_epoch_num = {number},\n#endif\n"
        "    },\n"
    )


def _buffer(name: str, offset: int, size: int, epoch: int, kind: str) -> str:
    bits = 32 if kind == "FLOAT" else 8
    return f"""    {{
      .name = "{name}", .addr_base = {{(unsigned char *)(0x342e0000UL)}},
      .offset_start = {offset}, .offset_end = {offset + size}, .offset_limit = {offset + size + 64},
      .is_user_allocated = 0, .is_param = 0, .epoch = {epoch}, .batch = 8,
      .mem_shape = shape_1_1_1_8, .mem_ndims = 4, .chpos = CHPos_Last, .Qunsigned = 0,
      .type = DataType_{kind}, .nbits = {bits}, .ndims = 4, .shape = shape_1_1_1_8,
      .per_channel = 0, .scale = some_scale, .offset = some_offset,
    }},
"""


def _tables() -> str:
    tables = (
        ("Input", _buffer("x", 0, 8, 0, "INT8")),
        ("Output", _buffer("z", 64, 32, 3, "FLOAT")),
        ("Internal", _buffer("y", 32, 8, 2, "INT8")),
    )
    return "".join(
        f"""
const LL_Buffer_InfoTypeDef *LL_ATON_{name}_Buffers_Info_tiny(void)
{{
  static const uint32_t shape_1_1_1_8[] = {{ 1, 1, 1, 8 }};
  static const float some_scale[] = {{ {SCALE} }};
  static const int16_t some_offset[] = {{ {ZERO} }};
  static const LL_Buffer_InfoTypeDef buff_info[] = {{
{rows}    {{ .name = NULL, }}
  }};
  return buff_info;
}}
"""
        for name, rows in tables
    )


def constants() -> bytes:
    """The weight image: eight 16-bit factors, a scale and a zero point."""
    return struct.pack("<8hfb", *range(3, 11), SCALE, ZERO)


def words_of(blob: bytes) -> str:
    """A blob as the header's array of 64-bit words."""
    padded = blob + b"\0" * (-len(blob) % 8)
    words = (int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8))
    body = ",\n  ".join(f"0x{word:016x}UL" for word in words)
    return f"SECTION\nstatic const uint64_t _ec_blob_tiny_2 [] =\n{{\n  {body}\n}};\n"


def write_network(
    folder: Path, *, clear: bool = False, vector: bool = False, program: str = PROGRAM
) -> Path:
    """Write ``tiny.c`` with its header and weight image; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if clear:
        first = CLEAR.replace("SCALAR", "0" if vector else "1")
        address = "((unsigned char *)(PHYSICAL(0x71000000UL + 0)))" if vector else "0"
        first = first.replace("VECTOR", address)
        entry = _entry(
            2, ".start_epoch_block = LL_ATON_Start_EpochBlock_2,", "EpochBlock_Flags_pure_hw"
        )
    else:
        first = "// Epoch Controller Blob (name='_ec_blob_2') start function\n"
        entry = _entry(
            2,
            ".start_epoch_block = NULL, .blob_address = (uintptr_t)(_ec_blob_tiny_2_address),",
            "EpochBlock_Flags_blob | EpochBlock_Flags_pure_hw",
        )
        (folder / "tiny_ecblobs.h").write_text(words_of(write_blob(assemble(program))))
    last = _entry(3, ".end_epoch_block = LL_ATON_End_EpochBlock_3,", "EpochBlock_Flags_pure_sw")
    blocks = (
        "const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_tiny(void) {\n"
        "  static const EpochBlock_ItemTypeDef array[] = {\n"
        f"{entry}{last}    {{ .flags = EpochBlock_Flags_last_eb, }},\n  }};\n  return array;\n}}\n"
    )
    (folder / "tiny.c").write_text(HEAD + first + CPU + blocks + _tables())
    (folder / "tiny_atonbuf.xSPI2.raw").write_bytes(constants())
    return folder

/* A generated network reduced to the statements that carry facts. */
#include "ll_aton_NN_interface.h"
#include "ll_aton.h"

#if LL_ATON_VERSION_MAJOR != 1 || LL_ATON_VERSION_MINOR != 1 || LL_ATON_VERSION_MICRO != 1 || LL_ATON_VERSION_DEV != 14
#  error "Possible mismatch in ll_aton library used"
#endif

/* global pool 1 is 120.00 KB */
/* index=1 file postfix=xSPI2 name=octoFlash offset=0x71000000  absolute_mode size=16777208 READ_ONLY cacheable=ON */
/* global pool 2 is 60.00 KB */
/* index=2 file postfix=AXISRAM5 name=npuRAM5 offset=0x342e0000  absolute_mode size=458752 READ_WRITE cacheable=OFF */
/* global pool 3 is ? */
/* index=3 file postfix=xSPI1 name=hyperRAM offset=0x90000000  absolute_mode size=16777208 READ_WRITE cacheable=ON */

LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_birds(uint32_t num, void* buffer, uint32_t size)
{
  return LL_ATON_User_IO_WRONG_INDEX;
}

LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_birds(uint32_t num, void* buffer, uint32_t size)
{
  return LL_ATON_User_IO_WRONG_INDEX;
}

static void LL_ATON_Start_EpochBlock_2(const void *epoch_block)
{
  LL_ATON_Cache_MCU_Invalidate_Range(0x342e0000UL, 9216);
}

const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_birds(void) {
  static const EpochBlock_ItemTypeDef ll_atonn_rt_epoch_block_array[] = {
    {
      .start_epoch_block = LL_ATON_Start_EpochBlock_2,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_hw,
    },
    {
      .flags = EpochBlock_Flags_last_eb,
    },
  };
  return ll_atonn_rt_epoch_block_array;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_birds(void)
{
  static const uint32_t buff_info__shape_1_48_64_3[] = { 1, 48, 64, 3 };
  static const float buff_info_Input_0_quant_scale[] = { 0.00392156885936856 };
  static const int16_t buff_info_Input_0_quant_offset[] = { -128 };
  static const LL_Buffer_InfoTypeDef buff_info[] = {
    {
      .name = "Input_0_out_0",
      .addr_base = {(unsigned char *)(0x342e0000UL)},
      .offset_start = 0,
      .offset_end = 9216,
      .is_user_allocated = 0,
      .is_param = 0,
      .type = DataType_INT8,
      .nbits = 8,
      .shape = buff_info__shape_1_48_64_3,
      .scale = buff_info_Input_0_quant_scale,
      .offset = buff_info_Input_0_quant_offset,
    },
    {
      .name = NULL,
    }
  };
  return buff_info;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_birds(void)
{
  static const uint32_t buff_info__shape_1_1024[] = { 1, 1024 };
  static const float buff_info_Output_0_quant_scale[] = { 0.0078125 };
  static const int16_t buff_info_Output_0_quant_offset[] = { 0 };
  static const LL_Buffer_InfoTypeDef buff_info[] = {
    {
      .name = "Output_0_out_0",
      .addr_base = {(unsigned char *)(0x342e0000UL)},
      .offset_start = 32768,
      .offset_end = 33792,
      .is_user_allocated = 0,
      .is_param = 0,
      .type = DataType_INT8,
      .nbits = 8,
      .shape = buff_info__shape_1_1024,
      .scale = buff_info_Output_0_quant_scale,
      .offset = buff_info_Output_0_quant_offset,
    },
    {
      .name = NULL,
    }
  };
  return buff_info;
}

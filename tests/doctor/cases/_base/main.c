/* STM32N6570-DK: a small application that does everything right. */
#include "app.h"

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Default)

__attribute__((aligned(32))) static uint8_t camera[FRAME_BYTES];
static uint8_t *input;
static int8_t *output;
static uint32_t input_bytes;
static uint32_t output_bytes;

static void memory_init(void)
{
  RAMCFG_HandleTypeDef ramcfg = {0};
  __HAL_RCC_AXISRAM3_MEM_CLK_ENABLE();
  __HAL_RCC_AXISRAM4_MEM_CLK_ENABLE();
  __HAL_RCC_AXISRAM5_MEM_CLK_ENABLE();
  __HAL_RCC_AXISRAM6_MEM_CLK_ENABLE();
  __HAL_RCC_RAMCFG_CLK_ENABLE();
  ramcfg.Instance = RAMCFG_SRAM3_AXI;
  HAL_RAMCFG_EnableAXISRAM(&ramcfg);
  ramcfg.Instance = RAMCFG_SRAM4_AXI;
  HAL_RAMCFG_EnableAXISRAM(&ramcfg);
  ramcfg.Instance = RAMCFG_SRAM5_AXI;
  HAL_RAMCFG_EnableAXISRAM(&ramcfg);
  ramcfg.Instance = RAMCFG_SRAM6_AXI;
  HAL_RAMCFG_EnableAXISRAM(&ramcfg);
}

static void npu_init(void)
{
  __HAL_RCC_NPU_CLK_ENABLE();
  __HAL_RCC_NPU_FORCE_RESET();
  __HAL_RCC_NPU_RELEASE_RESET();
  __HAL_RCC_CACHEAXIRAM_MEM_CLK_ENABLE();
  __HAL_RCC_CACHEAXI_CLK_ENABLE();
  npu_cache_init();
  npu_cache_enable();
}

static void flash_init(void)
{
  BSP_XSPI_NOR_Init_t nor;
  nor.InterfaceMode = BSP_XSPI_NOR_OPI_MODE;
  nor.TransferRate = BSP_XSPI_NOR_DTR_TRANSFER;
  BSP_XSPI_NOR_Init(0, &nor);
  BSP_XSPI_NOR_EnableMemoryMappedMode(0);
}

static void isolation_init(void)
{
  RIMC_MasterConfig_t master = {0};
  __HAL_RCC_RIFSC_CLK_ENABLE();
  master.MasterCID = RIF_CID_1;
  master.SecPriv = RIF_ATTRIBUTE_SEC | RIF_ATTRIBUTE_PRIV;
  HAL_RIF_RIMC_ConfigMasterAttributes(RIF_MASTER_INDEX_NPU, &master);
  HAL_RIF_RISC_SetSlaveSecureAttributes(RIF_RISC_PERIPH_INDEX_NPU,
                                        RIF_ATTRIBUTE_SEC | RIF_ATTRIBUTE_PRIV);
}

static void sleep_init(void)
{
  __HAL_RCC_NPU_CLK_SLEEP_ENABLE();
  __HAL_RCC_CACHEAXI_CLK_SLEEP_ENABLE();
  __HAL_RCC_XSPI2_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM2_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM3_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM4_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM5_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM6_MEM_CLK_SLEEP_ENABLE();
}

static void network_init(void)
{
  const LL_Buffer_InfoTypeDef *in = LL_ATON_Input_Buffers_Info_Default();
  const LL_Buffer_InfoTypeDef *out = LL_ATON_Output_Buffers_Info_Default();
  input = (uint8_t *)LL_Buffer_addr_start(&in[0]);
  input_bytes = LL_Buffer_len(&in[0]);
  output = (int8_t *)LL_Buffer_addr_start(&out[0]);
  output_bytes = LL_Buffer_len(&out[0]);
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(&NN_Instance_Default);
}

static void infer(void)
{
  LL_ATON_RT_RetValues_t state;
  do {
    state = LL_ATON_RT_RunEpochBlock(&NN_Instance_Default);
    if (state == LL_ATON_RT_WFE) {
      LL_ATON_OSAL_WFE();
    }
  } while (state != LL_ATON_RT_DONE);
  LL_ATON_RT_Reset_Network(&NN_Instance_Default);
}

int main(void)
{
  HAL_Init();
  MEMSYSCTL->MSCR |= MEMSYSCTL_MSCR_DCACTIVE_Msk;
  SCB_EnableDCache();
  SystemClock_Config();
  memory_init();
  npu_init();
  flash_init();
  isolation_init();
  sleep_init();
  network_init();
  while (1) {
    capture(camera);
    memcpy(input, camera, input_bytes);
    SCB_CleanDCache_by_Addr(input, input_bytes);
    infer();
    SCB_InvalidateDCache_by_Addr(output, output_bytes);
    show_result(output, output_bytes);
  }
}

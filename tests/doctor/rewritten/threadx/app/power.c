#include "stm32n6xx_hal.h"
#include "stm32n6570_discovery_xspi.h"
#include "power.h"

static const uint8_t BANKS = 4;
static RAMCFG_TypeDef *const bank[] = {
  RAMCFG_SRAM3_AXI, RAMCFG_SRAM4_AXI, RAMCFG_SRAM5_AXI, RAMCFG_SRAM6_AXI
};

void clocks_to_nominal(void)
{
  RCC_OscInitTypeDef osc = {0};
  osc.PLL1.PLLState = RCC_PLL_ON;
  HAL_RCC_OscConfig(&osc);
}

void power_up_npu(void)
{
  __HAL_RCC_NPU_CLK_ENABLE();
  __HAL_RCC_NPU_FORCE_RESET();
  __HAL_RCC_NPU_RELEASE_RESET();
  __HAL_RCC_CACHEAXIRAM_MEM_CLK_ENABLE();
  __HAL_RCC_CACHEAXI_CLK_ENABLE();
}

void power_up_banks(void)
{
  RAMCFG_HandleTypeDef one = {0};
  __HAL_RCC_AXISRAM3_MEM_CLK_ENABLE();
  __HAL_RCC_AXISRAM4_MEM_CLK_ENABLE();
  __HAL_RCC_AXISRAM5_MEM_CLK_ENABLE();
  __HAL_RCC_AXISRAM6_MEM_CLK_ENABLE();
  __HAL_RCC_RAMCFG_CLK_ENABLE();
  for (uint8_t i = 0; i < BANKS; i++) {
    one.Instance = bank[i];
    HAL_RAMCFG_EnableAXISRAM(&one);
  }
  npu_cache_init();
  npu_cache_enable();
}

void open_windows(void)
{
  RIMC_MasterConfig_t npu = {0};
  __HAL_RCC_RIFSC_CLK_ENABLE();
  npu.MasterCID = RIF_CID_1;
  npu.SecPriv = RIF_ATTRIBUTE_SEC | RIF_ATTRIBUTE_PRIV;
  HAL_RIF_RIMC_ConfigMasterAttributes(RIF_MASTER_INDEX_NPU, &npu);
  HAL_RIF_RISC_SetSlaveSecureAttributes(RIF_RISC_PERIPH_INDEX_NPU, npu.SecPriv);
}

void map_the_flash(void)
{
  BSP_XSPI_NOR_Init_t nor = {0};
  nor.InterfaceMode = MX66UW1G45G_OPI_MODE;
  nor.TransferRate = MX66UW1G45G_DTR_TRANSFER;
  if (BSP_XSPI_NOR_Init(0, &nor) == BSP_ERROR_NONE) {
    BSP_XSPI_NOR_EnableMemoryMappedMode(0);
  }
}

void keep_awake(void)
{
  __HAL_RCC_NPU_CLK_SLEEP_ENABLE();
  __HAL_RCC_CACHEAXI_CLK_SLEEP_ENABLE();
  __HAL_RCC_XSPI2_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM2_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM3_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM4_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM5_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_AXISRAM6_MEM_CLK_SLEEP_ENABLE();
  __HAL_RCC_CACHEAXIRAM_MEM_CLK_SLEEP_ENABLE();
}

void cpu_caches_on(void)
{
  SCB_EnableICache();
  MEMSYSCTL->MSCR |= MEMSYSCTL_MSCR_DCACTIVE_Msk;
  SCB_EnableDCache();
}

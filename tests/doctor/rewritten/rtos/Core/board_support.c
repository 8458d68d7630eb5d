/* Register-level bring-up: no HAL where a register does. */
#include "stm32n6xx.h"
#include "board_support.h"

void HAL_IncTick(void);

void Board_Clocks(void)
{
  SystemClock_Config();
  LL_AHB5_GRP1_EnableClock(LL_AHB5_GRP1_PERIPH_NPU | LL_AHB5_GRP1_PERIPH_CACHEAXI);
  LL_AHB5_GRP1_ReleaseReset(LL_AHB5_GRP1_PERIPH_NPU);
  LL_AHB5_GRP1_EnableClockLowPower(LL_AHB5_GRP1_PERIPH_NPU | LL_AHB5_GRP1_PERIPH_CACHEAXI |
                                   LL_AHB5_GRP1_PERIPH_XSPI2);
  LL_MEM_EnableClockLowPower(LL_MEM_AXISRAM2 | LL_MEM_AXISRAM3 | LL_MEM_AXISRAM4 | LL_MEM_AXISRAM5 |
                             LL_MEM_AXISRAM6 | LL_MEM_CACHEAXIRAM);
}

void Board_Memories(void)
{
  LL_MEM_EnableClock(LL_MEM_AXISRAM3 | LL_MEM_AXISRAM4 | LL_MEM_AXISRAM5 | LL_MEM_AXISRAM6 |
                     LL_MEM_CACHEAXIRAM);
  LL_AHB2_GRP1_EnableClock(LL_AHB2_GRP1_PERIPH_RAMCFG);
  CLEAR_BIT(RAMCFG_SRAM3_AXI->CR, RAMCFG_CR_SRAMSD);
  CLEAR_BIT(RAMCFG_SRAM4_AXI->CR, RAMCFG_CR_SRAMSD);
  CLEAR_BIT(RAMCFG_SRAM5_AXI->CR, RAMCFG_CR_SRAMSD);
  CLEAR_BIT(RAMCFG_SRAM6_AXI->CR, RAMCFG_CR_SRAMSD);
  npu_cache_init();
  npu_cache_enable();
}

void Board_Firewall(void)
{
  RIMC_MasterConfig_t id = { .MasterCID = RIF_CID_1, .SecPriv = RIF_ATTRIBUTE_SEC | RIF_ATTRIBUTE_PRIV };
  LL_AHB3_GRP1_EnableClock(LL_AHB3_GRP1_PERIPH_RIFSC);
  HAL_RIF_RIMC_ConfigMasterAttributes(RIF_MASTER_INDEX_NPU, &id);
  HAL_RIF_RISC_SetSlaveSecureAttributes(RIF_RISC_PERIPH_INDEX_NPU, RIF_ATTRIBUTE_SEC | RIF_ATTRIBUTE_PRIV);
}

void Board_ExternalFlash(void)
{
  BSP_XSPI_NOR_Init_t chip = { .InterfaceMode = BSP_XSPI_NOR_OPI_MODE, .TransferRate = BSP_XSPI_NOR_DTR_TRANSFER };
  BSP_XSPI_NOR_Init(0, &chip);
  BSP_XSPI_NOR_EnableMemoryMappedMode(0);
}

void Board_CpuCaches(void)
{
  SCB_EnableICache();
  MEMSYSCTL->MSCR |= MEMSYSCTL_MSCR_DCACTIVE_Msk;
  SCB_EnableDCache();
}

void SysTick_Handler(void)
{
  HAL_IncTick();
  xPortSysTickHandler();
}

void vApplicationIdleHook(void)
{
  __WFI();
}

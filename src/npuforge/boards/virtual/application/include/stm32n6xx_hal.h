/* The little of a hardware abstraction layer that inference code itself calls. Peripherals are not
 * modelled: code that drives them needs stubs of its own. */
#ifndef NPUFORGE_STM32N6XX_HAL_H
#define NPUFORGE_STM32N6XX_HAL_H

#include <stddef.h>
#include <stdint.h>

#include "core_cm55.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { HAL_OK = 0, HAL_ERROR = 1, HAL_BUSY = 2, HAL_TIMEOUT = 3 } HAL_StatusTypeDef;
typedef float float32_t;

#ifndef __IO
#define __IO volatile
#endif
#define UNUSED(x) ((void)(x))

HAL_StatusTypeDef HAL_Init(void);
uint32_t HAL_GetTick(void);
void HAL_IncTick(void);
void HAL_Delay(uint32_t milliseconds);

/* Clocks and power of the memory banks and of the NPU. */
enum {
    NPUFORGE_AXISRAM1, NPUFORGE_AXISRAM2, NPUFORGE_AXISRAM3, NPUFORGE_AXISRAM4, NPUFORGE_AXISRAM5,
    NPUFORGE_AXISRAM6, NPUFORGE_NPU, NPUFORGE_CACHEAXI, NPUFORGE_CACHEAXIRAM, NPUFORGE_RAMCFG,
    NPUFORGE_UNITS
};
void npuforge_clock(int unit, int on);

#define __HAL_RCC_AXISRAM1_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_AXISRAM1, 1)
#define __HAL_RCC_AXISRAM2_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_AXISRAM2, 1)
#define __HAL_RCC_AXISRAM3_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_AXISRAM3, 1)
#define __HAL_RCC_AXISRAM4_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_AXISRAM4, 1)
#define __HAL_RCC_AXISRAM5_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_AXISRAM5, 1)
#define __HAL_RCC_AXISRAM6_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_AXISRAM6, 1)
#define __HAL_RCC_AXISRAM3_MEM_CLK_DISABLE() npuforge_clock(NPUFORGE_AXISRAM3, 0)
#define __HAL_RCC_AXISRAM4_MEM_CLK_DISABLE() npuforge_clock(NPUFORGE_AXISRAM4, 0)
#define __HAL_RCC_AXISRAM5_MEM_CLK_DISABLE() npuforge_clock(NPUFORGE_AXISRAM5, 0)
#define __HAL_RCC_AXISRAM6_MEM_CLK_DISABLE() npuforge_clock(NPUFORGE_AXISRAM6, 0)
#define __HAL_RCC_NPU_CLK_ENABLE() npuforge_clock(NPUFORGE_NPU, 1)
#define __HAL_RCC_NPU_FORCE_RESET() ((void)0)
#define __HAL_RCC_NPU_RELEASE_RESET() ((void)0)
#define __HAL_RCC_CACHEAXI_CLK_ENABLE() npuforge_clock(NPUFORGE_CACHEAXI, 1)
#define __HAL_RCC_CACHEAXIRAM_MEM_CLK_ENABLE() npuforge_clock(NPUFORGE_CACHEAXIRAM, 1)
#define __HAL_RCC_RAMCFG_CLK_ENABLE() npuforge_clock(NPUFORGE_RAMCFG, 1)

typedef struct { int unit; } RAMCFG_TypeDef;
typedef struct { RAMCFG_TypeDef *Instance; } RAMCFG_HandleTypeDef;
extern RAMCFG_TypeDef npuforge_ramcfg[NPUFORGE_UNITS];
#define RAMCFG_SRAM1_AXI (&npuforge_ramcfg[NPUFORGE_AXISRAM1])
#define RAMCFG_SRAM2_AXI (&npuforge_ramcfg[NPUFORGE_AXISRAM2])
#define RAMCFG_SRAM3_AXI (&npuforge_ramcfg[NPUFORGE_AXISRAM3])
#define RAMCFG_SRAM4_AXI (&npuforge_ramcfg[NPUFORGE_AXISRAM4])
#define RAMCFG_SRAM5_AXI (&npuforge_ramcfg[NPUFORGE_AXISRAM5])
#define RAMCFG_SRAM6_AXI (&npuforge_ramcfg[NPUFORGE_AXISRAM6])
HAL_StatusTypeDef HAL_RAMCFG_EnableAXISRAM(RAMCFG_HandleTypeDef *handle);
HAL_StatusTypeDef HAL_RAMCFG_DisableAXISRAM(RAMCFG_HandleTypeDef *handle);

/* The NPU's cache: as on the part, the first calls of Enable may answer BUSY. */
typedef struct { int unit; } CACHEAXI_TypeDef;
typedef struct { CACHEAXI_TypeDef *Instance; } CACHEAXI_HandleTypeDef;
extern CACHEAXI_TypeDef npuforge_cacheaxi;
#define CACHEAXI (&npuforge_cacheaxi)
HAL_StatusTypeDef HAL_CACHEAXI_Init(CACHEAXI_HandleTypeDef *handle);
HAL_StatusTypeDef HAL_CACHEAXI_Enable(CACHEAXI_HandleTypeDef *handle);
HAL_StatusTypeDef HAL_CACHEAXI_Disable(CACHEAXI_HandleTypeDef *handle);
HAL_StatusTypeDef HAL_CACHEAXI_Invalidate(CACHEAXI_HandleTypeDef *handle);
HAL_StatusTypeDef HAL_CACHEAXI_CleanByAddr(CACHEAXI_HandleTypeDef *handle, const uint32_t *address,
                                           uint32_t bytes);
HAL_StatusTypeDef HAL_CACHEAXI_CleanInvalidByAddr(CACHEAXI_HandleTypeDef *handle,
                                                  const uint32_t *address, uint32_t bytes);

#ifdef __cplusplus
}
#endif
#endif

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
#define HAL_MAX_DELAY 0xFFFFFFFFU
#define SET_BIT(reg, bits) ((reg) |= (bits))
#define CLEAR_BIT(reg, bits) ((reg) &= ~(bits))
#define READ_BIT(reg, bits) ((reg) & (bits))

HAL_StatusTypeDef HAL_Init(void);
uint32_t HAL_GetTick(void);
void HAL_IncTick(void);
void HAL_Delay(uint32_t milliseconds);
static inline uint32_t HAL_RCC_GetCpuClockFreq(void) { return SystemCoreClock; }
static inline void HAL_NVIC_EnableIRQ(IRQn_Type line) { (void)line; }
static inline void HAL_NVIC_DisableIRQ(IRQn_Type line) { (void)line; }
static inline void HAL_NVIC_SetPriority(IRQn_Type line, uint32_t priority, uint32_t sub_priority)
{
    (void)line, (void)priority, (void)sub_priority;
}

/* A serial line: what is sent is printed, random bytes are received. */
typedef struct { int unit; } USART_TypeDef;
typedef struct { USART_TypeDef *Instance; } UART_HandleTypeDef;
HAL_StatusTypeDef HAL_UART_Transmit(UART_HandleTypeDef *uart, const uint8_t *data, uint16_t bytes,
                                    uint32_t timeout);
HAL_StatusTypeDef HAL_UART_Receive(UART_HandleTypeDef *uart, uint8_t *data, uint16_t bytes,
                                   uint32_t timeout);

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

/* Clocks during sleep are on here. */
#define __HAL_RCC_AXISRAM1_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_AXISRAM2_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_AXISRAM3_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_AXISRAM4_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_AXISRAM5_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_AXISRAM6_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_FLEXRAM_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_CACHEAXIRAM_MEM_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_CACHEAXI_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_NPU_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_RAMCFG_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_RISAF_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_RIFSC_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_IAC_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_DBG_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_XSPI1_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_XSPI2_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_XSPIPHYCOMP_CLK_SLEEP_ENABLE() ((void)0)
#define __HAL_RCC_USART1_CLK_SLEEP_ENABLE() ((void)0)

#define RAMCFG_CR_SRAMSD (1U << 20)
typedef struct { int unit; volatile uint32_t CR; } RAMCFG_TypeDef;
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

/* What applications use of the Cortex-M55's core header: cache maintenance, barriers, interrupts. */
#ifndef NPUFORGE_CORE_CM55_H
#define NPUFORGE_CORE_CM55_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define __SCB_DCACHE_LINE_SIZE 32U
#define __DCACHE_PRESENT 1U

void SCB_EnableICache(void);
void SCB_DisableICache(void);
void SCB_InvalidateICache(void);
void SCB_EnableDCache(void);
void SCB_DisableDCache(void);
void SCB_CleanDCache(void);
void SCB_InvalidateDCache(void);
void SCB_CleanInvalidateDCache(void);
void SCB_CleanDCache_by_Addr(volatile void *address, int32_t bytes);
void SCB_InvalidateDCache_by_Addr(volatile void *address, int32_t bytes);
void SCB_CleanInvalidateDCache_by_Addr(volatile void *address, int32_t bytes);

static inline void __DSB(void) { __asm volatile("" ::: "memory"); }
static inline void __DMB(void) { __asm volatile("" ::: "memory"); }
static inline void __ISB(void) { __asm volatile("" ::: "memory"); }
static inline void __NOP(void) { __asm volatile("" ::: "memory"); }
static inline void __enable_irq(void) {}
static inline void __disable_irq(void) {}
void __WFE(void);
void __WFI(void);

#ifdef __cplusplus
}
#endif
#endif

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
#define __BKPT(value) ((void)(value))
static inline void __enable_irq(void) {}
static inline void __disable_irq(void) {}
static inline uint32_t __get_PRIMASK(void) { return 0; }
static inline void __set_PRIMASK(uint32_t mask) { (void)mask; }

/* Interrupts do not happen here: what enables them has nothing to do. */
typedef enum { NPU0_IRQn = 53, NPU1_IRQn, NPU2_IRQn, NPU3_IRQn, CACHEAXI_IRQn } IRQn_Type;
static inline void NVIC_EnableIRQ(IRQn_Type line) { (void)line; }
static inline void NVIC_DisableIRQ(IRQn_Type line) { (void)line; }
static inline void NVIC_ClearPendingIRQ(IRQn_Type line) { (void)line; }
static inline void NVIC_SetPriority(IRQn_Type line, uint32_t priority) { (void)line, (void)priority; }
static inline uint32_t NVIC_GetPriority(IRQn_Type line) { return (void)line, 0; }

/* Registers of the core that inference code reads and writes; only the cycle counter does something. */
typedef struct { volatile uint32_t CTRL, CYCCNT; } DWT_Type;
typedef struct { volatile uint32_t DEMCR; } CoreDebug_Type;
typedef struct { volatile uint32_t VTOR, SCR, CCR, SHCSR, CFSR, HFSR, BFAR; } SCB_Type;
typedef struct { volatile uint32_t MSCR; } MEMSYSCTL_Type;
DWT_Type *npuforge_dwt(void);
uint32_t npuforge_cycles(int reset);
extern CoreDebug_Type npuforge_core_debug;
extern SCB_Type npuforge_scb;
extern MEMSYSCTL_Type npuforge_memsysctl;
extern uint32_t SystemCoreClock;
#define DWT (npuforge_dwt())
#define CoreDebug (&npuforge_core_debug)
#define DCB (&npuforge_core_debug)
#define SCB (&npuforge_scb)
#define MEMSYSCTL (&npuforge_memsysctl)
#define DWT_CTRL_CYCCNTENA_Msk 1U
#define CoreDebug_DEMCR_TRCENA_Msk (1U << 24)
#define DCB_DEMCR_TRCENA_Msk (1U << 24)
#define SCB_SCR_SLEEPDEEP_Msk 4U
#define SCB_CCR_DC_Msk (1U << 16)
#define SCB_CCR_IC_Msk (1U << 17)
#define MEMSYSCTL_MSCR_DCACTIVE_Msk (1U << 12)
#define MEMSYSCTL_MSCR_ICACTIVE_Msk (1U << 13)
#define PMU_CNTENSET_CCNTR_ENABLE_Msk (1U << 31)
static inline void ARM_PMU_Enable(void) {}
static inline void ARM_PMU_CNTR_Enable(uint32_t mask) { (void)mask; }
static inline void ARM_PMU_CYCCNT_Reset(void) { npuforge_cycles(1); }
static inline uint32_t ARM_PMU_Get_CCNTR(void) { return npuforge_cycles(0); }

void __WFE(void);
void __WFI(void);

#ifdef __cplusplus
}
#endif
#endif

/* Start-up of the STM32N6: vectors, floating point, data, bss, main. */
#include "board.h"

#include "reg.h"
#include "stm32n6_regs.h"

extern uint32_t nf_stack_top[];
extern uint32_t nf_data_load[], nf_data_start[], nf_data_end[];
extern uint32_t nf_bss_start[], nf_bss_end[];

int main(void);
void Reset_Handler(void);
void SysTick_Handler(void);
void IAC_Handler(void);
void board_fault(const char *what, uint32_t a, uint32_t b);

#define INTERRUPTS 195u

typedef void (*vector)(void);
static const vector vectors[16u + INTERRUPTS];

void Reset_Handler(void)
{
    __asm volatile("cpsid i");
    reg_write(N6_SCB_VTOR, (uint32_t)vectors);
    /* floating point and MVE are off after reset */
    reg_set(N6_SCB_CPACR, 0xFu << 20);
    reg_barrier();
    /* numbers, for the symbols are no parts of one array */
    const uint32_t data_words = ((uintptr_t)nf_data_end - (uintptr_t)nf_data_start) / 4u;
    const uint32_t bss_words = ((uintptr_t)nf_bss_end - (uintptr_t)nf_bss_start + 3u) / 4u;
    for (uint32_t i = 0u; i < data_words; ++i)
        nf_data_start[i] = nf_data_load[i];
    for (uint32_t i = 0u; i < bss_words; ++i)
        nf_bss_start[i] = 0u;
    __asm volatile("cpsie i");
    board_exit(main());
}

static void fault(void)
{
    board_fault("fault: CFSR, BFAR", reg_read(N6_SCB_CFSR), reg_read(N6_SCB_BFAR));
}

/* An interrupt that nobody serves: its number is that of the exception minus 16. */
static void unexpected(void)
{
    uint32_t number;
    __asm volatile("mrs %0, ipsr" : "=r"(number));
    board_fault("unexpected interrupt", number - 16u, 0u);
}

/* Defined by who runs the NPU. */
__attribute__((weak, alias("unexpected"))) void NPU0_IRQHandler(void);
__attribute__((weak, alias("unexpected"))) void NPU1_IRQHandler(void);
__attribute__((weak, alias("unexpected"))) void NPU2_IRQHandler(void);
__attribute__((weak, alias("unexpected"))) void NPU3_IRQHandler(void);
__attribute__((weak, alias("unexpected"))) void SVC_Handler(void);
__attribute__((weak, alias("unexpected"))) void PendSV_Handler(void);

__attribute__((section(".vectors"), used)) static const vector vectors[16u + INTERRUPTS] = {
    [0] = (vector)nf_stack_top,
    [1] = Reset_Handler,
    [2] = fault,
    [3] = fault,
    [4] = fault,
    [5] = fault,
    [6] = fault,
    [7] = fault,
    [11] = SVC_Handler,
    [12] = fault,
    [14] = PendSV_Handler,
    [15] = SysTick_Handler,
    [16 ... 16 + N6_IRQ_IAC - 1] = unexpected,
    [16 + N6_IRQ_IAC] = IAC_Handler,
    [16 + N6_IRQ_IAC + 1 ... 16 + N6_IRQ_NPU0 - 1] = unexpected,
    [16 + N6_IRQ_NPU0] = NPU0_IRQHandler,
    [16 + N6_IRQ_NPU0 + 1] = NPU1_IRQHandler,
    [16 + N6_IRQ_NPU0 + 2] = NPU2_IRQHandler,
    [16 + N6_IRQ_NPU0 + 3] = NPU3_IRQHandler,
    [16 + N6_IRQ_NPU3 + 1 ... 16 + INTERRUPTS - 1] = unexpected,
};

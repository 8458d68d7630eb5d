/* Start-up of a Cortex-M55 under QEMU's mps3-an547: vectors, coprocessors, data, bss, main, exit. */
#include "semihosting.h"

#include <stdint.h>

extern uint32_t nf_stack_top[];
extern uint32_t nf_data_load[], nf_data_start[], nf_data_end[];
extern uint32_t nf_bss_start[], nf_bss_end[];

int main(void);
void Reset_Handler(void);
void SysTick_Handler(void);

/* Exit code that says: the program ended in a fault. */
#define EXIT_FAULT 99

#define SCB_CPACR (*(volatile uint32_t *)0xE000ED88u)
#define SCB_CFSR (*(volatile uint32_t *)0xE000ED28u)
#define SCB_BFAR (*(volatile uint32_t *)0xE000ED38u)

void Reset_Handler(void)
{
    /* floating point and MVE are off after reset */
    SCB_CPACR |= 0xFu << 20;
    __asm volatile("dsb\n isb" ::: "memory");
    for (uint32_t *src = nf_data_load, *dst = nf_data_start; dst < nf_data_end;)
        *dst++ = *src++;
    for (uint32_t *dst = nf_bss_start; dst < nf_bss_end;)
        *dst++ = 0;
    sh_exit(main());
}

static void fault(void)
{
    sh_write_text("fault: CFSR ");
    sh_write_hex(SCB_CFSR);
    sh_write_text(" BFAR ");
    sh_write_hex(SCB_BFAR);
    sh_write_text("\n");
    sh_exit(EXIT_FAULT);
}

__attribute__((weak)) void SysTick_Handler(void)
{
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    nf_stack_top, (const void *)Reset_Handler, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    0, 0, 0, (const void *)fault,
    (const void *)fault, 0, (const void *)fault, (const void *)SysTick_Handler,
};

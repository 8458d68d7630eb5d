/* Port of the runtime to QEMU's mps3-an547: the Cortex-M55 runs the step table itself.
 *
 * The machine models no data cache, and nothing but the CPU touches the network's memory. */
#include "board.h"

#include "semihosting.h"

#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)
#define RELOAD 0xFFFFFFu
#define TICKS_PER_MICROSECOND 32u

static volatile uint32_t wraps;
static nf_status result;

void SysTick_Handler(void);
void SysTick_Handler(void)
{
    ++wraps;
}

void board_init(void)
{
    SYST_RVR = RELOAD;
    SYST_CVR = 0;
    SYST_CSR = 7; /* enable, interrupt, processor clock */
}

uint64_t board_ticks(void)
{
    uint32_t high, low;
    do {
        high = wraps;
        low = RELOAD - SYST_CVR;
    } while (high != wraps);
    return (uint64_t)high * (RELOAD + 1u) + low;
}

static uint64_t now_us(void)
{
    return board_ticks() / TICKS_PER_MICROSECOND;
}

static void barrier(void)
{
    __asm volatile("dsb sy" ::: "memory");
}

static nf_status submit(const nf_job *job)
{
    const int failed = nf_network_run(job->network, job->hook, job->hook_context);
    result = failed != 0 ? NF_E_PROGRAM : NF_OK;
    return NF_OK;
}

static nf_status poll(void)
{
    return result;
}

const nf_port nf_board_port = {
    .master = NF_REACH_CPU,
    .barrier = barrier,
    .now_us = now_us,
    .submit = submit,
    .poll = poll,
    .log = sh_write_text,
};

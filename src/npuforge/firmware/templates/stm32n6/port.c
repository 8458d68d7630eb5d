/* Port of the runtime to the STM32N6: the Cortex-M55 runs the step table, so the networks' memory needs no
 * maintenance; buffers that are shared with a DMA do. */
#include "board.h"

#include "nf/runtime.h"

#include "board_config.h"
#include "reg.h"
#include "stm32n6_regs.h"

#define RELOAD 0xFFFFFFu

static volatile uint32_t wraps;
static nf_status result;

nf_status board_result;

void SysTick_Handler(void);
void SysTick_Handler(void)
{
    ++wraps;
}

void board_init(void)
{
    board_result = NF_OK;
    for (uint32_t i = 0u; i < board_stage_count && board_result == NF_OK; ++i) {
        board_result = board_stages[i].run();
        if (board_stages[i].run == board_console_on) {
            reg_write(N6_SYST_RVR, RELOAD);
            reg_write(N6_SYST_CVR, 0u);
            reg_write(N6_SYST_CSR, 7u); /* enable, interrupt, processor clock */
        }
        nf_stage(&nf_board_port, board_stages[i].name, board_result);
        if (board_result == NF_OK)
            board_hook(board_stages[i].name);
    }
}

uint64_t board_ticks(void)
{
    uint32_t high;
    uint32_t low;
    do {
        high = wraps;
        low = RELOAD - reg_read(N6_SYST_CVR);
    } while (high != wraps);
    return (uint64_t)high * (RELOAD + 1u) + low;
}

static uint64_t now_us(void)
{
    return board_ticks() / BOARD_CPU_MHZ;
}

static void barrier(void)
{
    reg_barrier();
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

/* Whether the bank behind an address has its clock and power: banks of the plan have been proved by
 * bring-up, the others are off. */
static nf_status probe(uintptr_t address, uintptr_t bytes, uint32_t masters)
{
    static const board_bank off[] = {BOARD_OFF_BANKS};
    (void)masters;
    for (uint32_t i = 0u; i < sizeof off / sizeof off[0]; ++i)
        if (off[i].bytes != 0u && address < off[i].base + off[i].bytes && off[i].base < address + bytes)
            return NF_E_UNPOWERED;
    return board_result;
}

const nf_port nf_board_port = {
    .master = NF_REACH_CPU,
    .cache_line = 32u,
    .clean = board_clean,
    .invalidate = board_invalidate,
    .barrier = barrier,
    .now_us = now_us,
    .submit = submit,
    .poll = poll,
    .probe = probe,
    .log = board_text,
};

static void print_hex(uint32_t value)
{
    char text[11] = "0x";
    for (uint32_t i = 0u; i < 8u; ++i)
        text[2u + i] = "0123456789abcdef"[(value >> (28u - 4u * i)) & 15u];
    text[10] = '\0';
    board_text(text);
}

void board_fault(const char *what, uint32_t a, uint32_t b);
void board_fault(const char *what, uint32_t a, uint32_t b)
{
    board_text(what);
    board_text(" ");
    print_hex(a);
    board_text(" ");
    print_hex(b);
    board_text("\n");
    for (;;)
        __asm volatile("wfi");
}

/* An access that isolation refused; the words say of which peripheral or memory. */
void IAC_Handler(void);
void IAC_Handler(void)
{
    uint32_t word = 0u;
    while (word < N6_IAC_WORDS - 1u && reg_read(N6_IAC_ISR(word)) == 0u)
        ++word;
    board_fault("illegal access: word, flags", word, reg_read(N6_IAC_ISR(word)));
}

_Noreturn void board_exit(int code)
{
    board_text(code == 0 ? "exit 0\n" : "exit ");
    if (code != 0) {
        print_hex((uint32_t)code);
        board_text("\n");
    }
    for (;;)
        __asm volatile("wfi");
}

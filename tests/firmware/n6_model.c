/* A modelled STM32N6 for bring-up: registers are words, gated ones drop writes, RAM needs clock and power.
 * Every write is printed as address and value. A stage that does without what an earlier one provides is a
 * violation: the last line says which, and the exit code is 2. */
#include "board_config.h"
#include "bringup.h"
#include "nf_mpu.h"
#include "reg.h"
#include "stm32n6_regs.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX 4096u

static struct {
    uint32_t address, value;
} words[MAX];
static uint32_t count;

static uint32_t *word(uint32_t address)
{
    for (uint32_t i = 0u; i < count; ++i)
        if (words[i].address == address)
            return &words[i].value;
    words[count].address = address;
    /* RAM banks are off after reset; the flags of the voltage and of an idle port are set */
    words[count].value = address >= N6_RAMCFG_AXISRAM_CR(1u) && address <= N6_RAMCFG_AXISRAM_CR(6u)
                             ? N6_RAMCFG_CR_SRAMSD
                             : 0u;
    return &words[count++].value;
}

static int bank_alive(uint32_t address)
{
    static const uint32_t base[] = {0x34100000u, 0x34200000u, 0x34270000u, 0x342E0000u, 0x34350000u};
    static const uint32_t clock[] = {N6_RCC_MEM_AXISRAM2, N6_RCC_MEM_AXISRAM3, N6_RCC_MEM_AXISRAM4,
                                     N6_RCC_MEM_AXISRAM5, N6_RCC_MEM_AXISRAM6};
    uint32_t bank = 0u;
    while (bank < 4u && address >= base[bank + 1u])
        ++bank;
    return (*word(N6_RCC_MEMENR) & clock[bank]) != 0u &&
           (*word(N6_RAMCFG_AXISRAM_CR(bank + 2u)) & N6_RAMCFG_CR_SRAMSD) == 0u;
}

static void need(int provided, const char *what)
{
    if (provided)
        return;
    printf("violation: %s\n", what);
    exit(2);
}

static int iac_cleared;

/* What the chip does not forgive. */
static void check(uint32_t address, uint32_t value)
{
    const int cached = (*word(N6_SCB_CCR) & N6_SCB_CCR_DC) != 0u;
    if (address == N6_RCC_CFGR1 && (value & N6_RCC_CFGR1_CPUSW(3u)) == N6_RCC_CFGR1_CPUSW(3u))
        need(BOARD_OVERDRIVE == 0u || (*word(N6_PWR_VOSCR) & N6_PWR_VOSCR_VOS) != 0u,
             "the clock is raised before the core voltage");
    if (address == N6_RCC_AHB5RSTCR && (value & N6_RCC_AHB5_NPU) != 0u)
        need((*word(N6_RCC_DIVENSR - 0x800u) & N6_RCC_DIVEN_IC(6u)) != 0u,
             "the NPU leaves reset before its clock IC6 runs");
    if (address >= 0x34100000u && address < 0x343C0000u)
        need(!cached, "a bank is proved through the data cache");
    if (address == N6_SCB_CCR && (value & N6_SCB_CCR_DC) != 0u && BOARD_USES_FLASH != 0u)
        need((*word(N6_XSPI2_BASE + N6_XSPI_CR) & N6_XSPI_CR_FMODE(3u)) == N6_XSPI_CR_FMODE(3u),
             "the flash is cacheable before it is mapped");
    if (address == N6_IAC_ICR(0u))
        iac_cleared = 1;
    if (address == N6_NVIC_ISER(N6_IRQ_IAC / 32u) && (value & 1u << (N6_IRQ_IAC % 32u)) != 0u)
        need(iac_cleared, "an old illegal access interrupts at once");
}

uint32_t reg_read(uint32_t address)
{
    if (address == N6_PWR_VOSCR)
        return *word(address) | N6_PWR_VOSCR_VOSRDY;
    if (address == N6_USART1_ISR)
        return N6_USART_ISR_TXE;
    if (address == N6_XSPI2_BASE + N6_XSPI_SR)
        return N6_XSPI_SR_TCF;
    if (address == N6_RCC_CFGR1) /* a switch shows as its state at once */
        return *word(address) | (*word(address) & 0x03030000u) << 4;
    return *word(address);
}

void reg_write(uint32_t address, uint32_t value)
{
    printf("%08x %08x\n", address, value);
    check(address, value);
    if (address >= 0x34100000u && address < 0x343C0000u) {
        if (bank_alive(address))
            *word(address) = value;
        return;
    }
    if (address >= N6_RAMCFG_BASE && address < N6_RAMCFG_BASE + 0x400u &&
        (*word(N6_RCC_AHB2ENR) & N6_RCC_AHB2_RAMCFG) == 0u)
        return;
    if (address >= N6_RIFSC_BASE && address < N6_RIFSC_BASE + 0x1000u &&
        (*word(N6_RCC_AHB3ENR) & N6_RCC_AHB3_RIFSC) == 0u)
        return;
    if (address >= N6_CACHEAXI_BASE && address < N6_CACHEAXI_BASE + 0x100u &&
        ((*word(N6_RCC_AHB5ENR) & N6_RCC_AHB5_CACHEAXI) == 0u ||
         (*word(N6_RCC_MEMENR) & N6_RCC_MEM_CACHEAXIRAM) == 0u))
        return;
    if (address >= N6_RCC_CSR && address < N6_RCC_CCR) { /* sets bits of the register 0x800 before */
        *word(address == N6_RCC_CSR ? N6_RCC_SR : address - 0x800u) |= value;
        return;
    }
    if (address >= N6_RCC_CCR && address < N6_RCC_BASE + 0x1800u) { /* clears them */
        *word(address == N6_RCC_CCR ? N6_RCC_SR : address - 0x1000u) &= ~value;
        return;
    }
    *word(address) = value;
}

void reg_write8(uint32_t address, uint8_t value)
{
    printf("%08x %08x\n", address, value);
}

void reg_barrier(void)
{
}

int nf_mpu_init(void)
{
    printf("mpu\n");
    return 0;
}

int main(void)
{
    for (uint32_t i = 0u; i < board_stage_count; ++i) {
        printf("stage %s\n", board_stages[i].name);
        const nf_status status = board_stages[i].run();
        if (status != NF_OK) {
            printf("failed %d\n", (int)status);
            return 1;
        }
    }
    return 0;
}

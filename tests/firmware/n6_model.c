/* A modelled STM32N6 for bring-up: registers are words, gated ones drop writes, RAM needs clock and power.
 * Every write is printed as address and value. */
#include "bringup.h"
#include "nf_mpu.h"
#include "reg.h"
#include "stm32n6_regs.h"

#include <stdio.h>

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

/* Bring-up of the STM32N6: each stage leaves its part in a known state, whatever ran before. */
#include "bringup.h"

#include "board_config.h"
#include "reg.h"
#include "stm32n6_regs.h"

#include <stddef.h>

/* The core voltage, before any clock needs it. */
static nf_status voltage(void)
{
    const uint32_t pin = BOARD_SMPS_PIN;
    reg_write(N6_RCC_AHB4ENSR, N6_RCC_AHB4_PWR | N6_RCC_AHB4_GPIO(BOARD_SMPS_PORT));
    (void)reg_read(N6_RCC_AHB4ENR); /* a clock is on when the register has been read back */
    /* the pin selects the output of the external regulator: high is 0.9 V */
    reg_write(N6_GPIO_BASE(BOARD_SMPS_PORT) + N6_GPIO_BSRR,
              BOARD_OVERDRIVE != 0u ? 1u << pin : 1u << (pin + 16u));
    reg_modify(N6_GPIO_BASE(BOARD_SMPS_PORT) + N6_GPIO_MODER, 3u << (2u * pin), 1u << (2u * pin));
    const uint32_t scale = BOARD_OVERDRIVE != 0u ? N6_PWR_VOSCR_VOS : 0u;
    reg_modify(N6_PWR_VOSCR, N6_PWR_VOSCR_VOS, scale);
    return reg_wait(N6_PWR_VOSCR, N6_PWR_VOSCR_VOSRDY, N6_PWR_VOSCR_VOSRDY) ? NF_OK : NF_E_TIMEOUT;
}

static int pll_on(uint32_t number, const board_pll *pll)
{
    const uint32_t at = (number - 1u) * N6_RCC_PLL_STRIDE;
    reg_write(N6_RCC_CCR, N6_RCC_PLLON(number));
    if (!reg_wait(N6_RCC_SR, N6_RCC_PLLON(number), 0u))
        return 0;
    /* source HSI, no bypass, no fraction, no modulation */
    reg_write(N6_RCC_PLL1CFGR1 + at,
              N6_RCC_PLLCFGR1_DIVM(pll->m) | N6_RCC_PLLCFGR1_DIVN(pll->n));
    reg_write(N6_RCC_PLL1CFGR2 + at, 0u);
    reg_write(N6_RCC_PLL1CFGR3 + at, N6_RCC_PLLCFGR3_MODSSDIS | N6_RCC_PLLCFGR3_MODSSRST |
                                         N6_RCC_PLLCFGR3_PDIV1(pll->p1) |
                                         N6_RCC_PLLCFGR3_PDIV2(pll->p2) |
                                         N6_RCC_PLLCFGR3_PDIVEN);
    reg_write(N6_RCC_CSR, N6_RCC_PLLON(number));
    return reg_wait(N6_RCC_SR, N6_RCC_PLLON(number), N6_RCC_PLLON(number));
}

/* Clocks of the plan's operating point: processor IC1, buses IC2, NPU IC6, its RAM IC11. Everything
 * runs from the HSI oscillator while the PLLs change. */
static nf_status clocks(void)
{
    const uint32_t switches = N6_RCC_CFGR1_CPUSW(3u) | N6_RCC_CFGR1_SYSSW(3u);
    const uint32_t states = N6_RCC_CFGR1_CPUSWS(3u) | N6_RCC_CFGR1_SYSSWS(3u);
    const uint32_t dividers =
        N6_RCC_DIVEN_IC(1u) | N6_RCC_DIVEN_IC(2u) | N6_RCC_DIVEN_IC(6u) | N6_RCC_DIVEN_IC(11u);
    static const board_pll plls[3] = {BOARD_PLL1, BOARD_PLL2, BOARD_PLL3};
    reg_write(N6_RCC_CSR, N6_RCC_HSION);
    if (!reg_wait(N6_RCC_SR, N6_RCC_HSION, N6_RCC_HSION))
        return NF_E_TIMEOUT;
    reg_clear(N6_RCC_CFGR1, switches);
    if (!reg_wait(N6_RCC_CFGR1, states, 0u))
        return NF_E_TIMEOUT;
    for (uint32_t i = 0u; i < 3u; ++i)
        if (!pll_on(i + 1u, &plls[i]))
            return NF_E_TIMEOUT;
    reg_write(N6_RCC_IC1CFGR, N6_RCC_ICCFGR_SEL(1u) | N6_RCC_ICCFGR_INT(BOARD_IC1_DIVIDER));
    reg_write(N6_RCC_IC2CFGR, N6_RCC_ICCFGR_SEL(1u) | N6_RCC_ICCFGR_INT(BOARD_IC2_DIVIDER));
    reg_write(N6_RCC_IC6CFGR, N6_RCC_ICCFGR_SEL(2u) | N6_RCC_ICCFGR_INT(1u));
    reg_write(N6_RCC_IC11CFGR, N6_RCC_ICCFGR_SEL(3u) | N6_RCC_ICCFGR_INT(1u));
    reg_write(N6_RCC_DIVENSR, dividers);
    /* AHB at half the bus clock, every APB at that of the AHB */
    reg_write(N6_RCC_CFGR2, N6_RCC_CFGR2_HPRE(1u));
    reg_set(N6_RCC_CFGR1, switches);
    return reg_wait(N6_RCC_CFGR1, states, states) ? NF_OK : NF_E_TIMEOUT;
}

/* Whether a word of RAM keeps what is written; it is put back. */
static int keeps(uint32_t address)
{
    const uint32_t before = reg_read(address);
    reg_write(address, ~before);
    reg_barrier();
    const int kept = reg_read(address) == ~before;
    reg_write(address, before);
    return kept;
}

/* The banks of RAM that the memory plan uses. RAMCFG's own clock comes first: its registers drop what
 * is written while it is off. Each bank is proved by its first and last word. */
static nf_status ram_banks(void)
{
    static const board_bank banks[] = {BOARD_RAM_BANKS};
    reg_write(N6_RCC_AHB2ENSR, N6_RCC_AHB2_RAMCFG);
    (void)reg_read(N6_RCC_AHB2ENR);
    for (uint32_t i = 0u; i < sizeof banks / sizeof banks[0]; ++i) {
        const uint32_t control = N6_RAMCFG_AXISRAM_CR(banks[i].number);
        reg_write(N6_RCC_MEMENSR, banks[i].clock);
        (void)reg_read(N6_RCC_MEMENR);
        reg_clear(control, N6_RAMCFG_CR_SRAMSD);
        reg_barrier();
        if ((reg_read(control) & N6_RAMCFG_CR_SRAMSD) != 0u)
            return NF_E_UNPOWERED;
        if (!keeps(banks[i].base) || !keeps(banks[i].base + banks[i].bytes - 4u))
            return NF_E_UNPOWERED;
    }
    return NF_OK;
}

/* Clock and reset of the NPU. */
static nf_status npu(void)
{
    reg_write(N6_RCC_AHB5ENSR, N6_RCC_AHB5_NPU);
    (void)reg_read(N6_RCC_AHB5ENR);
    reg_write(N6_RCC_AHB5RSTSR, N6_RCC_AHB5_NPU);
    reg_barrier();
    reg_write(N6_RCC_AHB5RSTCR, N6_RCC_AHB5_NPU);
    return reg_wait(N6_RCC_AHB5RSTR, N6_RCC_AHB5_NPU, 0u) ? NF_OK : NF_E_TIMEOUT;
}

/* The cache between NPU and external memory. It lies on the NPU's path even when nothing is cached, and
 * needs its RAM. The first enable after reset is refused while it clears itself. */
static nf_status npu_cache(void)
{
    reg_write(N6_RCC_MEMENSR, N6_RCC_MEM_CACHEAXIRAM);
    (void)reg_read(N6_RCC_MEMENR);
    reg_write(N6_RCC_AHB5ENSR, N6_RCC_AHB5_CACHEAXI);
    (void)reg_read(N6_RCC_AHB5ENR);
    reg_write(N6_RCC_AHB5RSTSR, N6_RCC_AHB5_CACHEAXI);
    reg_barrier();
    reg_write(N6_RCC_AHB5RSTCR, N6_RCC_AHB5_CACHEAXI);
    if (!reg_wait(N6_CACHEAXI_SR, N6_CACHEAXI_SR_BUSYF | N6_CACHEAXI_SR_BUSYCMDF, 0u))
        return NF_E_TIMEOUT;
    reg_set(N6_CACHEAXI_CR1, N6_CACHEAXI_CR1_EN);
    return reg_wait(N6_CACHEAXI_CR1, N6_CACHEAXI_CR1_EN, N6_CACHEAXI_CR1_EN) ? NF_OK : NF_E_TIMEOUT;
}

/* Isolation: the NPU as a secure and privileged master of compartment 1, and its registers marked alike,
 * for the master's attribute is ignored otherwise. The filters of the memories (RISAF) keep their reset
 * state, which lets this compartment in; writing that of the RAM that is executed from locks the
 * processor out. Illegal accesses raise an interrupt that says so. */
static nf_status isolation(void)
{
    const uint32_t attributes = N6_RIFSC_RIMC_ATTR_MCID(1u) | N6_RIFSC_RIMC_ATTR_MSEC |
                                N6_RIFSC_RIMC_ATTR_MPRIV;
    reg_write(N6_RCC_AHB3ENSR, N6_RCC_AHB3_RIFSC | N6_RCC_AHB3_IAC);
    (void)reg_read(N6_RCC_AHB3ENR);
    reg_modify(N6_RIFSC_RIMC_ATTR(N6_RIFSC_MASTER_NPU),
               attributes | N6_RIFSC_RIMC_ATTR_MCID(7u), attributes);
    reg_set(N6_RIFSC_RISC_SECCFGR(N6_RIFSC_NPU_WORD), N6_RIFSC_NPU_BIT);
    reg_set(N6_RIFSC_RISC_PRIVCFGR(N6_RIFSC_NPU_WORD), N6_RIFSC_NPU_BIT);
    for (uint32_t i = 0u; i < N6_IAC_WORDS; ++i) {
        reg_write(N6_IAC_ICR(i), 0xFFFFFFFFu);
        reg_write(N6_IAC_IER(i), 0xFFFFFFFFu);
    }
    const int open = (reg_read(N6_RIFSC_RISC_SECCFGR(N6_RIFSC_NPU_WORD)) & N6_RIFSC_NPU_BIT) != 0u &&
                     (reg_read(N6_RIFSC_RIMC_ATTR(N6_RIFSC_MASTER_NPU)) & attributes) == attributes;
    return open ? NF_OK : NF_E_CLOSED;
}

static nf_status flash(void)
{
    return BOARD_USES_FLASH != 0u ? board_map_flash() : NF_OK;
}

static nf_status psram(void)
{
    return BOARD_USES_PSRAM != 0u ? board_map_psram() : NF_OK;
}

/* Clocks that go on while the processor waits for an event: what the NPU works with. */
static nf_status sleep_clocks(void)
{
    reg_write(N6_RCC_AHB5LPENSR, N6_RCC_AHB5_NPU | N6_RCC_AHB5_CACHEAXI | N6_RCC_AHB5_XSPI1 |
                                     N6_RCC_AHB5_XSPI2);
    reg_write(N6_RCC_MEMLPENSR, N6_RCC_MEM_FLEXRAM | N6_RCC_MEM_AXISRAM1 | N6_RCC_MEM_AXISRAM2 |
                                    N6_RCC_MEM_AXISRAM3 | N6_RCC_MEM_AXISRAM4 |
                                    N6_RCC_MEM_AXISRAM5 | N6_RCC_MEM_AXISRAM6 |
                                    N6_RCC_MEM_CACHEAXIRAM);
    return NF_OK;
}

/* Interrupt lines: those of the NPU stay secure, for the program is; their priority is below the tick
 * and within what the kernel of an RTOS may mask. They are enabled by who runs the NPU, when its state
 * exists: a stale completion would be served before. */
static nf_status interrupts(void)
{
    for (uint32_t irq = N6_IRQ_NPU0; irq <= N6_IRQ_CACHEAXI; ++irq) {
        reg_clear(N6_NVIC_ITNS(irq / 32u), 1u << (irq % 32u));
        reg_write8(N6_NVIC_IPR(0u) + irq, BOARD_NPU_PRIORITY);
    }
    reg_write8(N6_NVIC_IPR(0u) + N6_IRQ_IAC, 0u);
    reg_write(N6_NVIC_ISER(N6_IRQ_IAC / 32u), 1u << (N6_IRQ_IAC % 32u));
    return NF_OK;
}

__attribute__((weak)) void board_hook(const char *stage)
{
    (void)stage;
}

__attribute__((weak)) nf_status board_map_psram(void)
{
    return NF_E_UNPOWERED;
}

const board_stage board_stages[] = {
    {"voltage", voltage},
    {"clocks", clocks},
    {"console", board_console_on},
    {"ram_banks", ram_banks},
    {"npu", npu},
    {"npu_cache", npu_cache},
    {"isolation", isolation},
    {"flash", flash},
    {"psram", psram},
    {"sleep_clocks", sleep_clocks},
    {"interrupts", interrupts},
    {"caches", board_caches_on},
};
const uint32_t board_stage_count = sizeof board_stages / sizeof board_stages[0];

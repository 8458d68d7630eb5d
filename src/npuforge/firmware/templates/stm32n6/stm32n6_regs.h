/* Registers of the STM32N657 that bring-up touches: addresses, offsets and bit positions.
 *
 * These are facts of the chip, written down here for this project; no vendor header is needed.
 * Sources: ST reference manual RM0486 (memory map; chapters RCC, PWR, RAMCFG, RIF, CACHEAXI, XSPI, USART,
 * GPIO) and the register data of embassy-rs/stm32-data (rcc_n6, pwr_n6, rifsc_n6, risaf_n6, cacheaxi_n6);
 * those of the core: Armv8-M Architecture Reference Manual (SCB, SysTick, NVIC, cache maintenance).
 * Peripheral addresses are the secure aliases. The prefix keeps the names apart from those of a vendor's
 * header, so that both can be included. */
#ifndef STM32N6_REGS_H
#define STM32N6_REGS_H

/* RCC: the registers whose names end in SR set bits, those that end in CR clear them */
#define N6_RCC_BASE 0x56028000u
#define N6_RCC_SR (N6_RCC_BASE + 0x004u)
#define N6_RCC_CFGR1 (N6_RCC_BASE + 0x020u)
#define N6_RCC_CFGR2 (N6_RCC_BASE + 0x024u)
#define N6_RCC_PLL1CFGR1 (N6_RCC_BASE + 0x080u)
#define N6_RCC_PLL1CFGR2 (N6_RCC_BASE + 0x084u)
#define N6_RCC_PLL1CFGR3 (N6_RCC_BASE + 0x088u)
#define N6_RCC_PLL_STRIDE 0x10u
#define N6_RCC_IC1CFGR (N6_RCC_BASE + 0x0C4u)
#define N6_RCC_IC2CFGR (N6_RCC_BASE + 0x0C8u)
#define N6_RCC_IC6CFGR (N6_RCC_BASE + 0x0D8u)
#define N6_RCC_IC11CFGR (N6_RCC_BASE + 0x0ECu)
#define N6_RCC_CCIPR6 (N6_RCC_BASE + 0x158u)
#define N6_RCC_CCIPR13 (N6_RCC_BASE + 0x174u)
#define N6_RCC_MEMENR (N6_RCC_BASE + 0x24Cu)
#define N6_RCC_AHB2ENR (N6_RCC_BASE + 0x254u)
#define N6_RCC_AHB3ENR (N6_RCC_BASE + 0x258u)
#define N6_RCC_AHB4ENR (N6_RCC_BASE + 0x25Cu)
#define N6_RCC_AHB5ENR (N6_RCC_BASE + 0x260u)
#define N6_RCC_APB2ENR (N6_RCC_BASE + 0x26Cu)
#define N6_RCC_CSR (N6_RCC_BASE + 0x800u)
#define N6_RCC_AHB5RSTR (N6_RCC_BASE + 0x220u)
#define N6_RCC_AHB5RSTSR (N6_RCC_BASE + 0xA20u)
#define N6_RCC_DIVENSR (N6_RCC_BASE + 0xA40u)
#define N6_RCC_MEMENSR (N6_RCC_BASE + 0xA4Cu)
#define N6_RCC_AHB2ENSR (N6_RCC_BASE + 0xA54u)
#define N6_RCC_AHB3ENSR (N6_RCC_BASE + 0xA58u)
#define N6_RCC_AHB4ENSR (N6_RCC_BASE + 0xA5Cu)
#define N6_RCC_AHB5ENSR (N6_RCC_BASE + 0xA60u)
#define N6_RCC_APB2ENSR (N6_RCC_BASE + 0xA6Cu)
#define N6_RCC_MEMLPENSR (N6_RCC_BASE + 0xA8Cu)
#define N6_RCC_AHB5LPENSR (N6_RCC_BASE + 0xAA0u)
#define N6_RCC_CCR (N6_RCC_BASE + 0x1000u)
#define N6_RCC_AHB5RSTCR (N6_RCC_BASE + 0x1220u)

#define N6_RCC_CFGR1_CPUSW(x) ((uint32_t)(x) << 16)
#define N6_RCC_CFGR1_CPUSWS(x) ((uint32_t)(x) << 20)
#define N6_RCC_CFGR1_SYSSW(x) ((uint32_t)(x) << 24)
#define N6_RCC_CFGR1_SYSSWS(x) ((uint32_t)(x) << 28)
#define N6_RCC_CFGR2_HPRE(x) ((uint32_t)(x) << 20)
#define N6_RCC_HSION (1u << 3) /* in CSR; the ready flag in SR is at the same place */
#define N6_RCC_PLLON(n) (0x100u << ((n) - 1u)) /* in CSR, CCR; the ready flag in SR is at the same place */
#define N6_RCC_PLLCFGR1_BYP (1u << 27)
#define N6_RCC_PLLCFGR1_DIVM(x) ((uint32_t)(x) << 20)
#define N6_RCC_PLLCFGR1_DIVN(x) ((uint32_t)(x) << 8)
#define N6_RCC_PLLCFGR3_PDIVEN (1u << 30)
#define N6_RCC_PLLCFGR3_PDIV1(x) ((uint32_t)(x) << 27)
#define N6_RCC_PLLCFGR3_PDIV2(x) ((uint32_t)(x) << 24)
#define N6_RCC_PLLCFGR3_MODSSRST (1u << 0)
#define N6_RCC_PLLCFGR3_MODSSDIS (1u << 2)
#define N6_RCC_ICCFGR_SEL(pll) (((uint32_t)(pll) - 1u) << 28)
#define N6_RCC_ICCFGR_INT(divider) (((uint32_t)(divider) - 1u) << 16)
#define N6_RCC_DIVEN_IC(n) (1u << ((n) - 1u))
#define N6_RCC_CCIPR6_XSPI2SEL (3u << 4)
#define N6_RCC_CCIPR13_USART1SEL (7u << 0)
#define N6_RCC_USART1SEL_HSI 6u
#define N6_RCC_AHB2_RAMCFG (1u << 12)
#define N6_RCC_AHB3_RIFSC (1u << 9)
#define N6_RCC_AHB3_IAC (1u << 10)
#define N6_RCC_AHB4_PWR (1u << 18)
#define N6_RCC_AHB4_GPIO(port) (1u << (port)) /* number of the port: A is 0 */
#define N6_RCC_AHB5_XSPI1 (1u << 5)
#define N6_RCC_AHB5_XSPI2 (1u << 12)
#define N6_RCC_AHB5_XSPIM (1u << 13)
#define N6_RCC_AHB5_CACHEAXI (1u << 30)
#define N6_RCC_AHB5_NPU (1u << 31)
#define N6_RCC_APB2_USART1 (1u << 4)
#define N6_RCC_MEM_AXISRAM3 (1u << 0)
#define N6_RCC_MEM_AXISRAM4 (1u << 1)
#define N6_RCC_MEM_AXISRAM5 (1u << 2)
#define N6_RCC_MEM_AXISRAM6 (1u << 3)
#define N6_RCC_MEM_AXISRAM1 (1u << 7)
#define N6_RCC_MEM_AXISRAM2 (1u << 8)
#define N6_RCC_MEM_FLEXRAM (1u << 9)
#define N6_RCC_MEM_CACHEAXIRAM (1u << 10)

#define N6_PWR_BASE 0x56024800u
#define N6_PWR_VOSCR (N6_PWR_BASE + 0x020u)
#define N6_PWR_SVMCR3 (N6_PWR_BASE + 0x03Cu)
#define N6_PWR_VOSCR_VOS (1u << 0)
#define N6_PWR_VOSCR_VOSRDY (1u << 1)
#define N6_PWR_VOSCR_ACTVOS (1u << 16)
#define N6_PWR_VOSCR_ACTVOSRDY (1u << 17)
#define N6_PWR_SVMCR3_VDDIO3SV (1u << 9)
#define N6_PWR_SVMCR3_VDDIO3VRSEL (1u << 26)

/* one control register a RAM: AXISRAM1 is number 1 */
#define N6_RAMCFG_BASE 0x52023000u
#define N6_RAMCFG_AXISRAM_CR(n) (N6_RAMCFG_BASE + ((n) - 1u) * 0x80u)
#define N6_RAMCFG_CR_SRAMSD (1u << 20)

#define N6_RIFSC_BASE 0x54024000u
#define N6_RIFSC_RISC_SECCFGR(n) (N6_RIFSC_BASE + 0x010u + (n) * 4u)
#define N6_RIFSC_RISC_PRIVCFGR(n) (N6_RIFSC_BASE + 0x030u + (n) * 4u)
#define N6_RIFSC_RIMC_ATTR(n) (N6_RIFSC_BASE + 0xC10u + (n) * 4u)
#define N6_RIFSC_RIMC_ATTR_MCID(x) ((uint32_t)(x) << 4)
#define N6_RIFSC_RIMC_ATTR_MSEC (1u << 8)
#define N6_RIFSC_RIMC_ATTR_MPRIV (1u << 9)
#define N6_RIFSC_MASTER_NPU 1u
#define N6_RIFSC_NPU_WORD 3u
#define N6_RIFSC_NPU_BIT (1u << 10)

#define N6_IAC_BASE 0x54025000u
#define N6_IAC_IER(n) (N6_IAC_BASE + 0x000u + (n) * 4u)
#define N6_IAC_ISR(n) (N6_IAC_BASE + 0x080u + (n) * 4u)
#define N6_IAC_ICR(n) (N6_IAC_BASE + 0x100u + (n) * 4u)
#define N6_IAC_WORDS 5u

#define N6_CACHEAXI_BASE 0x580DFC00u
#define N6_CACHEAXI_CR1 (N6_CACHEAXI_BASE + 0x000u)
#define N6_CACHEAXI_SR (N6_CACHEAXI_BASE + 0x004u)
#define N6_CACHEAXI_CR1_EN (1u << 0)
#define N6_CACHEAXI_SR_BUSYF (1u << 0)
#define N6_CACHEAXI_SR_BUSYCMDF (1u << 3)

#define N6_XSPI1_BASE 0x58025000u
#define N6_XSPI2_BASE 0x5802A000u
#define N6_XSPI_CR 0x000u
#define N6_XSPI_DCR1 0x008u
#define N6_XSPI_DCR2 0x00Cu
#define N6_XSPI_SR 0x020u
#define N6_XSPI_FCR 0x024u
#define N6_XSPI_DLR 0x040u
#define N6_XSPI_DR 0x050u
#define N6_XSPI_CCR 0x100u
#define N6_XSPI_TCR 0x108u
#define N6_XSPI_IR 0x110u
#define N6_XSPI_CR_EN (1u << 0)
#define N6_XSPI_CR_ABORT (1u << 1)
#define N6_XSPI_CR_TCEN (1u << 3)
#define N6_XSPI_CR_FMODE(x) ((uint32_t)(x) << 28)
#define N6_XSPI_DCR1_CSHT(x) ((uint32_t)(x) << 8)
#define N6_XSPI_DCR1_DEVSIZE(x) ((uint32_t)(x) << 16)
#define N6_XSPI_DCR1_MTYP_MACRONIX (1u << 24)
#define N6_XSPI_SR_TCF (1u << 1)
#define N6_XSPI_SR_BUSY (1u << 5)
#define N6_XSPI_CCR_IMODE(x) ((uint32_t)(x) << 0) /* 1: one line, 4: eight lines */
#define N6_XSPI_CCR_IDTR (1u << 3)
#define N6_XSPI_CCR_ISIZE(x) ((uint32_t)(x) << 4) /* 0: one byte, 1: two bytes */
#define N6_XSPI_CCR_ADMODE(x) ((uint32_t)(x) << 8)
#define N6_XSPI_CCR_ADSIZE(x) ((uint32_t)(x) << 12) /* 3: four bytes */
#define N6_XSPI_CCR_ADDTR (1u << 11)
#define N6_XSPI_CCR_DMODE(x) ((uint32_t)(x) << 24)
#define N6_XSPI_CCR_DDTR (1u << 27)
#define N6_XSPI_CCR_DQSE (1u << 29)
#define N6_XSPI_TCR_DCYC(x) ((uint32_t)(x) << 0)
#define N6_XSPI_TCR_DHQC (1u << 28) /* hold data a quarter cycle longer: needed for double rate */
#define N6_XSPI_WCCR 0x180u
#define N6_XSPI_AR 0x048u

/* BSEC: one word for each fuse word, as the boot ROM loaded it */
#define N6_BSEC_BASE 0x56009000u
#define N6_BSEC_FVR(word) (N6_BSEC_BASE + (word) * 4u)
#define N6_FUSE_IO_SPEED 124u
#define N6_FUSE_VDDIO3_HSLV (1u << 15)
#define N6_FUSE_VDDIO2_HSLV (1u << 16)

#define N6_USART1_BASE 0x52001000u
#define N6_USART1_CR1 (N6_USART1_BASE + 0x00u)
#define N6_USART1_BRR (N6_USART1_BASE + 0x0Cu)
#define N6_USART1_ISR (N6_USART1_BASE + 0x1Cu)
#define N6_USART1_TDR (N6_USART1_BASE + 0x28u)
#define N6_USART_CR1_UE (1u << 0)
#define N6_USART_CR1_TE (1u << 3)
#define N6_USART_ISR_TXE (1u << 7)

/* number of the port: A is 0, N is 13 */
#define N6_GPIO_BASE(port) (0x56020000u + (uint32_t)(port) * 0x400u)
#define N6_GPIO_MODER 0x00u
#define N6_GPIO_OSPEEDR 0x08u
#define N6_GPIO_PUPDR 0x0Cu
#define N6_GPIO_BSRR 0x18u
#define N6_GPIO_AFRL 0x20u /* pins 0 to 7; those of 8 to 15 are in the next word */
#define N6_GPIO_PORT_B 1u
#define N6_GPIO_PORT_E 4u
#define N6_GPIO_PORT_F 5u
#define N6_GPIO_PORT_N 13u
#define N6_GPIO_AF_USART1 7u
#define N6_GPIO_AF_XSPIM_P2 9u

/* Cortex-M55 */
#define N6_SYST_CSR 0xE000E010u
#define N6_SYST_RVR 0xE000E014u
#define N6_SYST_CVR 0xE000E018u
#define N6_NVIC_ISER(n) (0xE000E100u + (n) * 4u)
#define N6_NVIC_ITNS(n) (0xE000E380u + (n) * 4u)
#define N6_NVIC_IPR(irq) (0xE000E400u + ((irq) & ~3u))
#define N6_SCB_VTOR 0xE000ED08u
#define N6_SCB_CCR 0xE000ED14u
#define N6_SCB_SHPR3 0xE000ED20u
#define N6_SCB_CFSR 0xE000ED28u
#define N6_SCB_BFAR 0xE000ED38u
#define N6_SCB_CCSIDR 0xE000ED80u
#define N6_SCB_CSSELR 0xE000ED84u
#define N6_SCB_CPACR 0xE000ED88u
#define N6_SCB_ICIALLU 0xE000EF50u
#define N6_SCB_DCISW 0xE000EF60u
#define N6_SCB_CCR_DC (1u << 16)
#define N6_SCB_CCR_IC (1u << 17)
#define N6_SCB_DCCIMVAC 0xE000EF70u
#define N6_SCB_DCIMVAC 0xE000EF5Cu
#define N6_SCB_DCCMVAC 0xE000EF68u
#define N6_MEMSYSCTL_MSCR 0xE001E000u
#define N6_MSCR_DCACTIVE (1u << 12)
#define N6_MSCR_ICACTIVE (1u << 13)

#define N6_IRQ_IAC 13u
#define N6_IRQ_NPU0 53u
#define N6_IRQ_NPU3 56u
#define N6_IRQ_CACHEAXI 57u

#endif

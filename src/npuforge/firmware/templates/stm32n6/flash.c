/* The octal NOR flash on XSPI2 (Macronix MX66UW1G45G or MX25UM51245G), mapped for reading.
 *
 * Commands, registers and the 20 dummy cycles of configuration register 2: Macronix data sheets. The
 * flash may be in any mode, for the boot ROM and the boot loader used it: it is reset in each. */
#include "board_config.h"
#include "bringup.h"
#include "reg.h"
#include "stm32n6_regs.h"

#define XSPI N6_XSPI2_BASE
#define WRITE_ENABLE 0x06u
#define RESET_ENABLE 0x66u
#define RESET_MEMORY 0x99u
#define WRITE_CONFIGURATION_2 0x72u
#define READ_OCTAL_DOUBLE_RATE 0xEE11u
#define CONFIGURATION_MODE 0x000u    /* register addresses in configuration register 2 */
#define CONFIGURATION_DUMMIES 0x300u
#define MODE_OCTAL_DOUBLE_RATE 2u
#define DUMMIES_20 0u
#define DUMMY_CYCLES 20u

#define ONE_LINE N6_XSPI_CCR_IMODE(1u)
#define OCTAL (N6_XSPI_CCR_IMODE(4u) | N6_XSPI_CCR_ISIZE(1u))
#define OCTAL_DOUBLE (OCTAL | N6_XSPI_CCR_IDTR)

uint32_t board_flash_mhz;

/* AHB clocks, at 200 MHz at most: long enough for the time that is meant, at any clock below. */
static void pause_us(uint32_t us)
{
    for (uint32_t i = 0u; i < us * 50u; ++i)
        (void)reg_read(XSPI + N6_XSPI_SR);
}

static int finished(void)
{
    if (!reg_wait(XSPI + N6_XSPI_SR, N6_XSPI_SR_TCF, N6_XSPI_SR_TCF))
        return 0;
    reg_write(XSPI + N6_XSPI_FCR, N6_XSPI_SR_TCF);
    return reg_wait(XSPI + N6_XSPI_SR, N6_XSPI_SR_BUSY, 0u);
}

/* An instruction without address and data; the second byte in octal mode is the complement. */
static int instruct(uint32_t mode, uint32_t code)
{
    const uint32_t octal = mode == ONE_LINE ? code : code << 8 | (~code & 0xFFu);
    reg_modify(XSPI + N6_XSPI_CR, N6_XSPI_CR_FMODE(3u), N6_XSPI_CR_FMODE(0u));
    reg_write(XSPI + N6_XSPI_TCR, 0u);
    reg_write(XSPI + N6_XSPI_CCR, mode);
    reg_write(XSPI + N6_XSPI_IR, octal);
    return finished();
}

/* A byte to configuration register 2, in one-line mode. */
static int configure(uint32_t address, uint8_t value)
{
    if (!instruct(ONE_LINE, WRITE_ENABLE))
        return 0;
    reg_write(XSPI + N6_XSPI_DLR, 0u); /* one byte */
    reg_write(XSPI + N6_XSPI_CCR, ONE_LINE | N6_XSPI_CCR_ADMODE(1u) | N6_XSPI_CCR_ADSIZE(3u) |
                                      N6_XSPI_CCR_DMODE(1u));
    reg_write(XSPI + N6_XSPI_IR, WRITE_CONFIGURATION_2);
    reg_write(XSPI + N6_XSPI_AR, address);
    reg_write8(XSPI + N6_XSPI_DR, value);
    return finished();
}

static int reset_flash(void)
{
    static const uint32_t modes[] = {ONE_LINE, OCTAL, OCTAL_DOUBLE};
    for (uint32_t i = 0u; i < sizeof modes / sizeof modes[0]; ++i)
        if (!instruct(modes[i], RESET_ENABLE) || !instruct(modes[i], RESET_MEMORY))
            return 0;
    pause_us(100000u); /* the longest reset: out of an erase */
    return 1;
}

/* Pins 0 to 6 and 8 to 11 of port N: strobe, select, data and clock. */
static void connect_pins(void)
{
    const uint32_t port = N6_GPIO_BASE(N6_GPIO_PORT_N);
    reg_write(N6_RCC_AHB4ENSR, N6_RCC_AHB4_PWR | N6_RCC_AHB4_GPIO(N6_GPIO_PORT_N));
    (void)reg_read(N6_RCC_AHB4ENR);
    /* the supply of these pins is 1.8 V */
    reg_set(N6_PWR_SVMCR3, N6_PWR_SVMCR3_VDDIO3SV | N6_PWR_SVMCR3_VDDIO3VRSEL);
    for (uint32_t pin = 0u; pin < 12u; ++pin) {
        if (pin == 7u)
            continue;
        const uint32_t function = port + N6_GPIO_AFRL + 4u * (pin / 8u);
        reg_modify(port + N6_GPIO_OSPEEDR, 3u << (2u * pin), 3u << (2u * pin));
        reg_modify(port + N6_GPIO_PUPDR, 3u << (2u * pin), (pin == 1u ? 1u : 0u) << (2u * pin));
        reg_modify(function, 15u << (4u * (pin % 8u)), N6_GPIO_AF_XSPIM_P2 << (4u * (pin % 8u)));
        reg_modify(port + N6_GPIO_MODER, 3u << (2u * pin), 2u << (2u * pin));
    }
}

nf_status board_map_flash(void)
{
    connect_pins();
    reg_modify(N6_RCC_CCIPR6, N6_RCC_CCIPR6_XSPI2SEL, 0u); /* the AHB clock, 200 MHz */
    reg_write(N6_RCC_AHB5ENSR, N6_RCC_AHB5_XSPI2 | N6_RCC_AHB5_XSPIM);
    (void)reg_read(N6_RCC_AHB5ENR);
    reg_write(N6_RCC_AHB5RSTSR, N6_RCC_AHB5_XSPI2);
    reg_barrier();
    reg_write(N6_RCC_AHB5RSTCR, N6_RCC_AHB5_XSPI2);
    reg_write(XSPI + N6_XSPI_DCR1, N6_XSPI_DCR1_MTYP_MACRONIX | N6_XSPI_DCR1_CSHT(1u) |
                                       N6_XSPI_DCR1_DEVSIZE(BOARD_FLASH_LOG2 - 1u));
    reg_write(XSPI + N6_XSPI_DCR2, 3u); /* a quarter of the clock until the mode is set */
    reg_write(XSPI + N6_XSPI_CR, N6_XSPI_CR_EN);
    if (!reg_wait(XSPI + N6_XSPI_SR, N6_XSPI_SR_BUSY, 0u) || !reset_flash())
        return NF_E_TIMEOUT;
    if (!configure(CONFIGURATION_DUMMIES, DUMMIES_20) ||
        !configure(CONFIGURATION_MODE, MODE_OCTAL_DOUBLE_RATE))
        return NF_E_TIMEOUT;
    pause_us(1000u);
    const int fast = (reg_read(N6_BSEC_FVR(N6_FUSE_IO_SPEED)) & N6_FUSE_VDDIO3_HSLV) != 0u;
    board_flash_mhz = fast ? 200u : 50u;
    reg_write(XSPI + N6_XSPI_DCR2, fast ? 0u : 3u);
    if (!reg_wait(XSPI + N6_XSPI_SR, N6_XSPI_SR_BUSY, 0u))
        return NF_E_TIMEOUT;
    reg_modify(XSPI + N6_XSPI_CR, N6_XSPI_CR_FMODE(3u), N6_XSPI_CR_FMODE(3u));
    reg_write(XSPI + N6_XSPI_TCR, N6_XSPI_TCR_DCYC(DUMMY_CYCLES) | N6_XSPI_TCR_DHQC);
    reg_write(XSPI + N6_XSPI_CCR, OCTAL_DOUBLE | N6_XSPI_CCR_ADMODE(4u) | N6_XSPI_CCR_ADDTR |
                                      N6_XSPI_CCR_ADSIZE(3u) | N6_XSPI_CCR_DMODE(4u) |
                                      N6_XSPI_CCR_DDTR | N6_XSPI_CCR_DQSE);
    reg_write(XSPI + N6_XSPI_IR, READ_OCTAL_DOUBLE_RATE);
    reg_barrier();
    return NF_OK;
}

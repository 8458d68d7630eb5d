/* USART1 on PE5, clocked by the HSI oscillator so that its rate does not follow the processor's. */
#include "board_config.h"
#include "bringup.h"
#include "reg.h"
#include "stm32n6_regs.h"

#define HSI_HZ 64000000u
#define BAUD 115200u
#define TX_PIN 5u

static int on;

nf_status board_console_on(void)
{
    const uint32_t port = N6_GPIO_BASE(N6_GPIO_PORT_E);
    reg_write(N6_RCC_AHB4ENSR, N6_RCC_AHB4_GPIO(N6_GPIO_PORT_E));
    reg_modify(N6_RCC_CCIPR13, N6_RCC_CCIPR13_USART1SEL, N6_RCC_USART1SEL_HSI);
    reg_write(N6_RCC_APB2ENSR, N6_RCC_APB2_USART1);
    (void)reg_read(N6_RCC_APB2ENR);
    reg_modify(port + N6_GPIO_AFRL, 15u << (4u * TX_PIN), N6_GPIO_AF_USART1 << (4u * TX_PIN));
    reg_modify(port + N6_GPIO_MODER, 3u << (2u * TX_PIN), 2u << (2u * TX_PIN));
    reg_write(N6_USART1_CR1, 0u);
    reg_write(N6_USART1_BRR, (HSI_HZ + BAUD / 2u) / BAUD);
    reg_write(N6_USART1_CR1, N6_USART_CR1_UE | N6_USART_CR1_TE);
    on = 1;
    return NF_OK;
}

void board_text(const char *text);
void board_text(const char *text)
{
    for (; on && *text != '\0'; ++text) {
        if (!reg_wait(N6_USART1_ISR, N6_USART_ISR_TXE, N6_USART_ISR_TXE))
            return;
        reg_write(N6_USART1_TDR, (uint8_t)*text);
    }
}

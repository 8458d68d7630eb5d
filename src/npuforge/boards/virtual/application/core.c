/* Registers of the core and a serial line. */
#include "board.h"

#include "stm32n6xx_hal.h"

#include <stdio.h>

#define CYCLES_AN_EVENT 800u

CoreDebug_Type npuforge_core_debug;
SCB_Type npuforge_scb;
MEMSYSCTL_Type npuforge_memsysctl;
uint32_t SystemCoreClock = 800000000u;

/* Time goes by when somebody looks at it. */
DWT_Type *npuforge_dwt(void)
{
    static DWT_Type dwt;
    if (dwt.CTRL & DWT_CTRL_CYCCNTENA_Msk)
        dwt.CYCCNT += CYCLES_AN_EVENT;
    vb_event(HERE);
    return &dwt;
}

uint32_t npuforge_cycles(int reset)
{
    static uint32_t cycles;
    vb_event(HERE);
    cycles = reset ? 0u : cycles + CYCLES_AN_EVENT;
    return cycles;
}

HAL_StatusTypeDef HAL_UART_Transmit(UART_HandleTypeDef *uart, const uint8_t *data, uint16_t bytes,
                                    uint32_t timeout)
{
    (void)uart;
    (void)timeout;
    vb_cpu((uintptr_t)data, bytes, 0, HERE);
    fwrite(data, 1, bytes, stdout);
    return HAL_OK;
}

HAL_StatusTypeDef HAL_UART_Receive(UART_HandleTypeDef *uart, uint8_t *data, uint16_t bytes,
                                   uint32_t timeout)
{
    (void)uart;
    (void)timeout;
    vb_event(HERE);
    for (uint32_t i = 0; i < bytes; ++i) {
        vb_cpu((uintptr_t)&data[i], 1, 1, HERE);
        data[i] = (uint8_t)vb_random(256);
    }
    return HAL_OK;
}

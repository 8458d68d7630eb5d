/* A user's inference code for the virtual board, with one mistake a build. Lines that a report must
 * name end with the name of what is wrong there. */
#include "ll_aton_runtime.h"
#include "npuforge_board.h"
#include "stm32n6xx_hal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Default);

#define BYTES 1000u /* of the input; the output has 64 */

static struct {
    uint8_t result[48];
    uint32_t counter; /* in a line of the result's */
} __attribute__((aligned(32))) shared;

static uint8_t frames[2][1024] __attribute__((aligned(32)));
static uint8_t own_output[64] __attribute__((aligned(32)));
static volatile uint32_t ready;
static uint8_t *input, *output;

static void fill(uint8_t *to, int seed)
{
    for (uint32_t i = 0; i < BYTES; ++i)
        to[i] = (uint8_t)(i * 7u + (uint32_t)seed); /* missing_clean in_flight */
}

static uint32_t total(const uint8_t *from, uint32_t bytes)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < bytes; ++i)
        sum += from[i]; /* missing_invalidate */
    return sum;
}

static void run(void)
{
    LL_ATON_RT_RetValues_t answer;
#ifndef NO_RESET
    LL_ATON_RT_Reset_Network(&NN_Instance_Default);
#endif
    do {
        answer = LL_ATON_RT_RunEpochBlock(&NN_Instance_Default); /* run */
#ifdef WRITE_IN_FLIGHT
        if (answer == LL_ATON_RT_WFE)
            fill(input, 3);
#endif
#ifdef FREE_IN_FLIGHT
        if (answer == LL_ATON_RT_WFE && input) {
            free(input); /* freed */
            input = NULL;
        }
#endif
#ifdef RESET_IN_FLIGHT
        if (answer == LL_ATON_RT_WFE)
            LL_ATON_RT_Reset_Network(&NN_Instance_Default); /* reset */
#endif
        if (answer == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE(); /* wait */
    } while (answer != LL_ATON_RT_DONE);
}

static void modify(void)
{
    for (uint32_t i = 0; i < BYTES; ++i)
        input[i] ^= 0x80u; /* modify */
}

static uint32_t started, ended;

static void watch(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *instance,
                  const LL_ATON_RT_EpochBlockItem_t *block)
{
    started += type == LL_ATON_RT_Callbacktype_PRE_START && instance == &NN_Instance_Default;
    ended += type == LL_ATON_RT_Callbacktype_POST_END && block->flags & EpochBlock_Flags_pure_hw;
}

#ifdef CAMERA
static void frame_done(void *buffer, uint32_t number)
{
    (void)buffer;
    ready = number;
}

static void camera_loop(void)
{
    uint8_t *second = CAMERA == 2 ? frames[1] : NULL;
    npuforge_camera_start(frames[0], second, BYTES, 64, frame_done); /* camera */
    for (uint32_t last = 0;;) {
#ifndef NO_WAIT
        while (ready == last)
            __WFE();
        last = ready;
#endif
        /* the last whole frame lies where none is being written now */
        input = frames[CAMERA == 2 ? (last + 1u) & 1u : 0];
        if (LL_ATON_Set_User_Input_Buffer_Default(0, input, BYTES) != LL_ATON_User_IO_NOERROR)
            exit(1);
        run();
        SCB_InvalidateDCache_by_Addr(output, 64);
        printf("%lu\n", (unsigned long)total(output, 64));
#ifdef SLOW
        HAL_Delay(63);
        HAL_Delay(63);
        HAL_Delay(63);
#endif
    }
}
#endif

static void bind(void)
{
#ifdef USER
    static uint8_t plain[1024] __attribute__((aligned(32)));
    input = plain;
    output = own_output;
#endif
#ifdef MISALIGNED
    input = plain + 4;
#endif
#ifdef HEAP
    input = aligned_alloc(32, 1024);
#endif
#ifdef SHARED_LINE
    output = shared.result;
#endif
#ifdef TIGHTLY_COUPLED
    input = (uint8_t *)0x30000000u;
#endif
#ifdef IN_SECTION
    static uint8_t apart[1024] __attribute__((section(IN_SECTION), aligned(32)));
    input = apart;
#endif
#ifdef NOT_BOUND
    return;
#endif
#ifdef USER
    if (LL_ATON_Set_User_Input_Buffer_Default(0, input, BYTES) != 0) /* bind */
        exit(1);
    if (LL_ATON_Set_User_Output_Buffer_Default(0, output, OUTPUT) != 0)
        exit(1);
#elif defined(SET_ALLOCATED)
    LL_ATON_Set_User_Input_Buffer_Default(0, frames[0], BYTES); /* bind_allocated */
#endif
}

int main(void)
{
#ifdef STACK
    uint8_t on_stack[1024] __attribute__((aligned(32)));
#endif
#ifdef MEASURE
    CoreDebug->DEMCR |= CoreDebug_DEMCR_TRCENA_Msk;
    DWT->CTRL |= DWT_CTRL_CYCCNTENA_Msk;
    const uint32_t before = DWT->CYCCNT;
    ARM_PMU_CYCCNT_Reset();
    HAL_NVIC_SetPriority(NPU0_IRQn, 5, 0);
    if (NN_Interface_Default.input_buffers_info()->addr_base.p !=
            LL_ATON_Input_Buffers_Info(&NN_Instance_Default)->addr_base.p ||
        NN_Interface_Default.output_buffers_info()->name == NULL ||
        LL_ATON_EpochBlockItems_Default()->flags == 0u || DWT->CYCCNT == before ||
        ARM_PMU_Get_CCNTR() == 0u || HAL_RCC_GetCpuClockFreq() == 0u)
        return 1;
#endif
    input = LL_Buffer_addr_start(LL_ATON_Input_Buffers_Info_Default());
    output = LL_Buffer_addr_start(LL_ATON_Output_Buffers_Info_Default());
#ifdef CLOCKS
    RAMCFG_HandleTypeDef bank = {RAMCFG_SRAM3_AXI};
    __HAL_RCC_AXISRAM3_MEM_CLK_ENABLE();
#ifdef RAMCFG_REGISTER
    __HAL_RCC_RAMCFG_CLK_ENABLE();
    RAMCFG_SRAM3_AXI->CR &= ~RAMCFG_CR_SRAMSD;
    (void)bank;
#elif defined(RAMCFG_LATE)
    HAL_RAMCFG_EnableAXISRAM(&bank);
    __HAL_RCC_RAMCFG_CLK_ENABLE();
#else
    __HAL_RCC_RAMCFG_CLK_ENABLE();
    HAL_RAMCFG_EnableAXISRAM(&bank);
#endif
#endif
#ifdef NPU_CLOCK
    __HAL_RCC_NPU_CLK_ENABLE();
    __HAL_RCC_AXISRAM3_MEM_CLK_SLEEP_ENABLE();
#endif
#ifndef NO_RUNTIME
    LL_ATON_RT_RuntimeInit();
#endif
    LL_ATON_RT_Init_Network(&NN_Instance_Default);
#ifdef NPU_CACHE
    npu_cache_enable();
#endif
#ifdef CACHEAXI_BUSY
    CACHEAXI_HandleTypeDef cache = {CACHEAXI};
    HAL_CACHEAXI_Init(&cache);
    while (HAL_CACHEAXI_Enable(&cache) == HAL_BUSY)
        ;
#endif
#ifdef CALLBACK
    LL_ATON_RT_SetNetworkCallback(&NN_Instance_Default, watch);
#endif
    bind();
#ifdef STACK
    input = on_stack;
    LL_ATON_Set_User_Input_Buffer_Default(0, input, BYTES);
#endif
#ifdef CAMERA
    camera_loop();
#endif
    for (int n = 0;; ++n) {
#ifdef ENDLESS
        while (!ready) /* endless */
            ;
#endif
#ifndef TIGHTLY_COUPLED
        fill(input, n);
#endif
#ifdef RANGES
        mcu_cache_clean_range((uint32_t)(uintptr_t)input, (uint32_t)(uintptr_t)input + BYTES);
#elif defined(SIZE_FOR_END)
        mcu_cache_clean_range((uint32_t)(uintptr_t)input, BYTES); /* size */
#elif !defined(NO_CLEAN)
        SCB_CleanDCache_by_Addr(input, BYTES);
#endif
#ifdef LOST
        modify();
        SCB_InvalidateDCache_by_Addr(input, BYTES); /* lost */
#endif
#ifdef MODIFY_FIRST
        modify();
        SCB_CleanDCache_by_Addr(input, BYTES);
#endif
#ifdef CACHEAXI_BUSY
    HAL_CACHEAXI_CleanInvalidByAddr(&cache, (const uint32_t *)input, BYTES);
#endif
#ifdef NPU_CACHE_KEPT
        npu_cache_clean_invalidate_range((uint32_t)(uintptr_t)input,
                                         (uint32_t)(uintptr_t)input + BYTES);
#endif
#ifdef BEFORE_ONLY
        SCB_InvalidateDCache_by_Addr(output, 64);
#endif
#ifdef SHARED_LINE
        ++shared.counter; /* neighbour */
#endif
#ifdef MAIN
        LL_ATON_RT_Main(&NN_Instance_Default);
#else
        run();
#endif
#ifdef FREE_IN_FLIGHT
        return 0;
#endif
#if !defined(NO_INVALIDATE) && !defined(BEFORE_ONLY) && !defined(AFTER)
        SCB_InvalidateDCache_by_Addr(output, OUTPUT); /* invalidate */
#endif
#ifdef MEASURE
        char text[32];
        UART_HandleTypeDef uart = {NULL};
        sprintf(text, "%lu\n", (unsigned long)total(output, OUTPUT));
        HAL_UART_Transmit(&uart, (const uint8_t *)text, (uint16_t)strlen(text), HAL_MAX_DELAY);
#else
        printf("%lu\n", (unsigned long)total(output, OUTPUT));
#endif
#ifdef CALLBACK
        if (started != (uint32_t)n + 1u || ended != started)
            return 1;
#endif
#ifdef IN_PLACE
        for (uint32_t i = 0; i < OUTPUT; ++i)
            output[i] ^= 0x80u; /* post-processing writes over the result */
#endif
#ifdef AFTER
        SCB_InvalidateDCache_by_Addr(output, 64);
#endif
#ifdef SHARED_LINE
        if (shared.counter > 1000u) /* reads_neighbour */
            return 1;
#endif
    }
}

/* A pipeline of three threads on the virtual board: a camera's interrupt wakes the network's thread,
 * which wakes the one that reads the result; one mistake a build, one operating system a build. Lines
 * that a report must name end with the name of what is wrong there. */
#include "ll_aton_runtime.h"
#include "npuforge_board.h"
#include "stm32n6xx_hal.h"

#if defined(FREERTOS)
#include "FreeRTOS.h"
#include "queue.h"
#include "semphr.h"
#include "task.h"
typedef SemaphoreHandle_t semaphore;
#define NEW(s, tokens) (s = xSemaphoreCreateCounting(2, tokens))
#define TAKE(s) xSemaphoreTake(s, portMAX_DELAY)
#define GIVE(s) xSemaphoreGive(s)
#define GIVE_ISR(s) xSemaphoreGiveFromISR(s, NULL)
#define SLEEP(n) vTaskDelay(n)
#define THREAD(name) static void name(void *argument)
#define START(name, priority) xTaskCreate(name, #name, 512, NULL, priority, NULL)
#define RUN() vTaskStartScheduler()
static QueueHandle_t results;
#define NEW_QUEUE() (results = xQueueCreate(4, sizeof(uint32_t)))
#define SEND(v) xQueueSend(results, &(v), portMAX_DELAY)
#define RECEIVE(v) xQueueReceive(results, &(v), portMAX_DELAY)
#elif defined(CMSIS)
#include "cmsis_os2.h"
typedef osSemaphoreId_t semaphore;
#define NEW(s, tokens) (s = osSemaphoreNew(2, tokens, NULL))
#define TAKE(s) osSemaphoreAcquire(s, osWaitForever)
#define GIVE(s) osSemaphoreRelease(s)
#define GIVE_ISR(s) osSemaphoreRelease(s)
#define SLEEP(n) osDelay(n)
#define THREAD(name) static void name(void *argument)
#define START(name, level)                                                                         \
    do {                                                                                           \
        const osThreadAttr_t attr = {.priority = osPriorityNormal + (level)};                      \
        osThreadNew(name, NULL, &attr);                                                            \
    } while (0)
#define RUN() (osKernelInitialize(), osKernelStart())
static osMessageQueueId_t results;
#define NEW_QUEUE() (results = osMessageQueueNew(4, sizeof(uint32_t), NULL))
#define SEND(v) osMessageQueuePut(results, &(v), 0, osWaitForever)
#define RECEIVE(v) osMessageQueueGet(results, &(v), NULL, osWaitForever)
#else
#include "tx_api.h"
typedef TX_SEMAPHORE semaphore;
static TX_THREAD handles[3];
static uint32_t stacks[3][256], queue_memory[4];
static TX_QUEUE results;
#define NEW(s, tokens) tx_semaphore_create(&(s), "s", tokens)
#define TAKE(s) tx_semaphore_get(&(s), TX_WAIT_FOREVER)
#define GIVE(s) tx_semaphore_put(&(s))
#define GIVE_ISR(s) tx_semaphore_put(&(s))
#define SLEEP(n) tx_thread_sleep(n)
#define THREAD(name) static void name(ULONG argument)
#define START(name, level)                                                                         \
    tx_thread_create(&handles[(level) - 1], #name, name, 0, stacks[(level) - 1], 1024, 10 - (level), \
                     10 - (level), TX_NO_TIME_SLICE, TX_AUTO_START)
#define RUN() tx_kernel_enter()
#define NEW_QUEUE() tx_queue_create(&results, "results", TX_1_ULONG, queue_memory, sizeof queue_memory)
#define SEND(v) tx_queue_send(&results, &(v), TX_WAIT_FOREVER)
#define RECEIVE(v) tx_queue_receive(&results, &(v), TX_WAIT_FOREVER)
#endif

#include <stdio.h>
#include <stdlib.h>

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Default);

#define BYTES 1000u /* of the input; the output has 64 */

static uint8_t frames[2][1024] __attribute__((aligned(32)));
static uint8_t output[64] __attribute__((aligned(32)));
static volatile uint32_t whole; /* number of the last whole frame */
static semaphore frame_ready, result_ready, result_free;

static void frame_done(void *buffer, uint32_t number)
{
    (void)buffer;
    whole = number;
#ifdef BLOCKS_IN_INTERRUPT
    SLEEP(1); /* interrupt */
#endif
    GIVE_ISR(frame_ready);
}

THREAD(infer)
{
    (void)argument;
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_Default);
    for (;;) {
        LL_ATON_RT_RetValues_t answer;
        TAKE(frame_ready);
#ifndef RESULT_TOO_EARLY
        TAKE(result_free); /* infer_waits */
#endif
        LL_ATON_Set_User_Input_Buffer_Default(0, frames[(whole + 1u) & 1u], BYTES);
        LL_ATON_Set_User_Output_Buffer_Default(0, output, 64);
        LL_ATON_RT_Reset_Network(&NN_Instance_Default);
        do {
            answer = LL_ATON_RT_RunEpochBlock(&NN_Instance_Default); /* run */
            if (answer == LL_ATON_RT_WFE)
                LL_ATON_OSAL_WFE();
        } while (answer != LL_ATON_RT_DONE);
#ifndef NO_INVALIDATE
        SCB_InvalidateDCache_by_Addr(output, 64);
#endif
        GIVE(result_ready);
    }
}

THREAD(post_process)
{
    (void)argument;
    for (;;) {
        uint32_t sum = 0;
        TAKE(result_ready);
        for (uint32_t i = 0; i < 64u; ++i) {
            sum += output[i]; /* reads */
#ifdef RESULT_TOO_EARLY
            SLEEP(3);
#endif
        }
#ifndef DEADLOCK
        GIVE(result_free);
#endif
        SEND(sum);
    }
}

THREAD(show)
{
    (void)argument;
    for (;;) {
        uint32_t sum;
        RECEIVE(sum);
        printf("%lu\n", (unsigned long)sum);
    }
}

static void set_up(void)
{
    NEW(frame_ready, 0);
    NEW(result_ready, 0);
    NEW(result_free, 1);
    NEW_QUEUE();
    START(infer, 3);
    START(post_process, 2);
    START(show, 1);
    npuforge_camera_start(frames[0], frames[1], BYTES, 256, frame_done);
}

#if !defined(FREERTOS) && !defined(CMSIS)
void tx_application_define(void *first)
{
    (void)first;
    set_up();
}
#endif

int main(void)
{
#if defined(FREERTOS) || defined(CMSIS)
    set_up();
#endif
    RUN();
    return 1;
}

/* CMSIS-RTOS2 on the virtual board: what its functions are called and take, over threads of the board's own. */
#ifndef NPUFORGE_CMSIS_OS2_H
#define NPUFORGE_CMSIS_OS2_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    osOK = 0, osError = -1, osErrorTimeout = -2, osErrorResource = -3, osErrorParameter = -4,
    osErrorNoMemory = -5, osErrorISR = -6
} osStatus_t;
typedef enum { osKernelInactive = 0, osKernelReady = 1, osKernelRunning = 2 } osKernelState_t;
typedef enum {
    osPriorityNone = 0, osPriorityIdle = 1, osPriorityLow = 8, osPriorityLow1, osPriorityLow2,
    osPriorityBelowNormal = 16, osPriorityBelowNormal1, osPriorityNormal = 24, osPriorityNormal1,
    osPriorityNormal2, osPriorityAboveNormal = 32, osPriorityAboveNormal1, osPriorityHigh = 40,
    osPriorityHigh1, osPriorityRealtime = 48, osPriorityRealtime1, osPriorityISR = 56
} osPriority_t;

typedef struct npuforge_cmsis_thread *osThreadId_t;
typedef struct npuforge_cmsis_object *osSemaphoreId_t, *osMutexId_t, *osMessageQueueId_t, *osEventFlagsId_t;
typedef void (*osThreadFunc_t)(void *argument);

typedef struct {
    const char *name;
    uint32_t attr_bits;
    void *cb_mem;
    uint32_t cb_size;
    void *stack_mem;
    uint32_t stack_size;
    osPriority_t priority;
    uint32_t tz_module, affinity_mask;
} osThreadAttr_t;
typedef struct {
    const char *name;
    uint32_t attr_bits;
    void *cb_mem;
    uint32_t cb_size;
} osSemaphoreAttr_t, osMutexAttr_t, osEventFlagsAttr_t;
typedef struct {
    const char *name;
    uint32_t attr_bits;
    void *cb_mem;
    uint32_t cb_size;
    void *mq_mem;
    uint32_t mq_size;
} osMessageQueueAttr_t;

#define osWaitForever 0xFFFFFFFFu
#define osFlagsWaitAny 0u
#define osFlagsWaitAll 1u
#define osFlagsNoClear 2u
#define osFlagsError 0x80000000u
#define osFlagsErrorTimeout 0xFFFFFFFEu
#define osFlagsErrorResource 0xFFFFFFFDu
#define osMutexRecursive 1u
#define osMutexPrioInherit 2u

osStatus_t osKernelInitialize(void);
osStatus_t osKernelStart(void);
osKernelState_t osKernelGetState(void);
uint32_t osKernelGetTickCount(void);
uint32_t osKernelGetTickFreq(void);
int32_t osKernelLock(void);
int32_t osKernelUnlock(void);
osStatus_t osDelay(uint32_t ticks);
osStatus_t osDelayUntil(uint32_t tick);

osThreadId_t osThreadNew(osThreadFunc_t code, void *argument, const osThreadAttr_t *attr);
osThreadId_t osThreadGetId(void);
osStatus_t osThreadYield(void);
osStatus_t osThreadSuspend(osThreadId_t thread);
osStatus_t osThreadResume(osThreadId_t thread);
osStatus_t osThreadSetPriority(osThreadId_t thread, osPriority_t priority);
osStatus_t osThreadTerminate(osThreadId_t thread);
void osThreadExit(void);
uint32_t osThreadFlagsSet(osThreadId_t thread, uint32_t flags);
uint32_t osThreadFlagsClear(uint32_t flags);
uint32_t osThreadFlagsWait(uint32_t flags, uint32_t options, uint32_t ticks);

osEventFlagsId_t osEventFlagsNew(const osEventFlagsAttr_t *attr);
uint32_t osEventFlagsSet(osEventFlagsId_t flags, uint32_t bits);
uint32_t osEventFlagsClear(osEventFlagsId_t flags, uint32_t bits);
uint32_t osEventFlagsGet(osEventFlagsId_t flags);
uint32_t osEventFlagsWait(osEventFlagsId_t flags, uint32_t bits, uint32_t options, uint32_t ticks);
osStatus_t osEventFlagsDelete(osEventFlagsId_t flags);

osSemaphoreId_t osSemaphoreNew(uint32_t most, uint32_t first, const osSemaphoreAttr_t *attr);
osStatus_t osSemaphoreAcquire(osSemaphoreId_t semaphore, uint32_t ticks);
osStatus_t osSemaphoreRelease(osSemaphoreId_t semaphore);
uint32_t osSemaphoreGetCount(osSemaphoreId_t semaphore);
osStatus_t osSemaphoreDelete(osSemaphoreId_t semaphore);

osMutexId_t osMutexNew(const osMutexAttr_t *attr);
osStatus_t osMutexAcquire(osMutexId_t mutex, uint32_t ticks);
osStatus_t osMutexRelease(osMutexId_t mutex);
osStatus_t osMutexDelete(osMutexId_t mutex);

osMessageQueueId_t osMessageQueueNew(uint32_t messages, uint32_t bytes, const osMessageQueueAttr_t *attr);
osStatus_t osMessageQueuePut(osMessageQueueId_t queue, const void *message, uint8_t priority, uint32_t ticks);
osStatus_t osMessageQueueGet(osMessageQueueId_t queue, void *message, uint8_t *priority, uint32_t ticks);
uint32_t osMessageQueueGetCount(osMessageQueueId_t queue);
uint32_t osMessageQueueGetSpace(osMessageQueueId_t queue);
osStatus_t osMessageQueueReset(osMessageQueueId_t queue);
osStatus_t osMessageQueueDelete(osMessageQueueId_t queue);

#ifdef __cplusplus
}
#endif
#endif

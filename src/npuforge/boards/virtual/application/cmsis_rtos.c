/* CMSIS-RTOS2's functions over the board's threads. */
#include "threads.h"

#include "cmsis_os2.h"

#include <stdlib.h>

typedef struct npuforge_cmsis_thread {
    uint32_t number;
    osThreadFunc_t code;
    void *argument;
    vb_object *flags;
} thread;

static thread threads[64];

static vb_object *of(const void *id) { return (vb_object *)(uintptr_t)id; }
static thread *self(void) { return &threads[vb_thread_self()]; }

static void begin(void *argument)
{
    (void)argument;
    self()->code(self()->argument);
}

/* What a call that took nothing answers. */
static osStatus_t outcome(int taken, uint32_t ticks)
{
    return taken ? osOK : ticks ? osErrorTimeout : osErrorResource;
}

osStatus_t osKernelInitialize(void) { return osOK; }
osStatus_t osKernelStart(void) { vb_threads_run(); }
osKernelState_t osKernelGetState(void) { return vb_threads_running() ? osKernelRunning : osKernelReady; }
uint32_t osKernelGetTickFreq(void) { return 1000u; }

uint32_t osKernelGetTickCount(void)
{
    vb_event(HERE);
    vb_safe_point();
    return vb_now();
}

int32_t osKernelLock(void) { return vb_lock(1), 0; }

int32_t osKernelUnlock(void)
{
    vb_lock(0);
    vb_safe_point();
    return 1;
}

osStatus_t osDelay(uint32_t ticks)
{
    const vb_place place = HERE;
    if (vb_in_interrupt(place))
        return osErrorISR;
    vb_pause(ticks, place);
    return osOK;
}

osStatus_t osDelayUntil(uint32_t tick)
{
    const vb_place place = HERE;
    const uint32_t left = tick - vb_now();
    if (left == 0 || left > 0x7FFFFFFFu)
        return osErrorParameter;
    vb_pause(left, place);
    return osOK;
}

osThreadId_t osThreadNew(osThreadFunc_t code, void *argument, const osThreadAttr_t *attr)
{
    const uint32_t priority = attr && attr->priority ? (uint32_t)attr->priority : osPriorityNormal;
    const uint32_t number = vb_thread_new(begin, NULL, priority);
    if (!number)
        return NULL;
    threads[number] = (thread){number, code, argument, vb_flags()};
    vb_safe_point();
    return &threads[number];
}

osThreadId_t osThreadGetId(void) { return self(); }

osStatus_t osThreadYield(void)
{
    vb_event(HERE);
    vb_yield();
    return osOK;
}

osStatus_t osThreadSuspend(osThreadId_t t) { return vb_thread_suspend(t->number, HERE), osOK; }
osStatus_t osThreadResume(osThreadId_t t) { return vb_thread_resume(t->number), osOK; }

osStatus_t osThreadSetPriority(osThreadId_t t, osPriority_t to)
{
    return vb_thread_priority(t->number, (uint32_t)to), osOK;
}

osStatus_t osThreadTerminate(osThreadId_t t) { return vb_thread_end(t->number), osOK; }
void osThreadExit(void) { vb_thread_end(0); }

/* --- flags -------------------------------------------------------------------------------------- */

static uint32_t clear(vb_object *o, uint32_t bits)
{
    const uint32_t before = o->count;
    o->count &= ~bits;
    return before;
}

static uint32_t await(vb_object *o, uint32_t bits, uint32_t options, uint32_t ticks, vb_place place)
{
    const int how = (options & osFlagsWaitAll ? VB_ALL : 0) | (options & osFlagsNoClear ? VB_KEEP : 0);
    const uint32_t seen = vb_flags_wait(o, bits, how, ticks, place);
    return seen ? seen : ticks ? osFlagsErrorTimeout : osFlagsErrorResource;
}

uint32_t osThreadFlagsSet(osThreadId_t t, uint32_t bits) { return vb_flags_set(t->flags, bits); }
uint32_t osThreadFlagsClear(uint32_t bits) { return clear(self()->flags, bits); }

uint32_t osThreadFlagsWait(uint32_t bits, uint32_t options, uint32_t ticks)
{
    return await(self()->flags, bits, options, ticks, HERE);
}

osEventFlagsId_t osEventFlagsNew(const osEventFlagsAttr_t *attr)
{
    return (void)attr, (osEventFlagsId_t)vb_flags();
}

uint32_t osEventFlagsSet(osEventFlagsId_t f, uint32_t bits) { return vb_flags_set(of(f), bits); }
uint32_t osEventFlagsClear(osEventFlagsId_t f, uint32_t bits) { return clear(of(f), bits); }
uint32_t osEventFlagsGet(osEventFlagsId_t f) { return of(f)->count; }

uint32_t osEventFlagsWait(osEventFlagsId_t f, uint32_t bits, uint32_t options, uint32_t ticks)
{
    return await(of(f), bits, options, ticks, HERE);
}

/* --- semaphores, mutexes, queues ---------------------------------------------------------------- */

osSemaphoreId_t osSemaphoreNew(uint32_t most, uint32_t first, const osSemaphoreAttr_t *attr)
{
    return (void)attr, (osSemaphoreId_t)vb_semaphore(first, most);
}

osStatus_t osSemaphoreAcquire(osSemaphoreId_t s, uint32_t ticks)
{
    return outcome(vb_semaphore_take(of(s), ticks, HERE), ticks);
}

osStatus_t osSemaphoreRelease(osSemaphoreId_t s) { return vb_semaphore_give(of(s)) ? osOK : osErrorResource; }
uint32_t osSemaphoreGetCount(osSemaphoreId_t s) { return of(s)->count; }

osMutexId_t osMutexNew(const osMutexAttr_t *attr) { return (void)attr, (osMutexId_t)vb_mutex(); }

osStatus_t osMutexAcquire(osMutexId_t m, uint32_t ticks)
{
    const vb_place place = HERE;
    if (vb_in_interrupt(place))
        return osErrorISR;
    return outcome(vb_mutex_take(of(m), ticks, place), ticks);
}

osStatus_t osMutexRelease(osMutexId_t m)
{
    if (vb_in_interrupt(HERE))
        return osErrorISR;
    return vb_mutex_give(of(m)) ? osOK : osErrorResource;
}

osMessageQueueId_t osMessageQueueNew(uint32_t messages, uint32_t bytes, const osMessageQueueAttr_t *attr)
{
    return (void)attr, (osMessageQueueId_t)vb_queue(messages, bytes);
}

osStatus_t osMessageQueuePut(osMessageQueueId_t q, const void *message, uint8_t priority, uint32_t ticks)
{
    (void)priority;
    return outcome(vb_queue_send(of(q), message, 0, ticks, HERE), ticks);
}

osStatus_t osMessageQueueGet(osMessageQueueId_t q, void *message, uint8_t *priority, uint32_t ticks)
{
    if (priority) {
        vb_cpu((uintptr_t)priority, 1, 1, HERE);
        *priority = 0;
    }
    return outcome(vb_queue_receive(of(q), message, 0, ticks, HERE), ticks);
}

uint32_t osMessageQueueGetCount(osMessageQueueId_t q) { return of(q)->count; }
uint32_t osMessageQueueGetSpace(osMessageQueueId_t q) { return of(q)->limit - of(q)->count; }
osStatus_t osMessageQueueReset(osMessageQueueId_t q) { return of(q)->count = 0, vb_given(), osOK; }

static osStatus_t end(void *id) { return vb_object_end(id), osOK; }
osStatus_t osEventFlagsDelete(osEventFlagsId_t f) { return end(f); }
osStatus_t osSemaphoreDelete(osSemaphoreId_t s) { return end(s); }
osStatus_t osMutexDelete(osMutexId_t m) { return end(m); }
osStatus_t osMessageQueueDelete(osMessageQueueId_t q) { return end(q); }

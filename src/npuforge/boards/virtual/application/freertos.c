/* FreeRTOS' functions over the board's threads. */
#include "threads.h"

#include "FreeRTOS.h"

#include <stdlib.h>

/* A task's notification is a value and whether one is pending. */
typedef struct npuforge_task {
    uint32_t number, value;
    int pending;
    TaskFunction_t code;
    void *argument;
} task;

static task tasks[64];

static vb_object *of(const void *handle) { return (vb_object *)(uintptr_t)handle; }
static task *self(void) { return &tasks[vb_thread_self()]; }
static uint32_t number_of(const task *t) { return t ? t->number : 0; }

static void begin(void *argument)
{
    (void)argument;
    self()->code(self()->argument);
}

static BaseType_t woke(BaseType_t *woken, int done)
{
    if (woken)
        *woken = pdFALSE; /* the switch comes at the end of the interrupt anyway */
    return done;
}

TaskHandle_t xTaskCreateStatic(TaskFunction_t code, const char *name, uint32_t words, void *argument,
                               UBaseType_t priority, StackType_t *stack, StaticTask_t *room)
{
    (void)name, (void)words, (void)stack, (void)room;
    const uint32_t number = vb_thread_new(begin, NULL, (uint32_t)priority + 1u);
    if (!number)
        return NULL;
    tasks[number] = (task){.number = number, .code = code, .argument = argument};
    vb_safe_point();
    return &tasks[number];
}

BaseType_t xTaskCreate(TaskFunction_t code, const char *name, uint32_t words, void *argument,
                       UBaseType_t priority, TaskHandle_t *made)
{
    TaskHandle_t t = xTaskCreateStatic(code, name, words, argument, priority, NULL, NULL);
    if (made)
        *made = t;
    return t != NULL;
}

void vTaskDelete(TaskHandle_t t) { vb_thread_end(number_of(t)); }

void vTaskDelay(TickType_t ticks)
{
    const vb_place place = HERE;
    if (!vb_in_interrupt(place))
        vb_pause(ticks, place);
}

BaseType_t xTaskDelayUntil(TickType_t *last, TickType_t period)
{
    const vb_place place = HERE;
    const uint32_t late = vb_now() - *last;
    *last += period;
    if (late >= period)
        return pdFALSE;
    vb_pause(period - late, place);
    return pdTRUE;
}

TickType_t xTaskGetTickCount(void)
{
    vb_event(HERE);
    vb_safe_point();
    return vb_now();
}

TickType_t xTaskGetTickCountFromISR(void) { return vb_now(); }
TaskHandle_t xTaskGetCurrentTaskHandle(void) { return self(); }
UBaseType_t uxTaskPriorityGet(TaskHandle_t t) { return vb_thread_priority_of(number_of(t)) - 1u; }
void vTaskPrioritySet(TaskHandle_t t, UBaseType_t to) { vb_thread_priority(number_of(t), (uint32_t)to + 1u); }
void vTaskSuspend(TaskHandle_t t) { vb_thread_suspend(number_of(t), HERE); }
void vTaskResume(TaskHandle_t t) { vb_thread_resume(number_of(t)); }
void vTaskStartScheduler(void) { vb_threads_run(); }
void vTaskSuspendAll(void) { vb_lock(1); }

BaseType_t xTaskResumeAll(void)
{
    vb_lock(0);
    vb_safe_point();
    return pdFALSE;
}

void npuforge_yield(void)
{
    vb_event(HERE);
    vb_yield();
}

void npuforge_critical(int enter)
{
    vb_lock(enter);
    if (!enter)
        vb_safe_point();
}

/* --- notifications ------------------------------------------------------------------------------ */

static int notify(task *t, uint32_t value, eNotifyAction action)
{
    if (action == eSetValueWithoutOverwrite && t->pending)
        return 0;
    if (action == eSetBits)
        t->value |= value;
    else if (action == eIncrement)
        ++t->value;
    else if (action != eNoAction)
        t->value = value;
    t->pending = 1;
    vb_given();
    vb_safe_point();
    return 1;
}

BaseType_t xTaskNotifyGive(TaskHandle_t t)
{
    vb_in_interrupt(HERE);
    return notify(t, 0, eIncrement);
}

void vTaskNotifyGiveFromISR(TaskHandle_t t, BaseType_t *woken) { woke(woken, notify(t, 0, eIncrement)); }

BaseType_t xTaskNotify(TaskHandle_t t, uint32_t value, eNotifyAction action)
{
    vb_in_interrupt(HERE);
    return notify(t, value, action);
}

BaseType_t xTaskNotifyFromISR(TaskHandle_t t, uint32_t value, eNotifyAction action, BaseType_t *woken)
{
    return woke(woken, notify(t, value, action));
}

static int value_there(void *what) { return ((task *)what)->value != 0; }
static int pending(void *what) { return ((task *)what)->pending; }

uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t ticks)
{
    task *own = self();
    vb_block(value_there, own, ticks, HERE);
    const uint32_t value = own->value;
    own->pending = 0;
    own->value = clear || !value ? 0 : value - 1u;
    return value;
}

BaseType_t xTaskNotifyWait(uint32_t clear_before, uint32_t clear_after, uint32_t *value, TickType_t ticks)
{
    task *own = self();
    if (!own->pending)
        own->value &= ~clear_before;
    const int got = vb_block(pending, own, ticks, HERE);
    if (value)
        *value = own->value;
    if (got)
        own->value &= ~clear_after;
    own->pending = 0;
    return got;
}

/* --- semaphores, queues, event groups ----------------------------------------------------------- */

/* A mutex is told by its owner's field: no semaphore has an owner. */
#define MUTEX 0xFFFFFFFFu

SemaphoreHandle_t xSemaphoreCreateBinary(void) { return (SemaphoreHandle_t)vb_semaphore(0, 1); }

SemaphoreHandle_t xSemaphoreCreateCounting(UBaseType_t most, UBaseType_t first)
{
    return (SemaphoreHandle_t)vb_semaphore((uint32_t)first, (uint32_t)most);
}

SemaphoreHandle_t xSemaphoreCreateMutex(void)
{
    vb_object *o = vb_mutex();
    o->size = MUTEX;
    return (SemaphoreHandle_t)o;
}

BaseType_t xSemaphoreTake(SemaphoreHandle_t s, TickType_t ticks)
{
    const vb_place place = HERE;
    if (of(s)->size == MUTEX)
        return vb_mutex_take(of(s), ticks, place);
    return vb_semaphore_take(of(s), ticks, place);
}

BaseType_t xSemaphoreGive(SemaphoreHandle_t s)
{
    vb_in_interrupt(HERE);
    return of(s)->size == MUTEX ? vb_mutex_give(of(s)) : vb_semaphore_give(of(s));
}

BaseType_t xSemaphoreTakeFromISR(SemaphoreHandle_t s, BaseType_t *woken)
{
    return woke(woken, vb_semaphore_take(of(s), 0, HERE));
}

BaseType_t xSemaphoreGiveFromISR(SemaphoreHandle_t s, BaseType_t *woken)
{
    return woke(woken, vb_semaphore_give(of(s)));
}

UBaseType_t uxSemaphoreGetCount(SemaphoreHandle_t s)
{
    return of(s)->size == MUTEX ? !of(s)->depth : of(s)->count;
}

void vSemaphoreDelete(SemaphoreHandle_t s) { vb_object_end(of(s)); }

QueueHandle_t xQueueCreate(UBaseType_t items, UBaseType_t bytes)
{
    return (QueueHandle_t)vb_queue((uint32_t)items, (uint32_t)bytes);
}

BaseType_t xQueueSendToBack(QueueHandle_t q, const void *item, TickType_t ticks)
{
    vb_in_interrupt(HERE);
    return vb_queue_send(of(q), item, 0, vb_interrupts ? 0 : ticks, HERE);
}

BaseType_t xQueueSendToFront(QueueHandle_t q, const void *item, TickType_t ticks)
{
    vb_in_interrupt(HERE);
    return vb_queue_send(of(q), item, 1, vb_interrupts ? 0 : ticks, HERE);
}

BaseType_t xQueueSendFromISR(QueueHandle_t q, const void *item, BaseType_t *woken)
{
    return woke(woken, vb_queue_send(of(q), item, 0, 0, HERE));
}

BaseType_t xQueueReceive(QueueHandle_t q, void *item, TickType_t ticks)
{
    vb_in_interrupt(HERE);
    return vb_queue_receive(of(q), item, 0, vb_interrupts ? 0 : ticks, HERE);
}

BaseType_t xQueueReceiveFromISR(QueueHandle_t q, void *item, BaseType_t *woken)
{
    return woke(woken, vb_queue_receive(of(q), item, 0, 0, HERE));
}

BaseType_t xQueuePeek(QueueHandle_t q, void *item, TickType_t ticks)
{
    return vb_queue_receive(of(q), item, 1, ticks, HERE);
}

BaseType_t xQueueReset(QueueHandle_t q)
{
    of(q)->count = 0;
    vb_given();
    return pdPASS;
}

BaseType_t xQueueOverwrite(QueueHandle_t q, const void *item)
{
    of(q)->count = 0;
    return vb_queue_send(of(q), item, 0, 0, HERE);
}

UBaseType_t uxQueueMessagesWaiting(QueueHandle_t q) { return of(q)->count; }
UBaseType_t uxQueueSpacesAvailable(QueueHandle_t q) { return of(q)->limit - of(q)->count; }
void vQueueDelete(QueueHandle_t q) { vb_object_end(of(q)); }

EventGroupHandle_t xEventGroupCreate(void) { return (EventGroupHandle_t)vb_flags(); }

EventBits_t xEventGroupSetBits(EventGroupHandle_t g, EventBits_t bits)
{
    vb_in_interrupt(HERE);
    return vb_flags_set(of(g), bits);
}

BaseType_t xEventGroupSetBitsFromISR(EventGroupHandle_t g, EventBits_t bits, BaseType_t *woken)
{
    vb_flags_set(of(g), bits);
    return woke(woken, 1);
}

EventBits_t xEventGroupClearBits(EventGroupHandle_t g, EventBits_t bits)
{
    const EventBits_t before = of(g)->count;
    of(g)->count &= ~bits;
    return before;
}

EventBits_t xEventGroupGetBits(EventGroupHandle_t g) { return of(g)->count; }

EventBits_t xEventGroupWaitBits(EventGroupHandle_t g, EventBits_t bits, BaseType_t clear,
                                BaseType_t all, TickType_t ticks)
{
    const int how = (all ? VB_ALL : 0) | (clear ? 0 : VB_KEEP);
    const uint32_t seen = vb_flags_wait(of(g), bits, how, ticks, HERE);
    return seen ? seen : of(g)->count;
}

void vEventGroupDelete(EventGroupHandle_t g) { vb_object_end(of(g)); }

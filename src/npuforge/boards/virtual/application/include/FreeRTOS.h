/* FreeRTOS on the virtual board: what its kernel's functions are called and take, over threads of the
 * board's own. One header declares all; FreeRTOSConfig.h of the application is read when it is there. */
#ifndef NPUFORGE_FREERTOS_H
#define NPUFORGE_FREERTOS_H

#include <stddef.h>
#include <stdint.h>

#if __has_include("FreeRTOSConfig.h")
#include "FreeRTOSConfig.h"
#endif
#ifndef configTICK_RATE_HZ
#define configTICK_RATE_HZ 1000u
#endif
#ifndef configMINIMAL_STACK_SIZE
#define configMINIMAL_STACK_SIZE 128
#endif
#ifndef configMAX_PRIORITIES
#define configMAX_PRIORITIES 56
#endif
#ifndef configASSERT
#define configASSERT(condition) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef long BaseType_t;
typedef unsigned long UBaseType_t;
typedef uint32_t TickType_t;
typedef uint32_t StackType_t;
typedef struct npuforge_task *TaskHandle_t;
typedef struct npuforge_object *QueueHandle_t, *SemaphoreHandle_t, *EventGroupHandle_t;
typedef TickType_t EventBits_t;
typedef void (*TaskFunction_t)(void *);
typedef struct { uint8_t room[96]; } StaticTask_t;
typedef struct { uint8_t room[80]; } StaticQueue_t;
typedef StaticQueue_t StaticSemaphore_t;
typedef struct { uint8_t room[32]; } StaticEventGroup_t;
typedef enum { eNoAction, eSetBits, eIncrement, eSetValueWithOverwrite, eSetValueWithoutOverwrite } eNotifyAction;

#define pdFALSE ((BaseType_t)0)
#define pdTRUE ((BaseType_t)1)
#define pdFAIL pdFALSE
#define pdPASS pdTRUE
#define errQUEUE_EMPTY pdFALSE
#define errQUEUE_FULL pdFALSE
#define portMAX_DELAY ((TickType_t)0xFFFFFFFFu)
#define portTICK_PERIOD_MS ((TickType_t)(1000u / configTICK_RATE_HZ))
#define pdMS_TO_TICKS(ms) ((TickType_t)((uint64_t)(ms) * configTICK_RATE_HZ / 1000u))
#define tskIDLE_PRIORITY ((UBaseType_t)0)

/* tasks */
BaseType_t xTaskCreate(TaskFunction_t code, const char *name, uint32_t words, void *argument,
                       UBaseType_t priority, TaskHandle_t *task);
TaskHandle_t xTaskCreateStatic(TaskFunction_t code, const char *name, uint32_t words, void *argument,
                               UBaseType_t priority, StackType_t *stack, StaticTask_t *room);
void vTaskDelete(TaskHandle_t task);
void vTaskDelay(TickType_t ticks);
BaseType_t xTaskDelayUntil(TickType_t *last, TickType_t period);
#define vTaskDelayUntil(last, period) ((void)xTaskDelayUntil(last, period))
TickType_t xTaskGetTickCount(void);
TickType_t xTaskGetTickCountFromISR(void);
TaskHandle_t xTaskGetCurrentTaskHandle(void);
UBaseType_t uxTaskPriorityGet(TaskHandle_t task);
void vTaskPrioritySet(TaskHandle_t task, UBaseType_t priority);
void vTaskSuspend(TaskHandle_t task);
void vTaskResume(TaskHandle_t task);
void vTaskStartScheduler(void);
void vTaskSuspendAll(void);
BaseType_t xTaskResumeAll(void);
void npuforge_yield(void);
void npuforge_critical(int enter);
#define taskYIELD() npuforge_yield()
#define portYIELD() npuforge_yield()
#define portYIELD_FROM_ISR(woken) ((void)(woken))
#define portEND_SWITCHING_ISR(woken) ((void)(woken))
#define taskENTER_CRITICAL() npuforge_critical(1)
#define taskEXIT_CRITICAL() npuforge_critical(0)
#define taskENTER_CRITICAL_FROM_ISR() 0u
#define taskEXIT_CRITICAL_FROM_ISR(mask) ((void)(mask))
#define taskDISABLE_INTERRUPTS() npuforge_critical(1)
#define taskENABLE_INTERRUPTS() npuforge_critical(0)

BaseType_t xTaskNotifyGive(TaskHandle_t task);
void vTaskNotifyGiveFromISR(TaskHandle_t task, BaseType_t *woken);
uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t ticks);
BaseType_t xTaskNotify(TaskHandle_t task, uint32_t value, eNotifyAction action);
BaseType_t xTaskNotifyFromISR(TaskHandle_t task, uint32_t value, eNotifyAction action, BaseType_t *woken);
BaseType_t xTaskNotifyWait(uint32_t clear_before, uint32_t clear_after, uint32_t *value, TickType_t ticks);

/* semaphores and mutexes */
SemaphoreHandle_t xSemaphoreCreateBinary(void);
SemaphoreHandle_t xSemaphoreCreateCounting(UBaseType_t most, UBaseType_t first);
SemaphoreHandle_t xSemaphoreCreateMutex(void);
#define xSemaphoreCreateBinaryStatic(room) ((void)(room), xSemaphoreCreateBinary())
#define xSemaphoreCreateCountingStatic(most, first, room) ((void)(room), xSemaphoreCreateCounting(most, first))
#define xSemaphoreCreateMutexStatic(room) ((void)(room), xSemaphoreCreateMutex())
#define xSemaphoreCreateRecursiveMutex() xSemaphoreCreateMutex()
#define xSemaphoreCreateRecursiveMutexStatic(room) xSemaphoreCreateMutexStatic(room)
BaseType_t xSemaphoreTake(SemaphoreHandle_t semaphore, TickType_t ticks);
BaseType_t xSemaphoreGive(SemaphoreHandle_t semaphore);
BaseType_t xSemaphoreTakeFromISR(SemaphoreHandle_t semaphore, BaseType_t *woken);
BaseType_t xSemaphoreGiveFromISR(SemaphoreHandle_t semaphore, BaseType_t *woken);
#define xSemaphoreTakeRecursive(semaphore, ticks) xSemaphoreTake(semaphore, ticks)
#define xSemaphoreGiveRecursive(semaphore) xSemaphoreGive(semaphore)
UBaseType_t uxSemaphoreGetCount(SemaphoreHandle_t semaphore);
void vSemaphoreDelete(SemaphoreHandle_t semaphore);

/* queues */
QueueHandle_t xQueueCreate(UBaseType_t items, UBaseType_t bytes);
#define xQueueCreateStatic(items, bytes, storage, room) ((void)(storage), (void)(room), xQueueCreate(items, bytes))
BaseType_t xQueueSendToBack(QueueHandle_t queue, const void *item, TickType_t ticks);
BaseType_t xQueueSendToFront(QueueHandle_t queue, const void *item, TickType_t ticks);
BaseType_t xQueueSendFromISR(QueueHandle_t queue, const void *item, BaseType_t *woken);
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, TickType_t ticks);
BaseType_t xQueueReceiveFromISR(QueueHandle_t queue, void *item, BaseType_t *woken);
BaseType_t xQueuePeek(QueueHandle_t queue, void *item, TickType_t ticks);
BaseType_t xQueueOverwrite(QueueHandle_t queue, const void *item);
BaseType_t xQueueReset(QueueHandle_t queue);
UBaseType_t uxQueueMessagesWaiting(QueueHandle_t queue);
UBaseType_t uxQueueSpacesAvailable(QueueHandle_t queue);
void vQueueDelete(QueueHandle_t queue);
#define xQueueSend(queue, item, ticks) xQueueSendToBack(queue, item, ticks)
#define xQueueSendToBackFromISR(queue, item, woken) xQueueSendFromISR(queue, item, woken)

/* event groups */
EventGroupHandle_t xEventGroupCreate(void);
#define xEventGroupCreateStatic(room) ((void)(room), xEventGroupCreate())
EventBits_t xEventGroupSetBits(EventGroupHandle_t group, EventBits_t bits);
BaseType_t xEventGroupSetBitsFromISR(EventGroupHandle_t group, EventBits_t bits, BaseType_t *woken);
EventBits_t xEventGroupClearBits(EventGroupHandle_t group, EventBits_t bits);
EventBits_t xEventGroupGetBits(EventGroupHandle_t group);
EventBits_t xEventGroupWaitBits(EventGroupHandle_t group, EventBits_t bits, BaseType_t clear,
                                BaseType_t all, TickType_t ticks);
void vEventGroupDelete(EventGroupHandle_t group);

/* its heap is the C library's here */
void *pvPortMalloc(size_t bytes) __asm__("npuforge_malloc");
void vPortFree(void *block) __asm__("npuforge_free");

#ifdef __cplusplus
}
#endif
#endif

/* ThreadX on the virtual board: what its functions are called and take, over threads of the board's own. */
#ifndef NPUFORGE_TX_API_H
#define NPUFORGE_TX_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void VOID;
typedef char CHAR;
typedef unsigned char UCHAR;
typedef int INT;
typedef unsigned int UINT;
typedef int32_t LONG;
typedef uint32_t ULONG; /* 32 bits, as on the part */

#define NPUFORGE_TX_OBJECT(name) typedef struct { void *object; uint32_t number; CHAR *name_text; uint32_t room[20]; } name
NPUFORGE_TX_OBJECT(TX_THREAD);
NPUFORGE_TX_OBJECT(TX_SEMAPHORE);
NPUFORGE_TX_OBJECT(TX_MUTEX);
NPUFORGE_TX_OBJECT(TX_QUEUE);
NPUFORGE_TX_OBJECT(TX_EVENT_FLAGS_GROUP);
NPUFORGE_TX_OBJECT(TX_BYTE_POOL);

#define TX_SUCCESS 0x00u
#define TX_NO_EVENTS 0x07u
#define TX_QUEUE_EMPTY 0x0Au
#define TX_QUEUE_FULL 0x0Bu
#define TX_NO_INSTANCE 0x0Du
#define TX_THREAD_ERROR 0x0Eu
#define TX_NO_MEMORY 0x10u
#define TX_WAIT_ERROR 0x04u
#define TX_CEILING_EXCEEDED 0x21u
#define TX_NOT_AVAILABLE 0x1Du
#define TX_NOT_OWNED 0x1Eu
#define TX_NO_WAIT 0u
#define TX_WAIT_FOREVER 0xFFFFFFFFu
#define TX_AUTO_START 1u
#define TX_DONT_START 0u
#define TX_NO_TIME_SLICE 0u
#define TX_INHERIT 1u
#define TX_NO_INHERIT 0u
#define TX_OR 0u
#define TX_OR_CLEAR 1u
#define TX_AND 2u
#define TX_AND_CLEAR 3u
#define TX_1_ULONG 1u
#define TX_2_ULONG 2u
#define TX_4_ULONG 4u
#define TX_8_ULONG 8u
#define TX_16_ULONG 16u
#ifndef TX_TIMER_TICKS_PER_SECOND
#define TX_TIMER_TICKS_PER_SECOND 1000u
#endif
#define TX_TRUE 1u
#define TX_FALSE 0u
#define TX_NULL NULL

/* given by the application */
VOID tx_application_define(VOID *first_unused_memory);

VOID tx_kernel_enter(VOID);
UINT tx_thread_create(TX_THREAD *thread, CHAR *name, VOID (*entry)(ULONG), ULONG input, VOID *stack,
                      ULONG stack_bytes, UINT priority, UINT threshold, ULONG slice, UINT start);
UINT tx_thread_terminate(TX_THREAD *thread);
UINT tx_thread_suspend(TX_THREAD *thread);
UINT tx_thread_resume(TX_THREAD *thread);
UINT tx_thread_sleep(ULONG ticks);
VOID tx_thread_relinquish(VOID);
ULONG tx_time_get(VOID);

UINT tx_semaphore_create(TX_SEMAPHORE *semaphore, CHAR *name, ULONG count);
UINT tx_semaphore_delete(TX_SEMAPHORE *semaphore);
UINT tx_semaphore_get(TX_SEMAPHORE *semaphore, ULONG ticks);
UINT tx_semaphore_put(TX_SEMAPHORE *semaphore);
UINT tx_semaphore_ceiling_put(TX_SEMAPHORE *semaphore, ULONG ceiling);
UINT tx_mutex_create(TX_MUTEX *mutex, CHAR *name, UINT inherit);
UINT tx_mutex_delete(TX_MUTEX *mutex);
UINT tx_mutex_get(TX_MUTEX *mutex, ULONG ticks);
UINT tx_mutex_put(TX_MUTEX *mutex);
UINT tx_queue_create(TX_QUEUE *queue, CHAR *name, UINT words, VOID *memory, ULONG bytes);
UINT tx_queue_delete(TX_QUEUE *queue);
UINT tx_queue_send(TX_QUEUE *queue, VOID *message, ULONG ticks);
UINT tx_queue_front_send(TX_QUEUE *queue, VOID *message, ULONG ticks);
UINT tx_queue_receive(TX_QUEUE *queue, VOID *message, ULONG ticks);
UINT tx_queue_flush(TX_QUEUE *queue);
UINT tx_event_flags_create(TX_EVENT_FLAGS_GROUP *group, CHAR *name);
UINT tx_event_flags_delete(TX_EVENT_FLAGS_GROUP *group);
UINT tx_event_flags_set(TX_EVENT_FLAGS_GROUP *group, ULONG flags, UINT option);
UINT tx_event_flags_get(TX_EVENT_FLAGS_GROUP *group, ULONG flags, UINT option, ULONG *actual, ULONG ticks);

UINT tx_byte_pool_create(TX_BYTE_POOL *pool, CHAR *name, VOID *memory, ULONG bytes);
UINT tx_byte_pool_delete(TX_BYTE_POOL *pool);
UINT tx_byte_allocate(TX_BYTE_POOL *pool, VOID **block, ULONG bytes, ULONG ticks);
void npuforge_tx_free(void *block) __asm__("npuforge_free");
#define tx_byte_release(block) (npuforge_tx_free(block), TX_SUCCESS)

#ifdef __cplusplus
}
#endif
#endif

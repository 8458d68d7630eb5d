/* ThreadX' functions over the board's threads. */
#include "threads.h"

#include "tx_api.h"

#include <stdlib.h>

#define LOWEST 1024u /* there the smaller number goes first */

typedef struct call {
    void (*entry)(ULONG);
    ULONG input;
} call;

void *npuforge_malloc(size_t bytes);

/* An application of another system has none; its absence is no error of the link. */
void tx_application_define(void *first_unused_memory) __attribute__((weak));

static void begin(void *argument)
{
    const call *c = argument;
    c->entry(c->input);
}

/* The application's own structure holds the object: the board writes it as the CPU would. */
static void keep(void **object, vb_object *made, vb_place place)
{
    vb_cpu((uintptr_t)object, sizeof *object, 1, place);
    *object = made;
}

VOID tx_kernel_enter(VOID)
{
    if (tx_application_define)
        tx_application_define(NULL);
    vb_threads_run();
}

UINT tx_thread_create(TX_THREAD *thread, CHAR *name, VOID (*entry)(ULONG), ULONG input, VOID *stack,
                      ULONG stack_bytes, UINT priority, UINT threshold, ULONG slice, UINT start)
{
    const vb_place place = HERE;
    (void)name, (void)stack, (void)stack_bytes, (void)threshold, (void)slice;
    call *c = malloc(sizeof *c);
    if (!c)
        abort();
    *c = (call){entry, input};
    const uint32_t number = vb_thread_new(begin, c, LOWEST - (priority < LOWEST ? priority : LOWEST - 1u));
    if (!number)
        return TX_THREAD_ERROR;
    vb_cpu((uintptr_t)&thread->number, sizeof thread->number, 1, place);
    thread->number = number;
    if (!start)
        vb_thread_suspend(number, place);
    vb_safe_point();
    return TX_SUCCESS;
}

UINT tx_thread_terminate(TX_THREAD *t) { return vb_thread_end(t->number), TX_SUCCESS; }
UINT tx_thread_suspend(TX_THREAD *t) { return vb_thread_suspend(t->number, HERE), TX_SUCCESS; }
UINT tx_thread_resume(TX_THREAD *t) { return vb_thread_resume(t->number), TX_SUCCESS; }

UINT tx_thread_sleep(ULONG ticks)
{
    const vb_place place = HERE;
    if (vb_in_interrupt(place))
        return TX_WAIT_ERROR;
    vb_pause(ticks, place);
    return TX_SUCCESS;
}

VOID tx_thread_relinquish(VOID)
{
    vb_event(HERE);
    vb_yield();
}

ULONG tx_time_get(VOID)
{
    vb_event(HERE);
    vb_safe_point();
    return vb_now();
}

UINT tx_semaphore_create(TX_SEMAPHORE *s, CHAR *name, ULONG count)
{
    (void)name;
    return keep(&s->object, vb_semaphore(count, 0xFFFFFFFFu), HERE), TX_SUCCESS;
}

UINT tx_semaphore_get(TX_SEMAPHORE *s, ULONG ticks)
{
    return vb_semaphore_take(s->object, ticks, HERE) ? TX_SUCCESS : TX_NO_INSTANCE;
}

UINT tx_semaphore_put(TX_SEMAPHORE *s) { return vb_semaphore_give(s->object), TX_SUCCESS; }

UINT tx_semaphore_ceiling_put(TX_SEMAPHORE *s, ULONG ceiling)
{
    vb_object *o = s->object;
    if (o->count >= ceiling)
        return TX_CEILING_EXCEEDED;
    return vb_semaphore_give(o), TX_SUCCESS;
}

UINT tx_mutex_create(TX_MUTEX *m, CHAR *name, UINT inherit)
{
    (void)name, (void)inherit;
    return keep(&m->object, vb_mutex(), HERE), TX_SUCCESS;
}

UINT tx_mutex_get(TX_MUTEX *m, ULONG ticks)
{
    return vb_mutex_take(m->object, ticks, HERE) ? TX_SUCCESS : TX_NOT_AVAILABLE;
}

UINT tx_mutex_put(TX_MUTEX *m) { return vb_mutex_give(m->object) ? TX_SUCCESS : TX_NOT_OWNED; }

UINT tx_queue_create(TX_QUEUE *q, CHAR *name, UINT words, VOID *memory, ULONG bytes)
{
    (void)name, (void)memory;
    return keep(&q->object, vb_queue(words ? bytes / (4u * words) : 0, 4u * words), HERE), TX_SUCCESS;
}

UINT tx_queue_send(TX_QUEUE *q, VOID *message, ULONG ticks)
{
    return vb_queue_send(q->object, message, 0, ticks, HERE) ? TX_SUCCESS : TX_QUEUE_FULL;
}

UINT tx_queue_front_send(TX_QUEUE *q, VOID *message, ULONG ticks)
{
    return vb_queue_send(q->object, message, 1, ticks, HERE) ? TX_SUCCESS : TX_QUEUE_FULL;
}

UINT tx_queue_receive(TX_QUEUE *q, VOID *message, ULONG ticks)
{
    return vb_queue_receive(q->object, message, 0, ticks, HERE) ? TX_SUCCESS : TX_QUEUE_EMPTY;
}

UINT tx_queue_flush(TX_QUEUE *q)
{
    vb_object *o = q->object;
    o->count = 0;
    return vb_given(), TX_SUCCESS;
}

UINT tx_event_flags_create(TX_EVENT_FLAGS_GROUP *g, CHAR *name)
{
    (void)name;
    return keep(&g->object, vb_flags(), HERE), TX_SUCCESS;
}

UINT tx_event_flags_set(TX_EVENT_FLAGS_GROUP *g, ULONG flags, UINT option)
{
    vb_object *o = g->object;
    if (option & TX_AND)
        o->count &= flags;
    else
        vb_flags_set(o, flags);
    return TX_SUCCESS;
}

UINT tx_event_flags_get(TX_EVENT_FLAGS_GROUP *g, ULONG flags, UINT option, ULONG *actual, ULONG ticks)
{
    const vb_place place = HERE;
    const int how = (option & TX_AND ? VB_ALL : 0) | (option & TX_OR_CLEAR ? 0 : VB_KEEP);
    const uint32_t seen = vb_flags_wait(g->object, flags, how, ticks, place);
    vb_cpu((uintptr_t)actual, sizeof *actual, 1, place);
    *actual = seen;
    return seen ? TX_SUCCESS : TX_NO_EVENTS;
}

static UINT end(void **object)
{
    vb_object_end(*object);
    *object = NULL;
    return TX_SUCCESS;
}

UINT tx_semaphore_delete(TX_SEMAPHORE *s) { return end(&s->object); }
UINT tx_mutex_delete(TX_MUTEX *m) { return end(&m->object); }
UINT tx_queue_delete(TX_QUEUE *q) { return end(&q->object); }
UINT tx_event_flags_delete(TX_EVENT_FLAGS_GROUP *g) { return end(&g->object); }

/* Pools give the heap's blocks: what is freed too early is found there. */
UINT tx_byte_pool_create(TX_BYTE_POOL *pool, CHAR *name, VOID *memory, ULONG bytes)
{
    (void)pool, (void)name, (void)memory, (void)bytes;
    return TX_SUCCESS;
}

UINT tx_byte_pool_delete(TX_BYTE_POOL *pool) { return (void)pool, TX_SUCCESS; }

UINT tx_byte_allocate(TX_BYTE_POOL *pool, VOID **block, ULONG bytes, ULONG ticks)
{
    (void)pool, (void)ticks;
    void *made = npuforge_malloc(bytes);
    vb_cpu((uintptr_t)block, sizeof *block, 1, HERE);
    *block = made;
    return made ? TX_SUCCESS : TX_NO_MEMORY;
}

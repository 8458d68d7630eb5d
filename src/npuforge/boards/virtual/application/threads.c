/* Threads: contexts of the host, switched where the application enters the board or touches memory. */
#include "threads.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define MOST 48u
#define SLICE 512u  /* one access of so many ends a thread's turn among equals */
#define IDLE 20000u /* ticks without a ready thread */

typedef enum state { FREE, READY, WAITING, SUSPENDED } state;

typedef struct thread {
    ucontext_t context;
    state state;
    uint32_t priority;
    void (*entry)(void *);
    void *argument;
    vb_try attempt;
    void *what;
    uint32_t since, ticks;
    int got;
    vb_place place; /* where it waits */
} thread;

static thread threads[MOST + 1u]; /* 0: main, which is no thread once they run */
static uint32_t current, count, locks;
static int running, given;

uint32_t vb_thread_self(void) { return current; }
int vb_threads_running(void) { return running; }
void vb_given(void) { given = 1; }

int vb_in_interrupt(vb_place place)
{
    if (vb_interrupts)
        vb_report(VB_INTERRUPT_CALL, 0, place, place, 0);
    return vb_interrupts != 0;
}

static void enter(void)
{
    threads[current].entry(threads[current].argument);
    vb_thread_end(0);
}

static void prepare(thread *t, void *stack)
{
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = stack;
    t->context.uc_stack.ss_size = VB_THREAD_STACK;
    makecontext(&t->context, enter, 0);
}

uint32_t vb_thread_new(void (*entry)(void *), void *argument, uint32_t priority)
{
    uint32_t i = 1;
    while (i <= MOST && threads[i].state != FREE)
        ++i;
    if (i > MOST)
        return 0;
    threads[i] = (thread){.state = READY, .priority = priority, .entry = entry, .argument = argument};
    prepare(&threads[i], vb_thread_stack(i - 1u));
    count = i > count ? i : count;
    given = 1;
    return i;
}

static int goes_on(thread *t)
{
    if (t->state != WAITING)
        return t->state == READY;
    if (t->attempt && t->attempt(t->what)) {
        t->got = 1;
    } else if (t->ticks == VB_FOREVER || vb_now() - t->since < t->ticks) {
        return 0;
    }
    t->state = READY;
    return 1;
}

/* The ready thread of highest priority, among equals any but the current one when it gives way;
 * 0: none. Waiting ones are tried in that order: who goes first takes it. */
static uint32_t choose(int gives_way)
{
    uint32_t below = 0xFFFFFFFFu;
    const uint32_t turn = vb_random(count);
    for (;;) {
        int any = 0;
        uint32_t priority = 0;
        for (uint32_t i = 1; i <= count; ++i)
            if ((threads[i].state == READY || threads[i].state == WAITING) &&
                threads[i].priority < below && threads[i].priority >= priority) {
                priority = threads[i].priority;
                any = 1;
            }
        if (!any)
            return 0;
        thread *own = &threads[current];
        if (!gives_way && current && own->priority == priority && goes_on(own))
            return current;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t at = 1u + (i + turn) % count;
            if (at != current && threads[at].priority == priority && goes_on(&threads[at]))
                return at;
        }
        if (gives_way && current && own->priority == priority && goes_on(own))
            return current;
        if (priority == 0)
            return 0;
        below = priority;
    }
}

static _Noreturn void stuck(void)
{
    const thread *worst = NULL;
    for (uint32_t i = 0; i <= count; ++i)
        if (threads[i].state == WAITING && threads[i].ticks == VB_FOREVER &&
            (!worst || threads[i].priority > worst->priority))
            worst = &threads[i];
    const vb_place place = worst ? worst->place : vb_last;
    vb_report(VB_HANG, 0, place, place, 0);
    vb_finish();
    abort();
}

static void go_on(int gives_way)
{
    uint32_t next;
    given = 0;
    for (uint32_t idle = 0; (next = choose(gives_way)) == 0; ++idle) {
        if (idle == IDLE)
            stuck();
        vb_event(vb_last);
    }
    if (next == current)
        return;
    const uint32_t before = current;
    current = next;
    swapcontext(&threads[before].context, &threads[next].context);
}

void vb_safe_point(void)
{
    if (!running || vb_interrupts || locks)
        return;
    if (given)
        go_on(0);
    else if (vb_random(SLICE) == 0)
        go_on(1);
}

void vb_yield(void)
{
    if (running && !vb_interrupts && !locks)
        go_on(1);
}

void vb_lock(int more)
{
    if (more)
        ++locks;
    else if (locks > 0)
        --locks;
}

int vb_block(vb_try attempt, void *what, uint32_t ticks, vb_place place)
{
    vb_last = place;
    if (attempt && attempt(what)) {
        vb_safe_point();
        return 1;
    }
    if (ticks == 0 || vb_in_interrupt(place))
        return 0;
    vb_event(place);
    thread *own = &threads[current];
    own->state = WAITING;
    own->attempt = attempt;
    own->what = what;
    own->since = vb_now();
    own->ticks = ticks;
    own->got = 0;
    own->place = place;
    if (running) {
        go_on(0);
        return own->got;
    }
    for (uint32_t idle = 0; !goes_on(own); ++idle) { /* main, before there are threads */
        if (idle == IDLE)
            stuck();
        vb_event(place);
    }
    return own->got;
}

void vb_pause(uint32_t ticks, vb_place place)
{
    if (ticks == 0)
        vb_yield();
    else
        vb_block(NULL, NULL, ticks, place);
}

void vb_thread_end(uint32_t number)
{
    const uint32_t ended = number ? number : current;
    threads[ended].state = FREE;
    if (ended == current && running)
        go_on(0);
}

void vb_thread_suspend(uint32_t number, vb_place place)
{
    thread *t = &threads[number ? number : current];
    t->state = SUSPENDED;
    t->place = place;
    if (t == &threads[current] && running)
        go_on(0);
}

void vb_thread_resume(uint32_t number)
{
    if (threads[number].state == SUSPENDED)
        threads[number].state = READY;
    vb_given();
    vb_safe_point();
}

uint32_t vb_thread_priority_of(uint32_t number)
{
    return threads[number ? number : current].priority;
}

void vb_thread_priority(uint32_t number, uint32_t priority)
{
    threads[number ? number : current].priority = priority;
    vb_given();
    vb_safe_point();
}

_Noreturn void vb_threads_run(void)
{
    running = 1;
    locks = 0;
    threads[0].state = FREE;
    go_on(0);
    abort(); /* main is never chosen again */
}

/* --- objects ------------------------------------------------------------------------------------ */

typedef struct request {
    vb_object *object;
    void *item;
    uint32_t flags;
    int how;
    uint32_t thread;
    vb_place place;
} request;

static vb_object *object(uint32_t count_, uint32_t limit, uint32_t bytes)
{
    vb_object *o = calloc(1, sizeof *o);
    if (!o || !(o->items = calloc(limit ? limit : 1u, bytes ? bytes : 1u)))
        abort();
    o->count = count_;
    o->limit = limit;
    o->size = bytes;
    return o;
}

vb_object *vb_semaphore(uint32_t tokens, uint32_t limit)
{
    vb_object *o = object(tokens, 1, 0);
    o->limit = limit;
    return o;
}

vb_object *vb_mutex(void) { return object(0, 1, 0); }
vb_object *vb_queue(uint32_t items, uint32_t bytes) { return object(0, items, bytes); }
vb_object *vb_flags(void) { return object(0, 1, 0); }

void vb_object_end(vb_object *o)
{
    if (o)
        free(o->items);
    free(o);
}

static int take_token(void *what)
{
    vb_object *o = ((request *)what)->object;
    if (o->count == 0)
        return 0;
    --o->count;
    return 1;
}

int vb_semaphore_take(vb_object *o, uint32_t ticks, vb_place place)
{
    request r = {.object = o};
    return vb_block(take_token, &r, ticks, place);
}

int vb_semaphore_give(vb_object *o)
{
    if (o->count >= o->limit)
        return 0;
    ++o->count;
    vb_given();
    vb_safe_point();
    return 1;
}

static int take_mutex(void *what)
{
    const request *r = what;
    vb_object *o = r->object;
    if (o->depth && o->owner != r->thread)
        return 0;
    o->owner = r->thread;
    ++o->depth;
    return 1;
}

int vb_mutex_take(vb_object *o, uint32_t ticks, vb_place place)
{
    request r = {.object = o, .thread = current};
    return vb_block(take_mutex, &r, ticks, place);
}

int vb_mutex_give(vb_object *o)
{
    if (!o->depth || o->owner != current)
        return 0;
    if (--o->depth == 0)
        vb_given();
    vb_safe_point();
    return 1;
}

static int put_item(void *what)
{
    const request *r = what;
    vb_object *o = r->object;
    if (o->count == o->limit)
        return 0;
    if (r->how)
        o->first = (o->first + o->limit - 1u) % o->limit;
    const uint32_t at = r->how ? o->first : (o->first + o->count) % o->limit;
    ++o->count;
    if (o->size)
        vb_copy(o->items + (size_t)at * o->size, r->item, o->size, r->place);
    vb_given();
    return 1;
}

int vb_queue_send(vb_object *o, const void *item, int in_front, uint32_t ticks, vb_place place)
{
    request r = {.object = o, .item = (void *)(uintptr_t)item, .how = in_front, .place = place};
    return vb_block(put_item, &r, ticks, place);
}

static int get_item(void *what)
{
    const request *r = what;
    vb_object *o = r->object;
    if (o->count == 0)
        return 0;
    if (o->size)
        vb_copy(r->item, o->items + (size_t)o->first * o->size, o->size, r->place);
    if (!r->how) {
        o->first = (o->first + 1u) % o->limit;
        --o->count;
        vb_given();
    }
    return 1;
}

int vb_queue_receive(vb_object *o, void *item, int keep, uint32_t ticks, vb_place place)
{
    request r = {.object = o, .item = item, .how = keep, .place = place};
    return vb_block(get_item, &r, ticks, place);
}

uint32_t vb_flags_set(vb_object *o, uint32_t flags)
{
    const uint32_t now = o->count |= flags;
    vb_given();
    vb_safe_point();
    return now;
}

static int take_flags(void *what)
{
    request *r = what;
    vb_object *o = r->object;
    const uint32_t here = o->count & r->flags;
    if (r->how & VB_ALL ? here != r->flags : !here)
        return 0;
    const uint32_t before = o->count;
    if (!(r->how & VB_KEEP))
        o->count &= ~r->flags;
    r->flags = before;
    return 1;
}

uint32_t vb_flags_wait(vb_object *o, uint32_t flags, int how, uint32_t ticks, vb_place place)
{
    request r = {.object = o, .flags = flags, .how = how};
    return vb_block(take_flags, &r, ticks, place) ? r.flags : 0;
}

/* Threads of an application, whatever its operating system calls them: one runs at a time, the ready
 * one of highest priority; what they wait for are objects that are tried. */
#ifndef VB_THREADS_H
#define VB_THREADS_H

#include "board.h"

#define VB_FOREVER 0xFFFFFFFFu

/* Tries to take what a thread waits for: 1 when it was taken. */
typedef int (*vb_try)(void *what);

/* A new thread, ready once the threads run; its number from 1, or 0 when there are too many. A larger
 * priority goes first. */
uint32_t vb_thread_new(void (*entry)(void *), void *argument, uint32_t priority);
uint32_t vb_thread_self(void);
void vb_thread_end(uint32_t number); /* 0: the calling one */
void vb_thread_suspend(uint32_t number, vb_place place);
void vb_thread_resume(uint32_t number);
void vb_thread_priority(uint32_t number, uint32_t priority);
uint32_t vb_thread_priority_of(uint32_t number);
_Noreturn void vb_threads_run(void);
int vb_threads_running(void);

/* Wait until `attempt` takes it (1), or so many ticks are over (0). An interrupt may not wait. */
int vb_block(vb_try attempt, void *what, uint32_t ticks, vb_place place);
void vb_pause(uint32_t ticks, vb_place place);
void vb_yield(void);
/* Something was given: somebody may be ready now. */
void vb_given(void);
/* No other thread runs until as many unlocks. */
void vb_lock(int more);
/* A place where another thread may go on. */
void vb_safe_point(void);
/* A call that an interrupt may not make: is it one? */
int vb_in_interrupt(vb_place place);

/* --- objects ------------------------------------------------------------------------------------ */

typedef struct vb_object {
    uint32_t count, limit; /* tokens of a semaphore, items of a queue; count: flags of events */
    uint32_t size, first;  /* bytes of an item, the oldest item */
    uint32_t owner, depth; /* thread that holds a mutex, how often */
    uint8_t *items;
} vb_object;

enum { VB_ALL = 1, VB_KEEP = 2 }; /* of flags: all of them; leave them set */

vb_object *vb_semaphore(uint32_t count, uint32_t limit);
vb_object *vb_mutex(void);
vb_object *vb_queue(uint32_t items, uint32_t bytes);
vb_object *vb_flags(void);
void vb_object_end(vb_object *object);

int vb_semaphore_take(vb_object *object, uint32_t ticks, vb_place place);
int vb_semaphore_give(vb_object *object); /* 0: it is full */
int vb_mutex_take(vb_object *object, uint32_t ticks, vb_place place);
int vb_mutex_give(vb_object *object); /* 0: another thread holds it */
int vb_queue_send(vb_object *object, const void *item, int in_front, uint32_t ticks, vb_place place);
int vb_queue_receive(vb_object *object, void *item, int keep, uint32_t ticks, vb_place place);
uint32_t vb_flags_set(vb_object *object, uint32_t flags);
/* The flags as they were when the condition held; 0 on a time-out. */
uint32_t vb_flags_wait(vb_object *object, uint32_t flags, int how, uint32_t ticks, vb_place place);

#endif

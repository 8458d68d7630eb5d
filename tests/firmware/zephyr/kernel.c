/* The stand-in's kernel: on a PC it runs, for the board it only links. */
#include <zephyr/cache.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/barrier.h>
#include <zephyr/sys/printk.h>

static struct k_thread caller;

struct k_thread *k_current_get(void)
{
    return &caller;
}

uint64_t k_ticks_to_us_floor64(uint64_t ticks)
{
    return ticks;
}

void barrier_dsync_fence_full(void)
{
    __sync_synchronize();
}

#ifdef __arm__
int sys_cache_data_flush_range(void *addr, size_t size) { return addr != NULL && size != 0u; }
int sys_cache_data_invd_range(void *addr, size_t size) { return addr != NULL && size != 0u; }
void printk(const char *format, ...) { ARG_UNUSED(format); }
int k_sem_init(struct k_sem *sem, unsigned int initial, unsigned int limit)
{
    sem->native = (int)(initial + limit);
    return 0;
}
int k_sem_take(struct k_sem *sem, k_timeout_t timeout) { return sem->native + (int)timeout.ticks; }
void k_sem_give(struct k_sem *sem) { ++sem->native; }
void k_sem_reset(struct k_sem *sem) { sem->native = 0; }
struct k_thread *k_thread_create(struct k_thread *thread, k_thread_stack_t *stack, size_t bytes,
                                 k_thread_entry_t entry, void *a, void *b, void *c, int priority,
                                 uint32_t options, k_timeout_t delay)
{
    thread->stack_info.start = (uintptr_t)stack;
    thread->stack_info.size = bytes + (size_t)priority + options + (size_t)delay.ticks;
    entry(a, b, c);
    return thread;
}
int32_t k_sleep(k_timeout_t timeout) { return (int32_t)timeout.ticks; }
int64_t k_uptime_ticks(void) { return 0; }
#else
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned cleaned;
static unsigned invalidated;

static void whole_lines(const void *addr, size_t size)
{
    if ((uintptr_t)addr % CONFIG_NPUFORGE_CACHE_LINE != 0u || size % CONFIG_NPUFORGE_CACHE_LINE != 0u)
        abort();
}

int sys_cache_data_flush_range(void *addr, size_t size)
{
    whole_lines(addr, size);
    ++cleaned;
    return 0;
}

int sys_cache_data_invd_range(void *addr, size_t size)
{
    whole_lines(addr, size);
    ++invalidated;
    return 0;
}

void printk(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
}

int k_sem_init(struct k_sem *sem, unsigned int initial, unsigned int limit)
{
    ARG_UNUSED(limit);
    return sem_init(&sem->native, 0, initial);
}

int k_sem_take(struct k_sem *sem, k_timeout_t timeout)
{
    if (timeout.ticks < 0) {
        while (sem_wait(&sem->native) != 0)
            ;
        return 0;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += timeout.ticks * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return sem_timedwait(&sem->native, &until) == 0 ? 0 : -EAGAIN;
}

void k_sem_give(struct k_sem *sem)
{
    int value;
    (void)sem_getvalue(&sem->native, &value);
    if (value == 0)
        (void)sem_post(&sem->native);
}

void k_sem_reset(struct k_sem *sem)
{
    while (sem_trywait(&sem->native) == 0)
        ;
}

static k_thread_entry_t start;

static void *run(void *context)
{
    start(NULL, NULL, NULL);
    return context;
}

struct k_thread *k_thread_create(struct k_thread *thread, k_thread_stack_t *stack, size_t bytes,
                                 k_thread_entry_t entry, void *a, void *b, void *c, int priority,
                                 uint32_t options, k_timeout_t delay)
{
    pthread_t native;
    ARG_UNUSED(a);
    ARG_UNUSED(b);
    ARG_UNUSED(c);
    ARG_UNUSED(priority);
    ARG_UNUSED(options);
    ARG_UNUSED(delay);
    thread->stack_info.start = (uintptr_t)stack;
    thread->stack_info.size = bytes;
    start = entry;
    if (pthread_create(&native, NULL, run, NULL) != 0)
        abort();
    return thread;
}

/* The program's last call. */
int32_t k_sleep(k_timeout_t timeout)
{
    ARG_UNUSED(timeout);
    (void)printf("maintained: %u cleaned, %u invalidated\n", cleaned, invalidated);
    exit(0);
}

int64_t k_uptime_ticks(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
#endif

/* A stand-in for the calls of Zephyr's kernel that the port makes, on POSIX threads or for the linker. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __arm__
typedef int k_native;
#else
#include <pthread.h>
#include <semaphore.h>
typedef sem_t k_native;
#endif

struct k_sem {
    k_native native;
};

struct k_thread {
    struct {
        uintptr_t start;
        size_t size;
    } stack_info;
};

typedef struct k_timeout {
    int64_t ticks;
} k_timeout_t;
typedef void (*k_thread_entry_t)(void *, void *, void *);
typedef uint8_t k_thread_stack_t;

#define K_FOREVER ((k_timeout_t){-1})
#define K_NO_WAIT ((k_timeout_t){0})
#define K_MSEC(ms) ((k_timeout_t){(ms)})
#define K_FP_REGS 2u
#define K_THREAD_STACK_DEFINE(name, bytes) k_thread_stack_t name[bytes]
#define K_THREAD_STACK_SIZEOF(name) sizeof(name)
#define ARG_UNUSED(x) (void)(x)
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
#define BUILD_ASSERT(condition, text) _Static_assert(condition, text)

int k_sem_init(struct k_sem *sem, unsigned int initial, unsigned int limit);
int k_sem_take(struct k_sem *sem, k_timeout_t timeout);
void k_sem_give(struct k_sem *sem);
void k_sem_reset(struct k_sem *sem);
struct k_thread *k_thread_create(struct k_thread *thread, k_thread_stack_t *stack, size_t bytes,
                                 k_thread_entry_t entry, void *a, void *b, void *c, int priority,
                                 uint32_t options, k_timeout_t delay);
struct k_thread *k_current_get(void);
int32_t k_sleep(k_timeout_t timeout);
int64_t k_uptime_ticks(void);
uint64_t k_ticks_to_us_floor64(uint64_t ticks);

#endif

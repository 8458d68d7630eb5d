/* The application's loads, stores and memory functions; its heap; start and end of the program.
 *
 *   board SEED COUNT FAULTS SECONDS
 *
 * Standard input and output carry the numbers of inferences and, at the end, a line a finding; what
 * the application prints goes to the standard error stream. Objects of the application are compiled
 * with the calls of a race detector, which are answered here. */
#define _GNU_SOURCE
#include "board.h"
#include "threads.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <ucontext.h>
#include <unistd.h>

#define HEAP_BASE 0x24000000u
#define HEAP_BYTES (64u << 20)
#define STACK_BASE 0x2C000000u
#define STACK_BYTES (16u << 20) /* main's and those of threads */
#define MAIN_STACK (4u << 20)
#define BLOCKS 65536u

vb_place vb_last;
uint32_t vb_camera_faults, vb_interrupts;
static uint32_t wanted, started_count;
static FILE *answers, *questions;
static ucontext_t outside, inside;

int npuforge_application_main(void);

/* --- loads and stores ------------------------------------------------------------------------- */

static void seen(const volatile void *address, uintptr_t bytes, int write, vb_place place)
{
    vb_check_time(place);
    vb_safe_point(); /* before the access: what is announced must come next */
    vb_last = place;
    if (vb_in_stack((uintptr_t)address))
        return;
    vb_cpu((uintptr_t)address, bytes, write, place);
    if (!write)
        vb_camera_used((uintptr_t)address, (uint32_t)bytes, 0, place);
}

#define ACCESS(name, bytes, write)                                                                 \
    void name(void *address);                                                                      \
    void name(void *address) { seen(address, bytes, write, HERE); }

ACCESS(__tsan_read1, 1, 0)
ACCESS(__tsan_read2, 2, 0)
ACCESS(__tsan_read4, 4, 0)
ACCESS(__tsan_read8, 8, 0)
ACCESS(__tsan_read16, 16, 0)
ACCESS(__tsan_write1, 1, 1)
ACCESS(__tsan_write2, 2, 1)
ACCESS(__tsan_write4, 4, 1)
ACCESS(__tsan_write8, 8, 1)
ACCESS(__tsan_write16, 16, 1)
ACCESS(__tsan_unaligned_read2, 2, 0)
ACCESS(__tsan_unaligned_read4, 4, 0)
ACCESS(__tsan_unaligned_read8, 8, 0)
ACCESS(__tsan_unaligned_read16, 16, 0)
ACCESS(__tsan_unaligned_write2, 2, 1)
ACCESS(__tsan_unaligned_write4, 4, 1)
ACCESS(__tsan_unaligned_write8, 8, 1)
ACCESS(__tsan_unaligned_write16, 16, 1)
ACCESS(__tsan_vptr_read, 8, 0)

void __tsan_vptr_update(void *address, void *value);
void __tsan_vptr_update(void *address, void *value)
{
    (void)value;
    seen(address, 8, 1, HERE);
}

void __tsan_read_range(void *address, uintptr_t bytes);
void __tsan_read_range(void *address, uintptr_t bytes) { seen(address, bytes, 0, HERE); }
void __tsan_write_range(void *address, uintptr_t bytes);
void __tsan_write_range(void *address, uintptr_t bytes) { seen(address, bytes, 1, HERE); }
void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

#define ATOMIC(bits, type)                                                                         \
    type __tsan_atomic##bits##_load(const volatile type *a, int order);                            \
    type __tsan_atomic##bits##_load(const volatile type *a, int order)                             \
    {                                                                                              \
        (void)order;                                                                               \
        seen(a, sizeof *a, 0, HERE);                                                               \
        return *a;                                                                                 \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *a, type value, int order);                     \
    void __tsan_atomic##bits##_store(volatile type *a, type value, int order)                      \
    {                                                                                              \
        (void)order;                                                                               \
        seen(a, sizeof *a, 1, HERE);                                                               \
        *a = value;                                                                                \
    }                                                                                              \
    ATOMIC_CHANGE(bits, type, exchange, value)                                                     \
    ATOMIC_CHANGE(bits, type, fetch_add, (type)(old + value))                                      \
    ATOMIC_CHANGE(bits, type, fetch_sub, (type)(old - value))                                      \
    ATOMIC_CHANGE(bits, type, fetch_and, old &value)                                               \
    ATOMIC_CHANGE(bits, type, fetch_or, old | value)                                               \
    ATOMIC_CHANGE(bits, type, fetch_xor, old ^ value)                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *a, type *want, type value,    \
                                                      int order, int other);                       \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *a, type *want, type value,    \
                                                      int order, int other)                        \
    {                                                                                              \
        (void)order;                                                                               \
        (void)other;                                                                               \
        seen(a, sizeof *a, 1, HERE);                                                               \
        const type old = *a;                                                                       \
        if (old == *want)                                                                          \
            *a = value;                                                                            \
        else                                                                                       \
            *want = old;                                                                           \
        return *a == value;                                                                        \
    }

#define ATOMIC_CHANGE(bits, type, name, result)                                                    \
    type __tsan_atomic##bits##_##name(volatile type *a, type value, int order);                    \
    type __tsan_atomic##bits##_##name(volatile type *a, type value, int order)                     \
    {                                                                                              \
        (void)order;                                                                               \
        seen(a, sizeof *a, 1, HERE);                                                               \
        const type old = *a;                                                                       \
        *a = result;                                                                               \
        return old;                                                                                \
    }

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) { (void)order; }
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

/* --- memory functions ------------------------------------------------------------------------- */

static void copy(void *to, const void *from, size_t bytes, vb_place place)
{
    vb_last = place;
    vb_camera_used((uintptr_t)from, (uint32_t)bytes, 0, place);
    vb_copy(to, from, bytes, place);
}

static void fill(void *to, int value, size_t bytes, vb_place place)
{
    vb_last = place;
    for (size_t at = 0; at < bytes;) {
        /* line by line: one that is written must not be displaced before the bytes are in it */
        uint8_t *target = (uint8_t *)to + at;
        const uintptr_t left = CORTEX_M55_LINE - ((uintptr_t)target & (CORTEX_M55_LINE - 1u));
        const uintptr_t part = bytes - at < left ? bytes - at : left;
        vb_cpu((uintptr_t)target, part, 1, place);
        memset(target, value, part);
        at += part;
    }
}

void *npuforge_memcpy(void *to, const void *from, size_t bytes);
void *npuforge_memcpy(void *to, const void *from, size_t bytes)
{
    copy(to, from, bytes, HERE);
    return to;
}

void *npuforge_memmove(void *to, const void *from, size_t bytes);
void *npuforge_memmove(void *to, const void *from, size_t bytes)
{
    const vb_place place = HERE;
    uint8_t *between = malloc(bytes ? bytes : 1);
    if (!between)
        abort();
    copy(between, from, bytes, place);
    copy(to, between, bytes, place);
    free(between);
    return to;
}

void *npuforge_memset(void *to, int value, size_t bytes);
void *npuforge_memset(void *to, int value, size_t bytes)
{
    fill(to, value, bytes, HERE);
    return to;
}

int npuforge_memcmp(const void *a, const void *b, size_t bytes);
int npuforge_memcmp(const void *a, const void *b, size_t bytes)
{
    seen(a, bytes, 0, HERE);
    seen(b, bytes, 0, HERE);
    return memcmp(a, b, bytes);
}

/* --- heap: blocks of 8-byte alignment, as the C library of the part gives them ---------------- */

static struct block {
    uintptr_t base;
    uint32_t bytes;
    vb_place freed; /* 0: in use */
} blocks[BLOCKS];
static uint32_t block_count;

static void *heap_get(size_t bytes, size_t alignment)
{
    if (bytes > HEAP_BYTES)
        return NULL;
    const uint32_t want = (uint32_t)((bytes + 15u) & ~(size_t)7u);
    uintptr_t end = HEAP_BASE + 8u;
    for (uint32_t i = 0; i < block_count; ++i) {
        if (blocks[i].freed && blocks[i].bytes == want && blocks[i].base % alignment == 0) {
            blocks[i].freed = 0;
            return (void *)blocks[i].base;
        }
        end = blocks[i].base + blocks[i].bytes;
    }
    const uintptr_t base = (end + 8u + alignment - 1u) & ~(uintptr_t)(alignment - 1u);
    if (block_count == BLOCKS || base + want > HEAP_BASE + HEAP_BYTES)
        return NULL;
    blocks[block_count++] = (struct block){base, want, 0};
    return (void *)base;
}

static struct block *block_of(uintptr_t address)
{
    for (uint32_t i = 0; i < block_count; ++i)
        if (address - blocks[i].base < blocks[i].bytes)
            return &blocks[i];
    return NULL;
}

int vb_is_freed(uintptr_t address, vb_place *freed_at)
{
    const struct block *b = block_of(address);
    if (b && b->freed)
        *freed_at = b->freed;
    return b && b->freed;
}

void *npuforge_malloc(size_t bytes);
void *npuforge_malloc(size_t bytes) { return heap_get(bytes, 8); }

void *npuforge_aligned_alloc(size_t alignment, size_t bytes);
void *npuforge_aligned_alloc(size_t alignment, size_t bytes)
{
    return heap_get(bytes, alignment < 8 ? 8 : alignment);
}

void *npuforge_calloc(size_t count, size_t bytes);
void *npuforge_calloc(size_t count, size_t bytes)
{
    void *block = bytes && count > HEAP_BYTES / bytes ? NULL : heap_get(count * bytes, 8);
    if (block)
        fill(block, 0, count * bytes, HERE);
    return block;
}

static void give_back(void *address, vb_place place)
{
    struct block *b = address ? block_of((uintptr_t)address) : NULL;
    if (!b)
        return;
    if (b->freed || vb_held(b->base, b->bytes))
        vb_report(VB_FREED, b->base, place, b->freed ? b->freed : place, 0);
    b->freed = place;
}

void npuforge_free(void *address);
void npuforge_free(void *address) { give_back(address, HERE); }

void *npuforge_realloc(void *address, size_t bytes);
void *npuforge_realloc(void *address, size_t bytes)
{
    const vb_place place = HERE;
    const struct block *old = block_of((uintptr_t)address);
    void *block = heap_get(bytes, 8);
    if (block && old) {
        copy(block, address, old->bytes < bytes ? old->bytes : bytes, place);
        give_back(address, place);
    }
    return block;
}

void *vb_thread_stack(uint32_t number)
{
    return (void *)((uintptr_t)STACK_BASE + MAIN_STACK + (uintptr_t)number * VB_THREAD_STACK);
}

int vb_in_stack(uintptr_t address)
{
    return address - STACK_BASE < STACK_BYTES;
}

/* --- start and end ---------------------------------------------------------------------------- */

void vb_compute(const npuforge_network *network, uint8_t *const *inputs, uint8_t **outputs)
{
    fprintf(questions, "run %u\n", network->number);
    for (uint32_t i = 0; i < network->input_count; ++i)
        fwrite(inputs[i], 1, LL_Buffer_len(&network->inputs[i]), questions);
    fflush(questions);
    for (uint32_t i = 0; i < network->output_count; ++i) {
        const uint32_t bytes = LL_Buffer_len(&network->outputs[i]);
        if (fread(outputs[i], 1, bytes, answers) != bytes)
            _exit(4);
    }
}

int vb_may_start(void)
{
    return started_count++ < wanted;
}

void vb_finish(void)
{
    const vb_finding *list;
    const uint32_t count = vb_findings(&list);
    alarm(0);
    fflush(stdout);
    for (uint32_t i = 0; i < count; ++i) {
        const char *name = vb_name(list[i].address);
        fprintf(questions, "finding %s %lx %u %u %x %x %x %u %s\n", vb_kind_name(list[i].kind),
                (unsigned long)list[i].address, list[i].lines, list[i].inference, list[i].cause,
                list[i].effect, list[i].written, list[i].times, name ? name : "-");
    }
    fprintf(questions, "end %u\n", started_count > wanted ? wanted : started_count);
    fflush(questions);
    _exit(0);
}

_Noreturn void npuforge_exit(int code);
_Noreturn void npuforge_exit(int code)
{
    (void)code;
    vb_finish();
}

_Noreturn void npuforge_abort(void);
_Noreturn void npuforge_abort(void) { vb_finish(); }

static volatile sig_atomic_t overdue;

void vb_check_time(vb_place place)
{
    if (!overdue)
        return;
    vb_report(VB_HANG, 0, place, place, 0);
    vb_finish();
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGALRM && !overdue) {
        /* The board may be in the middle of something, with the C library's locks held: it ends the
         * run itself. Code that never enters it holds none. */
        overdue = 1;
        alarm(2);
        return;
    }
    if (number == SIGALRM)
        vb_report(VB_HANG, 0, vb_last, vb_last, 0);
    else
        vb_report(VB_NO_MEMORY, (uintptr_t)info->si_addr, vb_last, vb_last, 0);
    vb_finish();
}

static void *take(uintptr_t base, uint64_t bytes)
{
    void *got = mmap((void *)base, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != (void *)base) {
        fprintf(stderr, "the host has no free memory at 0x%lx\n", (unsigned long)base);
        _exit(3);
    }
    return got;
}

static void run_main(void)
{
    npuforge_application_main();
    vb_finish();
}

/* The part's addresses must be free: without randomisation the host uses others. */
static void fixed_addresses(char **argv)
{
    const int now = personality(0xFFFFFFFFu);
    if (now >= 0 && !(now & ADDR_NO_RANDOMIZE) && personality((unsigned)now | ADDR_NO_RANDOMIZE) >= 0)
        execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    /* 32 KiB, 4 ways: the data cache of the STM32N6's Cortex-M55 */
    const vb_shape shape = {CORTEX_M55_LINE, 256, 4, 40, 8};
    if (argc != 5)
        return 2;
    fixed_addresses(argv);
    wanted = (uint32_t)strtoul(argv[2], NULL, 10);
    vb_camera_faults = (uint32_t)strtoul(argv[3], NULL, 10);
    answers = fdopen(dup(0), "r");
    questions = fdopen(dup(1), "w");
    if (!answers || !questions || dup2(2, 1) < 0)
        return 3;
    setvbuf(stdout, NULL, _IONBF, 0);
    vb_start(strtoull(argv[1], NULL, 10), &shape);
    int failed = vb_map("data", vb_data_begin, (uint64_t)(vb_data_end - vb_data_begin));
    failed |= vb_map("heap", take(HEAP_BASE, HEAP_BYTES), HEAP_BYTES);
    for (uint32_t i = 0; i < vb_memory_count; ++i) {
        const uint64_t bytes = vb_memories[i].end - vb_memories[i].base;
        failed |= vb_map(vb_memories[i].name, take(vb_memories[i].base, bytes), bytes);
    }
    for (uint32_t i = 0; i < vb_uncached_count; ++i) {
        const vb_span *s = &vb_uncached_sections[i].span;
        failed |= vb_map(s->name, (uint8_t *)s->base, s->end - s->base);
        vb_uncached(s->base, s->end - s->base);
    }
    if (failed)
        return 3;
    static uint8_t signal_stack[1u << 16];
    const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    const struct sigaction action = {.sa_sigaction = on_signal,
                                     .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaltstack(&stack, NULL);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    alarm((unsigned)strtoul(argv[4], NULL, 10));
    getcontext(&inside);
    inside.uc_stack.ss_sp = take(STACK_BASE, STACK_BYTES);
    inside.uc_stack.ss_size = MAIN_STACK;
    inside.uc_link = &outside;
    makecontext(&inside, run_main, 0);
    swapcontext(&outside, &inside);
    return 0;
}

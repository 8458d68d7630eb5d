/* Port of the runtime to Zephyr. The processor runs the step table, in a thread of its own: nf_submit
 * returns at once and nf_wait sleeps. The networks' memory needs no maintenance, for the processor's
 * view is the only one; buffers that are shared with a DMA do. */
#include "board.h"
#include "networks.h"

#include <zephyr/cache.h>
#include <zephyr/devicetree.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/barrier.h>
#include <zephyr/sys/printk.h>

#define MEMORIES DT_INST(0, npuforge_memories)
#define MASTERS (NF_REACH_CPU | NF_REACH_DMA | NF_CACHEABLE)

BUILD_ASSERT(DT_NODE_EXISTS(MEMORIES), "app.overlay of the npuforge module is not applied");

#if CONFIG_NPUFORGE_BUFFER_BYTES > 0
static uint8_t buffers[CONFIG_NPUFORGE_BUFFER_BYTES]
    __attribute__((section(".nf_buffers"), aligned(CONFIG_NPUFORGE_CACHE_LINE)));
#endif

#define POOL_OF(node)                                                                              \
    {DT_NODE_FULL_NAME(node), DT_REG_ADDR(node), DT_REG_SIZE(node), 0u, 0u, MASTERS | NF_WRITABLE},
#define MEMORY(node, property, index) POOL_OF(DT_PHANDLE_BY_IDX(node, property, index))

static nf_pool pools[] = {
    DT_FOREACH_PROP_ELEM(MEMORIES, memories, MEMORY)
    {"flash", DT_PROP_BY_IDX(MEMORIES, flash, 0), DT_PROP_BY_IDX(MEMORIES, flash, 1), 0u, 0u, MASTERS},
    POOL_OF(DT_CHOSEN(zephyr_sram))
};
static nf_zone stack;

static struct k_sem wanted;
static struct k_sem done;
static nf_job job;
static volatile nf_status result;

/* The networks' thread. It waits for good until there is a job. */
static void worker(void *a, void *b, void *c)
{
    ARG_UNUSED(a);
    ARG_UNUSED(b);
    ARG_UNUSED(c);
    for (;;) {
        (void)k_sem_take(&wanted, K_FOREVER);
        const int failed = nf_network_run(job.network, job.hook, job.hook_context);
        result = failed != 0 ? NF_E_PROGRAM : NF_OK;
        k_sem_give(&done);
    }
}

static K_THREAD_STACK_DEFINE(worker_stack, CONFIG_NPUFORGE_STACK_SIZE);
static struct k_thread worker_thread;

static nf_status submit(const nf_job *next)
{
    job = *next;
    result = NF_PENDING;
    k_sem_reset(&done);
    k_sem_give(&wanted);
    return NF_OK;
}

static nf_status port_poll(void)
{
    return result;
}

static void idle(void)
{
    (void)k_sem_take(&done, K_MSEC(1));
}

static uint64_t now_us(void)
{
    return k_ticks_to_us_floor64((uint64_t)k_uptime_ticks());
}

static void clean(uintptr_t address, uintptr_t bytes)
{
    (void)sys_cache_data_flush_range((void *)address, bytes);
}

static void invalidate(uintptr_t address, uintptr_t bytes)
{
    (void)sys_cache_data_invd_range((void *)address, bytes);
}

static void barrier(void)
{
    barrier_dsync_fence_full();
}

void board_text(const char *text)
{
    printk("%s", text);
}

const nf_port nf_board_port = {
    .master = NF_REACH_CPU,
    .cache_line = CONFIG_NPUFORGE_CACHE_LINE,
    .clean = clean,
    .invalidate = invalidate,
    .barrier = barrier,
    .now_us = now_us,
    .submit = submit,
    .poll = port_poll,
    .idle = idle,
#ifdef CONFIG_NPUFORGE_LOG
    .log = board_text,
#endif
};

void board_init(void)
{
    static int started;
#if CONFIG_NPUFORGE_BUFFER_BYTES > 0
    pools[0].free_base = (uintptr_t)buffers;
    pools[0].free_bytes = sizeof buffers;
#endif
    if (started)
        return;
    started = 1;
    (void)k_sem_init(&wanted, 0u, 1u);
    (void)k_sem_init(&done, 0u, 1u);
    (void)k_thread_create(&worker_thread, worker_stack, K_THREAD_STACK_SIZEOF(worker_stack), worker,
                          NULL, NULL, NULL, CONFIG_NPUFORGE_PRIORITY, K_FP_REGS, K_NO_WAIT);
}

void board_config(nf_config *config)
{
    const struct k_thread *thread = k_current_get();
    stack.kind = NF_ZONE_STACK;
    stack.base = thread->stack_info.start;
    stack.bytes = thread->stack_info.size;
    config->port = &nf_board_port;
    config->pools = pools;
    config->pool_count = ARRAY_SIZE(pools);
    config->zones = &stack;
    config->zone_count = 1u;
    config->models = nf_models;
    config->model_count = nf_model_count;
    config->alignment = CONFIG_NPUFORGE_CACHE_LINE;
}

_Noreturn void board_exit(int code)
{
    printk("exit %d\n", code);
    for (;;)
        (void)k_sleep(K_FOREVER);
}

/* What the runtime needs from a board: cache, barrier, time, accelerator, log.
 *
 * A port is a constant structure. Functions that a board has no use for are NULL where the comment
 * allows it.
 */
#ifndef NF_PORT_H
#define NF_PORT_H

#include "nf/network.h"
#include "nf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who reaches a pool, and what it is. */
enum {
    NF_REACH_CPU = 1,
    NF_REACH_NPU = 2,
    NF_REACH_DMA = 4,
    NF_CACHEABLE = 8,
    NF_WRITABLE = 16
};

/* A memory of the board. nf_buffer_alloc takes from free_base..free_base+free_bytes-1, which the
 * memory plan leaves unused. */
typedef struct nf_pool {
    const char *name;
    uintptr_t base;
    uintptr_t bytes;
    uintptr_t free_base;
    uintptr_t free_bytes;
    uint32_t flags;
} nf_pool;

/* One inference as the accelerator gets it. `hook` may be NULL; only ports that run the step table
 * on the CPU call it. */
typedef struct nf_job {
    const nf_network *network;
    uint32_t number;
    nf_hook hook;
    void *hook_context;
} nf_job;

typedef struct nf_port {
    /* Reach flag of what runs the networks. With NF_REACH_CPU their memory is not maintained: the
     * CPU's view is the only one. Buffers of other masters still are. */
    uint32_t master;
    /* Bytes of a data cache line; 0 when there is no cache. Then the two maintenance functions are
     * never called and may be NULL. */
    uint32_t cache_line;
    /* Ranges are whole lines. invalidate discards what the CPU wrote and did not clean. */
    void (*clean)(uintptr_t address, uintptr_t bytes);
    void (*invalidate)(uintptr_t address, uintptr_t bytes);
    /* Orders memory accesses before and after with what other masters see. */
    void (*barrier)(void);
    /* Microseconds since any fixed moment. */
    uint64_t (*now_us)(void);
    /* Start an inference. It may be over on return; poll then says so. */
    nf_status (*submit)(const nf_job *job);
    /* NF_PENDING, NF_OK when the job is over, or an error. */
    nf_status (*poll)(void);
    /* Wait for an event or a short time; NULL to spin. */
    void (*idle)(void);
    /* Whether masters with these reach flags can use the range: NF_OK, NF_E_UNPOWERED,
     * NF_E_CLOSED. NULL when the board has nothing to ask. */
    nf_status (*probe)(uintptr_t address, uintptr_t bytes, uint32_t masters);
    /* One line of the staged log with its line feed; NULL for no log. */
    void (*log)(const char *line);
} nf_port;

#ifdef __cplusplus
}
#endif
#endif

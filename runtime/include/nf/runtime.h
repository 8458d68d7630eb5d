/* The safe runtime: buffers with owners, asynchronous inferences, cache maintenance, frames.
 *
 * Who may touch a buffer is always known. The CPU has it until it is given to a master or an
 * inference starts; then every call that would touch it is refused until it is back. Cache
 * maintenance follows from that: what the CPU wrote is cleaned when it goes out, what a master
 * wrote is invalidated when the CPU asks for it, in whole lines and never twice. A wrong address
 * (stack, C heap, unregistered, misaligned, unreachable) is an error in every build.
 *
 * No memory is allocated: the application holds one nf_runtime. Calls are for one thread; only
 * nf_on_completion may come from an interrupt.
 */
#ifndef NF_RUNTIME_H
#define NF_RUNTIME_H

#include "nf/port.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef NF_MAX_BUFFERS
#define NF_MAX_BUFFERS 24
#endif
#ifndef NF_MAX_NETWORKS
#define NF_MAX_NETWORKS 4
#endif
/* Most inputs, and most outputs, of one network that the runtime runs. */
#define NF_MAX_IO 32

typedef enum nf_zone_kind { NF_ZONE_STACK, NF_ZONE_HEAP } nf_zone_kind;

/* A range that no buffer may lie in. */
typedef struct nf_zone {
    nf_zone_kind kind;
    uintptr_t base;
    uintptr_t bytes;
} nf_zone;

/* A network with the build number of the header the application was compiled with
 * (NAME_BUILD). */
typedef struct nf_model {
    const nf_network *network;
    uint32_t build;
} nf_model;

typedef struct nf_config {
    const nf_port *port;
    const nf_pool *pools;
    uint32_t pool_count;
    const nf_zone *zones;
    uint32_t zone_count;
    const nf_model *models;
    uint32_t model_count;
    /* Bytes that shared buffers are aligned to; 0: one cache line. A power of two. */
    uint32_t alignment;
    /* Oldest frame nf_input takes, microseconds; 0: any age. */
    uint32_t max_frame_age_us;
    /* Whether each inference writes its own stage lines. */
    uint32_t log_runs;
} nf_config;

/* A buffer of the registry. 0 is none; a handle of a released buffer never becomes valid again. */
typedef uint32_t nf_buffer;

typedef enum nf_lifetime { NF_SCOPED, NF_PERMANENT } nf_lifetime;

typedef struct nf_buffer_info {
    uintptr_t address;
    uint32_t bytes;
    uint32_t masters; /* reach flags of those who may have it beside the CPU; 0: only the CPU */
    uint32_t owner;   /* NF_REACH_CPU, or the master that has it now */
    uint32_t pool;    /* number in the pool table */
    nf_lifetime lifetime;
} nf_buffer_info;

/* A frame for an input. `counter` (may be NULL) is a number that the producer increments when it
 * begins to overwrite `data`; `number` is its value for this frame. */
typedef struct nf_frame {
    const void *data;
    uint32_t bytes;
    uint32_t number;
    const volatile uint32_t *counter;
    uint64_t time_us;
} nf_frame;

typedef struct nf_counters {
    uint32_t inferences;
    uint32_t failures;
    uint32_t cleans, invalidates;
    uint64_t cleaned_bytes, invalidated_bytes;
    uint32_t frames, frames_dropped, frames_torn, frames_late, frames_repeated;
    uint32_t spurious;
    uint32_t last_us, longest_us;
} nf_counters;

/* Internal: one registered buffer, one network. */
typedef struct nf_slot {
    nf_buffer_info info;
    uint16_t generation;
    uint8_t used;
    uint8_t dirty; /* the CPU may have written it since it was last cleaned */
    uint8_t stale; /* a master may have written it since it was last invalidated */
} nf_slot;

typedef struct nf_session {
    uint32_t filled, dirty; /* bit i: input i */
    uint32_t ready, stale;  /* bit i: output i */
    uint32_t last_frame;
    uint8_t has_frame, states_dirty;
} nf_session;

typedef struct nf_runtime {
    uint32_t magic;
    const nf_config *config;
    nf_slot slots[NF_MAX_BUFFERS];
    nf_session sessions[NF_MAX_NETWORKS];
    nf_job job;
    uint32_t running; /* number of the network in flight plus 1 */
    volatile uint32_t completed;
    volatile nf_status completion;
    uint64_t started_us;
    nf_counters stats;
} nf_runtime;

/* Check networks, weights and memories, and register what the networks occupy. `config` and what it
 * points to must live as long as the runtime. On an error the runtime stays unusable.
 *
 * NF_E_VERSION, NF_E_STALE_FIRMWARE, NF_E_WEIGHTS_ABSENT, NF_E_WEIGHTS_WRONG, NF_E_NO_POOL,
 * NF_E_MISALIGNED, NF_E_UNREACHABLE, NF_E_UNPOWERED, NF_E_CLOSED, NF_E_OVERLAP, NF_E_NO_ROOM. */
nf_status nf_init(nf_runtime *runtime, const nf_config *config);

/* Get a buffer of `bytes` (rounded up to whole lines) that `masters` reach, from any pool with room.
 * alignment 0 means that of the configuration. */
nf_status nf_buffer_alloc(nf_runtime *runtime, uint32_t bytes, uint32_t alignment, uint32_t masters,
                          nf_lifetime lifetime, nf_buffer *buffer);

/* Make a buffer of the application's own (a static array, a frame buffer, data in flash) known.
 * One that only the CPU touches (masters 0) needs no alignment. */
nf_status nf_buffer_register(nf_runtime *runtime, const void *address, uint32_t bytes,
                             uint32_t masters, nf_lifetime lifetime, nf_buffer *buffer);

/* Forget a buffer. NF_E_IN_FLIGHT while a master has it, NF_E_FREED the second time. */
nf_status nf_buffer_release(nf_runtime *runtime, nf_buffer buffer);

nf_status nf_buffer_query(const nf_runtime *runtime, nf_buffer buffer, nf_buffer_info *info);

/* The CPU's access. The pointer may be used until the buffer is given away. */
nf_status nf_buffer_write(nf_runtime *runtime, nf_buffer buffer, void **data);
nf_status nf_buffer_read(nf_runtime *runtime, nf_buffer buffer, const void **data);

/* Hand a buffer to a master (NF_REACH_DMA or NF_REACH_NPU) and take it back when that is done. */
nf_status nf_buffer_give(nf_runtime *runtime, nf_buffer buffer, uint32_t master);
nf_status nf_buffer_take(nf_runtime *runtime, nf_buffer buffer);

/* Copy a frame into input `index`. The frame lies in a registered buffer that the CPU has.
 * A torn, late or repeated frame is refused and counted; gaps in the numbers are counted as dropped
 * frames. With more than one input, frame numbers are those of input 0. */
nf_status nf_input(nf_runtime *runtime, uint32_t model, uint32_t index, const nf_frame *frame);

/* The place of input `index`, for filling it without a copy before the next submit. */
nf_status nf_input_place(nf_runtime *runtime, uint32_t model, uint32_t index, void **data);

/* Give the state variables their first values: before the first run, and for a new sequence. */
nf_status nf_reset(nf_runtime *runtime, uint32_t model);

/* Start an inference: all inputs filled, nothing in flight. */
nf_status nf_submit(nf_runtime *runtime, uint32_t model);

/* Wait for it; timeout 0 asks once (NF_PENDING when it still runs). */
nf_status nf_wait(nf_runtime *runtime, uint32_t timeout_us);

/* Submit and wait. */
nf_status nf_run(nf_runtime *runtime, uint32_t model, uint32_t timeout_us);

/* The result of the last inference; valid until the next submit or until an input that shares its
 * memory is filled (asked again then, it is NF_E_NO_OUTPUT). */
nf_status nf_output(nf_runtime *runtime, uint32_t model, uint32_t index, const void **data);

/* For the completion interrupt of a port: safe before nf_init and without a job. */
nf_status nf_on_completion(nf_runtime *runtime, nf_status status);

/* Called after each step where the CPU runs the step table. */
void nf_set_hook(nf_runtime *runtime, nf_hook hook, void *context);

nf_status nf_stats(const nf_runtime *runtime, nf_counters *counters);

/* Write a line of the staged log: nf-stage NAME result=N t_us=N [status=NAME].
 * The runtime itself writes runtime_init, buffers, network_init, run and done; bring-up code uses it
 * for its own stages. */
void nf_stage(const nf_port *port, const char *name, nf_status status);

#ifdef __cplusplus
}
#endif
#endif

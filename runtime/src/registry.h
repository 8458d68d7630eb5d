/* Ranges, pools and maintenance: what buffers and inferences both need. */
#ifndef NF_REGISTRY_H
#define NF_REGISTRY_H

#include "nf/runtime.h"

#define NF_MAGIC 0x4E46524Du

typedef struct nf_range {
    uintptr_t base;
    uintptr_t bytes;
} nf_range;

static inline int nf_overlap(nf_range a, nf_range b)
{
    return a.base < b.base + b.bytes && b.base < a.base + a.bytes;
}

static inline int nf_within(nf_range inner, nf_range outer)
{
    return inner.base >= outer.base && inner.bytes <= outer.bytes &&
           inner.base - outer.base <= outer.bytes - inner.bytes;
}

/* The least multiple of `unit`, a power of two, that is not below `value`. */
static inline uintptr_t nf_round_up(uintptr_t value, uintptr_t unit)
{
    return (value + unit - 1u) & ~(unit - 1u);
}

/* What a registered buffer occupies. */
static inline nf_range nf_held(const nf_slot *slot)
{
    const nf_range range = {slot->info.address, slot->info.bytes};
    return range;
}

static inline int nf_ready(const nf_runtime *runtime)
{
    return runtime != NULL && runtime->magic == NF_MAGIC;
}

/* Alignment of what a master shares with the CPU. */
uint32_t nf_shared_alignment(const nf_config *config);

/* Whether the range is one that `masters` may be given: not on a stack or heap, in one pool, reached,
 * aligned, whole lines, powered and open. masters 0: only the CPU touches it. */
nf_status nf_check_range(const nf_config *config, nf_range range, uint32_t alignment,
                         uint32_t masters, uint32_t *pool);

/* Memory space `index` of a network. */
nf_range nf_space(const nf_network *network, uint32_t index);

/* The registered buffer that holds a range; NULL when there is none. */
nf_slot *nf_slot_of(nf_runtime *runtime, nf_range range);

/* The cache lines that a range touches, where there is a cache. */
nf_range nf_whole_lines(const nf_config *config, nf_range range);

/* Maintenance of the lines that a range touches, with a barrier; counted. */
void nf_clean(nf_runtime *runtime, nf_range range);
void nf_invalidate(nf_runtime *runtime, nf_range range);

/* Before the CPU touches a buffer that a master had: drop its lines once. */
void nf_refresh(nf_runtime *runtime, nf_slot *slot);

#endif

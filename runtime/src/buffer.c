#include "registry.h"

#define INDEX_BITS 8u

static nf_status find(nf_runtime *runtime, nf_buffer buffer, nf_slot **slot)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    const uint32_t number = buffer & ((1u << INDEX_BITS) - 1u);
    if (number == 0u || number > NF_MAX_BUFFERS)
        return NF_E_ARGUMENT;
    nf_slot *found = &runtime->slots[number - 1u];
    if (found->used == 0u || found->generation != (uint16_t)(buffer >> INDEX_BITS))
        return found->generation == 0u ? NF_E_ARGUMENT : NF_E_FREED;
    *slot = found;
    return NF_OK;
}

/* Nothing else lies in the range: no buffer, no network. */
static nf_status check_free(const nf_runtime *runtime, nf_range range)
{
    for (uint32_t i = 0u; i < NF_MAX_BUFFERS; ++i) {
        const nf_slot *slot = &runtime->slots[i];
        if (slot->used != 0u && nf_overlap(range, nf_held(slot)))
            return NF_E_OVERLAP;
    }
    for (uint32_t m = 0u; m < runtime->config->model_count; ++m) {
        const nf_network *network = runtime->config->models[m].network;
        for (uint32_t s = 0u; s < network->space_count; ++s)
            if (nf_overlap(range, nf_space(network, s)))
                return NF_E_OVERLAP;
    }
    return NF_OK;
}

static nf_status enter(nf_runtime *runtime, nf_range range, uint32_t masters, nf_lifetime lifetime,
                       uint32_t pool, nf_buffer *buffer)
{
    for (uint32_t i = 0u; i < NF_MAX_BUFFERS; ++i) {
        nf_slot *slot = &runtime->slots[i];
        if (slot->used != 0u)
            continue;
        slot->info.address = range.base;
        slot->info.bytes = (uint32_t)range.bytes;
        slot->info.masters = masters;
        slot->info.owner = NF_REACH_CPU;
        slot->info.pool = pool;
        slot->info.lifetime = lifetime;
        /* 0 stands for never used */
        slot->generation =
            (uint16_t)(slot->generation == UINT16_MAX ? 1u : slot->generation + 1u);
        slot->used = 1u;
        /* what the CPU did with this memory before is not known */
        slot->dirty = masters != 0u ? 1u : 0u;
        slot->stale = 0u;
        *buffer = ((uint32_t)slot->generation << INDEX_BITS) | (i + 1u);
        return NF_OK;
    }
    return NF_E_NO_ROOM;
}

nf_status nf_buffer_register(nf_runtime *runtime, const void *address, uint32_t bytes,
                             uint32_t masters, nf_lifetime lifetime, nf_buffer *buffer)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    if (buffer == NULL)
        return NF_E_ARGUMENT;
    *buffer = 0u;
    const nf_range range = {(uintptr_t)address, bytes};
    uint32_t pool = 0u;
    const uint32_t others = masters & ~(uint32_t)NF_REACH_CPU;
    nf_status status = nf_check_range(runtime->config, range, nf_shared_alignment(runtime->config),
                                      others, &pool);
    if (status == NF_OK)
        status = check_free(runtime, range);
    if (status == NF_OK)
        status = enter(runtime, range, others, lifetime, pool, buffer);
    return status;
}

/* The lowest aligned place of a pool's free part that no buffer takes; 0 when there is none. */
static uintptr_t free_place(const nf_runtime *runtime, const nf_pool *pool, uintptr_t bytes,
                            uintptr_t alignment)
{
    uintptr_t at = nf_round_up(pool->free_base, alignment);
    uint32_t i = 0u;
    while (i < NF_MAX_BUFFERS) {
        const nf_slot *slot = &runtime->slots[i];
        const nf_range want = {at, bytes};
        const nf_range held = nf_held(slot);
        ++i;
        if (slot->used != 0u && nf_overlap(want, held)) {
            at = nf_round_up(held.base + held.bytes, alignment);
            i = 0u;
        }
    }
    const nf_range want = {at, bytes};
    const nf_range whole = {pool->free_base, pool->free_bytes};
    return nf_within(want, whole) ? at : 0u;
}

nf_status nf_buffer_alloc(nf_runtime *runtime, uint32_t bytes, uint32_t alignment, uint32_t masters,
                          nf_lifetime lifetime, nf_buffer *buffer)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    const nf_config *config = runtime->config;
    const uint32_t least = nf_shared_alignment(config);
    const uint32_t asked = alignment > least ? alignment : least;
    if (buffer == NULL || bytes == 0u || bytes > UINT32_MAX - least ||
        (asked & (asked - 1u)) != 0u)
        return NF_E_ARGUMENT;
    *buffer = 0u;
    const uintptr_t whole = nf_round_up(bytes, least);
    const uint32_t others = masters & ~(uint32_t)NF_REACH_CPU;
    nf_status why = NF_E_UNREACHABLE;
    for (uint32_t i = 0u; i < config->pool_count; ++i) {
        const nf_pool *pool = &config->pools[i];
        if ((pool->flags & NF_WRITABLE) == 0u || (pool->flags & others) != others)
            continue;
        const nf_range range = {free_place(runtime, pool, whole, asked), whole};
        uint32_t number = 0u;
        const nf_status status = range.base == 0u
                                     ? NF_E_NO_ROOM
                                     : nf_check_range(config, range, asked, others, &number);
        if (status == NF_OK)
            return enter(runtime, range, others, lifetime, number, buffer);
        if (why == NF_E_UNREACHABLE || why == NF_E_NO_ROOM)
            why = status;
    }
    return why;
}

/* Before somebody else touches a buffer that the CPU may have written: clean its lines once. */
static void write_out(nf_runtime *runtime, nf_slot *slot)
{
    if (slot->dirty != 0u) {
        nf_clean(runtime, nf_held(slot));
        slot->dirty = 0u;
    }
}

nf_status nf_buffer_release(nf_runtime *runtime, nf_buffer buffer)
{
    nf_slot *slot = NULL;
    const nf_status status = find(runtime, buffer, &slot);
    if (status != NF_OK)
        return status;
    if (slot->info.lifetime == NF_PERMANENT)
        return NF_E_PERMANENT;
    if (slot->info.owner != NF_REACH_CPU)
        return NF_E_IN_FLIGHT;
    /* no dirty line may be left to be evicted over what the next user of this memory has there */
    write_out(runtime, slot);
    slot->used = 0u;
    return NF_OK;
}

nf_status nf_buffer_query(const nf_runtime *runtime, nf_buffer buffer, nf_buffer_info *info)
{
    nf_slot *slot = NULL;
    const nf_status status = find((nf_runtime *)runtime, buffer, &slot);
    if (status != NF_OK)
        return status;
    if (info == NULL)
        return NF_E_ARGUMENT;
    *info = slot->info;
    return NF_OK;
}

static nf_status open_for_cpu(nf_runtime *runtime, nf_buffer buffer, const void *place,
                              nf_slot **slot)
{
    const nf_status status = find(runtime, buffer, slot);
    if (status != NF_OK)
        return status;
    if (place == NULL)
        return NF_E_ARGUMENT;
    if ((*slot)->info.owner != NF_REACH_CPU)
        return NF_E_IN_FLIGHT;
    nf_refresh(runtime, *slot);
    return NF_OK;
}

nf_status nf_buffer_write(nf_runtime *runtime, nf_buffer buffer, void **data)
{
    nf_slot *slot = NULL;
    const nf_status status = open_for_cpu(runtime, buffer, data, &slot);
    if (status != NF_OK)
        return status;
    if ((runtime->config->pools[slot->info.pool].flags & NF_WRITABLE) == 0u)
        return NF_E_UNREACHABLE;
    slot->dirty = slot->info.masters != 0u ? 1u : 0u;
    *data = (void *)slot->info.address;
    return NF_OK;
}

nf_status nf_buffer_read(nf_runtime *runtime, nf_buffer buffer, const void **data)
{
    nf_slot *slot = NULL;
    const nf_status status = open_for_cpu(runtime, buffer, data, &slot);
    if (status == NF_OK)
        *data = (const void *)slot->info.address;
    return status;
}

nf_status nf_buffer_give(nf_runtime *runtime, nf_buffer buffer, uint32_t master)
{
    nf_slot *slot = NULL;
    const nf_status status = find(runtime, buffer, &slot);
    if (status != NF_OK)
        return status;
    if (slot->info.owner != NF_REACH_CPU)
        return NF_E_IN_FLIGHT;
    if (master == 0u || (master & (master - 1u)) != 0u || (slot->info.masters & master) == 0u)
        return NF_E_UNREACHABLE;
    write_out(runtime, slot);
    slot->info.owner = master;
    return NF_OK;
}

nf_status nf_buffer_take(nf_runtime *runtime, nf_buffer buffer)
{
    nf_slot *slot = NULL;
    const nf_status status = find(runtime, buffer, &slot);
    if (status != NF_OK)
        return status;
    if (slot->info.owner == NF_REACH_CPU)
        return NF_E_NOT_OWNER;
    slot->info.owner = NF_REACH_CPU;
    slot->stale = 1u;
    return NF_OK;
}

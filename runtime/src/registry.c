#include "registry.h"

static uint32_t line_of(const nf_config *config)
{
    return config->port->cache_line;
}

uint32_t nf_shared_alignment(const nf_config *config)
{
    const uint32_t line = line_of(config) != 0u ? line_of(config) : 4u;
    return config->alignment > line ? config->alignment : line;
}

nf_range nf_space(const nf_network *network, uint32_t index)
{
    const nf_range range = {(uintptr_t)network->spaces[index], network->space_bytes[index]};
    return range;
}

static nf_status check_zones(const nf_config *config, nf_range range)
{
    for (uint32_t i = 0u; i < config->zone_count; ++i) {
        const nf_zone *zone = &config->zones[i];
        const nf_range taken = {zone->base, zone->bytes};
        if (nf_overlap(range, taken))
            return zone->kind == NF_ZONE_STACK ? NF_E_STACK : NF_E_HEAP;
    }
    return NF_OK;
}

nf_status nf_check_range(const nf_config *config, nf_range range, uint32_t alignment,
                         uint32_t masters, uint32_t *pool)
{
    if (range.base == 0u || range.bytes == 0u || range.base + range.bytes < range.base)
        return NF_E_ARGUMENT;
    const nf_status zone = check_zones(config, range);
    if (zone != NF_OK)
        return zone;
    uint32_t found = config->pool_count;
    for (uint32_t i = 0u; i < config->pool_count && found == config->pool_count; ++i) {
        const nf_range whole = {config->pools[i].base, config->pools[i].bytes};
        if (nf_within(range, whole))
            found = i;
    }
    if (found == config->pool_count)
        return NF_E_NO_POOL;
    *pool = found;
    if ((config->pools[found].flags & masters) != masters)
        return NF_E_UNREACHABLE;
    if ((masters & ~(uint32_t)NF_REACH_CPU) != 0u) {
        if (range.base % alignment != 0u)
            return NF_E_MISALIGNED;
        if (line_of(config) != 0u && range.bytes % line_of(config) != 0u)
            return NF_E_PARTIAL_LINE;
    }
    if (config->port->probe != NULL)
        return config->port->probe(range.base, range.bytes, masters);
    return NF_OK;
}

nf_range nf_whole_lines(const nf_config *config, nf_range range)
{
    const uintptr_t line = line_of(config);
    const uintptr_t first = range.base & ~(line - 1u);
    const nf_range lines = {first, nf_round_up(range.base + range.bytes, line) - first};
    return lines;
}

void nf_clean(nf_runtime *runtime, nf_range range)
{
    const nf_config *config = runtime->config;
    if (line_of(config) == 0u)
        return;
    const nf_range lines = nf_whole_lines(config, range);
    config->port->clean(lines.base, lines.bytes);
    config->port->barrier();
    ++runtime->stats.cleans;
    runtime->stats.cleaned_bytes += lines.bytes;
}

void nf_invalidate(nf_runtime *runtime, nf_range range)
{
    const nf_config *config = runtime->config;
    if (line_of(config) == 0u)
        return;
    const nf_range lines = nf_whole_lines(config, range);
    config->port->barrier();
    config->port->invalidate(lines.base, lines.bytes);
    config->port->barrier();
    ++runtime->stats.invalidates;
    runtime->stats.invalidated_bytes += lines.bytes;
}

nf_slot *nf_slot_of(nf_runtime *runtime, nf_range range)
{
    for (uint32_t i = 0u; i < NF_MAX_BUFFERS; ++i) {
        nf_slot *slot = &runtime->slots[i];
        if (slot->used != 0u && nf_within(range, nf_held(slot)))
            return slot;
    }
    return NULL;
}

void nf_refresh(nf_runtime *runtime, nf_slot *slot)
{
    if (slot->stale != 0u) {
        nf_invalidate(runtime, nf_held(slot));
        slot->stale = 0u;
    }
}

#include "machine.h"

#include <stdlib.h>
#include <string.h>

/* Most bytes of results that are kept. */
#define MEMO_BYTES (256u << 20)
/* chance, of 256, that a line is evicted at an event, and that a line near a used one is refilled */
#define EVICT 40u
#define REFILL 8u

static uint32_t active_faults, delay;
static uint64_t now;
static int busy, program_failed;

void *machine_room(size_t bytes)
{
    void *room = calloc(bytes ? bytes : 1, 1);
    if (!room)
        abort();
    return room;
}

void machine_start(uint64_t seed)
{
    const vb_shape cortex_m55 = {MACHINE_LINE, MACHINE_SETS, 4, EVICT, REFILL};
    vb_start(seed, &cortex_m55);
    active_faults = 0;
    busy = 0;
}

void machine_map(const char *name, uint8_t *cpu, uint32_t bytes)
{
    if (vb_map(name, cpu, bytes) != 0)
        abort();
}

void machine_faults(uint32_t faults)
{
    active_faults = faults;
}

vb_kind machine_violated(void)
{
    const vb_finding *list;
    const vb_kind kind = vb_findings(&list) ? list[0].kind : VB_NONE;
    vb_clear_findings();
    /* without an invalidate since the last run, whether or not this run met a line in the cache */
    return kind == VB_REFILL ? VB_MISSING_INVALIDATE : kind;
}

void machine_cpu_reads(const void *address, uint32_t bytes)
{
    vb_cpu((uintptr_t)address, bytes, 0, 0);
}

void *machine_memcpy(void *to, const void *from, size_t bytes)
{
    vb_copy(to, from, bytes, 0);
    return to;
}

void machine_dma(const void *address, const void *data, uint32_t bytes)
{
    vb_master_writes((uintptr_t)address, bytes, 0);
    memcpy(vb_bus((uintptr_t)address), data, bytes);
    vb_master_wrote((uintptr_t)address, bytes, 0);
}

/* --- the port ------------------------------------------------------------------------------- */

static void port_clean(uintptr_t address, uintptr_t bytes)
{
    if (active_faults & FAULT_NO_CLEAN)
        return;
    if ((active_faults & FAULT_ENDS_ONLY) && bytes > 2u * MACHINE_LINE) {
        vb_maintain(address, MACHINE_LINE, VB_CLEAN, 0);
        vb_maintain(address + bytes - MACHINE_LINE, MACHINE_LINE, VB_CLEAN, 0);
        return;
    }
    vb_maintain(address, bytes, VB_CLEAN, 0);
}

static void port_invalidate(uintptr_t address, uintptr_t bytes)
{
    if (!(active_faults & FAULT_NO_INVALIDATE))
        vb_maintain(address, bytes, VB_INVALIDATE, 0);
}

static void barrier(void)
{
    __asm volatile("" ::: "memory");
}

static uint64_t now_us(void)
{
    return now += 1u + vb_random(4);
}

static void check_memory(const nf_network *n)
{
    for (uint32_t i = 0; i < n->input_count; ++i)
        vb_master_reads((uintptr_t)nf_network_input(n, i), n->inputs[i].bytes, 0);
    for (uint32_t i = 0; i < n->state_count; ++i)
        vb_master_reads((uintptr_t)n->spaces[n->states[i].space] + n->states[i].offset,
                        n->states[i].bytes, 0);
    for (uint32_t i = 1; i < n->space_count; ++i)
        vb_master_writes((uintptr_t)n->spaces[i], n->space_bytes[i], 0);
}

/* What a network does to its memories, by what it reads: inputs and states. Computed once for each
 * content met while MEMO_BYTES last, then every time. */
typedef struct result {
    struct result *next;
    uint8_t *key;
    uint8_t **spaces;
} result;

static result *results;
static uint64_t memo_bytes;
static uint8_t **masks;     /* of each memory: which bytes a run determines */
static const nf_io *masked; /* inputs of the network the masks are for */

/* Copies what a run reads between its memories and `key`, which may be NULL; returns the bytes. */
static uint32_t transfer(const nf_network *n, uint8_t *const *spaces, uint8_t *key, int to_key)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n->input_count + n->state_count; ++i) {
        const nf_io *io = &n->inputs[i];
        const nf_state *variable = &n->states[i - n->input_count];
        const int is_input = i < n->input_count;
        const uint32_t bytes = is_input ? io->bytes : variable->bytes;
        uint8_t *place = is_input ? spaces[io->space] + io->offset
                                  : spaces[variable->space] + variable->offset;
        if (key && to_key)
            memcpy(key + at, place, bytes);
        else if (key)
            memcpy(place, key + at, bytes);
        at += bytes;
    }
    return at;
}

static void release(const nf_network *n, result *r)
{
    for (uint32_t i = 1; i < n->space_count; ++i)
        free(r->spaces[i]);
    free(r->spaces);
    free(r->key);
    free(r);
}

static uint8_t **copies(const nf_network *n, uint8_t *constants, int fill)
{
    uint8_t **to = machine_room(n->space_count * sizeof *to);
    to[0] = constants;
    for (uint32_t i = 1; i < n->space_count; ++i) {
        to[i] = machine_room(n->space_bytes[i]);
        memset(to[i], fill, n->space_bytes[i]);
    }
    return to;
}

/* Two runs from different backgrounds: a byte that is equal after both is determined. */
static int find_masks(const nf_network *n, uint8_t *constants, uint8_t *key)
{
    uint8_t **other = copies(n, constants, 0x55);
    masks = copies(n, constants, 0xAA);
    transfer(n, masks, key, 0);
    transfer(n, other, key, 0);
    const int failed = nf_exec(&n->program, masks, 0, n->program.step_count, NULL, NULL) != 0 ||
                       nf_exec(&n->program, other, 0, n->program.step_count, NULL, NULL) != 0;
    for (uint32_t i = 1; i < n->space_count; ++i) {
        for (uint32_t at = 0; at < n->space_bytes[i]; ++at)
            masks[i][at] = masks[i][at] == other[i][at];
        free(other[i]);
    }
    free(other);
    masked = n->inputs;
    return failed;
}

/* The result for a content; NULL when the program is not valid. `kept` is 0 when the caller frees. */
static result *result_of(const nf_network *n, uint8_t *constants, const uint8_t *key,
                         uint32_t key_bytes, int *kept)
{
    uint64_t bytes = key_bytes;
    for (result *r = results; r; r = r->next)
        if (memcmp(r->key, key, key_bytes) == 0) {
            *kept = 1;
            return r;
        }
    for (uint32_t i = 1; i < n->space_count; ++i)
        bytes += n->space_bytes[i];
    result *r = machine_room(sizeof *r);
    r->key = machine_room(key_bytes);
    memcpy(r->key, key, key_bytes);
    r->spaces = copies(n, constants, 0);
    transfer(n, r->spaces, r->key, 0);
    const int failed = nf_exec(&n->program, r->spaces, 0, n->program.step_count, NULL, NULL);
    *kept = !failed && memo_bytes + bytes <= MEMO_BYTES;
    if (*kept) {
        memo_bytes += bytes;
        r->next = results;
        results = r;
    }
    if (!failed)
        return r;
    release(n, r);
    return NULL;
}

/* Put a run's result on the bus: the bytes it determines, and their lines as written by a master. */
static void publish(const nf_network *n, uint32_t space, const uint8_t *result_bytes)
{
    uint8_t *cpu = n->spaces[space], *bus = vb_bus((uintptr_t)cpu);
    const uint8_t *mask = masks[space];
    const uint32_t bytes = n->space_bytes[space];
    for (uint32_t at = 0; at < bytes; at += MACHINE_LINE) {
        const uint32_t end = bytes - at < MACHINE_LINE ? bytes : at + MACHINE_LINE;
        uint32_t written = 0;
        for (uint32_t i = at; i < end; ++i) {
            bus[i] = mask[i] ? result_bytes[i] : bus[i];
            written |= mask[i];
        }
        if (written)
            vb_master_wrote((uintptr_t)cpu + at, end - at, 0);
    }
}

static int compute(const nf_network *n)
{
    int kept = 0;
    uint8_t **bus = machine_room(n->space_count * sizeof *bus);
    bus[0] = n->spaces[0];
    for (uint32_t i = 1; i < n->space_count; ++i)
        bus[i] = vb_bus((uintptr_t)n->spaces[i]);
    const uint32_t key_bytes = transfer(n, bus, NULL, 1);
    uint8_t *key = machine_room(key_bytes);
    transfer(n, bus, key, 1);
    free(bus);
    const int failed = masked != n->inputs && find_masks(n, n->spaces[0], key);
    result *r = failed ? NULL : result_of(n, n->spaces[0], key, key_bytes, &kept);
    free(key);
    if (!r)
        return -1;
    for (uint32_t i = 1; i < n->space_count; ++i)
        publish(n, i, r->spaces[i]);
    if (!kept)
        release(n, r);
    return 0;
}

static nf_status submit(const nf_job *job)
{
    if (busy)
        return NF_E_ACCELERATOR;
    check_memory(job->network);
    vb_traffic();
    program_failed = compute(job->network);
    busy = 1;
    delay = vb_random(30);
    return NF_OK;
}

static nf_status poll(void)
{
    if (!busy)
        return NF_E_IDLE;
    if (delay > 0) {
        --delay;
        if (delay % 8u == 0)
            vb_traffic();
        return NF_PENDING;
    }
    busy = 0;
    return program_failed ? NF_E_PROGRAM : NF_OK;
}

static nf_status probe(uintptr_t address, uintptr_t bytes, uint32_t masters)
{
    (void)bytes;
    const vb_access access = masters ? vb_access_of(address) : VB_OPEN;
    return access == VB_OFF ? NF_E_UNPOWERED : access == VB_SHUT ? NF_E_CLOSED : NF_OK;
}

const nf_port machine_port = {NF_REACH_NPU, MACHINE_LINE, port_clean, port_invalidate, barrier,
                              now_us, submit, poll, NULL, probe, NULL};

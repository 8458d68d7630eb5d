#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WINDOWS 16u
#define MAX_SPACES 16u
#define MEMO 96u
/* chance, of 256, that a line is evicted at an event, and that one written by a master was cached */
#define EVICT 40u
#define CACHED 160u

typedef struct window {
    uint8_t *cpu, *bus, *synced;
    uint8_t *exposed, *lost; /* a line: written by a master, CPU writes discarded */
    uint32_t bytes;
    nf_status access;
} window;

static window windows[MAX_WINDOWS];
static uint32_t window_count, active_faults, delay;
static uint64_t state, now;
static int busy, program_failed;
static machine_violation first;

void machine_seed(uint64_t seed)
{
    state = seed * 2654435761u + 88172645463325252u;
}

uint32_t machine_random(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 11) % below);
}

void machine_map(uint8_t *cpu, uint32_t bytes)
{
    if (window_count == MAX_WINDOWS || (uintptr_t)cpu % MACHINE_LINE != 0)
        abort();
    window *w = &windows[window_count++];
    const uint32_t lines = (bytes + MACHINE_LINE - 1u) / MACHINE_LINE;
    w->cpu = cpu;
    w->bytes = bytes;
    w->bus = malloc(bytes);
    w->synced = malloc(bytes);
    w->exposed = calloc(lines, 1);
    w->lost = calloc(lines, 1);
    w->access = NF_OK;
    if (!w->bus || !w->synced || !w->exposed || !w->lost)
        abort();
    memcpy(w->bus, cpu, bytes);
    memcpy(w->synced, cpu, bytes);
}

void machine_forget(void)
{
    for (uint32_t i = 0; i < window_count; ++i) {
        free(windows[i].bus);
        free(windows[i].synced);
        free(windows[i].exposed);
        free(windows[i].lost);
    }
    window_count = 0;
    busy = 0;
    active_faults = 0;
    first = MACHINE_NONE;
}

static window *find(uintptr_t address)
{
    for (uint32_t i = 0; i < window_count; ++i)
        if (address - (uintptr_t)windows[i].cpu < windows[i].bytes)
            return &windows[i];
    return NULL;
}

void machine_close(uintptr_t address, nf_status why)
{
    find(address)->access = why;
}

void machine_faults(uint32_t faults)
{
    active_faults = faults;
}

machine_violation machine_violated(void)
{
    const machine_violation found = first;
    first = MACHINE_NONE;
    return found;
}

static void violate(machine_violation kind)
{
    if (first == MACHINE_NONE)
        first = kind;
}

static uint32_t length(const window *w, uint32_t at)
{
    return w->bytes - at < MACHINE_LINE ? w->bytes - at : MACHINE_LINE;
}

static int dirty(const window *w, uint32_t at)
{
    return memcmp(w->cpu + at, w->synced + at, length(w, at)) != 0;
}

/* The CPU's line goes to the bus when dirty. */
static void write_back(window *w, uint32_t at)
{
    if (dirty(w, at)) {
        memcpy(w->bus + at, w->cpu + at, length(w, at));
        memcpy(w->synced + at, w->cpu + at, length(w, at));
    }
}

/* The line leaves the cache; the next access reads the bus. */
static void drop(window *w, uint32_t at)
{
    memcpy(w->cpu + at, w->bus + at, length(w, at));
    memcpy(w->synced + at, w->bus + at, length(w, at));
}

typedef void (*line_call)(window *w, uint32_t at);

static void each_line(uintptr_t address, uintptr_t bytes, line_call call)
{
    window *w = find(address);
    if (!w || bytes == 0)
        return;
    const uint32_t begin = (uint32_t)(address - (uintptr_t)w->cpu) / MACHINE_LINE * MACHINE_LINE;
    const uint64_t end = address - (uintptr_t)w->cpu + bytes;
    for (uint32_t at = begin; at < end && at < w->bytes; at += MACHINE_LINE)
        call(w, at);
}

static void discard(window *w, uint32_t at)
{
    if (dirty(w, at))
        w->lost[at / MACHINE_LINE] = 1;
    w->exposed[at / MACHINE_LINE] = 0;
    drop(w, at);
}

static void check_read(window *w, uint32_t at)
{
    if (w->exposed[at / MACHINE_LINE])
        violate(MACHINE_MISSING_INVALIDATE);
    if (w->lost[at / MACHINE_LINE])
        violate(MACHINE_LOST_WRITE);
}

static void check_consumed(window *w, uint32_t at)
{
    if (w->lost[at / MACHINE_LINE])
        violate(MACHINE_LOST_WRITE);
    if (dirty(w, at))
        violate(MACHINE_MISSING_CLEAN);
}

static void check_target(window *w, uint32_t at)
{
    if (dirty(w, at))
        violate(MACHINE_DIRTY_OVER_RESULT);
}

static void random_traffic(window *w, uint32_t at)
{
    if (machine_random(256) < EVICT) {
        write_back(w, at);
        drop(w, at);
    }
}

static void each_window(line_call call)
{
    for (uint32_t i = 0; i < window_count; ++i)
        each_line((uintptr_t)windows[i].cpu, windows[i].bytes, call);
}

void machine_clean(uintptr_t address, uintptr_t bytes)
{
    each_line(address, bytes, write_back);
}

void machine_invalidate(uintptr_t address, uintptr_t bytes)
{
    each_line(address, bytes, discard);
}

void machine_cpu_reads(const void *address, uint32_t bytes)
{
    each_line((uintptr_t)address, bytes, check_read);
}

/* What a master wrote: the lines that changed against `before`, cached by the CPU or not. */
static void written(window *w, const uint8_t *before)
{
    for (uint32_t at = 0; at < w->bytes; at += MACHINE_LINE)
        if (memcmp(before + at, w->bus + at, length(w, at)) != 0) {
            w->exposed[at / MACHINE_LINE] = 1;
            w->lost[at / MACHINE_LINE] = 0;
            if (!dirty(w, at) && machine_random(256) >= CACHED)
                drop(w, at);
        }
}

static uint8_t *copy_of(const window *w)
{
    uint8_t *copy = malloc(w->bytes);
    if (!copy)
        abort();
    memcpy(copy, w->bus, w->bytes);
    return copy;
}

void machine_dma(const void *address, const void *data, uint32_t bytes)
{
    window *w = find((uintptr_t)address);
    uint8_t *before = copy_of(w);
    memcpy(w->bus + ((uintptr_t)address - (uintptr_t)w->cpu), data, bytes);
    written(w, before);
    free(before);
}

/* --- the port ------------------------------------------------------------------------------- */

static void port_clean(uintptr_t address, uintptr_t bytes)
{
    if (active_faults & FAULT_NO_CLEAN)
        return;
    if ((active_faults & FAULT_ENDS_ONLY) && bytes > 2u * MACHINE_LINE) {
        machine_clean(address, MACHINE_LINE);
        machine_clean(address + bytes - MACHINE_LINE, MACHINE_LINE);
        return;
    }
    machine_clean(address, bytes);
}

static void port_invalidate(uintptr_t address, uintptr_t bytes)
{
    if (!(active_faults & FAULT_NO_INVALIDATE))
        machine_invalidate(address, bytes);
}

static void barrier(void)
{
    __asm volatile("" ::: "memory");
}

static uint64_t now_us(void)
{
    return now += 1u + machine_random(4);
}

static void check_memory(const nf_network *n)
{
    for (uint32_t i = 0; i < n->input_count; ++i)
        each_line((uintptr_t)nf_network_input(n, i), n->inputs[i].bytes, check_consumed);
    for (uint32_t i = 0; i < n->state_count; ++i)
        each_line((uintptr_t)n->spaces[n->states[i].space] + n->states[i].offset,
                  n->states[i].bytes, check_consumed);
    for (uint32_t i = 1; i < n->space_count; ++i)
        each_line((uintptr_t)n->spaces[i], n->space_bytes[i], check_target);
}

/* What a network does to its memories, by what it reads: inputs and states. Computed once for each
 * content met; a content that is not among the first MEMO is computed every time. */
typedef struct result {
    uint8_t *key;
    uint8_t *spaces[MAX_SPACES];
} result;

static result results[MEMO];
static uint32_t result_count;
static uint8_t *masks[MAX_SPACES]; /* which bytes a run determines */
static const nf_io *masked;        /* inputs of the network the masks are for */

static void *room_for(size_t bytes)
{
    void *room = malloc(bytes ? bytes : 1);
    if (!room)
        abort();
    return room;
}

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

/* Two runs from different backgrounds: a byte that is equal after both is determined. */
static int find_masks(const nf_network *n, uint8_t *const *spaces, uint8_t *key)
{
    uint8_t *other[MAX_SPACES] = {spaces[0]};
    int failed = 0;
    for (int round = 0; round < 2; ++round) {
        for (uint32_t i = 1; i < n->space_count; ++i) {
            other[i] = room_for(n->space_bytes[i]);
            memset(other[i], round ? 0x55 : 0xAA, n->space_bytes[i]);
        }
        transfer(n, other, key, 0);
        failed |= nf_exec(&n->program, other, 0, n->program.step_count, NULL, NULL);
        for (uint32_t i = 1; i < n->space_count; ++i) {
            for (uint32_t at = 0; round && at < n->space_bytes[i]; ++at)
                masks[i][at] = masks[i][at] == other[i][at];
            if (round == 0) {
                free(masks[i]);
                masks[i] = other[i];
            } else {
                free(other[i]);
            }
        }
    }
    masked = n->inputs;
    return failed;
}

static const result *known(const nf_network *n, uint8_t *const *spaces, const uint8_t *key,
                           uint32_t key_bytes)
{
    for (uint32_t r = 0; r < result_count; ++r)
        if (memcmp(results[r].key, key, key_bytes) == 0)
            return &results[r];
    if (result_count == MEMO)
        return NULL;
    uint8_t *work[MAX_SPACES] = {spaces[0]};
    for (uint32_t i = 1; i < n->space_count; ++i) {
        work[i] = room_for(n->space_bytes[i]);
        memset(work[i], 0, n->space_bytes[i]);
    }
    result *r = &results[result_count++];
    r->key = room_for(key_bytes);
    memcpy(r->key, key, key_bytes);
    memcpy(r->spaces, work, sizeof work);
    transfer(n, work, r->key, 0);
    if (nf_exec(&n->program, work, 0, n->program.step_count, NULL, NULL) != 0)
        abort();
    return r;
}

static int compute(const nf_network *n, uint8_t *const *spaces)
{
    const uint32_t key_bytes = transfer(n, spaces, NULL, 1);
    uint8_t *key = room_for(key_bytes);
    transfer(n, spaces, key, 1);
    const int failed = masked != n->inputs && find_masks(n, spaces, key);
    const result *r = failed ? NULL : known(n, spaces, key, key_bytes);
    free(key);
    if (!r)
        return nf_exec(&n->program, spaces, 0, n->program.step_count, NULL, NULL);
    for (uint32_t i = 1; i < n->space_count; ++i)
        for (uint32_t at = 0; at < n->space_bytes[i]; ++at)
            if (masks[i][at])
                spaces[i][at] = r->spaces[i][at];
    return 0;
}

static nf_status submit(const nf_job *job)
{
    if (busy)
        return NF_E_ACCELERATOR;
    const nf_network *n = job->network;
    uint8_t *spaces[MAX_SPACES];
    uint8_t *before[MAX_SPACES] = {NULL};
    if (n->space_count > MAX_SPACES)
        return NF_E_NO_ROOM;
    check_memory(n);
    each_window(random_traffic);
    for (uint32_t i = 0; i < n->space_count; ++i) {
        window *w = find((uintptr_t)n->spaces[i]);
        spaces[i] = w ? w->bus + (n->spaces[i] - w->cpu) : n->spaces[i];
        before[i] = w ? copy_of(w) : NULL;
    }
    program_failed = compute(n, spaces);
    for (uint32_t i = 0; i < n->space_count; ++i)
        if (before[i]) {
            written(find((uintptr_t)n->spaces[i]), before[i]);
            free(before[i]);
        }
    busy = 1;
    delay = machine_random(30);
    return NF_OK;
}

static nf_status poll(void)
{
    if (!busy)
        return NF_E_IDLE;
    if (delay > 0) {
        --delay;
        if (delay % 8u == 0)
            each_window(random_traffic);
        return NF_PENDING;
    }
    busy = 0;
    return program_failed ? NF_E_PROGRAM : NF_OK;
}

static nf_status probe(uintptr_t address, uintptr_t bytes, uint32_t masters)
{
    (void)bytes;
    const window *w = find(address);
    return w && masters ? w->access : NF_OK;
}

const nf_port machine_port = {NF_REACH_NPU, MACHINE_LINE, port_clean, port_invalidate, barrier,
                              now_us, submit, poll, NULL, probe, NULL};

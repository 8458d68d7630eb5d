#include "machine.h"

#include <stdlib.h>
#include <string.h>

/* Most bytes of results that are kept. */
#define MEMO_BYTES (256u << 20)
/* chance, of 256, that a line is evicted at an event, and that a line near a used one is refilled */
#define EVICT 40u
#define REFILL 8u

static const machine_profile profiles[] = {{"mcu", 32, 256, 32, 32, 0},
                                           {"linux", 64, 128, 64, 128, 1}};
const machine_profile *machine = &profiles[0];
static uintptr_t buffers_base, buffers_bytes, weights_base;
int machine_unchecked;
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

const machine_profile *machine_profile_named(const char *name)
{
    for (uint32_t i = 0; i < sizeof profiles / sizeof profiles[0]; ++i)
        if (!strcmp(profiles[i].name, name))
            return &profiles[i];
    return NULL;
}

void machine_buffers(const uint8_t *base, uint32_t bytes)
{
    buffers_base = (uintptr_t)base;
    buffers_bytes = bytes;
}

void machine_weights(const uint8_t *base)
{
    weights_base = (uintptr_t)base;
}

void machine_start(uint64_t seed)
{
    const vb_shape shape = {machine->line, machine->sets, 4, EVICT, REFILL};
    vb_start(seed, &shape);
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

/* --- physical memory ------------------------------------------------------------------------- */

static int in_buffers(uintptr_t address)
{
    return address - buffers_base < buffers_bytes;
}

/* Physical addresses are the virtual ones but for the two faults: pages in reverse order, or all
 * moved by a quarter of a line. Both ways of the table are the same but for the sign. */
static uintptr_t page_table(uintptr_t address, int to_physical)
{
    const uintptr_t quarter = machine->line / 4u;
    if (!in_buffers(address))
        return address;
    if (active_faults & FAULT_SHIFTED)
        return to_physical ? address + quarter : address - quarter;
    if (active_faults & FAULT_SCATTERED) {
        const uintptr_t at = address - buffers_base, pages = buffers_bytes / MACHINE_PAGE;
        return buffers_base + (pages - 1u - at / MACHINE_PAGE) * MACHINE_PAGE + at % MACHINE_PAGE;
    }
    return address;
}

/* The master gets one physical address and goes on from there, from a whole line of its bus. */
void machine_dma(const void *address, const void *data, uint32_t bytes)
{
    const uint8_t *from = data;
    const uintptr_t start = page_table((uintptr_t)address, 1) & ~(uintptr_t)(machine->buffers - 1u);
    for (uint32_t at = 0; at < bytes;) {
        const uintptr_t physical = start + at;
        const uintptr_t to_page = MACHINE_PAGE - physical % MACHINE_PAGE;
        const uint32_t part = bytes - at < to_page ? bytes - at : (uint32_t)to_page;
        const uintptr_t to = page_table(physical, 0);
        if (vb_bus(to) && vb_bus(to + part - 1u)) {
            vb_master_writes(to, part, 0);
            memcpy(vb_bus(to), from + at, part);
            vb_master_wrote(to, part, 0);
        }
        at += part;
    }
}

/* --- the port ------------------------------------------------------------------------------- */

static void maintain(uintptr_t address, uintptr_t bytes, int what, uint32_t left_out)
{
    if ((active_faults & left_out) || ((active_faults & FAULT_UNREGISTERED) && in_buffers(address)))
        return;
    if ((active_faults & FAULT_ENDS_ONLY) && bytes > 2u * machine->line) {
        vb_maintain(address, machine->line, what, 0);
        vb_maintain(address + bytes - machine->line, machine->line, what, 0);
        return;
    }
    vb_maintain(address, bytes, what, 0);
}

static void port_clean(uintptr_t address, uintptr_t bytes)
{
    maintain(address, bytes, VB_CLEAN, FAULT_NO_CLEAN);
}

static void port_invalidate(uintptr_t address, uintptr_t bytes)
{
    maintain(address, bytes, VB_INVALIDATE, FAULT_NO_INVALIDATE);
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
    for (uint32_t at = 0; at < bytes; at += machine->line) {
        const uint32_t end = bytes - at < machine->line ? bytes : at + machine->line;
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

/* What a driver learns from the page table. */
static nf_status check_pages(uintptr_t address, uintptr_t bytes)
{
    const uintptr_t need = address == weights_base ? machine->weights : machine->buffers;
    if (page_table(address, 1) % need != 0)
        return NF_E_MISALIGNED;
    for (uintptr_t at = MACHINE_PAGE - address % MACHINE_PAGE; at < bytes; at += MACHINE_PAGE)
        if (page_table(address + at, 1) != page_table(address, 1) + at)
            return NF_E_SCATTERED;
    return NF_OK;
}

static nf_status probe(uintptr_t address, uintptr_t bytes, uint32_t masters)
{
    const vb_access access = masters ? vb_access_of(address) : VB_OPEN;
    if (access != VB_OPEN)
        return access == VB_OFF ? NF_E_UNPOWERED : NF_E_CLOSED;
    return masters && machine->paged && !machine_unchecked ? check_pages(address, bytes) : NF_OK;
}

nf_port machine_port = {NF_REACH_NPU, 32, port_clean, port_invalidate, barrier,
                              now_us, submit, poll, NULL, probe, NULL};

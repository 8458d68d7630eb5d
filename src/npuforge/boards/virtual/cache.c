#include "cache.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FINDINGS 128u
#define RECENT 64u

enum {
    PRESENT = 1,  /* in the cache */
    DIRTY = 2,    /* in the cache, written, not yet on the bus */
    UNCLEAN = 4,  /* written since the last clean */
    TOUCHED = 8,  /* accessed since the last invalidate: may be in the cache */
    EXPOSED = 16, /* a master wrote it while touched */
    REFILL = 32,  /* a master wrote it; untouched, but it may have been refilled before */
    LOST = 64     /* an invalidate discarded writes */
};

typedef struct line {
    uint8_t state;
    vb_place written, invalidated, master;
    uint64_t own; /* bytes that the CPU wrote since a master wrote the line: they are not stale */
} line;

typedef struct window {
    const char *name;
    uint8_t *cpu, *bus;
    uint64_t bytes;
    uint32_t first; /* number of its first line among all */
    line *lines;
    vb_access access;
} window;

typedef struct range {
    uintptr_t base, end;
    int writes;
    vb_place place;
} range;

static window *windows;
static uint32_t window_count, line_count, shift;
static vb_shape shape;
static uint32_t *tags;  /* line number plus 1, a way of a set */
static uint8_t *synced; /* of each way: the line when cache and bus last agreed */
static uint64_t state;
static int enabled;

typedef struct ranges {
    range *list;
    uint32_t count;
} ranges;

static ranges held, uncached;
static uint32_t inference, finding_count;
static vb_finding findings[MAX_FINDINGS];
static uint32_t recent[RECENT], recent_at;

static const char *const kind_names[VB_KINDS] = {
    "none", "missing_clean", "dirty_over_result", "missing_invalidate", "lost_write",
    "speculative_refill", "write_in_flight", "read_in_flight", "misaligned", "stack_buffer",
    "no_memory", "unreachable", "unclocked_bank", "closed_region", "end_not_size",
    "not_initialised", "not_reset", "reset_in_flight", "not_bound",
    "stale_npu_cache", "hang", "freed", "dma_overlap", "torn_frame", "dropped_frame",
    "repeated_frame", "interrupt_call"};

const char *vb_kind_name(vb_kind kind)
{
    return kind_names[kind];
}

uint32_t vb_random(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 11) % below);
}

void vb_start(uint64_t seed, const vb_shape *wanted)
{
    vb_forget();
    state = seed * 2654435761u + 88172645463325252u;
    shape = *wanted;
    for (shift = 0; 1u << shift < shape.line; ++shift)
        ;
    free(tags);
    free(synced);
    tags = calloc((size_t)shape.sets * shape.ways, sizeof *tags);
    synced = calloc((size_t)shape.sets * shape.ways, shape.line);
    if (!tags || !synced)
        abort();
    enabled = 1;
}

int vb_map(const char *name, uint8_t *cpu, uint64_t bytes)
{
    const uint32_t lines = (uint32_t)((bytes + shape.line - 1u) >> shift);
    window *more = realloc(windows, (window_count + 1u) * sizeof *windows);
    if (more)
        windows = more;
    if (!more || ((uintptr_t)cpu & (shape.line - 1u)) != 0)
        return -1;
    window *w = &windows[window_count];
    /* calloc: pages of zeros that nobody touches take no memory */
    w->bus = calloc((size_t)lines, shape.line);
    w->lines = calloc(lines, sizeof *w->lines);
    if (!w->bus || !w->lines)
        return -1;
    w->name = name;
    w->cpu = cpu;
    w->bytes = bytes;
    w->first = line_count;
    w->access = VB_OPEN;
    for (uint64_t at = 0; at < bytes; at += shape.line)
        if (memcmp(w->bus + at, cpu + at, bytes - at < shape.line ? bytes - at : shape.line) != 0)
            memcpy(w->bus + at, cpu + at, bytes - at < shape.line ? bytes - at : shape.line);
    line_count += lines;
    ++window_count;
    return 0;
}

void vb_forget(void)
{
    for (uint32_t i = 0; i < window_count; ++i) {
        free(windows[i].bus);
        free(windows[i].lines);
    }
    window_count = line_count = held.count = uncached.count = finding_count = inference = 0;
    recent_at = 0;
    memset(recent, 0, sizeof recent);
    if (tags)
        memset(tags, 0, (size_t)shape.sets * shape.ways * sizeof *tags);
}

static window *find(uintptr_t address)
{
    static uint32_t last;
    if (last < window_count && address - (uintptr_t)windows[last].cpu < windows[last].bytes)
        return &windows[last];
    for (uint32_t i = 0; i < window_count; ++i)
        if (address - (uintptr_t)windows[i].cpu < windows[i].bytes) {
            last = i;
            return &windows[i];
        }
    return NULL;
}

void vb_set_access(uintptr_t address, vb_access access)
{
    window *w = find(address);
    if (w)
        w->access = access;
}

vb_access vb_access_of(uintptr_t address)
{
    const window *w = find(address);
    return w ? w->access : VB_OPEN;
}

const char *vb_name(uintptr_t address)
{
    const window *w = find(address);
    return w ? w->name : NULL;
}

uint8_t *vb_bus(uintptr_t address)
{
    window *w = find(address);
    return w ? w->bus + (address - (uintptr_t)w->cpu) : NULL;
}

/* --- findings --------------------------------------------------------------------------------- */

void vb_inference(uint32_t number)
{
    inference = number;
}

void vb_report(vb_kind kind, uintptr_t address, vb_place cause, vb_place effect, vb_place written)
{
    const window *w = find(address);
    for (uint32_t i = 0; i < finding_count; ++i) {
        vb_finding *f = &findings[i];
        if (f->kind == kind && f->cause == cause && f->effect == effect && f->written == written &&
            find(f->address) == w) {
            ++f->times;
            if (f->inference == inference) {
                ++f->lines;
                f->address = address < f->address ? address : f->address;
            }
            return;
        }
    }
    if (finding_count < MAX_FINDINGS)
        findings[finding_count++] =
            (vb_finding){kind, address, 1, inference, cause, effect, written, 1};
}

uint32_t vb_findings(const vb_finding **list)
{
    *list = findings;
    return finding_count;
}

void vb_clear_findings(void)
{
    finding_count = 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static uint64_t length(const window *w, uint64_t at)
{
    return w->bytes - at < shape.line ? w->bytes - at : shape.line;
}

static line *line_of(window *w, uint64_t at)
{
    return &w->lines[at >> shift];
}

static int out_of_cache(const window *w, uint64_t at)
{
    const uintptr_t address = (uintptr_t)w->cpu + at;
    if (!enabled)
        return 1;
    for (uint32_t i = 0; i < uncached.count; ++i)
        if (address < uncached.list[i].end && address + shape.line > uncached.list[i].base)
            return 1;
    return 0;
}

static window *window_of(uint32_t number, uint64_t *at)
{
    for (uint32_t i = 0; i < window_count; ++i) {
        const uint32_t lines = (uint32_t)((windows[i].bytes + shape.line - 1u) >> shift);
        if (number - windows[i].first < lines) {
            *at = (uint64_t)(number - windows[i].first) << shift;
            return &windows[i];
        }
    }
    return NULL;
}

static uint32_t *set_of(const window *w, uint64_t at)
{
    const uint32_t set = (uint32_t)(((uintptr_t)w->cpu + at) >> shift) & (shape.sets - 1u);
    return &tags[(size_t)set * shape.ways];
}

static uint32_t *way_of(const window *w, uint64_t at)
{
    uint32_t *set = set_of(w, at);
    const uint32_t tag = w->first + (uint32_t)(at >> shift) + 1u;
    for (uint32_t i = 0; i < shape.ways; ++i)
        if (set[i] == tag)
            return &set[i];
    return NULL;
}

static void agree(window *w, uint64_t at, const uint32_t *way)
{
    memcpy(synced + (size_t)(way - tags) * shape.line, w->cpu + at, length(w, at));
}

static void mark_written(line *l, vb_place place)
{
    l->state |= DIRTY | UNCLEAN | TOUCHED;
    l->written = place;
}

/* A dirty line goes to the bus, all of it: that is how neighbours overwrite a result. */
static void write_back(window *w, uint64_t at)
{
    line *l = line_of(w, at);
    if (!(l->state & DIRTY))
        return;
    memcpy(w->bus + at, w->cpu + at, length(w, at));
    l->state &= (uint8_t)~DIRTY;
    agree(w, at, way_of(w, at));
}

static void leave(window *w, uint64_t at)
{
    line *l = line_of(w, at);
    if (!(l->state & PRESENT))
        return;
    *way_of(w, at) = 0;
    memcpy(w->cpu + at, w->bus + at, length(w, at));
    l->state &= (uint8_t)~(PRESENT | DIRTY);
}

/* Whether code that is not observed wrote a line that is in the cache. */
static void notice(window *w, uint64_t at)
{
    line *l = line_of(w, at);
    if (l->state & DIRTY)
        return;
    const uint8_t *before = synced + (size_t)(way_of(w, at) - tags) * shape.line;
    if (memcmp(w->cpu + at, before, length(w, at)) != 0)
        mark_written(l, 0);
}

static void displace(uint32_t *way)
{
    uint64_t at = 0;
    window *w = *way ? window_of(*way - 1u, &at) : NULL;
    if (w) {
        notice(w, at);
        write_back(w, at);
        leave(w, at);
    }
    *way = 0;
}

static void enter(window *w, uint64_t at)
{
    line *l = line_of(w, at);
    if (l->state & PRESENT)
        return;
    uint32_t *set = set_of(w, at);
    uint32_t way = vb_random(shape.ways);
    for (uint32_t i = 0; i < shape.ways; ++i)
        if (!set[i])
            way = i;
    displace(&set[way]);
    set[way] = w->first + (uint32_t)(at >> shift) + 1u;
    l->state |= PRESENT;
    agree(w, at, &set[way]);
}

/* Code that is not observed (the C library) wrote the line: found by its contents. */
static void reconcile(window *w, uint64_t at)
{
    line *l = line_of(w, at);
    if (l->state & PRESENT) {
        notice(w, at);
        return;
    }
    if (memcmp(w->cpu + at, w->bus + at, length(w, at)) == 0)
        return;
    if (out_of_cache(w, at)) {
        memcpy(w->bus + at, w->cpu + at, length(w, at));
        return;
    }
    uint8_t unseen[256];
    memcpy(unseen, w->cpu + at, length(w, at));
    memcpy(w->cpu + at, w->bus + at, length(w, at));
    enter(w, at);
    memcpy(w->cpu + at, unseen, length(w, at));
    mark_written(l, 0);
}

typedef void (*line_call)(window *w, uint64_t at, vb_place place);

static void each_line(uintptr_t address, uintptr_t bytes, line_call call, vb_place place)
{
    window *w = find(address);
    if (!w || bytes == 0)
        return;
    const uint64_t from = address - (uintptr_t)w->cpu;
    const uint64_t end = from + bytes < w->bytes ? from + bytes : w->bytes;
    for (uint64_t at = from >> shift << shift; at < end; at += shape.line)
        call(w, at, place);
}

/* --- the CPU ---------------------------------------------------------------------------------- */

static void check_held(uintptr_t address, uintptr_t bytes, int write, vb_place place)
{
    for (uint32_t i = 0; i < held.count; ++i) {
        const range *r = &held.list[i];
        if (address >= r->end || address + bytes <= r->base || !(write || r->writes))
            continue;
        vb_report(write ? VB_WRITE_IN_FLIGHT : VB_READ_IN_FLIGHT, address & ~(uintptr_t)(shape.line - 1u),
                  place, r->place, 0);
        return;
    }
}

static void check_access(const window *w, uintptr_t address, vb_place place)
{
    if (w->access == VB_OFF)
        vb_report(VB_UNCLOCKED, address, place, place, 0);
    else if (w->access == VB_SHUT)
        vb_report(VB_CLOSED, address, place, place, 0);
}

static void remember(const window *w, uint64_t at)
{
    recent[recent_at++ % RECENT] = w->first + (uint32_t)(at >> shift) + 1u;
}

/* Bytes `from` to `end` of the window, as far as they lie in the line. */
static uint64_t bytes_of(uint64_t at, uint64_t from, uint64_t end)
{
    const uint64_t low = from > at ? from - at : 0;
    const uint64_t high = end < at + shape.line ? end - at : shape.line;
    return (high - low == 64u ? ~(uint64_t)0 : ((uint64_t)1 << (high - low)) - 1u) << low;
}

static void cpu_line(window *w, uint64_t at, uint64_t bytes, int write, vb_place place)
{
    line *l = line_of(w, at);
    const uintptr_t address = (uintptr_t)w->cpu + at;
    if (!write && (bytes & ~l->own)) {
        if (l->state & EXPOSED)
            vb_report(VB_MISSING_INVALIDATE, address, place, l->master, 0);
        else if (l->state & REFILL)
            vb_report(VB_REFILL, address, place, l->master, 0);
        if (l->state & LOST)
            vb_report(VB_LOST_WRITE, address, l->invalidated, place, l->written);
        /* reported once; what follows is about the next fault */
        l->state &= (uint8_t)~(EXPOSED | REFILL | LOST);
    }
    reconcile(w, at);
    if (!(l->state & PRESENT)) {
        enter(w, at);
        remember(w, at);
    }
    l->state |= TOUCHED;
    if (write) {
        mark_written(l, place);
        l->own |= bytes;
    }
}

void vb_cpu(uintptr_t address, uintptr_t bytes, int write, vb_place place)
{
    window *w = find(address);
    if (!w || bytes == 0)
        return;
    if (held.count)
        check_held(address, bytes, write, place);
    if (w->access == VB_OFF || w->access == VB_SHUT)
        check_access(w, address, place);
    const uint64_t from = address - (uintptr_t)w->cpu;
    const uint64_t end = from + bytes < w->bytes ? from + bytes : w->bytes;
    for (uint64_t at = from >> shift << shift; at < end; at += shape.line)
        if (!out_of_cache(w, at))
            cpu_line(w, at, bytes_of(at, from, end), write, place);
}

void vb_copy(void *to, const void *from, uintptr_t bytes, vb_place place)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    while (bytes > 0) {
        /* line by line: one that is written must not be displaced before the bytes are in it */
        const uintptr_t left = shape.line - ((uintptr_t)target & (shape.line - 1u));
        const uintptr_t part = bytes < left ? bytes : left;
        vb_cpu((uintptr_t)source, part, 0, place);
        vb_cpu((uintptr_t)target, part, 1, place);
        memcpy(target, source, part);
        target += part;
        source += part;
        bytes -= part;
    }
}

/* --- maintenance ------------------------------------------------------------------------------ */

static void clean_line(window *w, uint64_t at, vb_place place)
{
    (void)place;
    reconcile(w, at);
    write_back(w, at);
    line_of(w, at)->state &= (uint8_t)~UNCLEAN;
}

static void invalidate_line(window *w, uint64_t at, vb_place place)
{
    reconcile(w, at);
    line *l = line_of(w, at);
    if (l->state & UNCLEAN) {
        l->state |= LOST;
        l->invalidated = place;
    }
    l->own = 0;
    l->state &= (uint8_t)~(UNCLEAN | TOUCHED | EXPOSED | REFILL);
    leave(w, at);
}

void vb_maintain(uintptr_t address, uintptr_t bytes, int what, vb_place place)
{
    if (what & VB_CLEAN)
        each_line(address, bytes, clean_line, place);
    if (what & VB_INVALIDATE)
        each_line(address, bytes, invalidate_line, place);
    if (vb_random(256) < shape.evict)
        vb_traffic();
}

void vb_maintain_all(int what, vb_place place)
{
    for (uint32_t i = 0; i < window_count; ++i)
        for (uint64_t at = 0; at < windows[i].bytes; at += shape.line) {
            if (line_of(&windows[i], at)->state == 0)
                continue;
            if (what & VB_CLEAN)
                clean_line(&windows[i], at, place);
            if (what & VB_INVALIDATE)
                invalidate_line(&windows[i], at, place);
        }
}

static void add(ranges *to, range r)
{
    range *more = realloc(to->list, (to->count + 1u) * sizeof r);
    if (!more)
        abort();
    to->list = more;
    to->list[to->count++] = r;
}

void vb_uncached(uintptr_t address, uintptr_t bytes)
{
    add(&uncached, (range){address, address + bytes, 0, 0});
}

void vb_enable(int on)
{
    if (on && !enabled)
        for (uint32_t i = 0; i < window_count; ++i)
            for (uint64_t at = 0; at < windows[i].bytes; at += shape.line)
                reconcile(&windows[i], at);
    enabled = on;
}

int vb_enabled(void)
{
    return enabled;
}

/* --- masters ---------------------------------------------------------------------------------- */

static void read_line(window *w, uint64_t at, vb_place place)
{
    reconcile(w, at);
    line *l = line_of(w, at);
    const uintptr_t address = (uintptr_t)w->cpu + at;
    if (l->state & LOST)
        vb_report(VB_LOST_WRITE, address, l->invalidated, place, l->written);
    if (l->state & UNCLEAN)
        vb_report(VB_MISSING_CLEAN, address, l->written, place, l->written);
    l->state &= (uint8_t)~LOST;
}

void vb_master_reads(uintptr_t address, uintptr_t bytes, vb_place place)
{
    const window *w = find(address);
    if (w)
        check_access(w, address, place);
    each_line(address, bytes, read_line, place);
}

static void target_line(window *w, uint64_t at, vb_place place)
{
    reconcile(w, at);
    const line *l = line_of(w, at);
    if (l->state & UNCLEAN)
        vb_report(VB_DIRTY_OVER_RESULT, (uintptr_t)w->cpu + at, l->written, place, l->written);
}

void vb_master_writes(uintptr_t address, uintptr_t bytes, vb_place place)
{
    const window *w = find(address);
    if (w)
        check_access(w, address, place);
    for (uint32_t i = 0; i < held.count; ++i)
        if (address < held.list[i].end && address + bytes > held.list[i].base) {
            vb_report(VB_DMA_OVERLAP, address, held.list[i].place, place, 0);
            break;
        }
    each_line(address, bytes, target_line, place);
}

static void wrote_line(window *w, uint64_t at, vb_place place)
{
    line *l = line_of(w, at);
    l->state &= (uint8_t)~(LOST | UNCLEAN);
    l->master = place;
    l->own = 0;
    remember(w, at);
    if (out_of_cache(w, at) || !(l->state & PRESENT)) {
        memcpy(w->cpu + at, w->bus + at, length(w, at));
        if (out_of_cache(w, at))
            return;
    }
    l->state |= l->state & TOUCHED ? EXPOSED : REFILL;
}

void vb_master_wrote(uintptr_t address, uintptr_t bytes, vb_place place)
{
    each_line(address, bytes, wrote_line, place);
}

static void software_line(window *w, uint64_t at, vb_place place)
{
    (void)place;
    line *l = line_of(w, at);
    memcpy(w->cpu + at, w->bus + at, length(w, at));
    l->state &= (uint8_t)~(LOST | UNCLEAN | DIRTY | EXPOSED | REFILL);
    enter(w, at);
    agree(w, at, way_of(w, at));
    l->state |= TOUCHED;
}

void vb_software_wrote(uintptr_t address, uintptr_t bytes)
{
    each_line(address, bytes, software_line, 0);
}

void vb_hold(uintptr_t address, uintptr_t bytes, int writes, vb_place place)
{
    add(&held, (range){address, address + bytes, writes, place});
}

int vb_held(uintptr_t address, uintptr_t bytes)
{
    for (uint32_t i = 0; i < held.count; ++i)
        if (address < held.list[i].end && address + bytes > held.list[i].base)
            return 1;
    return 0;
}

void vb_let_go(void)
{
    held.count = 0;
}

void vb_traffic(void)
{
    if (!enabled)
        return;
    for (uint32_t i = 0; i < shape.sets * shape.ways; ++i)
        if (tags[i] && vb_random(256) < shape.evict)
            displace(&tags[i]);
    for (uint32_t i = 0; i < RECENT; ++i) {
        /* a prefetcher runs ahead of what was used */
        uint64_t at = 0;
        window *w = recent[i] ? window_of(recent[i] - 1u + vb_random(3), &at) : NULL;
        if (!w || vb_random(256) >= shape.refill || out_of_cache(w, at))
            continue;
        reconcile(w, at);
        enter(w, at);
    }
}

/* Memory as a CPU behind a write-back data cache sees it, and as the masters on the bus see it.
 *
 * Every modelled memory has two copies: the CPU's view (the memory of the program itself) and the
 * bus's. A line that is not in the cache is equal in both. A line in the cache differs when the CPU
 * wrote it (dirty) or a master did (stale). Lines enter by accesses and by speculative refill, and
 * leave by maintenance, by being displaced from their set, and by random eviction.
 *
 * Beside this physical state each line carries what the rules need: what was done to it since it was
 * last cleaned or invalidated, and where in the code. A broken rule is reported even when chance
 * made the data right. */
#ifndef VB_CACHE_H
#define VB_CACHE_H

#include <stdint.h>

typedef enum vb_kind {
    VB_NONE,
    VB_MISSING_CLEAN,      /* a master read a line whose CPU writes were not cleaned */
    VB_DIRTY_OVER_RESULT,  /* a written line may be evicted over what a master writes */
    VB_MISSING_INVALIDATE, /* the CPU reads a line it held while a master wrote it */
    VB_LOST_WRITE,         /* an invalidate discarded CPU writes that were used afterwards */
    VB_REFILL,             /* as MISSING_INVALIDATE, but only a speculative refill brings old bytes */
    VB_WRITE_IN_FLIGHT,    /* the CPU writes what a master uses */
    VB_READ_IN_FLIGHT,     /* the CPU reads what a master is writing */
    VB_MISALIGNED, VB_STACK_BUFFER, VB_NO_MEMORY, VB_UNREACHABLE, VB_UNCLOCKED, VB_CLOSED,
    VB_END_NOT_SIZE,       /* a range call got (address, size) where it takes (start, end) */
    VB_NOT_INITIALISED, VB_NOT_RESET, VB_RESET_IN_FLIGHT, VB_NOT_BOUND,
    VB_STALE_NPU_CACHE,    /* the NPU's own cache holds older bytes than the memory behind it */
    VB_HANG,
    VB_FREED,          /* a master uses memory that was freed, or it is freed while one does */
    VB_DMA_OVERLAP,    /* a master writes what another uses */
    VB_TORN_FRAME,     /* a frame is used while it is being written */
    VB_DROPPED_FRAME,  /* a frame was overwritten before anybody used it */
    VB_REPEATED_FRAME, /* an inference runs on a frame that was used before, or before the first */
    VB_INTERRUPT_CALL, /* an interrupt calls what only threads may call */
    VB_KINDS
} vb_kind;

/* Where in the code: number of a call site (vb_site); 0 is not known. */
typedef uint32_t vb_place;

typedef struct vb_finding {
    vb_kind kind;
    uintptr_t address; /* of the first line */
    uint32_t lines;
    uint32_t inference;
    vb_place cause, effect, written; /* the call or access at fault, where it showed, the write */
    uint32_t times;
} vb_finding;

typedef struct vb_shape {
    uint32_t line, sets, ways; /* powers of two; line in bytes, at most 64 */
    uint32_t evict, refill;    /* of 256: chance of an eviction and of a refill at an event */
} vb_shape;

typedef enum vb_access { VB_OPEN, VB_OFF, VB_SHUT } vb_access;

enum { VB_CLEAN = 1, VB_INVALIDATE = 2 };

void vb_start(uint64_t seed, const vb_shape *shape);
uint32_t vb_random(uint32_t below);

/* Model memory of the program; both views agree afterwards. Returns 0, or -1 without room. */
int vb_map(const char *name, uint8_t *cpu, uint64_t bytes);
void vb_forget(void);
void vb_set_access(uintptr_t address, vb_access access);
vb_access vb_access_of(uintptr_t address);
const char *vb_name(uintptr_t address);

/* Memory that the MPU keeps out of the cache. */
void vb_uncached(uintptr_t address, uintptr_t bytes);
void vb_enable(int on);
int vb_enabled(void);

/* The bus's copy of an address; NULL when the memory is not modelled. */
uint8_t *vb_bus(uintptr_t address);

/* The CPU is about to read or write. Writes that are not announced are found by their bytes, but for
 * one that writes what a stale line already holds. */
void vb_cpu(uintptr_t address, uintptr_t bytes, int write, vb_place place);

/* memcpy by the CPU. */
void vb_copy(void *to, const void *from, uintptr_t bytes, vb_place place);

void vb_maintain(uintptr_t address, uintptr_t bytes, int what, vb_place place);
void vb_maintain_all(int what, vb_place place);

/* A master is about to read; is about to write; has written the bus's copy. */
void vb_master_reads(uintptr_t address, uintptr_t bytes, vb_place place);
void vb_master_writes(uintptr_t address, uintptr_t bytes, vb_place place);
void vb_master_wrote(uintptr_t address, uintptr_t bytes, vb_place place);

/* Software that keeps the cache rules itself has written the bus's copy. */
void vb_software_wrote(uintptr_t address, uintptr_t bytes);

/* A master uses a range from now on; none does any more. */
void vb_hold(uintptr_t address, uintptr_t bytes, int writes, vb_place place);
void vb_let_go(void);
int vb_held(uintptr_t address, uintptr_t bytes);

/* Something else happens: lines are displaced, lines are refilled. */
void vb_traffic(void);

void vb_inference(uint32_t number);
void vb_report(vb_kind kind, uintptr_t address, vb_place cause, vb_place effect, vb_place written);
uint32_t vb_findings(const vb_finding **list);
void vb_clear_findings(void);
const char *vb_kind_name(vb_kind kind);

#endif

/* A machine with a data cache and a DMA master, for running firmware on a host.
 *
 * Every memory has two views: the CPU's (the memory of the program itself) and the bus's, which is all
 * that the accelerator sees. A third copy holds what a line was when both last agreed: a line whose
 * CPU view differs from it is dirty, a line whose bus view differs from it is stale. Lines move by
 * maintenance, by random eviction and by random refill. */
#ifndef MACHINE_H
#define MACHINE_H

#include "nf/runtime.h"

#define MACHINE_LINE 32u

typedef enum machine_violation {
    MACHINE_NONE,
    MACHINE_MISSING_CLEAN,      /* the accelerator read a line whose CPU writes were not cleaned */
    MACHINE_DIRTY_OVER_RESULT,  /* a dirty line may be evicted over what the accelerator writes */
    MACHINE_MISSING_INVALIDATE, /* the CPU reads what a master wrote without an invalidate since */
    MACHINE_LOST_WRITE          /* an invalidate discarded CPU writes that were used afterwards */
} machine_violation;

/* Faults of the maintenance itself, as hand-written code makes them. */
typedef enum machine_fault { FAULT_NO_CLEAN = 1, FAULT_NO_INVALIDATE = 2, FAULT_ENDS_ONLY = 4 } machine_fault;

void machine_seed(uint64_t seed);
uint32_t machine_random(uint32_t below);

/* Model a piece of the program's memory; both views agree afterwards. */
void machine_map(uint8_t *cpu, uint32_t bytes);
void machine_forget(void);

/* The state of a memory for masters: unpowered and closed ones are reported by the probe. */
void machine_close(uintptr_t address, nf_status why);

void machine_faults(uint32_t faults);

/* First violation since the last call. */
machine_violation machine_violated(void);

/* The CPU is about to read a range. */
void machine_cpu_reads(const void *address, uint32_t bytes);

/* A DMA master fills a range of the bus view. */
void machine_dma(const void *address, const void *data, uint32_t bytes);

/* Cache operations as application code calls them. */
void machine_clean(uintptr_t address, uintptr_t bytes);
void machine_invalidate(uintptr_t address, uintptr_t bytes);

extern const nf_port machine_port;

#endif

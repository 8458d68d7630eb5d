/* The accelerator of the modelled machine behind the runtime's port, and faults of its maintenance.
 *
 * It is a DMA master: it sees the bus's copy of memory, ends after a random delay, and meanwhile lines
 * are evicted and refilled. The memory itself is cache.h's. */
#ifndef MACHINE_H
#define MACHINE_H

#include "cache.h"

#include "nf/runtime.h"

#define MACHINE_LINE 32u
#define MACHINE_SETS 256u
#define MACHINE_WAY (MACHINE_LINE * MACHINE_SETS)

/* Faults of the maintenance itself, as hand-written code makes them. */
typedef enum machine_fault { FAULT_NO_CLEAN = 1, FAULT_NO_INVALIDATE = 2, FAULT_ENDS_ONLY = 4 } machine_fault;

/* An empty machine with the data cache of a Cortex-M55: 32 KiB, 4 ways. */
void machine_start(uint64_t seed);

/* Model a piece of the program's memory. Ends the program when there is no room. */
void machine_map(const char *name, uint8_t *cpu, uint32_t bytes);

void machine_faults(uint32_t faults);

/* First broken rule since the last call. */
vb_kind machine_violated(void);

/* The CPU is about to read a range. */
void machine_cpu_reads(const void *address, uint32_t bytes);

/* What the safe runtime's memcpy is compiled to: the CPU's accesses are seen. */
void *machine_memcpy(void *to, const void *from, size_t bytes);

/* A DMA master fills a range of the bus view. */
void machine_dma(const void *address, const void *data, uint32_t bytes);

/* calloc that ends the program when there is no room. */
void *machine_room(size_t bytes);

extern const nf_port machine_port;

#endif

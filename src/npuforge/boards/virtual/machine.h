/* The accelerator of the modelled machine behind the runtime's port, and faults of its maintenance.
 *
 * It is a DMA master: it sees the bus's copy of memory, ends after a random delay, and meanwhile lines
 * are evicted and refilled. The memory itself is cache.h's. */
#ifndef MACHINE_H
#define MACHINE_H

#include "cache.h"

#include "nf/runtime.h"

#define MACHINE_PAGE 4096u

/* A kind of machine. Both have a cache of 32 KiB and 4 ways. */
typedef struct machine_profile {
    const char *name;
    uint32_t line, sets;
    uint32_t buffers, weights; /* alignment that masters need, bytes */
    int paged;                 /* addresses of the program are virtual */
} machine_profile;

/* "mcu": Cortex-M55. "linux": lines of 64 bytes, a DMA that is not coherent, buffers at 64 and weights
 * at 128 bytes, physical memory by pages. NULL for another name. */
const machine_profile *machine_profile_named(const char *name);
extern const machine_profile *machine;

/* Faults of a driver, as hand-written code makes them: of its maintenance, and of the physical memory
 * it hands out without a look at it. */
typedef enum machine_fault {
    FAULT_NO_CLEAN = 1, FAULT_NO_INVALIDATE = 2,
    FAULT_ENDS_ONLY = 4,     /* maintenance of the first and last line only */
    FAULT_UNREGISTERED = 8,  /* no maintenance of buffers that are not the driver's own */
    FAULT_SHIFTED = 16,      /* aligned virtually, not physically */
    FAULT_SCATTERED = 32     /* pages of a buffer apart in physical memory */
} machine_fault;

/* An empty machine. */
void machine_start(uint64_t seed);

/* The part of memory that the program's own buffers lie in: what the physical faults are about, and
 * what the driver does not know. */
void machine_buffers(const uint8_t *base, uint32_t bytes);

/* Where the weights lie. */
void machine_weights(const uint8_t *base);

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

/* Whether the driver hands out memory without a look at the page table. */
extern int machine_unchecked;

/* cache_line is set to the profile's by the program. */
extern nf_port machine_port;

#endif

/* For stubs of drivers: a DMA master of the virtual board, as a camera or a display is one. */
#ifndef NPUFORGE_BOARD_H
#define NPUFORGE_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A master writes memory behind the CPU's cache; a master reads it. */
void npuforge_dma_write(void *to, const void *from, uint32_t bytes);
void npuforge_dma_read(const void *from, void *to, uint32_t bytes);

/* Memory that the MPU keeps out of the cache. */
void npuforge_uncached(void *from, uint32_t bytes);

#ifdef __cplusplus
}
#endif
#endif

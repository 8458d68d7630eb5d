/* For stubs of drivers: masters of the virtual board, as a camera or a display is one. */
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

/* A camera that fills one buffer (second NULL), or two in turn, piece by piece with random bytes: a
 * frame takes `period` events (waits, ticks, steps of a network). `done` (may be NULL) is called, as an
 * interrupt would, with the buffer and the number of the frame, from 1. */
void npuforge_camera_start(void *first, void *second, uint32_t bytes, uint32_t period,
                           void (*done)(void *buffer, uint32_t number));
void npuforge_camera_stop(void);

/* Number of whole frames so far. */
uint32_t npuforge_camera_frame(void);

#ifdef __cplusplus
}
#endif
#endif

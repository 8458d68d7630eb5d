/* A camera: a DMA master that fills frame buffers while the application does something else, and
 * other masters that an application's stubs of drivers stand for. */
#include "board.h"

#include "npuforge_board.h"

#include <stdlib.h>

#define SLICES 8u
#define CHANCE 4u     /* one frame of so many gets an injected fault */
#define LATE_TICKS 64u

enum { FAULT_DROP = 1, FAULT_TEAR = 2, FAULT_LATE = 4 };

static struct {
    uint8_t *buffers[2];
    uint32_t bytes, slice, number, pause, ticks_a_slice, ticks;
    uint32_t shown[2];  /* number of the whole frame in a buffer; 0: none */
    uint32_t used[2];   /* number of the frame that was last used from it */
    uint32_t inferred;  /* number of the frame that the last inference used */
    int active, drop, tear, busy;
    void (*done)(void *buffer, uint32_t number);
    vb_place started;
} camera;

void npuforge_dma_write(void *to, const void *from, uint32_t bytes)
{
    const vb_place place = HERE;
    vb_last = place;
    vb_check_memory((uintptr_t)to, place);
    vb_bus_write((uintptr_t)to, from, bytes, place);
}

void npuforge_dma_read(const void *from, void *to, uint32_t bytes)
{
    const vb_place place = HERE;
    vb_last = place;
    vb_check_memory((uintptr_t)from, place);
    vb_bus_read((uintptr_t)from, to, bytes, place);
}

void npuforge_uncached(void *from, uint32_t bytes)
{
    vb_uncached((uintptr_t)from, bytes);
}

void npuforge_camera_start(void *first, void *second, uint32_t bytes, uint32_t period,
                           void (*done)(void *buffer, uint32_t number))
{
    camera.started = HERE;
    camera.buffers[0] = first;
    camera.buffers[1] = second ? second : first;
    camera.bytes = bytes;
    camera.ticks_a_slice = period < SLICES ? 1u : period / SLICES;
    camera.done = done;
    camera.slice = camera.number = camera.pause = camera.ticks = 0;
    camera.active = 1;
    vb_check_buffer((uintptr_t)first, camera.started);
    if (second)
        vb_check_buffer((uintptr_t)second, camera.started);
}

void npuforge_camera_stop(void) { camera.active = 0; }
uint32_t npuforge_camera_frame(void) { return camera.number; }

static uint32_t target(void)
{
    return camera.buffers[1] == camera.buffers[0] ? 0 : camera.number & 1u;
}

static int touches(const uint8_t *buffer, uintptr_t address, uint32_t bytes)
{
    return buffer && address < (uintptr_t)buffer + camera.bytes && address + bytes > (uintptr_t)buffer;
}

static void begin_frame(vb_place place)
{
    const uint32_t b = target();
    if (camera.shown[b] && camera.used[b] != camera.shown[b])
        vb_report(VB_DROPPED_FRAME, (uintptr_t)camera.buffers[b], place, camera.started, 0);
    camera.drop = (vb_camera_faults & FAULT_DROP) && vb_random(CHANCE) == 0;
    camera.tear = (vb_camera_faults & FAULT_TEAR) && vb_random(CHANCE) == 0;
    if ((vb_camera_faults & FAULT_LATE) && vb_random(CHANCE) == 0)
        camera.pause = LATE_TICKS;
}

static void tell(uint32_t b)
{
    if (!camera.done)
        return;
    ++vb_interrupts;
    camera.done(camera.buffers[b], camera.number + 1u);
    --vb_interrupts;
}

void vb_camera_tick(vb_place place)
{
    if (!camera.active || camera.busy)
        return;
    if (camera.pause > 0) {
        --camera.pause;
        return;
    }
    if (++camera.ticks % camera.ticks_a_slice != 0)
        return;
    const uint32_t b = target();
    if (camera.slice == 0)
        begin_frame(place);
    if (camera.pause > 0)
        return;
    const uint32_t from = camera.bytes / SLICES * camera.slice;
    const uint32_t end = camera.slice + 1u == SLICES ? camera.bytes : from + camera.bytes / SLICES;
    uint8_t *data = malloc(end - from ? end - from : 1);
    if (!data)
        abort();
    for (uint32_t i = 0; i < end - from; ++i)
        data[i] = (uint8_t)vb_random(256);
    vb_bus_write((uintptr_t)camera.buffers[b] + from, data, end - from, camera.started);
    free(data);
    camera.shown[b] = 0;
    camera.busy = 1; /* the callback may cause events itself */
    if (camera.tear && camera.slice == SLICES / 2u)
        tell(b);
    if (++camera.slice == SLICES) {
        camera.slice = 0;
        if (!camera.drop)
            camera.shown[b] = camera.number + 1u;
        if (!camera.drop && !camera.tear)
            tell(b);
        ++camera.number;
    }
    camera.busy = 0;
}

void vb_camera_used(uintptr_t address, uint32_t bytes, int by_npu, vb_place place)
{
    for (uint32_t b = 0; camera.active && b < 2u; ++b) {
        if (!touches(camera.buffers[b], address, bytes))
            continue;
        if (camera.slice > 0 && b == target()) {
            vb_report(VB_TORN_FRAME, address & ~(uintptr_t)(CORTEX_M55_LINE - 1u), place,
                      camera.started, 0);
        } else if (by_npu && camera.shown[b] == camera.inferred) {
            vb_report(VB_REPEATED_FRAME, address, place, camera.started, 0);
        }
        camera.used[b] = camera.shown[b];
        if (by_npu)
            camera.inferred = camera.shown[b];
        return;
    }
}

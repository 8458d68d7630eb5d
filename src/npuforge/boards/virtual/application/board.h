/* The virtual board under an application of the user's: what its parts tell each other. */
#ifndef VB_BOARD_H
#define VB_BOARD_H

#include "cache.h"
#include "ll_aton_runtime.h"

/* Where in the application a call of the board came from: an address in the application's code. */
#define HERE ((vb_place)(uintptr_t)__builtin_return_address(0) - 1u)

#define CORTEX_M55_LINE 32u

typedef struct vb_span {
    const char *name;
    uintptr_t base, end;
} vb_span;

/* Variables of a section of their own, which the cache never holds. */
typedef struct vb_section {
    vb_span span;
    int coupled; /* tightly coupled memory: no other master reaches it */
} vb_section;

/* A network as the generated table describes it. */
typedef struct npuforge_network {
    const LL_Buffer_InfoTypeDef *inputs, *outputs; /* end with a name of NULL */
    uint32_t input_count, output_count;
    const vb_span *scratch; /* what the NPU writes beside the outputs */
    uint32_t scratch_count;
    const uint8_t *output_by_cpu;   /* of each output: the driver's CPU code writes it last */
    const uint8_t *input_in_cache;  /* of each input: the NPU's own cache may hold it */
    void *bound_inputs[32], *bound_outputs[32];
    uint8_t *seen[32]; /* what the NPU's cache holds of an input */
    uint32_t number;
} npuforge_network;

/* Generated: memories of the board, networks, and those sections that the cache never holds. */
extern const vb_span vb_memories[];
extern const uint32_t vb_memory_count;
extern npuforge_network *const vb_networks[];
extern const uint32_t vb_network_count;
extern const vb_section vb_uncached_sections[];
extern const uint32_t vb_uncached_count;
extern uint8_t vb_data_begin[], vb_data_end[];

extern uint32_t vb_camera_faults; /* bits: 1 drop, 2 tear, 4 late */
extern vb_place vb_last; /* the last access or call that was seen */

extern uint32_t vb_interrupts; /* not 0: a callback that stands for an interrupt is running */
uint32_t vb_now(void);         /* ticks so far */
void vb_check_time(vb_place place); /* ends the run when its time is over */

#define VB_THREAD_STACK (224u << 10)
void *vb_thread_stack(uint32_t number);

/* Something happens beside the CPU: time goes by, frames arrive, lines move. */
void vb_event(vb_place place);

/* Masters' moves of bytes, for memory that is modelled and memory that is not. */
void vb_bus_read(uintptr_t from, void *to, uint32_t bytes, vb_place place);
void vb_bus_write(uintptr_t to, const void *from, uint32_t bytes, vb_place place);

/* What a master may not use: the stack, freed memory, no memory at all. */
void vb_check_memory(uintptr_t address, vb_place place);
/* The same, and its first line begins with it. */
void vb_check_buffer(uintptr_t address, vb_place place);
int vb_in_stack(uintptr_t address);
int vb_is_freed(uintptr_t address, vb_place *freed_at);

void vb_camera_tick(vb_place place);
void vb_camera_used(uintptr_t address, uint32_t bytes, int by_npu, vb_place place);

/* Cache maintenance by (address, size): of the CPU's cache, VB_CLEAN or VB_INVALIDATE; and what the NPU's
 * cache holds of a range, forgotten. */
void vb_by_address(uintptr_t address, int32_t bytes, int what, vb_place place);
void vb_forget_npu_cache(uintptr_t base, uintptr_t end, vb_place place);

/* Bind a buffer of the application to an input or output. */
LL_ATON_User_IO_Result_t vb_bind(npuforge_network *n, int output, uint32_t index, void *buffer,
                                 uint32_t bytes, vb_place place);

/* The life cycle, for the interfaces above it. */
void vb_runtime_init(vb_place place);
void vb_init_network(NN_Instance_TypeDef *instance, vb_place place);
void vb_reset(NN_Instance_TypeDef *instance, vb_place place);
LL_ATON_RT_RetValues_t vb_run_block(NN_Instance_TypeDef *instance, vb_place place);
void vb_wait(vb_place place);

/* Numbers of a network: computed by the process that started the board. */
void vb_compute(const npuforge_network *network, uint8_t *const *inputs, uint8_t **outputs);
_Noreturn void vb_finish(void);
int vb_may_start(void); /* whether one more inference is wanted */

#endif

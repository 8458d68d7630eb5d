/* npuforge runtime: tensor views, the step table and its interpreter.
 *
 * The same objects run in the host extension, in QEMU and on a board. A network is constant data:
 * an array of nf_step over operands that say where a tensor lies and which part of it is held.
 */
#ifndef NF_H
#define NF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the layout of the structures below. Generated networks state the one they were made
 * for, and do not compile against another. */
#define NF_ABI 3

/* Largest number of operands of one step. */
#define NF_MAX_OPERANDS 12

/* Element types by number, where a kernel takes one as a parameter. */
typedef enum nf_dtype {
    NF_INT8, NF_UINT8, NF_INT16, NF_INT32, NF_INT64, NF_FLOAT16, NF_FLOAT32, NF_BOOL
} nf_dtype;

/* How the bytes of a tensor are laid out, and which part of it is held.
 *
 * (n, h, w, c) is the whole logical tensor. Rows y0..y1-1 and columns x0..x1-1 of it are held at
 * the data pointer; a whole tensor has y0 = x0 = 0, y1 = h, x1 = w. A kernel makes exactly the
 * held part of its outputs. Reading outside of the logical tensor yields `pad`; reading inside of
 * it but outside of the held part is an error of the plan.
 * Strides are in bytes; a stride of 0 repeats (broadcast).
 */
typedef struct nf_shape {
    int32_t n, h, w, c;
    int32_t sn, sh, sw, sc;
    int32_t y0, y1, x0, x1;
    int32_t pad;
} nf_shape;

/* One operand of a step: `offset` bytes into memory space `space`. Space 0 is the constants. */
typedef struct nf_operand {
    uint32_t space;
    uint32_t offset;
    const nf_shape *shape;
} nf_operand;

/* An operand with its address filled in. `data` is the element (0, y0, x0, 0). */
typedef struct nf_view {
    uint8_t *data;
    const nf_shape *shape;
} nf_view;

/* A kernel. Operands are in the order the kernel documents; parameters are its own structure. */
typedef void (*nf_kernel_fn)(const nf_view *operands, const void *params);

typedef struct nf_step {
    nf_kernel_fn run;
    const nf_operand *operands;
    const void *params;
    uint16_t operand_count;
    uint16_t node; /* index of the graph node this step belongs to */
} nf_step;

/* Called after each step; `step` is its index. */
typedef void (*nf_hook)(void *context, uint32_t step);

typedef struct nf_program {
    const nf_step *steps;
    uint32_t step_count;
} nf_program;

/* Run steps first..first+count-1. `spaces[i]` is the base address of memory space i. `hook` may be
 * NULL. Returns 0, or -1 when the range lies outside of the program or a step has too many
 * operands (nothing has run then). */
int nf_exec(const nf_program *program, uint8_t *const *spaces, uint32_t first, uint32_t count,
            nf_hook hook, void *context);

#ifdef __cplusplus
}
#endif
#endif

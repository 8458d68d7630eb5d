/* A compiled Neural-ART program as generated code describes it, and the call that runs it.
 *
 * NPU steps are handed to a port (a board's driver, or the simulator on the other side of a
 * mailbox); CPU steps are computed here, in double precision by their real-valued definition,
 * rounded once, halves to even: what npuforge's simulator computes, in the same order.
 */
#ifndef NF_ATON_H
#define NF_ATON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_aton_type { NF_ATON_INT8, NF_ATON_UINT8, NF_ATON_FLOAT32 } nf_aton_type;

/* Shape (batch, height, width, channels) and strides in bytes of a tensor in memory. */
typedef struct nf_aton_tensor {
    uintptr_t address;
    uint32_t dims[4];
    uint32_t strides[4];
    nf_aton_type type;
} nf_aton_tensor;

/* real = scale * (stored - zero); unused for float tensors. */
typedef struct nf_aton_scale {
    float scale;
    int32_t zero;
} nf_aton_scale;

/* Elements of `size` bytes from one strided array of five axes to another. */
typedef struct nf_aton_move {
    uintptr_t from, to;
    uint32_t size;
    uint32_t dims[5];
    uint32_t from_strides[5], to_strides[5];
} nf_aton_move;

/* Operators from one tensor to one tensor. */
typedef struct nf_aton_map {
    nf_aton_tensor input, output;
    nf_aton_scale from, to;
} nf_aton_map;

typedef struct nf_aton_softmax {
    nf_aton_map map;
    uint32_t axis; /* of (batch, height, width, channels) */
} nf_aton_softmax;

typedef enum nf_aton_curve {
    NF_ATON_HARD_SIGMOID, NF_ATON_HARD_SWISH, NF_ATON_SIGMOID, NF_ATON_TANH, NF_ATON_RELU,
    NF_ATON_LEAKY_RELU, NF_ATON_EXP, NF_ATON_SQRT, NF_ATON_ABS, NF_ATON_RECIPROCAL, NF_ATON_NEG,
    NF_ATON_LOG, NF_ATON_SIN, NF_ATON_COS, NF_ATON_SIGN, NF_ATON_ROUND, NF_ATON_FLOOR,
    NF_ATON_CEIL, NF_ATON_SWISH
} nf_aton_curve;

/* A function of each float; alpha and beta where the curve has them. */
typedef struct nf_aton_function {
    nf_aton_map map;
    nf_aton_curve curve;
    double alpha, beta;
} nf_aton_function;

typedef enum nf_aton_pairing {
    NF_ATON_ADD, NF_ATON_SUB, NF_ATON_MUL, NF_ATON_DIV, NF_ATON_MIN, NF_ATON_MAX
} nf_aton_pairing;

/* Two tensors of the output's shape; strides of 0 repeat a smaller one. Both name the output. */
typedef struct nf_aton_pair {
    nf_aton_map first, second;
    nf_aton_pairing how;
} nf_aton_pair;

/* Where an output position lies in the input, one table an axis. Nearest neighbour has first ==
 * second and part 0. Tables are made on the PC. */
typedef struct nf_aton_tap {
    uint32_t first, second;
    double part;
} nf_aton_tap;

typedef struct nf_aton_resize {
    nf_aton_map map;
    const nf_aton_tap *rows, *columns;
} nf_aton_resize;

/* Integer convolution; kernels (output channel, row, column, input channel of the group). */
typedef struct nf_aton_conv {
    nf_aton_map map;
    nf_aton_tensor kernels;
    const int32_t *bias;      /* one an output channel, or NULL */
    const int32_t *zeros;     /* of the kernels, one an output channel */
    const double *gains;      /* input scale * kernel scale, one an output channel */
    uint32_t stride[2], pad[2], groups;
} nf_aton_conv;

void nf_aton_run_move(const void *work);
void nf_aton_run_dequantize(const void *work);
void nf_aton_run_quantize(const void *work);
void nf_aton_run_softmax(const void *work);
void nf_aton_run_function(const void *work);
void nf_aton_run_pair(const void *work);
void nf_aton_run_resize(const void *work);
void nf_aton_run_conv(const void *work);

enum { NF_ATON_CLEAN = 1, NF_ATON_INVALIDATE = 2 };

/* Maintenance of the CPU's data cache. */
typedef struct nf_aton_cache {
    uintptr_t address;
    uint32_t bytes;
    uint32_t what; /* NF_ATON_CLEAN | NF_ATON_INVALIDATE */
} nf_aton_cache;

/* One step: an operator of the CPU, or (run == NULL) a hand-over to the NPU. */
typedef struct nf_aton_step {
    void (*run)(const void *work);
    const void *work;
    const nf_aton_cache *caches; /* those before the step, then those after it */
    uint16_t before, after;
    uint32_t number; /* of the hand-over, counted by the compiled network's steps */
} nf_aton_step;

typedef struct nf_aton_program {
    uint32_t id; /* which program this is: both sides of a hand-over must agree */
    const nf_aton_step *steps;
    uint32_t step_count;
} nf_aton_program;

/* What a board does for a program. Calls return 0 or a status that ends the run. */
typedef struct nf_aton_port {
    void *context;
    /* Carry out hand-over `number` and return when the NPU is done. */
    int (*npu)(void *context, const nf_aton_program *program, uint32_t number);
    void (*cache)(void *context, const nf_aton_cache *range);
} nf_aton_port;

/* Called after each step; `step` is its index. */
typedef void (*nf_aton_hook)(void *context, uint32_t step);

/* One inference. Returns 0, or the status of the port's call that failed. */
int nf_aton_run(const nf_aton_program *program, const nf_aton_port *port, nf_aton_hook hook,
                void *context);

#ifdef __cplusplus
}
#endif
#endif

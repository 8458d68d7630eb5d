/* A network as generated code describes it, and the calls that run it. */
#ifndef NF_NETWORK_H
#define NF_NETWORK_H

#include "nf/nf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_MAX_RANK 8

/* An input or output: where it lies, its shape, and real = scale * (stored - zero_point). A scale
 * of 0 means that the tensor is not quantised. */
typedef struct nf_io {
    const char *name;
    nf_dtype dtype;
    uint8_t space;
    uint8_t rank;
    uint32_t offset;
    uint32_t bytes;
    int32_t dims[NF_MAX_RANK];
    float scale;
    int32_t zero_point;
} nf_io;

/* A tensor that can be read after the step that finishes it, for comparing layer by layer. */
typedef struct nf_capture {
    uint32_t step;
    uint32_t space;
    uint32_t offset;
    uint32_t bytes;
} nf_capture;

/* A variable that keeps its value from one run to the next: its bytes in `space`, and where its first
 * value lies in the constants. */
typedef struct nf_state {
    uint32_t space;
    uint32_t offset;
    uint32_t bytes;
    uint32_t initial;
} nf_state;

typedef struct nf_network {
    const char *name;
    nf_program program;
    uint8_t *const *spaces;
    uint32_t space_count;
    const nf_io *inputs;
    uint32_t input_count;
    const nf_io *outputs;
    uint32_t output_count;
    const nf_capture *captures;
    uint32_t capture_count;
    const nf_state *states;
    uint32_t state_count;
    const uint32_t *space_bytes; /* size of each memory space; the first is that of the weights */
    uint32_t weights_crc;        /* CRC-32 (IEEE 802.3) of the weights */
    uint32_t build;              /* number of this generation: other plan or weights, other number */
    uint32_t abi;                /* NF_ABI it was made for */
} nf_network;

/* Address of an input or output; NULL when there is none with this number. Inputs may be
 * overwritten by a run: fill them again before the next one. */
uint8_t *nf_network_input(const nf_network *network, uint32_t index);
const uint8_t *nf_network_output(const nf_network *network, uint32_t index);

/* Give all state variables their first values: before the first run, and whenever a new sequence
 * (a stream, a sentence) begins. Without states it does nothing. */
void nf_network_reset(const nf_network *network);

/* One inference. Returns 0, or -1 when the step table is not valid. */
int nf_network_run(const nf_network *network, nf_hook hook, void *context);

/* Index of the largest element of an int8, uint8 or float32 output; -1 for other types. */
int32_t nf_network_argmax(const nf_network *network, uint32_t output);

#ifdef __cplusplus
}
#endif
#endif

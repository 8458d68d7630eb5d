/* Host kernels with vector instructions: what they are given beside the operands.
 *
 * A variant runs under the step of a portable kernel and yields the same bytes. Its `params` is an
 * nf_prepared, made once when the program is built: packed weights, folded bias, rescaling.
 */
#ifndef NF_SIMD_VARIANT_H
#define NF_SIMD_VARIANT_H

#include "nf/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pixels whose patches are gathered and multiplied together. */
#define NF_SIMD_PIXELS 8

typedef struct nf_prepared {
    const void *params;        /* of the portable kernel */
    const void *weights;       /* packed, see nf_simd_variant */
    const int32_t *bias;       /* per output, padded with zeros to 2 * lanes like all below */
    const int32_t *multiplier; /* NULL when a scale is given */
    const int32_t *shift;
    const float *scale;
    const double *scale_wide;
    void *scratch;             /* NF_SIMD_PIXELS patches */
    int32_t k_padded;          /* elements of a patch, a multiple of `group`; depthwise: channels */
    int32_t y_operand;
} nf_prepared;

/* One instruction set. Convolution weights are packed as [output / (2 * lanes)][k / group]
 * [2 * lanes][group] of int16; depthwise weights as [tap][k_padded channels] of int32. A patch holds
 * stored values plus the input offset. */
typedef struct nf_simd_variant {
    const char *name;
    int32_t lanes, group;
    nf_kernel_fn conv2d, depthwise, fully_connected;
} nf_simd_variant;

#ifdef NF_SIMD_X86
extern const nf_simd_variant nf_simd_avx2;
#endif

#ifdef __cplusplus
}
#endif
#endif

/* Host kernels with vector instructions: what they are given beside the operands.
 *
 * A variant runs under the step of a portable kernel and yields the same bytes. Its `params` is an
 * nf_prepared, made once when the program is built: packed weights, rescaling, geometry.
 */
#ifndef NF_SIMD_VARIANT_H
#define NF_SIMD_VARIANT_H

#include "nf/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most outputs of one channel that are computed from one band of the input. */
#define NF_SIMD_PIXELS 256

/* Input pixels along one axis that `outputs` neighbours read together. */
static inline int32_t nf_simd_span(int64_t outputs, int32_t stride, int32_t kernel,
                                   int32_t dilation)
{
    return (int32_t)((outputs - 1) * stride) + (kernel - 1) * dilation + 1;
}

/* How accumulators become bytes. NF_SIMD_FIXED is nf_requantize in general; NF_SIMD_FIXED_RIGHT the
 * same where every shift goes right and twice an accumulator fits 32 bits: words of weights and
 * their bias are packed doubled then, sums of bytes are doubled by the kernel. */
typedef enum nf_simd_rescale {
    NF_SIMD_FIXED_RIGHT, NF_SIMD_FIXED, NF_SIMD_F32, NF_SIMD_F64
} nf_simd_rescale;

/* Arrays of one value an output channel hold blocks of 2 * lanes channels, those of
 * `joined` pixels one after another, in the order of nf_simd_variant.order, the rest zeros; an array may be read `lanes` elements past its end. */
typedef struct nf_prepared {
    nf_params_conv2d_s8 window;
    nf_shape x, y;             /* a fully connected layer is a 1 x 1 convolution of one row */
    const void *weights;       /* packed, see nf_simd_variant; int8 rows of a lone product */
    const int32_t *bias;       /* of products of bytes: less what their offset adds */
    nf_simd_rescale rescale;
    const int32_t *multiplier, *shift; /* shift: as in the portable kernel; RIGHT: its magnitude */
    const int32_t *round;              /* 2^(shift - 1), RIGHT only */
    const float *scale;
    const double *scale_wide;
    /* The input as int16 plus its offset, or as bytes plus 128, padding included: rows of `pitch`
     * elements. A product runs over `run_count` runs of `run_steps` groups at element offsets
     * `runs` from its window. */
    void *scratch;
    const int32_t *runs;
    int32_t run_count, run_steps, pitch;
    int32_t rows, columns;     /* outputs of a band, at most NF_SIMD_PIXELS */
    int32_t repeat;            /* copies of each input channel side by side in the band */
    int32_t joined;            /* depthwise: neighbours in a row that are channels of one pixel */
    int32_t y_operand;
    ptrdiff_t y_offset;        /* bytes from the operand to the first output */
} nf_prepared;

/* A transposed convolution: one ordinary convolution for each place of an output in its stride. */
typedef struct nf_prepared_parts {
    const nf_prepared *const *part;
    int32_t count;
} nf_prepared_parts;

/* nf_requantize by one multiplier where the shift goes right, `round` is half of its unit. */
typedef struct nf_simd_scaling {
    int32_t multiplier, round, shift;
} nf_simd_scaling;

/* Where the rows of an operand begin, in bytes; `step` 0 repeats the first element of a row. */
typedef struct nf_simd_rows {
    ptrdiff_t start;
    int32_t stride[3], step;
} nf_simd_rows;

/* Sums and products of two int8 tensors, over rows as long as the strides of all three allow. */
typedef struct nf_prepared_binary {
    int32_t size[3], count;
    nf_simd_rows a, b, y;
    nf_simd_scaling scale_a, scale_b, scale_y;
    int32_t a_offset, b_offset, left_shift, subtract, out_offset, act_min, act_max;
} nf_prepared_binary;

/* One instruction set. Products are of int16 words where `group` is 2, of bytes where it is 4: the
 * input's unsigned, plus 128, which the bias takes back. Convolution weights are packed as
 * [block][run][step][channels][group] of int16 or int8, where a block is 2 * lanes channels in `order`, or `lanes` in natural order when no more
 * are left; depthwise weights as [block][pair of taps][2 * lanes channels in `order`][2] of int16.
 * `lone_product` is a fully connected layer of one row with weights as they are. `transposed` takes
 * an nf_prepared_parts, `add` and `mul` an nf_prepared_binary, `lut`, `mean` and `max_pool` the
 * parameters of the portable kernel. */
typedef struct nf_simd_variant {
    const char *name;
    int32_t lanes, group;
    const int32_t *order;
    nf_kernel_fn conv2d, depthwise, lone_product, transposed, add, mul, lut, mean, max_pool;
} nf_simd_variant;

#ifdef NF_SIMD_X86
extern const nf_simd_variant nf_simd_avx2, nf_simd_avx_vnni, nf_simd_avx512, nf_simd_avx512_vnni,
    nf_simd_avx512_vbmi;
#endif

#ifdef __cplusplus
}
#endif
#endif

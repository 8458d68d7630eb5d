/* One convolution as the Neural-ART computes it: exact sums of parts, passes and links, the 16-bit
 * shift, and the requantisation stages. The specification is numerics/neural_art/units.py; the
 * Python side admits a layer only when every intermediate fits the types used here. */
#ifndef NPUFORGE_NEURAL_ART_LAYER_H
#define NPUFORGE_NEURAL_ART_LAYER_H

#include <stdint.h>

#define NA_LANES 16 /* outputs are packed in blocks of this many */
#define NA_BLOCK 32 /* pixels that share one pass over the weights */

typedef struct {
    int32_t height, width, channels; /* of the padded map */
    int32_t out_height, out_width, outputs;
    int32_t kernel_height, kernel_width;
    int32_t stride_y, stride_x, dilation_y, dilation_x;
    int32_t depthwise;
    int32_t parts, passes, links;
    const int32_t *part;    /* row, rows, column, columns of each part */
    const int32_t *slice;   /* channel bounds of each link of each pass */
    const int16_t *weights; /* packed in blocks, or kernel rows, columns, outputs */
    int32_t outshift, two_stage, wide;
    int32_t gain_shift, global_gain, global_shift, low, high;
    const int32_t *gain;
    const int64_t *offset;
    const int32_t *narrow; /* the offsets again, where 32 bits hold every stage */
} na_layer;

typedef struct {
    int64_t shift;   /* 16-bit sums at a limit */
    int64_t gain;    /* intermediates beyond 16 bit */
    int64_t output;  /* results beyond the output's range */
    int32_t largest; /* largest magnitude of a 16-bit sum */
} na_counts;

typedef void na_run_fn(const na_layer *layer, const int16_t *x, int8_t *y, int16_t *patches,
                       int32_t *sums, int32_t *running, int32_t *total, na_counts *counts);

na_run_fn na_run_portable;
na_run_fn na_run_avx2;

#endif

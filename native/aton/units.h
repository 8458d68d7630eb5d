/* Hot loops of the Neural-ART simulator (host only). Streams hold one 24-bit element, sign-extended,
 * an int32_t. Callers check all sizes and ranges; npuforge.aton.arithmetic
 * and npuforge.aton.streams do. */
#ifndef NPUFORGE_ATON_UNITS_H
#define NPUFORGE_ATON_UNITS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One frame of a stream engine: rows x columns of `depth` elements of `size` bytes. */
typedef struct {
    int64_t rows, columns, depth;
    int64_t line, pixel; /* byte steps */
    int size;            /* 1..3 */
    int sign;            /* sign-extend when reading */
} au_frame;

/* Read `count` frames that start at `starts`; offset of the first byte nobody wrote, or -1. */
int64_t au_gather(const uint8_t *data, const uint8_t *written, const int64_t *starts,
                  int64_t count, const au_frame *frame, int32_t *out);

/* Write frames in order; notes the bytes in `written`. */
void au_scatter(uint8_t *data, uint8_t *written, const int64_t *starts, int64_t count,
                const au_frame *frame, const int32_t *values);

typedef struct {
    int64_t height, width, batch;        /* of a feature frame, padding included */
    int64_t kernel_height, kernel_width; /* of a kernel */
    int64_t down, across;                /* strides */
    int64_t kernels;                     /* of one frame, at most AU_MAX_KERNELS */
} au_shape;

enum { AU_MAX_KERNELS = 255 };

/* Exact sums of products that fit 32 bits. `x` has one element of slack behind its end; `index`
 * names the feature frame of each of the `frames` output frames. `scratch` holds
 * kernel_height * (kernel_width * batch + 1) * (kernels + 8) elements. */
void au_convolve(const int16_t *x, const int32_t *index, const int16_t *weights, int64_t frames,
                 const au_shape *shape, int16_t *scratch, int32_t *out);

/* The output stage of a CONVACC; returns how many values saturate. limit: 0 wrap, 1 signed,
 * 2 unsigned. */
int64_t au_requantise(const int32_t *sums, const int32_t *carry, int64_t count, int in_shift,
                      int out_shift, int round, int limit, int bits, int32_t *out);

typedef struct {
    int32_t operation, x_bytes, y_bytes, ax, by, cs, res, round, saturate, clip, clip_min, clip_max;
    int32_t bytes, combine, vector_a, vector_b, vector_c, a, b, c;
    int32_t every[4], step[4]; /* index counters: plain, 1, 2, 3; every 0 = off */
} au_arith_params;

/* ARITH: affine (operation 0) or product (7); `table` holds 512 times A, B, C. Returns how many
 * values saturate. */
int64_t au_arith(const int32_t *x, const int32_t *y, int64_t count, const au_arith_params *p,
                 const int32_t *table, int32_t *out);

#ifdef __cplusplus
}
#endif
#endif

/* The kernels of one instruction set, over the vector words its source file defines first:
 * V, B, LANES, GROUP, BLOCK, NAME, VARIANT, order, v_load, v_store, v_set1, v_zero, v_dot, v_widen,
 * v_interleave_low, v_interleave_high, v_total, v_finish, v_finish_half, v_store_bytes and those of
 * elementwise.h. */
#include <string.h>

#include "../../runtime/src/view.h"

/* Vectors may be written past `count`, up to 2 * LANES - 1 elements. */
NF_INLINE void widen(int16_t *to, const uint8_t *from, int32_t count, V offset)
{
    for (int32_t i = 0; i < count; i += 2 * LANES)
        v_store(to + i, v_add_16(v_widen(from + i), offset));
}

static void widen_repeated(int16_t *to, const uint8_t *from, int32_t count, int32_t repeat,
                           int32_t offset)
{
    for (int32_t i = 0; i < count; ++i)
        for (int32_t k = 0; k < repeat; ++k)
            *to++ = (int16_t)((int8_t)from[i] + offset);
}

/* What `rows` x `columns` outputs from (oy, ox) on read, into the scratch. Ascending addresses, so
 * that what `widen` writes too much is overwritten. */
static void fill_band(const nf_prepared *q, const nf_view *x, int32_t n, int32_t oy, int32_t ox,
                      int32_t rows, int32_t columns)
{
    const nf_params_conv2d_s8 *p = &q->window;
    const nf_shape *in = &q->x;
    const int32_t depth = in->c * q->repeat;
    const int32_t top = oy * p->stride_h - p->pad_top, left = ox * p->stride_w - p->pad_left;
    const int32_t height = nf_simd_span(rows, p->stride_h, p->kernel_h, p->dilation_h);
    const int32_t width = nf_simd_span(columns, p->stride_w, p->kernel_w, p->dilation_w);
    const int32_t first = nf_clamp(-left, 0, width);
    const int32_t last = nf_clamp(in->w - left, first, width);
    const V offset = v_set1_16(p->in_offset);
    for (int32_t r = 0; r < height; ++r) {
        int16_t *row = q->scratch + (ptrdiff_t)r * q->pitch;
        if (top + r < 0 || top + r >= in->h || first == last) {
            memset(row, 0, sizeof *row * (size_t)(width * depth));
            continue;
        }
        memset(row, 0, sizeof *row * (size_t)(first * depth));
        const uint8_t *from = nf_at(x, n, top + r, left + first);
        if (q->repeat == 1 && in->sw == depth)
            widen(row + first * depth, from, (last - first) * depth, offset);
        else
            for (int32_t i = first; i < last; ++i, from += in->sw) {
                if (q->repeat == 1)
                    widen(row + i * depth, from, depth, offset);
                else
                    widen_repeated(row + i * depth, from, in->c, q->repeat, p->in_offset);
            }
        memset(row + last * depth, 0, sizeof *row * (size_t)((width - last) * depth));
    }
}

/* One block of channels of `count` pixels: `vectors` vectors of accumulators each. */
NF_INLINE void product(const nf_prepared *q, const int16_t *w, const int16_t *const *src,
                       uint8_t *const *dst, int32_t o, int32_t held, const int32_t count,
                       const int32_t vectors)
{
    V acc[2 * BLOCK][2];
    const V b0 = v_load(q->bias + o), b1 = vectors == 2 ? v_load(q->bias + o + LANES) : b0;
#pragma GCC unroll 16
    for (int32_t i = 0; i < count; ++i) {
        acc[i][0] = b0;
        acc[i][1] = b1;
    }
    for (int32_t run = 0; run < q->run_count; ++run) {
        const int32_t offset = q->runs[run];
        for (int32_t k = 0; k < q->run_steps; ++k, w += vectors * LANES * GROUP) {
            const V w0 = v_load(w), w1 = vectors == 2 ? v_load(w + LANES * GROUP) : w0;
#pragma GCC unroll 16
            for (int32_t i = 0; i < count; ++i) {
                int32_t word;
                memcpy(&word, src[i] + offset + k * GROUP, sizeof word);
                const V x = v_set1(word);
                acc[i][0] = v_dot(acc[i][0], x, w0);
                if (vectors == 2)
                    acc[i][1] = v_dot(acc[i][1], x, w1);
            }
        }
    }
#pragma GCC unroll 16
    for (int32_t i = 0; i < count; ++i)
        v_store_bytes(dst[i] + o, held,
                      vectors == 2 ? v_finish(q, acc[i][0], acc[i][1], o)
                                   : v_finish_half(q, acc[i][0], o));
}

/* All channels of `count` pixels. */
static void products(const nf_prepared *q, const int16_t *const *src, uint8_t *const *dst,
                     int32_t count)
{
    const int16_t *w = q->weights;
    const ptrdiff_t step = (ptrdiff_t)q->run_count * q->run_steps * GROUP * LANES;
    for (int32_t o = 0; o < q->y.c; o += 2 * LANES, w += 2 * step) {
        const int32_t held = q->y.c - o;
        int32_t i = 0;
        if (held > LANES) {
            for (; i + BLOCK <= count; i += BLOCK)
                product(q, w, src + i, dst + i, o, held, BLOCK, 2);
            for (; i < count; ++i)
                product(q, w, src + i, dst + i, o, held, 1, 2);
        } else {
            for (; i + 2 * BLOCK <= count; i += 2 * BLOCK)
                product(q, w, src + i, dst + i, o, held, 2 * BLOCK, 1);
            for (; i < count; ++i)
                product(q, w, src + i, dst + i, o, held, 1, 1);
        }
    }
}

/* Channels o.. of `count` pixels; two taps are one product of pairs. */
NF_INLINE void channels(const nf_prepared *q, const int16_t *weights, const int16_t *const *src,
                        uint8_t *const *dst, int32_t o, int32_t held, const int32_t count)
{
    V acc[2][2];
    for (int32_t i = 0; i < count; ++i) {
        acc[i][0] = v_load(q->bias + o);
        acc[i][1] = v_load(q->bias + o + LANES);
    }
    for (int32_t run = 0; run < q->run_count; run += 2, weights += 4 * LANES) {
        const V w0 = v_load(weights), w1 = v_load(weights + 2 * LANES);
        for (int32_t i = 0; i < count; ++i) {
            const V a = v_load(src[i] + o + q->runs[run]);
            const V b = v_load(src[i] + o + q->runs[run + 1]);
            acc[i][0] = v_dot(acc[i][0], v_interleave_low(a, b), w0);
            acc[i][1] = v_dot(acc[i][1], v_interleave_high(a, b), w1);
        }
    }
    for (int32_t i = 0; i < count; ++i)
        v_store_bytes(dst[i] + o, held, v_finish(q, acc[i][0], acc[i][1], o));
}

static void channel_blocks(const nf_prepared *q, const int16_t *const *src, uint8_t *const *dst,
                           int32_t count)
{
    const int16_t *w = q->weights;
    for (int32_t o = 0; o < q->y.c; o += 2 * LANES, w += 2 * LANES * (ptrdiff_t)q->run_count) {
        int32_t i = 0;
        for (; i + 2 <= count; i += 2)
            channels(q, w, src + i, dst + i, o, q->y.c - o, 2);
        if (i < count)
            channels(q, w, src + i, dst + i, o, q->y.c - o, 1);
    }
}

typedef void (*pixels_fn)(const nf_prepared *, const int16_t *const *, uint8_t *const *, int32_t);

NF_INLINE void over_bands(const nf_view *v, const nf_prepared *q, pixels_fn compute)
{
    const nf_params_conv2d_s8 *p = &q->window;
    const nf_view x = {v[0].data, &q->x}, y = {v[q->y_operand].data + q->y_offset, &q->y};
    const int32_t depth = q->x.c * q->repeat;
    const int16_t *src[NF_SIMD_PIXELS];
    uint8_t *dst[NF_SIMD_PIXELS];
    for (int32_t n = 0; n < q->y.n; ++n)
        for (int32_t oy = q->y.y0; oy < q->y.y1; oy += q->rows)
            for (int32_t ox = q->y.x0; ox < q->y.x1; ox += q->columns) {
                const int32_t rows = q->y.y1 - oy < q->rows ? q->y.y1 - oy : q->rows;
                const int32_t columns = q->y.x1 - ox < q->columns ? q->y.x1 - ox : q->columns;
                fill_band(q, &x, n, oy, ox, rows, columns);
                int32_t count = 0;
                for (int32_t r = 0; r < rows; ++r)
                    for (int32_t c = 0; c < columns; ++c, ++count) {
                        src[count] = q->scratch + (ptrdiff_t)r * p->stride_h * q->pitch +
                                     (ptrdiff_t)c * p->stride_w * depth;
                        dst[count] = nf_at(&y, n, oy + r, ox + c);
                    }
                compute(q, src, dst, count);
            }
}

static void conv2d(const nf_view *v, const void *params)
{
    over_bands(v, params, products);
}

static void transposed(const nf_view *v, const void *params)
{
    const nf_prepared_parts *joint = params;
    for (int32_t i = 0; i < joint->count; ++i)
        over_bands(v, joint->part[i], products);
}

static void depthwise(const nf_view *v, const void *params)
{
    over_bands(v, params, channel_blocks);
}

/* Dot products of `count` rows of int8 weights with the scratch. */
NF_INLINE void dots(const int16_t *x, const uint8_t *const *rows, int32_t depth, int32_t *sums,
                    const int32_t count)
{
    V acc[4];
#pragma GCC unroll 4
    for (int32_t i = 0; i < count; ++i)
        acc[i] = v_zero();
    for (int32_t k = 0; k < depth; k += 2 * LANES) {
        const V v = v_load(x + k);
#pragma GCC unroll 4
        for (int32_t i = 0; i < count; ++i)
            acc[i] = v_dot(acc[i], v, v_widen(rows[i] + k));
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < count; ++i)
        sums[i] = v_total(acc[i]);
}

/* One row times int8 weights as they are: each is read once, so packing would only cost memory. */
static void lone_product(const nf_view *v, const void *params)
{
    const nf_prepared *q = params;
    const int32_t depth = q->x.c, outputs = q->y.c;
    const int32_t factor = q->rescale == NF_SIMD_FIXED_RIGHT ? 2 : 1;
    const uint8_t *weights = q->weights;
    widen(q->scratch, v[0].data, depth, v_set1_16(q->window.in_offset));
    memset(q->scratch + depth, 0, sizeof(int16_t) * 2 * LANES);
    for (int32_t o = 0; o < outputs; o += 2 * LANES) {
        const int32_t held = outputs - o < 2 * LANES ? outputs - o : 2 * LANES;
        const uint8_t *rows[2 * LANES];
        int32_t sums[2 * LANES];
        /* rows past the last are the last again, and their sums are not stored */
        for (int32_t i = 0; i < 2 * LANES; ++i) {
            const int32_t row = order[i] < held ? order[i] : held - 1;
            rows[i] = weights + (ptrdiff_t)(o + row) * depth;
        }
        for (int32_t i = 0; i < 2 * LANES; i += 4)
            if (order[i] < held)
                dots(q->scratch, rows + i, depth, sums + i, 4);
            else
                memset(sums + i, 0, 4 * sizeof *sums);
        for (int32_t i = 0; i < 2 * LANES; ++i)
            sums[i] = factor * sums[i] + q->bias[o + i];
        v_store_bytes(v[q->y_operand].data + o, held,
                      v_finish(q, v_load(sums), v_load(sums + LANES), o));
    }
}

#include "elementwise.h"

const nf_simd_variant VARIANT = {NAME,       LANES, GROUP, order, conv2d,  depthwise, lone_product,
                                 transposed, add,   mul,   mean,  max_pool};

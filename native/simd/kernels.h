/* The kernels of one instruction set, over the vector words its source file defines first:
 * V, B, LANES, GROUP, BLOCK, NAME, VARIANT, order, v_products, v_sums, v_load, v_store, v_set1, v_zero, v_dot, v_widen,
 * v_interleave_low, v_interleave_high, v_total, v_finish, v_finish_half, v_store_bytes and those of
 * elementwise.h. */
#include <string.h>

#include "../../runtime/src/view.h"

/* Bytes of an element of a band: of the products of a convolution, of a depthwise one. */
#define PRODUCT_SIZE (4 / GROUP)
#define CHANNEL_SIZE 2

/* Bytes plus 128: from signed to unsigned. May write 2 * LANES - 1 past `count`. */
NF_INLINE void lift(uint8_t *to, const uint8_t *from, int32_t count)
{
    for (int32_t i = 0; i < count; i += 4 * LANES)
        v_store(to + i, v_xor(v_load(from + i), v_set1(INT32_C(-0x7F7F7F80))));
}

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

/* What `rows` x `columns` outputs from (oy, ox) on read, into the scratch, as elements of `size`
 * bytes. Ascending addresses, so that what is written too much is overwritten. */
NF_INLINE void fill_band(const nf_prepared *q, const nf_view *x, int32_t n, int32_t oy, int32_t ox,
                         int32_t rows, int32_t columns, const int32_t size)
{
    const nf_params_conv2d_s8 *p = &q->window;
    const nf_shape *in = &q->x;
    const int32_t depth = in->c * q->repeat;
    const int32_t top = oy * p->stride_h - p->pad_top, left = ox * p->stride_w - p->pad_left;
    const int32_t height = nf_simd_span(rows, p->stride_h, p->kernel_h, p->dilation_h);
    const int32_t width = nf_simd_span(columns, p->stride_w, p->kernel_w, p->dilation_w);
    const int32_t first = nf_clamp(-left, 0, width);
    const int32_t last = nf_clamp(in->w - left, first, width);
    const int32_t unit = depth * size;
    const int padding = size == 1 ? 128 - p->in_offset : 0;
    const V offset = v_set1_16(p->in_offset);
    for (int32_t r = 0; r < height; ++r) {
        uint8_t *row = (uint8_t *)q->scratch + (ptrdiff_t)r * q->pitch * size;
        if (top + r < 0 || top + r >= in->h || first == last) {
            memset(row, padding, (size_t)(width * unit));
            continue;
        }
        memset(row, padding, (size_t)(first * unit));
        const uint8_t *from = nf_at(x, n, top + r, left + first);
        const int whole = q->repeat == 1 && in->sw == depth;
        const int32_t pixels = whole ? last - first : 1;
        for (int32_t i = first; i < last; i += pixels, from += in->sw) {
            if (size == 1)
                lift(row + i * unit, from, pixels * depth);
            else if (q->repeat == 1)
                widen((int16_t *)(row + i * unit), from, pixels * depth, offset);
            else
                widen_repeated((int16_t *)(row + i * unit), from, in->c, q->repeat, p->in_offset);
        }
        memset(row + last * unit, padding, (size_t)((width - last) * unit));
    }
}

/* One block of channels of `count` pixels: `vectors` vectors of accumulators each. */
NF_INLINE void product(const nf_prepared *q, const uint8_t *w, const uint8_t *const *src,
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
        const ptrdiff_t offset = (ptrdiff_t)q->runs[run] * PRODUCT_SIZE;
        for (int32_t k = 0; k < q->run_steps; ++k, w += vectors * 4 * LANES) {
            const V w0 = v_load(w), w1 = vectors == 2 ? v_load(w + 4 * LANES) : w0;
#pragma GCC unroll 16
            for (int32_t i = 0; i < count; ++i) {
                int32_t word;
                memcpy(&word, src[i] + offset + k * 4, sizeof word);
                const V x = v_set1(word);
                acc[i][0] = v_products(acc[i][0], x, w0);
                if (vectors == 2)
                    acc[i][1] = v_products(acc[i][1], x, w1);
            }
        }
    }
#pragma GCC unroll 16
    for (int32_t i = 0; i < count; ++i)
        v_store_bytes(dst[i] + o, held,
                      vectors == 2 ? v_finish(q, v_sums(q, acc[i][0]), v_sums(q, acc[i][1]), o)
                                   : v_finish_half(q, v_sums(q, acc[i][0]), o));
}

/* All channels of `count` pixels. */
static void products(const nf_prepared *q, const uint8_t *const *src, uint8_t *const *dst,
                     int32_t count, int32_t joined)
{
    (void)joined; /* weights are packed for one pixel */
    const uint8_t *w = q->weights;
    const ptrdiff_t step = (ptrdiff_t)q->run_count * q->run_steps * 4 * LANES;
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

/* Channels o.. of `count` pixels; two taps are one product of pairs, `runs` taps in all. */
NF_INLINE void channels(const nf_prepared *q, const int16_t *weights, const uint8_t *const *src,
                        uint8_t *const *dst, int32_t o, int32_t held, const int32_t count,
                        const int32_t runs)
{
    V acc[2][2];
    for (int32_t i = 0; i < count; ++i) {
        acc[i][0] = v_load(q->bias + o);
        acc[i][1] = v_load(q->bias + o + LANES);
    }
#pragma GCC unroll 5
    for (int32_t run = 0; run < runs; run += 2, weights += 4 * LANES) {
        const V w0 = v_load(weights), w1 = v_load(weights + 2 * LANES);
        for (int32_t i = 0; i < count; ++i) {
            const V a = v_load(src[i] + (o + q->runs[run]) * CHANNEL_SIZE);
            const V b = v_load(src[i] + (o + q->runs[run + 1]) * CHANNEL_SIZE);
            acc[i][0] = v_dot(acc[i][0], v_interleave_low(a, b), w0);
            acc[i][1] = v_dot(acc[i][1], v_interleave_high(a, b), w1);
        }
    }
    for (int32_t i = 0; i < count; ++i)
        v_store_bytes(dst[i] + o, held, v_finish(q, acc[i][0], acc[i][1], o));
}

NF_INLINE void channel_blocks(const nf_prepared *q, const uint8_t *const *src, uint8_t *const *dst,
                              int32_t count, int32_t width, const int32_t runs)
{
    const int16_t *w = q->weights;
    for (int32_t o = 0; o < width; o += 2 * LANES, w += 2 * LANES * (ptrdiff_t)runs) {
        int32_t i = 0;
        for (; i + 2 <= count; i += 2)
            channels(q, w, src + i, dst + i, o, width - o, 2, runs);
        if (i < count)
            channels(q, w, src + i, dst + i, o, width - o, 1, runs);
    }
}

/* All channels of `count` pixels, or of `count` times `joined` pixels. */
static void each_channel(const nf_prepared *q, const uint8_t *const *src, uint8_t *const *dst,
                         int32_t count, int32_t joined)
{
    if (q->run_count == 10) /* 3 x 3, the common one */
        channel_blocks(q, src, dst, count, joined * q->y.c, 10);
    else
        channel_blocks(q, src, dst, count, joined * q->y.c, q->run_count);
}

typedef void (*pixels_fn)(const nf_prepared *, const uint8_t *const *, uint8_t *const *, int32_t,
                          int32_t);

NF_INLINE void over_bands(const nf_view *v, const nf_prepared *q, pixels_fn compute,
                          const int32_t size)
{
    const nf_params_conv2d_s8 *p = &q->window;
    const nf_view x = {v[0].data, &q->x}, y = {v[q->y_operand].data + q->y_offset, &q->y};
    const int32_t depth = q->x.c * q->repeat;
    const uint8_t *src[NF_SIMD_PIXELS];
    uint8_t *dst[NF_SIMD_PIXELS];
    for (int32_t n = 0; n < q->y.n; ++n)
        for (int32_t oy = q->y.y0; oy < q->y.y1; oy += q->rows)
            for (int32_t ox = q->y.x0; ox < q->y.x1; ox += q->columns) {
                const int32_t rows = q->y.y1 - oy < q->rows ? q->y.y1 - oy : q->rows;
                const int32_t columns = q->y.x1 - ox < q->columns ? q->y.x1 - ox : q->columns;
                fill_band(q, &x, n, oy, ox, rows, columns, size);
                const int32_t joined = columns < q->joined ? columns : q->joined;
                int32_t count = 0;
                for (int32_t r = 0; r < rows; ++r)
                    for (int32_t at = 0; at < columns; at += joined, ++count) {
                        /* the last ones of a row again, where fewer are left */
                        const int32_t c = at + joined <= columns ? at : columns - joined;
                        src[count] = (const uint8_t *)q->scratch +
                                     ((ptrdiff_t)r * p->stride_h * q->pitch +
                                      (ptrdiff_t)c * p->stride_w * depth) * size;
                        dst[count] = nf_at(&y, n, oy + r, ox + c);
                    }
                compute(q, src, dst, count, joined);
            }
}

static void conv2d(const nf_view *v, const void *params)
{
    over_bands(v, params, products, PRODUCT_SIZE);
}

static void transposed(const nf_view *v, const void *params)
{
    const nf_prepared_parts *joint = params;
    for (int32_t i = 0; i < joint->count; ++i)
        over_bands(v, joint->part[i], products, PRODUCT_SIZE);
}

static void depthwise(const nf_view *v, const void *params)
{
    over_bands(v, params, each_channel, CHANNEL_SIZE);
}

/* Dot products of `count` rows of int8 weights with the scratch. */
NF_INLINE void dots(const uint8_t *x, const uint8_t *const *rows, int32_t depth, int32_t *sums,
                    const int32_t count)
{
    V acc[4];
#pragma GCC unroll 4
    for (int32_t i = 0; i < count; ++i)
        acc[i] = v_zero();
    for (int32_t k = 0; k < depth; k += GROUP * LANES) {
        const V v = v_load(x + (ptrdiff_t)k * PRODUCT_SIZE);
#pragma GCC unroll 4
        for (int32_t i = 0; i < count; ++i)
            acc[i] = v_products(acc[i], v, v_weights(rows[i] + k));
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
    const int32_t factor = GROUP == 2 && q->rescale == NF_SIMD_FIXED_RIGHT ? 2 : 1;
    const uint8_t *weights = q->weights;
    if (GROUP == 4)
        lift(q->scratch, v[0].data, depth);
    else
        widen(q->scratch, v[0].data, depth, v_set1_16(q->window.in_offset));
    memset((uint8_t *)q->scratch + (ptrdiff_t)depth * PRODUCT_SIZE, 0, 4 * LANES);
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
            sums[i] = (int32_t)((uint32_t)(factor * sums[i]) + (uint32_t)q->bias[o + i]);
        v_store_bytes(v[q->y_operand].data + o, held,
                      v_finish(q, v_sums(q, v_load(sums)), v_sums(q, v_load(sums + LANES)), o));
    }
}

#include "elementwise.h"

const nf_simd_variant VARIANT = {NAME,       LANES, GROUP, order, conv2d,  depthwise, lone_product,
                                 transposed, add,   mul,   lut,   mean,   max_pool};

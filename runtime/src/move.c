/* Data movement: copy, pad, transpose, resize. */
#include "nf/kernels.h"
#include "view.h"

#include <string.h>

static void copy_elements(uint8_t *dst, int32_t dst_stride, const uint8_t *src, int32_t src_stride,
                          int32_t count, int32_t element)
{
    if (dst_stride == element && src_stride == element) {
        memcpy(dst, src, (size_t)count * (size_t)element);
        return;
    }
    for (int32_t i = 0; i < count; ++i, dst += dst_stride, src += src_stride)
        memcpy(dst, src, (size_t)element);
}

void nf_copy(const nf_view *v, const void *params)
{
    const nf_params_copy *p = params;
    const nf_shape *s = v[1].shape;
    for (int32_t n = 0; n < s->n; ++n)
        for (int32_t y = s->y0; y < s->y1; ++y)
            for (int32_t x = s->x0; x < s->x1; ++x)
                copy_elements(nf_at(&v[1], n, y, x), s->sc, nf_at(&v[0], n, y, x),
                              v[0].shape->sc, s->c, p->element);
}

static void fill(uint8_t *dst, int32_t count, int32_t element, int32_t value)
{
    if (element == 1) {
        memset(dst, value, (size_t)count);
        return;
    }
    /* Little endian: the low bytes of the value are the element. */
    const int64_t wide = value;
    for (int32_t i = 0; i < count; ++i, dst += element)
        memcpy(dst, &wide, (size_t)element);
}

/* One row of the result, pixel by pixel; `sy` is the row of the input. */
static void pad_pixels(const nf_view *v, const nf_params_pad *p, int32_t n, int32_t y, int32_t sn,
                       int32_t sy)
{
    const nf_shape *in = v[0].shape, *out = v[1].shape;
    const int32_t behind = out->c - p->pad_front - in->c;
    for (int32_t x = out->x0; x < out->x1; ++x) {
        uint8_t *dst = nf_at(&v[1], n, y, x);
        const int32_t sx = x - p->pad_left;
        if (sn < 0 || sn >= in->n || sy < 0 || sy >= in->h || sx < 0 || sx >= in->w) {
            fill(dst, out->c, p->element, p->value);
            continue;
        }
        fill(dst, p->pad_front, p->element, p->value);
        dst += (ptrdiff_t)p->pad_front * p->element;
        memcpy(dst, nf_at(&v[0], sn, sy, sx), (size_t)in->c * (size_t)p->element);
        fill(dst + (ptrdiff_t)in->c * p->element, behind, p->element, p->value);
    }
}

/* The same where the pixels of a row lie one after the other and keep their channels. */
static void pad_row(const nf_view *v, const nf_params_pad *p, int32_t n, int32_t y, int32_t sn,
                    int32_t sy)
{
    const nf_shape *in = v[0].shape, *out = v[1].shape;
    const int32_t inside = sn >= 0 && sn < in->n && sy >= 0 && sy < in->h ? in->w : 0;
    const int32_t first = nf_clamp(p->pad_left, out->x0, out->x1);
    const int32_t last = nf_clamp(p->pad_left + inside, first, out->x1);
    uint8_t *dst = nf_at(&v[1], n, y, out->x0);
    fill(dst, (first - out->x0) * out->c, p->element, p->value);
    dst += (ptrdiff_t)(first - out->x0) * out->sw;
    if (last > first)
        memcpy(dst, nf_at(&v[0], sn, sy, first - p->pad_left),
               (size_t)(last - first) * (size_t)out->sw);
    fill(dst + (ptrdiff_t)(last - first) * out->sw, (out->x1 - last) * out->c, p->element,
         p->value);
}

void nf_pad(const nf_view *v, const void *params)
{
    const nf_params_pad *p = params;
    const nf_shape *in = v[0].shape, *out = v[1].shape;
    const int rows = p->pad_front == 0 && in->c == out->c && in->sw == in->c * p->element &&
                     out->sw == in->sw;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t y = out->y0; y < out->y1; ++y)
            (rows ? pad_row : pad_pixels)(v, p, n, y, n - p->pad_n, y - p->pad_top);
}

void nf_transpose(const nf_view *v, const void *params)
{
    const nf_params_transpose *p = params;
    const int32_t size[7] = {p->d0, p->d1, p->d2, p->d3, p->d4, p->d5, p->d6};
    const int32_t stride[7] = {p->s0, p->s1, p->s2, p->s3, p->s4, p->s5, p->s6};
    int32_t index[7] = {0};
    uint8_t *dst = v[1].data;
    const int32_t element = p->element;
    ptrdiff_t at = 0;
    for (;;) {
        copy_elements(dst, element, v[0].data + at * element, p->s7 * element, p->d7, element);
        dst += (ptrdiff_t)p->d7 * element;
        int axis = 6;
        for (; axis >= 0; --axis) {
            at += stride[axis];
            if (++index[axis] < size[axis])
                break;
            at -= (ptrdiff_t)stride[axis] * size[axis];
            index[axis] = 0;
        }
        if (axis < 0)
            return;
    }
}

void nf_resize_nearest(const nf_view *v, const void *params)
{
    const nf_params_resize_nearest *p = params;
    const nf_shape *out = v[3].shape;
    const int32_t *rows = (const int32_t *)v[1].data;
    const int32_t *columns = (const int32_t *)v[2].data;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t y = out->y0; y < out->y1; ++y)
            for (int32_t x = out->x0; x < out->x1; ++x)
                memcpy(nf_at(&v[3], n, y, x), nf_at(&v[0], n, rows[y], columns[x]),
                       (size_t)out->c * (size_t)p->element);
}

void nf_gather(const nf_view *v, const void *params)
{
    const nf_params_gather *p = params;
    uint8_t *dst = v[2].data;
    for (int32_t o = 0; o < p->outer; ++o)
        for (int32_t k = 0; k < p->count; ++k, dst += p->inner) {
            const int64_t index = p->wide ? ((const int64_t *)(const void *)v[1].data)[k]
                                          : ((const int32_t *)(const void *)v[1].data)[k];
            if (index < 0 || index >= p->axis) {
                memset(dst, 0, (size_t)p->inner);
                continue;
            }
            memcpy(dst, v[0].data + ((ptrdiff_t)o * p->axis + (ptrdiff_t)index) * p->inner,
                   (size_t)p->inner);
        }
}

/* One entry a row or column: the two source positions and the weight of the second. */
typedef struct lerp {
    int32_t first, second;
    float weight;
} lerp;

/* Where the four source pixels of one result lie. */
typedef struct corners {
    const uint8_t *a, *b, *d, *e;
} corners;

static corners corners_of(const nf_view *x, int32_t n, lerp r, lerp c)
{
    const corners k = {nf_at(x, n, r.first, c.first), nf_at(x, n, r.first, c.second),
                       nf_at(x, n, r.second, c.first), nf_at(x, n, r.second, c.second)};
    return k;
}

/* As TensorFlow Lite's kernels for floats and uint8 weigh them: four products, in this order. */
static float four_products(float a, float b, float d, float e, lerp r, lerp c)
{
    return a * (1.0f - r.weight) * (1.0f - c.weight) + d * r.weight * (1.0f - c.weight) +
           b * (1.0f - r.weight) * c.weight + e * r.weight * c.weight;
}

void nf_resize_bilinear_s8(const nf_view *v, const void *params)
{
    const nf_params_resize_bilinear_s8 *p = params;
    const nf_shape *out = v[3].shape;
    const lerp *rows = (const lerp *)(const void *)v[1].data;
    const lerp *columns = (const lerp *)(const void *)v[2].data;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t y = out->y0; y < out->y1; ++y)
            for (int32_t x = out->x0; x < out->x1; ++x) {
                const lerp r = rows[y], c = columns[x];
                const corners k = corners_of(&v[0], n, r, c);
                const int8_t *a = (const int8_t *)k.a, *b = (const int8_t *)k.b;
                const int8_t *d = (const int8_t *)k.d, *e = (const int8_t *)k.e;
                int8_t *dst = (int8_t *)nf_at(&v[3], n, y, x);
                for (int32_t i = 0; i < out->c; ++i) {
                    const float upper = (float)a[i] + ((float)b[i] - (float)a[i]) * c.weight;
                    const float lower = (float)d[i] + ((float)e[i] - (float)d[i]) * c.weight;
                    const float value = upper + (lower - upper) * r.weight;
                    dst[i] = (int8_t)nf_round_half_even(value * p->scale + p->offset, INT8_MIN,
                                                        INT8_MAX);
                }
            }
}

void nf_resize_bilinear_f32(const nf_view *v, const void *params)
{
    const nf_params_resize_bilinear_f32 *p = params;
    const nf_shape *out = v[3].shape;
    const lerp *rows = (const lerp *)(const void *)v[1].data;
    const lerp *columns = (const lerp *)(const void *)v[2].data;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t y = out->y0; y < out->y1; ++y)
            for (int32_t x = out->x0; x < out->x1; ++x) {
                const lerp r = rows[y], c = columns[x];
                const corners k = corners_of(&v[0], n, r, c);
                const float *a = (const float *)(const void *)k.a;
                const float *b = (const float *)(const void *)k.b;
                const float *d = (const float *)(const void *)k.d;
                const float *e = (const float *)(const void *)k.e;
                float *dst = (float *)(void *)nf_at(&v[3], n, y, x);
                for (int32_t i = 0; i < out->c; ++i) {
                    if (p->four_products) {
                        dst[i] = four_products(a[i], b[i], d[i], e[i], r, c);
                        continue;
                    }
                    const float upper = a[i] + (b[i] - a[i]) * c.weight;
                    const float lower = d[i] + (e[i] - d[i]) * c.weight;
                    dst[i] = upper + (lower - upper) * r.weight;
                }
            }
}

void nf_resize_bilinear_u8(const nf_view *v, const void *params)
{
    const nf_params_resize_bilinear_u8 *p = params;
    const nf_shape *out = v[3].shape;
    const lerp *rows = (const lerp *)(const void *)v[1].data;
    const lerp *columns = (const lerp *)(const void *)v[2].data;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t y = out->y0; y < out->y1; ++y)
            for (int32_t x = out->x0; x < out->x1; ++x) {
                const lerp r = rows[y], c = columns[x];
                const corners k = corners_of(&v[0], n, r, c);
                uint8_t *dst = nf_at(&v[3], n, y, x);
                for (int32_t i = 0; i < p->channels; ++i) {
                    const float value = four_products(k.a[i], k.b[i], k.d[i], k.e[i], r, c);
                    dst[i] = (uint8_t)(value + 0.5f);
                }
            }
}

/* One entry a row or column: the two source positions and the weight of the second in 1/1024. */
typedef struct lerp_fixed {
    int32_t first, second, weight;
} lerp_fixed;

void nf_resize_bilinear_8_fixed(const nf_view *v, const void *params)
{
    const nf_params_resize_bilinear_8_fixed *p = params;
    const nf_shape *out = v[3].shape;
    const lerp_fixed *rows = (const lerp_fixed *)(const void *)v[1].data;
    const lerp_fixed *columns = (const lerp_fixed *)(const void *)v[2].data;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t y = out->y0; y < out->y1; ++y)
            for (int32_t x = out->x0; x < out->x1; ++x) {
                const lerp_fixed r = rows[y], c = columns[x];
                const int8_t *source[4] = {
                    (const int8_t *)nf_at(&v[0], n, r.first, c.first),
                    (const int8_t *)nf_at(&v[0], n, r.second, c.first),
                    (const int8_t *)nf_at(&v[0], n, r.first, c.second),
                    (const int8_t *)nf_at(&v[0], n, r.second, c.second)};
                const int32_t weight[4] = {
                    (1024 - r.weight) * (1024 - c.weight), r.weight * (1024 - c.weight),
                    (1024 - r.weight) * c.weight, r.weight * c.weight};
                uint8_t *dst = nf_at(&v[3], n, y, x);
                for (int32_t i = 0; i < p->channels; ++i) {
                    int64_t sum = 0;
                    for (int k = 0; k < 4; ++k)
                        sum += (int64_t)weight[k] * source[k][i];
                    const int64_t nudge = sum > 0 ? 1 << 19 : -(1 << 19);
                    dst[i] = (uint8_t)((sum + nudge) / (1 << 20));
                }
            }
}

/* Fully connected layers and products of computed matrices. */
#include "nf/kernels.h"
#include "rescale.h"
#include "view.h"

NF_INLINE void fully_connected(const uint8_t *x, const uint8_t *weights, const int32_t *bias,
                               uint8_t *y, int32_t outputs, const nf_params_fully_connected_s8 *p,
                               const rescale *r, int is_unsigned)
{
    for (int32_t row = 0; row < p->rows; ++row)
        for (int32_t o = 0; o < outputs; ++o) {
            const uint8_t *a = x + (ptrdiff_t)row * p->depth;
            const uint8_t *w = weights + (ptrdiff_t)o * p->depth;
            int32_t acc = bias[o];
            for (int32_t i = 0; i < p->depth; ++i)
                acc += is_unsigned
                           ? (a[i] + p->in_offset) * (w[i] + p->weight_offset)
                           : ((int8_t)a[i] + p->in_offset) * ((int8_t)w[i] + p->weight_offset);
            y[(ptrdiff_t)row * outputs + o] = nf_finish(r, acc, o);
        }
}

void nf_fully_connected_s8(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {(const int32_t *)v[3].data, (const int32_t *)v[4].data, NULL, NULL,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected(v[0].data, v[1].data, (const int32_t *)v[2].data, v[5].data, v[5].shape->c, p,
                    &r, 0);
}

void nf_fully_connected_u8(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {(const int32_t *)v[3].data, (const int32_t *)v[4].data, NULL, NULL,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected(v[0].data, v[1].data, (const int32_t *)v[2].data, v[5].data, v[5].shape->c, p,
                    &r, 1);
}

void nf_fully_connected_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {NULL, NULL, (const float *)v[3].data, NULL,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected(v[0].data, v[1].data, (const int32_t *)v[2].data, v[4].data, v[4].shape->c, p,
                    &r, 0);
}

void nf_fully_connected_s8_f64scale(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {NULL, NULL, NULL, (const double *)(const void *)v[3].data,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected(v[0].data, v[1].data, (const int32_t *)v[2].data, v[4].data, v[4].shape->c, p,
                    &r, 0);
}

void nf_fully_connected_u8_f64scale(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {NULL, NULL, NULL, (const double *)(const void *)v[3].data,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected(v[0].data, v[1].data, (const int32_t *)v[2].data, v[4].data, v[4].shape->c, p,
                    &r, 1);
}

static int64_t row_sum_s16(const int16_t *x, const int8_t *weights, int64_t bias, int32_t depth)
{
    for (int32_t i = 0; i < depth; ++i)
        bias += (int32_t)x[i] * weights[i];
    return bias;
}

void nf_fully_connected_s16(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s16 *p = params;
    const int16_t *x = (const int16_t *)(const void *)v[0].data;
    const int8_t *weights = (const int8_t *)v[1].data;
    const int64_t *bias = (const int64_t *)(const void *)v[2].data;
    const int32_t *multiplier = (const int32_t *)v[3].data, *shift = (const int32_t *)v[4].data;
    int16_t *y = (int16_t *)(void *)v[5].data;
    const int32_t outputs = v[5].shape->c;
    for (int32_t row = 0; row < p->rows; ++row)
        for (int32_t o = 0; o < outputs; ++o) {
            const int64_t acc = row_sum_s16(x + (ptrdiff_t)row * p->depth,
                                            weights + (ptrdiff_t)o * p->depth, bias[o], p->depth);
            const int32_t q = nf_requantize_wide(acc, multiplier[o], shift[o]);
            y[(ptrdiff_t)row * outputs + o] = (int16_t)nf_clamp(q, p->act_min, p->act_max);
        }
}

void nf_fully_connected_s16_f64scale(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s16 *p = params;
    const int16_t *x = (const int16_t *)(const void *)v[0].data;
    const int8_t *weights = (const int8_t *)v[1].data;
    const int64_t *bias = (const int64_t *)(const void *)v[2].data;
    const double *scale = (const double *)(const void *)v[3].data;
    int16_t *y = (int16_t *)(void *)v[4].data;
    const int32_t outputs = v[4].shape->c;
    for (int32_t row = 0; row < p->rows; ++row)
        for (int32_t o = 0; o < outputs; ++o) {
            const int64_t acc = row_sum_s16(x + (ptrdiff_t)row * p->depth,
                                            weights + (ptrdiff_t)o * p->depth, bias[o], p->depth);
            const int32_t q = nf_round_half_away_wide((double)acc * scale[o], -40000, 40000);
            y[(ptrdiff_t)row * outputs + o] = (int16_t)nf_clamp(q, p->act_min, p->act_max);
        }
}

void nf_fully_connected_f32(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_f32 *p = params;
    const float *x = (const float *)(const void *)v[0].data;
    const float *weights = (const float *)(const void *)v[1].data;
    const float *bias = (const float *)(const void *)v[2].data;
    float *y = (float *)(void *)v[3].data;
    const int32_t outputs = v[3].shape->c;
    for (int32_t row = 0; row < p->rows; ++row)
        for (int32_t o = 0; o < outputs; ++o) {
            float acc = 0.0f;
            for (int32_t i = 0; i < p->depth; ++i)
                acc += x[(ptrdiff_t)row * p->depth + i] * weights[(ptrdiff_t)o * p->depth + i];
            y[(ptrdiff_t)row * outputs + o] = nf_clampf(acc + bias[o], p->low, p->high);
        }
}

/* a and b are views of rows: strides of 0 broadcast, sc is the distance along the depth. */
#define MATMUL(T, ACC, term, store)                                                                \
    const nf_view *a = &v[0], *b = &v[1], *y = &v[2];                                              \
    const nf_shape *out = y->shape;                                                                \
    for (int32_t n = 0; n < out->n; ++n)                                                           \
        for (int32_t h = out->y0; h < out->y1; ++h)                                                \
            for (int32_t row = out->x0; row < out->x1; ++row) {                                    \
                T *dst = (T *)(void *)nf_at(y, n, h, row);                                         \
                for (int32_t column = 0; column < out->c; ++column) {                              \
                    const uint8_t *pa = nf_at(a, n, h, row), *pb = nf_at(b, n, h, column);         \
                    ACC acc = 0;                                                                   \
                    for (int32_t i = 0; i < p->depth; ++i) {                                       \
                        acc += term;                                                               \
                        pa += a->shape->sc;                                                        \
                        pb += b->shape->sc;                                                        \
                    }                                                                              \
                    dst[column] = store;                                                           \
                }                                                                                  \
            }

#define TERM_S8 (*(const int8_t *)pa + p->a_offset) * (*(const int8_t *)pb + p->b_offset)
#define STORE_S8(q) (int8_t)nf_clamp((q) + p->out_offset, INT8_MIN, INT8_MAX)
#define TERM_F32 *(const float *)(const void *)pa * *(const float *)(const void *)pb

void nf_matmul_s8(const nf_view *v, const void *params)
{
    const nf_params_matmul_s8 *p = params;
    MATMUL(int8_t, int32_t, TERM_S8, STORE_S8(nf_requantize(acc, p->multiplier, p->shift)))
}

void nf_matmul_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_matmul_s8_f32scale *p = params;
    MATMUL(int8_t, int32_t, TERM_S8, STORE_S8(nf_round_half_even((float)acc * p->scale, -512, 512)))
}

#define TERM_S16                                                                                   \
    (int64_t)*(const int16_t *)(const void *)pa * *(const int16_t *)(const void *)pb

void nf_matmul_s16(const nf_view *v, const void *params)
{
    const nf_params_matmul_s16 *p = params;
    MATMUL(int16_t, int64_t, TERM_S16,
           (int16_t)nf_clamp(nf_requantize_wide(acc, p->multiplier, p->shift), INT16_MIN,
                             INT16_MAX))
}

void nf_matmul_f32(const nf_view *v, const void *params)
{
    const nf_params_matmul_f32 *p = params;
    MATMUL(float, float, TERM_F32, acc)
}

/* Binary operators, lookup tables, quantise and dequantise. */
#include "nf/kernels.h"
#include "view.h"

#include <string.h>

/* Walk the held part of y with a and b beside it; `body` sees pa, pb, py and the channel strides. */
#define FOR_EACH_PIXEL(a, b, y, body)                                                              \
    for (int32_t n = 0; n < (y)->shape->n; ++n)                                                    \
        for (int32_t oy = (y)->shape->y0; oy < (y)->shape->y1; ++oy)                               \
            for (int32_t ox = (y)->shape->x0; ox < (y)->shape->x1; ++ox) {                         \
                const int8_t *pa = (const int8_t *)nf_at((a), n, oy, ox);                          \
                const int8_t *pb = (const int8_t *)nf_at((b), n, oy, ox);                          \
                int8_t *py = (int8_t *)nf_at((y), n, oy, ox);                                      \
                const int32_t sa = (a)->shape->sc, sb = (b)->shape->sc, sy = (y)->shape->sc;       \
                for (int32_t c = 0; c < (y)->shape->c; ++c, pa += sa, pb += sb, py += sy) {        \
                    body                                                                           \
                }                                                                                  \
            }

void nf_add_s8(const nf_view *v, const void *params)
{
    const nf_params_add_s8 *p = params;
    FOR_EACH_PIXEL(&v[0], &v[1], &v[2], {
        const int32_t a = nf_requantize((*pa + p->a_offset) * (1 << p->left_shift),
                                        p->a_multiplier, p->a_shift);
        const int32_t b = nf_requantize((*pb + p->b_offset) * (1 << p->left_shift),
                                        p->b_multiplier, p->b_shift);
        const int32_t q = nf_requantize(a + b, p->out_multiplier, p->out_shift) + p->out_offset;
        *py = (int8_t)nf_clamp(q, p->act_min, p->act_max);
    })
}

void nf_add_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_add_s8_f32scale *p = params;
    FOR_EACH_PIXEL(&v[0], &v[1], &v[2], {
        const float b = (float)*pb * p->b_scale + p->offset;
        *py = (int8_t)nf_round_half_even((float)*pa * p->a_scale + b, p->act_min, p->act_max);
    })
}

void nf_mul_s8(const nf_view *v, const void *params)
{
    const nf_params_mul_s8 *p = params;
    FOR_EACH_PIXEL(&v[0], &v[1], &v[2], {
        const int32_t product = (*pa + p->a_offset) * (*pb + p->b_offset);
        const int32_t q = nf_requantize(product, p->out_multiplier, p->out_shift) + p->out_offset;
        *py = (int8_t)nf_clamp(q, p->act_min, p->act_max);
    })
}

void nf_lut_8(const nf_view *v, const void *params)
{
    const nf_params_lut_8 *p = params;
    const uint8_t *x = v[0].data;
    const uint8_t *table = v[1].data;
    uint8_t *y = v[2].data;
    for (int32_t row = 0; row < p->rows; ++row, x += p->x_row, y += p->y_row)
        for (int32_t i = 0; i < p->count; ++i)
            y[i] = table[x[i]];
}

void nf_quantize_f32_s8(const nf_view *v, const void *params)
{
    const nf_params_quantize_f32_s8 *p = params;
    int8_t *y = (int8_t *)v[1].data;
    for (int32_t i = 0; i < p->count; ++i) {
        float x;
        memcpy(&x, v[0].data + (ptrdiff_t)i * 4, sizeof x);
        const float real = x / p->scale;
        const int32_t q = p->half_even ? nf_round_half_even(real, -512, 512)
                                       : nf_round_half_away(real, -512, 512);
        y[i] = (int8_t)nf_clamp(q + p->out_zero, INT8_MIN, INT8_MAX);
    }
}

void nf_dequantize_s8_f32(const nf_view *v, const void *params)
{
    const nf_params_dequantize_s8_f32 *p = params;
    const int8_t *x = (const int8_t *)v[0].data;
    for (int32_t i = 0; i < p->count; ++i) {
        const float y = p->scale * (float)(x[i] - p->in_zero);
        memcpy(v[1].data + (ptrdiff_t)i * 4, &y, sizeof y);
    }
}

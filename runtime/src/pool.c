/* Average and max pooling. */
#include "nf/kernels.h"
#include "view.h"

#include <float.h>

/* Visit each output of a pool: `begin`, then `tap` for each input element inside, then `end`. */
#define POOL(T, begin, tap, end)                                                                   \
    const nf_view *x = &v[0], *y = &v[1];                                                          \
    const nf_shape *in = x->shape, *out = y->shape;                                                \
    for (int32_t n = 0; n < out->n; ++n)                                                           \
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {                                           \
            const int32_t top = oy * p->stride_h - p->pad_top;                                     \
            int32_t y_first, y_last;                                                               \
            nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);                    \
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {                                       \
                const int32_t left = ox * p->stride_w - p->pad_left;                               \
                int32_t x_first, x_last;                                                           \
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);               \
                const int32_t inside = (y_last - y_first) * (x_last - x_first);                    \
                T *dst = (T *)(void *)nf_at(y, n, oy, ox);                                         \
                (void)inside;                                                                      \
                for (int32_t c = 0; c < out->c; ++c) {                                             \
                    begin;                                                                         \
                    for (int32_t ky = y_first; ky < y_last; ++ky)                                  \
                        for (int32_t kx = x_first; kx < x_last; ++kx) {                            \
                            const T value = ((const T *)(const void *)nf_at(                       \
                                x, n, top + ky * p->dilation_h, left + kx * p->dilation_w))[c];    \
                            tap;                                                                   \
                        }                                                                          \
                    end;                                                                           \
                }                                                                                  \
            }                                                                                      \
        }

NF_INLINE int32_t rounded_mean(int32_t sum, int32_t count)
{
    return sum > 0 ? (sum + count / 2) / count : (sum - count / 2) / count;
}

#define INTEGER_POOLS(T, suffix, lowest)                                                           \
    void nf_average_pool2d_##suffix(const nf_view *v, const void *params)                          \
    {                                                                                              \
        const nf_params_average_pool2d_s8 *p = params;                                             \
        POOL(T, int32_t sum = 0, sum += value,                                                     \
             dst[c] = (T)nf_clamp(rounded_mean(sum, inside), p->act_min, p->act_max))              \
    }                                                                                              \
    void nf_max_pool2d_##suffix(const nf_view *v, const void *params)                              \
    {                                                                                              \
        const nf_params_max_pool2d_s8 *p = params;                                                 \
        POOL(T, int32_t best = lowest, best = value > best ? value : best,                         \
             dst[c] = (T)nf_clamp(best, p->act_min, p->act_max))                                   \
    }

INTEGER_POOLS(int8_t, s8, INT8_MIN)
INTEGER_POOLS(uint8_t, u8, 0)
INTEGER_POOLS(int16_t, s16, INT16_MIN)

void nf_average_pool2d_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_average_pool2d_s8_f32scale *p = params;
    POOL(int8_t, float sum = 0.0f, sum += p->in_scale * (float)(value - p->in_zero), {
        const int32_t count = p->count_padding ? p->kernel_h * p->kernel_w : inside;
        const float stored = sum / (float)count / p->out_scale + (float)p->out_zero;
        dst[c] = (int8_t)nf_round_half_even(stored, INT8_MIN, INT8_MAX);
    })
}

void nf_average_pool2d_f32(const nf_view *v, const void *params)
{
    const nf_params_average_pool2d_f32 *p = params;
    POOL(float, float sum = 0.0f, sum += value, {
        const int32_t count = p->count_padding ? p->kernel_h * p->kernel_w : inside;
        dst[c] = nf_clampf(sum / (float)count, p->low, p->high);
    })
}

void nf_max_pool2d_f32(const nf_view *v, const void *params)
{
    const nf_params_max_pool2d_f32 *p = params;
    POOL(float, float best = -FLT_MAX, best = value > best ? value : best,
         dst[c] = nf_clampf(best, p->low, p->high))
}

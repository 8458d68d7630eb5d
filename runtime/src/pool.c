/* Pooling, mean and softmax on int8. */
#include "nf/kernels.h"
#include "view.h"

void nf_average_pool2d_s8(const nf_view *v, const void *params)
{
    const nf_params_average_pool2d_s8 *p = params;
    const nf_view *x = &v[0], *y = &v[1];
    const nf_shape *in = x->shape, *out = y->shape;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            int32_t y_first, y_last;
            nf_taps(top, p->kernel_h, 1, in->h, &y_first, &y_last);
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                int32_t x_first, x_last;
                nf_taps(left, p->kernel_w, 1, in->w, &x_first, &x_last);
                const int32_t count = (y_last - y_first) * (x_last - x_first);
                int8_t *dst = (int8_t *)nf_at(y, n, oy, ox);
                for (int32_t c = 0; c < out->c; ++c) {
                    int32_t sum = 0;
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx)
                            sum += ((const int8_t *)nf_at(x, n, top + ky, left + kx))[c];
                    sum = sum > 0 ? (sum + count / 2) / count : (sum - count / 2) / count;
                    dst[c] = (int8_t)nf_clamp(sum, p->act_min, p->act_max);
                }
            }
        }
}

void nf_max_pool2d_s8(const nf_view *v, const void *params)
{
    const nf_params_max_pool2d_s8 *p = params;
    const nf_view *x = &v[0], *y = &v[1];
    const nf_shape *in = x->shape, *out = y->shape;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            int32_t y_first, y_last;
            nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                int32_t x_first, x_last;
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);
                int8_t *dst = (int8_t *)nf_at(y, n, oy, ox);
                for (int32_t c = 0; c < out->c; ++c) {
                    int32_t best = INT8_MIN;
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx) {
                            const int32_t q = ((const int8_t *)nf_at(
                                x, n, top + ky * p->dilation_h, left + kx * p->dilation_w))[c];
                            best = q > best ? q : best;
                        }
                    dst[c] = (int8_t)nf_clamp(best, p->act_min, p->act_max);
                }
            }
        }
}

NF_INLINE int32_t sum_of(const int8_t *x, int32_t count, int32_t stride)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; ++i)
        sum += x[(ptrdiff_t)i * stride];
    return sum;
}

void nf_mean_s8(const nf_view *v, const void *params)
{
    const nf_params_mean_s8 *p = params;
    const int8_t *x = (const int8_t *)v[0].data;
    int8_t *y = (int8_t *)v[1].data;
    for (int32_t o = 0; o < p->outer; ++o)
        for (int32_t i = 0; i < p->inner; ++i) {
            const int32_t sum =
                sum_of(x + (ptrdiff_t)o * p->reduced * p->inner + i, p->reduced, p->inner) -
                p->in_zero * p->reduced;
            const int32_t q = nf_requantize(sum, p->multiplier, p->shift) + p->out_zero;
            y[(ptrdiff_t)o * p->inner + i] = (int8_t)nf_clamp(q, INT8_MIN, INT8_MAX);
        }
}

void nf_mean_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_mean_s8_f32scale *p = params;
    const int8_t *x = (const int8_t *)v[0].data;
    int8_t *y = (int8_t *)v[1].data;
    for (int32_t o = 0; o < p->outer; ++o)
        for (int32_t i = 0; i < p->inner; ++i) {
            const int32_t sum =
                sum_of(x + (ptrdiff_t)o * p->reduced * p->inner + i, p->reduced, p->inner) -
                p->in_zero * p->reduced;
            const int32_t q = nf_round_half_even((float)sum * p->scale, -512, 512) + p->out_zero;
            y[(ptrdiff_t)o * p->inner + i] = (int8_t)nf_clamp(q, INT8_MIN, INT8_MAX);
        }
}

/* 1 / (1 + a) for a in 0..1, both Q0.31: three Newton-Raphson steps in Q2.29 from 48/17 - 32/17 d. */
static int32_t one_over_one_plus(int32_t a)
{
    const int64_t sum = (int64_t)a + INT32_MAX;
    const int32_t half_denominator = (int32_t)((sum + 1) / 2);
    const int32_t one = 1 << 29;
    int32_t x = 1515870810 + nf_doubling_high_mul(half_denominator, -1010580540);
    for (int i = 0; i < 3; ++i) {
        const int32_t error = one - nf_doubling_high_mul(half_denominator, x);
        x += nf_saturating_shift_left(nf_doubling_high_mul(x, error), 2);
    }
    return nf_saturating_shift_left(x, 1);
}

void nf_softmax_s8(const nf_view *v, const void *params)
{
    const nf_params_softmax_s8 *p = params;
    const int32_t *exp_table = (const int32_t *)v[1].data;
    for (int32_t row = 0; row < p->rows; ++row) {
        const int8_t *x = (const int8_t *)v[0].data + (ptrdiff_t)row * p->depth;
        int8_t *y = (int8_t *)v[2].data + (ptrdiff_t)row * p->depth;
        int32_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; ++i)
            max = x[i] > max ? x[i] : max;
        int32_t sum = 0; /* Q12.19 */
        for (int32_t i = 0; i < p->depth; ++i)
            if (x[i] - max >= p->diff_min)
                sum += nf_rounding_shift(exp_table[max - x[i]], 12);
        int32_t headroom = 0;
        while (headroom < 31 && !(((uint32_t)sum << headroom) & 0x80000000u))
            ++headroom;
        const int32_t normalised = (int32_t)(((uint32_t)sum << headroom) - 0x80000000u);
        const int32_t reciprocal = one_over_one_plus(normalised);
        const int32_t shift = 12 - headroom + 31 - 8;
        for (int32_t i = 0; i < p->depth; ++i) {
            int32_t q = INT8_MIN;
            if (x[i] - max >= p->diff_min) {
                const int32_t scaled = nf_doubling_high_mul(reciprocal, exp_table[max - x[i]]);
                q = nf_rounding_shift(scaled, shift) + INT8_MIN;
            }
            y[i] = (int8_t)nf_clamp(q, INT8_MIN, INT8_MAX);
        }
    }
}

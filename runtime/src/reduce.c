/* Reductions, softmax, normalisation, positions of extremes. */
#include "nf/kernels.h"
#include "view.h"

#include <math.h>

NF_INLINE int32_t sum_of(const int8_t *x, int32_t count, int32_t stride)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; ++i)
        sum += x[(ptrdiff_t)i * stride];
    return sum;
}

#define MEAN(rescaled)                                                                             \
    const int8_t *x = (const int8_t *)v[0].data;                                                   \
    int8_t *y = (int8_t *)v[1].data;                                                               \
    for (int32_t o = 0; o < p->outer; ++o)                                                         \
        for (int32_t i = 0; i < p->inner; ++i) {                                                   \
            const int32_t sum =                                                                    \
                sum_of(x + (ptrdiff_t)o * p->reduced * p->inner + i, p->reduced, p->inner) -       \
                p->in_zero * p->reduced;                                                           \
            y[(ptrdiff_t)o * p->inner + i] =                                                       \
                (int8_t)nf_clamp((rescaled) + p->out_zero, INT8_MIN, INT8_MAX);                    \
        }

void nf_mean_s8(const nf_view *v, const void *params)
{
    const nf_params_mean_s8 *p = params;
    MEAN(nf_requantize(sum, p->multiplier, p->shift))
}

void nf_mean_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_mean_s8_f32scale *p = params;
    MEAN(nf_round_half_even((float)sum * p->scale, -512, 512))
}

/* For each kept position: `begin`, `tap` for each reduced position with `at` the element index,
 * `end` with `to` the output index. */
#define REDUCE(begin, tap, end)                                                                    \
    ptrdiff_t to = 0;                                                                              \
    for (int32_t a = 0; a < p->k0; ++a)                                                            \
        for (int32_t b = 0; b < p->k1; ++b)                                                        \
            for (int32_t c = 0; c < p->k2; ++c, ++to) {                                            \
                const ptrdiff_t base = (ptrdiff_t)a * p->ks0 + (ptrdiff_t)b * p->ks1 +             \
                                       (ptrdiff_t)c * p->ks2;                                      \
                begin;                                                                             \
                for (int32_t d = 0; d < p->r0; ++d)                                                \
                    for (int32_t e = 0; e < p->r1; ++e)                                            \
                        for (int32_t f = 0; f < p->r2; ++f) {                                      \
                            const ptrdiff_t at = base + (ptrdiff_t)d * p->rs0 +                    \
                                                 (ptrdiff_t)e * p->rs1 + (ptrdiff_t)f * p->rs2;    \
                            tap;                                                                   \
                        }                                                                          \
                end;                                                                               \
            }

#define FOLD(T, x)                                                                                 \
    switch (p->kind) {                                                                             \
    case NF_REDUCE_MAX: acc = (x) > acc ? (x) : acc; break;                                        \
    case NF_REDUCE_MIN: acc = (x) < acc ? (x) : acc; break;                                        \
    case NF_REDUCE_PROD: acc *= (x); break;                                                        \
    default: acc += (x); break;                                                                    \
    }

#define START(x_first) (p->kind >= NF_REDUCE_MAX && p->kind <= NF_REDUCE_MIN ? (x_first) : 0)

void nf_reduce_8(const nf_view *v, const void *params)
{
    const nf_params_reduce_8 *p = params;
    const uint8_t *x = v[0].data;
    const int32_t count = p->r0 * p->r1 * p->r2;
#define AT(i) (p->is_unsigned ? (int32_t)x[i] : (int32_t)(int8_t)x[i])
    REDUCE(int32_t acc = START(AT(base)), FOLD(int32_t, AT(at)), {
        if (p->kind <= NF_SUM)
            acc = nf_requantize(acc - p->in_zero * count, p->multiplier, p->shift) + p->out_zero;
        v[1].data[to] = (uint8_t)(p->is_unsigned ? nf_clamp(acc, 0, UINT8_MAX)
                                                 : nf_clamp(acc, INT8_MIN, INT8_MAX));
    })
#undef AT
}

void nf_reduce_s16(const nf_view *v, const void *params)
{
    const nf_params_reduce_s16 *p = params;
    const int16_t *x = (const int16_t *)(const void *)v[0].data;
    int16_t *y = (int16_t *)(void *)v[1].data;
    const int32_t count = p->r0 * p->r1 * p->r2;
    REDUCE(int32_t acc = START(x[base]), FOLD(int32_t, x[at]), {
        if (p->kind <= NF_SUM)
            acc = nf_requantize(acc - p->in_zero * count, p->multiplier, p->shift) + p->out_zero;
        y[to] = (int16_t)nf_clamp(acc, INT16_MIN, INT16_MAX);
    })
}

void nf_reduce_f32(const nf_view *v, const void *params)
{
    const nf_params_reduce_f32 *p = params;
    const float *x = (const float *)(const void *)v[0].data;
    float *y = (float *)(void *)v[1].data;
    const float count = (float)(p->r0 * p->r1 * p->r2);
    REDUCE(float acc = p->kind == NF_REDUCE_PROD ? 1.0f : START(x[base]), FOLD(float, x[at]),
           y[to] = p->kind == NF_MEAN ? acc / count : acc)
}

void nf_reduce_s32(const nf_view *v, const void *params)
{
    const nf_params_reduce_s32 *p = params;
    const int32_t *x = (const int32_t *)(const void *)v[0].data;
    int32_t *y = (int32_t *)(void *)v[1].data;
    const int32_t count = p->r0 * p->r1 * p->r2;
    REDUCE(int64_t acc = p->kind == NF_REDUCE_PROD ? 1 : START(x[base]), FOLD(int64_t, x[at]),
           y[to] = (int32_t)(p->kind == NF_MEAN ? acc / count : acc))
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

NF_INLINE void softmax_8(const nf_view *v, const nf_params_softmax_s8 *p, int is_unsigned)
{
    const int32_t *exp_table = (const int32_t *)v[1].data;
    /* unsigned bytes become signed ones, differences stay */
    const uint8_t flip = is_unsigned ? 0x80 : 0;
    for (int32_t row = 0; row < p->rows; ++row) {
        const uint8_t *x = v[0].data + (ptrdiff_t)row * p->depth;
        uint8_t *y = v[2].data + (ptrdiff_t)row * p->depth;
        int32_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; ++i) {
            const int32_t q = (int8_t)(x[i] ^ flip);
            max = q > max ? q : max;
        }
        int32_t sum = 0; /* Q12.19 */
        for (int32_t i = 0; i < p->depth; ++i) {
            const int32_t below = max - (int8_t)(x[i] ^ flip);
            if (-below >= p->diff_min)
                sum += nf_rounding_shift(exp_table[below], 12);
        }
        int32_t headroom = 0;
        while (headroom < 31 && !(((uint32_t)sum << headroom) & 0x80000000u))
            ++headroom;
        const int32_t normalised = (int32_t)(((uint32_t)sum << headroom) - 0x80000000u);
        const int32_t reciprocal = one_over_one_plus(normalised);
        const int32_t shift = 12 - headroom + 31 - 8;
        for (int32_t i = 0; i < p->depth; ++i) {
            const int32_t below = max - (int8_t)(x[i] ^ flip);
            int32_t q = INT8_MIN;
            if (-below >= p->diff_min) {
                const int32_t scaled = nf_doubling_high_mul(reciprocal, exp_table[below]);
                q = nf_rounding_shift(scaled, shift) + INT8_MIN;
            }
            y[i] = (uint8_t)nf_clamp(q, INT8_MIN, INT8_MAX) ^ flip;
        }
    }
}

void nf_softmax_s8(const nf_view *v, const void *params)
{
    softmax_8(v, params, 0);
}

void nf_softmax_u8(const nf_view *v, const void *params)
{
    softmax_8(v, params, 1);
}

void nf_softmax_s8_f32(const nf_view *v, const void *params)
{
    const nf_params_softmax_s8_f32 *p = params;
    const float *exp_table = (const float *)(const void *)v[1].data;
    for (int32_t row = 0; row < p->rows; ++row) {
        const int8_t *x = (const int8_t *)v[0].data + (ptrdiff_t)row * p->depth;
        int8_t *y = (int8_t *)v[2].data + (ptrdiff_t)row * p->depth;
        int32_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; ++i)
            max = x[i] > max ? x[i] : max;
        float sum = 0.0f;
        for (int32_t i = 0; i < p->depth; ++i)
            sum += exp_table[max - x[i]];
        for (int32_t i = 0; i < p->depth; ++i) {
            const float scaled = exp_table[max - x[i]] * p->out_steps / sum;
            const int32_t q = nf_round_half_even(scaled, -512, 512) + p->out_zero;
            y[i] = (int8_t)nf_clamp(q, INT8_MIN, INT8_MAX);
        }
    }
}

void nf_softmax_f32(const nf_view *v, const void *params)
{
    const nf_params_softmax_f32 *p = params;
    for (int32_t row = 0; row < p->rows; ++row) {
        const float *x = (const float *)(const void *)v[0].data + (ptrdiff_t)row * p->depth;
        float *y = (float *)(void *)v[1].data + (ptrdiff_t)row * p->depth;
        float max = x[0];
        for (int32_t i = 1; i < p->depth; ++i)
            max = x[i] > max ? x[i] : max;
        float sum = 0.0f;
        for (int32_t i = 0; i < p->depth; ++i) {
            y[i] = expf((x[i] - max) * p->beta);
            sum += y[i];
        }
        const float logarithm = p->logarithm ? logf(sum) : 0.0f;
        for (int32_t i = 0; i < p->depth; ++i)
            y[i] = p->logarithm ? x[i] - max - logarithm : y[i] / sum;
    }
}

void nf_l2_normalization_f32(const nf_view *v, const void *params)
{
    const nf_params_l2_normalization_f32 *p = params;
    for (int32_t row = 0; row < p->rows; ++row) {
        const float *x = (const float *)(const void *)v[0].data + (ptrdiff_t)row * p->depth;
        float *y = (float *)(void *)v[1].data + (ptrdiff_t)row * p->depth;
        float sum = 0.0f;
        for (int32_t i = 0; i < p->depth; ++i)
            sum += x[i] * x[i];
        const float norm = sqrtf(sum);
        const float divisor = norm > 1e-6f ? norm : 1e-6f;
        for (int32_t i = 0; i < p->depth; ++i)
            y[i] = x[i] / divisor;
    }
}

/* 1 / sqrt(v) as a Q0.31 multiplier and a shift: Newton-Raphson on 3/2 x - half v x^3 in Q3.28. */
static void inverse_square_root(int32_t v, int32_t *multiplier, int32_t *shift)
{
    if (v <= 1) {
        *multiplier = INT32_MAX;
        *shift = 0;
        return;
    }
    int32_t right = 11;
    while (v >= 1 << 29) {
        v /= 4;
        ++right;
    }
    int32_t clear = 0;
    while (!(((uint32_t)v << clear) & 0x80000000u))
        ++clear;
    const int32_t left_pairs = (clear - 1) / 2 - 1;
    right -= left_pairs;
    v = (int32_t)((uint32_t)v << (2 * left_pairs));
    const int32_t half_v = nf_rounding_shift(v >> 1, 1); /* of v / 2 in Q3.28 */
    const int32_t one_and_half = (1 << 28) + (1 << 27);
    int32_t x = 1 << 28;
    for (int i = 0; i < 5; ++i) {
        const int32_t x2 = nf_doubling_high_mul(x, x);        /* Q6 */
        const int32_t x3 = nf_saturating_shift_left(nf_doubling_high_mul(x2, x), 6); /* Q9 -> Q3 */
        const int32_t a = nf_doubling_high_mul(one_and_half, x);  /* Q6 */
        const int32_t b = nf_doubling_high_mul(half_v, x3);       /* Q6 */
        x = nf_saturating_shift_left(a - b, 3);
    }
    *multiplier = nf_doubling_high_mul(x, 1518500250); /* sqrt(1/2) */
    if (right < 0) {
        *multiplier = (int32_t)((uint32_t)*multiplier << -right);
        right = 0;
    }
    *shift = -right;
}

void nf_l2_normalization_s8(const nf_view *v, const void *params)
{
    const nf_params_l2_normalization_s8 *p = params;
    for (int32_t row = 0; row < p->rows; ++row) {
        const int8_t *x = (const int8_t *)v[0].data + (ptrdiff_t)row * p->depth;
        int8_t *y = (int8_t *)v[1].data + (ptrdiff_t)row * p->depth;
        int32_t sum = 0, multiplier, shift;
        for (int32_t i = 0; i < p->depth; ++i)
            sum += (x[i] - p->in_zero) * (x[i] - p->in_zero);
        inverse_square_root(sum, &multiplier, &shift);
        for (int32_t i = 0; i < p->depth; ++i) {
            /* the output has scale 1/128 = 2^-7 and zero point 0 */
            const int32_t q = nf_requantize(x[i] - p->in_zero, multiplier, shift + 7);
            y[i] = (int8_t)nf_clamp(q, INT8_MIN, INT8_MAX);
        }
    }
}

#define EXTREME(T)                                                                                 \
    {                                                                                              \
        const T *x = (const T *)(const void *)v[0].data + (ptrdiff_t)o * p->axis * p->inner + i;   \
        for (int32_t k = 1; k < p->axis; ++k) {                                                    \
            const T value = x[(ptrdiff_t)k * p->inner], best = x[(ptrdiff_t)found * p->inner];     \
            if (p->largest ? value > best : value < best)                                          \
                found = k;                                                                         \
        }                                                                                          \
        break;                                                                                     \
    }

void nf_arg_extreme(const nf_view *v, const void *params)
{
    const nf_params_arg_extreme *p = params;
    for (int32_t o = 0; o < p->outer; ++o)
        for (int32_t i = 0; i < p->inner; ++i) {
            int32_t found = 0;
            switch (p->dtype) {
            case NF_INT8: EXTREME(int8_t)
            case NF_UINT8: EXTREME(uint8_t)
            case NF_INT16: EXTREME(int16_t)
            case NF_INT32: EXTREME(int32_t)
            default: EXTREME(float)
            }
            const ptrdiff_t to = (ptrdiff_t)o * p->inner + i;
            if (p->wide)
                ((int64_t *)(void *)v[1].data)[to] = found;
            else
                ((int32_t *)(void *)v[1].data)[to] = found;
        }
}

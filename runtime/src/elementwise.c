/* Binary operators with broadcasting, comparisons, select. */
#include "nf/kernels.h"
#include "view.h"

#include <math.h>
#include <string.h>

/* Walk the held part of y with a and b beside it; the last argument sees pa, pb and py. */
#define FOR_EACH(T, R, a, b, y, ...)                                                               \
    for (int32_t n = 0; n < (y)->shape->n; ++n)                                                    \
        for (int32_t oy = (y)->shape->y0; oy < (y)->shape->y1; ++oy)                               \
            for (int32_t ox = (y)->shape->x0; ox < (y)->shape->x1; ++ox) {                         \
                const uint8_t *ra = nf_at((a), n, oy, ox), *rb = nf_at((b), n, oy, ox);            \
                uint8_t *ry = nf_at((y), n, oy, ox);                                               \
                const int32_t sa = (a)->shape->sc, sb = (b)->shape->sc, sy = (y)->shape->sc;       \
                for (int32_t c = 0; c < (y)->shape->c; ++c, ra += sa, rb += sb, ry += sy) {        \
                    const T *pa = (const T *)(const void *)ra, *pb = (const T *)(const void *)rb;  \
                    R *py = (R *)(void *)ry;                                                       \
                    __VA_ARGS__                                                                    \
                }                                                                                  \
            }

#define SCALED(value, side)                                                                        \
    nf_requantize(((value) + p->side##_offset) * (1 << p->left_shift), p->side##_multiplier,       \
                  p->side##_shift)

#define ADD_KERNEL(T, suffix)                                                                      \
    void nf_add_##suffix(const nf_view *v, const void *params)                                     \
    {                                                                                              \
        const nf_params_add_s8 *p = params;                                                        \
        FOR_EACH(T, T, &v[0], &v[1], &v[2], {                                                      \
            const int32_t sum = SCALED(*pa, a) + p->b_sign * SCALED(*pb, b);                       \
            const int32_t q = nf_requantize(sum, p->out_multiplier, p->out_shift);                 \
            *py = (T)nf_clamp(q + p->out_offset, p->act_min, p->act_max);                          \
        })                                                                                         \
    }

ADD_KERNEL(int8_t, s8)
ADD_KERNEL(uint8_t, u8)
ADD_KERNEL(int16_t, s16)

#define SQUARED_DIFFERENCE_KERNEL(T, suffix)                                                       \
    void nf_squared_difference_##suffix(const nf_view *v, const void *params)                      \
    {                                                                                              \
        const nf_params_squared_difference_s8 *p = params;                                         \
        FOR_EACH(T, T, &v[0], &v[1], &v[2], {                                                      \
            const int32_t difference = SCALED(*pa, a) + p->b_sign * SCALED(*pb, b);                \
            const int32_t q =                                                                      \
                nf_requantize(difference * difference, p->out_multiplier, p->out_shift);           \
            *py = (T)nf_clamp(q + p->out_offset, p->act_min, p->act_max);                          \
        })                                                                                         \
    }

SQUARED_DIFFERENCE_KERNEL(int8_t, s8)
SQUARED_DIFFERENCE_KERNEL(int16_t, s16)

void nf_add_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_add_s8_f32scale *p = params;
    FOR_EACH(int8_t, int8_t, &v[0], &v[1], &v[2], {
        const float b = (float)*pb * p->b_scale + p->offset;
        *py = (int8_t)nf_round_half_even((float)*pa * p->a_scale + b, p->act_min, p->act_max);
    })
}

#define MUL_KERNEL(T, suffix)                                                                      \
    void nf_mul_##suffix(const nf_view *v, const void *params)                                     \
    {                                                                                              \
        const nf_params_mul_s8 *p = params;                                                        \
        FOR_EACH(T, T, &v[0], &v[1], &v[2], {                                                      \
            const int32_t product = (*pa + p->a_offset) * (*pb + p->b_offset);                     \
            const int32_t q = nf_requantize(product, p->out_multiplier, p->out_shift);             \
            *py = (T)nf_clamp(q + p->out_offset, p->act_min, p->act_max);                          \
        })                                                                                         \
    }

MUL_KERNEL(int8_t, s8)
MUL_KERNEL(uint8_t, u8)
MUL_KERNEL(int16_t, s16)

void nf_mul_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_mul_s8_f32scale *p = params;
    FOR_EACH(int8_t, int8_t, &v[0], &v[1], &v[2], {
        const float product = (float)((*pa + p->a_offset) * (*pb + p->b_offset));
        const int32_t q = nf_round_half_even(product * p->scale, -512, 512) + p->out_offset;
        *py = (int8_t)nf_clamp(q, p->act_min, p->act_max);
    })
}

#define EXTREME_KERNEL(T, suffix)                                                                  \
    void nf_extreme_##suffix(const nf_view *v, const void *params)                                 \
    {                                                                                              \
        const nf_params_extreme_s8 *p = params;                                                    \
        FOR_EACH(T, T, &v[0], &v[1], &v[2], {                                                      \
            *py = (*pa > *pb) == (p->largest != 0) ? *pa : *pb;                                    \
        })                                                                                         \
    }

EXTREME_KERNEL(int8_t, s8)
EXTREME_KERNEL(uint8_t, u8)
EXTREME_KERNEL(int16_t, s16)

void nf_prelu_s8(const nf_view *v, const void *params)
{
    const nf_params_prelu_s8 *p = params;
    FOR_EACH(int8_t, int8_t, &v[0], &v[1], &v[2], {
        const int32_t x = *pa + p->in_offset;
        const int32_t q = x >= 0 ? nf_requantize(x, p->multiplier, p->shift)
                                 : nf_requantize(x * (*pb + p->alpha_offset), p->alpha_multiplier,
                                                 p->alpha_shift);
        *py = (int8_t)nf_clamp(q + p->out_offset, INT8_MIN, INT8_MAX);
    })
}

static float binary_f32(int32_t op, float a, float b)
{
    switch (op) {
    case NF_ADD: return a + b;
    case NF_SUB: return a - b;
    case NF_MUL: return a * b;
    case NF_DIV: return a / b;
    case NF_MINIMUM: return a < b ? a : b;
    case NF_MAXIMUM: return a > b ? a : b;
    case NF_SQUARED_DIFFERENCE: return (a - b) * (a - b);
    case NF_FLOOR_DIV: return (float)floor((double)a / (double)b); // as TFLite: no rounding up
    case NF_FLOOR_MOD: {
        const float rest = fmodf(a, b);
        return rest != 0.0f && (b < 0.0f) != (rest < 0.0f) ? rest + b : rest;
    }
    case NF_POWER: return powf(a, b);
    default: return a > 0.0f ? a : a * b; /* NF_PRELU */
    }
}

void nf_binary_f32(const nf_view *v, const void *params)
{
    const nf_params_binary_f32 *p = params;
    FOR_EACH(float, float, &v[0], &v[1], &v[2], {
        *py = nf_clampf(binary_f32(p->op, *pa, *pb), p->low, p->high);
    })
}

void nf_binary_s8_float(const nf_view *v, const void *params)
{
    const nf_params_binary_s8_float *p = params;
    FOR_EACH(int8_t, int8_t, &v[0], &v[1], &v[2], {
        const float a = p->a_scale * (float)(*pa - p->a_zero);
        const float b = p->b_scale * (float)(*pb - p->b_zero);
        const float y = binary_f32(p->op, a, b) / p->out_scale;
        *py = (int8_t)nf_clamp(nf_round_half_even(y, -512, 512) + p->out_zero, INT8_MIN, INT8_MAX);
    })
}

static int64_t power_of(int64_t base, int64_t exponent)
{
    uint64_t result = 1, factor = (uint64_t)base;
    for (; exponent > 0; exponent >>= 1, factor *= factor)
        if (exponent & 1)
            result *= factor;
    return (int64_t)result;
}

/* Wraps around like two's complement; division by zero yields zero. */
static int64_t binary_integer(int32_t op, int64_t a, int64_t b)
{
    switch (op) {
    case NF_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case NF_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
    case NF_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case NF_MINIMUM: return a < b ? a : b;
    case NF_MAXIMUM: return a > b ? a : b;
    case NF_SQUARED_DIFFERENCE: {
        const uint64_t difference = (uint64_t)a - (uint64_t)b;
        return (int64_t)(difference * difference);
    }
    case NF_POWER: return power_of(a, b);
    default: break;
    }
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return 0;
    const int64_t quotient = a / b, rest = a % b;
    const int adjust = rest != 0 && (rest < 0) != (b < 0);
    if (op == NF_DIV)
        return quotient;
    return op == NF_FLOOR_DIV ? quotient - adjust : rest + (adjust ? b : 0);
}

void nf_binary_s32(const nf_view *v, const void *params)
{
    const nf_params_binary_s32 *p = params;
    FOR_EACH(int32_t, int32_t, &v[0], &v[1], &v[2], {
        *py = (int32_t)(uint32_t)binary_integer(p->op, *pa, *pb);
    })
}

void nf_binary_s64(const nf_view *v, const void *params)
{
    const nf_params_binary_s64 *p = params;
    FOR_EACH(int64_t, int64_t, &v[0], &v[1], &v[2], { *py = binary_integer(p->op, *pa, *pb); })
}

#define COMPARE(T)                                                                                 \
    FOR_EACH(T, uint8_t, &v[0], &v[1], &v[2], {                                                    \
        const T l = *pa, r = *pb;                                                                  \
        *py = (uint8_t)(p->op == NF_EQUAL           ? l == r                                       \
                        : p->op == NF_NOT_EQUAL     ? l != r                                       \
                        : p->op == NF_LESS          ? l < r                                        \
                        : p->op == NF_LESS_EQUAL    ? l <= r                                       \
                        : p->op == NF_GREATER       ? l > r                                        \
                        : p->op == NF_GREATER_EQUAL ? l >= r                                       \
                        : p->op == NF_LOGICAL_AND   ? l != 0 && r != 0                             \
                                                    : l != 0 || r != 0);                           \
    })

void nf_compare(const nf_view *v, const void *params)
{
    const nf_params_compare *p = params;
    switch (p->dtype) {
    case NF_INT8: COMPARE(int8_t) break;
    case NF_INT16: COMPARE(int16_t) break;
    case NF_INT32: COMPARE(int32_t) break;
    case NF_INT64: COMPARE(int64_t) break;
    case NF_FLOAT32: COMPARE(float) break;
    default: COMPARE(uint8_t) break;
    }
}

void nf_select(const nf_view *v, const void *params)
{
    const nf_params_select *p = params;
    const nf_view *y = &v[3];
    for (int32_t n = 0; n < y->shape->n; ++n)
        for (int32_t oy = y->shape->y0; oy < y->shape->y1; ++oy)
            for (int32_t ox = y->shape->x0; ox < y->shape->x1; ++ox)
                for (int32_t c = 0; c < y->shape->c; ++c) {
                    const int chosen = *(nf_at(&v[0], n, oy, ox) + (ptrdiff_t)c * v[0].shape->sc)
                                           ? 1
                                           : 2;
                    memcpy(nf_at(y, n, oy, ox) + (ptrdiff_t)c * y->shape->sc,
                           nf_at(&v[chosen], n, oy, ox) + (ptrdiff_t)c * v[chosen].shape->sc,
                           (size_t)p->element);
                }
}

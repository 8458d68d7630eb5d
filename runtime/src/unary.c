/* Unary operators, tables, changes of type. */
#include "nf/kernels.h"
#include "view.h"

#include <math.h>
#include <string.h>

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

/* 512 sections of 128 values each; the slope of a section is interpolated with rounding. */
static int16_t lookup_16(int16_t value, const int16_t *table)
{
    const uint16_t index = (uint16_t)(256 + (value >> 7));
    const int16_t offset = value & 0x7F;
    const int16_t base = table[index];
    const int16_t slope = (int16_t)(table[index + 1] - base);
    const int32_t delta = ((int32_t)slope * offset + 64) >> 7;
    return (int16_t)(base + delta);
}

void nf_lut_16(const nf_view *v, const void *params)
{
    const nf_params_lut_16 *p = params;
    const int16_t *x = (const int16_t *)(const void *)v[0].data;
    const int16_t *table = (const int16_t *)(const void *)v[1].data;
    int16_t *y = (int16_t *)(void *)v[2].data;
    for (int32_t i = 0; i < p->count; ++i)
        y[i] = lookup_16(x[i], table);
}

void nf_softmax_s16(const nf_view *v, const void *params)
{
    const nf_params_softmax_s16 *p = params;
    const int16_t *exp_table = (const int16_t *)(const void *)v[1].data;
    const int16_t *reciprocals = (const int16_t *)(const void *)v[2].data;
    for (int32_t row = 0; row < p->rows; ++row) {
        const int16_t *x = (const int16_t *)(const void *)v[0].data + (ptrdiff_t)row * p->depth;
        int16_t *y = (int16_t *)(void *)v[3].data + (ptrdiff_t)row * p->depth;
        int32_t max = INT16_MIN;
        for (int32_t i = 0; i < p->depth; ++i)
            max = x[i] > max ? x[i] : max;
        int32_t sum = 0; /* Q16.15 */
        for (int32_t i = 0; i < p->depth; ++i) {
            const int32_t scaled = nf_requantize(x[i] - max, p->multiplier, p->shift) + 32767;
            y[i] = lookup_16((int16_t)nf_clamp(scaled, INT16_MIN, INT16_MAX), exp_table);
            sum += y[i];
        }
        int32_t headroom = 0;
        while (headroom < 31 && !(((uint32_t)sum << headroom) & 0x80000000u))
            ++headroom;
        const int32_t shifted =
            (int32_t)((((int64_t)sum << (headroom - 1)) + (1 << 13)) >> 14) - (1 << 15) - (1 << 16);
        const int16_t scale =
            lookup_16((int16_t)nf_clamp(shifted, INT16_MIN, INT16_MAX), reciprocals);
        const int32_t right = 31 - headroom;
        for (int32_t i = 0; i < p->depth; ++i) {
            const int64_t product = (int64_t)y[i] * scale + ((int64_t)1 << (right - 1));
            y[i] = (int16_t)nf_clamp((int32_t)(product >> right), 0, INT16_MAX);
        }
    }
}

/* Logistic and tanh on int16 from a table of 256 sigmoid values over 0 .. 10.7. */
static int32_t sigmoid_16(int32_t x, const uint16_t *table)
{
    const uint32_t magnitude = (uint32_t)(x < 0 ? -x : x);
    const uint32_t section = magnitude >> 9;
    int32_t result = 0x7FFF << 10;
    if (section < 255) {
        const uint32_t a = table[section], b = table[section + 1];
        result = (int32_t)((a << 9) + (magnitude & 0x1FF) * (b - a));
    }
    result = x >= 0 ? result + (1 << 9) : (1 << 25) - result + (1 << 9) - 1;
    return result >> 10;
}

static int32_t tanh_16(int32_t x, const uint16_t *table)
{
    const uint32_t magnitude = (uint32_t)(x < 0 ? -x : x);
    const uint32_t section = magnitude >> 8;
    int32_t result = 0xFFFF << 8;
    if (section < 255) {
        const uint32_t a = table[section], b = table[section + 1];
        result = (int32_t)((a << 8) + (magnitude & 0xFF) * (b - a));
    }
    result = x >= 0 ? result - (1 << 23) + (1 << 7) : -result + (1 << 23) + (1 << 7) - 1;
    return result >> 8;
}

void nf_sigmoid_s16(const nf_view *v, const void *params)
{
    const nf_params_sigmoid_s16 *p = params;
    const int16_t *x = (const int16_t *)(const void *)v[0].data;
    const uint16_t *table = (const uint16_t *)(const void *)v[1].data;
    int16_t *y = (int16_t *)(void *)v[2].data;
    const int32_t round = p->shift > 0 ? 1 << (p->shift - 1) : 0;
    for (int32_t i = 0; i < p->count; ++i) {
        const int32_t scaled = (x[i] * p->multiplier + round) >> p->shift;
        y[i] = (int16_t)(p->tanh ? tanh_16(scaled, table) : sigmoid_16(scaled, table));
    }
}

static float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
}

static float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

/* Half to even, as the field's frameworks round. */
static float round_even(float x)
{
    const float down = floorf(x), rest = x - down;
    if (rest < 0.5f)
        return down;
    if (rest > 0.5f)
        return down + 1.0f;
    return fmodf(down, 2.0f) == 0.0f ? down : down + 1.0f;
}

static float unary_f32(int32_t op, float x, float alpha)
{
    switch (op) {
    case NF_RELU: return x > 0.0f ? x : 0.0f;
    case NF_RELU6: return nf_clampf(x, 0.0f, 6.0f);
    case NF_RELU_N1_TO_1: return nf_clampf(x, -1.0f, 1.0f);
    case NF_LOGISTIC: return 1.0f / (1.0f + expf(-x));
    case NF_TANH: return tanhf(x);
    case NF_HARD_SWISH: return x * nf_clampf(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case NF_HARD_SIGMOID: return nf_clampf(x * alpha + 0.5f, 0.0f, 1.0f);
    case NF_ELU: return x < 0.0f ? expm1f(x) : x;
    case NF_EXP: return expf(x);
    case NF_LOG: return logf(x);
    case NF_SQRT: return sqrtf(x);
    case NF_RSQRT: return 1.0f / sqrtf(x);
    case NF_SQUARE: return x * x;
    case NF_ABS: return fabsf(x);
    case NF_NEG: return -x;
    case NF_ROUND: return round_even(x);
    case NF_FLOOR: return floorf(x);
    case NF_CEIL: return ceilf(x);
    case NF_SIGN: return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f;
    case NF_SIN: return sinf(x);
    case NF_COS: return cosf(x);
    case NF_ERF: return erff(x);
    case NF_SOFTPLUS: return x > 20.0f ? x : log1pf(expf(x));
    case NF_RECIPROCAL: return 1.0f / x;
    case NF_LEAKY_RELU: return x > 0.0f ? x : x * alpha;
    case NF_GELU: return gelu(x);
    default: return gelu_tanh(x); /* NF_GELU_TANH */
    }
}

void nf_unary_f32(const nf_view *v, const void *params)
{
    const nf_params_unary_f32 *p = params;
    const float *x = (const float *)(const void *)v[0].data;
    float *y = (float *)(void *)v[1].data;
    for (int32_t i = 0; i < p->count; ++i)
        y[i] = unary_f32(p->op, x[i], p->alpha);
}

#define QUANTIZE_KERNEL(T, suffix, low, high)                                                      \
    void nf_quantize_f32_##suffix(const nf_view *v, const void *params)                            \
    {                                                                                              \
        const nf_params_quantize_f32_s8 *p = params;                                               \
        const float *x = (const float *)(const void *)v[0].data;                                   \
        T *y = (T *)(void *)v[1].data;                                                             \
        for (int32_t i = 0; i < p->count; ++i) {                                                   \
            const float real = x[i] / p->scale;                                                    \
            const int32_t q = p->half_even ? nf_round_half_even(real, -70000, 70000)               \
                                           : nf_round_half_away(real, -70000, 70000);              \
            y[i] = (T)nf_clamp(q + p->out_zero, low, high);                                        \
        }                                                                                          \
    }

QUANTIZE_KERNEL(int8_t, s8, INT8_MIN, INT8_MAX)
QUANTIZE_KERNEL(uint8_t, u8, 0, UINT8_MAX)
QUANTIZE_KERNEL(int16_t, s16, INT16_MIN, INT16_MAX)

#define DEQUANTIZE_KERNEL(T, suffix)                                                               \
    void nf_dequantize_##suffix##_f32(const nf_view *v, const void *params)                        \
    {                                                                                              \
        const nf_params_dequantize_s8_f32 *p = params;                                             \
        const T *x = (const T *)(const void *)v[0].data;                                           \
        float *y = (float *)(void *)v[1].data;                                                     \
        for (int32_t i = 0; i < p->count; ++i)                                                     \
            y[i] = p->scale * (float)(x[i] - p->in_zero);                                          \
    }

DEQUANTIZE_KERNEL(int8_t, s8)
DEQUANTIZE_KERNEL(uint8_t, u8)
DEQUANTIZE_KERNEL(int16_t, s16)

static float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    const uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112u) << 23) |
                          fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t load_integer(const uint8_t *data, int32_t dtype, int32_t i)
{
    switch (dtype) {
    case NF_INT8: return ((const int8_t *)data)[i];
    case NF_INT16: return ((const int16_t *)(const void *)data)[i];
    case NF_INT32: return ((const int32_t *)(const void *)data)[i];
    case NF_INT64: return ((const int64_t *)(const void *)data)[i];
    default: return data[i];
    }
}

static void store_integer(uint8_t *data, int32_t dtype, int32_t i, int64_t value)
{
    switch (dtype) {
    case NF_INT16: ((int16_t *)(void *)data)[i] = (int16_t)value; break;
    case NF_INT32: ((int32_t *)(void *)data)[i] = (int32_t)value; break;
    case NF_INT64: ((int64_t *)(void *)data)[i] = value; break;
    case NF_FLOAT32: ((float *)(void *)data)[i] = (float)value; break;
    case NF_BOOL: data[i] = value != 0; break;
    default: data[i] = (uint8_t)value; break;
    }
}

static int32_t lowest(int32_t dtype)
{
    return dtype == NF_UINT8  ? 0
           : dtype == NF_INT8  ? INT8_MIN
           : dtype == NF_INT16 ? INT16_MIN
                               : INT32_MIN;
}

static int32_t highest(int32_t dtype)
{
    return dtype == NF_UINT8  ? UINT8_MAX
           : dtype == NF_INT8  ? INT8_MAX
           : dtype == NF_INT16 ? INT16_MAX
                               : INT32_MAX;
}

void nf_change_scale(const nf_view *v, const void *params)
{
    const nf_params_change_scale *p = params;
    const int32_t low = lowest(p->to), high = highest(p->to);
    for (int32_t i = 0; i < p->count; ++i) {
        const int32_t x = (int32_t)load_integer(v[0].data, p->from, i) - p->in_zero;
        const int32_t q = nf_requantize(x, p->multiplier, p->shift) + p->out_zero;
        store_integer(v[1].data, p->to, i, nf_clamp(q, low, high));
    }
}

void nf_cast(const nf_view *v, const void *params)
{
    const nf_params_cast *p = params;
    for (int32_t i = 0; i < p->count; ++i) {
        if (p->from == NF_FLOAT32 || p->from == NF_FLOAT16) {
            const float x = p->from == NF_FLOAT32
                                ? ((const float *)(const void *)v[0].data)[i]
                                : half_to_float(((const uint16_t *)(const void *)v[0].data)[i]);
            if (p->to == NF_FLOAT32)
                ((float *)(void *)v[1].data)[i] = x;
            else
                /* towards zero, like a C cast; out of range saturates instead of being undefined */
                store_integer(v[1].data, p->to, i,
                              p->to == NF_BOOL        ? x != 0.0f
                              : !(x > -9.2e18f)       ? INT64_MIN
                              : x >= 9.2e18f          ? INT64_MAX
                                                      : (int64_t)x);
        } else {
            store_integer(v[1].data, p->to, i, load_integer(v[0].data, p->from, i));
        }
    }
}

/* Fixed-point arithmetic of the tflite_reference contract and rounding helpers without libm.
 *
 * Rules: the doubling high multiply and the rounding shift are those of the gemmlowp fixed-point
 * library as TensorFlow Lite's reference kernels use it (double rounding form).
 */
#ifndef NF_ARITH_H
#define NF_ARITH_H

#include <stdint.h>

#if defined(__GNUC__)
#define NF_INLINE static inline __attribute__((always_inline))
#else
#define NF_INLINE static inline
#endif

NF_INLINE int32_t nf_clamp(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}

NF_INLINE float nf_clampf(float v, float low, float high)
{
    return v < low ? low : v > high ? high : v;
}

/* High 32 bits of 2*a*b, rounded half away from zero before the shift, saturated. */
NF_INLINE int32_t nf_doubling_high_mul(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    const int64_t product = (int64_t)a * b;
    const int64_t nudge = product >= 0 ? (1 << 30) : 1 - (1 << 30);
    return (int32_t)((product + nudge) / ((int64_t)1 << 31));
}

/* v / 2^exponent, half away from zero; 0 <= exponent <= 31. */
NF_INLINE int32_t nf_rounding_shift(int32_t v, int32_t exponent)
{
    const int32_t mask = (int32_t)(((int64_t)1 << exponent) - 1);
    const int32_t remainder = v & mask;
    const int32_t threshold = (mask >> 1) + (v < 0 ? 1 : 0);
    return (v >> exponent) + (remainder > threshold ? 1 : 0);
}

/* v * multiplier * 2^(shift-31): left shift first, then doubling high multiply, then right shift. */
NF_INLINE int32_t nf_requantize(int32_t v, int32_t multiplier, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int32_t shifted = (int32_t)((uint32_t)v << left);
    return nf_rounding_shift(nf_doubling_high_mul(shifted, multiplier), right);
}

/* The 64-bit form used for int16 activations: a 15-bit multiplier and one rounding, half up. */
NF_INLINE int32_t nf_requantize_wide(int64_t v, int32_t multiplier, int32_t shift)
{
    const int64_t reduced = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
    const int32_t total = 15 - shift;
    return (int32_t)((v * reduced + ((int64_t)1 << (total - 1))) >> total);
}

/* Shift left with saturation. */
NF_INLINE int32_t nf_saturating_shift_left(int32_t v, int32_t exponent)
{
    const int64_t wide = (int64_t)v << exponent;
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* Nearest integer, half to even, saturated to low..high. */
NF_INLINE int32_t nf_round_half_even(float v, int32_t low, int32_t high)
{
    if (!(v > (float)low))
        return low;
    if (v >= (float)high)
        return high;
    int32_t i = (int32_t)v;
    const float fraction = v - (float)i;
    if (fraction > 0.5f || (fraction == 0.5f && (i & 1)))
        ++i;
    else if (fraction < -0.5f || (fraction == -0.5f && (i & 1)))
        --i;
    return i;
}

/* Nearest integer, half away from zero, saturated to low..high. */
NF_INLINE int32_t nf_round_half_away(float v, int32_t low, int32_t high)
{
    if (!(v > (float)low))
        return low;
    if (v >= (float)high)
        return high;
    int32_t i = (int32_t)v;
    const float fraction = v - (float)i;
    if (fraction >= 0.5f)
        ++i;
    else if (fraction <= -0.5f)
        --i;
    return i;
}

/* The same on double, which a Cortex-M55 computes in software. */
NF_INLINE int32_t nf_round_half_away_wide(double v, int32_t low, int32_t high)
{
    if (!(v > (double)low))
        return low;
    if (v >= (double)high)
        return high;
    int32_t i = (int32_t)v;
    const double fraction = v - (double)i;
    if (fraction >= 0.5)
        ++i;
    else if (fraction <= -0.5)
        --i;
    return i;
}

#endif

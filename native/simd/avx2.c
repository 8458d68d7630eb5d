/* AVX2: 8 outputs a vector, 16-bit patches against 16-bit weights in pairs. */
#include <immintrin.h>
#include <string.h>

#include "variant.h"

#include "../../runtime/src/arith.h"

typedef __m256i V;
typedef int16_t patch_t;
typedef int16_t weight_t;
#define LANES 8
#define GROUP 2
#define BLOCK 4
#define NAME "avx2"
#define VARIANT nf_simd_avx2

#define v_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define v_set1 _mm256_set1_epi32
#define v_add _mm256_add_epi32
#define v_dot(acc, x, w) _mm256_add_epi32(acc, _mm256_madd_epi16(x, w))
/* Values fit 16 bits, so the low half of each lane is multiplied and the high half of w is 0. */
#define v_pair v_dot

NF_INLINE V v_bytes(const uint8_t *p, int32_t held)
{
    uint8_t bytes[LANES] = {0};
    if (held == LANES)
        return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    memcpy(bytes, p, (size_t)held);
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
}

/* The lanes hold values of -128..127. */
NF_INLINE void v_store(uint8_t *p, int32_t held, V v)
{
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    uint8_t bytes[16];
    _mm_storeu_si128((__m128i *)(void *)bytes, _mm_packs_epi16(words, words));
    if (held == LANES)
        memcpy(p, bytes, LANES);
    else
        memcpy(p, bytes, (size_t)held);
}

/* Rounding the doubled high product half away from zero is adding 2^30 and shifting, for either
 * sign, because the division of the portable rule truncates. */
NF_INLINE V v_requantize(V v, V multiplier, V shift)
{
    const V zero = _mm256_setzero_si256(), half = _mm256_set1_epi64x(1 << 30);
    const V left = _mm256_max_epi32(shift, zero);
    const V right = _mm256_max_epi32(_mm256_sub_epi32(zero, shift), zero);
    const V s = _mm256_sllv_epi32(v, left);
    const V even = _mm256_add_epi64(_mm256_mul_epi32(s, multiplier), half);
    const V odd = _mm256_add_epi64(
        _mm256_mul_epi32(_mm256_srli_epi64(s, 32), _mm256_srli_epi64(multiplier, 32)), half);
    const V high = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
    const V mask = _mm256_sub_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), right),
                                    _mm256_set1_epi32(1));
    const V rest = _mm256_and_si256(high, mask);
    const V limit = _mm256_add_epi32(_mm256_srli_epi32(mask, 1), _mm256_srli_epi32(high, 31));
    return _mm256_sub_epi32(_mm256_srav_epi32(high, right), _mm256_cmpgt_epi32(rest, limit));
}

NF_INLINE V v_finish(const nf_prepared *q, V acc, int32_t o, int32_t offset, int32_t low,
                     int32_t high)
{
    V y;
    if (q->scale) {
        const __m256 product =
            _mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(q->scale + o));
        y = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(product, _mm256_set1_ps(-512.0f)),
                                             _mm256_set1_ps(512.0f)));
    } else if (q->scale_wide) {
        int32_t lanes[LANES];
        _mm256_storeu_si256((__m256i *)(void *)lanes, acc);
        for (int32_t i = 0; i < LANES; ++i)
            lanes[i] = nf_round_half_away_wide((double)lanes[i] * q->scale_wide[o + i], -512, 512);
        y = v_load(lanes);
    } else {
        y = v_requantize(acc, v_load(q->multiplier + o), v_load(q->shift + o));
    }
    y = _mm256_add_epi32(y, _mm256_set1_epi32(offset));
    return _mm256_min_epi32(_mm256_max_epi32(y, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
}

#include "kernels.h"

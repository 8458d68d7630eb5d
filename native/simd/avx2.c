/* AVX2: 8 int32 lanes, products of int16 in pairs. */
#include <immintrin.h>
#include <string.h>

#include "variant.h"

#include "../../runtime/src/arith.h"

typedef __m256i V; /* 8 int32 or 16 int16 */
typedef __m128i B; /* 16 bytes */
#define LANES 8
#define GROUP 2
#define NAME "avx2"
#define VARIANT nf_simd_avx2

/* Both the unpacking of two taps and the packing of two accumulators work on halves of a vector. */
static const int32_t order[2 * LANES] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

#define v_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define v_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define v_set1 _mm256_set1_epi32
#define v_zero _mm256_setzero_si256
#define v_add _mm256_add_epi32
#define v_sub _mm256_sub_epi32
#define v_pairs _mm256_madd_epi16
#define v_shift_left(v, count) _mm256_sll_epi32(v, _mm_cvtsi32_si128(count))
#define v_dot(acc, x, w) _mm256_add_epi32(acc, _mm256_madd_epi16(x, w))
#define v_interleave_low _mm256_unpacklo_epi16
#define v_interleave_high _mm256_unpackhi_epi16

#define b_load(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define b_set1(x) _mm_set1_epi8((char)(x))
#define b_max _mm_max_epi8
#define b_min _mm_min_epi8

/* 16 signed bytes as int16. */
NF_INLINE V v_widen(const uint8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

#define v_set1_16(x) _mm256_set1_epi16((int16_t)(x))
#define v_add_16 _mm256_add_epi16

/* The sum of all lanes. */
NF_INLINE int32_t v_total(V v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

/* nf_requantize. Rounding the doubled high product half away from zero is adding 2^30 and shifting,
 * for either sign, because the division of the portable rule truncates. */
NF_INLINE V requantize(V v, V multiplier, V shift)
{
    const V zero = v_zero(), half = _mm256_set1_epi64x(1 << 30);
    const V left = _mm256_max_epi32(shift, zero);
    const V right = _mm256_max_epi32(_mm256_sub_epi32(zero, shift), zero);
    const V s = _mm256_sllv_epi32(v, left);
    const V even = _mm256_add_epi64(_mm256_mul_epi32(s, multiplier), half);
    const V odd = _mm256_add_epi64(
        _mm256_mul_epi32(_mm256_srli_epi64(s, 32), _mm256_srli_epi64(multiplier, 32)), half);
    const V high = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
    const V mask = _mm256_sub_epi32(_mm256_sllv_epi32(v_set1(1), right), v_set1(1));
    const V rest = _mm256_and_si256(high, mask);
    const V limit = _mm256_add_epi32(_mm256_srli_epi32(mask, 1), _mm256_srli_epi32(high, 31));
    return _mm256_sub_epi32(_mm256_srav_epi32(high, right), _mm256_cmpgt_epi32(rest, limit));
}

/* The same from a doubled accumulator below 2^31: the high word of the product is the result of the
 * multiplication, and half away from zero is adding one less for a negative number. */
NF_INLINE V high_product(V doubled, V multiplier, V odd_multiplier)
{
    const V half = _mm256_set1_epi64x((int64_t)1 << 31);
    const V even = _mm256_add_epi64(_mm256_mul_epi32(doubled, multiplier), half);
    const V odd = _mm256_add_epi64(
        _mm256_mul_epi32(_mm256_srli_epi64(doubled, 32), odd_multiplier), half);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

NF_INLINE V requantize_right(V doubled, const nf_prepared *q, int32_t o)
{
    const V high =
        high_product(doubled, v_load(q->multiplier + o), v_load(q->multiplier + o + 1));
    const V nudged = v_add(v_add(high, v_load(q->round + o)), _mm256_srai_epi32(high, 31));
    return _mm256_srav_epi32(nudged, v_load(q->shift + o));
}

/* The same by one multiplier; a shift of 0 rounds nothing. */
typedef struct uniform {
    V multiplier, round, shift, sign;
} uniform;

NF_INLINE uniform spread(const nf_simd_scaling *s)
{
    const uniform u = {v_set1(s->multiplier), v_set1(s->round), v_set1(s->shift),
                       v_set1(s->shift > 0 ? -1 : 0)};
    return u;
}

NF_INLINE V v_requantize_uniform(V doubled, const uniform *u)
{
    const V high = high_product(doubled, u->multiplier, u->multiplier);
    const V sign = _mm256_and_si256(_mm256_srai_epi32(high, 31), u->sign);
    return _mm256_srav_epi32(v_add(v_add(high, u->round), sign), u->shift);
}

/* Half away from zero, as nf_round_half_away_wide. */
NF_INLINE __m128i round_away(__m128i v, const double *scale)
{
    const __m256d limit = _mm256_set1_pd(512.0), low = _mm256_set1_pd(-512.0);
    __m256d x = _mm256_mul_pd(_mm256_cvtepi32_pd(v), _mm256_loadu_pd(scale));
    x = _mm256_min_pd(_mm256_max_pd(x, low), limit); /* not a number: the lower limit */
    const __m256d whole = _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256d rest = _mm256_sub_pd(x, whole), one = _mm256_set1_pd(1.0);
    const __m256d up = _mm256_cmp_pd(rest, _mm256_set1_pd(0.5), _CMP_GE_OQ);
    const __m256d down = _mm256_cmp_pd(rest, _mm256_set1_pd(-0.5), _CMP_LE_OQ);
    return _mm256_cvttpd_epi32(_mm256_sub_pd(_mm256_add_pd(whole, _mm256_and_pd(up, one)),
                                             _mm256_and_pd(down, one)));
}

static __attribute__((noinline)) V rescale_other(const nf_prepared *q, V acc, int32_t o)
{
    if (q->rescale == NF_SIMD_F32) {
        const __m256 product =
            _mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(q->scale + o));
        return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(product, _mm256_set1_ps(-512.0f)),
                                                _mm256_set1_ps(512.0f)));
    }
    if (q->rescale == NF_SIMD_F64)
        return _mm256_set_m128i(
            round_away(_mm256_extracti128_si256(acc, 1), q->scale_wide + o + 4),
            round_away(_mm256_castsi256_si128(acc), q->scale_wide + o));
    return requantize(acc, v_load(q->multiplier + o), v_load(q->shift + o));
}

NF_INLINE V rescale(const nf_prepared *q, V acc, int32_t o)
{
    return q->rescale == NF_SIMD_FIXED_RIGHT ? requantize_right(acc, q, o)
                                             : rescale_other(q, acc, o);
}

/* int16 to bytes. Saturating on the way changes nothing: such a value is clamped to the same end
 * of the range. */
NF_INLINE B bytes_of(V words, int32_t offset, int32_t low, int32_t high)
{
    words = _mm256_adds_epi16(words, v_set1_16(offset));
    words = _mm256_min_epi16(_mm256_max_epi16(words, v_set1_16(low)), v_set1_16(high));
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

/* 2 * LANES values in `order` as bytes, plus an offset and clamped. */
NF_INLINE B v_pack(V a, V b, int32_t offset, int32_t low, int32_t high)
{
    return bytes_of(_mm256_packs_epi32(a, b), offset, low, high);
}

NF_INLINE B v_finish(const nf_prepared *q, V a, V b, int32_t o)
{
    return v_pack(rescale(q, a, o), rescale(q, b, o + LANES), q->window.out_offset,
                  q->window.act_min, q->window.act_max);
}

/* The bytes of LANES accumulators in natural order, in the lower half. */
NF_INLINE B v_finish_half(const nf_prepared *q, V a, int32_t o)
{
    const V y = rescale(q, a, o);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    return bytes_of(_mm256_set_m128i(words, words), q->window.out_offset, q->window.act_min,
                    q->window.act_max);
}

NF_INLINE void v_store_bytes(uint8_t *p, int32_t held, B bytes)
{
    if (held >= 16) {
        _mm_storeu_si128((__m128i *)(void *)p, bytes);
    } else if (held == 8) {
        _mm_storel_epi64((__m128i *)(void *)p, bytes);
    } else {
        uint8_t all[16];
        _mm_storeu_si128((__m128i *)(void *)all, bytes);
        for (int32_t i = 0; i < held; ++i)
            p[i] = all[i];
    }
}

#include "kernels.h"

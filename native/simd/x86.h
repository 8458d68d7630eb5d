/* x86 vectors of WIDTH bits, 256 or 512: the words of kernels.h. A source file defines WIDTH and
 * SET, its name, DOT where one instruction adds products of pairs of words, and DOT_BYTES where
 * one adds products of four unsigned with four signed bytes, and LOOKUP where the 512-bit set
 * permutes bytes of two vectors.
 *
 * NF_SIMD_INTRINSICS names a header in place of the compiler's, in which tests run instructions
 * that the machine lacks. */
#ifdef NF_SIMD_INTRINSICS
#include NF_SIMD_INTRINSICS
#else
#include <immintrin.h>
#endif
#include <string.h>

#include "variant.h"

#include "../../runtime/src/arith.h"

#define JOIN_(a, b, c, d) a##b##c##d
#define JOIN(a, b, c, d) JOIN_(a, b, c, d)
#define X(name) JOIN(_mm, WIDTH, _, name)
#define X_WHOLE(name) JOIN(X(name), _si, WIDTH, ) /* without element type: and_si256 */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#ifdef NF_SIMD_INTRINSICS
#define NAME TEXT(SET) " emulated"
#else
#define NAME TEXT(SET)
#endif
#define VARIANT JOIN(nf_simd_, SET, , )
#define LANES (WIDTH / 32)
#ifdef DOT_BYTES
#define GROUP 4
#else
#define GROUP 2
#endif
#define BLOCK (WIDTH / 64) /* pixels multiplied together: 16 vector registers, or 32 */

typedef JOIN(__m, WIDTH, i, ) V; /* LANES int32 or 2 * LANES int16 */

#define v_load(p) X_WHOLE(loadu)((const void *)(p))
#define v_store(p, v) X_WHOLE(storeu)((void *)(p), v)
#define v_set1 X(set1_epi32)
#define v_zero X_WHOLE(setzero)
#define v_add X(add_epi32)
#define v_xor X_WHOLE(xor)
#define v_sub X(sub_epi32)
#define v_pairs X(madd_epi16)
#define v_shift_left(v, count) X(sll_epi32)(v, _mm_cvtsi32_si128(count))
#ifdef DOT
#define v_dot DOT
#else
#define v_dot(acc, x, w) v_add(acc, v_pairs(x, w))
#endif
#ifdef DOT_BYTES
#define v_products DOT_BYTES
#define v_weights(p) v_load(p)
#else
#define v_products v_dot
#define v_weights(p) v_widen(p)
#endif
#define v_interleave_low X(unpacklo_epi16)
#define v_interleave_high X(unpackhi_epi16)
#define v_set1_16(x) X(set1_epi16)((int16_t)(x))
#define v_add_16 X(add_epi16)

/* Interleaving two taps and packing two accumulators both work on every 128 bits by themselves. */
#define FOUR(first) (first), (first) + 1, (first) + 2, (first) + 3
#if WIDTH == 256

typedef __m128i B; /* 2 * LANES bytes */
static const int32_t order[2 * LANES] = {FOUR(0), FOUR(8), FOUR(4), FOUR(12)};

#define b_load(p) _mm_loadu_si128((const void *)(p))
#define b_set1(x) _mm_set1_epi8((char)(x))
#define b_max _mm_max_epi8
#define b_min _mm_min_epi8
#define v_set1_64 _mm256_set1_epi64x
#define v_odd_of(even, odd) _mm256_blend_epi32(even, odd, 0xAA)

/* int16 to bytes, saturated. */
NF_INLINE B v_narrow(V words)
{
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

/* int32 to int16 in natural order, saturated, in the lower half. */
NF_INLINE V v_narrow_half(V v)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(v, v), 0x08);
}

NF_INLINE int32_t v_total(V v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

#define v_repeat_128 _mm256_broadcastsi128_si256
#define b_store(p, bytes) _mm_storeu_si128((void *)(p), bytes)
#define b_store_half(p, bytes) _mm_storel_epi64((void *)(p), bytes)

#else

typedef __m256i B;
static const int32_t order[2 * LANES] = {FOUR(0), FOUR(8),  FOUR(16), FOUR(24),
                                         FOUR(4), FOUR(12), FOUR(20), FOUR(28)};

#define b_load(p) _mm256_loadu_si256((const void *)(p))
#define b_set1(x) _mm256_set1_epi8((char)(x))
#define b_max _mm256_max_epi8
#define b_min _mm256_min_epi8
#define v_set1_64 _mm512_set1_epi64
#define v_odd_of(even, odd) _mm512_mask_blend_epi32(0xAAAA, even, odd)
#define v_narrow _mm512_cvtsepi16_epi8

NF_INLINE V v_narrow_half(V v)
{
    return _mm512_inserti64x4(v_zero(), _mm512_cvtsepi32_epi16(v), 0);
}

NF_INLINE int32_t v_total(V v)
{
    return _mm512_reduce_add_epi32(v);
}

#define v_repeat_128 _mm512_broadcast_i32x4
#define b_store(p, bytes) _mm256_storeu_si256((void *)(p), bytes)
#define b_store_half(p, bytes) _mm_storeu_si128((void *)(p), _mm256_castsi256_si128(bytes))

#endif

/* 2 * LANES signed bytes as int16. */
NF_INLINE V v_widen(const uint8_t *p)
{
    return X(cvtepi8_epi16)(b_load(p));
}

/* nf_requantize. Rounding the doubled high product half away from zero is adding 2^30 and shifting,
 * for either sign, because the division of the portable rule truncates. */
NF_INLINE V requantize(V v, V multiplier, V shift)
{
    const V zero = v_zero(), half = v_set1_64(1 << 30);
    const V left = X(max_epi32)(shift, zero);
    const V right = X(max_epi32)(v_sub(zero, shift), zero);
    const V s = X(sllv_epi32)(v, left);
    const V even = X(add_epi64)(X(mul_epi32)(s, multiplier), half);
    const V odd = X(add_epi64)(
        X(mul_epi32)(X(srli_epi64)(s, 32), X(srli_epi64)(multiplier, 32)), half);
    const V high = v_odd_of(X(srli_epi64)(even, 31), X(slli_epi64)(odd, 1));
    const V mask = v_sub(X(sllv_epi32)(v_set1(1), right), v_set1(1));
    const V rest = X_WHOLE(and)(high, mask);
    const V limit = v_add(X(srli_epi32)(mask, 1), X(srli_epi32)(high, 31));
    /* one more where limit < rest; neither is negative */
    return v_sub(X(srav_epi32)(high, right), X(srai_epi32)(v_sub(limit, rest), 31));
}

/* The same from a doubled accumulator below 2^31: the high word of the product is the result of the
 * multiplication, and half away from zero is adding one less for a negative number. */
NF_INLINE V high_product(V doubled, V multiplier, V odd_multiplier)
{
    const V half = v_set1_64((int64_t)1 << 31);
    const V even = X(add_epi64)(X(mul_epi32)(doubled, multiplier), half);
    const V odd = X(add_epi64)(X(mul_epi32)(X(srli_epi64)(doubled, 32), odd_multiplier), half);
    return v_odd_of(X(srli_epi64)(even, 32), odd);
}

NF_INLINE V requantize_right(V doubled, const nf_prepared *q, int32_t o)
{
    const V high =
        high_product(doubled, v_load(q->multiplier + o), v_load(q->multiplier + o + 1));
    const V nudged = v_add(v_add(high, v_load(q->round + o)), X(srai_epi32)(high, 31));
    return X(srav_epi32)(nudged, v_load(q->shift + o));
}

/* A table of 256 bytes by index. */
#ifdef LOOKUP
typedef struct lookup {
    V quarter[4];
} lookup;

NF_INLINE lookup spread_table(const uint8_t *table)
{
    lookup t;
    for (int32_t i = 0; i < 4; ++i)
        t.quarter[i] = v_load(table + 64 * i);
    return t;
}

NF_INLINE V v_lookup(V x, const lookup *t)
{
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), LOOKUP(t->quarter[0], x, t->quarter[1]),
                                  LOOKUP(t->quarter[2], x, t->quarter[3]));
}
#else
typedef struct lookup {
    V part[16];
} lookup;

NF_INLINE lookup spread_table(const uint8_t *table)
{
    lookup t;
    for (int32_t i = 0; i < 16; ++i)
        t.part[i] = v_repeat_128(_mm_loadu_si128((const void *)(table + 16 * i)));
    return t;
}

/* A shuffle takes the lower four bits of an index, or zero where its top bit is set: every index
 * that is not in a part saturates to there. */
NF_INLINE V v_lookup(V x, const lookup *t)
{
    const V sixteen = X(set1_epi8)(16), least = X(set1_epi8)(0x70);
    V y = v_zero();
#pragma GCC unroll 16
    for (int32_t i = 0; i < 16; ++i, x = X(sub_epi8)(x, sixteen))
        y = X_WHOLE(or)(y, X(shuffle_epi8)(t->part[i], X(adds_epu8)(x, least)));
    return y;
}
#endif

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
    const V sign = X_WHOLE(and)(X(srai_epi32)(high, 31), u->sign);
    return X(srav_epi32)(v_add(v_add(high, u->round), sign), u->shift);
}

/* Half away from zero, as nf_round_half_away_wide: what is beyond the whole part is at least a half
 * exactly where its double has a whole part. */
NF_INLINE __m128i round_away(__m128i v, const double *scale)
{
    const __m256d limit = _mm256_set1_pd(512.0), low = _mm256_set1_pd(-512.0);
    __m256d x = _mm256_mul_pd(_mm256_cvtepi32_pd(v), _mm256_loadu_pd(scale));
    x = _mm256_min_pd(_mm256_max_pd(x, low), limit); /* not a number: the lower limit */
    const __m128i whole = _mm256_cvttpd_epi32(x);
    const __m256d rest = _mm256_sub_pd(x, _mm256_cvtepi32_pd(whole));
    return _mm_add_epi32(whole, _mm256_cvttpd_epi32(_mm256_add_pd(rest, rest)));
}

static __attribute__((noinline)) V rescale_other(const nf_prepared *q, V acc, int32_t o)
{
    if (q->rescale == NF_SIMD_F32) {
        JOIN(__m, WIDTH, , ) product = X(mul_ps)(X(cvtepi32_ps)(acc), X(loadu_ps)(q->scale + o));
        product = X(min_ps)(X(max_ps)(product, X(set1_ps)(-512.0f)), X(set1_ps)(512.0f));
        return X(cvtps_epi32)(product);
    }
    if (q->rescale == NF_SIMD_F64) {
        int32_t sums[LANES];
        v_store(sums, acc);
        for (int32_t i = 0; i < LANES; i += 4)
            _mm_storeu_si128((void *)(sums + i),
                             round_away(_mm_loadu_si128((const void *)(sums + i)),
                                        q->scale_wide + o + i));
        return v_load(sums);
    }
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
    words = X(adds_epi16)(words, v_set1_16(offset));
    return v_narrow(X(min_epi16)(X(max_epi16)(words, v_set1_16(low)), v_set1_16(high)));
}

/* 2 * LANES values in `order` as bytes, plus an offset and clamped. */
NF_INLINE B v_pack(V a, V b, int32_t offset, int32_t low, int32_t high)
{
    return bytes_of(X(packs_epi32)(a, b), offset, low, high);
}

/* What v_finish takes, from sums of products. */
NF_INLINE V v_sums(const nf_prepared *q, V acc)
{
    return GROUP == 4 && q->rescale == NF_SIMD_FIXED_RIGHT ? v_add(acc, acc) : acc;
}

NF_INLINE B v_finish(const nf_prepared *q, V a, V b, int32_t o)
{
    return v_pack(rescale(q, a, o), rescale(q, b, o + LANES), q->window.out_offset,
                  q->window.act_min, q->window.act_max);
}

/* The bytes of LANES accumulators in natural order, in the lower half. */
NF_INLINE B v_finish_half(const nf_prepared *q, V a, int32_t o)
{
    return bytes_of(v_narrow_half(rescale(q, a, o)), q->window.out_offset, q->window.act_min,
                    q->window.act_max);
}

NF_INLINE void v_store_bytes(uint8_t *p, int32_t held, B bytes)
{
    if (held >= 2 * LANES) {
        b_store(p, bytes);
    } else if (held == LANES) {
        b_store_half(p, bytes);
    } else {
        uint8_t all[2 * LANES];
        b_store(all, bytes);
        const uint8_t *from = all;
        for (int32_t step = LANES; step; step /= 2)
            if (held & step) {
                memcpy(p, from, (size_t)step);
                p += step;
                from += step;
            }
    }
}

#include "kernels.h"

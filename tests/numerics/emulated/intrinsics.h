/* AVX2, AVX-512 and VNNI in portable C by SIMDe, and what its older versions leave out. */
#ifndef NF_TEST_INTRINSICS_H
#define NF_TEST_INTRINSICS_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512/types.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/adds.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/blend.h>
#include <simde/x86/avx512/broadcast.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/cvt.h>
#include <simde/x86/avx512/cvts.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/dpwssd.h>
#include <simde/x86/avx512/insert.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/madd.h>
#include <simde/x86/avx512/max.h>
#include <simde/x86/avx512/min.h>
#include <simde/x86/avx512/mov_mask.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/packs.h>
#include <simde/x86/avx512/permutex2var.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/shuffle.h>
#include <simde/x86/avx512/sll.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/sllv.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/sub.h>
#include <simde/x86/avx512/unpackhi.h>
#include <simde/x86/avx512/unpacklo.h>
#include <simde/x86/avx512/xor.h>

#define _mm256_dpwssd_avx_epi32 simde_mm256_dpwssd_epi32
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#undef _mm512_madd_epi16 /* an alias of four arguments in some versions */
#define _mm512_madd_epi16 simde_mm512_madd_epi16

/* One 256-bit instruction on both halves of a vector. */
#define BOTH_HALVES(name, ...)                                                                     \
    static inline simde__m512i nf_##name(simde__m512i a, __VA_ARGS__)                              \
    {                                                                                              \
        simde__m512i_private x = simde__m512i_to_private(a);                                       \
        for (int i = 0; i < 2; ++i)                                                                \
            x.m256i[i] = simde_mm256_##name(x.m256i[i], COUNT);                                    \
        return simde__m512i_from_private(x);                                                       \
    }

#define COUNT n
BOTH_HALVES(srai_epi32, int n)
#undef COUNT
#define COUNT simde__m512i_to_private(n).m256i[i]
BOTH_HALVES(srav_epi32, simde__m512i n)
#undef COUNT

#undef _mm512_srai_epi32
#undef _mm512_srav_epi32
#define _mm512_srai_epi32 nf_srai_epi32
#define _mm512_srav_epi32 nf_srav_epi32

static inline int32_t nf_reduce_add_epi32(simde__m512i a)
{
    const simde__m512i_private x = simde__m512i_to_private(a);
    int32_t sum = 0;
    for (int i = 0; i < 16; ++i)
        sum = (int32_t)((uint32_t)sum + (uint32_t)x.i32[i]);
    return sum;
}

static inline simde__m512 nf_cvtepi32_ps(simde__m512i a)
{
    const simde__m512i_private x = simde__m512i_to_private(a);
    simde__m512_private y;
    for (int i = 0; i < 2; ++i)
        y.m256[i] = simde_mm256_cvtepi32_ps(x.m256i[i]);
    return simde__m512_from_private(y);
}

static inline simde__m512i nf_cvtps_epi32(simde__m512 a)
{
    const simde__m512_private x = simde__m512_to_private(a);
    simde__m512i_private y;
    for (int i = 0; i < 2; ++i)
        y.m256i[i] = simde_mm256_cvtps_epi32(x.m256[i]);
    return simde__m512i_from_private(y);
}

#undef _mm512_reduce_add_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#define _mm512_reduce_add_epi32 nf_reduce_add_epi32
#define _mm512_cvtepi32_ps nf_cvtepi32_ps
#define _mm512_cvtps_epi32 nf_cvtps_epi32

#endif

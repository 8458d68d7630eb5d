/* AVX2 with AVX-VNNI. */
#define WIDTH 256
#define SET avx_vnni
#define DOT _mm256_dpwssd_avx_epi32
#define DOT_BYTES _mm256_dpbusd_avx_epi32
#include "x86.h"

/* AVX-512 F, BW, VL and VBMI with VNNI. */
#define WIDTH 512
#define SET avx512_vbmi
#define DOT _mm512_dpwssd_epi32
#define DOT_BYTES _mm512_dpbusd_epi32
#define LOOKUP _mm512_permutex2var_epi8
#include "x86.h"

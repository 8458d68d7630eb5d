/* AVX-512 F, BW and VL with VNNI. */
#define WIDTH 512
#define SET avx512_vnni
#define DOT _mm512_dpwssd_epi32
#define DOT_BYTES _mm512_dpbusd_epi32
#include "x86.h"

/* AVX-512 F, BW and VL. */
#define WIDTH 512
#define SET avx512
#include "x86.h"

/* AVX2. */
#define WIDTH 256
#define SET avx2
#include "x86.h"

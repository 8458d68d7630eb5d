/* AVX2 variant. */
#define NA_RUN na_run_avx2
#include "kernel.h"

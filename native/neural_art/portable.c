/* Portable variant, and the one for machines without a faster one. */
#define NA_RUN na_run_portable
#include "kernel.h"

#include "kernel_table.h"

#define INT_TEXT(name) "i:" #name " "
#define FLOAT_TEXT(name) "f:" #name " "
#define ENTRY(kernel)                                                                              \
    {#kernel, NF_PARAMS_##kernel(INT_TEXT, FLOAT_TEXT), nf_##kernel,                               \
     (int32_t)(sizeof(nf_params_##kernel) / sizeof(int32_t))},

const nf_kernel_entry nf_kernel_table[] = {NF_KERNELS(ENTRY)};
const int32_t nf_kernel_count = sizeof nf_kernel_table / sizeof nf_kernel_table[0];

/* The kernels by number and name, for the host. */
#ifndef NF_KERNEL_TABLE_H
#define NF_KERNEL_TABLE_H

#include "nf/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_kernel_entry {
    const char *name;
    const char *fields; /* "i:name f:name ..." in the order of the structure */
    nf_kernel_fn run;
    int32_t param_words;
} nf_kernel_entry;

extern const nf_kernel_entry nf_kernel_table[];
extern const int32_t nf_kernel_count;

#ifdef __cplusplus
}
#endif
#endif

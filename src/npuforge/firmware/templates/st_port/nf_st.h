/* A network of ST's compiler behind the safe runtime. */
#ifndef NF_ST_H
#define NF_ST_H

#include "ll_aton_runtime.h"
#include "nf/runtime.h"

extern const nf_model nf_models[];
extern const uint32_t nf_model_count;
extern NN_Instance_TypeDef *const nf_st_instance;

/* The port of a board, with the NPU as what runs the networks. Filled by nf_st_start. */
extern nf_port nf_st_port;

/* Start LL_ATON's runtime and the network, once, when the board is up: flash mapped, NPU clocked.
 * NF_E_STALE_FIRMWARE: the generated code is not the one that the table was made from. */
nf_status nf_st_start(const nf_port *board);

#endif

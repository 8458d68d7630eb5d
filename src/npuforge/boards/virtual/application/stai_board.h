/* The "stai" interface of a network on the virtual board: what generated wrappers call. */
#ifndef VB_STAI_H
#define VB_STAI_H

#include "board.h"
#include "stai.h"

typedef struct vb_stai {
    const char *name;
    npuforge_network *network;
    NN_Instance_TypeDef instance;
    stai_network *context; /* NULL: not initialised */
    stai_return_code status, error;
    int fresh; /* initialised, and no inference yet */
    const stai_tensor *inputs, *outputs;
} vb_stai;

stai_return_code vb_stai_init(vb_stai *n, stai_network *context, vb_place place);
stai_return_code vb_stai_deinit(vb_stai *n);
stai_return_code vb_stai_new_inference(vb_stai *n, vb_place place);
stai_return_code vb_stai_run(vb_stai *n, stai_run_mode mode, vb_place place);
stai_return_code vb_stai_continue(vb_stai *n, vb_place place);
stai_return_code vb_stai_get(vb_stai *n, int output, stai_ptr *places, stai_size *count, vb_place place);
stai_return_code vb_stai_set(vb_stai *n, int output, const stai_ptr *places, stai_size count,
                             vb_place place);
stai_return_code vb_stai_info(vb_stai *n, stai_network_info *info);

#endif

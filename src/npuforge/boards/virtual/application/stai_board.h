/* The "stai" interface of a network on the virtual board: what generated wrappers call. */
#ifndef VB_STAI_H
#define VB_STAI_H

#include "board.h"
#include "stai.h"

typedef struct vb_stai {
    const char *name;
    npuforge_network *network;
    NN_Instance_TypeDef instance;
    const stai_tensor *inputs, *outputs;
    const stai_network *context; /* NULL: not initialised */
    stai_return_code status, error;
    stai_event_cb callback;
    void *cookie;
} vb_stai;

stai_return_code vb_stai_init(vb_stai *n, stai_network *context, vb_place place);
stai_return_code vb_stai_deinit(vb_stai *n, stai_network *context, vb_place place);
stai_return_code vb_stai_new_inference(vb_stai *n, stai_network *context, vb_place place);
stai_return_code vb_stai_set_callback(vb_stai *n, stai_network *context, stai_event_cb callback,
                                      void *cookie);
stai_return_code vb_stai_run(vb_stai *n, stai_network *context, stai_run_mode mode, vb_place place);
stai_return_code vb_stai_continue(vb_stai *n, stai_network *context, vb_place place);
stai_return_code vb_stai_get(vb_stai *n, stai_network *context, int output, stai_ptr *places,
                             stai_size *count, vb_place place);
stai_return_code vb_stai_set(vb_stai *n, stai_network *context, int output, const stai_ptr *places,
                             stai_size count, vb_place place);
stai_return_code vb_stai_none(vb_stai *n, stai_size *count);
stai_return_code vb_stai_set_none(vb_stai *n, stai_size count, stai_return_code otherwise);
stai_return_code vb_stai_info(vb_stai *n, stai_network *context, stai_network_info *info,
                              vb_place place);

#endif

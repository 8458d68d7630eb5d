/* The "stai" interface: what it adds to LL_ATON's life cycle. A synchronous run begins a new inference by
 * itself; an asynchronous one goes on where it was, and after its end answers "done" until the application asks
 * for a new inference. The first such call after init answers "still running", which is harmless. */
#include "stai_board.h"

#include <stdlib.h>
#include <string.h>

static int runtime_on;

stai_return_code stai_runtime_init(void)
{
    runtime_on = 1;
    vb_runtime_init(HERE);
    return STAI_SUCCESS;
}

stai_return_code stai_runtime_deinit(void)
{
    runtime_on = 0;
    LL_ATON_RT_RuntimeDeInit();
    return STAI_SUCCESS;
}

stai_return_code stai_ext_wfe(void)
{
    vb_wait(HERE);
    return STAI_SUCCESS;
}

static stai_return_code fail(vb_stai *n, stai_return_code code)
{
    if (n->error == STAI_SUCCESS)
        n->error = code;
    return code;
}

static int ready(vb_stai *n, vb_place place)
{
    vb_last = place;
    if (n->context == NULL)
        vb_report(VB_NOT_INITIALISED, 0, place, place, 0);
    return n->context != NULL;
}

stai_return_code vb_stai_init(vb_stai *n, stai_network *context, vb_place place)
{
    vb_last = place;
    if (context == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    if (!runtime_on) {
        vb_report(VB_NOT_INITIALISED, 0, place, place, 0);
        return fail(n, STAI_ERROR_NETWORK_INVALID_RUNTIME);
    }
    n->context = context;
    n->status = STAI_SUCCESS;
    n->fresh = 1;
    n->error = STAI_SUCCESS;
    vb_init_network(&n->instance, place);
    return STAI_SUCCESS;
}

stai_return_code vb_stai_deinit(vb_stai *n)
{
    LL_ATON_RT_DeInit_Network(&n->instance);
    n->context = NULL;
    return STAI_SUCCESS;
}

stai_return_code vb_stai_new_inference(vb_stai *n, vb_place place)
{
    if (!ready(n, place))
        return fail(n, STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    if (n->fresh) {
        n->fresh = 0;
        return STAI_ERROR_NETWORK_STILL_RUNNING;
    }
    const int running = n->status == STAI_RUNNING_WFE || n->status == STAI_RUNNING_NO_WFE;
    vb_reset(&n->instance, place);
    n->status = STAI_SUCCESS;
    return running ? fail(n, STAI_ERROR_NETWORK_STILL_RUNNING) : STAI_SUCCESS;
}

static stai_return_code step(vb_stai *n, vb_place place)
{
    switch (vb_run_block(&n->instance, place)) {
    case LL_ATON_RT_DONE: n->status = STAI_DONE; break;
    case LL_ATON_RT_WFE: n->status = STAI_RUNNING_WFE; break;
    default: n->status = STAI_RUNNING_NO_WFE; break;
    }
    return n->status;
}

stai_return_code vb_stai_run(vb_stai *n, stai_run_mode mode, vb_place place)
{
    if (!ready(n, place))
        return fail(n, STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    n->fresh = 0;
    if (mode == STAI_MODE_ASYNC)
        return step(n, place);
    if (n->status == STAI_DONE)
        vb_reset(&n->instance, place);
    while (step(n, place) != STAI_DONE)
        if (n->status == STAI_RUNNING_WFE)
            vb_wait(place);
    return STAI_SUCCESS;
}

stai_return_code vb_stai_continue(vb_stai *n, vb_place place)
{
    return ready(n, place) ? step(n, place) : STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
}

stai_return_code vb_stai_get(vb_stai *n, int output, stai_ptr *places, stai_size *count,
                             vb_place place)
{
    const npuforge_network *network = n->network;
    const uint32_t all = output ? network->output_count : network->input_count;
    const LL_Buffer_InfoTypeDef *io = output ? network->outputs : network->inputs;
    vb_last = place;
    if (places == NULL || count == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    *count = all;
    for (uint32_t i = 0; i < all; ++i)
        places[i] = network->user_buffers
                        ? (output ? network->bound_outputs[i] : network->bound_inputs[i])
                        : LL_Buffer_addr_start(&io[i]);
    return STAI_SUCCESS;
}

stai_return_code vb_stai_set(vb_stai *n, int output, const stai_ptr *places, stai_size count,
                             vb_place place)
{
    npuforge_network *network = n->network;
    const LL_Buffer_InfoTypeDef *io = output ? network->outputs : network->inputs;
    if (count != (output ? network->output_count : network->input_count))
        return fail(n, output ? STAI_ERROR_NETWORK_INVALID_OUT_NUM : STAI_ERROR_NETWORK_INVALID_IN_NUM);
    for (uint32_t i = 0; i < count; ++i)
        switch (vb_bind(network, output, i, places[i], LL_Buffer_len(&io[i]), place)) {
        case LL_ATON_User_IO_NOERROR: break;
        case LL_ATON_User_IO_WRONG_ALIGN: return fail(n, STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
        default:
            return fail(n, output ? STAI_ERROR_NETWORK_INVALID_OUT_PTR
                                  : STAI_ERROR_NETWORK_INVALID_IN_PTR);
        }
    return STAI_SUCCESS;
}

static const stai_tensor *tensors(const LL_Buffer_InfoTypeDef *io, uint32_t count)
{
    stai_tensor *made = calloc(count ? count : 1u, sizeof *made);
    if (!made)
        abort();
    for (uint32_t i = 0; i < count; ++i) {
        made[i].size_bytes = LL_Buffer_len(&io[i]);
        made[i].name = io[i].name;
        made[i].shape.size = io[i].ndims;
        made[i].shape.data = (const int32_t *)io[i].shape;
        made[i].scale.size = made[i].zeropoint.size = 1u;
        made[i].scale.data = io[i].scale;
        made[i].zeropoint.data = io[i].offset;
    }
    return made;
}

stai_return_code vb_stai_info(vb_stai *n, stai_network_info *info)
{
    if (info == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    if (n->inputs == NULL) {
        n->inputs = tensors(n->network->inputs, n->network->input_count);
        n->outputs = tensors(n->network->outputs, n->network->output_count);
    }
    (void)memset(info, 0, sizeof *info);
    info->c_model_name = n->name;
    info->n_inputs = n->network->input_count;
    info->n_outputs = n->network->output_count;
    info->inputs = n->inputs;
    info->outputs = n->outputs;
    return STAI_SUCCESS;
}

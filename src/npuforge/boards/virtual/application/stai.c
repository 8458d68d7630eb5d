/* The "stai" interface: what it adds to LL_ATON's life cycle. A synchronous run begins a new inference by
 * itself; an asynchronous one goes on where it was, and after its end answers "done" until the application asks
 * for a new inference. Such a call when none has ended answers "still running": after init, harmless. */
#include "stai_board.h"
#include "threads.h"

#include <string.h>

static int runtime_on;
static stai_event_cb runtime_callback;
static void *runtime_cookie;

/* --- runtime ---------------------------------------------------------------------------------- */

static void tell_runtime(LL_ATON_RT_Callbacktype_t type)
{
    runtime_callback(runtime_cookie, (stai_event_type)type, NULL);
}

stai_return_code stai_runtime_set_callback(const stai_event_cb callback, void *cookie)
{
    runtime_callback = callback;
    runtime_cookie = cookie;
    LL_ATON_RT_SetRuntimeCallback(callback ? tell_runtime : NULL);
    return STAI_SUCCESS;
}

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
    return stai_runtime_set_callback(NULL, NULL);
}

static const stai_version api = {STAI_API_VERSION_MAJOR, STAI_API_VERSION_MINOR,
                                 STAI_API_VERSION_MICRO, 0};
static const stai_version tools = {STAI_TOOLS_VERSION_MAJOR, STAI_TOOLS_VERSION_MINOR,
                                   STAI_TOOLS_VERSION_MICRO, 0};

stai_return_code stai_runtime_get_info(stai_runtime_info *info)
{
    if (info == NULL)
        return STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS;
    *info = (stai_runtime_info){api, {0}, tools, 0, STAI_COMPILER_ID_GCC, "virtual board"};
    return STAI_SUCCESS;
}

stai_return_code stai_ext_wfe(void)
{
    vb_wait(HERE);
    if (vb_threads_running())
        vb_pause(1, HERE);
    return STAI_SUCCESS;
}

stai_return_code stai_cache_mcu_clean_range(uintptr_t address, stai_size bytes)
{
    vb_by_address(address, (int32_t)bytes, VB_CLEAN, HERE);
    return STAI_SUCCESS;
}

stai_return_code stai_cache_mcu_invalidate_range(uintptr_t address, stai_size bytes)
{
    vb_by_address(address, (int32_t)bytes, VB_INVALIDATE, HERE);
    return STAI_SUCCESS;
}

stai_return_code stai_ext_cache_npu_clean_range(uintptr_t address, stai_size bytes)
{
    (void)address;
    (void)bytes;
    return STAI_SUCCESS;
}

stai_return_code stai_ext_cache_npu_clean_invalidate_range(uintptr_t address, stai_size bytes)
{
    vb_forget_npu_cache(address, address + bytes, HERE);
    return STAI_SUCCESS;
}

const char *stai_get_return_code_name(const stai_return_code code)
{
#define NAME(code) {code, #code}
    static const struct {
        stai_return_code code;
        const char *name;
    } names[] = {
        NAME(STAI_SUCCESS), NAME(STAI_RUNNING_NO_WFE), NAME(STAI_RUNNING_WFE), NAME(STAI_DONE),
        NAME(STAI_ERROR_GENERIC), NAME(STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS),
        NAME(STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE), NAME(STAI_ERROR_NETWORK_INVALID_RUNTIME),
        NAME(STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM), NAME(STAI_ERROR_NETWORK_INVALID_IN_PTR),
        NAME(STAI_ERROR_NETWORK_INVALID_IN_NUM), NAME(STAI_ERROR_NETWORK_INVALID_OUT_PTR),
        NAME(STAI_ERROR_NETWORK_INVALID_OUT_NUM), NAME(STAI_ERROR_NETWORK_INVALID_STATES_NUM),
        NAME(STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM), NAME(STAI_ERROR_NOT_IMPLEMENTED),
        NAME(STAI_ERROR_INVALID_BUFFER_ALIGNMENT), NAME(STAI_ERROR_NETWORK_STILL_RUNNING),
        NAME(STAI_ERROR_STAI_INIT_FAILED), NAME(STAI_ERROR_STAI_DEINIT_FAILED)};
#undef NAME
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        if (names[i].code == code)
            return names[i].name;
    return "UNKNOWN";
}

/* --- a network -------------------------------------------------------------------------------- */

static stai_return_code fail(vb_stai *n, stai_return_code code)
{
    if (n->error == STAI_SUCCESS)
        n->error = code;
    return code;
}

/* The first word of a context says that it is in use. The application's memory: its cache is told. */
static uint32_t word_of(const stai_network *context, vb_place place)
{
    uint32_t word;
    if (!vb_in_stack((uintptr_t)context))
        vb_cpu((uintptr_t)context, sizeof word, 0, place);
    memcpy(&word, context, sizeof word);
    return word;
}

static void set_word(stai_network *context, uint32_t word, vb_place place)
{
    if (!vb_in_stack((uintptr_t)context))
        vb_cpu((uintptr_t)context, sizeof word, 1, place);
    memcpy(context, &word, sizeof word);
}

static int ready(vb_stai *n, const stai_network *context, vb_place place)
{
    vb_last = place;
    if (n->context != NULL && n->context == context)
        return 1;
    vb_report(VB_NOT_INITIALISED, 0, place, place, 0);
    return 0;
}

static stai_return_code not_ready(vb_stai *n)
{
    return fail(n, STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
}

stai_return_code vb_stai_init(vb_stai *n, stai_network *context, vb_place place)
{
    vb_last = place;
    if (context == NULL)
        return not_ready(n);
    if (!runtime_on) {
        vb_report(VB_NOT_INITIALISED, 0, place, place, 0);
        return fail(n, STAI_ERROR_NETWORK_INVALID_RUNTIME);
    }
    if (word_of(context, place) != 0u)
        return not_ready(n); /* in use, or in memory that nobody has zeroed */
    set_word(context, 1u, place);
    n->context = context;
    n->status = n->error = STAI_SUCCESS;
    vb_init_network(&n->instance, place);
    return STAI_SUCCESS;
}

stai_return_code vb_stai_deinit(vb_stai *n, stai_network *context, vb_place place)
{
    if (!ready(n, context, place))
        return not_ready(n);
    if (n->status != STAI_DONE && n->status != STAI_SUCCESS)
        return fail(n, STAI_ERROR_NETWORK_STILL_RUNNING);
    LL_ATON_RT_DeInit_Network(&n->instance);
    LL_ATON_RT_SetNetworkCallback(&n->instance, NULL);
    set_word(context, 0u, place);
    n->context = NULL;
    n->callback = NULL;
    n->status = n->error = STAI_SUCCESS;
    return STAI_SUCCESS;
}

stai_return_code vb_stai_new_inference(vb_stai *n, stai_network *context, vb_place place)
{
    if (!ready(n, context, place))
        return not_ready(n);
    if (n->status != STAI_DONE && n->status != STAI_RUNNING_NO_WFE)
        return fail(n, STAI_ERROR_NETWORK_STILL_RUNNING);
    n->status = STAI_SUCCESS;
    vb_reset(&n->instance, place);
    return STAI_SUCCESS;
}

static void tell_network(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *instance,
                         const LL_ATON_RT_EpochBlockItem_t *block)
{
    const vb_stai *n = (const vb_stai *)((const char *)instance - offsetof(vb_stai, instance));
    n->callback(n->cookie, (stai_event_type)type, block);
}

stai_return_code vb_stai_set_callback(vb_stai *n, stai_network *context, stai_event_cb callback,
                                      void *cookie)
{
    if (context == NULL)
        return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
    n->callback = callback;
    n->cookie = cookie;
    LL_ATON_RT_SetNetworkCallback(&n->instance, callback ? tell_network : NULL);
    return STAI_SUCCESS;
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

stai_return_code vb_stai_run(vb_stai *n, stai_network *context, stai_run_mode mode, vb_place place)
{
    if (!ready(n, context, place))
        return not_ready(n);
    n->error = STAI_SUCCESS;
    /* what the application installed below this interface is lost, as on the part */
    LL_ATON_RT_SetNetworkCallback(&n->instance, n->callback ? tell_network : NULL);
    if (mode == STAI_MODE_ASYNC)
        return step(n, place);
    if (mode != STAI_MODE_SYNC)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    while (step(n, place) != STAI_DONE)
        if (n->status == STAI_RUNNING_WFE) {
            vb_wait(place);
            if (vb_threads_running())
                vb_pause(1, place);
        }
    n->status = STAI_SUCCESS;
    vb_reset(&n->instance, place);
    return STAI_SUCCESS;
}

stai_return_code vb_stai_continue(vb_stai *n, stai_network *context, vb_place place)
{
    return ready(n, context, place) ? step(n, place) : not_ready(n);
}

stai_return_code vb_stai_get(vb_stai *n, stai_network *context, int output, stai_ptr *places,
                             stai_size *count, vb_place place)
{
    const npuforge_network *network = n->network;
    const uint32_t all = output ? network->output_count : network->input_count;
    const LL_Buffer_InfoTypeDef *io = output ? network->outputs : network->inputs;
    if (!ready(n, context, place))
        return not_ready(n);
    if (count == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    *count = all;
    for (uint32_t i = 0; places && i < all; ++i)
        places[i] = io[i].is_user_allocated
                        ? (output ? network->bound_outputs[i] : network->bound_inputs[i])
                        : LL_Buffer_addr_start(&io[i]);
    return STAI_SUCCESS;
}

stai_return_code vb_stai_set(vb_stai *n, stai_network *context, int output, const stai_ptr *places,
                             stai_size count, vb_place place)
{
    npuforge_network *network = n->network;
    const LL_Buffer_InfoTypeDef *io = output ? network->outputs : network->inputs;
    if (!ready(n, context, place))
        return not_ready(n);
    if (count != (output ? network->output_count : network->input_count))
        return fail(n, output ? STAI_ERROR_NETWORK_INVALID_OUT_NUM : STAI_ERROR_NETWORK_INVALID_IN_NUM);
    if (places == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    for (uint32_t i = 0; i < count; ++i) {
        if (!io[i].is_user_allocated && places[i] == LL_Buffer_addr_start(&io[i]))
            continue; /* where it is anyhow */
        switch (vb_bind(network, output, i, places[i], LL_Buffer_len(&io[i]), place)) {
        case LL_ATON_User_IO_NOERROR: break;
        case LL_ATON_User_IO_WRONG_ALIGN: return fail(n, STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
        default:
            return fail(n, output ? STAI_ERROR_NETWORK_INVALID_OUT_PTR
                                  : STAI_ERROR_NETWORK_INVALID_IN_PTR);
        }
    }
    return STAI_SUCCESS;
}

/* Weights, activations and states: there are none to get or set. */
stai_return_code vb_stai_none(vb_stai *n, stai_size *count)
{
    if (count == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    *count = 0;
    return STAI_SUCCESS;
}

stai_return_code vb_stai_set_none(vb_stai *n, stai_size count, stai_return_code otherwise)
{
    return count == 0u ? STAI_SUCCESS : fail(n, otherwise);
}

stai_return_code vb_stai_info(vb_stai *n, stai_network *context, stai_network_info *info,
                              vb_place place)
{
    if (!ready(n, context, place))
        return not_ready(n);
    if (info == NULL)
        return fail(n, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    *info = (stai_network_info){
        .c_model_name = n->name,
        .tool_version = tools,
        .api_version = api,
        .n_nodes = 1,
        .flags = STAI_FLAG_INPUTS | STAI_FLAG_OUTPUTS,
        .n_inputs = (uint16_t)n->network->input_count,
        .n_outputs = (uint16_t)n->network->output_count,
        .inputs = n->inputs,
        .outputs = n->outputs,
    };
    return STAI_SUCCESS;
}

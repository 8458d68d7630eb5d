/* LL_ATON's life cycle as submit and poll: reset, epoch blocks until done, and a wait where the NPU works. */
#include "nf_st.h"

#include <stddef.h>

nf_port nf_st_port;

static enum { ABSENT, FRESH, RUNNING, DONE } state;

static int agree(const nf_network *network, const nf_io *ios, uint32_t count,
                 const LL_Buffer_InfoTypeDef *info)
{
    uint32_t i = 0u;
    for (; i < count && info[i].name != NULL; ++i) {
        const uint8_t *planned = network->spaces[ios[i].space] + ios[i].offset;
        if (LL_Buffer_addr_start(&info[i]) != planned || LL_Buffer_len(&info[i]) != ios[i].bytes)
            return 0;
    }
    return i == count && info[i].name == NULL;
}

static nf_status submit(const nf_job *job)
{
    (void)job;
    if (state == ABSENT)
        return NF_E_NOT_INITIALISED;
    if (state == RUNNING)
        return NF_E_IN_FLIGHT;
    if (state == DONE)
        LL_ATON_RT_Reset_Network(nf_st_instance);
    state = RUNNING;
    return NF_OK;
}

/* One epoch block. A wait ends with any interrupt, so that a time limit is seen while the NPU hangs. */
static nf_status port_poll(void)
{
    if (state != RUNNING)
        return state == DONE ? NF_OK : NF_E_IDLE;
    const LL_ATON_RT_RetValues_t answer = LL_ATON_RT_RunEpochBlock(nf_st_instance);
    if (answer == LL_ATON_RT_WFE)
        LL_ATON_OSAL_WFE();
    if (answer != LL_ATON_RT_DONE)
        return NF_PENDING;
    state = DONE;
    return NF_OK;
}

nf_status nf_st_start(const nf_port *board)
{
    const nf_network *network = nf_models[0].network;
    if (state != ABSENT)
        return NF_E_IN_FLIGHT;
    nf_st_port = *board;
    nf_st_port.master = NF_REACH_NPU;
    nf_st_port.submit = submit;
    nf_st_port.poll = port_poll;
    nf_st_port.idle = NULL;
    if (!agree(network, network->inputs, network->input_count,
               LL_ATON_Input_Buffers_Info(nf_st_instance)) ||
        !agree(network, network->outputs, network->output_count,
               LL_ATON_Output_Buffers_Info(nf_st_instance)))
        return NF_E_STALE_FIRMWARE;
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(nf_st_instance);
    state = FRESH;
    return NF_OK;
}

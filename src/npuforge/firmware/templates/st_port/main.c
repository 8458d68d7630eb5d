/* Board, network and runtime up; then one inference after the other of what application_input gives. Yours to
 * change. */
#include "board.h"
#include "memory.h"
#include "nf_st.h"

#include <string.h>

#define RUNS 8u
#define TIMEOUT_US 10000000u

static nf_runtime runtime;

/* A test pattern. Put a camera or a link here: a buffer for its DMA comes from nf_buffer_alloc and goes to
 * it with nf_buffer_give; the runtime maintains the cache. */
static nf_status application_input(uint32_t run)
{
    const nf_network *network = nf_models[0].network;
    for (uint32_t i = 0u; i < network->input_count; ++i) {
        void *place;
        const nf_status status = nf_input_place(&runtime, 0u, i, &place);
        if (status != NF_OK)
            return status;
        memset(place, (int)(run & 0x7Fu), network->inputs[i].bytes);
    }
    return NF_OK;
}

static nf_status prepare(void)
{
    static nf_config config;
    board_init();
    if (board_result != NF_OK)
        return board_result;
    const nf_status status = nf_st_start(&nf_board_port);
    config.port = &nf_st_port;
    config.pools = nf_pools;
    config.pool_count = nf_pool_count;
    config.zones = nf_zones;
    config.zone_count = nf_zone_count;
    config.models = nf_models;
    config.model_count = nf_model_count;
    config.alignment = NF_BUFFER_ALIGNMENT;
    config.log_runs = 1u;
    return status == NF_OK ? nf_init(&runtime, &config) : status;
}

int main(void)
{
    nf_status status = prepare();
    for (uint32_t run = 0u; run < RUNS && status == NF_OK; ++run) {
        status = application_input(run);
        if (status == NF_OK)
            status = nf_run(&runtime, 0u, TIMEOUT_US);
        for (uint32_t i = 0u; i < nf_models[0].network->output_count && status == NF_OK; ++i) {
            const void *data;
            status = nf_output(&runtime, 0u, i, &data);
        }
    }
    nf_stage(&nf_board_port, "application", status);
    board_exit((int)status);
}

#include "setup.h"

#include "board.h"
#include "memory.h"
#include "networks.h"

nf_runtime runtime;

static nf_config config;

nf_status start(void)
{
    board_init();
    config.port = &nf_board_port;
    config.pools = nf_pools;
    config.pool_count = nf_pool_count;
    config.zones = nf_zones;
    config.zone_count = nf_zone_count;
    config.models = nf_models;
    config.model_count = nf_model_count;
    config.alignment = NF_BUFFER_ALIGNMENT;
    return nf_init(&runtime, &config);
}

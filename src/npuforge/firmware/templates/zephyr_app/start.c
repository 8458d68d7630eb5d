/* The runtime of the sample on Zephyr. */
#include "board.h"
#include "setup.h"

nf_runtime runtime;

static nf_config config;

nf_status start(void)
{
    board_init();
    board_config(&config);
    return nf_init(&runtime, &config);
}

/* The application: brings the board up, proves each network on the answer stored with it, then runs the
 * frames that application.h asks for. Yours to change. */
#include "application.h"
#include "board.h"
#include "networks.h"
#include "self_test.h"
#include "setup.h"

#define TIMEOUT_US 10000000u

/* Every network reproduces the host's result; each is a line of the staged log. */
static nf_status prove(void)
{
    nf_status status = NF_OK;
    for (uint32_t i = 0u; i < nf_known_answer_count && status == NF_OK; ++i) {
        self_test_difference at;
        status = self_test(i, TIMEOUT_US, &at);
        nf_stage(&nf_board_port, "self_test", status);
    }
    return status;
}

static nf_status run_frame(void)
{
    nf_status status = application_input(&runtime);
    if (status == NF_OK)
        status = nf_run(&runtime, 0u, TIMEOUT_US);
    for (uint32_t i = 0u; i < nf_models[0].network->output_count && status == NF_OK; ++i) {
        const void *data;
        status = nf_output(&runtime, 0u, i, &data);
        if (status == NF_OK)
            application_output(i, data);
    }
    return status;
}

int main(void)
{
    nf_status status = start();
    if (status == NF_OK)
        status = prove();
    if (status == NF_OK)
        status = application_start(&runtime);
    if (status == NF_OK)
        status = nf_reset(&runtime, 0u);
    while (status == NF_OK) {
        status = run_frame();
        while (status == NF_PENDING)
            status = run_frame();
    }
    /* NF_E_IDLE: the application has no (more) frames */
    if (status != NF_E_IDLE)
        nf_stage(&nf_board_port, "application", status);
    board_exit(status == NF_E_IDLE ? 0 : (int)status);
}

/* Known-answer test: run each network on its stored input and compare every output byte.
 * Exit code 0: all equal; 1: a difference; 2: the runtime refuses a call. */
#include "networks.h"
#include "semihosting.h"
#include "setup.h"

#define TIMEOUT_US 600000000u

static nf_status fill(uint32_t model, const nf_known_answer *test)
{
    nf_status status = nf_reset(&runtime, model);
    for (uint32_t i = 0; i < test->network->input_count && status == NF_OK; ++i) {
        nf_frame frame = {test->inputs[i], test->network->inputs[i].bytes, 0, NULL, 0};
        nf_buffer buffer;
        status = nf_buffer_register(&runtime, frame.data, frame.bytes, 0, NF_SCOPED, &buffer);
        if (status == NF_OK) {
            status = nf_input(&runtime, model, i, &frame);
            nf_buffer_release(&runtime, buffer);
        }
    }
    return status;
}

static int refused(nf_status status)
{
    sh_write_text(": ");
    sh_write_text(nf_status_name(status));
    sh_write_text(": ");
    sh_write_text(nf_status_text(status));
    sh_write_text("\n");
    return 2;
}

static int check(uint32_t model, const nf_known_answer *test)
{
    nf_status status = fill(model, test);
    if (status == NF_OK)
        status = nf_run(&runtime, model, TIMEOUT_US);
    sh_write_text(test->network->name);
    for (uint32_t i = 0; i < test->network->output_count && status == NF_OK; ++i) {
        const void *data;
        status = nf_output(&runtime, model, i, &data);
        const uint8_t *got = data;
        const nf_io *io = &test->network->outputs[i];
        for (uint32_t k = 0; k < io->bytes && status == NF_OK; ++k)
            if (got[k] != test->outputs[i][k]) {
                sh_write_text(": output ");
                sh_write_text(io->name);
                sh_write_text(" differs at byte ");
                sh_write_dec((int32_t)k);
                sh_write_text("\n");
                return 1;
            }
    }
    if (status != NF_OK)
        return refused(status);
    sh_write_text(": known answer reproduced, largest output ");
    sh_write_dec(nf_network_argmax(test->network, 0));
    sh_write_text("\n");
    return 0;
}

int main(void)
{
    const nf_status status = start();
    if (status != NF_OK)
        return refused(status);
    int worst = 0;
    for (uint32_t i = 0; i < nf_known_answer_count; ++i) {
        const int result = check(i, &nf_known_answers[i]);
        if (result > worst)
            worst = result;
    }
    return worst;
}

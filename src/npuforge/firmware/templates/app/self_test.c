#include "self_test.h"

#include "setup.h"

static nf_status fill(uint32_t model, const nf_known_answer *test)
{
    nf_status status = nf_reset(&runtime, model);
    for (uint32_t i = 0; i < test->network->input_count && status == NF_OK; ++i) {
        nf_frame frame = {test->inputs[i], test->network->inputs[i].bytes, 0, NULL, 0};
        nf_buffer buffer;
        status = nf_buffer_register(&runtime, frame.data, frame.bytes, 0, NF_SCOPED, &buffer);
        if (status == NF_OK) {
            status = nf_input(&runtime, model, i, &frame);
            (void)nf_buffer_release(&runtime, buffer);
        }
    }
    return status;
}

nf_status self_test(uint32_t model, uint32_t timeout_us, self_test_difference *difference)
{
    const nf_known_answer *test = &nf_known_answers[model];
    nf_status status = fill(model, test);
    if (status == NF_OK)
        status = nf_run(&runtime, model, timeout_us);
    for (uint32_t i = 0; i < test->network->output_count && status == NF_OK; ++i) {
        const void *data;
        status = nf_output(&runtime, model, i, &data);
        const uint8_t *got = data;
        for (uint32_t k = 0; k < test->network->outputs[i].bytes && status == NF_OK; ++k)
            if (got[k] != test->outputs[i][k]) {
                difference->output = i;
                difference->byte = k;
                status = NF_E_WRONG_ANSWER;
            }
    }
    return status;
}

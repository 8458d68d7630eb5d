/* Known-answer test: run each network on its stored input and compare every output byte.
 * Exit code 0: all equal; 1: a difference; 2: the step table does not run. */
#include "networks.h"
#include "semihosting.h"

#include <string.h>

static int check(const nf_known_answer *test)
{
    const nf_network *network = test->network;
    for (uint32_t i = 0; i < network->input_count; ++i)
        memcpy(nf_network_input(network, i), test->inputs[i], network->inputs[i].bytes);
    nf_network_reset(network);
    if (nf_network_run(network, NULL, NULL) != 0) {
        sh_write_text(": the step table is not valid\n");
        return 2;
    }
    for (uint32_t i = 0; i < network->output_count; ++i) {
        const uint8_t *got = nf_network_output(network, i);
        const nf_io *io = &network->outputs[i];
        for (uint32_t k = 0; k < io->bytes; ++k)
            if (got[k] != test->outputs[i][k]) {
                sh_write_text(": output ");
                sh_write_text(io->name);
                sh_write_text(" differs at byte ");
                sh_write_dec((int32_t)k);
                sh_write_text("\n");
                return 1;
            }
    }
    sh_write_text(": known answer reproduced, largest output ");
    sh_write_dec(nf_network_argmax(network, 0));
    sh_write_text("\n");
    return 0;
}

int main(void)
{
    int worst = 0;
    for (uint32_t i = 0; i < nf_known_answer_count; ++i) {
        sh_write_text(nf_known_answers[i].network->name);
        const int result = check(&nf_known_answers[i]);
        if (result > worst)
            worst = result;
    }
    return worst;
}

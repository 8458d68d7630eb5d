/* Known-answer test: run each network on its stored input and compare every output byte.
 * Exit code 0: all equal; 1: a difference; 2: the runtime refuses a call. */
#include "self_test.h"
#include "semihosting.h"
#include "setup.h"

#define TIMEOUT_US 600000000u

static int refused(nf_status status)
{
    sh_write_text(": ");
    sh_write_text(nf_status_name(status));
    sh_write_text(": ");
    sh_write_text(nf_status_text(status));
    sh_write_text("\n");
    return 2;
}

static int check(uint32_t model, const nf_network *network)
{
    self_test_difference at;
    const nf_status status = self_test(model, TIMEOUT_US, &at);
    sh_write_text(network->name);
    if (status == NF_E_WRONG_ANSWER) {
        sh_write_text(": output ");
        sh_write_text(network->outputs[at.output].name);
        sh_write_text(" differs at byte ");
        sh_write_dec((int32_t)at.byte);
        sh_write_text("\n");
        return 1;
    }
    if (status != NF_OK)
        return refused(status);
    sh_write_text(": known answer reproduced, largest output ");
    sh_write_dec(nf_network_argmax(network, 0));
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
        const int result = check(i, nf_known_answers[i].network);
        if (result > worst)
            worst = result;
    }
    return worst;
}

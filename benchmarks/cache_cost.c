/* Cache maintenance of the safe runtime, counted where the board would do it: a host build of generated
 * networks and runtime with a port whose NPU runs the step table. Prints one line a network: its number,
 * calls and bytes of clean and invalidate of one inference. */
#include "networks.h"

#include <stdio.h>
#include <string.h>

#define LINE 32u

static struct {
    unsigned cleans, invalidates;
    unsigned long cleaned, invalidated;
} count;

static void clean(uintptr_t address, uintptr_t bytes)
{
    (void)address;
    ++count.cleans;
    count.cleaned += bytes;
}

static void invalidate(uintptr_t address, uintptr_t bytes)
{
    (void)address;
    ++count.invalidates;
    count.invalidated += bytes;
}

static void barrier(void)
{
}

static uint64_t now_us(void)
{
    return 0u;
}

static nf_status submit(const nf_job *job)
{
    return nf_network_run(job->network, NULL, NULL) == 0 ? NF_OK : NF_E_PROGRAM;
}

static nf_status poll(void)
{
    return NF_OK;
}

static const nf_port port = {
    .master = NF_REACH_NPU,
    .cache_line = LINE,
    .clean = clean,
    .invalidate = invalidate,
    .barrier = barrier,
    .now_us = now_us,
    .submit = submit,
    .poll = poll,
};
static nf_runtime runtime;

static int infer(uint32_t model)
{
    const nf_known_answer *test = &nf_known_answers[model];
    const void *data;
    void *place;
    for (uint32_t i = 0u; i < test->network->input_count; ++i) {
        if (nf_input_place(&runtime, model, i, &place) != NF_OK)
            return 1;
        memcpy(place, test->inputs[i], test->network->inputs[i].bytes);
    }
    if (nf_run(&runtime, model, 1000u) != NF_OK)
        return 1;
    for (uint32_t i = 0u; i < test->network->output_count; ++i) {
        if (nf_output(&runtime, model, i, &data) != NF_OK ||
            memcmp(data, test->outputs[i], test->network->outputs[i].bytes) != 0)
            return 1;
        (void)nf_output(&runtime, model, i, &data); /* asked again: nothing to do */
    }
    return 0;
}

int main(void)
{
    const nf_pool pools[] = {
        {"all", 4096u, UINTPTR_MAX - 8192u, 0u, 0u,
         NF_REACH_CPU | NF_REACH_NPU | NF_CACHEABLE | NF_WRITABLE}};
    const nf_config config = {.port = &port, .pools = pools, .pool_count = 1u, .models = nf_models,
                              .model_count = nf_model_count};
    const nf_status status = nf_init(&runtime, &config);
    if (status != NF_OK) {
        printf("%s\n", nf_status_name(status));
        return 1;
    }
    for (uint32_t model = 0u; model < nf_model_count; ++model) {
        if (nf_reset(&runtime, model) != NF_OK || infer(model) != 0)
            return 1;
        memset(&count, 0, sizeof count);
        if (infer(model) != 0)
            return 1;
        printf("%u %u %lu %u %lu\n", (unsigned)model, count.cleans, count.cleaned, count.invalidates,
               count.invalidated);
    }
    return 0;
}

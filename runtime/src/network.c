#include "nf/network.h"

#include <string.h>

uint8_t *nf_network_input(const nf_network *network, uint32_t index)
{
    if (index >= network->input_count)
        return NULL;
    const nf_io *io = &network->inputs[index];
    return network->spaces[io->space] + io->offset;
}

const uint8_t *nf_network_output(const nf_network *network, uint32_t index)
{
    if (index >= network->output_count)
        return NULL;
    const nf_io *io = &network->outputs[index];
    return network->spaces[io->space] + io->offset;
}

void nf_network_reset(const nf_network *network)
{
    for (uint32_t i = 0; i < network->state_count; ++i) {
        const nf_state *state = &network->states[i];
        (void)memcpy(network->spaces[state->space] + state->offset,
               network->spaces[0] + state->initial, state->bytes);
    }
}

int nf_network_run(const nf_network *network, nf_hook hook, void *context)
{
    return nf_exec(&network->program, network->spaces, 0, network->program.step_count, hook,
                   context);
}

int32_t nf_network_argmax(const nf_network *network, uint32_t output)
{
    const uint8_t *data = nf_network_output(network, output);
    if (!data)
        return -1;
    const nf_io *io = &network->outputs[output];
    int32_t best = -1;
    float largest = 0.0f;
    const uint32_t size = io->dtype == NF_FLOAT32 ? 4u : 1u;
    for (uint32_t i = 0; i < io->bytes / size; ++i) {
        float value;
        if (io->dtype == NF_INT8)
            value = (float)(int8_t)data[i];
        else if (io->dtype == NF_UINT8)
            value = (float)data[i];
        else if (io->dtype == NF_FLOAT32)
            (void)memcpy(&value, data + (size_t)i * 4u, sizeof value);
        else
            return -1;
        if (best < 0 || value > largest) {
            best = (int32_t)i;
            largest = value;
        }
    }
    return best;
}

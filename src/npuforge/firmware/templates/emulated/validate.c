/* Validation: read samples from nf_in.bin, run them, write results to nf_out.bin.
 *
 * State variables are reset once, before the first sample: the samples are one sequence.
 *
 * nf_in.bin: four 32-bit words (magic, network number, sample count, mode), then the inputs of each
 * sample. nf_out.bin: mode 0: the outputs of each sample; mode 1: every captured tensor of each
 * sample, in the order of the capture table; mode 2: for each step, 64-bit SysTick ticks.
 * Exit code 0: done; 3: a file cannot be opened, read or written; 4: bad header; 2: the runtime refuses a call.
 */
#include "board.h"
#include "networks.h"
#include "semihosting.h"
#include "setup.h"

#define MAGIC 0x4E464956u
enum { MODE_OUTPUTS = 0, MODE_CAPTURE = 1, MODE_COUNT = 2 };

#define TIMEOUT_US 0xFFFFFFFFu

typedef struct run_state {
    const nf_network *network;
    uint32_t model;
    int32_t file;
    uint32_t mode;
    uint32_t next_capture;
    uint64_t last_ticks;
    int failed;
} run_state;

static void after_step(void *context, uint32_t step)
{
    run_state *s = context;
    if (s->mode == MODE_COUNT) {
        const uint64_t now = board_ticks();
        const uint64_t spent = now - s->last_ticks;
        if (sh_write(s->file, &spent, sizeof spent) != 0)
            s->failed = 1;
        s->last_ticks = board_ticks();
        return;
    }
    if (s->mode != MODE_CAPTURE)
        return;
    const nf_network *n = s->network;
    while (s->next_capture < n->capture_count && n->captures[s->next_capture].step == step) {
        const nf_capture *c = &n->captures[s->next_capture++];
        if (sh_write(s->file, n->spaces[c->space] + c->offset, c->bytes) != 0)
            s->failed = 1;
    }
}

static int run_sample(run_state *s, int32_t in)
{
    const nf_network *n = s->network;
    for (uint32_t i = 0; i < n->input_count; ++i) {
        void *place;
        if (nf_input_place(&runtime, s->model, i, &place) != NF_OK)
            return 2;
        if (sh_read(in, place, n->inputs[i].bytes) != 0)
            return 3;
    }
    s->next_capture = 0;
    s->last_ticks = board_ticks();
    if (nf_run(&runtime, s->model, TIMEOUT_US) != NF_OK)
        return 2;
    if (s->mode == MODE_OUTPUTS)
        for (uint32_t i = 0; i < n->output_count; ++i) {
            const void *data;
            if (nf_output(&runtime, s->model, i, &data) != NF_OK)
                return 2;
            if (sh_write(s->file, data, n->outputs[i].bytes) != 0)
                s->failed = 1;
        }
    return s->failed ? 3 : 0;
}

int main(void)
{
    uint32_t header[4];
    if (start() != NF_OK)
        return 2;
    const int32_t in = sh_open_read("nf_in.bin");
    const int32_t out = sh_open_write("nf_out.bin");
    if (in < 0 || out < 0 || sh_read(in, header, sizeof header) != 0)
        return 3;
    if (header[0] != MAGIC || header[1] >= nf_model_count || header[3] > MODE_COUNT)
        return 4;
    run_state state = {nf_models[header[1]].network, header[1], out, header[3], 0, 0, 0};
    if (nf_reset(&runtime, state.model) != NF_OK)
        return 2;
    nf_set_hook(&runtime, after_step, &state);
    int result = 0;
    for (uint32_t i = 0; i < header[2] && result == 0; ++i)
        result = run_sample(&state, in);
    sh_close(out);
    sh_close(in);
    return result;
}

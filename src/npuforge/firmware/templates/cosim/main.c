/* Co-simulation: this CPU runs its side of a compiled program; a process that shares the external
 * RAM simulates the NPU.
 *
 * Mailbox at MAILBOX, 32-bit words: 0 magic, 1 program, 2 requests made, 3 hand-over wanted,
 * 4 requests served, 5 status of the last one (0: done). This side writes words 0 to 3, the other
 * one 4 and 5.
 *
 * nf_in.bin: the inputs. nf_out.bin: the buffers of CPU steps in the order they are made, then the
 * outputs. Exit code 0: done; 3: a file cannot be opened, read or written; 5: the NPU reports an
 * error.
 */
#include "program.h"
#include "semihosting.h"

#define MAILBOX ((volatile uint32_t *)0x60000000u)
#define MAGIC 0x4E464D42u
enum { WORD_MAGIC, WORD_PROGRAM, WORD_MADE, WORD_WANTED, WORD_SERVED, WORD_STATUS };

static void barrier(void)
{
    __asm volatile("dmb" ::: "memory");
}

static int npu(void *context, const nf_aton_program *which, uint32_t number)
{
    (void)context;
    const uint32_t request = MAILBOX[WORD_MADE] + 1u;
    MAILBOX[WORD_MAGIC] = MAGIC;
    MAILBOX[WORD_PROGRAM] = which->id;
    MAILBOX[WORD_WANTED] = number;
    barrier();
    MAILBOX[WORD_MADE] = request;
    while (MAILBOX[WORD_SERVED] != request) {
    }
    barrier();
    return MAILBOX[WORD_STATUS] == 0u ? 0 : 5;
}

/* the emulated machine has no data cache */
static void cache(void *context, const nf_aton_cache *range)
{
    (void)context;
    (void)range;
}

typedef struct run_state {
    int32_t file;
    uint32_t next;
    int failed;
} run_state;

static int write_range(int32_t file, const program_range *range)
{
    return sh_write(file, (const void *)range->address, range->bytes);
}

static void after_step(void *context, uint32_t step)
{
    run_state *s = context;
    while (s->next < program_captures_count && program_captures[s->next].step == step)
        if (write_range(s->file, &program_captures[s->next++]) != 0)
            s->failed = 1;
}

int main(void)
{
    const int32_t in = sh_open_read("nf_in.bin");
    run_state state = {sh_open_write("nf_out.bin"), 0, 0};
    if (in < 0 || state.file < 0)
        return 3;
    for (uint32_t i = 0; i < program_inputs_count; ++i)
        if (sh_read(in, (void *)program_inputs[i].address, program_inputs[i].bytes) != 0)
            return 3;
    const nf_aton_port port = {NULL, npu, cache};
    const int status = nf_aton_run(&program, &port, after_step, &state);
    for (uint32_t i = 0; i < program_outputs_count && status == 0; ++i)
        if (write_range(state.file, &program_outputs[i]) != 0)
            state.failed = 1;
    sh_close(state.file);
    sh_close(in);
    return status != 0 ? status : state.failed ? 3 : 0;
}

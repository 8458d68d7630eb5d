/* Around main() and the exit of an emulated program: fill stack and arenas with a pattern before, and
 * write both to a file after, so that what was never written can be counted. */
#include "semihosting.h"

#include <stdint.h>

typedef struct area {
    uintptr_t start;
    uint32_t bytes;
} area;

static const area areas[] = {NF_AREAS};
extern uint8_t nf_stack_top[];

int __real_main(void);
int __wrap_main(void);
void __real_sh_exit(int code) __attribute__((noreturn));
void __wrap_sh_exit(int code) __attribute__((noreturn));

static void fill(uintptr_t start, uintptr_t end)
{
    for (volatile uint8_t *at = (volatile uint8_t *)start; at < (volatile uint8_t *)end; ++at)
        *at = NF_PATTERN;
}

int __wrap_main(void)
{
    uint8_t here;
    fill((uintptr_t)nf_stack_top - NF_STACK, (uintptr_t)&here - 64u);
    for (uint32_t i = 0; i < sizeof areas / sizeof areas[0]; ++i)
        fill(areas[i].start, areas[i].start + areas[i].bytes);
    return __real_main();
}

void __wrap_sh_exit(int code)
{
    const int32_t file = sh_open_write("nf_high.bin");
    if (file >= 0) {
        sh_write(file, (const void *)((uintptr_t)nf_stack_top - NF_STACK), NF_STACK);
        for (uint32_t i = 0; i < sizeof areas / sizeof areas[0]; ++i)
            sh_write(file, (const void *)areas[i].start, areas[i].bytes);
        sh_close(file);
    }
    __real_sh_exit(code);
}

/* A compiled program's CPU side, its inputs, outputs and the buffers its CPU steps leave. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "nf/aton.h"

typedef struct program_range {
    uint32_t step; /* after which it can be read */
    uintptr_t address;
    uint32_t bytes;
} program_range;

extern const nf_aton_program program;
extern const program_range program_inputs[], program_outputs[], program_captures[];
extern const uint32_t program_inputs_count, program_outputs_count, program_captures_count;

#endif

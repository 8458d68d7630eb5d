// A step divided into parts that write disjoint rows or columns of its output.
#pragma once

#include <memory>
#include <vector>

#include "kernel_table.h"
#include "simd/pack.h"

namespace npuforge {

// One part: the step with a narrower output. Weights are those of the whole step.
struct Part {
    nf_shape shape;
    nf_operand operands[NF_MAX_OPERANDS];
    nf_prepared prepared;
    nf_step step;
};

// Up to `count` parts of a step, or none when dividing it does not pay or is not known to be safe:
// another kernel than a window over an image, too little work, an output that overlaps an input.
// `step` is as it runs; `packed` what its variant was given, NULL for the portable kernel.
std::vector<std::unique_ptr<Part>> parts_of(const nf_kernel_entry &kernel, const nf_step &step,
                                            const Packed *packed, const void *kernel_params,
                                            unsigned count);

} // namespace npuforge

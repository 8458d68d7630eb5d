// Choice of a kernel variant for a step, and its packed weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../kernel_table.h"
#include "variant.h"

namespace npuforge {

inline constexpr const char *kPortable = "portable";

struct Packed {
    nf_kernel_fn run = nullptr;
    const void *params = nullptr; // one of these, or the portable kernel's
    nf_prepared prepared = {};
    nf_prepared_binary binary = {};
    nf_prepared_parts joint = {};
    std::vector<std::unique_ptr<Packed>> parts; // of `joint`
    std::vector<const nf_prepared *> part_list;
    std::size_t scratch_bytes = 0;
    std::vector<std::int16_t> words; // weights
    std::vector<std::int8_t> bytes;
    std::vector<std::int32_t> bias, multiplier, shift, round, runs;
    std::vector<float> scale;
    std::vector<double> scale_wide;

    void use_scratch(void *memory)
    {
        prepared.scratch = memory;
        for (const auto &part : parts)
            part->use_scratch(memory);
    }
};

// Variants this machine can run, the preferred one first, then the portable one and those added.
std::vector<std::string> variant_names();

// By name; empty means the preferred one. NULL for the portable kernels.
// Throws std::invalid_argument when this machine has no such variant.
const nf_simd_variant *find_variant(const std::string &name);

// Make a variant of another library known by its name; never preferred. It has to stay loaded.
void add_variant(const nf_simd_variant *variant);

// What the variant needs to run a step, or nothing when it leaves the step to the portable kernel:
// another kernel, groups, computed weights, strided channels, values outside of int8 arithmetic.
std::unique_ptr<Packed> pack(const nf_simd_variant &variant, const nf_kernel_entry &kernel,
                             const nf_step &step, const nf_view *views, const bool *constant);

// The part of `pack` for kernels without weights.
std::unique_ptr<Packed> pack_elementwise(const nf_simd_variant &variant, const std::string &kernel,
                                         const nf_step &step, const nf_view *views);

} // namespace npuforge

// A step table with its memory, built from arrays and run by the same interpreter as firmware.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernel_table.h"
#include "parts.h"
#include "simd/pack.h"

namespace npuforge {

// Columns of the operand array: space, offset, then nf_shape field by field.
constexpr std::size_t kOperandColumns = 15;

struct ProgramArrays {
    const std::int32_t *kernels;
    const std::int32_t *nodes;
    std::size_t step_count;
    const std::int64_t *operands;
    std::size_t operand_count;
    const std::int32_t *operand_start; // step_count + 1
    const std::int32_t *params;
    std::size_t param_count;
    const std::int32_t *param_start; // step_count + 1
};

class Program {
public:
    // `variant` names the kernels: one of variant_names(), or empty for the best this machine has.
    // `threads` share the steps that can be divided; their number never changes a byte.
    // Throws std::invalid_argument when an index or an address leaves its array or space, or when
    // the variant is unknown here.
    Program(const ProgramArrays &arrays, const std::uint8_t *constants, std::size_t constant_bytes,
            const std::vector<std::size_t> &space_bytes, const std::string &variant,
            unsigned threads);
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    void run(std::uint32_t first, std::uint32_t count);

    std::uint8_t *space(std::size_t index) { return bases_.at(index); }
    std::size_t space_bytes(std::size_t index) const { return sizes_.at(index); }
    std::size_t space_count() const { return bases_.size(); }
    std::size_t step_count() const { return steps_.size(); }
    // The variant each step runs.
    const std::vector<std::string> &variants() const { return variants_; }
    // Steps that the threads share.
    std::size_t divided() const;

private:
    struct Free {
        void operator()(void *p) const { std::free(p); }
    };
    std::uint8_t *allocate(std::size_t bytes);
    nf_operand operand(const std::int64_t *row, std::size_t index);

    std::vector<std::unique_ptr<std::uint8_t, Free>> memory_;
    std::vector<std::uint8_t *> bases_;
    std::vector<std::size_t> sizes_;
    std::vector<nf_shape> shapes_;
    std::vector<nf_operand> operands_;
    std::vector<std::int32_t> params_;
    std::vector<nf_step> steps_;
    std::vector<std::unique_ptr<Packed>> packed_;
    std::vector<std::uint8_t> scratch_;
    std::vector<std::string> variants_;
    unsigned threads_;
    std::vector<std::vector<std::unique_ptr<Part>>> parts_; // of each step, none when whole
    // What the step's variant was given, NULL for the portable kernel.
    const Packed *choose(nf_step &step, const nf_kernel_entry &kernel,
                         const nf_simd_variant *variant);
    void share_scratch();
    void run_shared(std::uint32_t first, std::uint32_t count);
};

} // namespace npuforge

#include "program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

#include "team.h"

namespace npuforge {

namespace {

constexpr std::size_t kAlignment = 64;
// Vector loads of host kernels may read past a tensor's end, never write.
constexpr std::size_t kSlack = 64;

void require(bool condition, const char *what, std::size_t index)
{
    if (!condition)
        throw std::invalid_argument(std::string(what) + " at " + std::to_string(index));
}

// Distance from the first byte of the lowest to the first byte of the highest held element.
void extent(const nf_shape &s, std::int64_t &low, std::int64_t &high)
{
    low = high = 0;
    const std::int64_t counts[4] = {s.n, static_cast<std::int64_t>(s.y1) - s.y0,
                                    static_cast<std::int64_t>(s.x1) - s.x0, s.c};
    const std::int64_t strides[4] = {s.sn, s.sh, s.sw, s.sc};
    for (int i = 0; i < 4; ++i) {
        const std::int64_t span = counts[i] > 0 ? (counts[i] - 1) * strides[i] : 0;
        (span < 0 ? low : high) += span;
    }
}

} // namespace

Program::Program(const ProgramArrays &a, const std::uint8_t *constants, std::size_t constant_bytes,
                 const std::vector<std::size_t> &space_bytes, const std::string &name,
                 unsigned threads)
    : threads_(threads)
{
    const nf_simd_variant *variant = find_variant(name);
    std::memcpy(allocate(constant_bytes), constants, constant_bytes);
    for (std::size_t bytes : space_bytes)
        std::memset(allocate(bytes), 0, bytes);

    shapes_.resize(a.operand_count);
    operands_.reserve(a.operand_count);
    for (std::size_t i = 0; i < a.operand_count; ++i)
        operands_.push_back(operand(a.operands + i * kOperandColumns, i));
    params_.assign(a.params, a.params + a.param_count);

    for (std::size_t s = 0; s < a.step_count; ++s) {
        require(a.kernels[s] >= 0 && a.kernels[s] < nf_kernel_count, "unknown kernel", s);
        const nf_kernel_entry &kernel = nf_kernel_table[a.kernels[s]];
        const std::int32_t o0 = a.operand_start[s], o1 = a.operand_start[s + 1];
        const std::int32_t p0 = a.param_start[s], p1 = a.param_start[s + 1];
        require(o0 >= 0 && o1 >= o0 && static_cast<std::size_t>(o1) <= a.operand_count &&
                    o1 - o0 <= NF_MAX_OPERANDS,
                "operand range", s);
        require(p0 >= 0 && static_cast<std::size_t>(p1) <= a.param_count &&
                    p1 - p0 == kernel.param_words,
                "parameter range", s);
        nf_step step = {};
        step.run = kernel.run;
        step.operands = operands_.data() + o0;
        step.params = params_.data() + p0;
        step.operand_count = static_cast<std::uint16_t>(o1 - o0);
        step.node = static_cast<std::uint16_t>(a.nodes[s]);
        const void *params = step.params;
        const Packed *packed = choose(step, kernel, variant);
        steps_.push_back(step);
        parts_.push_back(parts_of(kernel, step, packed, params, threads));
    }
    share_scratch();
}

// One scratch for whole steps and the first part of each, one more for every other part.
void Program::share_scratch()
{
    std::size_t bytes = 0, most = 1;
    for (const auto &packed : packed_)
        bytes = std::max(bytes, packed->scratch_bytes);
    for (const auto &parts : parts_)
        most = std::max(most, parts.size());
    const std::size_t each = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    scratch_.resize(each * most);
    const auto at = [&](std::size_t i) { return scratch_.data() + i * each; };
    for (const auto &packed : packed_)
        packed->use_scratch(at(0));
    for (const auto &parts : parts_)
        for (std::size_t i = 0; i < parts.size(); ++i)
            parts[i]->prepared.scratch = at(i);
}

const Packed *Program::choose(nf_step &step, const nf_kernel_entry &kernel,
                              const nf_simd_variant *variant)
{
    nf_view views[NF_MAX_OPERANDS];
    bool constant[NF_MAX_OPERANDS];
    for (int i = 0; i < step.operand_count; ++i) {
        const nf_operand &op = step.operands[i];
        views[i] = nf_view{bases_[op.space] + op.offset, op.shape};
        constant[i] = op.space == 0;
    }
    auto packed = variant ? pack(*variant, kernel, step, views, constant) : nullptr;
    variants_.emplace_back(packed ? variant->name : kPortable);
    if (!packed)
        return nullptr;
    step.run = packed->run;
    step.params = packed->params;
    packed_.push_back(std::move(packed));
    return packed_.back().get();
}

std::uint8_t *Program::allocate(std::size_t bytes)
{
    const std::size_t padded = (bytes + kSlack + kAlignment - 1) / kAlignment * kAlignment;
    void *p = std::aligned_alloc(kAlignment, padded);
    if (!p)
        throw std::bad_alloc();
    memory_.emplace_back(static_cast<std::uint8_t *>(p));
    bases_.push_back(memory_.back().get());
    sizes_.push_back(bytes);
    return bases_.back();
}

nf_operand Program::operand(const std::int64_t *row, std::size_t index)
{
    std::int32_t fields[13];
    for (int i = 0; i < 13; ++i) {
        require(row[2 + i] >= std::numeric_limits<std::int32_t>::min() &&
                    row[2 + i] <= std::numeric_limits<std::int32_t>::max(),
                "shape field", index);
        fields[i] = static_cast<std::int32_t>(row[2 + i]);
    }
    nf_shape &s = shapes_[index];
    static_assert(sizeof(nf_shape) == sizeof fields, "nf_shape is 13 words");
    std::memcpy(&s, fields, sizeof s);

    require(row[0] >= 0 && static_cast<std::size_t>(row[0]) < bases_.size(), "space", index);
    std::int64_t low, high;
    extent(s, low, high);
    const std::int64_t size = static_cast<std::int64_t>(sizes_[static_cast<std::size_t>(row[0])]);
    const bool empty = s.n == 0 || s.y1 == s.y0 || s.x1 == s.x0 || s.c == 0;
    require(row[1] >= 0 && row[1] + low >= 0 && row[1] + high < size + (empty ? 1 : 0), "address",
            index);
    return nf_operand{static_cast<std::uint32_t>(row[0]), static_cast<std::uint32_t>(row[1]), &s};
}

std::size_t Program::divided() const
{
    return static_cast<std::size_t>(std::count_if(
        parts_.begin(), parts_.end(), [](const auto &parts) { return !parts.empty(); }));
}

// Every member walks the same steps: whole ones are the first member's, parts are dealt out.
void Program::run_shared(std::uint32_t first, std::uint32_t count)
{
    const nf_program program = {steps_.data(), static_cast<std::uint32_t>(steps_.size())};
    together(threads_, [&](unsigned member, unsigned members, Meeting &meeting) {
        for (std::uint32_t s = first; s < first + count;) {
            std::uint32_t next = s + 1;
            if (parts_[s].empty()) {
                while (next < first + count && parts_[next].empty())
                    ++next;
                if (member == 0)
                    nf_exec(&program, bases_.data(), s, next - s, nullptr, nullptr);
            }
            for (std::size_t i = member; i < parts_[s].size(); i += members) {
                const nf_program part = {&parts_[s][i]->step, 1};
                nf_exec(&part, bases_.data(), 0, 1, nullptr, nullptr);
            }
            meeting.wait();
            s = next;
        }
    });
}

void Program::run(std::uint32_t first, std::uint32_t count)
{
    const nf_program program = {steps_.data(), static_cast<std::uint32_t>(steps_.size())};
    const bool inside = first <= steps_.size() && count <= steps_.size() - first;
    if (inside && std::any_of(parts_.begin() + first, parts_.begin() + first + count,
                              [](const auto &parts) { return !parts.empty(); })) {
        run_shared(first, count);
        return;
    }
    if (nf_exec(&program, bases_.data(), first, count, nullptr, nullptr) != 0)
        throw std::out_of_range("step range outside of the program");
}

} // namespace npuforge

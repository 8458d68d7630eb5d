#include "parts.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace npuforge {

namespace {

// Products (or elements looked at) below which handing work over costs more than it saves.
constexpr std::int64_t kLeastWork = 100000;

struct Windows {
    const char *prefix;
    bool all_channels; // an output sums over all channels of the input
};

// Kernels whose parameters begin with a window and whose output elements depend on nothing else.
constexpr Windows kWindows[] = {
    {"conv2d_", true}, {"depthwise_conv2d_", false}, {"average_pool2d_", false},
    {"max_pool2d_", false},
};

const Windows *windows(const std::string &kernel)
{
    if (kernel == "conv2d_hybrid") // quantises its whole input into a scratch operand first
        return nullptr;
    for (const Windows &known : kWindows)
        if (kernel.rfind(known.prefix, 0) == 0)
            return &known;
    return nullptr;
}

// First byte and the byte after the last that a view may touch. No element is wider than 8 bytes, nor
// than the distance of two side by side.
void touched(const nf_operand &op, std::int64_t &low, std::int64_t &high)
{
    const nf_shape &s = *op.shape;
    low = high = op.offset;
    const std::int64_t counts[4] = {s.n, std::int64_t(s.y1) - s.y0, std::int64_t(s.x1) - s.x0, s.c};
    const std::int64_t strides[4] = {s.sn, s.sh, s.sw, s.sc};
    for (int i = 0; i < 4; ++i)
        if (counts[i] > 1)
            (strides[i] < 0 ? low : high) += (counts[i] - 1) * strides[i];
    high += s.sc > 0 && s.sc < 8 ? s.sc : 8;
}

bool apart(const nf_operand &a, const nf_operand &b)
{
    if (a.space != b.space)
        return true;
    std::int64_t a0, a1, b0, b1;
    touched(a, a0, a1);
    touched(b, b0, b1);
    return a1 <= b0 || b1 <= a0;
}

std::int64_t work(const Windows &kind, const nf_shape &x, const nf_shape &y, const void *params)
{
    const auto *window = static_cast<const std::int32_t *>(params);
    const std::int64_t outputs =
        std::int64_t(y.n) * (y.y1 - y.y0) * (y.x1 - y.x0) * y.c;
    return outputs * window[0] * window[1] * (kind.all_channels ? x.c : 1);
}

} // namespace

std::vector<std::unique_ptr<Part>> parts_of(const nf_kernel_entry &kernel, const nf_step &step,
                                            const Packed *packed, const void *kernel_params,
                                            unsigned count)
{
    std::vector<std::unique_ptr<Part>> parts;
    const Windows *kind = windows(kernel.name);
    if (!kind || count < 2)
        return parts;
    const int last = step.operand_count - 1;
    const nf_operand &out = step.operands[last];
    const nf_shape &y = *out.shape;
    if (work(*kind, *step.operands[0].shape, y, kernel_params) < kLeastWork)
        return parts;
    for (int i = 0; i < last; ++i)
        if (!apart(step.operands[i], out))
            return parts;
    const std::int32_t rows = y.y1 - y.y0, columns = y.x1 - y.x0;
    const bool by_row = rows >= std::min<std::int64_t>(columns, count);
    const std::int32_t length = by_row ? rows : columns;
    const std::int32_t total = std::min<std::int64_t>(length, count);
    if (total < 2)
        return parts;
    for (std::int32_t i = 0; i < total; ++i) {
        const auto begin = static_cast<std::int32_t>(std::int64_t(length) * i / total);
        const auto end = static_cast<std::int32_t>(std::int64_t(length) * (i + 1) / total);
        auto part = std::make_unique<Part>();
        part->shape = y;
        (by_row ? part->shape.y0 : part->shape.x0) += begin;
        (by_row ? part->shape.y1 : part->shape.x1) -= length - end;
        std::copy(step.operands, step.operands + step.operand_count, part->operands);
        nf_operand &own = part->operands[last];
        own.shape = &part->shape;
        own.offset = static_cast<std::uint32_t>(own.offset +
                                                std::int64_t(begin) * (by_row ? y.sh : y.sw));
        part->step = step;
        part->step.operands = part->operands;
        if (packed && step.params == &packed->prepared) {
            part->prepared = packed->prepared;
            part->prepared.y = part->shape;
            part->step.params = &part->prepared;
        }
        parts.push_back(std::move(part));
    }
    return parts;
}

} // namespace npuforge

// Elementwise kernels, tables, means and pools of a variant.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "pack.h"

namespace npuforge {

namespace {

// A right-going requantisation; false for any other.
bool scaling(nf_simd_scaling &s, std::int32_t multiplier, std::int32_t shift)
{
    if (multiplier < 0 || shift > 0 || shift < -30)
        return false;
    s = {multiplier, shift < 0 ? std::int32_t(1) << (-shift - 1) : 0, -shift};
    return true;
}

bool offset_in_range(std::int32_t offset)
{
    return offset >= -127 && offset <= 128;
}

bool int8_output(std::int32_t offset, std::int32_t low, std::int32_t high)
{
    return offset >= INT8_MIN && offset <= INT8_MAX && low >= INT8_MIN && high <= INT8_MAX &&
           low <= high;
}

// Rows of y with the same rows of a and b, as few and as long as the strides allow.
bool rows_of(nf_prepared_binary &q, const nf_view *views)
{
    const nf_shape &y = *views[2].shape;
    const std::int32_t sizes[4] = {y.n, y.y1 - y.y0, y.x1 - y.x0, y.c};
    nf_simd_rows *rows[3] = {&q.a, &q.b, &q.y};
    std::int32_t strides[3][4];
    for (int k = 0; k < 3; ++k) {
        const nf_shape &s = *views[k].shape;
        const std::int32_t own[4] = {s.sn, s.sh, s.sw, s.sc};
        std::copy(own, own + 4, strides[k]);
        rows[k]->start = static_cast<std::ptrdiff_t>(y.y0 - s.y0) * s.sh +
                         static_cast<std::ptrdiff_t>(y.x0 - s.x0) * s.sw;
    }
    auto unit = [&](int d) { // the elements along an axis lie side by side, or repeat
        for (int k = 0; k < 3; ++k)
            if (strides[k][d] != 1 && (strides[k][d] != 0 || k == 2))
                return false;
        return true;
    };
    int inner = 3; // axes inner.. are one row
    while (inner > 0 && sizes[inner] == 1)
        --inner;
    if (!unit(inner)) {
        inner = 3;
        if (sizes[inner] != 1)
            return false;
    }
    std::int64_t count = sizes[inner];
    std::int32_t step[3];
    for (int k = 0; k < 3; ++k)
        step[k] = count > 1 ? strides[k][inner] : 1;
    auto joins = [&](int d) {
        for (int k = 0; k < 3; ++k)
            if (sizes[d] != 1 && strides[k][d] != step[k] * count)
                return false;
        return true;
    };
    for (; inner > 0 && joins(inner - 1); --inner)
        count *= sizes[inner - 1];
    if (count > INT32_MAX)
        return false;
    q.count = static_cast<std::int32_t>(count);
    for (int d = 0; d < 3; ++d) {
        q.size[d] = d < inner ? sizes[d] : 1;
        for (int k = 0; k < 3; ++k)
            rows[k]->stride[d] = d < inner ? strides[k][d] : 0;
    }
    for (int k = 0; k < 3; ++k)
        rows[k]->step = step[k];
    return true;
}

std::unique_ptr<Packed> pack_add(const nf_simd_variant &variant, const nf_step &step,
                                 const nf_view *views)
{
    const auto *p = static_cast<const nf_params_add_s8 *>(step.params);
    auto made = std::make_unique<Packed>();
    nf_prepared_binary &q = made->binary;
    if (!scaling(q.scale_a, p->a_multiplier, p->a_shift) ||
        !scaling(q.scale_b, p->b_multiplier, p->b_shift) ||
        !scaling(q.scale_y, p->out_multiplier, p->out_shift) || !offset_in_range(p->a_offset) ||
        !offset_in_range(p->b_offset) || !int8_output(p->out_offset, p->act_min, p->act_max) ||
        p->left_shift < 15 || p->left_shift > 20 || std::abs(p->b_sign) != 1 ||
        !rows_of(q, views))
        return nullptr;
    q.a_offset = p->a_offset;
    q.b_offset = p->b_offset;
    q.left_shift = p->left_shift;
    q.subtract = p->b_sign < 0;
    q.out_offset = p->out_offset;
    q.act_min = p->act_min;
    q.act_max = p->act_max;
    made->run = variant.add;
    made->params = &q;
    return made;
}

std::unique_ptr<Packed> pack_mul(const nf_simd_variant &variant, const nf_step &step,
                                 const nf_view *views)
{
    const auto *p = static_cast<const nf_params_mul_s8 *>(step.params);
    auto made = std::make_unique<Packed>();
    nf_prepared_binary &q = made->binary;
    if (!scaling(q.scale_y, p->out_multiplier, p->out_shift) || !offset_in_range(p->a_offset) ||
        !offset_in_range(p->b_offset) || !int8_output(p->out_offset, p->act_min, p->act_max) ||
        !rows_of(q, views))
        return nullptr;
    q.a_offset = p->a_offset;
    q.b_offset = p->b_offset;
    q.out_offset = p->out_offset;
    q.act_min = p->act_min;
    q.act_max = p->act_max;
    made->run = variant.mul;
    made->params = &q;
    return made;
}

std::unique_ptr<Packed> as_it_is(nf_kernel_fn run, const nf_step &step)
{
    auto made = std::make_unique<Packed>();
    made->run = run;
    made->params = step.params;
    return made;
}

} // namespace

std::unique_ptr<Packed> pack_elementwise(const nf_simd_variant &variant, const std::string &kernel,
                                         const nf_step &step, const nf_view *views)
{
    if (kernel == "add_s8" && step.operand_count == 3)
        return pack_add(variant, step, views);
    if (kernel == "mul_s8" && step.operand_count == 3)
        return pack_mul(variant, step, views);
    if (kernel == "lut_8" && step.operand_count == 3)
        return as_it_is(variant.lut, step);
    if (kernel == "mean_s8" && step.operand_count == 2) {
        const auto *p = static_cast<const nf_params_mean_s8 *>(step.params);
        // few columns leave most lanes empty
        if (p->inner >= 8 && p->multiplier >= 0 && p->shift >= -31 && p->shift <= 31 &&
            int8_output(p->out_zero, INT8_MIN, INT8_MAX))
            return as_it_is(variant.mean, step);
    }
    if (kernel == "max_pool2d_s8" && step.operand_count == 2) {
        const auto *p = static_cast<const nf_params_max_pool2d_s8 *>(step.params);
        if (views[0].shape->sc == 1 && views[1].shape->sc == 1 &&
            int8_output(0, p->act_min, p->act_max))
            return as_it_is(variant.max_pool, step);
    }
    return nullptr;
}

} // namespace npuforge

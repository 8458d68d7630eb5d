#include "pack.h"

#include <stdexcept>

namespace npuforge {

namespace {

enum class Form { conv2d, depthwise, fully_connected };
enum class Scale { fixed, f32, f64 };

struct Family {
    const char *kernel;
    Form form;
    Scale scale;
};

constexpr Family kFamilies[] = {
    {"conv2d_s8", Form::conv2d, Scale::fixed},
    {"conv2d_s8_f32scale", Form::conv2d, Scale::f32},
    {"depthwise_conv2d_s8", Form::depthwise, Scale::fixed},
    {"depthwise_conv2d_s8_f32scale", Form::depthwise, Scale::f32},
    {"fully_connected_s8", Form::fully_connected, Scale::fixed},
    {"fully_connected_s8_f32scale", Form::fully_connected, Scale::f32},
    {"fully_connected_s8_f64scale", Form::fully_connected, Scale::f64},
};

bool dense(const nf_view &v, std::int64_t elements)
{
    const nf_shape &s = *v.shape;
    return static_cast<std::int64_t>(s.n) * s.h * s.w * s.c >= elements;
}

template <class T> std::vector<T> padded(const nf_view &v, std::int64_t count, std::size_t size)
{
    const T *data = reinterpret_cast<const T *>(v.data);
    std::vector<T> out(data, data + count);
    out.resize(size);
    return out;
}

template <class T> const T *pointer(const std::vector<T> &v)
{
    return v.empty() ? nullptr : v.data();
}

// [output][k] -> [output / block][k / group][block][group], zeros where there is nothing.
std::vector<std::int16_t> interleave(const std::int8_t *w, std::int64_t outputs, std::int64_t k,
                                     std::int64_t k_padded, std::int64_t block, std::int64_t group)
{
    const std::int64_t blocks = (outputs + block - 1) / block;
    std::vector<std::int16_t> out(static_cast<std::size_t>(blocks * block * k_padded));
    for (std::int64_t o = 0; o < outputs; ++o)
        for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t at =
                ((o / block * (k_padded / group) + i / group) * block + o % block) * group +
                i % group;
            out[static_cast<std::size_t>(at)] = w[o * k + i];
        }
    return out;
}

bool int8_range(std::int32_t offset, std::int32_t low, std::int32_t high)
{
    return offset >= -127 && offset <= 128 && low >= INT8_MIN && high <= INT8_MAX && low <= high;
}

} // namespace

std::vector<std::string> variant_names()
{
    std::vector<std::string> names;
#ifdef NF_SIMD_X86
    if (__builtin_cpu_supports("avx2"))
        names.emplace_back(nf_simd_avx2.name);
#endif
    names.emplace_back(kPortable);
    return names;
}

const nf_simd_variant *find_variant(const std::string &name)
{
    const auto names = variant_names();
    const std::string &wanted = name.empty() ? names.front() : name;
    for (const std::string &known : names)
        if (known == wanted) {
#ifdef NF_SIMD_X86
            if (known == nf_simd_avx2.name)
                return &nf_simd_avx2;
#endif
            return nullptr;
        }
    throw std::invalid_argument("this machine has no kernel variant " + wanted);
}

std::unique_ptr<Packed> pack(const nf_simd_variant &variant, const nf_kernel_entry &kernel,
                             const nf_step &step, const nf_view *views, const bool *constant)
{
    const Family *family = nullptr;
    for (const Family &known : kFamilies)
        if (std::string(known.kernel) == kernel.name)
            family = &known;
    if (!family)
        return nullptr;
    const int y = family->scale == Scale::fixed ? 5 : 4;
    if (step.operand_count != y + 1)
        return nullptr;
    for (int i = 1; i < y; ++i)
        if (!constant[i])
            return nullptr;

    const nf_shape &out = *views[y].shape, &in = *views[0].shape;
    std::int64_t k = 0, weight_count = 0;
    if (family->form == Form::fully_connected) {
        const auto *p = static_cast<const nf_params_fully_connected_s8 *>(step.params);
        if (p->weight_offset != 0 || !int8_range(p->in_offset, p->act_min, p->act_max))
            return nullptr;
        k = p->depth;
        weight_count = k * out.c;
    } else {
        const auto *p = static_cast<const nf_params_conv2d_s8 *>(step.params);
        if (!int8_range(p->in_offset, p->act_min, p->act_max) || in.sc != 1)
            return nullptr;
        const std::int64_t taps = static_cast<std::int64_t>(p->kernel_h) * p->kernel_w;
        if (family->form == Form::conv2d ? p->groups != 1 : in.c != out.c)
            return nullptr;
        k = family->form == Form::conv2d ? taps * in.c : out.c;
        weight_count = taps * (family->form == Form::conv2d ? in.c : 1) * out.c;
    }
    const std::int64_t block = 2 * variant.lanes;
    const auto rows = static_cast<std::size_t>((out.c + block - 1) / block * block);
    if (out.c <= 0 || k <= 0 || (out.sc != 1 && out.c > 1) || !dense(views[1], weight_count))
        return nullptr;
    for (int i = 2; i < y; ++i)
        if (!dense(views[i], out.c))
            return nullptr;

    auto made = std::make_unique<Packed>();
    nf_prepared &q = made->prepared;
    const auto *w = reinterpret_cast<const std::int8_t *>(views[1].data);
    q.params = step.params;
    q.y_operand = y;
    made->bias = padded<std::int32_t>(views[2], out.c, rows);
    if (family->scale == Scale::f32)
        made->scale = padded<float>(views[3], out.c, rows);
    else if (family->scale == Scale::f64)
        made->scale_wide = padded<double>(views[3], out.c, rows);
    else {
        made->multiplier = padded<std::int32_t>(views[3], out.c, rows);
        made->shift = padded<std::int32_t>(views[4], out.c, rows);
        for (std::int32_t multiplier : made->multiplier)
            if (multiplier < 0)
                return nullptr;
    }
    if (family->form == Form::depthwise) {
        q.k_padded = static_cast<std::int32_t>(rows);
        made->depthwise_weights.resize(static_cast<std::size_t>(weight_count / out.c) * rows);
        for (std::int64_t i = 0; i < weight_count; ++i) {
            const auto row = static_cast<std::size_t>(i / out.c);
            // the low half of the word is the factor, the high half must be zero
            made->depthwise_weights[row * rows + static_cast<std::size_t>(i % out.c)] =
                static_cast<std::uint16_t>(w[i]);
        }
        q.weights = made->depthwise_weights.data();
        made->run = variant.depthwise;
    } else {
        q.k_padded =
            static_cast<std::int32_t>((k + variant.group - 1) / variant.group * variant.group);
        made->weights = interleave(w, out.c, k, q.k_padded, block, variant.group);
        made->scratch_bytes =
            sizeof(std::int16_t) * NF_SIMD_PIXELS * static_cast<std::size_t>(q.k_padded);
        q.weights = made->weights.data();
        made->run = family->form == Form::conv2d ? variant.conv2d : variant.fully_connected;
    }
    q.bias = made->bias.data();
    q.multiplier = pointer(made->multiplier);
    q.shift = pointer(made->shift);
    q.scale = pointer(made->scale);
    q.scale_wide = pointer(made->scale_wide);
    return made;
}

} // namespace npuforge

#include "pack.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#ifdef NF_SIMD_X86
#include <cpuid.h>
#endif

namespace npuforge {

namespace {

enum class Form { conv2d, depthwise, fully_connected, transposed };
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
    {"transpose_conv2d_s8", Form::transposed, Scale::fixed},
    {"transpose_conv2d_s8_f32scale", Form::transposed, Scale::f32},
};

// What a band may hold beside weights in the second-level cache.
constexpr std::int64_t kBandBytes = 96 * 1024;

bool dense(const nf_view &v, std::int64_t elements)
{
    const nf_shape &s = *v.shape;
    return static_cast<std::int64_t>(s.n) * s.h * s.w * s.c >= elements;
}

template <class T> const T *pointer(const std::vector<T> &v)
{
    return v.empty() ? nullptr : v.data();
}

bool int8_range(std::int32_t offset, std::int32_t low, std::int32_t high)
{
    return offset >= -127 && offset <= 128 && low >= INT8_MIN && high <= INT8_MAX && low <= high;
}

// Where each output channel stands in the arrays of a kernel: nf_simd_variant.order by block.
class Lanes {
public:
    // `each` channels, `joined` times one after another.
    Lanes(const nf_simd_variant &variant, std::int64_t each, std::int64_t joined, bool half_tail)
        : Lanes(variant, each * joined, half_tail)
    {
        each_ = each;
    }

    std::int64_t block() const { return block_; }
    std::int64_t outputs() const { return outputs_; }
    std::int64_t padded() const { return blocks_ * block_; }
    // Which of the channels it is.
    std::int64_t channel(std::int64_t o) const { return o % each_; }
    // Channels of the block that holds o, and the place of o in it.
    std::int64_t width(std::int64_t o) const { return o < natural_from_ ? block_ : block_ / 2; }
    std::int64_t lane(std::int64_t o) const
    {
        const std::int64_t within = o % block_;
        return o < natural_from_ ? inverse_[static_cast<std::size_t>(within)] : within;
    }
    std::int64_t at(std::int64_t o) const { return o / block_ * block_ + lane(o); }

    template <class T> std::vector<T> spread(const nf_view &v, T rest = T()) const
    {
        const T *data = reinterpret_cast<const T *>(v.data);
        std::vector<T> out(static_cast<std::size_t>(padded() + block_), rest);
        for (std::int64_t o = 0; o < outputs_; ++o)
            out[static_cast<std::size_t>(at(o))] = data[channel(o)];
        return out;
    }

private:
    Lanes(const nf_simd_variant &variant, std::int64_t outputs, bool half_tail)
        : block_(2 * variant.lanes), outputs_(outputs),
          blocks_((outputs + block_ - 1) / block_), inverse_(static_cast<std::size_t>(block_)),
          natural_from_(half_tail && outputs - (blocks_ - 1) * block_ <= variant.lanes
                            ? (blocks_ - 1) * block_
                            : outputs)
    {
        for (std::int64_t lane = 0; lane < block_; ++lane)
            inverse_[static_cast<std::size_t>(variant.order[lane])] = lane;
    }

    std::int64_t block_, outputs_, blocks_, each_ = 0;
    std::vector<std::int64_t> inverse_;
    std::int64_t natural_from_;
};

// A weight by output channel, row, column and depth of the window.
struct Weights {
    const std::int8_t *data;
    std::int64_t output, row, column, depth; // distances
    std::int64_t rows, columns, depths;      // counts; depthwise: depth 1
    std::int8_t at(std::int64_t o, std::int64_t ky, std::int64_t kx, std::int64_t i) const
    {
        return data[o * output + ky * row + kx * column + i * depth];
    }
    // Of f(weight), over the weights of an output channel.
    template <class F> std::int64_t sum(std::int64_t o, F f) const
    {
        std::int64_t sum = 0;
        for (std::int64_t ky = 0; ky < rows; ++ky)
            for (std::int64_t kx = 0; kx < columns; ++kx)
                for (std::int64_t i = 0; i < depths; ++i)
                    sum += f(at(o, ky, kx, i));
        return sum;
    }
};

// The largest magnitude that an accumulator can reach.
std::int64_t reach(const Weights &w, std::int64_t outputs, const std::int32_t *bias,
                   std::int32_t in_offset)
{
    const std::int64_t x = std::max(std::abs(in_offset + INT8_MIN), std::abs(in_offset + INT8_MAX));
    std::int64_t most = 0;
    for (std::int64_t o = 0; o < outputs; ++o)
        most = std::max(most, w.sum(o, [](int v) { return std::abs(v); }) * x +
                                  std::abs(static_cast<std::int64_t>(bias[o])));
    return most;
}

// Multipliers and shifts as the kernel wants them; false when they leave the arithmetic it knows.
bool pack_rescale(Packed &made, Scale scale, const nf_view *views, const Lanes &lanes,
                  std::int64_t most, bool of_bytes)
{
    nf_prepared &q = made.prepared;
    made.bias = lanes.spread<std::int32_t>(views[2]);
    if (scale == Scale::f32) {
        q.rescale = NF_SIMD_F32;
        made.scale = lanes.spread<float>(views[3]);
        return true;
    }
    if (scale == Scale::f64) {
        q.rescale = NF_SIMD_F64;
        made.scale_wide = lanes.spread<double>(views[3]);
        return true;
    }
    made.multiplier = lanes.spread<std::int32_t>(views[3]);
    made.shift = lanes.spread<std::int32_t>(views[4]);
    bool right = most < (std::int64_t(1) << 30);
    for (std::int64_t o = 0; o < lanes.outputs(); ++o) {
        const auto at = static_cast<std::size_t>(lanes.at(o));
        if (made.multiplier[at] < 0 || made.shift[at] < -31 || made.shift[at] > 31)
            return false;
        if (made.multiplier[at] == 0)
            made.shift[at] = -1; // zero whatever the shift
        right = right && made.shift[at] < 0 && made.shift[at] > -31;
    }
    q.rescale = right ? NF_SIMD_FIXED_RIGHT : NF_SIMD_FIXED;
    if (!right)
        return true;
    made.round.resize(made.shift.size());
    for (std::size_t i = 0; i < made.shift.size(); ++i) {
        made.shift[i] = made.shift[i] < 0 ? -made.shift[i] : 1;
        made.round[i] = std::int32_t(1) << (made.shift[i] - 1);
        made.bias[i] *= of_bytes ? 1 : 2;
    }
    return true;
}

// [block][run][step][channel][group]; see nf_simd_variant.
template <class T>
void pack_products(std::vector<T> &packed, const nf_prepared &q, const Weights &w,
                   const Lanes &lanes, std::int64_t factor, bool one_run_a_row)
{
    const std::int64_t block = lanes.block(), group = 4 / sizeof(T);
    const std::int64_t steps = static_cast<std::int64_t>(q.run_count) * q.run_steps;
    packed.assign(static_cast<std::size_t>(lanes.padded() * steps * group), 0);
    for (std::int64_t o = 0; o < lanes.outputs(); ++o) {
        const std::int64_t start = o / block * block * steps * group;
        for (std::int64_t ky = 0; ky < w.rows; ++ky)
            for (std::int64_t kx = 0; kx < w.columns; ++kx)
                for (std::int64_t i = 0; i < w.depths; ++i) {
                    const std::int64_t run = one_run_a_row ? ky : ky * w.columns + kx;
                    const std::int64_t k = one_run_a_row ? kx * w.depths + i : i;
                    const std::int64_t step = run * q.run_steps + k / group;
                    const std::int64_t at =
                        start + (step * lanes.width(o) + lanes.lane(o)) * group + k % group;
                    packed[static_cast<std::size_t>(at)] =
                        static_cast<T>(factor * w.at(o, ky, kx, i));
                }
    }
}

// Products of bytes take x + 128 in the place of x + in_offset, modulo 2^32.
void take_back(Packed &made, const Weights &w, const Lanes &lanes)
{
    for (std::int64_t o = 0; o < lanes.outputs(); ++o) {
        std::int32_t &bias = made.bias[static_cast<std::size_t>(lanes.at(o))];
        const std::int64_t extra =
            (made.prepared.window.in_offset - 128) * w.sum(o, [](int v) { return v; });
        bias = static_cast<std::int32_t>(static_cast<std::uint32_t>(bias + extra));
    }
}

// [block][pair of taps][channel][2]
void pack_channels(Packed &made, const Weights &w, const Lanes &lanes)
{
    const nf_prepared &q = made.prepared;
    const std::int64_t block = lanes.block(), factor = q.rescale == NF_SIMD_FIXED_RIGHT ? 2 : 1;
    made.words.assign(static_cast<std::size_t>(lanes.padded() * q.run_count), 0);
    for (std::int64_t o = 0; o < lanes.outputs(); ++o)
        for (std::int64_t tap = 0; tap < w.rows * w.columns; ++tap) {
            const std::int64_t at = o / block * block * q.run_count +
                                    (tap / 2 * block + lanes.lane(o)) * 2 + tap % 2;
            made.words[static_cast<std::size_t>(at)] = static_cast<std::int16_t>(
                factor * w.at(lanes.channel(o), tap / w.columns, tap % w.columns, 0));
        }
}

// Neighbours in a row whose channels together leave the fewest places of a block empty. Their inputs
// and outputs have to lie side by side.
std::int32_t joined(const nf_prepared &q, std::int32_t block)
{
    if (q.window.stride_w != 1 || (q.y.sw != q.y.c && q.y.w > 1))
        return 1;
    auto share = [&](std::int32_t pixels) {
        const std::int64_t channels = std::int64_t(pixels) * q.y.c;
        return double(channels) / double((channels + block - 1) / block * block);
    };
    std::int32_t best = 1;
    for (const std::int32_t pixels : {2, 4, 8, 16})
        if (pixels <= q.columns && share(pixels) > share(best))
            best = pixels;
    return best;
}

// The block of outputs made from one band, the band's layout and the runs in it.
void lay_out(Packed &made, const nf_simd_variant &variant, Form form)
{
    nf_prepared &q = made.prepared;
    const nf_params_conv2d_s8 &p = q.window;
    const std::int32_t depth = q.x.c * q.repeat;
    const std::int32_t height = q.y.y1 - q.y.y0, width = q.y.x1 - q.y.x0;
    const std::int32_t group = form == Form::depthwise ? 2 : variant.group, size = 4 / group;
    q.columns = std::max(std::min(width, NF_SIMD_PIXELS), 1);
    // rows between those that a strided window reads would be converted for nothing
    const bool gaps = p.stride_h > (p.kernel_h - 1) * p.dilation_h + 1;
    q.rows = gaps ? 1 : std::max(std::min(height, NF_SIMD_PIXELS / q.columns), 1);
    auto pitch = [&] {
        return nf_simd_span(q.columns, p.stride_w, p.kernel_w, p.dilation_w) * depth;
    };
    auto bytes = [&] {
        return std::int64_t(nf_simd_span(q.rows, p.stride_h, p.kernel_h, p.dilation_h)) * pitch() *
               size;
    };
    while (q.rows > 1 && bytes() > kBandBytes)
        q.rows = (q.rows + 1) / 2;
    while (q.columns > 16 && bytes() > kBandBytes)
        q.columns = (q.columns + 1) / 2;
    q.pitch = pitch();
    made.scratch_bytes = static_cast<std::size_t>(bytes() + 8 * variant.lanes + 4);
    const bool one_run_a_row = form == Form::conv2d && p.dilation_w == 1;
    for (std::int32_t ky = 0; ky < p.kernel_h; ++ky)
        for (std::int32_t kx = 0; kx < (one_run_a_row ? 1 : p.kernel_w); ++kx)
            made.runs.push_back(ky * p.dilation_h * q.pitch + kx * p.dilation_w * depth);
    if (form == Form::depthwise && made.runs.size() % 2)
        made.runs.push_back(made.runs.back());
    q.run_count = static_cast<std::int32_t>(made.runs.size());
    const std::int32_t length = one_run_a_row ? p.kernel_w * depth : depth;
    q.run_steps = (length + group - 1) / group;
}

// Everything that follows from the window, the shapes and the weights; false as pack_rescale.
bool complete(Packed &made, const nf_simd_variant &variant, Form form, Scale scale,
              const Weights &w, const nf_view *views)
{
    nf_prepared &q = made.prepared;
    const std::int64_t outputs = q.y.c;
    lay_out(made, variant, form);
    q.joined = form == Form::depthwise ? joined(q, 2 * variant.lanes) : 1;
    const Lanes lanes(variant, outputs, q.joined, form == Form::conv2d);
    const auto *bias = reinterpret_cast<const std::int32_t *>(views[2].data);
    const bool of_bytes = variant.group == 4 && form != Form::depthwise;
    if (!pack_rescale(made, scale, views, lanes, reach(w, outputs, bias, q.window.in_offset),
                      of_bytes))
        return false;
    if (of_bytes)
        take_back(made, w, lanes);
    q.weights = w.data;
    if (form == Form::conv2d) {
        const bool one_run_a_row = q.window.dilation_w == 1;
        const std::int64_t factor = q.rescale == NF_SIMD_FIXED_RIGHT ? 2 : 1;
        if (of_bytes)
            pack_products(made.bytes, q, w, lanes, 1, one_run_a_row);
        else
            pack_products(made.words, q, w, lanes, factor, one_run_a_row);
        made.run = variant.conv2d;
    } else if (form == Form::depthwise) {
        pack_channels(made, w, lanes);
        made.run = variant.depthwise;
    } else {
        made.run = variant.lone_product;
    }
    if (!made.words.empty())
        q.weights = made.words.data();
    if (!made.bytes.empty())
        q.weights = made.bytes.data();
    q.bias = made.bias.data();
    q.runs = made.runs.data();
    q.multiplier = pointer(made.multiplier);
    q.shift = pointer(made.shift);
    q.round = pointer(made.round);
    q.scale = pointer(made.scale);
    q.scale_wide = pointer(made.scale_wide);
    made.params = &q;
    return true;
}

// The taps of a transposed window that reach the outputs first, first + stride, ...: an ordinary
// window that walks the input one by one, over the kernel backwards.
struct Phase {
    std::int32_t outputs, taps, last_tap, pad;
    Phase(std::int32_t first, std::int32_t size, std::int32_t kernel, std::int32_t stride,
          std::int32_t padding)
        : outputs((size - first + stride - 1) / stride), taps(0), last_tap(0), pad(0)
    {
        for (std::int32_t k = 0; k < kernel; ++k)
            if ((first + padding - k) % stride == 0) {
                ++taps;
                last_tap = k;
                pad = -((first + padding - k) / stride);
            }
    }
};

std::unique_ptr<Packed> pack_transposed(const nf_simd_variant &variant, Scale scale,
                                        const nf_step &step, const nf_view *views, int y_operand)
{
    const auto *p = static_cast<const nf_params_transpose_conv2d_s8 *>(step.params);
    const nf_shape &in = *views[0].shape, &out = *views[y_operand].shape;
    const std::int64_t per_output = static_cast<std::int64_t>(p->kernel_h) * p->kernel_w * in.c;
    if (!int8_range(p->in_offset, p->act_min, p->act_max) || out.c <= 0 || in.c <= 0 ||
        in.sc != 1 || (out.sc != 1 && out.c > 1) || p->kernel_h <= 0 || p->kernel_w <= 0 ||
        p->stride_h <= 0 || p->stride_w <= 0 || out.y0 != 0 || out.x0 != 0 || out.y1 != out.h ||
        out.x1 != out.w || !dense(views[1], per_output * out.c))
        return nullptr;
    auto made = std::make_unique<Packed>();
    for (std::int32_t py = 0; py < std::min(p->stride_h, out.h); ++py)
        for (std::int32_t px = 0; px < std::min(p->stride_w, out.w); ++px) {
            const Phase rows(py, out.h, p->kernel_h, p->stride_h, p->pad_top);
            const Phase columns(px, out.w, p->kernel_w, p->stride_w, p->pad_left);
            auto part = std::make_unique<Packed>();
            nf_prepared &q = part->prepared;
            q.y_operand = y_operand;
            q.repeat = 1;
            q.x = in;
            q.y = {out.n, rows.outputs, columns.outputs, out.c, out.sn, out.sh * p->stride_h,
                   out.sw * p->stride_w, 1, 0, rows.outputs, 0, columns.outputs, 0};
            q.y_offset = static_cast<std::ptrdiff_t>(py) * out.sh +
                         static_cast<std::ptrdiff_t>(px) * out.sw;
            q.window = {std::max(rows.taps, 1), std::max(columns.taps, 1), 1, 1, 1, 1, rows.pad,
                        columns.pad, p->in_offset, p->out_offset, p->act_min, p->act_max, 1};
            const std::int64_t row = static_cast<std::int64_t>(p->kernel_w) * in.c;
            const Weights w = {reinterpret_cast<const std::int8_t *>(views[1].data) +
                                   rows.last_tap * row + columns.last_tap * in.c,
                               per_output, -p->stride_h * row, -p->stride_w * in.c, 1,
                               rows.taps, columns.taps, in.c};
            if (!complete(*part, variant, Form::conv2d, scale, w, views))
                return nullptr;
            made->scratch_bytes = std::max(made->scratch_bytes, part->scratch_bytes);
            made->part_list.push_back(&part->prepared);
            made->parts.push_back(std::move(part));
        }
    made->joint = {made->part_list.data(), static_cast<std::int32_t>(made->part_list.size())};
    made->params = &made->joint;
    made->run = variant.transposed;
    return made;
}

std::vector<const nf_simd_variant *> added;

// Variants of the build that this processor and its system can run, the preferred one first.
std::vector<const nf_simd_variant *> present()
{
    std::vector<const nf_simd_variant *> found;
#ifdef NF_SIMD_X86
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
    if (wide && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi"))
        found.push_back(&nf_simd_avx512_vbmi);
    if (wide && __builtin_cpu_supports("avx512vnni"))
        found.push_back(&nf_simd_avx512_vnni);
    if (wide)
        found.push_back(&nf_simd_avx512);
    if (__builtin_cpu_supports("avx2")) {
#ifdef NF_SIMD_AVX_VNNI
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1))
            found.push_back(&nf_simd_avx_vnni);
#endif
        found.push_back(&nf_simd_avx2);
    }
#endif
    return found;
}

} // namespace

std::vector<std::string> variant_names()
{
    std::vector<std::string> names;
    for (const nf_simd_variant *variant : present())
        names.emplace_back(variant->name);
    names.emplace_back(kPortable);
    for (const nf_simd_variant *variant : added)
        names.emplace_back(variant->name);
    return names;
}

const nf_simd_variant *find_variant(const std::string &name)
{
    const std::string wanted = name.empty() ? variant_names().front() : name;
    for (const nf_simd_variant *variant : present())
        if (wanted == variant->name)
            return variant;
    for (const nf_simd_variant *variant : added)
        if (wanted == variant->name)
            return variant;
    if (wanted != kPortable)
        throw std::invalid_argument("this machine has no kernel variant " + wanted);
    return nullptr;
}

void add_variant(const nf_simd_variant *variant)
{
    added.push_back(variant);
}

std::unique_ptr<Packed> pack(const nf_simd_variant &variant, const nf_kernel_entry &kernel,
                             const nf_step &step, const nf_view *views, const bool *constant)
{
    const Family *family = nullptr;
    for (const Family &known : kFamilies)
        if (std::string(known.kernel) == kernel.name)
            family = &known;
    if (!family)
        return pack_elementwise(variant, kernel.name, step, views);
    const int y = family->scale == Scale::fixed ? 5 : 4;
    if (step.operand_count != y + 1)
        return nullptr;
    for (int i = 1; i < y; ++i)
        if (!constant[i])
            return nullptr;

    for (int i = 2; i < y; ++i)
        if (!dense(views[i], views[y].shape->c))
            return nullptr;
    if (family->form == Form::transposed)
        return pack_transposed(variant, family->scale, step, views, y);

    auto made = std::make_unique<Packed>();
    nf_prepared &q = made->prepared;
    q.y_operand = y;
    q.repeat = 1;
    q.x = *views[0].shape;
    q.y = *views[y].shape;
    Form form = family->form;
    if (form == Form::fully_connected) {
        const auto *p = static_cast<const nf_params_fully_connected_s8 *>(step.params);
        if (p->weight_offset != 0 || p->rows <= 0 || p->depth <= 0)
            return nullptr;
        const std::int32_t outputs = q.y.c;
        q.x = {1, 1, p->rows, p->depth, 0, 0, p->depth, 1, 0, 1, 0, p->rows, 0};
        q.y = {1, 1, p->rows, outputs, 0, 0, outputs, 1, 0, 1, 0, p->rows, 0};
        q.window = {1, 1, 1, 1, 1, 1, 0, 0, p->in_offset, p->out_offset,
                    p->act_min, p->act_max, 1};
        if (p->rows > 1)
            form = Form::conv2d;
    } else {
        q.window = *static_cast<const nf_params_conv2d_s8 *>(step.params);
    }
    const nf_params_conv2d_s8 &p = q.window;
    const std::int64_t outputs = q.y.c, taps = static_cast<std::int64_t>(p.kernel_h) * p.kernel_w;
    if (!int8_range(p.in_offset, p.act_min, p.act_max) || outputs <= 0 || q.x.c <= 0 ||
        q.x.sc != 1 || (q.y.sc != 1 && outputs > 1) || taps <= 0)
        return nullptr;

    Weights w = {reinterpret_cast<const std::int8_t *>(views[1].data), 0, 0, 0, 1,
                 p.kernel_h, p.kernel_w, q.x.c};
    if (form == Form::depthwise) {
        if (outputs % q.x.c)
            return nullptr;
        w = {w.data, 1, p.kernel_w * outputs, outputs, 0, p.kernel_h, p.kernel_w, 1};
        q.repeat = static_cast<std::int32_t>(outputs / q.x.c);
        if (q.x.c == 1) { // every output sees the one channel: a convolution
            form = Form::conv2d;
            q.repeat = 1;
        }
    } else {
        if (p.groups != 1)
            return nullptr;
        w.column = w.depths;
        w.row = w.columns * w.column;
        w.output = w.rows * w.row;
    }
    if (!dense(views[1], taps * w.depths * outputs))
        return nullptr;
    if (!complete(*made, variant, form, family->scale, w, views))
        return nullptr;
    return made;
}

} // namespace npuforge

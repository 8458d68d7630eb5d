// Python binding of a Neural-ART convolution: packed once, run on many maps.
#include "bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

extern "C" {
#include "layer.h"
}

namespace nb = nanobind;

namespace {

using Ints32 = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ints64 = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const std::int16_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Map = nb::ndarray<const std::int16_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<std::int8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Counts = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int32_t>;

na_run_fn *fastest()
{
#ifdef NA_AVX2
    if (__builtin_cpu_supports("avx2"))
        return na_run_avx2;
#endif
    return na_run_portable;
}

void require(bool holds, const char *what)
{
    if (!holds)
        throw std::invalid_argument(what);
}

class Convolution {
public:
    // geometry: map height, width, channels, out height, width, stride, dilation (rows, columns)
    // stages: outshift, two stages, wide, gain shift, global gain, global shift, low, high
    Convolution(Weights weights, bool depthwise, Ints32 geometry, Ints32 parts, Ints32 slices,
                std::int32_t passes, Ints32 stages, Ints32 gain, Ints64 offset, bool portable)
        : parts_(parts.data(), parts.data() + parts.shape(0)),
          slices_(slices.data(), slices.data() + slices.shape(0)),
          gain_(gain.data(), gain.data() + gain.shape(0)),
          offset_(offset.data(), offset.data() + offset.shape(0)),
          narrow_(offset_.begin(), offset_.end()),
          run_(portable ? na_run_portable : fastest())
    {
        require(geometry.shape(0) == 9 && stages.shape(0) == 8, "geometry or stages");
        require(parts_.size() % 4 == 0 && !parts_.empty(), "parts");
        const std::int32_t *g = geometry.data(), *s = stages.data();
        q_ = {};
        q_.height = g[0], q_.width = g[1], q_.channels = g[2];
        q_.out_height = g[3], q_.out_width = g[4];
        q_.stride_y = g[5], q_.stride_x = g[6], q_.dilation_y = g[7], q_.dilation_x = g[8];
        q_.outputs = static_cast<std::int32_t>(weights.shape(depthwise ? 3 : 0));
        q_.kernel_height = static_cast<std::int32_t>(weights.shape(1));
        q_.kernel_width = static_cast<std::int32_t>(weights.shape(2));
        q_.depthwise = depthwise;
        q_.parts = static_cast<std::int32_t>(parts_.size() / 4);
        q_.passes = passes;
        require(passes > 0 && slices_.size() > 1 && (slices_.size() - 1) % passes == 0, "slices");
        q_.links = static_cast<std::int32_t>(slices_.size() - 1) / passes;
        q_.outshift = s[0], q_.two_stage = s[1], q_.wide = s[2], q_.gain_shift = s[3];
        q_.global_gain = s[4], q_.global_shift = s[5], q_.low = s[6], q_.high = s[7];
        check(weights);
        pack(weights);
    }

    Counts run(Map x, Result y)
    {
        require(x.shape(0) == size_t(q_.height) && x.shape(1) == size_t(q_.width) &&
                    x.shape(2) == size_t(q_.channels),
                "map");
        require(y.shape(0) == size_t(q_.out_height) && y.shape(1) == size_t(q_.out_width) &&
                    y.shape(2) == size_t(q_.outputs),
                "result");
        const std::size_t padded =
            (std::size_t(q_.outputs) + NA_LANES - 1) / NA_LANES * NA_LANES;
        std::vector<std::int16_t> patches(std::size_t(NA_BLOCK) * largest_);
        std::vector<std::int32_t> sums(NA_BLOCK * padded), running(sums), total(sums);
        na_counts counts = {};
        bind();
        const std::int16_t *in = x.data();
        std::int8_t *out = y.data();
        nb::gil_scoped_release release;
        run_(&q_, in, out, patches.data(), sums.data(), running.data(), total.data(), &counts);
        return {counts.shift, counts.gain, counts.output, counts.largest};
    }

private:
    void bind()
    {
        q_.part = parts_.data();
        q_.slice = slices_.data();
        q_.weights = weights_.data();
        q_.gain = gain_.data();
        q_.offset = offset_.data();
        q_.narrow = narrow_.data();
    }

    // Everything the loops index with, so that no call can leave the arrays.
    void check(const Weights &weights) const
    {
        const auto outputs = std::size_t(q_.outputs);
        require(gain_.size() == outputs && offset_.size() == outputs, "gain or offset");
        require(std::min({q_.height, q_.width, q_.channels, q_.out_height, q_.out_width,
                          q_.stride_y, q_.stride_x, q_.dilation_y, q_.dilation_x}) > 0,
                "geometry");
        require((q_.out_height - 1) * q_.stride_y + (q_.kernel_height - 1) * q_.dilation_y <
                        q_.height &&
                    (q_.out_width - 1) * q_.stride_x + (q_.kernel_width - 1) * q_.dilation_x <
                        q_.width,
                "the kernel leaves the map");
        require(q_.depthwise ? q_.channels == q_.outputs && weights.shape(0) == 1
                             : weights.shape(3) == std::size_t(q_.channels),
                "channels");
        for (std::size_t n = 0; n < parts_.size(); n += 4)
            require(parts_[n] >= 0 && parts_[n + 1] > 0 &&
                        parts_[n] + parts_[n + 1] <= q_.kernel_height && parts_[n + 2] >= 0 &&
                        parts_[n + 3] > 0 && parts_[n + 2] + parts_[n + 3] <= q_.kernel_width,
                    "a part leaves the kernel");
        require(slices_.front() >= 0 && slices_.back() <= q_.channels &&
                    std::is_sorted(slices_.begin(), slices_.end()),
                "slices leave the channels");
        require(q_.outshift >= 0 && q_.outshift < 31, "outshift");
        require(q_.wide || (q_.gain_shift > 0 && q_.gain_shift < 31 &&
                            (!q_.two_stage || (q_.global_shift > 0 && q_.global_shift < 31))),
                "shifts of a narrow layer");
    }

    void pack(const Weights &weights)
    {
        if (q_.depthwise) {
            weights_.assign(weights.data(), weights.data() + weights.size());
            return;
        }
        const std::size_t blocks = (std::size_t(q_.outputs) + NA_LANES - 1) / NA_LANES;
        const std::int16_t *w = weights.data();
        for (std::size_t n = 0; n < parts_.size(); n += 4) {
            const std::int32_t *part = parts_.data() + n;
            for (std::size_t k = 0; k + 1 < slices_.size(); ++k) {
                const std::int32_t from = slices_[k], span = slices_[k + 1] - from;
                const std::size_t size = std::size_t(part[1]) * part[3] * span;
                const std::size_t pairs = (size + 1) / 2, start = weights_.size();
                largest_ = std::max(largest_, pairs * 2);
                weights_.resize(start + blocks * pairs * NA_LANES * 2, 0);
                for (std::int32_t o = 0; o < q_.outputs; ++o) {
                    std::int16_t *to = weights_.data() + start +
                                       o / NA_LANES * pairs * NA_LANES * 2 + o % NA_LANES * 2;
                    std::size_t at = 0;
                    for (std::int32_t i = part[0]; i < part[0] + part[1]; ++i)
                        for (std::int32_t j = part[2]; j < part[2] + part[3]; ++j)
                            for (std::int32_t c = from; c < from + span; ++c, ++at)
                                to[at / 2 * NA_LANES * 2 + at % 2] =
                                    w[((std::size_t(o) * q_.kernel_height + i) * q_.kernel_width +
                                       j) * q_.channels + c];
                }
            }
        }
    }

    na_layer q_;
    std::vector<std::int32_t> parts_, slices_, gain_;
    std::vector<std::int64_t> offset_;
    std::vector<std::int32_t> narrow_;
    std::vector<std::int16_t> weights_;
    std::size_t largest_ = 1;
    na_run_fn *run_;
};

} // namespace

void bind_neural_art(nb::module_ &m)
{
    nb::class_<Convolution>(m, "NeuralArtConvolution")
        .def(nb::init<Weights, bool, Ints32, Ints32, Ints32, std::int32_t, Ints32, Ints32, Ints64,
                      bool>(),
             nb::arg("weights"), nb::arg("depthwise"), nb::arg("geometry"), nb::arg("parts"),
             nb::arg("slices"), nb::arg("passes"), nb::arg("stages"), nb::arg("gain"),
             nb::arg("offset"), nb::arg("portable") = false)
        .def("run", &Convolution::run, nb::arg("x"), nb::arg("y"),
             "Fill y; returns sums at a limit, intermediates and results that were limited, and the "
             "largest magnitude of a sum.");
}

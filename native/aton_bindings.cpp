// Python bindings of the Neural-ART simulator's hot loops.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#include "aton/units.h"

namespace nb = nanobind;

namespace {

template <typename T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ints = Array<const std::int32_t>;
using Longs = Array<const std::int64_t>;

void require(bool sound, const char *what)
{
    if (!sound)
        throw std::invalid_argument(what);
}

au_frame frame_of(const Longs &shape, std::size_t memory, const Longs &starts, std::size_t values)
{
    require(shape.shape(0) == 7, "frame");
    const std::int64_t *s = shape.data();
    const au_frame frame = {s[0], s[1], s[2], s[3], s[4], static_cast<int>(s[5]),
                            static_cast<int>(s[6])};
    require(frame.rows > 0 && frame.columns > 0 && frame.depth > 0, "frame");
    require(frame.size >= 1 && frame.size <= 3 && frame.line >= 0 && frame.pixel >= 0, "frame");
    const std::int64_t last = (frame.rows - 1) * frame.line + (frame.columns - 1) * frame.pixel +
                              frame.depth * frame.size;
    for (std::size_t k = 0; k < starts.shape(0); ++k)
        require(starts.data()[k] >= 0 &&
                    starts.data()[k] + last <= static_cast<std::int64_t>(memory),
                "address");
    require(values == starts.shape(0) * static_cast<std::size_t>(frame.rows * frame.columns *
                                                                 frame.depth),
            "values");
    return frame;
}

std::int64_t gather(Array<const std::uint8_t> data, Array<const std::uint8_t> written,
                    Longs starts, Longs shape, bool check, Array<std::int32_t> out)
{
    require(written.shape(0) == data.shape(0), "written");
    const au_frame frame = frame_of(shape, data.shape(0), starts, out.shape(0));
    return au_gather(data.data(), check ? written.data() : nullptr, starts.data(),
                     static_cast<std::int64_t>(starts.shape(0)), &frame, out.data());
}

void scatter(Array<std::uint8_t> data, Array<std::uint8_t> written, Longs starts, Longs shape,
             Ints values)
{
    require(written.shape(0) == data.shape(0), "written");
    const au_frame frame = frame_of(shape, data.shape(0), starts, values.shape(0));
    au_scatter(data.data(), written.data(), starts.data(),
               static_cast<std::int64_t>(starts.shape(0)), &frame, values.data());
}

void convolve(Array<const std::int16_t> x, Ints index, Array<const std::int16_t> weights,
              Longs shape, Array<std::int32_t> out)
{
    require(shape.shape(0) == 8, "shape");
    const std::int64_t *s = shape.data();
    const au_shape form = {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]};
    require(form.kernel_height > 0 && form.kernel_width > 0 && form.batch > 0 && form.down > 0 &&
                form.across > 0 && form.height >= form.kernel_height &&
                form.width >= form.kernel_width && form.kernels > 0 &&
                form.kernels <= AU_MAX_KERNELS,
            "shape");
    const std::int64_t frame = form.height * form.width * form.batch;
    const std::int64_t kernel =
        form.kernels * form.kernel_height * form.kernel_width * form.batch;
    const std::int64_t rows = (form.height - form.kernel_height) / form.down + 1;
    const std::int64_t columns = (form.width - form.kernel_width) / form.across + 1;
    const auto frames = static_cast<std::int64_t>(index.shape(0));
    const std::int64_t held = (static_cast<std::int64_t>(x.shape(0)) - 1) / frame;
    for (std::int64_t j = 0; j < frames; ++j)
        require(index.data()[j] >= 0 && index.data()[j] < held, "index");
    require(static_cast<std::int64_t>(weights.shape(0)) == frames * kernel, "weights");
    require(static_cast<std::int64_t>(out.shape(0)) == frames * rows * columns * form.kernels,
            "out");
    std::vector<std::int16_t> scratch(static_cast<std::size_t>(
        form.kernel_height * (form.kernel_width * form.batch + 1) * (form.kernels + 8)));
    au_convolve(x.data(), index.data(), weights.data(), frames, &form, scratch.data(), out.data());
}

std::int64_t requantise(Ints sums, nb::object carry, int in_shift, int out_shift, bool round,
                        int limit, int bits, Array<std::int32_t> out)
{
    require(out.shape(0) == sums.shape(0), "out");
    require(in_shift >= 0 && in_shift <= 38 && out_shift >= 0 && out_shift <= 62, "shift");
    require(bits == 8 || bits == 16 || bits == 24, "bits");
    const std::int32_t *more = nullptr;
    if (!carry.is_none()) {
        const Ints held = nb::cast<Ints>(carry);
        require(held.shape(0) == sums.shape(0), "carry");
        more = held.data();
    }
    return au_requantise(sums.data(), more, static_cast<std::int64_t>(sums.shape(0)), in_shift,
                         out_shift, round, limit, bits, out.data());
}

std::int64_t arith(Ints x, nb::object y, Ints params, Ints table, Array<std::int32_t> out)
{
    require(params.shape(0) == 28, "params");
    require(table.shape(0) == 512 * 3, "table");
    require(out.shape(0) == x.shape(0), "out");
    const std::int32_t *v = params.data();
    const au_arith_params p = {v[0],  v[1],  v[2],  v[3],  v[4],  v[5],  v[6],
                               v[7],  v[8],  v[9],  v[10], v[11], v[12], v[13],
                               v[14], v[15], v[16], v[17], v[18], v[19],
                               {v[20], v[21], v[22], v[23]}, {v[24], v[25], v[26], v[27]}};
    for (const std::int32_t bytes : {p.x_bytes, p.y_bytes, p.bytes})
        require(bytes >= 1 && bytes <= 3, "bytes");
    for (const std::int32_t shift : {p.ax, p.by, p.cs})
        require(shift >= 0 && shift <= 31, "shift");
    require(p.res >= 0 && p.res <= 62, "shift");
    for (const std::int32_t every : p.every)
        require(every >= 0, "counter");
    const std::int32_t *second = nullptr;
    if (!y.is_none()) {
        const Ints held = nb::cast<Ints>(y);
        require(held.shape(0) == x.shape(0), "y");
        second = held.data();
    }
    require(p.operation == 0 || (p.operation == 7 && second != nullptr), "operation");
    return au_arith(x.data(), second, static_cast<std::int64_t>(x.shape(0)), &p, table.data(),
                    out.data());
}

} // namespace

void bind_aton(nb::module_ &m)
{

    m.def("aton_gather", &gather, nb::arg("data"), nb::arg("written"), nb::arg("starts"),
            nb::arg("shape"), nb::arg("check"), nb::arg("out"));
    m.def("aton_scatter", &scatter, nb::arg("data"), nb::arg("written"), nb::arg("starts"),
            nb::arg("shape"), nb::arg("values"));
    m.def("aton_convolve", &convolve, nb::arg("x"), nb::arg("index"), nb::arg("weights"),
            nb::arg("shape"), nb::arg("out"));
    m.def("aton_requantise", &requantise, nb::arg("sums"), nb::arg("carry").none(),
            nb::arg("in_shift"), nb::arg("out_shift"), nb::arg("round"), nb::arg("limit"),
            nb::arg("bits"), nb::arg("out"));
    m.def("aton_arith", &arith, nb::arg("x"), nb::arg("y").none(), nb::arg("params"),
            nb::arg("table"), nb::arg("out"));
}

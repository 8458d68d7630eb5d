// Counting values in bins: what calibration does with every activation.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

using Reals = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Counts finite values other than zero in bins of one width, whose inverse is a power of two, so that
// the product is exact. What lies outside of the bins is counted in the outermost ones. Returns the
// number of zeros.
static std::int64_t count_bins(Reals values, double inverse, std::int64_t first, Counts counts)
{
    const float *x = values.data();
    std::int64_t *bins = counts.data();
    const double last = static_cast<double>(counts.shape(0)) - 1;
    const double begin = static_cast<double>(first);
    std::int64_t zeros = 0;
    if (counts.shape(0) == 0)
        throw nb::value_error("no bins");
    for (std::size_t i = 0; i < values.shape(0); ++i) {
        if (x[i] == 0.0f) {
            ++zeros;
            continue;
        }
        const double bin = std::floor(static_cast<double>(x[i]) * inverse) - begin;
        // a value that is no number fails both comparisons
        ++bins[static_cast<std::size_t>(bin > 0 ? (bin < last ? bin : last) : 0)];
    }
    return zeros;
}

void bind_histogram(nb::module_ &m)
{
    m.def("count_bins", &count_bins, nb::arg("values"), nb::arg("inverse"), nb::arg("first"),
          nb::arg("counts"),
          "Adds values other than zero to `counts`, bins of width 1 / inverse from number `first` "
          "on; returns how many are zero.");
}

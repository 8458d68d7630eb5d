// Python bindings of the packing search.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "climb.h"
#include "packing.h"

namespace nb = nanobind;

namespace {

// size, alignment, first, last, fixed offset or -1, forbidden ranges
using Row = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t,
                       std::vector<std::pair<int64_t, int64_t>>>;

constexpr int64_t LARGEST = int64_t{1} << 48; // sums of many stay far from overflow

std::vector<packing::Item> items_of(const std::vector<Row> &rows)
{
    std::vector<packing::Item> items;
    for (const auto &[size, alignment, first, last, fixed, forbidden] : rows) {
        bool sound = size > 0 && size <= LARGEST && alignment > 0 && alignment <= LARGEST &&
                     first <= last && -LARGEST <= first && last <= LARGEST && fixed >= -1 &&
                     fixed <= LARGEST;
        for (const auto &[low, high] : forbidden)
            sound = sound && 0 <= low && low <= high && high <= LARGEST;
        if (!sound)
            throw std::invalid_argument("packing item");
        items.push_back({size, alignment, first, last, fixed, forbidden});
    }
    return items;
}

std::tuple<std::string, std::vector<int64_t>, int64_t>
pack(const std::vector<Row> &rows, int64_t capacity, int64_t node_limit, double seconds,
     int threads)
{
    const auto items = items_of(rows);
    packing::Result result;
    {
        nb::gil_scoped_release release;
        result = packing::pack(items, capacity, node_limit, seconds, threads);
    }
    const char *const words[] = {"found", "impossible", "undecided"};
    return {words[static_cast<int>(result.outcome)], result.offsets, result.nodes};
}

std::tuple<std::vector<int64_t>, int64_t, int64_t>
climb(const std::vector<Row> &rows, int64_t target, int64_t tries, double seconds)
{
    const auto items = items_of(rows);
    nb::gil_scoped_release release;
    const packing::Climb result = packing::climb(items, target, tries, seconds);
    return {result.offsets, result.height, result.tries};
}

} // namespace

void bind_packing(nb::module_ &m)
{
    m.def("pack", &pack, nb::arg("items"), nb::arg("capacity"), nb::arg("node_limit"),
          nb::arg("seconds") = 0.0, nb::arg("threads") = 1,
          "Whether items fit below a capacity: outcome, offsets, nodes searched.");
    m.def("climb", &climb, nb::arg("items"), nb::arg("target"), nb::arg("tries"),
          nb::arg("seconds") = 0.0, "A low packing by swap search: offsets, height, tries.");
}

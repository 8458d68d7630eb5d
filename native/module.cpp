// Python bindings of the host build of the runtime.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "neural_art/bindings.h"
#include "program.h"

namespace nb = nanobind;
using npuforge::Program;
using npuforge::ProgramArrays;

using Int32 = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Operands =
    nb::ndarray<const std::int64_t, nb::shape<-1, 15>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_aton(nb::module_ &m);
void bind_histogram(nb::module_ &m);
void bind_packing(nb::module_ &m);

NB_MODULE(_native, m)
{
    m.doc() = "Host build of the npuforge runtime.";
    m.attr("ABI") = NF_ABI;
    m.attr("MAX_OPERANDS") = NF_MAX_OPERANDS;

    m.def(
        "kernels",
        [] {
            std::vector<std::tuple<std::string, std::string>> out;
            for (std::int32_t i = 0; i < nf_kernel_count; ++i)
                out.emplace_back(nf_kernel_table[i].name, nf_kernel_table[i].fields);
            return out;
        },
        "Names and parameter fields of all kernels, in the order of their numbers.");

    m.def("variants", &npuforge::variant_names,
          "Kernel variants this machine can run, the preferred one first, then the portable one and "
          "those added.");

    m.def(
        "add_variant",
        [](std::uintptr_t address) {
            npuforge::add_variant(reinterpret_cast<const nf_simd_variant *>(address));
        },
        nb::arg("address"),
        "Make a kernel variant known by its name: the address of an nf_simd_variant in a library that "
        "stays loaded, for tests of instructions that this machine lacks.");

    bind_neural_art(m);

    nb::class_<Program>(m, "Program")
        .def(
            "__init__",
            [](Program *self, Int32 kernels, Int32 nodes, Int32 operand_start, Operands operands,
               Int32 param_start, Int32 params, Bytes constants,
               const std::vector<std::size_t> &space_bytes, const std::string &variant,
               unsigned threads) {
                const std::size_t steps = kernels.shape(0);
                if (nodes.shape(0) != steps || operand_start.shape(0) != steps + 1 ||
                    param_start.shape(0) != steps + 1)
                    throw std::invalid_argument("step arrays differ in length");
                const ProgramArrays arrays = {kernels.data(),  nodes.data(),
                                              steps,           operands.data(),
                                              operands.shape(0), operand_start.data(),
                                              params.data(),   params.shape(0),
                                              param_start.data()};
                new (self) Program(arrays, constants.data(), constants.shape(0), space_bytes,
                                   variant, threads);
            },
            nb::arg("kernels"), nb::arg("nodes"), nb::arg("operand_start"), nb::arg("operands"),
            nb::arg("param_start"), nb::arg("params"), nb::arg("constants"),
            nb::arg("space_bytes"), nb::arg("variant") = "", nb::arg("threads") = 1)
        .def("run", &Program::run, nb::arg("first"), nb::arg("count"),
             nb::call_guard<nb::gil_scoped_release>(), "Run `count` steps from `first` on.")
        .def_prop_ro("step_count", &Program::step_count)
        .def_prop_ro("variants", &Program::variants, "The kernel variant each step runs.")
        .def_prop_ro("divided", &Program::divided, "How many steps the threads share.")
        .def(
            "space",
            [](Program &self, std::size_t index) {
                return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(
                    self.space(index), {self.space_bytes(index)}, nb::find(self));
            },
            nb::arg("index"), "The bytes of a memory space, as a writable view.");

    bind_aton(m);
    bind_histogram(m);
    bind_packing(m);
}

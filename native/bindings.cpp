// The extension module supquant.kernels._native, and the only file that knows Python.
//
// Shapes, dtypes and the range of codes are checked by supquant/kernels; here arrays are only typed. Every operation
// releases the GIL and writes into an array its caller made.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "dispatch.h"
#include "operations.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class Scalar, size_t kDimensions>
using In = nb::ndarray<const Scalar, nb::ndim<kDimensions>, nb::c_contig, nb::device::cpu>;
template <class Scalar, size_t kDimensions>
using Out = nb::ndarray<Scalar, nb::ndim<kDimensions>, nb::c_contig, nb::device::cpu>;

supquant::Codes view(const In<uint8_t, 2>& codes, int K) {
    return {codes.data(), codes.shape(0), int(codes.shape(1)), K};
}

void code_sums(In<uint8_t, 2> codes, In<float, 2> X, int K, Out<double, 2> sums, int n_threads) {
    nb::gil_scoped_release release;
    supquant::code_sums(view(codes, K), X.data(), X.shape(1), sums.data(), n_threads);
}

void pair_counts(In<uint8_t, 2> codes, int K, In<double, 1> weights, Out<double, 2> counts, int n_threads) {
    nb::gil_scoped_release release;
    supquant::pair_counts(view(codes, K), weights.data(), counts.data(), n_threads);
}

nb::tuple interaction(In<uint8_t, 2> codes, In<uint64_t, 1> first, In<double, 1> weights, In<double, 2> gram,
                      double eps, Out<double, 2> derivative, int n_threads) {
    supquant::InteractionSums sums;
    {
        nb::gil_scoped_release release;
        sums = supquant::interaction(view(codes, supquant::kMaxCodewords), first.data(), weights.data(), gram.data(),
                                     eps, derivative.data(), n_threads);
    }
    return nb::make_tuple(sums.sum_e, sums.sum_sq);
}

void assign(In<float, 2> unary, In<float, 2> cross, In<float, 2> product, float mu, float eps, In<uint8_t, 2> start,
            int K, int max_sweeps, bool pairwise, Out<uint8_t, 2> codes, int n_threads) {
    nb::gil_scoped_release release;
    supquant::AssignProblem problem{};
    problem.unary = unary.data();
    problem.cross = cross.data();
    problem.product = product.data();
    problem.start = start.data();
    problem.codes = codes.data();
    problem.n_codebooks = int(start.shape(1));
    problem.n_codewords = K;
    problem.mu = mu;
    problem.eps = eps;
    problem.max_sweeps = max_sweeps;
    problem.pairwise = pairwise;
    supquant::assign(problem, start.shape(0), n_threads);
}

void greedy(In<float, 2> unary, In<float, 2> cross, int K, Out<uint8_t, 2> codes, int n_threads) {
    nb::gil_scoped_release release;
    supquant::greedy(unary.data(), cross.data(), codes.shape(0), int(codes.shape(1)), K, codes.data(), n_threads);
}

void table_sums(In<uint8_t, 2> codes, In<float, 3> tables, Out<float, 2> sums, int n_threads) {
    nb::gil_scoped_release release;
    supquant::table_sums(view(codes, int(tables.shape(2))), tables.data(), tables.shape(0), sums.data(), n_threads);
}

template <class Real>
void decode(In<uint8_t, 2> codes, In<Real, 3> codebooks, Out<Real, 2> out, int n_threads) {
    nb::gil_scoped_release release;
    supquant::decode(view(codes, int(codebooks.shape(1))), codebooks.data(), codebooks.shape(2), out.data(),
                     n_threads);
}

}  // namespace

NB_MODULE(_native, module) {
    module.attr("MAX_CODEBOOKS") = supquant::kMaxCodebooks;
    module.def("compiled_levels", &supquant::compiled_levels);
    module.def("available_levels", &supquant::available_levels);
    module.def("active_level", [] { return supquant::active_kernels().name; });
    module.def("select", &supquant::select, "name"_a);

    const auto exact = [](const char* name) { return nb::arg(name).noconvert(); };
    module.def("code_sums", &code_sums, exact("codes"), exact("X"), "K"_a, exact("sums"), "n_threads"_a);
    module.def("pair_counts", &pair_counts, exact("codes"), "K"_a, exact("weights"), exact("counts"),
               "n_threads"_a);
    module.def("interaction", &interaction, exact("codes"), exact("first"), exact("weights"), exact("gram"), "eps"_a,
               exact("derivative"), "n_threads"_a);
    module.def("assign", &assign, exact("unary"), exact("cross"), exact("product"), "mu"_a, "eps"_a, exact("start"),
               "K"_a, "max_sweeps"_a, "pairwise"_a, exact("codes"), "n_threads"_a);
    module.def("greedy", &greedy, exact("unary"), exact("cross"), "K"_a, exact("codes"), "n_threads"_a);
    module.def("table_sums", &table_sums, exact("codes"), exact("tables"), exact("sums"), "n_threads"_a);
    module.def("decode", &decode<float>, exact("codes"), exact("codebooks"), exact("out"), "n_threads"_a);
    module.def("decode", &decode<double>, exact("codes"), exact("codebooks"), exact("out"), "n_threads"_a);
}

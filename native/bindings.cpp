// The extension module supquant.kernels._native. No other file knows Python.
//
// supquant/kernels/arguments.py checks shapes, dtypes and the range of codes; here arrays only have types. Long
// operations release the GIL and write into arrays that the caller made. src/supquant/kernels/_native.pyi lists the
// same functions for type checkers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <thread>

#include "answers.h"
#include "blocks.h"
#include "dispatch.h"
#include "meaning.h"
#include "operations.h"
#include "scan.h"
#include "scores.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Releases the GIL for its lifetime. When a process ends while a daemon thread computes, Python ends this thread inside
// PyEval_RestoreThread, by an unwinding that no C++ function may stop; nanobind's guard makes it std::terminate. Here
// the thread waits for the end of the process instead.
class Released {
  public:
    Released() : state_(PyEval_SaveThread()) {}
    Released(const Released&) = delete;
    ~Released() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
        }
    }

  private:
    PyThreadState* const state_;
};

// An array that may be kept, to read it.
template <class Scalar, size_t kDimensions>
using Kept = nb::ndarray<const Scalar, nb::ndim<kDimensions>, nb::c_contig, nb::device::cpu>;

// Arrays that an operation reads (In), writes (Out), or reads if they are not None (Maybe). All are references: code that
// copies arguments and destroys the copies would be 4 kB (2%) of the compressed module.
template <class Scalar, size_t kDimensions>
using In = const Kept<Scalar, kDimensions>&;
template <class Scalar, size_t kDimensions>
using Out = const nb::ndarray<Scalar, nb::ndim<kDimensions>, nb::c_contig, nb::device::cpu>&;
template <class Scalar, size_t kDimensions>
using Maybe = const std::optional<Kept<Scalar, kDimensions>>&;

supquant::Codes view(In<uint8_t, 2> codes, int K) {
    return {codes.data(), codes.shape(0), int(codes.shape(1)), K};
}

template <class Array>
auto data_of(const std::optional<Array>& array) {
    return array ? array->data() : nullptr;
}

// A packed matrix has floats or halves; the other array is empty.
supquant::Packed packed(In<float, 1> floats, In<uint16_t, 1> halves, size_t n, size_t d) {
    return {halves.shape(0) ? nullptr : floats.data(), halves.shape(0) ? halves.data() : nullptr, n, d};
}

void code_sums(In<uint8_t, 2> codes, In<float, 2> X, int K, Out<double, 2> sums, int n_threads) {
    Released released;
    supquant::code_sums(view(codes, K), X.data(), X.shape(1), sums.data(), n_threads);
}

void pair_counts(In<uint8_t, 2> codes, int K, In<double, 1> weights, Out<double, 2> counts, int n_threads) {
    Released released;
    supquant::pair_counts(view(codes, K), weights.data(), counts.data(), n_threads);
}

nb::tuple interaction(In<uint8_t, 2> codes, In<uint64_t, 1> first, In<double, 1> weights, In<double, 2> gram,
                      double eps, Out<double, 2> derivative, int n_threads) {
    supquant::InteractionSums sums;
    {
        Released released;
        sums = supquant::interaction(view(codes, supquant::kMaxCodewords), first.data(), weights.data(), gram.data(),
                                     eps, derivative.data(), n_threads);
    }
    return nb::make_tuple(sums.sum_e, sums.sum_sq);
}

void assign(In<float, 2> unary, In<float, 2> cross, In<float, 2> product, float mu, float eps, In<uint8_t, 2> start,
            int K, int max_sweeps, Out<uint8_t, 2> codes, int n_threads) {
    Released released;
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
    supquant::assign(problem, start.shape(0), n_threads);
}

void beam(In<float, 2> unary, In<float, 2> cross, int K, int width, Out<uint8_t, 2> codes, int n_threads) {
    Released released;
    supquant::beam(unary.data(), cross.data(), codes.shape(0), int(codes.shape(1)), K, width, codes.data(), n_threads);
}

void table_sums(In<uint8_t, 2> codes, In<float, 3> tables, Out<float, 2> sums, int n_threads) {
    Released released;
    supquant::table_sums(view(codes, int(tables.shape(2))), tables.data(), tables.shape(0), sums.data(), n_threads);
}

void counted_exponentials(In<float, 2> exponents, Out<uint16_t, 2> counts) {
    Released released;
    supquant::active_kernels().counted_exponentials(exponents.data(), exponents.size(), counts.data());
}

supquant::RowDots row_dots(In<int64_t, 1> rows, In<int64_t, 1> asking, In<float, 3> factors) {
    return {rows.data(), asking.data(), factors.data(), factors.shape(1), factors.shape(2)};
}

void byte_dots(In<uint8_t, 2> x, In<int64_t, 1> rows, In<int64_t, 1> asking, In<float, 3> factors, Out<float, 2> sums,
               int n_threads) {
    Released released;
    supquant::byte_dots(reinterpret_cast<const int8_t*>(x.data()), row_dots(rows, asking, factors), rows.shape(0),
                        sums.data(), n_threads);
}

void half_dots(In<uint16_t, 2> x, In<int64_t, 1> rows, In<int64_t, 1> asking, In<float, 3> factors, Out<float, 2> sums,
               int n_threads) {
    Released released;
    supquant::half_dots(x.data(), row_dots(rows, asking, factors), rows.shape(0), sums.data(), n_threads);
}

void count_products(In<uint16_t, 2> x, In<float, 2> W, Out<float, 2> scores) {
    Released released;
    supquant::active_kernels().count_products(x.data(), x.shape(0), x.shape(1), W.data(), W.shape(0), scores.data(),
                                              W.shape(0));
}

void count_slopes(In<uint16_t, 2> x, In<float, 2> W, In<float, 2> targets, bool several, Out<float, 2> sums) {
    Released released;
    supquant::active_kernels().count_slopes(x.data(), x.shape(0), x.shape(1), W.data(), targets.data(), W.shape(0),
                                            several, sums.data());
}

void products(In<float, 2> x, In<float, 1> floats, In<uint16_t, 1> halves, size_t n, Out<float, 2> sums, int n_threads) {
    Released released;
    supquant::products(x.data(), x.shape(0), packed(floats, halves, n, x.shape(1)), sums.data(), n_threads);
}

void gaussian(In<float, 2> x, In<float, 1> floats, In<uint16_t, 1> halves, size_t n, In<float, 1> norms, float scale,
              Out<float, 2> values, int n_threads) {
    Released released;
    supquant::gaussian(x.data(), x.shape(0), packed(floats, halves, n, x.shape(1)), norms.data(), scale, values.data(),
                       n_threads);
}

void tree_sums(In<float, 2> x, In<int32_t, 3> features, In<float, 3> thresholds, In<float, 3> leaves, int depth,
               Out<float, 2> sums, int n_threads) {
    Released released;
    const supquant::TreeEnsemble trees{
        features.data(), thresholds.data(), leaves.data(), leaves.shape(0), leaves.shape(1), depth, x.shape(1)};
    supquant::tree_sums(trees, x.data(), x.shape(0), sums.data(), n_threads);
}

void best_splits(In<uint8_t, 2> bins, In<uint32_t, 1> rows, In<double, 1> weights, In<uint64_t, 1> starts,
                 In<int32_t, 2> features, Out<int32_t, 1> chosen, Out<uint8_t, 1> last, int n_threads) {
    Released released;
    const supquant::TreeLevel level{bins.data(),   bins.shape(1),   rows.data(),       weights.data(),
                                    starts.data(), features.data(), features.shape(0), features.shape(1)};
    supquant::best_splits(level, chosen.data(), last.data(), n_threads);
}

template <class Real>
void decode(In<uint8_t, 2> codes, In<Real, 3> codebooks, Out<Real, 2> out, int n_threads) {
    Released released;
    supquant::decode(view(codes, int(codebooks.shape(1))), codebooks.data(), codebooks.shape(2), out.data(), n_threads);
}

// Holds the arrays of a map to features, so that a call takes only the vectors.
class MeaningMap {
  public:
    MeaningMap(const std::vector<Kept<float, 1>>& floats, const std::vector<Kept<uint16_t, 1>>& halves,
               const std::vector<std::pair<size_t, size_t>>& shapes, bool has_kernel, float scale, In<float, 1> norms,
               In<float, 1> shifts, In<float, 1> mean, In<float, 1> novelty, float cluster_scale,
               In<float, 1> cluster_norms, In<float, 1> cluster_ratios, In<int64_t, 1> cluster_ends,
               In<int32_t, 2> words, size_t n_columns, bool multilabel)
        : floats_(floats), halves_(halves),
          vectors_{norms, shifts, mean, novelty, cluster_norms, cluster_ratios}, ends_(cluster_ends), words_(words) {
        const auto matrix = [&](size_t i) {
            return packed(floats_[i], halves_[i], shapes[i].first, shapes[i].second);
        };
        meaning_ = {has_kernel,    matrix(0),          norms.data(),          scale,          matrix(1),
                    shifts.data(), mean.data(),        matrix(2),             matrix(3),      matrix(4),
                    matrix(5),     cluster_scale,      cluster_norms.data(),  cluster_ratios.data(),
                    cluster_ends.data(), cluster_ends.shape(0), novelty.data(), words.data(), words.shape(0),
                    words.shape(1), n_columns,         multilabel};
    }

    void features(In<float, 2> x, bool of_items, Out<float, 2> features, int n_threads) const {
        Released released;
        supquant::meaning_features(meaning_, x.data(), x.shape(0), of_items, features.data(), n_threads);
    }

    const supquant::Meaning& meaning() const { return meaning_; }

  private:
    std::vector<Kept<float, 1>> floats_;
    std::vector<Kept<uint16_t, 1>> halves_;
    std::vector<Kept<float, 1>> vectors_;
    Kept<int64_t, 1> ends_;
    Kept<int32_t, 2> words_;
    supquant::Meaning meaning_;
};

void query_vectors(In<float, 2> features, const supquant::QueryRule& rule, Out<float, 2> vectors) {
    Released released;
    supquant::query_vectors(rule, features.data(), features.shape(0), vectors.data());
}

// Holds the codewords of a map to look-up tables. Python keeps the MeaningMap alive as long.
class QueryMap {
  public:
    QueryMap(const MeaningMap& features, const supquant::QueryRule& rule, In<float, 1> floats, In<uint16_t, 1> halves, size_t n,
             In<float, 1> bins)
        : floats_(floats), halves_(halves), bins_(bins),
          map_{&features.meaning(), rule, packed(floats, halves, n, rule.width()), bins.data(), bins.shape(0)} {}

    bool tables(In<float, 2> x, Maybe<float, 1> given, Out<float, 3> tables, Out<int64_t, 1> groups, int n_threads) const {
        Released released;
        return supquant::query_tables(map_, x.data(), x.shape(0), data_of(given), tables.data(), groups.data(), n_threads);
    }

  private:
    Kept<float, 1> floats_;
    Kept<uint16_t, 1> halves_;
    Kept<float, 1> bins_;
    supquant::QueryMap map_;
};

// What a scan searches. `lead`, `cell_starts` and `cell_words` are the fields of a CellTree, with one entry for each
// level; they are empty if codes have no cells.
struct Space {
    Kept<uint8_t, 3> blocks;
    size_t n;
    std::optional<Kept<uint32_t, 1>> starts, members;
    std::optional<Kept<uint64_t, 1>> eligible;
    std::optional<Kept<uint8_t, 2>> used;
    std::vector<uint8_t> lead;
    std::vector<Kept<uint32_t, 1>> cell_starts;
    std::vector<Kept<uint8_t, 1>> cell_words;
};

Space space(In<uint8_t, 3> blocks, size_t n, Maybe<uint32_t, 1> starts, Maybe<uint32_t, 1> members,
            Maybe<uint64_t, 1> eligible, Maybe<uint8_t, 2> used, const std::vector<uint8_t>& lead,
            const std::vector<Kept<uint32_t, 1>>& cell_starts, const std::vector<Kept<uint8_t, 1>>& cell_words) {
    return {blocks, n, starts, members, eligible, used, lead, cell_starts, cell_words};
}

supquant::CellTree cells_of(const Space& space) {
    supquant::CellTree cells{};
    cells.depth = int(space.lead.size());
    cells.lead = space.lead.data();
    cells.n_first = cells.depth ? space.cell_words[0].shape(0) : 0;
    for (int level = 0; level < cells.depth; ++level) {
        cells.starts[level] = space.cell_starts[level].data();
        cells.words[level] = space.cell_words[level].data();
    }
    return cells;
}
supquant::ScanSpace view(const Space& space, const supquant::CellTree& cells) {
    return {space.blocks.data(),     space.n,
            data_of(space.starts),   data_of(space.members),
            data_of(space.eligible), data_of(space.used),
            cells.depth ? &cells : nullptr};
}
supquant::ScanQueries queries_of(In<float, 3> tables, Maybe<uint8_t, 2> bits) {
    return {tables.data(), data_of(bits), tables.shape(0), int(tables.shape(1)), int(tables.shape(2))};
}

size_t first_unbounded(In<float, 3> tables, double limit) {
    return supquant::first_unbounded(queries_of(tables, {}), limit);
}

// Returns the number of rows found, or -1 - i if query i is the first one whose sums may reach `limit`.
int64_t scan(const Space& space, In<float, 3> tables, Maybe<uint8_t, 2> bits, bool prune, double limit,
             Out<float, 2> sums, Out<int64_t, 2> rows, int n_threads) {
    Released released;
    const size_t unbounded = supquant::first_unbounded(queries_of(tables, bits), limit);
    if (unbounded < tables.shape(0)) return -1 - int64_t(unbounded);
    if (!sums.size()) return int64_t(sums.shape(1));
    const supquant::CellTree cells = cells_of(space);
    return int64_t(supquant::scan(view(space, cells), queries_of(tables, bits), sums.shape(1), prune, sums.data(),
                                  rows.data(), n_threads));
}

bool scores(In<float, 2> sums, In<float, 1> offsets, bool descending, Maybe<float, 3> curves, Maybe<int64_t, 1> curve_of,
            Out<float, 2> scores) {
    const size_t n_curves = curves ? curves->shape(0) : 0, points = curves ? curves->shape(2) : 0;
    const supquant::ScoreRule rule{offsets.data(), descending, data_of(curves), n_curves, points, data_of(curve_of)};
    return supquant::scores(rule, sums.data(), sums.shape(0), sums.shape(1), scores.data());
}

// Holds the answers of scan_within until Python, which learns their number from counts(), has made arrays for them.
struct FoundWithin {
    std::vector<std::vector<uint64_t>> answers;

    std::vector<size_t> counts() const {
        std::vector<size_t> counts;
        for (const auto& keys : answers) counts.push_back(keys.size());
        return counts;
    }
    void write(Out<float, 1> sums, Out<int64_t, 1> rows) const {
        size_t i = 0;
        for (const auto& keys : answers)
            for (const uint64_t key : keys) {
                sums.data()[i] = supquant::sum_of(key);
                rows.data()[i++] = supquant::row_of(key);
            }
    }
};

FoundWithin scan_within(const Space& space, In<float, 3> tables, Maybe<uint8_t, 2> bits, In<float, 1> limits,
                        int n_threads) {
    Released released;
    FoundWithin found;
    const supquant::CellTree cells = cells_of(space);
    supquant::scan_within(view(space, cells), queries_of(tables, bits), limits.data(), found.answers, n_threads);
    return found;
}

void take(In<uint8_t, 3> blocks, In<uint32_t, 1> rows, Out<uint8_t, 3> taken) {
    Released released;
    supquant::take(blocks.data(), int(blocks.shape(1)), rows.data(), rows.shape(0), taken.data());
}

void sort_by(In<uint8_t, 2> codes, In<uint8_t, 1> lead, Out<uint32_t, 1> rows) {
    Released released;
    supquant::sort_by(codes.data(), codes.shape(0), int(codes.shape(1)), lead.data(), int(lead.shape(0)), rows.data());
}

void arrange(In<uint8_t, 2> codes, In<uint32_t, 1> rows, Out<uint8_t, 3> blocks, int n_threads) {
    Released released;
    supquant::arrange(codes.data(), int(codes.shape(1)), rows.data(), rows.shape(0), blocks.data(), n_threads);
}

void pack_mask(In<bool, 1> mask, Out<uint64_t, 1> words) {
    Released released;
    supquant::pack_mask(reinterpret_cast<const uint8_t*>(mask.data()), mask.shape(0), words.data());
}

size_t count_bits(In<uint64_t, 1> words) { return supquant::count_bits(words.data(), words.shape(0)); }

void set_bits(In<uint64_t, 1> words, Out<uint32_t, 1> rows) {
    Released released;
    supquant::set_bits(words.data(), words.shape(0), rows.data());
}

bool group(In<uint8_t, 2> codes, Out<uint8_t, 2> distinct, Out<uint32_t, 1> starts, Out<uint32_t, 1> members) {
    Released released;
    return supquant::group(codes.data(), codes.shape(0), int(codes.shape(1)), distinct.shape(0), distinct.data(),
                           starts.data(), members.data());
}

size_t count_distinct(In<uint8_t, 2> codes, size_t limit) {
    Released released;
    return supquant::count_distinct(codes.data(), codes.shape(0), int(codes.shape(1)), limit);
}

}  // namespace

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);  // a daemon thread that still computes when the process ends keeps its arguments

    module.def("compiled_levels", &supquant::compiled_levels);
    module.def("available_levels", &supquant::available_levels);
    module.def("active_level", [] { return supquant::active_kernels().name; });
    module.def("select", &supquant::select, "name"_a);

    // noconvert: an array of another dtype is an error, not a copy.
    const auto exact = [](const char* name) { return nb::arg(name).noconvert(); };
    module.def("code_sums", &code_sums, exact("codes"), exact("X"), "K"_a, exact("sums"), "n_threads"_a);
    module.def("pair_counts", &pair_counts, exact("codes"), "K"_a, exact("weights"), exact("counts"), "n_threads"_a);
    module.def("interaction", &interaction, exact("codes"), exact("first"), exact("weights"), exact("gram"), "eps"_a,
               exact("derivative"), "n_threads"_a);
    module.def("assign", &assign, exact("unary"), exact("cross"), exact("product"), "mu"_a, "eps"_a, exact("start"),
               "K"_a, "max_sweeps"_a, exact("codes"), "n_threads"_a);
    module.def("beam", &beam, exact("unary"), exact("cross"), "K"_a, "width"_a, exact("codes"), "n_threads"_a);
    module.def("table_sums", &table_sums, exact("codes"), exact("tables"), exact("sums"), "n_threads"_a);
    module.def("counted_exponentials", &counted_exponentials, exact("exponents"), exact("counts"));
    module.def("byte_dots", &byte_dots, exact("x"), exact("rows"), exact("asking"), exact("factors"), exact("sums"),
               "n_threads"_a);
    module.def("half_dots", &half_dots, exact("x"), exact("rows"), exact("asking"), exact("factors"), exact("sums"),
               "n_threads"_a);
    module.def("count_products", &count_products, exact("x"), exact("weights"), exact("scores"));
    module.def("count_slopes", &count_slopes, exact("x"), exact("weights"), exact("targets"), "several"_a,
               exact("sums"));
    module.def("products", &products, exact("x"), exact("floats"), exact("halves"), "n"_a, exact("sums"),
               "n_threads"_a);
    module.def("gaussian", &gaussian, exact("x"), exact("floats"), exact("halves"), "n"_a, exact("norms"), "scale"_a,
               exact("values"), "n_threads"_a);
    nb::class_<MeaningMap>(module, "MeaningMap")
        .def(nb::init<std::vector<Kept<float, 1>>, std::vector<Kept<uint16_t, 1>>,
                      std::vector<std::pair<size_t, size_t>>, bool, float, In<float, 1>, In<float, 1>, In<float, 1>,
                      In<float, 1>, float, In<float, 1>, In<float, 1>, In<int64_t, 1>, In<int32_t, 2>, size_t, bool>(),
             "floats"_a, "halves"_a, "shapes"_a, "has_kernel"_a, "scale"_a, exact("norms"), exact("shifts"),
             exact("mean"), exact("novelty"), "cluster_scale"_a, exact("cluster_norms"), exact("cluster_ratios"),
             exact("cluster_ends"), exact("words"), "n_columns"_a, "multilabel"_a)
        .def("features", &MeaningMap::features, exact("x"), "of_items"_a, exact("features"), "n_threads"_a);
    const auto optional = [](const char* name) { return nb::arg(name).noconvert().none(); };
    nb::class_<supquant::QueryRule>(module, "QueryRule")
        .def(nb::init<size_t, size_t, size_t, size_t, bool, bool, double, float, float, float, float>(), "n_columns"_a, "n_likeness"_a,
             "n_position"_a, "length"_a, "by_position"_a, "multilabel"_a, "least"_a, "position"_a, "cosine"_a,
             "apart"_a, "level"_a);
    module.def("query_vectors", &query_vectors, exact("features"), "rule"_a, exact("vectors"));
    nb::class_<QueryMap>(module, "QueryMap")
        .def(nb::init<const MeaningMap&, const supquant::QueryRule&, In<float, 1>, In<uint16_t, 1>, size_t, In<float, 1>>(),
             "features"_a, "rule"_a, exact("floats"), exact("halves"), "n"_a, exact("bins"), nb::keep_alive<1, 2>())
        .def("tables", &QueryMap::tables, exact("x"), optional("given"), exact("tables"), exact("groups"),
             "n_threads"_a);
    module.def("tree_sums", &tree_sums, exact("x"), exact("features"), exact("thresholds"), exact("leaves"), "depth"_a,
               exact("sums"), "n_threads"_a);
    module.def("best_splits", &best_splits, exact("bins"), exact("rows"), exact("weights"), exact("starts"),
               exact("features"), exact("chosen"), exact("last"), "n_threads"_a);
    module.def("decode", &decode<float>, exact("codes"), exact("codebooks"), exact("out"), "n_threads"_a);
    module.def("decode", &decode<double>, exact("codes"), exact("codebooks"), exact("out"), "n_threads"_a);

    module.def("first_unbounded", &first_unbounded, exact("tables"), "limit"_a);
    nb::class_<Space>(module, "Space");
    module.def("space", &space, exact("blocks"), "n"_a, optional("starts"), optional("members"), optional("eligible"),
               optional("used"), "lead"_a, exact("cell_starts"), exact("cell_words"));
    module.def("scan", &scan, "space"_a, exact("tables"), optional("bits"), "prune"_a, "limit"_a, exact("sums"),
               exact("rows"), "n_threads"_a);
    module.def("scores", &scores, exact("sums"), exact("offsets"), "descending"_a, optional("curves"),
               optional("curve_of"), exact("scores"));
    nb::class_<FoundWithin>(module, "FoundWithin")
        .def("counts", &FoundWithin::counts)
        .def("write", &FoundWithin::write, exact("sums"), exact("rows"));
    module.def("scan_within", &scan_within, "space"_a, exact("tables"), optional("bits"), exact("limits"),
               "n_threads"_a);
    module.def("take", &take, exact("blocks"), exact("rows"), exact("taken"));
    module.def("sort_by", &sort_by, exact("codes"), exact("lead"), exact("rows"));
    module.def("arrange", &arrange, exact("codes"), exact("rows"), exact("blocks"), "n_threads"_a);
    module.def("pack_mask", &pack_mask, exact("mask"), exact("words"));
    module.def("count_bits", &count_bits, exact("words"));
    module.def("set_bits", &set_bits, exact("words"), exact("rows"));
    module.def("group", &group, exact("codes"), exact("distinct"), exact("starts"), exact("members"));
    module.def("count_distinct", &count_distinct, exact("codes"), "limit"_a);
}

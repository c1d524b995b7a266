#include "operations.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "thread_pool.h"

namespace supquant {
namespace {

// Cuts 0 .. count into pieces of `piece` and calls part(begin, end) for each.
template <class Part>
void parallel_parts(size_t count, size_t piece, int n_threads, Part part) {
    parallel_for((count + piece - 1) / piece, n_threads,
                 [&](size_t task, int) { part(task * piece, std::min(count, (task + 1) * piece)); });
}

// Rows that code_sums adds up at a time. A copy of kSumColumns of their columns stays in the cache while every codebook
// reads it.
constexpr size_t kSumRows = 2048;

// Sorts the rows by their codeword of codebook m. Codeword k has the rows rows[starts[k]] up to rows[starts[k + 1]],
// ascending.
void sort_by_code(const Codes& codes, int m, uint32_t* rows, uint32_t* starts) {
    std::fill_n(starts, codes.K + 1, 0u);
    for (size_t i = 0; i < codes.n; ++i) ++starts[codes.data[i * codes.M + m] + 1];
    std::partial_sum(starts, starts + codes.K + 1, starts);
    uint32_t next[kMaxCodewords];
    std::copy_n(starts, codes.K, next);
    for (size_t i = 0; i < codes.n; ++i) rows[next[codes.data[i * codes.M + m]]++] = uint32_t(i);
}

// For fewer sums of pairs than this, one thread is done before another one has begun.
constexpr size_t kFewSums = size_t(1) << 15;

// Writes a block (rows, columns) as columns into a matrix whose rows are `width` doubles apart. The plain loop over j and k is
// into[k * width + j] = block[j * columns + k]. It goes by squares of one cache line a row: of whole rows that lie a power
// of two apart, each evicts the last one from the cache.
void transpose(const double* block, size_t rows, size_t columns, double* into, size_t width) {
    constexpr size_t kSide = 8;
    for (size_t top = 0; top < rows; top += kSide)
        for (size_t left = 0; left < columns; left += kSide)
            for (size_t k = left; k < std::min(left + kSide, columns); ++k)
                for (size_t j = top; j < std::min(top + kSide, rows); ++j)
                    into[k * width + j] = block[j * columns + k];
}

// Fills a symmetric matrix with sums of weights over pairs of codewords, one pair of codebooks a task. The plain loop,
// over rows i and codebooks a and b, is: sums[first[a] + codes[i, a], first[b] + codes[i, b]] += weights[i]. Blocks of
// one codebook with itself stay zero unless `diagonal`. A task sums into a compact scratch block and copies that: rows
// of the full matrix may lie a power of two apart, where they evict each other from the cache.
void pair_sums(const Codes& codes, const uint64_t* first, const double* weights, bool diagonal, double* sums,
               int n_threads) {
    const KernelTable& kernels = active_kernels();
    const size_t width = first[codes.M];
    std::vector<std::pair<int, int>> pairs;
    for (int a = 0; a < codes.M; ++a)
        for (int b = a; b < codes.M; ++b) pairs.emplace_back(a, b);
    size_t largest = 0;
    for (int m = 0; m < codes.M; ++m) largest = std::max(largest, size_t(first[m + 1] - first[m]));
    if (codes.n * pairs.size() + width * width < kFewSums) n_threads = 1;
    const size_t size = largest * largest;
    const std::unique_ptr<double[]> scratch(new double[size * std::min(size_t(n_threads), pairs.size())]);
    parallel_for(pairs.size(), n_threads, [&](size_t task, int slot) {
        const auto [a, b] = pairs[task];
        const size_t rows = first[a + 1] - first[a], columns = first[b + 1] - first[b];
        double* block = &scratch[size * slot];
        if (a == b && !diagonal)
            std::fill_n(block, rows * columns, 0.0);
        else
            kernels.pair_block(codes.data, weights, codes.n, codes.M, a, b, rows, columns, block);
        for (size_t j = 0; j < rows; ++j)
            std::copy_n(block + j * columns, columns, sums + (first[a] + j) * width + first[b]);
        if (a != b) transpose(block, rows, columns, sums + first[b] * width + first[a], width);
    });
}

template <class Real, class Kernel>
void decode_with(Kernel kernel, const Codes& codes, const Real* codebooks, size_t r, Real* out, int n_threads) {
    parallel_parts(codes.n, 256, n_threads, [&](size_t begin, size_t end) {
        kernel(codes.data, codebooks, codes.M, codes.K, r, begin, end, out);
    });
}

// Calls fill(to, stride) for a matrix (rows, width), and keeps the first `columns` of its columns in `into`, whose rows
// are `stride` floats apart. If that is all of them, nothing is copied.
template <class Fill>
void unpadded(size_t rows, size_t width, size_t columns, float* into, size_t stride, Fill fill) {
    if (columns == width) return fill(into, stride);
    thread_local std::vector<float> scratch;  // of one thread, and used again
    if (scratch.size() < rows * width) scratch.resize(rows * width);
    fill(scratch.data(), width);
    for (size_t i = 0; i < rows; ++i) std::copy_n(&scratch[i * width], columns, into + i * stride);
}

}  // namespace

void code_sums(const Codes& codes, const float* X, size_t d, double* sums, int n_threads) {
    const KernelTable& kernels = active_kernels();
    const size_t M = codes.M, K = codes.K;
    std::vector<uint32_t> rows(M * std::min(codes.n, kSumRows)), starts(M * (K + 1));
    std::vector<float> slices(kSumRows * kSumColumns * n_threads);
    for (size_t first = 0; first < codes.n; first += kSumRows) {
        const Codes block{codes.data + first * M, std::min(kSumRows, codes.n - first), codes.M, codes.K};
        for (int m = 0; m < codes.M; ++m) sort_by_code(block, m, &rows[m * block.n], &starts[m * (K + 1)]);
        parallel_for((d + kSumColumns - 1) / kSumColumns, n_threads, [&](size_t task, int slot) {
            const size_t begin = task * kSumColumns;
            const size_t columns = std::min(d - begin, size_t(kSumColumns));
            float* slice = &slices[kSumRows * kSumColumns * slot];
            for (size_t i = 0; i < block.n; ++i) {
                const float* from = X + (first + i) * d + begin;
                // These reads are short and far apart, so the hardware does not prefetch them.
                for (size_t j = 0; j < columns; j += 16) __builtin_prefetch(from + 16 * d + j);
                for (size_t j = 0; j < columns; ++j) slice[i * kSumColumns + j] = from[j];
            }
            for (size_t m = 0; m < M; ++m)
                kernels.code_sums(&rows[m * block.n], &starts[m * (K + 1)], slice, codes.K, d, int(columns),
                                  sums + m * K * d + begin);
        });
    }
}

void pair_counts(const Codes& codes, const double* weights, double* counts, int n_threads) {
    std::vector<uint64_t> first(codes.M + 1);
    for (int m = 0; m <= codes.M; ++m) first[m] = size_t(m) * codes.K;
    pair_sums(codes, first.data(), weights, true, counts, n_threads);
}

InteractionSums interaction(const Codes& codes, const uint64_t* first, const double* weights, const double* gram,
                            double eps, double* derivative, int n_threads) {
    const KernelTable& kernels = active_kernels();
    std::vector<double> e(codes.n), slope(codes.n);
    parallel_parts(codes.n, 1024, n_threads, [&](size_t begin, size_t end) {
        kernels.interaction(codes.data, gram, codes.M, first, begin, end, e.data());
    });
    InteractionSums sums{0, 0};
    for (size_t i = 0; i < codes.n; ++i) {
        const double off = e[i] - eps;
        sums.sum_e += weights[i] * e[i];
        sums.sum_sq += weights[i] * (off * off);
        slope[i] = 2.0 * weights[i] * off;
    }
    pair_sums(codes, first, slope.data(), false, derivative, n_threads);
    return sums;
}

void assign(AssignProblem problem, size_t n, int n_threads) {
    const KernelTable& kernels = active_kernels();
    std::vector<float> pair_table;
    if (problem.n_codebooks == 2) {
        pair_table.resize(size_t(problem.n_codewords) * (padded(problem.n_codewords) + 1));
        kernels.fold_pair_table(problem, pair_table.data());
        problem.pair_table = pair_table.data();
    }
    parallel_parts(n, 64, n_threads, [&](size_t begin, size_t end) { kernels.assign(problem, begin, end); });
}

void beam(const float* unary, const float* cross, size_t n, int M, int K, int width, uint8_t* codes, int n_threads) {
    const KernelTable& kernels = active_kernels();
    parallel_parts(n, 64, n_threads,
                   [&](size_t begin, size_t end) { kernels.beam(unary, cross, M, K, width, begin, end, codes); });
}

void table_sums(const Codes& codes, const float* tables, size_t n_queries, float* sums, int n_threads) {
    const KernelTable& kernels = active_kernels();
    parallel_for(n_queries, n_threads, [&](size_t query, int) {
        kernels.table_sums(codes.data, tables + query * codes.M * codes.K, codes.M, codes.K, 0, codes.n,
                           sums + query * codes.n);
    });
}

void products(const float* x, size_t q, const Packed& y, float* sums, int n_threads) {
    const KernelTable& kernels = active_kernels();
    constexpr size_t kPanels = 8;  // panels of one task
    const size_t panels = panels_of(y.n), across = (panels + kPanels - 1) / kPanels;
    const size_t of_task = product_rows(q, n_threads);
    parallel_for((q + of_task - 1) / of_task * across, n_threads, [&](size_t task, int) {
        const size_t i = task / across * of_task, first = task % across * kPanels;
        const size_t rows = std::min(of_task, q - i), end = std::min(panels, first + kPanels);
        const size_t column = first_group(y.n, first) * kGroup, width = first_group(y.n, end) * kGroup - column;
        unpadded(rows, width, std::min(width, y.n - column), sums + i * y.n + column, y.n, [&](float* to, size_t stride) {
            kernels.products(x + i * y.d, rows, y, first, end, to, stride);
        });
    });
}

void byte_dots(const int8_t* x, const RowDots& dots, size_t r, float* sums, int n_threads) {
    const KernelTable& kernels = active_kernels();
    parallel_parts(r, 256, n_threads, [&](size_t begin, size_t end) { kernels.byte_dots(x, dots, begin, end, sums); });
}

void half_dots(const uint16_t* x, const RowDots& dots, size_t r, float* sums, int n_threads) {
    const KernelTable& kernels = active_kernels();
    parallel_parts(r, 256, n_threads, [&](size_t begin, size_t end) { kernels.half_dots(x, dots, begin, end, sums); });
}

double squared_length(const float* x, size_t d) {
    double squares = 0;
    for (size_t k = 0; k < d; ++k) squares += double(x[k]) * x[k];
    return squares;
}

void gaussian_row(float* values, const float* norms, size_t width, double squares, float scale) {
    if (std::isinf(float(squares)))
        std::fill_n(values, width, 0.0f);  // infinitely far from all anchors
    else
        active_kernels().gaussian(values, norms, width, float(squares), scale);
}

void gaussian(const float* x, size_t q, const Packed& anchors, const float* norms, float scale, float* values,
              int n_threads) {
    const KernelTable& kernels = active_kernels();
    const size_t n = anchors.n, width = groups_of(n) * kGroup;
    parallel_parts(q, product_rows(q, n_threads), n_threads, [&](size_t begin, size_t end) {
        const float* rows = x + begin * anchors.d;
        unpadded(end - begin, width, n, values + begin * n, n, [&](float* to, size_t stride) {
            kernels.products(rows, end - begin, anchors, 0, panels_of(n), to, stride);
            for (size_t i = 0; i < end - begin; ++i)
                gaussian_row(to + i * stride, norms, width, squared_length(rows + i * anchors.d, anchors.d), scale);
        });
    });
}

void tree_sums(const TreeEnsemble& trees, const float* x, size_t n, float* sums, int n_threads) {
    const KernelTable& kernels = active_kernels();
    parallel_parts(n, 64, n_threads, [&](size_t begin, size_t end) { kernels.tree_sums(trees, x, begin, end, sums); });
}

void best_splits(const TreeLevel& level, int32_t* features, uint8_t* bins, int n_threads) {
    const KernelTable& kernels = active_kernels();
    constexpr size_t kPiece = 32;  // features of one task
    const size_t pieces = (level.n_features + kPiece - 1) / kPiece;
    std::vector<Split> found(level.n_nodes * pieces);
    parallel_for(found.size(), n_threads, [&](size_t task, int) {
        const size_t node = task / pieces, begin = task % pieces * kPiece;
        const size_t first = level.starts[node];
        const SplitProblem problem{level.bins, level.n, level.rows + first, level.weights + first,
                                   size_t(level.starts[node + 1] - first)};
        kernels.best_split(problem, level.features + node * level.n_features, begin,
                           std::min(begin + kPiece, level.n_features), &found[task]);
    });
    for (size_t node = 0; node < level.n_nodes; ++node) {
        const Split* best = &found[node * pieces];
        for (size_t piece = 1; piece < pieces; ++piece)
            if (found[node * pieces + piece].score > best->score) best = &found[node * pieces + piece];
        features[node] = level.features[node * level.n_features + best->place];
        bins[node] = best->bin;
    }
}

void decode(const Codes& codes, const float* codebooks, size_t r, float* out, int n_threads) {
    decode_with(active_kernels().decode_float, codes, codebooks, r, out, n_threads);
}

void decode(const Codes& codes, const double* codebooks, size_t r, double* out, int n_threads) {
    decode_with(active_kernels().decode_double, codes, codebooks, r, out, n_threads);
}

}  // namespace supquant

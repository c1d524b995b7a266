// The operations that Python calls. Each cuts its work into tasks for the thread pool and calls kernels of the active
// level.
//
// Every task writes its own part of the result and adds in row order, so the number of threads never changes a bit.
// src/supquant/kernels/protocol.py says what each operation computes.
#pragma once

#include "kernels.h"

namespace supquant {

// Codes (n, M), all below K.
struct Codes {
    const uint8_t* data;  // (n, M)
    size_t n;
    int M;
    int K;
};

void code_sums(const Codes& codes, const float* X, size_t d, double* sums, int n_threads);
void pair_counts(const Codes& codes, const double* weights, double* counts, int n_threads);

struct InteractionSums {
    double sum_e;
    double sum_sq;
};

// first (M + 1,) says where the codewords of each codebook begin in gram, as in KernelTable::interaction.
InteractionSums interaction(const Codes& codes, const uint64_t* first, const double* weights, const double* gram,
                            double eps, double* derivative, int n_threads);

void assign(AssignProblem problem, size_t n, int n_threads);
void beam(const float* unary, const float* cross, size_t n, int M, int K, int width, uint8_t* codes, int n_threads);
void table_sums(const Codes& codes, const float* tables, size_t n_queries, float* sums, int n_threads);

constexpr size_t kProductRows = 48;  // rows that one task multiplies: a whole number of tiles at every level

// The same for n rows. Every task unpacks the matrix, so it takes twice as many rows where that leaves no thread idle.
inline size_t product_rows(size_t n, int n_threads) {
    return n >= 2 * kProductRows * size_t(n_threads) ? 2 * kProductRows : kProductRows;
}

// sums (q, y.n), without the columns that fill up groups.
void products(const float* x, size_t q, const Packed& y, float* sums, int n_threads);

// sums (r, t) of r rows of x, as `dots` says.
void byte_dots(const int8_t* x, const RowDots& dots, size_t r, float* sums, int n_threads);
void half_dots(const uint16_t* x, const RowDots& dots, size_t r, float* sums, int n_threads);

// The length of a vector squared, added up in float64 from the first number to the last.
double squared_length(const float* x, size_t d);

// Turns the products (width,) of one vector with anchors into exp(scale |x - a|^2), in place; norms (width,) are the
// squared lengths of the anchors.
void gaussian_row(float* values, const float* norms, size_t width, double squares, float scale);

// values (q, anchors.n) = exp(scale |x - a|^2); norms has the width of the padded anchors.
void gaussian(const float* x, size_t q, const Packed& anchors, const float* norms, float scale, float* values,
              int n_threads);

void tree_sums(const TreeEnsemble& trees, const float* x, size_t n, float* sums, int n_threads);

// The nodes of one level of a tree. Each node has its own rows and a list of features to choose from.
struct TreeLevel {
    const uint8_t* bins;  // (d, n)
    size_t n;
    const uint32_t* rows;     // (starts[n_nodes],) node k has the rows at starts[k] up to starts[k + 1]
    const double* weights;    // (starts[n_nodes],) weights of these rows
    const uint64_t* starts;   // (n_nodes + 1,)
    const int32_t* features;  // (n_nodes, n_features)
    size_t n_nodes;
    size_t n_features;
};
void best_splits(const TreeLevel& level, int32_t* features, uint8_t* bins, int n_threads);

void decode(const Codes& codes, const float* codebooks, size_t r, float* out, int n_threads);
void decode(const Codes& codes, const double* codebooks, size_t r, double* out, int n_threads);

}  // namespace supquant

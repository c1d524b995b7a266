// The table of kernels every instruction set fills in, and the arguments they share.
//
// The kernels are plain loops over rows, columns or pairs of codebooks; cutting the work into tasks is done by
// operations.cpp. They allocate nothing and throw nothing. Letters as in the mathematics: n rows, M codebooks of
// K <= 256 codewords, codes (n, M), all arrays C-contiguous.
#pragma once

#include <cstddef>
#include <cstdint>

namespace supquant {

constexpr int kMaxCodebooks = 64;
constexpr int kMaxCodewords = 256;

// Rows of a folded pair table are padded to a multiple of the widest vector, so its kernel needs no tail.
constexpr int kPadding = 16;
static constexpr int padded(int codewords) { return (codewords + kPadding - 1) / kPadding * kPadding; }

constexpr int kSumColumns = 64;

// min over b of  sum_m unary[m, b_m] + sum_{a != b} cross + mu (sum_{a != b} product - eps)^2, row by row.
struct AssignProblem {
    const float* unary;        // (n, M*K)
    const float* cross;        // (M*K, M*K), symmetric
    const float* product;      // (M*K, M*K), symmetric
    const float* pair_table;   // (K, padded(K)) for M == 2, made by fold_pair_table
    const uint8_t* start;      // (n, M)
    uint8_t* codes;            // (n, M), the answer
    int n_codebooks;
    int n_codewords;
    float mu;
    float eps;
    int max_sweeps;
    bool pairwise;
};

struct KernelTable {
    const char* name;

    // table[j, k] = 2 cross[0 j, 1 k] + mu (2 product[0 j, 1 k] - eps)^2, +inf in the padding.
    void (*fold_pair_table)(const AssignProblem& problem, float* table);

    void (*assign)(const AssignProblem& problem, size_t begin, size_t end);

    // codes[i, m] = argmin_k unary[i, m k] + 2 sum_{b < m} cross[b codes[i, b], m k], one codebook after the other.
    void (*greedy)(const float* unary, const float* cross, int M, int K, size_t begin, size_t end, uint8_t* codes);

    // Of one codebook: sums[k, j] += slice[i, j] for j < columns and the rows i of codeword k, which are
    // rows[starts[k]] up to rows[starts[k + 1]]; slice (n, kSumColumns), the rows of sums stride apart.
    void (*code_sums)(const uint32_t* rows, const uint32_t* starts, const float* slice, int K, size_t stride,
                      int columns, double* sums);

    // block (height, width) = sum over rows of weights[i] at (codes[i, a], codes[i, b]), in row order.
    void (*pair_block)(const uint8_t* codes, const double* weights, size_t n, int M, int a, int b, size_t height,
                       size_t width, double* block);

    // e[i] = sum_{a != b} gram[first_a + codes[i, a], first_b + codes[i, b]] for rows begin .. end; gram is symmetric
    // and first[M] wide, first[m] the place of codebook m in it.
    void (*interaction)(const uint8_t* codes, const double* gram, int M, const uint64_t* first, size_t begin,
                        size_t end, double* e);

    // sums[i] = table[0, codes[i, 0]] + table[1, codes[i, 1]] + ... in that order, rows begin .. end.
    void (*table_sums)(const uint8_t* codes, const float* table, int M, int K, size_t begin, size_t end,
                       float* sums);

    void (*decode_float)(const uint8_t* codes, const float* codebooks, int M, int K, size_t r, size_t begin,
                         size_t end, float* out);
    void (*decode_double)(const uint8_t* codes, const double* codebooks, int M, int K, size_t r, size_t begin,
                          size_t end, double* out);
};

}  // namespace supquant

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
constexpr size_t kProductRows = 64;  // that are multiplied by others at a time

// min over b of  sum_m unary[m, b_m] + sum_{a != b} cross + mu (sum_{a != b} product - eps)^2, row by row.
struct AssignProblem {
    const float* unary;        // (n, M*K)
    const float* cross;        // (M*K, M*K), symmetric
    const float* product;      // (M*K, M*K), symmetric
    const float* pair_table;   // (K, padded(K)) for M == 2, made by fold_pair_table; then the least (K,) of each row
    const uint8_t* start;      // (n, M)
    uint8_t* codes;            // (n, M), the answer
    int n_codebooks;
    int n_codewords;
    float mu;
    float eps;
    int max_sweeps;
    bool pairwise;
};

// Codes as scans read them: block b, codebook m and row i of the block at codes[(b * M + m) * 64 + i].
constexpr int kBlockRows = 64;
constexpr int kScanBlocks = 16;   // a kernel gets at most so many at a time
constexpr int kMaxLanes = 64;     // queries that one vector of bytes serves at the most

struct BlockList {
    const uint8_t* codes;
    const uint32_t* numbers;   // of the blocks to read
    int count;                 // at most kScanBlocks
    int n_codebooks;
};

// Trees of 2^depth - 1 nodes and 2^depth leaves, level by level: from node k a row goes on to 2 k + 1, or to 2 k + 2 where its
// feature is above the threshold.
struct TreeEnsemble {
    const int32_t* features;   // (n_groups, group_size, 2^depth - 1)
    const float* thresholds;   // the same
    const float* leaves;       // (n_groups, group_size, 2^depth)
    size_t n_groups;
    size_t group_size;
    int depth;
    size_t d;                  // features of a row
};

// The rows of one node, whose features are numbers of bins.
struct SplitProblem {
    const uint8_t* bins;       // (d, n)
    size_t n;
    const uint32_t* rows;      // (count,)
    const double* weights;     // (count,), negative for rows of the negative class
    size_t count;
};
struct Split {
    double score;   // -1: no split has rows on both sides
    size_t place;   // of the feature in its list
    uint8_t bin;    // the last one on the left
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

    // What suits this level: queries to a vector of bytes; from how many queries on that pays; whether tables of bytes for
    // a single query pay at all, and those of half the entries first.
    int query_lanes;
    int group_from;
    bool fast_lookup;
    bool start_coarse;

    // rows[b] = the rows of the b-th listed block whose sum of table[m, code] is at most the limit; the sum saturates at
    // 255. table (M, 256); with `coarse`, entry k / 2 is that of codewords k and k + 1. The limit is below 255.
    void (*mark_by_tables)(const BlockList& blocks, const uint8_t* table, bool coarse, uint8_t limit, uint64_t* rows);

    // The same for the number of bits in which a code differs from the query (M,).
    void (*mark_by_bits)(const BlockList& blocks, const uint8_t* query, uint8_t limit, uint64_t* rows);

    // table (M, 256, query_lanes), limits (query_lanes,): rows[i], ascending, with the lanes[i] whose sum is at most their
    // limit, for the rows that have any. Returns how many. Room for all rows of the blocks is needed.
    size_t (*mark_many)(const BlockList& blocks, const uint8_t* table, const uint8_t* limits, uint32_t* rows,
                        uint64_t* lanes);

    // sums[b, i] = table[0, code] + table[1, code] + ... in that order, (count, 64); rows[b] = those below the limit.
    void (*block_sums)(const BlockList& blocks, const float* table, int K, float limit, float* sums, uint64_t* rows);

    // distances[i] = the bits in which code i differs from the query (M,), for n codes (n, M).
    void (*hamming)(const uint8_t* codes, const uint8_t* query, size_t n, int M, uint16_t* distances);

    // sums[i, g] = the leaves that row i of x (n, d) comes to in the trees of group g, added in their order; rows begin .. end.
    void (*tree_sums)(const TreeEnsemble& trees, const float* x, size_t begin, size_t end, float* sums);

    // The split with the greatest sum over its two sides of (sum of weights)^2 / (sum of their magnitudes), among the
    // features listed at begin .. end; of equal ones the first.
    void (*best_split)(const SplitProblem& problem, const int32_t* features, size_t begin, size_t end, Split* best);

    // sums[i * stride + j] = x[i] . y[j], for rows x (q, d), q <= kProductRows, and y (n, d).
    void (*products)(const float* x, size_t q, const float* y, size_t n, size_t d, float* sums, size_t stride);
};

}  // namespace supquant

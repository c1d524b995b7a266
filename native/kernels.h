// The table of kernels that every instruction set fills in, and the structs that kernels take.
//
// A kernel is a plain loop over rows, columns or pairs of codebooks. It allocates nothing and throws nothing.
// operations.cpp cuts work into tasks and calls kernels. Letters: n rows, M codebooks of K codewords, codes (n, M). All
// arrays are C-contiguous. A range `begin` .. `end` holds `begin` and does not hold `end`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace supquant {

constexpr int kMaxCodebooks = 64;   // largest M
constexpr int kMaxCodewords = 256;  // largest K: a codeword is a byte
constexpr int kMaxBeam = 64;        // codes that a beam keeps, at most

// Floats in the widest vector. Rows of a pair table are padded to a multiple of it, so loops over them need no tail.
constexpr int kPadding = 16;
static constexpr int padded(int codewords) { return (codewords + kPadding - 1) / kPadding * kPadding; }

constexpr int kSumColumns = 64;      // columns that one call of code_sums adds up

// A matrix y (n, d), packed for products with rows. Its columns, the rows of y, are filled up with zeros to groups of
// kGroup, and up to kPanelGroups groups lie side by side in a panel: entry k of column j of a panel that is w columns
// wide is at k * w + j of the panel. Entries are halves if they lose nothing, else floats.
constexpr size_t kGroup = 16;       // columns of a group: floats in the widest vector
constexpr size_t kPanelGroups = 4;  // groups in a panel, at most
constexpr size_t kDepth = 256;      // entries of a row that are summed before they are added to the sum of others
struct Packed {
    const float* floats;     // null if the entries are halves
    const uint16_t* halves;  // null if the entries are floats
    size_t n;
    size_t d;
};
static constexpr size_t groups_of(size_t n) { return (n + kGroup - 1) / kGroup; }
static constexpr size_t panels_of(size_t n) { return (groups_of(n) + kPanelGroups - 1) / kPanelGroups; }
// Panels have almost the same number of groups. Returns the first group of a panel, or the number of groups if `panel`
// is the number of panels.
static constexpr size_t first_group(size_t n, size_t panel) {
    return panel == 0 ? 0 : panel * groups_of(n) / panels_of(n);
}

constexpr size_t kMaxFewLabels = 16;  // labels of a gradient over rows of counts

// The search for the code c (M,) of least cost, for each row:
//   sum_m unary[m c_m] + sum_{a != b} cross[a c_a, b c_b] + mu (sum_{a != b} product[a c_a, b c_b] - eps)^2
// where `m k` is the flat index m * K + k of codeword k of codebook m.
struct AssignProblem {
    const float* unary;       // (n, M*K)
    const float* cross;       // (M*K, M*K), symmetric
    const float* product;     // (M*K, M*K), symmetric
    const float* pair_table;  // for M == 2, what fold_pair_table made; else null
    const uint8_t* start;     // (n, M) codes from which the search starts
    uint8_t* codes;           // (n, M) the answer
    int n_codebooks;
    int n_codewords;
    float mu;
    float eps;
    int max_sweeps;  // visits to each codebook, at most, for M > 2
};

// Scans read codes in blocks of 64 rows: codeword m of row i of block b is codes[(b * M + m) * 64 + i].
constexpr int kBlockRows = 64;   // rows in a block
constexpr int kScanBlocks = 16;  // blocks in one call of a kernel, at most
constexpr int kMaxLanes = 64;    // queries that one vector of bytes serves, at most
constexpr int kListedRows = (kScanBlocks + 1) * kBlockRows;  // places for marked rows, and some that list_marked spoils

// The blocks that a kernel reads.
struct BlockList {
    const uint8_t* codes;     // all blocks
    const uint32_t* numbers;  // (count,) the numbers of the blocks to read
    int count;                // at most kScanBlocks
    int n_codebooks;
};

// Groups of decision trees. A tree has 2^depth - 1 nodes and 2^depth leaves, stored level by level. A row goes from
// node k to node 2 k + 2 if its feature is above the threshold of the node, else to node 2 k + 1.
struct TreeEnsemble {
    const int32_t* features;  // (n_groups, group_size, 2^depth - 1)
    const float* thresholds;  // (n_groups, group_size, 2^depth - 1)
    const float* leaves;      // (n_groups, group_size, 2^depth)
    size_t n_groups;
    size_t group_size;
    int depth;
    size_t d;  // number of features of a row
};

// The rows of one node of a tree. The value of a feature is the number of its bin.
struct SplitProblem {
    const uint8_t* bins;  // (d, n)
    size_t n;
    const uint32_t* rows;   // (count,) the rows of the node
    const double* weights;  // (count,) negative for rows of the negative class
    size_t count;
};

// The split of a node: rows up to a bin of a feature go left.
struct Split {
    double score;  // -1 if no split has rows on both sides
    size_t place;  // place of the feature in the list of features
    uint8_t bin;   // the last bin that goes left
};

// Which rows are multiplied, and by what.
struct RowDots {
    const int64_t* rows;    // (r,)
    const int64_t* asking;  // (r,)
    const float* factors;   // (q, t, d)
    size_t t, d;
};

struct KernelTable {
    const char* name;  // of the instruction set

    // Two tables for M == 2, one after the other. The first is (K, padded(K)):
    //   table[j, k] = 2 cross[0 j, 1 k] + mu (2 product[0 j, 1 k] - eps)^2, and infinity in the padding.
    // The second, (K,), holds the lowest entry of each row of the first.
    void (*fold_pair_table)(const AssignProblem& problem, float* table) = nullptr;

    // Writes the codes of rows begin .. end.
    void (*assign)(const AssignProblem& problem, size_t begin, size_t end) = nullptr;

    // Takes the codebooks in turn and keeps the `width` codes so far that have the lowest costs, at most kMaxBeam. The
    // cost of a code grows by unary[i, m k] + 2 sum_{b < m} cross[b c_b, m k] with codeword k of codebook m. Of equal
    // costs the first wins. Writes the best code of rows begin .. end.
    void (*beam)(const float* unary, const float* cross, int M, int K, int width, size_t begin, size_t end,
                 uint8_t* codes) = nullptr;

    // Sums the rows of `slice` (n, kSumColumns) by codeword of one codebook. Codeword k has the rows rows[starts[k]] up
    // to rows[starts[k + 1]]; for each such row i: sums[k * stride + j] += slice[i, j], j < columns.
    void (*code_sums)(const uint32_t* rows, const uint32_t* starts, const float* slice, int K, size_t stride,
                      int columns, double* sums) = nullptr;

    // Sets `block` (height, width) to zero; then, for i = 0 .. n: block[codes[i, a], codes[i, b]] += weights[i].
    void (*pair_block)(const uint8_t* codes, const double* weights, size_t n, int M, int a, int b, size_t height,
                       size_t width, double* block) = nullptr;

    // e[i] = sum_{a != b} gram[first[a] + codes[i, a], first[b] + codes[i, b]] for rows begin .. end. gram is symmetric
    // and first[M] wide; the codewords of codebook m begin at first[m].
    void (*interaction)(const uint8_t* codes, const double* gram, int M, const uint64_t* first, size_t begin,
                        size_t end, double* e) = nullptr;

    // sums[i] = table[0, codes[i, 0]] + table[1, codes[i, 1]] + ..., added in that order, for rows begin .. end.
    void (*table_sums)(const uint8_t* codes, const float* table, int M, int K, size_t begin, size_t end, float* sums) = nullptr;

    // out[i] (r,) = codebooks[0, codes[i, 0]] + codebooks[1, codes[i, 1]] + ..., added in that order.
    // Rows begin .. end.
    void (*decode_float)(const uint8_t* codes, const float* codebooks, int M, int K, size_t r, size_t begin, size_t end,
                         float* out) = nullptr;
    void (*decode_double)(const uint8_t* codes, const double* codebooks, int M, int K, size_t r, size_t begin,
                          size_t end, double* out) = nullptr;

    // What is fast at this level:
    int query_lanes = {};    // queries that one vector of bytes serves in mark_many
    int group_from = {};     // number of queries from which mark_many is faster than one query after the other
    bool fast_lookup = {};   // whether mark_by_tables is faster than block_sums
    int coarse_rows = {};    // coarse tables pay if at most one row in so many passes; 0 if they never do

    // Marks rows by sums of bytes: bit i of rows[b] is set if row i of the b-th listed block has a sum of
    // table[m, code[m]], over m, of at most `limit`. The table is (M, 256). With `coarse`, codeword k has the entry
    // k / 2. Sums saturate at 255; the limit is below 255.
    void (*mark_by_tables)(const BlockList& blocks, const uint8_t* table, bool coarse, uint8_t limit, uint64_t* rows) = nullptr;

    // Lists the marked rows of the blocks, ascending: row i of the b-th listed block if bit i of marks[b] is set.
    // Returns their number. `rows` has kListedRows places.
    size_t (*list_marked)(const BlockList& blocks, const uint64_t* marks, uint32_t* rows) = nullptr;

    // sums[i] = table[0, code[0]] + table[1, code[1]] + ..., added in that order, for the row rows[i] of all blocks.
    void (*row_sums)(const BlockList& blocks, const uint32_t* rows, size_t count, const float* table, int K,
                     float* sums) = nullptr;

    // Marks rows by Hamming distance: bit i of rows[b] is set if the code differs from the query (M,) in at most
    // `limit` bits.
    void (*mark_by_bits)(const BlockList& blocks, const uint8_t* query, uint8_t limit, uint64_t* rows) = nullptr;

    // Marks rows for several queries: table (M, 256, query_lanes) and limits (query_lanes,) have one lane for each
    // query. Lists the rows, ascending, whose sum is at most the limit of at least one query; bit j of lanes[i] is set
    // if query j lets rows[i] pass. Returns the length of the list. `rows` and `lanes` have a place for every row of
    // the blocks.
    size_t (*mark_many)(const BlockList& blocks, const uint8_t* table, const uint8_t* limits, uint32_t* rows,
                        uint64_t* lanes) = nullptr;

    // sums[b, i] = table[0, code[0]] + table[1, code[1]] + ..., added in that order, for row i of the b-th listed
    // block. sums is (count, 64). Bit i of rows[b] is set if that sum is below the limit.
    void (*block_sums)(const BlockList& blocks, const float* table, int K, float limit, float* sums, uint64_t* rows) = nullptr;

    // sums[i, g] = sum of the leaves that row i of x (n, d) reaches in the trees of group g, added tree by tree, for
    // rows begin .. end.
    void (*tree_sums)(const TreeEnsemble& trees, const float* x, size_t begin, size_t end, float* sums) = nullptr;

    // Finds the split with the greatest score among features[begin] up to features[end], the first of equal ones. The
    // score is the sum, over both sides, of (sum of weights)^2 / (sum of |weights|).
    void (*best_split)(const SplitProblem& problem, const int32_t* features, size_t begin, size_t end, Split* best) = nullptr;

    // sums[i * stride + j] = x[i] . y[first + j], for rows x (q, d) and the columns of some panels of y, filled up to
    // groups; `first` is the first column of the first panel.
    void (*products)(const float* x, size_t q, const Packed& y, size_t first_panel, size_t end_panel, float* sums,
                     size_t stride) = nullptr;

    // values[j] = exp(scale * max(0, norms[j] + length - 2 values[j])) for j < n, a multiple of kGroup; scale <= 0.
    void (*gaussian)(float* values, const float* norms, size_t n, float length, float scale) = nullptr;

    // Rows of counts: features between 0 and 1 in units of 2^-15. d and n are multiples of kGroup.
    // counts[j] = round(2^15 exp(min(0, exponents[j]))) for j < n; halves are rounded up.
    void (*counted_exponentials)(const float* exponents, size_t n, uint16_t* counts) = nullptr;

    // sums[i * t + j] = x[rows[i]] . factors[asking[i], j] for i = begin .. end and j < t, which is 1 or 2. Rows x (n, d) are
    // signed bytes or halves; factors are (q, t, d).
    void (*byte_dots)(const int8_t* x, const RowDots& dots, size_t begin, size_t end, float* sums) = nullptr;
    void (*half_dots)(const uint16_t* x, const RowDots& dots, size_t begin, size_t end, float* sums) = nullptr;

    // scores[i * stride + l] = x[i] . weights[l] for rows x (n, d) and weights (n_labels, d).
    void (*count_products)(const uint16_t* x, size_t n, size_t d, const float* weights, size_t n_labels, float* scores,
                           size_t stride) = nullptr;

    // sums[l, j] += residual[0, l] x[0, j] + residual[1, l] x[1, j] + ..., by fused multiply-adds in that order, where a
    // residual is the probability of a label less its target (n, n_labels). Products with the weights are logits: of each
    // label alone if there may be `several` in a row. There are at most kMaxFewLabels labels.
    void (*count_slopes)(const uint16_t* x, size_t n, size_t d, const float* weights, const float* targets,
                         size_t n_labels, bool several, float* sums) = nullptr;
};

}  // namespace supquant

// Exact search over blocks of codes. Sums of bytes rule out most rows; float32 sums decide on the others.
#pragma once

#include <vector>

#include "kernels.h"

namespace supquant {

constexpr int kMostLevels = 4;  // levels of cells, at most

// The cells of codes that are sorted by some leading codebooks. A cell of level 0 is a run of codes with the same
// codeword of codebook lead[0]; a cell of level 1 is a run of these with the same codeword of codebook lead[1]; and so
// on. Cell i of a level has the cells starts[level][i] up to starts[level][i + 1] of the next level; at the last level
// these are codes.
struct CellTree {
    int depth;                            // number of levels
    size_t n_first;                       // number of cells of level 0
    const uint8_t* lead;                  // (depth,)
    const uint32_t* starts[kMostLevels];  // (number of cells + 1,) for each level
    const uint8_t* words[kMostLevels];    // (number of cells,) the codeword that distinguishes each cell
};

// What is searched. A code may stand for several rows: code i stands for members[starts[i]] up to members[starts[i +
// 1]], ascending. Without `starts`, code i is row members[i]. Without both, code i is row i.
struct ScanSpace {
    const uint8_t* blocks;     // (ceil(n / 64), M, 64)
    size_t n;                  // number of codes
    const uint32_t* starts;    // (n + 1,), or null
    const uint32_t* members;   // (number of rows,), or null
    const uint64_t* eligible;  // one bit for each row, or null if all rows are eligible
    const uint8_t* used;       // (M, 256) 1 for each codeword that some code has; null if all may be used
    const CellTree* cells;     // null if codes are not sorted
};

struct ScanQueries {
    const float* tables;  // (count, M, K)
    const uint8_t* bits;  // (count, M) codes of the queries if tables hold Hamming distances, else null
    size_t count;         // number of queries
    int M;
    int K;
};

// Returns the first query with a NaN in its table, or whose sums may reach `limit` in magnitude; `count` if there is
// none.
size_t first_unbounded(const ScanQueries& queries, double limit);

// Finds the k rows with the lowest sums for every query, equal sums by row number. sums and rows are (count, k).
// Returns how many columns are filled: k, or the number of eligible rows if that is less. With `prune` false every row
// is added up in float32.
size_t scan(const ScanSpace& space, const ScanQueries& queries, size_t k, bool prune, float* sums, int64_t* rows,
            int n_threads);

// Finds, for query i, all rows with a sum of at most limits[i]. answers[i] holds their keys (answers.h), sorted.
void scan_within(const ScanSpace& space, const ScanQueries& queries, const float* limits,
                 std::vector<std::vector<uint64_t>>& answers, int n_threads);

}  // namespace supquant

// Exact search over blocks of codes. Sums of bytes rule out most rows; float32 sums decide on the others.
#pragma once

#include <vector>

#include "kernels.h"

namespace supquant {

// What is searched. A code may stand for several rows: code i stands for members[starts[i]] up to members[starts[i +
// 1]], ascending.
struct ScanSpace {
    const uint8_t* blocks;     // (ceil(n / 64), M, 64)
    size_t n;                  // number of codes
    const uint32_t* starts;    // (n + 1,), or null if code i is row i
    const uint32_t* members;   // (number of rows,), or null with `starts`
    const uint64_t* eligible;  // one bit for each row, or null if all rows are eligible
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

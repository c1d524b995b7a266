// Exact search over blocks of codes: bytes rule rows out, float32 sums decide.
#pragma once

#include <vector>

#include "kernels.h"

namespace supquant {

// What is searched. Codes may stand for several rows each: code i for members[starts[i]] up to starts[i + 1], ascending.
struct ScanSpace {
    const uint8_t* blocks;      // (ceil(n / 64), M, 64)
    size_t n;                   // codes
    const uint32_t* starts;     // (n + 1,) or null: code i is row i
    const uint32_t* members;
    const uint64_t* eligible;   // a bit a row, or null: all rows
};

struct ScanQueries {
    const float* tables;   // (count, M, K)
    const uint8_t* bits;   // (count, M) where tables hold Hamming distances, or null
    size_t count;
    int M;
    int K;
};

// The first query whose sums might not be below `limit` in magnitude, or not be numbers; `count` if there is none.
size_t first_unbounded(const ScanQueries& queries, double limit);

// Finds the k lowest sums of every query, equal ones by row; sums and rows are (count, k), of which `found` columns are filled,
// the same number for every query, which is returned. `prune` false adds up every row.
size_t scan(const ScanSpace& space, const ScanQueries& queries, size_t k, bool prune, float* sums, int64_t* rows,
            int n_threads);

// Finds all rows with sums up to limits (count,); the answers of a query are sorted keys (answers.h).
void scan_within(const ScanSpace& space, const ScanQueries& queries, const float* limits,
                 std::vector<std::vector<uint64_t>>& answers, int n_threads);

}  // namespace supquant

// Marks rows of blocks of 64 codes by sums of bytes, which are looked up in tables. kernels.h says what each kernel computes.
//
// Sums of bytes saturate at 255. Every limit is below 255.
#pragma once

#include "kernels.h"

#if defined(SUPQUANT_BYTES_NEON)
#include "bytes_neon.h"
#elif defined(SUPQUANT_BYTES_AVX2)
#include "bytes_avx2.h"
#elif defined(SUPQUANT_BYTES_AVX512)
#include "bytes_avx512.h"
#else
#include "bytes_portable.h"
#endif

namespace {

using supquant::BlockList;
using supquant::kBlockRows;
using supquant::kScanBlocks;

constexpr int kQueryLanes = sizeof(QueryBytes);  // queries that one vector serves

template <class Vector>
inline Vector load(const uint8_t* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}
inline Bytes all_bytes(uint8_t value) {
    uint8_t lanes[kByteLanes];
    __builtin_memset(lanes, value, sizeof lanes);
    return load_bytes(lanes);
}

// Bit i of the result is set if sums[i], i < 64, is at most the limit.
inline uint64_t rows_at_most(const uint8_t* sums, Bytes limit) {
    uint64_t rows = 0;
    for (int i = 0; i < kBlockRows; i += kByteLanes) rows |= at_most(load_bytes(sums + i), limit) << i;
    return rows;
}

// Adds value(m)(codes) of the kTogether codebooks m, m + 1, .. to the sums of the rows of the listed blocks. kTogether
// is 1 or 2. The first codebook sets the sums.
template <int kTogether, class Value>
inline void add_codebooks(const BlockList& blocks, int m, uint8_t* sums, Value value) {
    const auto first = value(m), second = value(m + kTogether - 1);
    // The next list usually follows this one, and is prefetched line by line. The processor does not foresee the lines
    // that are read, because all blocks are read once for each codebook. A prefetch past the end does no harm.
    const size_t end = size_t(blocks.numbers[blocks.count - 1] + 1) * blocks.n_codebooks;  // in lines of 64 bytes
    const uint8_t* next = blocks.codes + (end + size_t(m) * blocks.count) * kBlockRows;
    for (int b = 0; b < blocks.count; ++b) {
        const uint8_t* codes = blocks.codes + (size_t(blocks.numbers[b]) * blocks.n_codebooks + m) * kBlockRows;
        for (int i = 0; i < kTogether; ++i, next += kBlockRows) __builtin_prefetch(next);
        uint8_t* sum = sums + b * kBlockRows;
#pragma GCC unroll 4
        for (int i = 0; i < kBlockRows; i += kByteLanes) {
            Bytes added = first(load_bytes(codes + i));
            if (kTogether == 2) added = add_saturated(added, second(load_bytes(codes + kBlockRows + i)));
            store_bytes(sum + i, m == 0 ? added : add_saturated(added, load_bytes(sum + i)));
        }
    }
}

// Marks the rows whose sum of value(m)(code), over m, is at most the limit. All listed blocks are read for one
// value(m), which stays in registers. The blocks are few, so their codes and sums stay in the first cache.
template <int kTogether, class Value>
inline void mark_rows(const BlockList& blocks, uint8_t limit, uint64_t* rows, Value value) {
    if (blocks.count == 0) return;
    alignas(64) uint8_t sums[kScanBlocks * kBlockRows];
    int m = 0;
    for (; m + kTogether <= blocks.n_codebooks; m += kTogether) add_codebooks<kTogether>(blocks, m, sums, value);
    for (; m < blocks.n_codebooks; ++m) add_codebooks<1>(blocks, m, sums, value);
    const Bytes most = all_bytes(limit);
    for (int b = 0; b < blocks.count; ++b) rows[b] = rows_at_most(sums + b * kBlockRows, most);
}

void mark_by_tables(const BlockList& blocks, const uint8_t* table, bool coarse, uint8_t limit, uint64_t* rows) {
    if (coarse)
        mark_rows<kCoarseTogether>(blocks, limit, rows,
                                   [=](int m) { return CoarseLookup(table + m * supquant::kMaxCodewords); });
    else
        mark_rows<kFineTogether>(blocks, limit, rows,
                                 [=](int m) { return FineLookup(table + m * supquant::kMaxCodewords); });
}

}  // namespace

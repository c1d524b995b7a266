// Scans over blocks of 64 codes: lists of marked rows, and sums in float32. kernels.h says what each kernel computes.
#pragma once

#include "codebooks.h"
#include "bits.h"
#include "kernels.h"
#include "lookups.h"
#include "vector.h"

namespace {

// Most blocks have few marks. Two places are written for every block, even if it has fewer marks, because a branch that
// the processor does not foresee takes longer.
size_t list_marked(const BlockList& blocks, const uint64_t* marks, uint32_t* rows) {
    constexpr int kAlways = 2;
    const auto lowest_bit = [](uint64_t word) { return uint32_t(__builtin_ctzll(word | uint64_t(1) << 63)); };
    size_t count = 0;
    for (int b = 0; b < blocks.count; ++b) {
        const uint32_t first = blocks.numbers[b] * kBlockRows;
        const int marked = int(count_bits(marks[b]));
        uint32_t* to = rows + count;
        uint64_t left = marks[b];
#pragma GCC unroll 2
        for (int i = 0; i < kAlways; ++i, left &= left - 1) to[i] = first + lowest_bit(left);
        for (int i = kAlways; i < marked; ++i, left &= left - 1) to[i] = first + lowest_bit(left);
        count += marked;
    }
    return count;
}

// row_sums for M codebooks.
template <int kCodebooks>
void row_sums_of(const BlockList& blocks, const uint32_t* rows, size_t count, const float* table, int K, float* sums) {
    const int M = kCodebooks ? kCodebooks : blocks.n_codebooks;
    for (size_t i = 0; i < count; ++i) {
        const uint8_t* code = blocks.codes + size_t(rows[i] / kBlockRows) * M * kBlockRows + rows[i] % kBlockRows;
        float sum = table[code[0]];
#pragma GCC unroll 16
        for (int m = 1; m < M; ++m) sum += table[m * K + code[m * kBlockRows]];
        sums[i] = sum;
    }
}

void row_sums(const BlockList& blocks, const uint32_t* rows, size_t count, const float* table, int K, float* sums) {
    with_codebooks(blocks.n_codebooks,
                   [&](auto M) { row_sums_of<decltype(M)::value>(blocks, rows, count, table, K, sums); });
}

void mark_by_bits(const BlockList& blocks, const uint8_t* query, uint8_t limit, uint64_t* rows) {
    mark_rows<2>(blocks, limit, rows, [=](int m) {
        const Bytes bits = all_bytes(query[m]);
        return [=](Bytes codes) { return popcount(codes ^ bits); };
    });
}

// Rows whose codes of one codebook are read as one word of 64 bits.
constexpr int kWordRows = 8;

// Adds the entries of eight rows: sums[j] = add(sums[j], entry(codes[j])) for j < 8, or sums[j] = entry(codes[j]) if
// kFirst.
template <bool kFirst, class Sum, class Entry, class Add>
inline void add_word(const uint8_t* codes, Sum* sums, Entry entry, Add add) {
    uint64_t word;
    __builtin_memcpy(&word, codes, sizeof word);
#pragma GCC unroll 8
    for (int j = 0; j < kWordRows; ++j) {
        const Sum added = entry(word >> (8 * j) & 255);
        sums[j] = kFirst ? added : add(sums[j], added);
    }
}

// mark_many for M codebooks. An entry of the table is a vector with one lane for each query, so one load serves all
// queries.
template <int kCodebooks>
size_t mark_many_of(const BlockList& blocks, const uint8_t* table, const uint8_t* limits, uint32_t* rows,
                    uint64_t* lanes) {
    const int M = kCodebooks ? kCodebooks : blocks.n_codebooks;
    const auto entries = [=](int m) {
        const uint8_t* of_codebook = table + size_t(m) * supquant::kMaxCodewords * kQueryLanes;
        return [=](uint64_t code) { return load<QueryBytes>(of_codebook + code * kQueryLanes); };
    };
    const auto add = [](QueryBytes a, QueryBytes b) { return add_saturated(a, b); };
    const QueryBytes limit = load<QueryBytes>(limits);
    size_t found = 0;
    for (int b = 0; b < blocks.count; ++b) {
        const uint8_t* codes = blocks.codes + size_t(blocks.numbers[b]) * M * kBlockRows;
        for (int i = 0; i < kBlockRows; i += kWordRows) {
            QueryBytes sum[kWordRows];
            add_word<true>(codes + i, sum, entries(0), add);
            for_other_codebooks<kCodebooks>(
                M, [&](int m) { add_word<false>(codes + m * kBlockRows + i, sum, entries(m), add); });
            QueryBytes lowest = sum[0];
SUPQUANT_UNROLL
            for (int j = 1; j < kWordRows; ++j) lowest = lower(lowest, sum[j]);
            if (!any_at_most(lowest, limit)) continue;
SUPQUANT_UNROLL
            for (int j = 0; j < kWordRows; ++j) {
                rows[found] = uint32_t(blocks.numbers[b] * kBlockRows + i + j);
                lanes[found] = at_most(sum[j], limit);
                found += lanes[found] != 0;
            }
        }
    }
    return found;
}

size_t mark_many(const BlockList& blocks, const uint8_t* table, const uint8_t* limits, uint32_t* rows,
                 uint64_t* lanes) {
    return with_codebooks(blocks.n_codebooks,
                          [&](auto M) { return mark_many_of<decltype(M)::value>(blocks, table, limits, rows, lanes); });
}

// block_sums for M codebooks. Eight rows at a time fill the registers, so it pays to unroll the loop over few codebooks only.
template <int kCodebooks>
void block_sums_of(const BlockList& blocks, const float* table, int K, float limit, float* sums, uint64_t* rows) {
    const int M = kCodebooks ? kCodebooks : blocks.n_codebooks;
    const auto entries = [=](int m) {
        const float* of_codebook = table + m * K;
        return [=](uint64_t code) { return of_codebook[code]; };
    };
    const auto add = [](float a, float b) { return a + b; };
    for (int b = 0; b < blocks.count; ++b) {
        const uint8_t* codes = blocks.codes + size_t(blocks.numbers[b]) * M * kBlockRows;
        uint64_t below = 0;
        for (int i = 0; i < kBlockRows; i += kWordRows) {
            float sum[kWordRows];
            add_word<true>(codes + i, sum, entries(0), add);
            for_other_codebooks<kCodebooks>(
                M, [&](int m) { add_word<false>(codes + m * kBlockRows + i, sum, entries(m), add); });
#pragma GCC unroll 8
            for (int j = 0; j < kWordRows; ++j) {
                sums[b * kBlockRows + i + j] = sum[j];
                below |= uint64_t(sum[j] < limit) << (i + j);
            }
        }
        rows[b] = below;
    }
}

void block_sums(const BlockList& blocks, const float* table, int K, float limit, float* sums, uint64_t* rows) {
    with_codebooks<4>(blocks.n_codebooks,
                      [&](auto M) { block_sums_of<decltype(M)::value>(blocks, table, K, limit, sums, rows); });
}

}  // namespace

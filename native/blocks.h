// Codes into blocks and out of them, in order, bitmaps of rows, and the number of distinct codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace supquant {

// Copies the codes of n rows into new blocks: row i of `taken` is row rows[i] of `blocks`. The caller has set `taken`,
// which is (ceil(n / 64), M, 64), to zero.
void take(const uint8_t* blocks, int M, const uint32_t* rows, size_t n, uint8_t* taken);

// Lists the numbers of codes (n, M) in the order of the bytes at `lead` (depth,), of which there are 1 to 4, the first one
// first. Codes with the same of these bytes stay in order. `rows` has n places, and n is below 2^32.
void sort_by(const uint8_t* codes, size_t n, int M, const uint8_t* lead, int depth, uint32_t* rows);

// Copies codes (n, M) into blocks (ceil(n / 64), M, 64), which the caller has set to zero: code i of the blocks is
// codes[rows[i]].
void arrange(const uint8_t* codes, int M, const uint32_t* rows, size_t n, uint8_t* blocks, int n_threads);

// Packs a mask (n,) of bytes 0 and 1 into bits: bit i % 64 of words[i / 64] is mask[i].
void pack_mask(const uint8_t* mask, size_t n, uint64_t* words);

// Returns the number of set bits.
size_t count_bits(const uint64_t* words, size_t n_words);

// Lists the numbers of the set bits, ascending, in `rows`, which has count_bits(words) places.
void set_bits(const uint64_t* words, size_t n_words, uint32_t* rows);

// Returns the number of distinct codes among (n, M), or limit + 1 if there are more than `limit`.
size_t count_distinct(const uint8_t* codes, size_t n, int M, size_t limit);

// Lists the distinct codes among (n, M), of which there are n_distinct, in lexicographic order. Code i stands for the rows
// members[starts[i]] up to members[starts[i + 1]], ascending. `distinct` is (n_distinct, M), `starts` (n_distinct + 1,) and
// `members` (n,). Returns false if there are more or fewer distinct codes.
bool group(const uint8_t* codes, size_t n, int M, size_t n_distinct, uint8_t* distinct, uint32_t* starts,
           uint32_t* members);

}  // namespace supquant

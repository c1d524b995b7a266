// Copies of codes out of blocks, bitmaps of rows, and the number of distinct codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace supquant {

// Copies the codes of n rows into new blocks: row i of `taken` is row rows[i] of `blocks`. The caller has set `taken`,
// which is (ceil(n / 64), M, 64), to zero.
void take(const uint8_t* blocks, int M, const uint32_t* rows, size_t n, uint8_t* taken);

// Packs a mask (n,) of bytes 0 and 1 into bits: bit i % 64 of words[i / 64] is mask[i].
void pack_mask(const uint8_t* mask, size_t n, uint64_t* words);

// Returns the number of set bits.
size_t count_bits(const uint64_t* words, size_t n_words);

// Lists the numbers of the set bits, ascending, in `rows`, which has count_bits(words) places.
void set_bits(const uint64_t* words, size_t n_words, uint32_t* rows);

// Returns the number of distinct codes among (n, M), or limit + 1 if there are more than `limit`.
size_t count_distinct(const uint8_t* codes, size_t n, int M, size_t limit);

}  // namespace supquant

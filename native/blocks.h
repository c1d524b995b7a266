// Small work on blocks of codes and on bitmaps of rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace supquant {

// taken (ceil(n / 64), M, 64), zeroed by the caller: the codes of the rows listed.
void take(const uint8_t* blocks, int M, const uint32_t* rows, size_t n, uint8_t* taken);

// words (ceil(n / 64),): bit i is mask[i], which is 0 or 1.
void pack_mask(const uint8_t* mask, size_t n, uint64_t* words);

size_t count_bits(const uint64_t* words, size_t n_words);
// rows (count_bits(words),): the bits that are set, ascending.
void set_bits(const uint64_t* words, size_t n_words, uint32_t* rows);

// Distinct codes (n, M), counted no further than limit + 1.
size_t count_distinct(const uint8_t* codes, size_t n, int M, size_t limit);

}  // namespace supquant

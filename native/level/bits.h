// The number of set bits in a word.
//
// Bits are counted by shifts and masks, except in words of 32 and 64 bits at levels with an instruction for it. Without
// that instruction the builtin would call a library.
#pragma once

#include <cstdint>

namespace {

// Returns the number of set bits. The plain loop: for (; x; x >>= 1) count += x & 1. The first line counts in each pair
// of bits, the second in each four, the third in each byte; the loop then adds up the bytes.
template <class Word>
inline Word count_bits(Word x) {
    constexpr Word kAll = Word(~Word(0));
    x = Word(x - ((x >> 1) & Word(kAll / 3)));
    x = Word((x & Word(kAll / 5)) + ((x >> 2) & Word(kAll / 5)));
    x = Word((x + (x >> 4)) & Word(kAll / 17));
    for (unsigned shift = 8; shift < 8 * sizeof(Word); shift *= 2) x = Word(x + (x >> shift));
    return x & Word(0xff);
}

#if defined(__aarch64__) || defined(__POPCNT__)
inline uint32_t count_bits(uint32_t x) { return uint32_t(__builtin_popcount(x)); }
inline uint64_t count_bits(uint64_t x) { return uint64_t(__builtin_popcountll(x)); }
#endif

}  // namespace

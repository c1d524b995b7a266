#include "blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels.h"

namespace supquant {
namespace {

// Packs eight bytes 0 or 1 into eight bits. The plain loop: for (i = 0; i < 8; ++i) bits |= mask[i] << i.
// The factor has one bit for each byte; multiplying by it moves byte i to bit i of the top byte.
inline uint64_t eight_bits(const uint8_t* mask) {
    uint64_t bytes;
    std::memcpy(&bytes, mask, sizeof bytes);
    return bytes * 0x0102040810204080u >> 56;
}

// Returns whether any of 64 bytes is not zero.
inline bool any_set(const uint8_t* bytes) {
    typedef uint64_t Pair __attribute__((vector_size(16)));
    Pair parts[4];
    std::memcpy(parts, bytes, sizeof parts);
    const Pair all = (parts[0] | parts[1]) | (parts[2] | parts[3]);
    return (all[0] | all[1]) != 0;
}

// Returns a hash of a code of M bytes. Its upper bits are well mixed.
inline uint64_t mix(const uint8_t* code, int M) {
    uint64_t hash = 0;
    for (int m = 0; m < M; m += 8) {
        uint64_t word = 0;
        std::memcpy(&word, code + m, std::min(8, M - m));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash * 0xbf58476d1ce4e5b9u;
}

}  // namespace

void take(const uint8_t* blocks, int M, const uint32_t* rows, size_t n, uint8_t* taken) {
    constexpr size_t kAhead = 8;  // rows between a prefetch and the copy
    const size_t stride = size_t(M) * kBlockRows;
    for (size_t i = 0; i < n; ++i) {
        if (i + kAhead < n) {
            const uint8_t* ahead = blocks + rows[i + kAhead] / kBlockRows * stride;
            for (int m = 0; m < M; ++m) __builtin_prefetch(ahead + m * kBlockRows);
        }
        // taken[i / 64, m, i % 64] = blocks[rows[i] / 64, m, rows[i] % 64]
        const uint8_t* from = blocks + rows[i] / kBlockRows * stride + rows[i] % kBlockRows;
        uint8_t* to = taken + i / kBlockRows * stride + i % kBlockRows;
        for (int m = 0; m < M; ++m) to[m * kBlockRows] = from[m * kBlockRows];
    }
}

void pack_mask(const uint8_t* mask, size_t n, uint64_t* words) {
    const size_t whole = n / kBlockRows;
    for (size_t w = 0; w < whole; ++w) {
        const uint8_t* from = mask + w * kBlockRows;
        uint64_t word = 0;
        if (any_set(from))
            for (int i = 0; i < 8; ++i) word |= eight_bits(from + 8 * i) << (8 * i);
        words[w] = word;
    }
    if (whole * kBlockRows < n) words[whole] = 0;
    for (size_t i = whole * kBlockRows; i < n; ++i) words[whole] |= uint64_t(mask[i]) << (i % kBlockRows);
}

size_t count_bits(const uint64_t* words, size_t n_words) {
    size_t count = 0;
    for (size_t w = 0; w < n_words; ++w) count += std::popcount(words[w]);
    return count;
}

void set_bits(const uint64_t* words, size_t n_words, uint32_t* rows) {
    for (size_t w = 0; w < n_words; ++w)
        for (uint64_t left = words[w]; left; left &= left - 1)
            *rows++ = uint32_t(w * kBlockRows + std::countr_zero(left));
}

size_t count_distinct(const uint8_t* codes, size_t n, int M, size_t limit) {
    // A hash table with open addressing. A place holds the number of a row plus one, or 0 if it is free. At most a
    // third of the places are taken.
    const size_t places = std::bit_ceil(3 * (std::min(n, limit) + 2));
    const int shift = 64 - std::countr_zero(places);
    std::vector<uint32_t> first(places, 0);
    size_t count = 0;
    for (size_t i = 0; i < n && count <= limit; ++i) {
        const uint8_t* code = codes + i * M;
        size_t place = mix(code, M) >> shift;
        while (first[place] && std::memcmp(codes + size_t(first[place] - 1) * M, code, M) != 0)
            place = (place + 1) & (places - 1);
        if (first[place]) continue;
        first[place] = uint32_t(i + 1);
        ++count;
    }
    return count;
}

}  // namespace supquant

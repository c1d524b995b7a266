// Hamming distances between codes.
//
// Bits are counted by shifts and masks, except in words of 32 and 64 bits at levels with an instruction for it. Without
// that instruction the builtin would call a library. Of the shortest codes a vector holds many.
#pragma once

#include "kernels.h"
#include "lookups.h"
#include "vector.h"

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

template <class Word>
inline Word load_word(const uint8_t* from) {
    Word word;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
}

// Distances of codes that are kWords words long.
template <class Word, int kWords>
void hamming_of(const uint8_t* codes, const uint8_t* query, size_t n, uint16_t* distances) {
    Word asked[kWords];
    __builtin_memcpy(asked, query, sizeof asked);
    for (size_t i = 0; i < n; ++i) {
        const uint8_t* code = codes + i * sizeof asked;
        uint16_t sum = 0;
        for (int w = 0; w < kWords; ++w)
            sum = uint16_t(sum + count_bits(Word(load_word<Word>(code + w * sizeof(Word)) ^ asked[w])));
        distances[i] = sum;
    }
}

// Distances of codes of one or two bytes.
template <int kBytes>
void hamming_of_bytes(const uint8_t* codes, const uint8_t* query, size_t n, uint16_t* distances) {
    constexpr int kRows = kByteLanes / kBytes, kPiece = kLanes == 1 ? 8 : 2 * kLanes;
    typedef uint16_t Distances __attribute__((vector_size(2 * kPiece)));
    typedef uint8_t Piece __attribute__((vector_size(kPiece * kBytes)));
    uint8_t asked[kByteLanes];
    for (int j = 0; j < kByteLanes; ++j) asked[j] = query[j % kBytes];
    const Bytes queries = load_bytes(asked);
    size_t i = 0;
    for (; i + kRows <= n; i += kRows) {
        const Bytes counts = popcount(load_bytes(codes + i * kBytes) ^ queries);
        Piece pieces[kRows / kPiece];
        __builtin_memcpy(pieces, &counts, sizeof counts);
#pragma GCC unroll 4
        for (int p = 0; p < kRows / kPiece; ++p) {
            Distances wide;
            if constexpr (kBytes == 1) {
                wide = __builtin_convertvector(pieces[p], Distances);
            } else {
                __builtin_memcpy(&wide, &pieces[p], sizeof wide);
                wide = (wide & 255) + (wide >> 8);
            }
            __builtin_memcpy(distances + i + p * kPiece, &wide, sizeof wide);
        }
    }
    for (; i < n; ++i) {
        unsigned sum = 0;
        for (int j = 0; j < kBytes; ++j) sum += count_bits(uint8_t(codes[i * kBytes + j] ^ query[j]));
        distances[i] = uint16_t(sum);
    }
}

// Distances of codes of any length: eight bytes at a time, then single bytes.
void hamming_of_any(const uint8_t* codes, const uint8_t* query, size_t n, int M, uint16_t* distances) {
    for (size_t i = 0; i < n; ++i) {
        const uint8_t* code = codes + i * M;
        unsigned sum = 0;
        int m = 0;
        for (; m + 8 <= M; m += 8)
            sum += unsigned(count_bits(load_word<uint64_t>(code + m) ^ load_word<uint64_t>(query + m)));
        for (; m < M; ++m) sum += count_bits(uint8_t(code[m] ^ query[m]));
        distances[i] = uint16_t(sum);
    }
}

void hamming(const uint8_t* codes, const uint8_t* query, size_t n, int M, uint16_t* distances) {
    switch (M) {
        case 1: return hamming_of_bytes<1>(codes, query, n, distances);
        case 2: return hamming_of_bytes<2>(codes, query, n, distances);
        case 4: return hamming_of<uint32_t, 1>(codes, query, n, distances);
        case 8: return hamming_of<uint64_t, 1>(codes, query, n, distances);
        case 16: return hamming_of<uint64_t, 2>(codes, query, n, distances);
        default: return hamming_of_any(codes, query, n, M, distances);
    }
}

}  // namespace

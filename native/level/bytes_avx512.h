// Vectors of 64 bytes on AVX-512, with or without VBMI. bytes_portable.h says what the names mean.
#pragma once

#include <immintrin.h>

#include "kernels.h"

namespace {

constexpr int kByteLanes = 64;
typedef __m512i Bytes;
inline Bytes load_bytes(const uint8_t* from) { return _mm512_loadu_si512(from); }
inline void store_bytes(uint8_t* to, Bytes v) { _mm512_storeu_si512(to, v); }

inline Bytes add_saturated(Bytes a, Bytes b) { return _mm512_adds_epu8(a, b); }
inline Bytes lower(Bytes a, Bytes b) { return _mm512_min_epu8(a, b); }
inline uint64_t at_most(Bytes values, Bytes limit) { return _mm512_cmple_epu8_mask(values, limit); }
inline bool any_at_most(Bytes values, Bytes limit) { return at_most(values, limit) != 0; }

// Looks up the number of set bits of both halves of a byte.
inline Bytes popcount(Bytes x) {
    const __m128i lane = _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m512i counts = _mm512_maskz_broadcast_i32x4(0xffff, lane);  // GCC 12 warns of the intrinsic without a mask
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble);
    return _mm512_add_epi8(_mm512_shuffle_epi8(counts, _mm512_and_si512(x, nibble)), _mm512_shuffle_epi8(counts, high));
}

constexpr bool kFastLookup = true;

#if defined(__AVX512VBMI__)

// A table of 256 bytes in four registers. VPERMI2B looks up 128 entries; the top bit of a code chooses between two such
// look-ups.
struct FineLookup {
    __m512i part[4];
    explicit FineLookup(const uint8_t* table) {
        for (int i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(table + 64 * i);
    }
    inline Bytes operator()(Bytes codes) const {
        return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), _mm512_permutex2var_epi8(part[0], codes, part[1]),
                                      _mm512_permutex2var_epi8(part[2], codes, part[3]));
    }
};

// Look-ups are so cheap here that coarse tables do not pay.
constexpr int kCoarseRows = 0;
struct CoarseLookup : FineLookup {
    using FineLookup::FineLookup;
    inline Bytes operator()(Bytes codes) const {
        return _mm512_permutex2var_epi8(part[0], _mm512_and_si512(_mm512_srli_epi16(codes, 1), _mm512_set1_epi8(127)),
                                        part[1]);
    }
};

constexpr int kFineTogether = 2, kCoarseTogether = 2;

constexpr int kGroupFrom = 12;

#else

// Without VBMI, VPERMI2W looks up 64 words of two bytes. A word holds two entries of a table, and the top bit of a code
// chooses between them. Codes at even and odd places are looked up apart.
//
// Returns the words i .. i + 31 of a table: entry j in the lower byte of word j, entry j + kWords in the upper one.
template <int kWords>
inline __m512i paired(const uint8_t* table, int i) {
    const auto widened = [](const uint8_t* from) {
        return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    };
    return _mm512_or_si512(widened(table + i), _mm512_slli_epi16(widened(table + kWords + i), 8));
}

// Takes the byte that the top bit of each code chooses: of the words for even codes, and of those for odd codes.
inline Bytes chosen(Bytes codes, __m512i even, __m512i odd) {
    const __mmask64 odd_places = 0xaaaaaaaaaaaaaaaau;
    const __m512i low = _mm512_mask_blend_epi8(odd_places, even, _mm512_slli_epi16(odd, 8));
    const __m512i high = _mm512_mask_blend_epi8(odd_places, _mm512_srli_epi16(even, 8), odd);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
}

// 256 entries in 128 words. Bit 6 of a code chooses between two look-ups of 64 words.
struct FineLookup {
    __m512i part[4];
    explicit FineLookup(const uint8_t* table) {
        for (int i = 0; i < 4; ++i) part[i] = paired<128>(table, 32 * i);
    }
    inline __m512i words(__m512i codes, __m512i bit6_on_top) const {
        return _mm512_mask_blend_epi16(_mm512_movepi16_mask(bit6_on_top),
                                       _mm512_permutex2var_epi16(part[0], codes, part[1]),
                                       _mm512_permutex2var_epi16(part[2], codes, part[3]));
    }
    inline Bytes operator()(Bytes codes) const {
        return chosen(codes, words(codes, _mm512_slli_epi16(codes, 9)),
                      words(_mm512_srli_epi16(codes, 8), _mm512_slli_epi16(codes, 1)));
    }
};

// Half the entries, each the lower one of two neighbours, in 64 words. This takes two thirds of the time, .25 ns less
// for a row, but more rows pass. Each of these takes about 6 ns to sum.
constexpr int kCoarseRows = 24;
struct CoarseLookup {
    __m512i part[2];
    explicit CoarseLookup(const uint8_t* table) {
        for (int i = 0; i < 2; ++i) part[i] = paired<64>(table, 32 * i);
    }
    inline Bytes operator()(Bytes codes) const {
        return chosen(codes, _mm512_permutex2var_epi16(part[0], _mm512_srli_epi16(codes, 1), part[1]),
                      _mm512_permutex2var_epi16(part[0], _mm512_srli_epi16(codes, 9), part[1]));
    }
};

constexpr int kFineTogether = 1, kCoarseTogether = 2;
constexpr int kGroupFrom = 8;

#endif

// A vector of queries is half as long as one of rows. Tables of whole vectors are twice as large as the first cache,
// and the scan is a third slower.
typedef __m256i QueryBytes;
inline QueryBytes add_saturated(QueryBytes a, QueryBytes b) { return _mm256_adds_epu8(a, b); }
inline QueryBytes lower(QueryBytes a, QueryBytes b) { return _mm256_min_epu8(a, b); }
inline uint64_t at_most(QueryBytes values, QueryBytes limit) { return _mm256_cmple_epu8_mask(values, limit); }
inline bool any_at_most(QueryBytes values, QueryBytes limit) { return at_most(values, limit) != 0; }

}  // namespace

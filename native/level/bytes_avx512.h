// Vectors of 64 bytes on AVX-512 with VBMI. bytes_portable.h says what the names mean.
#pragma once

#include <immintrin.h>

#include "kernels.h"

namespace {

constexpr int kByteLanes = 64;
typedef __m512i Bytes;

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

// A table of 256 bytes in four registers. VPERMI2B looks up 128 entries; the top bit of a code chooses between two such
// look-ups.
constexpr bool kFastLookup = true;
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
constexpr bool kStartCoarse = false;
struct CoarseLookup : FineLookup {
    using FineLookup::FineLookup;
    inline Bytes operator()(Bytes codes) const {
        return _mm512_permutex2var_epi8(part[0], _mm512_and_si512(_mm512_srli_epi16(codes, 1), _mm512_set1_epi8(127)),
                                        part[1]);
    }
};

constexpr int kFineTogether = 2, kCoarseTogether = 2;

// A vector of queries is half as long as one of rows. Tables of whole vectors are twice as large as the first cache,
// and the scan is a third slower.
typedef __m256i QueryBytes;
inline QueryBytes add_saturated(QueryBytes a, QueryBytes b) { return _mm256_adds_epu8(a, b); }
inline QueryBytes lower(QueryBytes a, QueryBytes b) { return _mm256_min_epu8(a, b); }
inline uint64_t at_most(QueryBytes values, QueryBytes limit) { return _mm256_cmple_epu8_mask(values, limit); }
inline bool any_at_most(QueryBytes values, QueryBytes limit) { return at_most(values, limit) != 0; }
constexpr int kGroupFrom = 12;

}  // namespace

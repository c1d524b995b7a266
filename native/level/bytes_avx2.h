// Vectors of 32 bytes on AVX2. bytes_portable.h says what the names mean.
#pragma once

#include <immintrin.h>

#include "kernels.h"

namespace {

constexpr int kByteLanes = 32;
typedef __m256i Bytes;

inline Bytes add_saturated(Bytes a, Bytes b) { return _mm256_adds_epu8(a, b); }
inline Bytes lower(Bytes a, Bytes b) { return _mm256_min_epu8(a, b); }

inline uint64_t at_most(Bytes values, Bytes limit) {
    return uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(values, limit), values)));
}
inline bool any_at_most(Bytes values, Bytes limit) { return at_most(values, limit) != 0; }

// Looks up the number of set bits of both halves of a byte.
inline Bytes popcount(Bytes x) {
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);
    return _mm256_add_epi8(_mm256_shuffle_epi8(counts, _mm256_and_si256(x, nibble)), _mm256_shuffle_epi8(counts, high));
}

// Loads 16 entries of a table into both halves of a register.
inline __m256i sixteen(const uint8_t* table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// A table of 256 bytes, as 16 registers of 16 entries. VPSHUFB looks up the low four bits of a code in each register.
// Then bit 4 chooses between pairs of results, bit 5 between pairs of these, and so on. VPBLENDVB reads the top bit of
// a byte, so the bit that chooses is shifted there.
constexpr bool kFastLookup = true;
struct FineLookup {
    const uint8_t* table;
    explicit FineLookup(const uint8_t* table) : table(table) {}

    static inline __m256i pick(__m256i low, __m256i high, __m256i bit) { return _mm256_blendv_epi8(low, high, bit); }
    // Looks up a code among the 64 entries from kFrom on.
    template <int kFrom>
    inline __m256i quarter(__m256i low, __m256i bit4, __m256i bit5) const {
        const __m256i first = pick(_mm256_shuffle_epi8(sixteen(table + kFrom), low),
                                   _mm256_shuffle_epi8(sixteen(table + kFrom + 16), low), bit4);
        const __m256i second = pick(_mm256_shuffle_epi8(sixteen(table + kFrom + 32), low),
                                    _mm256_shuffle_epi8(sixteen(table + kFrom + 48), low), bit4);
        return pick(first, second, bit5);
    }
    inline Bytes operator()(Bytes codes) const {
        const __m256i low = _mm256_and_si256(codes, _mm256_set1_epi8(15));
        const __m256i bit4 = _mm256_slli_epi16(codes, 3), bit5 = _mm256_slli_epi16(codes, 2);
        const __m256i bit6 = _mm256_add_epi8(codes, codes);
        return pick(pick(quarter<0>(low, bit4, bit5), quarter<64>(low, bit4, bit5), bit6),
                    pick(quarter<128>(low, bit4, bit5), quarter<192>(low, bit4, bit5), bit6), codes);
    }
};

// Half the entries, each the lower one of two neighbours: half as many look-ups, but more rows pass.
constexpr bool kStartCoarse = true;
struct CoarseLookup {
    FineLookup half;
    explicit CoarseLookup(const uint8_t* table) : half(table) {}
    inline Bytes operator()(Bytes codes) const {
        const __m256i low = _mm256_and_si256(_mm256_srli_epi16(codes, 1), _mm256_set1_epi8(15));
        const __m256i bit5 = _mm256_slli_epi16(codes, 2), bit6 = _mm256_add_epi8(codes, codes);
        return FineLookup::pick(half.quarter<0>(low, bit5, bit6), half.quarter<64>(low, bit5, bit6), codes);
    }
};

constexpr int kFineTogether = 1, kCoarseTogether = 1;

typedef Bytes QueryBytes;
constexpr int kGroupFrom = 6;

}  // namespace

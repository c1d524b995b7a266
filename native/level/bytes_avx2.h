// Vectors of 64 bytes on AVX2, in two registers. bytes_portable.h says what the names mean.
#pragma once

#include <immintrin.h>

#include "kernels.h"

namespace {

typedef __m256i QueryBytes;
inline QueryBytes add_saturated(QueryBytes a, QueryBytes b) { return _mm256_adds_epu8(a, b); }
inline QueryBytes lower(QueryBytes a, QueryBytes b) { return _mm256_min_epu8(a, b); }
inline uint64_t at_most(QueryBytes values, QueryBytes limit) {
    return uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(values, limit), values)));
}
inline bool any_at_most(QueryBytes values, QueryBytes limit) { return at_most(values, limit) != 0; }
constexpr int kGroupFrom = 6;

// Two registers share every load of a table.
constexpr int kByteLanes = 64;
struct Bytes {
    __m256i first, second;
};

inline Bytes load_bytes(const uint8_t* from) {
    const auto* registers = reinterpret_cast<const __m256i*>(from);
    return {_mm256_loadu_si256(registers), _mm256_loadu_si256(registers + 1)};
}
inline void store_bytes(uint8_t* to, Bytes v) {
    auto* registers = reinterpret_cast<__m256i*>(to);
    _mm256_storeu_si256(registers, v.first);
    _mm256_storeu_si256(registers + 1, v.second);
}

// Returns use(x), or use(x, y), for both registers.
template <class Use>
inline Bytes both(Bytes x, Use use) {
    return {use(x.first), use(x.second)};
}
template <class Use>
inline Bytes both(Bytes x, Bytes y, Use use) {
    return {use(x.first, y.first), use(x.second, y.second)};
}

inline Bytes add_saturated(Bytes a, Bytes b) {
    return both(a, b, [](__m256i x, __m256i y) { return _mm256_adds_epu8(x, y); });
}
inline uint64_t at_most(Bytes values, Bytes limit) {
    return at_most(values.first, limit.first) | at_most(values.second, limit.second) << 32;
}
inline Bytes operator^(Bytes a, Bytes b) {
    return both(a, b, [](__m256i x, __m256i y) { return _mm256_xor_si256(x, y); });
}

// Looks up the number of set bits of both halves of a byte.
inline Bytes popcount(Bytes bytes) {
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i nibble = _mm256_set1_epi8(15);
    return both(bytes, [=](__m256i x) {
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);
        return _mm256_add_epi8(_mm256_shuffle_epi8(counts, _mm256_and_si256(x, nibble)),
                               _mm256_shuffle_epi8(counts, high));
    });
}

constexpr bool kFastLookup = true;

// Takes the byte of `high` where the top bit of `choice` is set, else the byte of `low`.
inline Bytes pick(Bytes low, Bytes high, Bytes choice) {
    return {_mm256_blendv_epi8(low.first, high.first, choice.first),
            _mm256_blendv_epi8(low.second, high.second, choice.second)};
}

// A table of kEntries bytes, in groups of 64. VPSHUFB looks up 16 entries, and returns 0 for a negative index. A group
// is looked up with index, index - 16, index - 32 and index - 48, and the results are combined by exclusive or. Each 16
// entries of a group are stored as their difference from the 16 before. So the result is the entry of the last index
// that is not negative. This takes fewer instructions than choosing between 16 and 16 entries by each bit of a code.
template <int kEntries>
struct Groups {
    __m128i part[kEntries / 16];
    explicit Groups(const uint8_t* table) {
        for (int i = 0; i < kEntries / 16; ++i) {
            const auto* from = reinterpret_cast<const __m128i*>(table) + i;
            part[i] = _mm_loadu_si128(from);
            if (i % 4) part[i] = _mm_xor_si128(part[i], _mm_loadu_si128(from - 1));
        }
    }

    // Looks up the low six bits of `index` in a group, or in the next one where the top bit of `choice` is set.
    inline Bytes look_up(int group, Bytes index, Bytes choice) const {
        index = both(index, [](__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(63)); });
        const __m128i* at = part + 4 * group;
        Bytes low = sixteen(at[0], index), high = sixteen(at[4], index);
#pragma GCC unroll 4
        for (int i = 1; i < 4; ++i) {
            index = both(index, [](__m256i x) { return _mm256_sub_epi8(x, _mm256_set1_epi8(16)); });
            low = low ^ sixteen(at[i], index);
            high = high ^ sixteen(at[i + 4], index);
        }
        return pick(low, high, choice);
    }

  private:
    static inline Bytes sixteen(__m128i entries, Bytes index) {
        const __m256i twice = _mm256_broadcastsi128_si256(entries);
        return both(index, [=](__m256i x) { return _mm256_shuffle_epi8(twice, x); });
    }
};

// 256 entries in four groups. Bits 6 and 7 of a code choose the group.
struct FineLookup : Groups<256> {
    using Groups::Groups;
    inline Bytes operator()(Bytes codes) const {
        const Bytes bit6 = both(codes, [](__m256i x) { return _mm256_add_epi8(x, x); });
        return pick(look_up(0, codes, bit6), look_up(2, codes, bit6), codes);
    }
};

// Half the entries, each the lower one of two neighbours: half as many look-ups, .8 ns less for a row, but more rows
// pass. Each of these takes about 6 ns to sum.
constexpr int kCoarseRows = 8;
struct CoarseLookup : Groups<128> {
    using Groups::Groups;
    inline Bytes operator()(Bytes codes) const {
        return look_up(0, both(codes, [](__m256i x) { return _mm256_srli_epi16(x, 1); }), codes);
    }
};

constexpr int kFineTogether = 1, kCoarseTogether = 2;

}  // namespace

// Vectors of 16 bytes for any processor, by a language extension of the compiler. The files bytes_*.h define the same
// names:
//   Bytes, kByteLanes          a vector of bytes, one row a lane, and the number of its lanes
//   load_bytes, store_bytes    reads and writes a vector
//   add_saturated, lower       a + b, at most 255; the lower of a and b; lane by lane
//   at_most, any_at_most       bit i is set if lane i is at most that of the limit; whether any bit is set
//   popcount                   number of set bits in each lane
//   FineLookup, CoarseLookup   table[code] of 256 entries, table[code / 2] of 128 entries, for each lane
//   kFineTogether,             codebooks whose tables stay in registers together, 1 or 2
//   kCoarseTogether
//   kFastLookup, kCoarseRows, kGroupFrom    fast_lookup, coarse_rows and group_from of KernelTable
//   QueryBytes                 a vector of bytes, one query a lane
#pragma once

#include "kernels.h"

namespace {

constexpr int kByteLanes = 16;
typedef uint8_t Bytes __attribute__((vector_size(16)));
inline Bytes load_bytes(const uint8_t* from) {
    Bytes v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}
inline void store_bytes(uint8_t* to, Bytes v) { __builtin_memcpy(to, &v, sizeof v); }

inline Bytes add_saturated(Bytes a, Bytes b) {
    const Bytes sum = a + b;
    return sum | Bytes(sum < a);
}
inline Bytes lower(Bytes a, Bytes b) { return a < b ? a : b; }

inline uint64_t at_most(Bytes values, Bytes limit) {
    const Bytes fits = Bytes(values <= limit);
    uint64_t lanes = 0;
    for (int lane = 0; lane < kByteLanes; ++lane) lanes |= uint64_t(fits[lane] & 1) << lane;
    return lanes;
}
inline bool any_at_most(Bytes values, Bytes limit) {
    typedef uint64_t Halves __attribute__((vector_size(16)));
    const Halves fits = Halves(values <= limit);
    return (fits[0] | fits[1]) != 0;
}

// Counts the bits of each pair, then of each four, then of each byte.
inline Bytes popcount(Bytes x) {
    x = x - ((x >> 1) & 0x55);
    x = (x & 0x33) + ((x >> 2) & 0x33);
    return (x + (x >> 4)) & 0x0f;
}

// Looks up one lane at a time. That is not faster than adding up in float32.
constexpr bool kFastLookup = false;
struct FineLookup {
    const uint8_t* table;
    explicit FineLookup(const uint8_t* table) : table(table) {}
    inline Bytes operator()(Bytes codes) const {
        for (int lane = 0; lane < kByteLanes; ++lane) codes[lane] = table[codes[lane]];
        return codes;
    }
};

constexpr int kCoarseRows = 0;
struct CoarseLookup : FineLookup {
    using FineLookup::FineLookup;
    inline Bytes operator()(Bytes codes) const { return FineLookup::operator()(codes >> 1); }
};

constexpr int kFineTogether = 1, kCoarseTogether = 1;

typedef Bytes QueryBytes;
constexpr int kGroupFrom = 3;

}  // namespace

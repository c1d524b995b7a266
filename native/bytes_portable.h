// Vectors of bytes by the compiler's own extension, for any processor. Included only by level.cpp.
#pragma once

#include "kernels.h"

namespace {

constexpr int kByteLanes = 16;
typedef uint8_t Bytes __attribute__((vector_size(16)));

inline Bytes add_saturated(Bytes a, Bytes b) {
    const Bytes sum = a + b;
    return sum | Bytes(sum < a);
}
inline Bytes lower(Bytes a, Bytes b) { return a < b ? a : b; }

// Bit i is set where lane i is at most the limit's.
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

inline Bytes popcount(Bytes x) {
    x = x - ((x >> 1) & 0x55);
    x = (x & 0x33) + ((x >> 2) & 0x33);
    return (x + (x >> 4)) & 0x0f;
}

// One entry at a time, which is no faster than adding up in float32 at once.
constexpr bool kFastLookup = false;
struct FineLookup {
    const uint8_t* table;
    explicit FineLookup(const uint8_t* table) : table(table) {}
    inline Bytes operator()(Bytes codes) const {
        for (int lane = 0; lane < kByteLanes; ++lane) codes[lane] = table[codes[lane]];
        return codes;
    }
};

constexpr bool kStartCoarse = false;
struct CoarseLookup : FineLookup {
    using FineLookup::FineLookup;
    inline Bytes operator()(Bytes codes) const { return FineLookup::operator()(codes >> 1); }
};

// Codebooks whose tables stay in registers together.
constexpr int kFineTogether = 1, kCoarseTogether = 1;

typedef Bytes QueryBytes;
constexpr int kGroupFrom = 3;

}  // namespace

// A vector of SUPQUANT_LANES floats and its operations.
#pragma once

#include <cstdint>

#if SUPQUANT_LANES > 1 && defined(__ARM_NEON)
#include <arm_neon.h>
#elif SUPQUANT_LANES > 1
#include <immintrin.h>
#endif

// Unrolls a loop over vectors that stay in registers. Single floats are too many for that: the loop would only be longer.
#if SUPQUANT_LANES > 1
#define SUPQUANT_UNROLL _Pragma("GCC unroll 16")
#else
#define SUPQUANT_UNROLL
#endif

namespace {

constexpr int kLanes = SUPQUANT_LANES;  // floats in a vector

#if SUPQUANT_LANES == 1
typedef float Vec;
inline Vec lower(Vec a, Vec b) { return a < b ? a : b; }
inline float lowest_lane(Vec v) { return v; }
inline uint32_t lanes_within(Vec v, float limit) { return v <= limit; }
#else
typedef float Vec __attribute__((vector_size(4 * SUPQUANT_LANES)));
#if defined(__ARM_NEON)
// On NEON a < b ? a : b would compile to two instructions. The minimum is the operation that searches use most.
inline Vec lower(Vec a, Vec b) { return vminq_f32(a, b); }
#else
inline Vec lower(Vec a, Vec b) { return a < b ? a : b; }
#endif
// Returns a number whose bits say which lanes are at most the limit.
inline uint32_t lanes_within(Vec v, float limit) {
#if SUPQUANT_LANES == 16
    return _mm512_cmp_ps_mask(v, _mm512_set1_ps(limit), _CMP_LE_OQ);
#elif SUPQUANT_LANES == 8
    return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_set1_ps(limit), _CMP_LE_OQ)));
#else
    const uint32x4_t bits = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcleq_f32(v, vdupq_n_f32(limit)), bits));
#endif
}
// Returns the lowest of all lanes.
inline float lowest_lane(Vec v) {
    float lowest = v[0];
    for (int lane = 1; lane < kLanes; ++lane) lowest = v[lane] < lowest ? v[lane] : lowest;
    return lowest;
}
#endif

template <class V>
inline V load(const float* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

template <class V>
inline void store(float* to, V v) {
    __builtin_memcpy(to, &v, sizeof v);
}

// Covers the places 0 .. count: calls body(Vec(), k) for the kLanes places from k on, and body(float(), k) for each
// place that is left. The type of the first argument tells `body` what to load. The plain loop: for (k = 0; k < count;
// ++k) body(float(), k).
template <class Body>
inline void for_lanes(int count, Body body) {
    int k = 0;
#pragma GCC unroll 4
    for (; k + kLanes <= count; k += kLanes) body(Vec(), k);
    if constexpr (kLanes > 1)
        for (; k < count; ++k) body(float(), k);
}

// Sums rows of floats: sums[k] = sum_i rows[i][k] for k < width, in the order of the rows, of which there is at least one.
// Rows of a table often lie a power of two apart and then compete for the same few cache sets. So each row is read in runs
// of whole cache lines, and the sums of a run stay in registers.
inline void sum_of_rows(const float* const* rows, int count, int width, float* sums) {
    constexpr int kRun = kLanes == 1 ? 8 : 64 / kLanes;  // vectors in a run
    int k = 0;
    for (; k + kRun * kLanes <= width; k += kRun * kLanes) {
        Vec run[kRun];
        for (int u = 0; u < kRun; ++u) run[u] = load<Vec>(rows[0] + k + u * kLanes);
        for (int i = 1; i < count; ++i)
            for (int u = 0; u < kRun; ++u) run[u] += load<Vec>(rows[i] + k + u * kLanes);
        for (int u = 0; u < kRun; ++u) store(sums + k + u * kLanes, run[u]);
    }
    for (; k < width; ++k) {
        float sum = rows[0][k];
        for (int i = 1; i < count; ++i) sum += rows[i][k];
        sums[k] = sum;
    }
}

// Keeps the lowest of all values given to it, as vectors or as floats.
struct Lowest {
    Vec lanes = Vec() + __builtin_inff();  // lowest value of each lane
    float rest = __builtin_inff();         // lowest of the single floats

    inline void take(Vec v) { lanes = lower(v, lanes); }
#if SUPQUANT_LANES > 1
    inline void take(float v) { rest = v < rest ? v : rest; }
#endif
    inline float value() const {
        const float lowest = lowest_lane(lanes);
        return lowest < rest ? lowest : rest;
    }
};

// Returns the first place with the value `wanted`, or `otherwise` if there is none.
inline int first_equal(const float* values, int count, float wanted, int otherwise) {
    constexpr int kRun = 16;  // compared at once, without a branch
    int k = 0;
    for (; k + kRun <= count; k += kRun) {
        int found = 0;
        for (int i = 0; i < kRun; ++i) found |= values[k + i] == wanted;
        if (found) break;
    }
    for (; k < count; ++k)
        if (values[k] == wanted) return k;
    return otherwise;
}

}  // namespace

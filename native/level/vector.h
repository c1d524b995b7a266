// A vector of SUPQUANT_LANES floats and its operations.
#pragma once

#include <cstddef>
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
// Combines the second half of some lanes with the first, and so on, until one is left.
template <class V, class Combine>
inline float combined_by_halves(V lanes, Combine combine) {
    constexpr size_t kHalf = sizeof(V) / 2;
    typedef float Half __attribute__((vector_size(kHalf)));
    if constexpr (kHalf == sizeof(float)) {
        return combine(lanes[0], lanes[1]);
    } else {
        Half halves[2];
        __builtin_memcpy(&halves, &lanes, sizeof lanes);
        return combined_by_halves(combine(halves[0], halves[1]), combine);
    }
}
inline float lowest_lane(Vec v) {
    return combined_by_halves(v, [](auto a, auto b) { return a < b ? a : b; });
}
#endif

// Vectors of floats or doubles: as long as Vec, but at least as long as the shortest ones that every processor has.
template <class Real>
struct Of {
    typedef Real Short __attribute__((vector_size(16)));
    typedef Real Vector __attribute__((vector_size(kLanes == 1 ? 16 : 4 * kLanes)));
};

template <class V, class Real>
inline V load(const Real* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

template <class V, class Real>
inline void store(Real* to, V v) {
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

// The part of sum_of_rows for kRun vectors of columns, from column k on. Returns the first column after them.
template <class V, int kRun, class Row, class Real>
inline int sum_of_run(Row row, int count, int k, Real* sums) {
    constexpr int kOfVector = sizeof(V) / sizeof(Real);
    V run[kRun];
#pragma GCC unroll 16
    for (int u = 0; u < kRun; ++u) run[u] = load<V>(row(0) + k + u * kOfVector);
    for (int i = 1; i < count; ++i) {
        const Real* from = row(i) + k;
#pragma GCC unroll 16
        for (int u = 0; u < kRun; ++u) run[u] += load<V>(from + u * kOfVector);
    }
#pragma GCC unroll 16
    for (int u = 0; u < kRun; ++u) store(sums + k + u * kOfVector, run[u]);
    return k + kRun * kOfVector;
}

// Sums rows: sums[k] = sum_i row(i)[k] for k < width, in the order of the rows, of which there is at least one. Rows of a
// table often lie a power of two apart and then compete for the same few cache sets. So each row is read in runs of whole
// cache lines, and the sums of a run stay in registers. The last vector may sum some columns again.
template <class Row, class Real>
inline void sum_of_rows(Row row, int count, int width, Real* sums) {
    using Vector = typename Of<Real>::Vector;
    using Short = typename Of<Real>::Short;
    constexpr int kVector = sizeof(Vector) / sizeof(Real), kShort = sizeof(Short) / sizeof(Real);
    constexpr int kRun = kLanes == 1 ? 8 : 256 / int(sizeof(Vector));  // vectors in a run
    int k = 0;
    while (k + kRun * kVector <= width) k = sum_of_run<Vector, kRun>(row, count, k, sums);
    if (width >= kVector)
        while (k < width) k = sum_of_run<Vector, 1>(row, count, k <= width - kVector ? k : width - kVector, sums);
    else if (width >= kShort)
        while (k < width) k = sum_of_run<Short, 1>(row, count, k <= width - kShort ? k : width - kShort, sums);
    else
        while (k < width)
            k = k + 2 <= width ? sum_of_run<Real, 2>(row, count, k, sums) : sum_of_run<Real, 1>(row, count, k, sums);
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

// Returns the first place of the lowest value, or `otherwise` if no value is as low.
inline int first_lowest(const float* values, int count, float lowest, int otherwise) {
    int k = 0;
    for (; k + kLanes <= count; k += kLanes)
        if (const uint32_t found = lanes_within(load<Vec>(values + k), lowest)) return k + __builtin_ctz(found);
    for (; k < count; ++k)
        if (values[k] <= lowest) return k;
    return otherwise;
}

}  // namespace

// A vector of SUPQUANT_LANES floats, and the few operations the kernels ask of it.
//
// Included only by level.cpp, which is compiled once per instruction set. Everything is in an anonymous namespace and
// nothing comes from the standard library: an inline function shared between levels would be emitted by each of them
// and merged by the linker, and the copy that survives might use instructions this CPU does not have.
#pragma once

#if SUPQUANT_LANES > 1 && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace {

constexpr int kLanes = SUPQUANT_LANES;

#if SUPQUANT_LANES == 1
typedef float Vec;
inline Vec lower(Vec a, Vec b) { return a < b ? a : b; }
inline float lowest_lane(Vec v) { return v; }
#else
typedef float Vec __attribute__((vector_size(4 * SUPQUANT_LANES)));
#if defined(__ARM_NEON)
// a < b ? a : b is a compare and a select on NEON, and the minimum is the hottest operation of all.
inline Vec lower(Vec a, Vec b) { return vminq_f32(a, b); }
#else
inline Vec lower(Vec a, Vec b) { return a < b ? a : b; }
#endif
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

// Runs body(V(), k) for k = 0 .. count, V a vector as long as one fits and a float for what is left.
template <class Body>
inline void for_lanes(int count, Body body) {
    int k = 0;
#pragma GCC unroll 4
    for (; k + kLanes <= count; k += kLanes) body(Vec(), k);
    if constexpr (kLanes > 1)
        for (; k < count; ++k) body(float(), k);
}

// The smallest of everything it was given, vectors and floats alike.
struct Lowest {
    Vec lanes = Vec() + __builtin_inff();
    float rest = __builtin_inff();

    inline void take(Vec v) { lanes = lower(v, lanes); }
#if SUPQUANT_LANES > 1
    inline void take(float v) { rest = v < rest ? v : rest; }
#endif
    inline float value() const {
        const float lowest = lowest_lane(lanes);
        return lowest < rest ? lowest : rest;
    }
};

inline int first_equal(const float* values, int count, float wanted, int otherwise) {
    for (int k = 0; k < count; ++k)
        if (values[k] == wanted) return k;
    return otherwise;
}

}  // namespace

// Kernels compiled for a fixed number of codebooks, so that loops over codebooks unroll.
#pragma once

#include "vector.h"

namespace {

template <int kCount>
struct Codebooks {
    static constexpr int value = kCount;
};

// Calls kernel(Codebooks<M>()) for M = 2, 4, 8 and 16, up to kMost, and kernel(Codebooks<0>()) for any other M. With 0 the
// kernel uses the M that it was given at run time.
template <int kMost = 16, class Kernel>
inline auto with_codebooks(int M, Kernel kernel) {
    if (M == kMost) return kernel(Codebooks<kMost>());
    if constexpr (kMost > 2)
        return with_codebooks<kMost / 2>(M, kernel);
    else
        return kernel(Codebooks<0>());
}

// Calls body(m) for m = 1 .. M. If kCodebooks is M and not 0, the loop is unrolled.
template <int kCodebooks, class Body>
inline void for_other_codebooks(int M, Body body) {
SUPQUANT_UNROLL
    for (int m = 1; m < kCodebooks; ++m) body(m);
    for (int m = kCodebooks ? kCodebooks : 1; m < M; ++m) body(m);
}

}  // namespace

// Kernels compiled for a fixed number of codebooks, so that loops over codebooks unroll.
#pragma once

namespace {

template <int kCount>
struct Codebooks {
    static constexpr int value = kCount;
};

// Calls kernel(Codebooks<M>()) for M = 2, 4, 8 and 16, and kernel(Codebooks<0>()) for any other M. With 0 the kernel
// uses the M that it was given at run time.
template <class Kernel>
inline auto with_codebooks(int M, Kernel kernel) {
    switch (M) {
        case 2: return kernel(Codebooks<2>());
        case 4: return kernel(Codebooks<4>());
        case 8: return kernel(Codebooks<8>());
        case 16: return kernel(Codebooks<16>());
        default: return kernel(Codebooks<0>());
    }
}

}  // namespace

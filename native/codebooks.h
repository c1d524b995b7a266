// Kernels for a number of codebooks that the compiler knows. Included only by level.cpp.
#pragma once

namespace {

template <int kCount>
struct Codebooks {
    static constexpr int value = kCount;
};

// Calls kernel(Codebooks<M>()), with M = 0 where it is none of the usual numbers: then the kernel looks it up.
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

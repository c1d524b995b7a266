// The Gaussian kernel of many distances. The order of all operations is fixed and no multiply-add is fused, so every
// level and kernels/reference.py give the same bits.
#pragma once

#include "kernels.h"
#include "vector.h"

namespace {

#if SUPQUANT_LANES == 1
typedef uint32_t Whole;
#else
typedef uint32_t Whole __attribute__((vector_size(4 * SUPQUANT_LANES)));
#endif

// Returns exp(x) for x <= 0, and 0 below -87: exp(x) = 2^n exp(r) with n = round(x / log 2) and |r| <= log(2) / 2. The
// polynomial is that of Cephes; the result is off by less than 2 units in the last place.
inline Vec exponential(Vec x) {
    const float kMagic = 0x1.8p23f;  // adding it rounds to a whole number, which the lowest bits then hold
    const Vec shifted = x * 1.44269504f + kMagic;
    const Vec n = shifted - kMagic;
    const Vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Vec p = Vec() + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    Whole bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;  // unsigned, so it may overflow; what the magic number left above n is shifted out
    Vec power;
    __builtin_memcpy(&power, &bits, sizeof power);
    const Vec zero = Vec();
    return x < -87.0f ? zero : p * power;
}

void gaussian(float* values, const float* norms, size_t n, float length, float scale) {
    for (size_t j = 0; j < n; j += kLanes) {
        const Vec squares = (load<Vec>(values + j) * -2.0f + length) + load<Vec>(norms + j);
        store(values + j, exponential((squares < 0.0f ? Vec() : squares) * scale));
    }
}

}  // namespace

// Products of some rows of bytes or halves with the factors of queries. They have the same bits at every level.
//
// The additions have the order of counts.h: kGroup sums of every kGroup-th column, added up by halves. Columns that a row
// lacks up to a multiple of kGroup count as zeros.
#pragma once

#include "counts.h"
#include "kernels.h"
#include "products.h"
#include "vector.h"

#if SUPQUANT_LANES > 1 && defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using supquant::RowDots;

#if SUPQUANT_LANES == 16
inline Vec widened(const int8_t* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
}
#elif SUPQUANT_LANES == 8
inline Vec widened(const int8_t* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#elif SUPQUANT_LANES == 4
inline Vec widened(const int8_t* from) {
    int32_t four;
    __builtin_memcpy(&four, from, sizeof four);
    const int16x8_t wide = vmovl_s8(vcreate_s8(uint64_t(uint32_t(four))));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
#else
inline Vec widened(const int8_t* from) { return Vec(*from); }
#endif

constexpr size_t kRowsAhead = 8;  // rows between a prefetch and the product

template <size_t kFactors, class Stored>
void dots_of(const Stored* x, const RowDots& dots, size_t begin, size_t end, float* sums) {
    const size_t d = dots.d, whole = d / kGroup * kGroup, rest = d - whole;
    for (size_t i = begin; i < end; ++i) {
        if (i + kRowsAhead < end) {
            const char* ahead = reinterpret_cast<const char*>(x + size_t(dots.rows[i + kRowsAhead]) * d);
            for (size_t byte = 0; byte < d * sizeof(Stored); byte += 64) __builtin_prefetch(ahead + byte);
        }
        const Stored* row = x + size_t(dots.rows[i]) * d;
        const float* factors = dots.factors + size_t(dots.asking[i]) * kFactors * d;
        Vec part[kFactors][kVectors] = {};
        for (size_t k = 0; k < whole; k += kGroup)
SUPQUANT_UNROLL
            for (size_t v = 0; v < kVectors; ++v) {
                const Vec values = widened(row + k + v * kLanes);
SUPQUANT_UNROLL
                for (size_t j = 0; j < kFactors; ++j)
                    part[j][v] = multiply_add(load<Vec>(factors + j * d + k + v * kLanes), values, part[j][v]);
            }
        if (rest) {
            Stored values[kGroup] = {};
            __builtin_memcpy(values, row + whole, rest * sizeof(Stored));
            float own[kGroup] = {};
SUPQUANT_UNROLL
            for (size_t j = 0; j < kFactors; ++j) {
                __builtin_memcpy(own, factors + j * d + whole, rest * sizeof(float));
SUPQUANT_UNROLL
                for (size_t v = 0; v < kVectors; ++v)
                    part[j][v] = multiply_add(load<Vec>(own + v * kLanes), widened(values + v * kLanes), part[j][v]);
            }
        }
        for (size_t j = 0; j < kFactors; ++j) sums[i * kFactors + j] = added_by_halves(part[j]);
    }
}

template <class Stored>
void row_dots(const Stored* x, const RowDots& dots, size_t begin, size_t end, float* sums) {
    if (dots.t == 1)
        dots_of<1>(x, dots, begin, end, sums);
    else
        dots_of<2>(x, dots, begin, end, sums);
}

}  // namespace

// Rows of counts: features between 0 and 1 in units of 2^-15, which take half the memory of floats. What logistic
// regression does with them is here. All results have the same bits at every level.
//
// A vector holds neighbouring columns. The width d of a row is a multiple of kGroup. The plain loop for the product of a
// row with weights is:
//   float sums[kGroup] = {};
//   for (k = 0; k < d; ++k) sums[k % kGroup] = fma(weights[k], x[k], sums[k % kGroup]);
//   for (step = kGroup / 2; step > 0; step /= 2)
//       for (j = 0; j < step; ++j) sums[j] += sums[j + step];
//   product = sums[0];
#pragma once

#include "exponential.h"
#include "kernels.h"
#include "products.h"
#include "vector.h"

#if SUPQUANT_LANES > 1 && defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using supquant::kMaxFewLabels;

// Vectors of counts as floats, and floats as counts; compilers would convert whole vectors in pieces.
#if SUPQUANT_LANES == 16
inline Vec load_counts(const uint16_t* from) {
    const __m256i counts = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, counts));
}
inline void store_counts(uint16_t* to, Vec values) {
    const __m512i counts = _mm512_maskz_cvttps_epi32(0xffff, values);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(0xffff, counts));
}
#elif SUPQUANT_LANES == 8
inline Vec load_counts(const uint16_t* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline void store_counts(uint16_t* to, Vec values) {
    const __m256i counts = _mm256_cvttps_epi32(values);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_packus_epi32(_mm256_castsi256_si128(counts), _mm256_extracti128_si256(counts, 1)));
}
#elif SUPQUANT_LANES == 4
inline Vec load_counts(const uint16_t* from) { return vcvtq_f32_u32(vmovl_u16(vld1_u16(from))); }
inline void store_counts(uint16_t* to, Vec values) { vst1_u16(to, vmovn_u32(vcvtq_u32_f32(values))); }
#else
inline Vec load_counts(const uint16_t* from) { return Vec(*from); }
inline void store_counts(uint16_t* to, Vec values) { *to = uint16_t(values); }
#endif

// Rows and labels whose sums fill the registers while scores are computed, then labels and vectors of columns whose sums
// do so while slopes are added.
#if SUPQUANT_LANES == 16
constexpr size_t kScoreRows = 4, kScoreLabels = 5, kSlopeLabels = 5, kSlopeVectors = 4;
#elif SUPQUANT_LANES == 8
constexpr size_t kScoreRows = 2, kScoreLabels = 3, kSlopeLabels = 5, kSlopeVectors = 2;
#elif SUPQUANT_LANES == 4
constexpr size_t kScoreRows = 1, kScoreLabels = 5, kSlopeLabels = 5, kSlopeVectors = 4;
#else
constexpr size_t kScoreRows = 1, kScoreLabels = 1, kSlopeLabels = 5, kSlopeVectors = 1;
#endif

constexpr size_t kSlopeRows = 32;  // rows whose scores are computed before they are added: they stay in the cache

template <size_t kNumber>
struct Number {
    static constexpr size_t value = kNumber;
};

// Covers the places 0 .. count: calls body(Number<kMost>(), i) for kMost places from i on, and once body(Number<k>(), i)
// for the k places that are left.
template <size_t kMost, bool kWhole = true, class Body>
inline void in_groups(size_t count, size_t i, Body body) {
    if constexpr (kMost > 0) {
        for (; kWhole && i + kMost <= count; i += kMost) body(Number<kMost>(), i);
        if (!kWhole && i + kMost == count)
            body(Number<kMost>(), i);
        else
            in_groups<kMost - 1, false>(count, i, body);
    }
}

inline float added_by_halves(Vec (&vectors)[kVectors]) {
SUPQUANT_UNROLL
    for (size_t step = kVectors / 2; step > 0; step /= 2)
SUPQUANT_UNROLL
        for (size_t v = 0; v < step; ++v) vectors[v] += vectors[v + step];
#if SUPQUANT_LANES == 1
    return vectors[0];
#else
    return combined_by_halves(vectors[0], [](auto a, auto b) { return a + b; });
#endif
}

// scores[i * stride + l] = x[i] . weights[l] for kRows rows and kLabels labels. It is not inlined, nor is count_products: both
// have two callers, and a call takes no time compared with a tile.
template <size_t kRows, size_t kLabels>
[[gnu::noinline]] void tile_scores(const uint16_t* x, size_t d, const float* weights, float* scores, size_t stride) {
    Vec sums[kRows][kLabels][kVectors] = {};
    for (size_t k = 0; k < d; k += kGroup) {
SUPQUANT_UNROLL
        for (size_t v = 0; v < kVectors; ++v) {
            Vec values[kRows];
SUPQUANT_UNROLL
            for (size_t i = 0; i < kRows; ++i) values[i] = load_counts(x + i * d + k + v * kLanes);
SUPQUANT_UNROLL
            for (size_t l = 0; l < kLabels; ++l) {
                const Vec own = load<Vec>(weights + l * d + k + v * kLanes);
SUPQUANT_UNROLL
                for (size_t i = 0; i < kRows; ++i) sums[i][l][v] = multiply_add(own, values[i], sums[i][l][v]);
            }
        }
    }
SUPQUANT_UNROLL
    for (size_t i = 0; i < kRows; ++i)
SUPQUANT_UNROLL
        for (size_t l = 0; l < kLabels; ++l) scores[i * stride + l] = added_by_halves(sums[i][l]);
}

[[gnu::noinline]] void count_products(const uint16_t* x, size_t n, size_t d, const float* weights, size_t n_labels, float* scores,
                    size_t stride) {
    in_groups<kScoreRows>(n, 0, [=](auto rows, size_t i) {
        in_groups<kScoreLabels>(n_labels, 0, [=](auto labels, size_t l) {
            tile_scores<rows.value, labels.value>(x + i * d, d, weights + l * d, scores + i * stride + l, stride);
        });
    });
}

// Turns the scores of a row into probabilities, in place: of each label alone if there may be `several` in a row, else of
// all labels together. There are kMaxFewLabels scores, of which those after n_labels may be any numbers.
inline void probabilities(float* scores, size_t n_labels, bool several) {
    Lowest negative;
    for_lanes(int(n_labels), [&](auto lane, int l) { negative.take(-load<decltype(lane)>(scores + l)); });
    const float highest = -negative.value();
    float powers[kMaxFewLabels];
    for (size_t l = 0; l < n_labels; l += kLanes) {
        const Vec score = load<Vec>(scores + l);
        store(powers + l, exponential(several ? (score > 0.0f ? -score : score) : score - highest));
    }
    float sum = 0;
    for (size_t l = 0; l < n_labels; ++l) sum += powers[l];
    for (size_t l = 0; l < n_labels; l += kLanes) {
        const Vec power = load<Vec>(powers + l);
        store(scores + l, several ? (load<Vec>(scores + l) > 0.0f ? Vec() + 1.0f : power) / (1.0f + power) : power / sum);
    }
}

// sums[l, j] += residuals[0, l] x[0, j] + residuals[1, l] x[1, j] + ... for kLabels labels and kWide vectors of columns.
template <size_t kLabels, size_t kWide>
inline void tile_slopes(const float* residuals, const uint16_t* x, size_t n, size_t d, float* sums) {
    Vec sum[kLabels][kWide];
SUPQUANT_UNROLL
    for (size_t l = 0; l < kLabels; ++l)
SUPQUANT_UNROLL
        for (size_t v = 0; v < kWide; ++v) sum[l][v] = load<Vec>(sums + l * d + v * kLanes);
    for (size_t i = 0; i < n; ++i) {
        Vec columns[kWide];
SUPQUANT_UNROLL
        for (size_t v = 0; v < kWide; ++v) columns[v] = load_counts(x + i * d + v * kLanes);
SUPQUANT_UNROLL
        for (size_t l = 0; l < kLabels; ++l) {
            const Vec residual = spread(residuals[i * kMaxFewLabels + l]);
SUPQUANT_UNROLL
            for (size_t v = 0; v < kWide; ++v) sum[l][v] = multiply_add(residual, columns[v], sum[l][v]);
        }
    }
SUPQUANT_UNROLL
    for (size_t l = 0; l < kLabels; ++l)
SUPQUANT_UNROLL
        for (size_t v = 0; v < kWide; ++v) store(sums + l * d + v * kLanes, sum[l][v]);
}

void count_slopes(const uint16_t* x, size_t n, size_t d, const float* weights, const float* targets, size_t n_labels,
                  bool several, float* sums) {
    float residuals[kSlopeRows * kMaxFewLabels] = {};
    for (size_t begin = 0; begin < n; begin += kSlopeRows) {
        const size_t rows = n - begin < kSlopeRows ? n - begin : kSlopeRows;
        const uint16_t* of_rows = x + begin * d;
        count_products(of_rows, rows, d, weights, n_labels, residuals, kMaxFewLabels);
        for (size_t i = 0; i < rows; ++i) {
            float* own = residuals + i * kMaxFewLabels;
            probabilities(own, n_labels, several);
            for_lanes(int(n_labels), [=](auto lane, int l) {
                using V = decltype(lane);
                store(own + l, V(load<V>(own + l) - load<V>(targets + (begin + i) * n_labels + l)));
            });
        }
        in_groups<kSlopeVectors>(d / kLanes, 0, [=, &residuals](auto vectors, size_t v) {
            in_groups<kSlopeLabels>(n_labels, 0, [=, &residuals](auto labels, size_t l) {
                tile_slopes<labels.value, vectors.value>(residuals + l, of_rows + v * kLanes, rows, d,
                                                         sums + l * d + v * kLanes);
            });
        });
    }
}

void counted_exponentials(const float* exponents, size_t n, uint16_t* counts) {
    for (size_t j = 0; j < n; j += kLanes) {
        const Vec values = load<Vec>(exponents + j);
        store_counts(counts + j, exponential(values < 0.0f ? values : Vec()) * 0x1p15f + 0.5f);
    }
}

}  // namespace

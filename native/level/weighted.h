// Weighted sums of rows. A sum has the same bits at every level.
//
// The plain loop for one sum is:
//   for (i = 0; i < n; ++i) sums[w, j] = fma(weights[i, w], x[i, j], sums[w, j]);
// A vector holds the sums of neighbouring columns.
#pragma once

#include "kernels.h"
#include "products.h"
#include "vector.h"

namespace {

// Weights of a row and vectors of columns whose sums fill the registers. AVX2 has half as many of them as the others.
constexpr size_t kSumWeights = 8;
constexpr size_t kSumVectors = kLanes == 8 ? 1 : 2;

// Rows that are added at once. Memory is read ahead for few rows only.
constexpr size_t kSumRows = 16;

// Adds rows with kWeights weights each to the sums of kWide vectors of columns.
template <size_t kWeights, size_t kWide>
inline void add_weighted(const float* weights, size_t n_weights, const float* x, size_t n, size_t d, float* sums) {
    Vec sum[kWeights][kWide];
#pragma GCC unroll 16
    for (size_t w = 0; w < kWeights; ++w)
#pragma GCC unroll 16
        for (size_t v = 0; v < kWide; ++v) sum[w][v] = load<Vec>(sums + w * d + v * kLanes);
    for (size_t i = 0; i < n; ++i) {
        Vec columns[kWide];
#pragma GCC unroll 16
        for (size_t v = 0; v < kWide; ++v) columns[v] = load<Vec>(x + i * d + v * kLanes);
#pragma GCC unroll 16
        for (size_t w = 0; w < kWeights; ++w) {
            const Vec weight = spread(weights[i * n_weights + w]);
#pragma GCC unroll 16
            for (size_t v = 0; v < kWide; ++v) sum[w][v] = multiply_add(weight, columns[v], sum[w][v]);
        }
    }
#pragma GCC unroll 16
    for (size_t w = 0; w < kWeights; ++w)
#pragma GCC unroll 16
        for (size_t v = 0; v < kWide; ++v) store(sums + w * d + v * kLanes, sum[w][v]);
}

// The same for all weights. The columns stay in the first cache meanwhile.
template <size_t kWide>
inline void add_all_weighted(const float* weights, size_t n_weights, const float* x, size_t n, size_t d, float* sums) {
    size_t w = 0;
    for (; w + kSumWeights <= n_weights; w += kSumWeights)
        add_weighted<kSumWeights, kWide>(weights + w, n_weights, x, n, d, sums + w * d);
    for (; w + 2 <= n_weights; w += 2) add_weighted<2, kWide>(weights + w, n_weights, x, n, d, sums + w * d);
    if (w < n_weights) add_weighted<1, kWide>(weights + w, n_weights, x, n, d, sums + w * d);
}

inline void add_rows(const float* weights, size_t n_weights, const float* x, size_t n, size_t d, float* sums) {
    size_t j = 0;
    for (; j + kSumVectors * kLanes <= d; j += kSumVectors * kLanes)
        add_all_weighted<kSumVectors>(weights, n_weights, x + j, n, d, sums + j);
    for (; j + kLanes <= d; j += kLanes) add_all_weighted<1>(weights, n_weights, x + j, n, d, sums + j);
    for (; j < d; ++j)
        for (size_t w = 0; w < n_weights; ++w) {
            float sum = sums[w * d + j];
            for (size_t i = 0; i < n; ++i) sum = __builtin_fmaf(weights[i * n_weights + w], x[i * d + j], sum);
            sums[w * d + j] = sum;
        }
}

void weighted_sums(const float* weights, size_t n_weights, const float* x, size_t n, size_t d, float* sums) {
    for (; n > kSumRows; n -= kSumRows, weights += kSumRows * n_weights, x += kSumRows * d)
        add_rows(weights, n_weights, x, kSumRows, d, sums);
    add_rows(weights, n_weights, x, n, d, sums);
}

}  // namespace

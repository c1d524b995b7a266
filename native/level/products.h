// Products of rows with packed matrices. A product has the same bits at every level, in any batch and on any number of
// threads.
//
// The order of all additions is fixed. The plain loop for one product is:
//   float sum = 0;
//   for (first = 0; first < d; first += kDepth) {
//       float part = 0;
//       for (k = first; k < min(first + kDepth, d); ++k) part = fma(x[k], y[k], part);
//       sum += part;
//   }
// A vector holds the sums of neighbouring columns. So no sum is divided between lanes.
#pragma once

#include "kernels.h"
#include "vector.h"

#if SUPQUANT_LANES > 1 && defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using supquant::kDepth;
using supquant::kGroup;
using supquant::kPanelGroups;
using supquant::first_group;
using supquant::Packed;

constexpr size_t kVectors = kGroup / kLanes;  // vectors of a group of columns

// Rows of x and groups of columns whose sums fill the registers. Every number that is loaded serves several sums: with one
// group, loads and not sums would take the time.
#if SUPQUANT_LANES == 16
constexpr size_t kTileRows = 12, kTileGroups = 2;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec spread(float value) { return _mm512_set1_ps(value); }
inline Vec widened(const uint16_t* from) {
    return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#elif SUPQUANT_LANES == 8
constexpr size_t kTileRows = 6, kTileGroups = 1;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec spread(float value) { return _mm256_set1_ps(value); }
inline Vec widened(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#elif SUPQUANT_LANES == 4
constexpr size_t kTileRows = 6, kTileGroups = 1;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
inline Vec spread(float value) { return vdupq_n_f32(value); }
inline Vec widened(const uint16_t* from) {
    return vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t*>(from)));
}
#else
constexpr size_t kTileRows = 1, kTileGroups = 1;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return __builtin_fmaf(a, b, c); }
inline Vec spread(float value) { return value; }
// A half has 10 bits of fraction and a float 23. Their exponents differ by 112, also for numbers below the normal ones.
inline Vec widened(const uint16_t* from) {
    const uint32_t bits = uint32_t(*from & 0x7fff) << 13, sign = uint32_t(*from & 0x8000) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    return sign ? -value : value;
}
#endif
inline Vec widened(const float* from) { return load<Vec>(from); }

// Adds the products of kRows rows of x with kGroups groups of columns: sums[i * stride + j] += ..., or = if `first`. Rows
// of x are x_stride floats apart. Column j of group g is at y[(g * kDepth + k) * kGroup + j].
template <size_t kRows, size_t kGroups>
inline void tile_products(const float* x, size_t x_stride, const float* y, size_t depth, bool first, float* sums,
                          size_t stride) {
    constexpr size_t kWide = kGroups * kVectors;
    Vec part[kRows][kWide] = {};
    for (size_t k = 0; k < depth; ++k) {
        Vec columns[kWide];
SUPQUANT_UNROLL
        for (size_t v = 0; v < kWide; ++v)
            columns[v] = load<Vec>(y + (v / kVectors * kDepth + k) * kGroup + v % kVectors * kLanes);
SUPQUANT_UNROLL
        for (size_t i = 0; i < kRows; ++i) {
            const Vec value = spread(x[i * x_stride + k]);
SUPQUANT_UNROLL
            for (size_t v = 0; v < kWide; ++v) part[i][v] = multiply_add(value, columns[v], part[i][v]);
        }
    }
SUPQUANT_UNROLL
    for (size_t i = 0; i < kRows; ++i)
SUPQUANT_UNROLL
        for (size_t v = 0; v < kWide; ++v) {
            float* to = sums + i * stride + v * kLanes;
            store(to, first ? part[i][v] : Vec(load<Vec>(to) + part[i][v]));
        }
}

// The same for any number of rows below kRows + 1.
template <size_t kRows, size_t kGroups>
inline void rest_products(size_t rows, const float* x, size_t x_stride, const float* y, size_t depth, bool first,
                          float* sums, size_t stride) {
    if constexpr (kRows > 0) {
        if (rows == kRows)
            tile_products<kRows, kGroups>(x, x_stride, y, depth, first, sums, stride);
        else
            rest_products<kRows - 1, kGroups>(rows, x, x_stride, y, depth, first, sums, stride);
    }
}

// The same for any number of rows.
template <size_t kGroups>
void group_products(size_t rows, const float* x, size_t x_stride, const float* y, size_t depth, bool first, float* sums,
                    size_t stride) {
    size_t i = 0;
    for (; i + kTileRows <= rows; i += kTileRows)
        tile_products<kTileRows, kGroups>(x + i * x_stride, x_stride, y, depth, first, sums + i * stride, stride);
    rest_products<kTileRows - 1, kGroups>(rows - i, x + i * x_stride, x_stride, y, depth, first, sums + i * stride,
                                          stride);
}

// Multiplies one row with kGroups groups of columns, which lie side by side in a panel: a row at the speed of memory.
template <size_t kGroups, class Stored>
[[gnu::noinline]] void row_products(const float* x, const Stored* panel, size_t d, float* sums) {
    constexpr size_t kWide = kGroups * kVectors;
    for (size_t begin = 0; begin < d; begin += kDepth) {
        const size_t end = begin + kDepth < d ? begin + kDepth : d;
        Vec part[kWide] = {};
        for (size_t k = begin; k < end; ++k) {
            const Vec value = spread(x[k]);
            const Stored* columns = panel + k * kGroups * kGroup;
SUPQUANT_UNROLL
            for (size_t v = 0; v < kWide; ++v)
                part[v] = multiply_add(value, widened(columns + v * kLanes), part[v]);
        }
SUPQUANT_UNROLL
        for (size_t v = 0; v < kWide; ++v) {
            float* to = sums + v * kLanes;
            store(to, begin == 0 ? part[v] : Vec(load<Vec>(to) + part[v]));
        }
    }
}

// The products of rows x (q, d) with the panels of y: sums (q, columns).
template <class Stored>
void panel_products(const float* x, size_t q, const Packed& y, const Stored* values, size_t first_panel,
                    size_t end_panel, float* sums, size_t stride) {
    if (q == 1) {
        for (size_t p = first_panel; p < end_panel; ++p) {
            const Stored* panel = values + first_group(y.n, p) * kGroup * y.d;
            float* to = sums + (first_group(y.n, p) - first_group(y.n, first_panel)) * kGroup;
            switch (first_group(y.n, p + 1) - first_group(y.n, p)) {
                case 1: row_products<1>(x, panel, y.d, to); break;
                case 2: row_products<2>(x, panel, y.d, to); break;
                case 3: row_products<3>(x, panel, y.d, to); break;
                default: row_products<4>(x, panel, y.d, to);
            }
        }
        return;
    }
    // A piece of a panel as floats, group after group. It is read from memory once and in order; while one group is
    // multiplied with all rows, it stays in the first cache.
    alignas(64) float columns[kPanelGroups * kDepth * kGroup];
    for (size_t p = first_panel; p < end_panel; ++p) {
        const size_t first = first_group(y.n, p), groups = first_group(y.n, p + 1) - first;
        const Stored* panel = values + first * kGroup * y.d;
        for (size_t begin = 0; begin < y.d; begin += kDepth) {
            const size_t depth = y.d - begin < kDepth ? y.d - begin : kDepth;
            for (size_t k = 0; k < depth; ++k)
                for (size_t g = 0; g < groups; ++g)
SUPQUANT_UNROLL
                    for (size_t v = 0; v < kVectors; ++v)
                        store(columns + (g * kDepth + k) * kGroup + v * kLanes,
                              widened(panel + ((begin + k) * groups + g) * kGroup + v * kLanes));
            for (size_t g = 0; g < groups;) {
                const float* group = columns + g * kDepth * kGroup;
                float* to = sums + (first - first_group(y.n, first_panel) + g) * kGroup;
                const bool whole = g + kTileGroups <= groups;
                (whole ? group_products<kTileGroups> : group_products<1>)(q, x + begin, y.d, group, depth, begin == 0, to,
                                                                          stride);
                g += whole ? kTileGroups : 1;
            }
        }
    }
}

void products(const float* x, size_t q, const Packed& y, size_t first_panel, size_t end_panel, float* sums,
              size_t stride) {
    if (y.d == 0) {
        const size_t columns = (first_group(y.n, end_panel) - first_group(y.n, first_panel)) * kGroup;
        for (size_t i = 0; i < q; ++i) __builtin_memset(sums + i * stride, 0, columns * sizeof(float));
    } else if (y.halves)
        panel_products(x, q, y, y.halves, first_panel, end_panel, sums, stride);
    else
        panel_products(x, q, y, y.floats, first_panel, end_panel, sums, stride);
}

}  // namespace

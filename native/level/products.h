// Inner products of rows. A product has the same bits at every level and whatever other rows are multiplied with it.
//
// The order of all additions is fixed. The plain loop for one product is:
//   float partial[kPartial] = {};
//   for (k = 0; k < d; ++k) partial[k % kPartial] = fma(x[k], y[k], partial[k % kPartial]);
//   for (half = kPartial / 2; half > 0; half /= 2)
//       for (p = 0; p < half; ++p) partial[p] += partial[p + half];
//   return partial[0];
#pragma once

#include "kernels.h"
#include "vector.h"

#if SUPQUANT_LANES > 1 && defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr size_t kPartial = 16;                 // partial sums of a product
constexpr size_t kVectors = kPartial / kLanes;  // vectors that hold them

// A tile multiplies kTileRows rows of x with kTileColumns rows of y. Its partial sums fill the registers.
#if SUPQUANT_LANES == 16
constexpr size_t kTileRows = 4, kTileColumns = 4;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif SUPQUANT_LANES == 8
constexpr size_t kTileRows = 3, kTileColumns = 2;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#elif SUPQUANT_LANES == 4
constexpr size_t kTileRows = 3, kTileColumns = 2;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
#else
constexpr size_t kTileRows = 1, kTileColumns = 1;
inline Vec multiply_add(Vec a, Vec b, Vec c) { return __builtin_fmaf(a, b, c); }
#endif

// Keeps a vector in a register. Without this, compilers load a row again for each product, and the loads take most of
// the time.
inline Vec in_register(Vec v) {
#if SUPQUANT_LANES > 1 && defined(__x86_64__)
    asm("" : "+v"(v));
#endif
    return v;
}

#if SUPQUANT_LANES == 1
inline void store_sums(float* to, const Vec* vectors) { *to = *vectors; }
#else
typedef int32_t Places __attribute__((vector_size(4 * kLanes)));

// Lane i of the result is lane places[i] of a, or lane places[i] - kLanes of b if places[i] is not below kLanes.
inline Vec picked(Vec a, Vec b, Places places) {
#if defined(__clang__)
    Vec found;
    for (int i = 0; i < kLanes; ++i) found[i] = places[i] < kLanes ? a[places[i]] : b[places[i] - kLanes];
    return found;
#else
    return __builtin_shuffle(a, b, places);
#endif
}

// Adds up lanes of kLanes / kHalf vectors, of which each becomes a group of kHalf lanes in the result: lane p of a
// group is the sum of the vector's lanes p, p + kHalf, p + 2 kHalf, ..., added by halves as above. One step takes two
// vectors a and b with groups of 2 kHalf lanes. The plain loop, over the groups g of a and then those of b, is:
//   for (p = 0; p < kHalf; ++p) result[group g][p] = group g[p] + group g[p + kHalf]
// Groups of four lanes or fewer stay within their 128 bits of the register, where moves are cheap: each 128 bits of the
// result then hold groups of a and after them groups of b. store_sums orders the vectors so that the sums come out in
// order.
template <int kHalf>
inline Vec halved(const Vec* vectors) {
    if constexpr (kHalf == kLanes) {
        return vectors[0];
    } else {
        constexpr int kSpan = kHalf < 4 ? 4 : kLanes;
        Places lower;
        for (int i = 0; i < kLanes; ++i) {
            const int place = i % kSpan / kHalf * 2 * kHalf + i % kHalf;
            lower[i] = i / kSpan * kSpan + place % kSpan + (place < kSpan ? 0 : kLanes);
        }
        const Vec a = halved<2 * kHalf>(vectors), b = halved<2 * kHalf>(vectors + kLanes / 2 / kHalf);
        return picked(a, b, lower) + picked(a, b, lower + kHalf);
    }
}

// to[i] = sum of the lanes of vectors[i], for i < kLanes.
inline void store_sums(float* to, const Vec* vectors) {
    constexpr int kQuarters = kLanes / 4;
    Vec ordered[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) ordered[i] = vectors[i % kQuarters * 4 + i / kQuarters];
    store(to, halved<1>(ordered));
}
#endif

// Rows, and a copy of their last d % kPartial columns, filled up with zeros to kPartial columns.
struct Rows {
    const float* data;  // (n, d)
    const float* rest;  // (n, kPartial)
    size_t d;

    // The rows from `row` on.
    inline Rows from(size_t row) const { return {data + row * d, rest + row * kPartial, d}; }
};

// Fills `rest` and returns the rows with it.
inline Rows with_rest(const float* data, size_t n, size_t d, float* rest) {
    const size_t whole = d / kPartial * kPartial;
    for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < kPartial; ++k) rest[i * kPartial + k] = whole + k < d ? data[i * d + whole + k] : 0;
    return {data, rest, d};
}

// sums[i * stride + j] = x[i] . y[j] for i < kRows and j < kColumns.
template <size_t kRows, size_t kColumns>
inline void tile_products(Rows x, Rows y, float* sums, size_t stride) {
    Vec partial[kVectors][kRows * kColumns] = {};
    // Takes kPartial columns of every row; rows are `apart` floats apart.
    const auto take = [&](const float* left, const float* right, size_t apart) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (size_t v = 0; v < kVectors; ++v) {
            Vec columns[kColumns];
#pragma GCC unroll 16
            for (size_t j = 0; j < kColumns; ++j) columns[j] = in_register(load<Vec>(right + j * apart + v * kLanes));
#pragma GCC unroll 16
            for (size_t i = 0; i < kRows; ++i) {
                const Vec row = in_register(load<Vec>(left + i * apart + v * kLanes));
#pragma GCC unroll 16
                for (size_t j = 0; j < kColumns; ++j) {
                    Vec& sum = partial[v][i * kColumns + j];
                    sum = multiply_add(row, columns[j], sum);
                }
            }
        }
    };
    const size_t whole = x.d / kPartial * kPartial;
    for (size_t k = 0; k < whole; k += kPartial) take(x.data + k, y.data + k, x.d);
    if (whole < x.d) take(x.rest, y.rest, kPartial);
#pragma GCC unroll 4
    for (size_t half = kVectors / 2; half > 0; half /= 2)
#pragma GCC unroll 16
        for (size_t v = 0; v < half; ++v)
#pragma GCC unroll 16
            for (size_t i = 0; i < kRows * kColumns; ++i) partial[v][i] += partial[v + half][i];
    constexpr size_t kPadded = (kRows * kColumns + kLanes - 1) / kLanes * kLanes;
    Vec vectors[kPadded] = {};
    float added[kPadded];
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows * kColumns; ++i) vectors[i] = partial[0][i];
#pragma GCC unroll 16
    for (size_t i = 0; i < kPadded; i += kLanes) store_sums(added + i, vectors + i);
    for (size_t i = 0; i < kRows; ++i)
        for (size_t j = 0; j < kColumns; ++j) sums[i * stride + j] = added[i * kColumns + j];
}

// sums[i * stride + j] = x[i] . y[j] for i < kRows and j < n.
template <size_t kRows>
inline void strip_products(Rows x, Rows y, size_t n, float* sums, size_t stride) {
    size_t j = 0;
    for (; j + kTileColumns <= n; j += kTileColumns) tile_products<kRows, kTileColumns>(x, y.from(j), sums + j, stride);
    for (; j < n; ++j) tile_products<kRows, 1>(x, y.from(j), sums + j, stride);
}

// Rows of y that are multiplied with all rows of x before the next ones. They stay in the first cache.
constexpr size_t kStripColumns = 4 * kTileColumns;

void products(const float* x_data, size_t q, const float* y_data, size_t n, size_t d, float* sums, size_t stride) {
    float x_rest[supquant::kProductRows * kPartial], y_rest[kStripColumns * kPartial];
    const Rows x = with_rest(x_data, q, d, x_rest);
    for (size_t j = 0; j < n; j += kStripColumns) {
        const size_t columns = n - j < kStripColumns ? n - j : kStripColumns;
        const Rows y = with_rest(y_data + j * d, columns, d, y_rest);
        size_t i = 0;
        for (; i + kTileRows <= q; i += kTileRows)
            strip_products<kTileRows>(x.from(i), y, columns, sums + i * stride + j, stride);
        for (; i < q; ++i) strip_products<1>(x.from(i), y, columns, sums + i * stride + j, stride);
    }
}

}  // namespace

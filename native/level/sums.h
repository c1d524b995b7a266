// Sums over codes: statistics for training, decoded vectors, sums of tables. kernels.h says what each kernel computes.
#pragma once

#include "codebooks.h"
#include "kernels.h"
#include "vector.h"

namespace {

void code_sums(const uint32_t* rows, const uint32_t* starts, const float* slice, int K, size_t stride, int columns,
               double* sums) {
    using Doubles = Of<double>::Vector;
    typedef float Floats __attribute__((vector_size(sizeof(Doubles) / 2)));
    constexpr int kDoubles = sizeof(Doubles) / sizeof(double);
    constexpr int kVectors = 8, kRun = kVectors * kDoubles;  // the sums of a run of columns stay in registers
    for (int k = 0; k < K; ++k) {
        if (starts[k] == starts[k + 1]) continue;
        for (int first = 0; first < columns; first += kRun) {
            const int width = columns - first < kRun ? columns - first : kRun;
            double* into = sums + size_t(k) * stride + first;
            double some[kRun] = {};
            for (int j = 0; j < width; ++j) some[j] = into[j];
            Doubles sum[kVectors];
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) sum[v] = load<Doubles>(some + v * kDoubles);
            for (uint32_t i = starts[k]; i < starts[k + 1]; ++i) {
                const float* row = slice + size_t(rows[i]) * supquant::kSumColumns + first;
#pragma GCC unroll 8
                for (int v = 0; v < kVectors; ++v) sum[v] += __builtin_convertvector(load<Floats>(row + v * kDoubles), Doubles);
            }
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) store(some + v * kDoubles, sum[v]);
            for (int j = 0; j < width; ++j) into[j] = some[j];
        }
    }
}

void pair_block(const uint8_t* codes, const double* weights, size_t n, int M, int a, int b, size_t height, size_t width,
                double* block) {
    __builtin_memset(block, 0, height * width * sizeof(double));
    for (size_t i = 0; i < n; ++i) block[codes[i * M + a] * width + codes[i * M + b]] += weights[i];
}

void interaction(const uint8_t* codes, const double* gram, int M, const uint64_t* first, size_t begin, size_t end,
                 double* e) {
    const size_t width = first[M];
    for (size_t i = begin; i < end; ++i) {
        const uint8_t* code = codes + i * M;
        double sum = 0;
        for (int a = 0; a < M; ++a) {
            const double* row = gram + (first[a] + code[a]) * width;
            for (int b = a + 1; b < M; ++b) sum += row[first[b] + code[b]];
        }
        e[i] = 2.0 * sum;
    }
}

// kCodebooks is M, or 0 if only M at run time is known.
template <int kCodebooks>
void table_sums_of(const uint8_t* codes, const float* table, int M, int K, size_t begin, size_t end, float* sums) {
    for (size_t i = begin; i < end; ++i) {
        const uint8_t* code = codes + i * (kCodebooks ? kCodebooks : M);
        float sum = table[code[0]];
        for_other_codebooks<kCodebooks>(M, [&](int m) { sum += table[m * K + code[m]]; });
        sums[i] = sum;
    }
}

void table_sums(const uint8_t* codes, const float* table, int M, int K, size_t begin, size_t end, float* sums) {
    with_codebooks(M, [&](auto count) { table_sums_of<decltype(count)::value>(codes, table, M, K, begin, end, sums); });
}

template <class Real>
void decode(const uint8_t* codes, const Real* codebooks, int M, int K, size_t r, size_t begin, size_t end, Real* out) {
    for (size_t i = begin; i < end; ++i) {
        const uint8_t* code = codes + i * M;
        sum_of_rows([=](int m) { return codebooks + (size_t(m) * K + code[m]) * r; }, M, int(r), out + i * r);
    }
}

}  // namespace

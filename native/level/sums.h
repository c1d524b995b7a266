// Sums over codes: statistics for training, decoded vectors, sums of tables. kernels.h says what each kernel computes.
#pragma once

#include "codebooks.h"
#include "kernels.h"

namespace {

void code_sums(const uint32_t* rows, const uint32_t* starts, const float* slice, int K, size_t stride, int columns,
               double* sums) {
    for (int k = 0; k < K; ++k) {
        if (starts[k] == starts[k + 1]) continue;
        double sum[supquant::kSumColumns] = {};
        double* into = sums + size_t(k) * stride;
        for (int j = 0; j < columns; ++j) sum[j] = into[j];
        for (uint32_t i = starts[k]; i < starts[k + 1]; ++i) {
            const float* row = slice + size_t(rows[i]) * supquant::kSumColumns;
            for (int j = 0; j < supquant::kSumColumns; ++j) sum[j] += row[j];
        }
        for (int j = 0; j < columns; ++j) into[j] = sum[j];
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
    const int count = kCodebooks ? kCodebooks : M;
    for (size_t i = begin; i < end; ++i) {
        const uint8_t* code = codes + i * count;
        float sum = table[code[0]];
        for (int m = 1; m < count; ++m) sum += table[m * K + code[m]];
        sums[i] = sum;
    }
}

void table_sums(const uint8_t* codes, const float* table, int M, int K, size_t begin, size_t end, float* sums) {
    with_codebooks(M, [&](auto count) { table_sums_of<decltype(count)::value>(codes, table, M, K, begin, end, sums); });
}

template <class Real>
void decode(const uint8_t* codes, const Real* codebooks, int M, int K, size_t r, size_t begin, size_t end, Real* out) {
    for (size_t i = begin; i < end; ++i) {
        Real* __restrict sum = out + i * r;
        for (int m = 0; m < M; ++m) {
            const Real* __restrict codeword = codebooks + (size_t(m) * K + codes[i * M + m]) * r;
            if (m == 0)
                for (size_t column = 0; column < r; ++column) sum[column] = codeword[column];
            else
                for (size_t column = 0; column < r; ++column) sum[column] += codeword[column];
        }
    }
}

}  // namespace

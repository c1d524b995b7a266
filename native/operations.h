// The operations Python sees: kernels of the active instruction set, cut into tasks for the thread pool.
//
// Every task writes its own part of the result in an order of its own rows, so the number of threads never changes a bit.
#pragma once

#include "kernels.h"

namespace supquant {

// Codes as all operations take them.
struct Codes {
    const uint8_t* data;   // (n, M)
    size_t n;
    int M;
    int K;
};

void code_sums(const Codes& codes, const float* X, size_t d, double* sums, int n_threads);
void pair_counts(const Codes& codes, const double* weights, double* counts, int n_threads);

struct InteractionSums {
    double sum_e;
    double sum_sq;
};
InteractionSums interaction(const Codes& codes, const uint64_t* first, const double* weights, const double* gram,
                            double eps, double* derivative, int n_threads);

void assign(AssignProblem problem, size_t n, int n_threads);
void greedy(const float* unary, const float* cross, size_t n, int M, int K, uint8_t* codes, int n_threads);
void table_sums(const Codes& codes, const float* tables, size_t n_queries, float* sums, int n_threads);
void decode(const Codes& codes, const float* codebooks, size_t r, float* out, int n_threads);
void decode(const Codes& codes, const double* codebooks, size_t r, double* out, int n_threads);

}  // namespace supquant

// Sums over codes (n, M), in the order of the codebooks, as native/level/sums.h makes them.

typedef unsigned char Byte;

// Sums (q, n) of tables (q, M, K) at codes (n, M).
extern "C" __global__ void table_sums(const Byte* codes, const float* tables, float* sums, long long n, int M, int K) {
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= n) return;
    const float* table = tables + (long long)blockIdx.y * M * K;
    float sum = table[codes[row * M]];
    for (int m = 1; m < M; ++m) sum += table[m * K + codes[row * M + m]];
    sums[blockIdx.y * n + row] = sum;
}

// Sums (n, r) of the codewords in codebooks (M, K, r) that codes (n, M) name. Real is float or double.
template <class Real>
__device__ void decode_row(const Byte* codes, const Real* codebooks, Real* sums, int M, int K, int r) {
    const long long row = blockIdx.x;
    for (int j = threadIdx.x; j < r; j += blockDim.x) {
        Real sum = codebooks[(long long)codes[row * M] * r + j];
        for (int m = 1; m < M; ++m) sum += codebooks[((long long)m * K + codes[row * M + m]) * r + j];
        sums[row * r + j] = sum;
    }
}

extern "C" __global__ void decode_float(const Byte* codes, const float* codebooks, float* sums, int M, int K, int r) {
    decode_row(codes, codebooks, sums, M, K, r);
}

extern "C" __global__ void decode_double(const Byte* codes, const double* codebooks, double* sums, int M, int K,
                                         int r) {
    decode_row(codes, codebooks, sums, M, K, r);
}

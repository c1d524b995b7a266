// Products of rows with the rows of a matrix, in the order of additions of the CPU, so that both give the same bits.
//
// The plain loop for one product is that of native/level/products.h:
//   float sum = 0;
//   for (first = 0; first < d; first += kDepth) {
//       float part = 0;
//       for (k = first; k < min(first + kDepth, d); ++k) part = fma(x[k], y[k], part);
//       sum = first == 0 ? part : sum + part;
//   }
// A tile of 128 rows and 128 columns belongs to a block of 256 threads, and a square of 8 by 8 of its sums to a thread. No sum is
// divided between threads.

constexpr int kDepth = 256;   // columns whose products are added up before their sum is added to that of other columns
constexpr int kTile = 128;    // rows and columns of a tile
constexpr int kStep = 16;     // columns of x that are in shared memory at a time; a divisor of kDepth
constexpr int kPadding = 4;   // keeps the rows of a transposed tile in different banks

__device__ inline float4 load_four(const float* row, int k, int d, bool aligned) {
    if (aligned && k + 3 < d) return *reinterpret_cast<const float4*>(row + k);
    return {k < d ? row[k] : 0.0f, k + 1 < d ? row[k + 1] : 0.0f, k + 2 < d ? row[k + 2] : 0.0f,
            k + 3 < d ? row[k + 3] : 0.0f};
}

// sums (n_rows, n) = x (n_rows, d) y, whose entry (k, j) is at y[k * stride + j]. y is filled up with zeros to `stride` columns, a
// multiple of kTile, and to a multiple of kStep rows.
extern "C" __global__ void __launch_bounds__(256, 2)
products(const float* x, const float* y, float* sums, long long n_rows, int n, int d, int stride) {
    __shared__ __align__(16) float xs[2][kStep][kTile + kPadding];
    __shared__ __align__(16) float ys[2][kStep][kTile];
    const int t = threadIdx.x;
    const long long top = (long long)blockIdx.y * kTile;
    const int left = blockIdx.x * kTile;
    const bool aligned = d % 4 == 0;
    const int x_row = t / 4, x_k = t % 4 * 4;  // of the four numbers of x that this thread loads, twice
    const int y_k = t / 32, y_column = t % 32 * 4;
    const int down = t / 16 * 4, across = t % 16 * 4;  // of the sums of this thread: 4 by 4 in each quarter of the tile
    const float4 nothing = {0, 0, 0, 0};
    float4 next_x[2], next_y[2];

    const auto fetch = [&](int k) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const long long row = top + x_row + 64 * i;
            next_x[i] = row < n_rows ? load_four(x + row * d, k + x_k, d, aligned) : nothing;
            next_y[i] = *reinterpret_cast<const float4*>(y + (long long)(k + y_k + 8 * i) * stride + left + y_column);
        }
    };
    const auto place = [&](int side) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            xs[side][x_k][x_row + 64 * i] = next_x[i].x;
            xs[side][x_k + 1][x_row + 64 * i] = next_x[i].y;
            xs[side][x_k + 2][x_row + 64 * i] = next_x[i].z;
            xs[side][x_k + 3][x_row + 64 * i] = next_x[i].w;
            *reinterpret_cast<float4*>(&ys[side][y_k + 8 * i][y_column]) = next_y[i];
        }
    };

    float part[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) part[i][j] = 0;

    fetch(0);
    place(0);
    __syncthreads();
    const int steps = (d + kStep - 1) / kStep;
    for (int step = 0; step < steps; ++step) {
        const int side = step % 2;
        if (step + 1 < steps) fetch((step + 1) * kStep);
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
            float a[8], b[8];
            *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&xs[side][k][down]);
            *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&xs[side][k][down + 64]);
            *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&ys[side][k][across]);
            *reinterpret_cast<float4*>(b + 4) = *reinterpret_cast<const float4*>(&ys[side][k][across + 64]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) part[i][j] = fmaf(a[i], b[j], part[i][j]);
        }
        if (step + 1 < steps) place(1 - side);
        const int done = (step + 1) * kStep;
        if (done % kDepth == 0 || step + 1 == steps) {
            const bool first = done <= kDepth;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const long long row = top + down + i % 4 + i / 4 * 64;
                if (row >= n_rows) continue;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const int column = left + across + j % 4 + j / 4 * 64;
                    if (column >= n) continue;
                    float& sum = sums[row * n + column];
                    sum = first ? part[i][j] : sum + part[i][j];
                    part[i][j] = 0;
                }
            }
        }
        __syncthreads();
    }
}
